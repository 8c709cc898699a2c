#include "tools/library/file_timing.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status_macros.h"
#include "core/ir/random_tensors.h"
#include "runtime/executor.h"

namespace rewright {

absl::StatusOr<Measurement> MeasureFiles(const FileDevice& device, const Graph& original, const ModelFile& file,
                                         const absl::Cord& written, const MeasureOptions& options, uint64_t seed) {
  ASSIGN_OR_RETURN(const std::vector<Tensor> inputs, RandomInputs(original, seed));
  const auto compile = [&]() -> absl::StatusOr<Schedule> {
    if (!file.path().empty()) return device.CompileFile(original, file.path());
    ASSIGN_OR_RETURN(const std::string bytes, file.Bytes());
    return device.CompileBytes(original, bytes);
  };
  ASSIGN_OR_RETURN(Schedule before, compile());
  ASSIGN_OR_RETURN(Schedule after, device.CompileBytes(original, std::string(written)));
  ASSIGN_OR_RETURN(const std::unique_ptr<Executor> first, Executor::Create(original, std::move(before)));
  ASSIGN_OR_RETURN(const std::unique_ptr<Executor> second, Executor::Create(original, std::move(after)));
  return MeasureInterleaved(*first, *second, inputs, options);
}

}  // namespace rewright
