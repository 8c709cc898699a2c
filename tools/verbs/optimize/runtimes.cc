#include "tools/verbs/optimize/runtimes.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "backends/device_factory.h"
#include "core/base/stats.h"
#include "core/base/status_macros.h"
#include "core/ir/random_tensors.h"
#include "runtime/measure/measurement_cache.h"
#include "runtime/measure/timing_policy.h"
#include "tools/library/engine.h"
#include "tools/library/file_timing.h"

namespace rewright {
namespace {

// The two sessions take several times the bytes of a file, which is more than all else here does: larger ones are timed
// where that is asked for (--device onnxruntime).
constexpr size_t kMostBytes = size_t{1} << 30;

// The probability that a difference is reported where there is none, in either direction.
constexpr double kSignificance = 0.05;

}  // namespace

absl::StatusOr<std::optional<Measurement>> MeasureInRuntime(const std::string& runtime, const Graph& original,
                                                            const ModelFile& file, const Graph& rewritten,
                                                            const absl::Cord& bytes, const RuntimeRun& run) {
  std::optional<Measurement> measured;
  const absl::StatusOr<std::unique_ptr<Device>> device = MakeDevice(runtime, {run.threads});
  if (!device.ok()) return measured;
  std::optional<ProfiledMeasurements> kept;
  if (!run.profile.empty()) {
    ASSIGN_OR_RETURN(std::shared_ptr<ProfileDb> profile, ProfileDb::Open(run.profile));
    kept.emplace(std::move(profile), (*device)->name());
    ASSIGN_OR_RETURN(measured, kept->Find(original, rewritten));
    if (measured) return measured;
  }
  const double loading = 2 * static_cast<double>(bytes.size()) / timing::kLoadedBytesPerSecond;
  if (bytes.size() > kMostBytes || run.seconds < loading + timing::kFileSeconds) return measured;
  MeasureOptions measuring;
  std::optional<absl::Time> began;  // the first pair; files are loaded before
  measuring.stop = [&] {
    if (!began) began = absl::Now();
    return absl::ToDoubleSeconds(absl::Now() - *began) > timing::kFileSeconds;
  };
  ASSIGN_OR_RETURN(measured,
                   MeasureFiles(dynamic_cast<const FileDevice&>(**device), original, file, bytes, measuring, run.seed));
  if (kept) kept->Keep(original, rewritten, *measured);
  return measured;
}

absl::StatusOr<Measurement> MeasureInRewright(const ImportedModel& original, const Graph& rewritten, int threads,
                                              uint64_t seed) {
  ASSIGN_OR_RETURN(const Engine engine, Engine::Open("cpu", threads, /*profile=*/""));
  engine.Use(original);
  ASSIGN_OR_RETURN(const std::vector<Tensor> inputs, RandomInputs(original.graph, seed));
  ASSIGN_OR_RETURN(const auto before, engine.runner().Prepare(original.graph));
  ASSIGN_OR_RETURN(const auto after, engine.runner().Prepare(rewritten));
  const absl::Time began = absl::Now();
  MeasureOptions measuring;
  measuring.stop = [&] { return absl::ToDoubleSeconds(absl::Now() - began) > timing::kFileSeconds; };
  return MeasureInterleaved(*before, *after, inputs, measuring);
}

bool IsTold(const Measurement& measured) {
  const auto [fewer, more] = std::minmax(measured.wins, measured.losses);
  return SignTest(more, fewer) <= kSignificance / 2 && (measured.wins > measured.losses) == (measured.ratio > 1);
}

bool IsToldSlower(const Measurement& measured) { return IsTold(measured) && measured.ratio < 1; }

std::string TextInRuntime(const Measurement& measured) {
  const std::string pairs = absl::StrFormat("(%d of %d pairs faster)", measured.wins, measured.wins + measured.losses);
  if (!IsTold(measured)) return "no difference that can be told from noise " + pairs;
  return measured.ratio > 1 ? absl::StrFormat("%.2f times faster %s", measured.ratio, pairs)
                            : absl::StrFormat("%.2f times slower %s", 1 / measured.ratio, pairs);
}

Json JsonInRuntime(const Measurement& measured) {
  return {{"original_ms", measured.original_seconds * 1e3},
          {"written_ms", measured.candidate_seconds * 1e3},
          {"ratio", IsTold(measured) ? Json(1 / measured.ratio) : Json(nullptr)},
          {"wins", measured.wins},
          {"losses", measured.losses}};
}

}  // namespace rewright
