// A model as `optimize` takes it: its file, what the file holds, and the graph at some sizes.
#pragma once

#include "absl/status/statusor.h"
#include "core/onnx/model_file.h"
#include "core/onnx/onnx.h"

namespace rewright {

struct SourceModel {
  ModelFile file;
  OnnxModel contents;
  ImportedModel original;
  bool mapped;  // large weights stay in the file, which must not change
};

// The model at the sizes of `reading`, with the nodes of its file. Sizes that are not given become what their relations
// say (WithRelations). `file` was opened before `contents` was read from it.
absl::StatusOr<SourceModel> ReadSource(ModelFile file, OnnxModel contents, ImportOptions reading, bool mapped = false);

}  // namespace rewright
