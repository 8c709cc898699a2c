#include "runtime/signature.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/tensor/memory.h"

namespace rewright {
namespace {

bool Share(const Tensor& a, const Tensor& b) {
  const char* at = static_cast<const char*>(a.data());
  const char* bt = static_cast<const char*>(b.data());
  return at == bt || (at < bt + b.num_bytes() && bt < at + a.num_bytes());
}

}  // namespace

bool AddressRanges::Meets(const void* begin, size_t bytes) const {
  const char* const first = static_cast<const char*>(begin);
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [&](const auto& range) { return range.first < first + bytes && first < range.second; });
}

Signature::Signature(const Graph& graph) {
  for (Value input : graph.inputs()) {
    input_names.push_back(graph.node(input.node).name);
    inputs.push_back(graph.type(input));
  }
  for (const Output& output : graph.results()) outputs.push_back(graph.type(output.value));
  if (graph.mode() != Mode::kTraining) return;
  for (Value state : graph.states()) states.emplace(graph.node(state.node).name, graph.type(state));
}

absl::StatusOr<TensorType> Signature::TypeOfState(const std::string& name) const {
  const auto found = states.find(name);
  if (found != states.end()) return found->second;
  return absl::NotFoundError(absl::StrCat("no state ", name, ", of ", states.size()));
}

absl::Status Signature::CheckState(const std::string& name, const Tensor& value) const {
  ASSIGN_OR_RETURN(const TensorType type, TypeOfState(name));
  if (value.type() == type && value.data() != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("state ", name, ": found ", value.type().ToString(), ", expected ", type.ToString()));
}

absl::Status Signature::CheckInputs(const std::vector<Tensor>& given) const {
  if (given.size() != inputs.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("run: ", given.size(), " inputs given, ", inputs.size(), " expected"));
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i].type() == inputs[i] && given[i].data() != nullptr) continue;
    return absl::InvalidArgumentError(absl::StrCat("run: input ", input_names[i], " is ",
                                                   given[i].data() == nullptr ? "empty" : given[i].type().ToString(),
                                                   ", expected ", inputs[i].ToString()));
  }
  return absl::OkStatus();
}

absl::Status Signature::PrepareOutputs(const std::vector<Tensor>& given, const AddressRanges& reserved,
                                       std::vector<Tensor>* results) const {
  results->resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    Tensor& output = (*results)[i];
    bool fresh = output.data() == nullptr || output.type() != outputs[i];
    fresh = fresh || reserved.Meets(output.data(), static_cast<size_t>(output.num_bytes()));
    for (size_t j = 0; j < given.size() && !fresh; ++j) fresh = Share(given[j], output);
    for (size_t j = 0; j < i && !fresh; ++j) fresh = Share((*results)[j], output);
    if (fresh) {
      ASSIGN_OR_RETURN(output, AllocateTensor(outputs[i], absl::StrCat("output ", i)));
    }
  }
  return absl::OkStatus();
}

}  // namespace rewright
