// The names of a rewritten model's symbolic dimensions: which of them its file can keep.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/onnx/onnx.h"
#include "search/replay.h"

namespace rewright {

struct NamedModel {
  std::vector<std::string> names;                          // that are kept
  std::vector<std::pair<std::string, std::string>> fixed;  // names that are not, and why
  std::shared_ptr<NamedGraph> graph;                       // null where no name is kept
  std::optional<ImportedModel> smallest;                   // the original where all kept names are 1, if it admits that
};

// `made` is `steps` replayed on `original`, which `source` gave. A name is kept where
//   - the model can be read, and every step applies, at each of a few sizes of the name (index::SampleSizes),
//   - what the steps bind are forms of the names, and over these their conditions hold for every size from 1 on,
//   - the files that would be written at these sizes differ in lists of integers that are such forms, or in constants
//     that nodes of the model's file compute.
// What nodes of a file that hold graphs (If, Loop) make of a size is not known: such models keep no names. Errors: the
// rules lack one of the steps.
absl::StatusOr<NamedModel> NameSizes(OnnxModel& source, const ImportedModel& original, const Replay& made,
                                     const std::vector<ReplayStep>& steps, const RuleIndex& rules);

}  // namespace rewright
