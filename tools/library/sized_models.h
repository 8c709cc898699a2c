// A model with symbolic dimensions, compiled for the sizes that it is asked for.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/onnx/onnx.h"
#include "search/replay/replay.h"
#include "tools/library/engine.h"
#include "tools/library/named_model.h"

namespace rewright {

using DimSizes = std::map<std::string, int64_t>;

// Immutable.
struct SizedModel {
  DimSizes dims;
  Graph graph;                               // that runs
  std::shared_ptr<const OnnxSource> source;  // of a model read for another runtime at these sizes
  std::vector<std::string> left_out;         // rules of steps that do not apply at these sizes
  std::shared_ptr<Executable> executable;
};

// The template: the model as it is read, the path of rewrites that an optimization found at some sizes, and the models
// of the last sizes that were asked for. Thread-safe apart from SetPath: one thread compiles at a time, and those that
// ask for a size that is there do not wait for it.
class SizedModels {
 public:
  // `source` is at the sizes of the template. The engine outlives the object. At least one size is kept.
  SizedModels(SourceModel source, const Engine& engine, int kept);

  const ImportedModel& original() const { return source_.original; }
  // For a caller that alone uses the object.
  SourceModel& source() { return source_; }

  // The sizes of symbolic dimensions at which inputs, in the order of the model, have these types. Errors: another
  // element type or rank, another size of a fixed axis, two sizes for one dimension, a size of 0.
  absl::StatusOr<DimSizes> SizesOf(const std::vector<TensorType>& inputs) const;

  // Likewise of those inputs whose type is given: not null.
  absl::StatusOr<DimSizes> SizesOf(const std::vector<const TensorType*>& inputs) const;

  // Errors: sizes that the model does not admit, those of the device.
  absl::StatusOr<std::shared_ptr<const SizedModel>> At(const DimSizes& dims);
  // The model as the file has it at these sizes, in an arena of its own, with its source. Errors: of its import.
  absl::StatusOr<ImportedModel> OriginalAt(const DimSizes& dims);
  // A graph that has nodes of the original, after those steps of the optimization that apply to it.
  absl::StatusOr<Graph> Rewritten(const Graph& graph) const;
  // The shapes of the inputs at these sizes.
  std::vector<Shape> InputShapes(const DimSizes& dims) const;
  // Relations between the sizes, looked for where the model was read at sizes that were all given.
  std::vector<SizeRelation> Relations();

  // Takes the result of an optimization of the original: `rewritten`, by `steps`. No steps: the original runs again.
  absl::Status SetPath(const Graph& rewritten, std::vector<ReplayStep> steps, const RuleIndex& rules);

 private:
  struct Path {
    Graph rewritten;
    std::vector<ReplayStep> steps;
    Replay made;
    RuleIndex rules;
  };

  std::shared_ptr<const SizedModel> Find(const DimSizes& dims);
  absl::StatusOr<std::shared_ptr<const SizedModel>> Make(const DimSizes& dims);
  absl::StatusOr<ImportedModel> Read(const DimSizes& dims, bool keep_source);
  absl::Status FindGraph(SizedModel* model);

  SourceModel source_;
  const Engine& engine_;
  const size_t kept_;
  std::unique_ptr<const Path> path_;
  std::mutex making_;                                    // held while a model is read or compiled
  std::mutex mutex_;                                     // of `models_`
  std::list<std::shared_ptr<const SizedModel>> models_;  // last used first
};

}  // namespace rewright
