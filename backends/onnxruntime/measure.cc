#include "backends/onnxruntime/measure.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/group.h"
#include "backends/sampling.h"
#include "core/base/status_macros.h"
#include "core/ir/memory.h"
#include "core/onnx/onnx.h"

namespace rewright::ort {
namespace {

constexpr int64_t kMaxCopies = 32;
constexpr int64_t kActivationBytes = int64_t{16} << 20;  // of all copies: results of the node before lie in caches

// Of weights, all copies together: what is read in turn is in no cache of half the size.
int64_t WeightBytes() {
  constexpr int64_t kUsualCache = int64_t{32} << 20;
  const int64_t cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return 2 * (cache > 0 ? cache : kUsualCache);
}

int64_t CopiesOf(const Graph& graph, const Group& group) {
  int64_t weights = 1, activations = 1;
  for (Value input : group.inputs) {
    (graph.IsKnown(input) ? weights : activations) += graph.type(input).num_bytes();
  }
  for (Value output : group.outputs) activations += graph.type(output).num_bytes();
  const int64_t copies = std::min(WeightBytes() / weights + 1, kActivationBytes / activations);
  return std::clamp<int64_t>(copies, 1, kMaxCopies);
}

struct Operands {
  std::vector<Tensor> tensors;
  std::vector<void*> addresses;

  absl::Status Add(const TensorType& type, const std::string& what) {
    ASSIGN_OR_RETURN(Tensor tensor, AllocateTensor(type, what));
    tensors.push_back(std::move(tensor));
    addresses.push_back(tensors.back().data());
    return absl::OkStatus();
  }
};

}  // namespace

std::vector<Port> InputPorts(const Graph& graph) {
  std::vector<Port> ports;
  for (Value input : graph.inputs()) ports.push_back({graph.node(input.node).name, graph.type(input)});
  return ports;
}

std::vector<Port> OutputPorts(const Graph& graph) {
  std::vector<Port> ports;
  for (const Output& output : graph.results()) ports.push_back({output.name, graph.type(output.value)});
  return ports;
}

absl::StatusOr<ProfileEntry> MeasureGroup(const Library& library, int threads, const Graph& graph, const Group& group,
                                          cpu::DisturbanceProbe& probe) {
  const std::string what = absl::StrCat("measuring ", GroupText(graph, group));
  const int64_t copies = CopiesOf(graph, group);
  ASSIGN_OR_RETURN(const GroupGraph extracted, ExtractGroup(graph, group, static_cast<int>(copies)));
  ExportOptions options;
  options.max_inline_bytes = std::numeric_limits<int32_t>::max();
  ASSIGN_OR_RETURN(const std::string model, ExportOnnxBytes(extracted.graph, {}, options));
  ASSIGN_OR_RETURN(const std::shared_ptr<const Session> session,
                   library.Load(model, InputPorts(extracted.graph), OutputPorts(extracted.graph), threads));
  Operands inputs, outputs;
  for (Value input : extracted.graph.inputs()) {
    const TensorType& type = extracted.graph.type(input);
    RETURN_IF_ERROR(inputs.Add(type, what));
    FillTypical(inputs.addresses.back(), type.dtype, type.num_elements(), TypicalIntegers(extracted.graph, input));
  }
  for (const Output& output : extracted.graph.outputs()) {
    RETURN_IF_ERROR(outputs.Add(extracted.graph.type(output.value), what));
  }
  RETURN_IF_ERROR(session->Run(inputs.addresses.data(), outputs.addresses.data()));  // plans its memory
  return TakeSamples(
      [&]() -> absl::StatusOr<double> {
        const auto start = std::chrono::steady_clock::now();
        RETURN_IF_ERROR(session->Run(inputs.addresses.data(), outputs.addresses.data()));
        const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
        return elapsed.count() / static_cast<double>(copies);
      },
      static_cast<int>(copies), {}, probe);
}

}  // namespace rewright::ort
