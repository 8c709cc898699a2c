#include "tools/verb.h"
namespace rewright {
Action DeclareOptimize(CLI::App&) {
  return [](Session&) -> absl::StatusOr<Answer> { return absl::UnimplementedError("not part of this build"); };
}
}  // namespace rewright
