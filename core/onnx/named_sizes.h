// Writes a graph with names in place of sizes. For the sources of this folder only.
//
// The same graph is exported at several sizes of its named dimensions. Parts that all exports share are written as they
// are. A list of integers that differs becomes nodes that compute it from the sizes of inputs. A constant that differs
// becomes the nodes of the model file that computed it. Any other difference is an error that names the place.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/onnx/export/writer.h"
#include "core/onnx/onnx.h"
#include "core/onnx/size_relations.h"
#include "core/onnx/source.h"

namespace rewright {

// An export at some sizes.
struct SizedExport {
  std::vector<onnx::NodeProto> nodes;
  absl::flat_hash_map<std::string, Tensor> initializers;
  std::vector<std::pair<std::string, TensorType>> inputs, outputs, described;  // in one order at all sizes
  const OnnxSource* source = nullptr;
};

// Tells for each position in Graph::nodes() whether the node is known and its results have other shapes at other
// samples. Errors: the graphs differ in more than their sizes.
absl::StatusOr<std::vector<bool>> NodesOfVaryingShape(const std::vector<SizedGraph>& samples);

// Replaces the nodes of `writer`, which made samples[0], and adds to its initializers. `opset` is that of all samples.
absl::Status NameSizes(const std::vector<SizedExport>& samples, RelatedFit& fit, OnnxWriter* writer);

// The axes of a tensor: each a size, a name, or -1 and no name for other forms.
struct NamedAxis {
  int64_t size = -1;
  std::string name;
};
std::vector<NamedAxis> NamedShape(const std::vector<Shape>& shapes, RelatedFit& fit);

}  // namespace rewright
