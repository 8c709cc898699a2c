// Model files as their users run them.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "backends/runtimes/file_device.h"
#include "core/onnx/model_file.h"
#include "runtime/measure/interleaved.h"

namespace rewright {

// The serialized form of a rewritten graph against the file of the original, in turn, as another runtime runs them.
// Errors: those of the runtime, too little memory.
absl::StatusOr<Measurement> MeasureFiles(const FileDevice& device, const Graph& original, const ModelFile& file,
                                         const absl::Cord& written, const MeasureOptions& options, uint64_t seed);

}  // namespace rewright
