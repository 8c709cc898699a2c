// How the nodes of a graph use its initializers, and what tensors of such a use are. For the sources of this folder
// only.
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

// The nodes of a graph by what they read and give. Pointers live as long as no node is removed.
class NodeUses {
 public:
  explicit NodeUses(const onnx::GraphProto& graph);

  const std::vector<Reader>& ReadersOf(const std::string& name) const;
  // Null for inputs and initializers.
  const onnx::NodeProto* ProducerOf(const std::string& name) const;
  // Read by the graph of a node (If, Loop, Scan), whose nodes are not listed here.
  bool IsInSubgraph(const std::string& name) const { return in_subgraphs_.contains(name); }

 private:
  absl::flat_hash_map<std::string, std::vector<Reader>> readers_;
  absl::flat_hash_map<std::string, const onnx::NodeProto*> producers_;
  absl::flat_hash_set<std::string> in_subgraphs_;
};

// Why an input never holds a weight; empty: it may.
std::string NeverOf(const std::string& op, int input);
// Inputs that hold weights in nearly every file.
bool IsWeightOf(const std::string& op, int input);
// The output has the elements of input 0 and no others.
bool MovesOnly(const onnx::NodeProto& node, int input);
// True if a tensor at a factor or summand of the node stands where the scale or the bias of a norm does: one number for
// each channel, directly behind an operator of normalization or a division by a square root.
bool IsBehindNorm(const NodeUses& uses, const InitializersByName& initializers, const Reader& reader,
                  const Tensor& tensor);

// Names that PyTorch's two exporters, tf2onnx and this program give to what no model names; with the number of a part,
// where an initializer became several.
bool IsGeneratedName(const std::string& name);

// The number that all elements are; none where two differ, or there are none.
std::optional<double> UniformElement(const Tensor& tensor);

}  // namespace rewright
