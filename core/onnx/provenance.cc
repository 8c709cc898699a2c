#include "core/onnx/provenance.h"

#include <google/protobuf/unknown_field_set.h>

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace rewright {
namespace {

// Numbers of the fields `metadata_props`, which the messages here may lack.
constexpr int kOfGraph = 16, kOfValue = 4;

constexpr char kSignature[] = "pkg.torch.export.ExportedProgram.graph_signature";
constexpr char kKind[] = "pkg.torch.export.graph_signature.InputSpec.kind";
constexpr char kFoldedFrom[] = "pkg.onnxscript.optimizer.folded_from";

template <typename Message>
std::map<std::string, std::string> Metadata(const Message& message, int number) {
  std::map<std::string, std::string> found;
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const auto add = [&](const onnx::StringStringEntryProto& entry) { found.emplace(entry.key(), entry.value()); };
  if (const auto* field = message.GetDescriptor()->FindFieldByNumber(number); field != nullptr) {
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      add(static_cast<const onnx::StringStringEntryProto&>(reflection.GetRepeatedMessage(message, field, i)));
    }
    return found;
  }
  const auto& fields = reflection.GetUnknownFields(message);
  for (int i = 0; i < fields.field_count(); ++i) {
    const google::protobuf::UnknownField& field = fields.field(i);
    if (field.number() != number || field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) continue;
    onnx::StringStringEntryProto entry;
    if (entry.ParseFromString(field.length_delimited())) add(entry);
  }
  return found;
}

// Returns the text between the first two quotes after `begin`, which are Python's: ' or ".
std::string Quoted(absl::string_view text, size_t begin, size_t* end) {
  const size_t from = text.find_first_of("'\"", begin);
  const size_t to = from == text.npos ? text.npos : text.find(text[from], from + 1);
  *end = to;
  return to == text.npos ? "" : std::string(text.substr(from + 1, to - from - 1));
}

}  // namespace

Provenance::Provenance(const onnx::GraphProto& graph) {
  const std::map<std::string, std::string> metadata = Metadata(graph, kOfGraph);
  if (const auto signature = metadata.find(kSignature); signature != metadata.end()) {
    // Parses a line such as p_head_weight: PARAMETER target='head.weight'.
    for (absl::string_view line : absl::StrSplit(signature->second, '\n')) {
      const size_t target = line.find("target=");
      if (target == line.npos) continue;
      const bool parameter = absl::StrContains(line, ": PARAMETER "),
                 buffer = absl::StrContains(line, ": BUFFER ") || absl::StrContains(line, ": CONSTANT_TENSOR ");
      size_t end = 0;
      const std::string name = Quoted(line, target, &end);
      if ((parameter || buffer) && !name.empty()) parameters_[name] = parameter;
    }
  }
  for (const onnx::ValueInfoProto& info : graph.value_info()) {
    const std::map<std::string, std::string> said = Metadata(info, kOfValue);
    if (const auto kind = said.find(kKind); kind != said.end()) {
      if (kind->second == "PARAMETER") parameters_.emplace(info.name(), true);
      if (kind->second == "BUFFER" || kind->second == "CONSTANT_TENSOR") parameters_.emplace(info.name(), false);
    }
    if (const auto folded = said.find(kFoldedFrom); folded != said.end()) {
      std::set<std::string>& sources = sources_[info.name()];
      size_t at = 0;
      while (at < folded->second.size()) {
        const std::string name = Quoted(folded->second, at, &at);
        if (at == std::string::npos) break;
        sources.insert(name);
        ++at;
      }
    }
  }
}

Provenance::Kind Provenance::KindOf(const std::string& initializer) const {
  if (const auto found = sources_.find(initializer); found != sources_.end()) {
    if (!ParametersOf(initializer).empty()) return Kind::kParameter;
    // Without a list of the parameters, a source that no longer exists may have been one.
    return parameters_.empty() ? Kind::kUnsaid : Kind::kConstant;
  }
  const auto found = parameters_.find(initializer);
  if (found == parameters_.end()) return Kind::kUnsaid;
  return found->second ? Kind::kParameter : Kind::kConstant;
}

bool Provenance::IsBuffer(const std::string& initializer) const {
  const auto found = parameters_.find(initializer);
  return !sources_.contains(initializer) && found != parameters_.end() && !found->second;
}

std::set<std::string> Provenance::ParametersOf(const std::string& initializer) const {
  std::set<std::string> parameters;
  const auto found = sources_.find(initializer);
  if (found == sources_.end()) return parameters;
  for (const std::string& source : found->second) {
    const auto parameter = parameters_.find(source);
    if (parameter != parameters_.end() && parameter->second) parameters.insert(source);
  }
  return parameters;
}

std::set<std::string> Provenance::SourcesOf(const std::string& initializer) const {
  const auto found = sources_.find(initializer);
  return found == sources_.end() ? std::set<std::string>() : found->second;
}

}  // namespace rewright
