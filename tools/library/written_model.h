// A rewritten graph on its way into a file: what is written is what was checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "core/device/device.h"
#include "core/onnx/onnx.h"
#include "search/optimize/output_check.h"
#include "tools/library/engine.h"
#include "tools/library/named_model.h"

namespace rewright {

// Bytes of states and constants in the memory of this machine.
int64_t WeightBytes(const Graph& graph);

// Returns whether its weights may be too many bytes for one message, so that they go to a file beside the model.
bool NeedsFileForWeights(const Graph& graph);

struct WrittenModel {
  // Nothing where the weights need a file of their own: such a model is written without being read back.
  std::optional<absl::Cord> bytes;
  ComputedWeights computed;           // known values of the rewritten graph that the bytes hold
  std::optional<ImportedModel> read;  // from the bytes, at the sizes of the original; nothing: that was not asked for
  OutputCheck check;                  // of its graph
};

// The options to write the rewritten graph of a model: with the nodes of its file, and with the names that it keeps.
ExportOptions OptionsToWrite(const ImportedModel& original, const NamedModel& named);

// The bytes of a rewritten graph, with `read` read back. Errors: they cannot be read (kInternal).
absl::StatusOr<WrittenModel> BytesToWrite(const Graph& rewritten, const ImportedModel& original,
                                          const NamedModel& named, const Engine& engine, bool read);

// Compares what was read back with the original, by `checker`, unless that was done, and where names are kept also with
// all of them 1. Errors: the outputs differ (kInternal).
absl::Status CheckWritten(const Graph& rewritten, const NamedModel& named, const Engine& engine,
                          const OutputCheckOptions& checking, OutputChecker& checker, WrittenModel* written);

}  // namespace rewright
