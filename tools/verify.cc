#include "tools/verb.h"
namespace rewright {
Action DeclareVerify(CLI::App&) {
  return [](Session&) -> absl::StatusOr<Answer> { return absl::UnimplementedError("not part of this build"); };
}
}  // namespace rewright
