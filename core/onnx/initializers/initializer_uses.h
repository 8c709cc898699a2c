// The uses of a graph's initializers by its nodes, and the roles of tensors with such uses. For the sources of this
// folder only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/onnx/import/graph_importer.h"
#include "core/onnx/proto.h"
#include "core/tensor/tensor.h"

namespace rewright {

struct Reader {
  const onnx::NodeProto* node = nullptr;
  int input = 0;
};

// Indexes the nodes of a graph by the tensors that they read and give. Pointers live as long as no node is removed.
class NodeUses {
 public:
  explicit NodeUses(const onnx::GraphProto& graph);

  const std::vector<Reader>& ReadersOf(const std::string& name) const;
  // Returns null for inputs and initializers.
  const onnx::NodeProto* ProducerOf(const std::string& name) const;
  // True if the graph of a node (If, Loop, Scan) reads the tensor; its nodes are not listed here.
  bool IsInSubgraph(const std::string& name) const { return in_subgraphs_.contains(name); }

 private:
  absl::flat_hash_map<std::string, std::vector<Reader>> readers_;
  absl::flat_hash_map<std::string, const onnx::NodeProto*> producers_;
  absl::flat_hash_set<std::string> in_subgraphs_;
};

// Returns the reason why an input never holds a weight; empty if it may.
std::string NeverOf(const std::string& op, int input);
// True for inputs that hold weights in nearly every file.
bool IsWeightOf(const std::string& op, int input);
// True if the output has exactly the elements of input 0.
bool MovesOnly(const onnx::NodeProto& node, int input);
// True if a tensor at a factor or summand of the node stands where the scale or the bias of a norm does: one number for
// each channel, directly behind an operator of normalization or a division by a square root.
bool IsBehindNorm(const NodeUses& uses, const InitializersByName& initializers, const Reader& reader,
                  const Tensor& tensor);

// True for names that PyTorch's two exporters, tf2onnx and this program give to tensors that the model does not name;
// such a name may end with the number of a part, if an initializer was split.
bool IsGeneratedName(const std::string& name);

// Returns the number that all elements are; none if two differ, or there are none.
std::optional<double> UniformElement(const Tensor& tensor);

}  // namespace rewright
