// Cuts a model out of the file of another one: the nodes between some tensors, as they stand in the file. A tensor at
// which the computation begins becomes an input.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"
#include "core/onnx/onnx.h"

namespace rewright {

// A node of a file. Its reads include those of graphs that it holds.
struct FileNode {
  std::string op;          // with its domain, unless that is ONNX's own
  std::string attributes;  // equal for nodes with the same attributes
  std::vector<std::string> reads;
  std::vector<std::string> outputs;
};

// The nodes of the file, in order. A model with functions has the nodes of their bodies.
std::vector<FileNode> FileNodes(const OnnxSource& source);
// The value that a tensor of the file became; nothing for others.
std::optional<Value> FileValue(const OnnxSource& source, const std::string& tensor);

// The wanted part. Names of inputs and outputs are those of the part; other tensors keep theirs unless an input or an
// output has it.
struct PartOfFile {
  std::vector<std::pair<std::string, TensorType>> inputs;    // all are declared, even if no node reads them
  std::map<std::string, std::string> begin;                  // tensors of the file, by the inputs that replace them
  std::vector<std::pair<std::string, std::string>> outputs;  // tensors of the file, and the names of the outputs
};

// Positions of the nodes that compute the outputs.
std::vector<int> NodesOfPart(const std::vector<FileNode>& nodes, const PartOfFile& part);
// Returns the serialized model. Errors: it reads a tensor that is neither known, nor an input, nor computed; it is
// larger than protobuf's limit.
absl::StatusOr<std::string> PartOfModel(const OnnxSource& source, const ModelMetadata& metadata, const Arena& arena,
                                        const PartOfFile& part);

}  // namespace rewright
