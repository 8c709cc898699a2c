// Serialized models whose large weights are not copied: they stay where the tensors of a graph have them, on the way
// into a file and back into a graph (docs/decisions/090).
#pragma once

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "core/ir/graph.h"
#include "core/onnx/onnx.h"

namespace rewright {

struct SerializedModel {
  absl::Cord bytes;
  absl::flat_hash_map<Value, Tensor> computed;  // known values of the graph; none where sizes have names
};

// As ExportOnnxBytes.
absl::StatusOr<SerializedModel> SerializeOnnx(const Graph& graph, const ModelMetadata& metadata,
                                              const ExportOptions& options = {});

// As ImportOnnxBytes without external data. Tensors of the graph keep the memory of `bytes`.
absl::StatusOr<ImportedModel> ImportSerialized(const absl::Cord& bytes, const std::string& name,
                                               const ImportOptions& options = {});

// As ExportOnnx writes.
absl::Status WriteSerialized(const absl::Cord& bytes, const std::string& path);

}  // namespace rewright
