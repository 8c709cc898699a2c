// The runtimes in which a written file may run: Rewright's executor, and onnxruntime and OpenVINO if they are
// installed. A file that is faster in one of them need not be faster in the others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "core/ir/graph.h"
#include "core/onnx/model_file.h"
#include "core/onnx/onnx.h"
#include "runtime/measure/interleaved.h"
#include "tools/program/console.h"

namespace rewright {

struct RuntimeRun {
  int threads = 0;      // 0: all of the machine
  std::string profile;  // where what was measured is kept; empty: nowhere
  uint64_t seed = 1;    // of the inputs
  double seconds = 0;   // that are left
};

// The file of the original and the bytes of the rewritten graph's in turn in the runtime of FileRuntimes(), for about a
// second, or as an earlier run with that profile measured them. Nothing where the runtime is not found, or too few
// seconds are left to load both. Errors: those of the runtime and of the profile.
absl::StatusOr<std::optional<Measurement>> MeasureInRuntime(const std::string& runtime, const Graph& original,
                                                            const ModelFile& file, const Graph& rewritten,
                                                            const absl::Cord& bytes, const RuntimeRun& run);

// The two graphs in turn on the processor in our executor, for about a second. Errors: those of the device.
absl::StatusOr<Measurement> MeasureInRewright(const ImportedModel& original, const Graph& rewritten, int threads,
                                              uint64_t seed);

// Returns whether the sign test tells that one of both is faster.
bool IsTold(const Measurement& measured);
// Returns whether it tells that the rewritten one is slower.
bool IsToldSlower(const Measurement& measured);
// "1.07 times slower (2 of 30 pairs faster)"; "no difference that can be told from noise (..)" without a ratio.
std::string TextInRuntime(const Measurement& measured);
Json JsonInRuntime(const Measurement& measured);

}  // namespace rewright
