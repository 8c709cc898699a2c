// A rewritten graph on its way into a file: what is written is what was checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "core/device/device.h"
#include "core/onnx/onnx.h"
#include "search/optimize/output_check.h"
#include "tools/library/engine.h"
#include "tools/library/named_model.h"

namespace rewright {

// Returns whether its weights may be too many bytes for one message, so that they go to a file beside the model.
bool NeedsFileForWeights(const Graph& graph);

struct WrittenModel {
  // Nothing where the weights need a file of their own: such a model is written without being read back.
  std::optional<absl::Cord> bytes;
  ComputedWeights computed;                                 // known values of the rewritten graph that the bytes hold
  std::vector<std::pair<std::string, Value>> initializers;  // as SerializedModel has them
  std::optional<ImportedModel> read;  // from the bytes, at the sizes of the original; nothing: that was not asked for
};

// The options to write the rewritten graph of a model: with the nodes of its file, and with the names that it keeps.
ExportOptions OptionsToWrite(const ImportedModel& original, const NamedModel& named);

// The bytes of a rewritten graph, with `read` read back. Errors: they cannot be read (kInternal).
absl::StatusOr<WrittenModel> BytesToWrite(const Graph& rewritten, const ImportedModel& original,
                                          const NamedModel& named, const Engine& engine, bool read);

// Compares what was read back with the checker's original. Errors: the outputs differ (kInternal).
absl::StatusOr<OutputCheck> CheckWritten(const WrittenModel& written, const Graph& rewritten, OutputChecker& checker);
// Where names are kept, compares with the original where all of them are 1. Errors: as above.
absl::Status CheckWrittenAtOnes(const WrittenModel& written, const NamedModel& named, const Engine& engine,
                                const OutputCheckOptions& checking);

}  // namespace rewright
