// Times a file that was optimized for another device in onnxruntime, if it is installed: most models run there, and a
// file that is faster here need not be faster there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "core/ir/graph.h"
#include "core/onnx/model_file.h"
#include "runtime/measure/interleaved.h"
#include "tools/program/console.h"

namespace rewright {

struct OnnxRuntimeRun {
  int threads = 0;      // 0: all of the machine
  std::string profile;  // where what was measured is kept; empty: nowhere
  uint64_t seed = 1;    // of the inputs
  double seconds = 0;   // that are left
};

// The file of the original and the bytes of the rewritten graph's in turn, for about a second, or as an
// earlier run with that profile measured them. Nothing where onnxruntime is not found, or too few seconds are left to
// load both. Errors: those of onnxruntime and of the profile.
absl::StatusOr<std::optional<Measurement>> MeasureInOnnxRuntime(const Graph& original, const ModelFile& file,
                                                                const Graph& rewritten, const absl::Cord& bytes,
                                                                const OnnxRuntimeRun& run);

// Returns whether the sign test tells that one of both is faster.
bool IsTold(const Measurement& measured);
// "1.07 of the original's time (2 of 30 pairs faster); --device onnxruntime optimizes for it"; without a ratio where
// none is told.
std::string TextInOnnxRuntime(const Measurement& measured);
Json JsonInOnnxRuntime(const Measurement& measured);

}  // namespace rewright
