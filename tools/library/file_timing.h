// Model files as their users run them.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "backends/onnxruntime/ort_device.h"
#include "core/onnx/model_file.h"
#include "runtime/measure/interleaved.h"

namespace rewright {

// The serialized form of a rewritten graph against the file of the original, in turn, as onnxruntime runs them. Errors:
// those of onnxruntime, too little memory.
absl::StatusOr<Measurement> MeasureFiles(const ort::OrtDevice& device, const Graph& original, const ModelFile& file,
                                         const absl::Cord& written, const MeasureOptions& options, uint64_t seed);

}  // namespace rewright
