#include "backends/onnxruntime/opaque_nodes.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/common/node_access.h"
#include "core/base/status_macros.h"
#include "core/ops/foreign.h"

namespace rewright::ort {

void OpaqueNodes::Add(const ImportedModel& model) {
  const std::lock_guard<std::mutex> lock(mutex_);
  // Nodes of equal numbers are one function, whichever file they are in.
  for (const OpaqueNode& node : model.opaque) nodes_.emplace(node.number, node);
}

const OpaqueNode* OpaqueNodes::Find(const Node& node) const {
  const auto found = nodes_.find(Int(node, "node"));
  return found == nodes_.end() ? nullptr : &found->second;
}

absl::StatusOr<std::unique_ptr<Kernel>> OpaqueNodes::MakeKernel(const Graph& graph, NodeId id,
                                                                const std::vector<const Tensor*>& known,
                                                                int threads) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Node& node = graph.node(id);
  const OpaqueNode* const opaque = Find(node);
  if (opaque == nullptr) {
    return absl::UnimplementedError(absl::StrCat(node.op->name, " is not known here, and its file is not at hand"));
  }
  if (library_ == nullptr) {
    absl::StatusOr<std::shared_ptr<const Library>> library = Library::Open();
    if (!library.ok()) {
      std::vector<std::string> names;
      for (NodeId other : graph.nodes()) {
        if (!IsForeign(graph.node(other))) continue;
        const OpaqueNode* const named = Find(graph.node(other));
        names.push_back(named == nullptr ? graph.node(other).op->name : named->node);
      }
      return absl::Status(library.status().code(), absl::StrCat(absl::StrJoin(names, ", "), ": not known here, and ",
                                                                "onnxruntime, which would run that, is not found: ",
                                                                library.status().message()));
    }
    library_ = *std::move(library);
  }
  std::vector<TensorType> operands;
  std::vector<Port> inputs, outputs;
  for (size_t k = 0; k < node.operands.size(); ++k) {
    operands.push_back(graph.type(node.operands[k]));
    if (known[k] == nullptr) inputs.push_back({absl::StrCat("x", k), operands.back()});
  }
  for (size_t k = 0; k < node.outputs.size(); ++k) outputs.push_back({absl::StrCat("y", k), node.outputs[k]});
  ASSIGN_OR_RETURN(const std::string model, OpaqueNodeModel(*opaque, operands, known, node.outputs));
  absl::StatusOr<std::shared_ptr<const ModelSession>> session =
      library_->Load(model, std::move(inputs), std::move(outputs), threads);
  if (!session.ok()) return ErrorAt(opaque->node, session.status());
  return MakeSessionKernel(*std::move(session));
}

}  // namespace rewright::ort
