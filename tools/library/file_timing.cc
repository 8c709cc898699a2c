#include "tools/library/file_timing.h"

#include <memory>
#include <utility>
#include <vector>

#include "core/base/status_macros.h"
#include "core/ir/random_tensors.h"
#include "runtime/executor.h"

namespace rewright {

absl::StatusOr<Measurement> MeasureFiles(const ort::OrtDevice& device, const Graph& original, const std::string& path,
                                         const std::string& bytes, const MeasureOptions& options, uint64_t seed) {
  ASSIGN_OR_RETURN(const std::vector<Tensor> inputs, RandomInputs(original, seed));
  ASSIGN_OR_RETURN(Schedule before, device.CompileFile(original, path));
  ASSIGN_OR_RETURN(Schedule after, device.CompileBytes(original, bytes));
  ASSIGN_OR_RETURN(const std::unique_ptr<Executor> read, Executor::Create(original, std::move(before)));
  ASSIGN_OR_RETURN(const std::unique_ptr<Executor> written, Executor::Create(original, std::move(after)));
  return MeasureInterleaved(*read, *written, inputs, options);
}

}  // namespace rewright
