// A model with named sizes, as `optimize` reads it, and which of the names the file of a rewritten one can keep.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/onnx/model_file.h"
#include "core/onnx/onnx.h"
#include "search/replay/replay.h"

namespace rewright {

// A model, its file and the contents of the file.
struct SourceModel {
  ModelFile file;
  OnnxModel contents;
  ImportedModel original;  // at some sizes, with the nodes of the file
  bool mapped;             // large weights stay in the file, which must not change
};

// The model at the sizes of `reading`. Sizes that it does not give become what their relations say: total is 2 where
// past is 1. Names that exporters write as sums tell their relations; of others, sums of one or two names and a number
// are tried until the model can be read at sizes that have nothing else in common. `file` was opened before `contents`
// was read from it.
absl::StatusOr<SourceModel> ReadSource(ModelFile file, OnnxModel contents, ImportOptions reading, bool mapped = false);

// The relations between the sizes of a model that was read; they are looked for where it does not have them.
std::vector<SizeRelation> RelationsOf(OnnxModel& source, const ImportedModel& original);

struct NamedModel {
  std::vector<std::string> names;                          // that are kept
  std::vector<SizeRelation> relations;                     // names that these give, which are kept too
  std::vector<std::pair<std::string, std::string>> fixed;  // names that are not, and why
  std::shared_ptr<NamedGraph> graph;                       // null where no name is kept
  std::optional<ImportedModel> smallest;                   // the original where all kept names are 1, if it admits that

  // "batch, past, total = past + 1".
  std::string Text() const;
};

// The model at a few sizes of its names, read once. It outlives the object.
class NameKeeper {
 public:
  NameKeeper(SourceModel& model, const RuleIndex& rules);

  // Steps without which a file could keep all names: those that do not apply at all sizes. None: it can. To be asked
  // again for what is left, since one step may hide another. `made` is `steps` replayed on the original. Errors: the
  // rules lack one of the steps.
  absl::StatusOr<std::vector<int>> StepsThatFixSizes(const Replay& made, const std::vector<ReplayStep>& steps);

  // A name is kept if
  //   - the model can be read, and every step applies, at each of a few sizes of the name (RelatedSamples); the sizes
  //     of related names satisfy their relation,
  //   - the values that the steps bind are forms of the names, and over these their conditions hold for every size
  //     from 1 on,
  //   - the files that would be written at these sizes differ in lists of integers that are such forms, or in constants
  //     that nodes of the model's file compute.
  // The results of nodes that hold graphs (If, Loop) are not known as forms of a size: models with such nodes keep no
  // names. Errors: as above.
  absl::StatusOr<NamedModel> NameSizes(const Replay& made, const std::vector<ReplayStep>& steps);

 private:
  struct Samples {
    std::vector<std::string> names;
    std::vector<SizeRelation> relations;
    std::vector<index::NamedSizes> sizes;
    std::vector<SizedGraph> graphs;
  };

  // Samples of these names, and of those that they give; kFailedPrecondition where the model cannot be read there.
  absl::StatusOr<Samples> SamplesOf(const std::vector<std::string>& names);
  const absl::StatusOr<Samples>& AllSamples();
  // The graph with those names, by the first steps alone; kFailedPrecondition where they cannot be kept, because of
  // `failed` where that is known.
  absl::StatusOr<std::shared_ptr<NamedGraph>> Try(const Samples& samples, const Replay& made,
                                                  const std::vector<ReplayStep>& steps, size_t count,
                                                  std::vector<int>* failed = nullptr);

  OnnxModel& source_;
  const ImportedModel& original_;
  const RuleIndex& rules_;
  std::vector<SizeRelation> relations_;
  std::vector<std::string> free_;  // names that no relation gives
  std::optional<absl::StatusOr<Samples>> all_;
};

}  // namespace rewright
