// Work on several threads that ends as a Status.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"

namespace rewright {

// Calls `work` on so many threads at once, this one among them, and returns when all calls have ended; `work` hands out
// its parts by itself. Where the machine gives fewer threads, they do it all. What a call throws ends as the error:
// ResourceExhausted for want of memory, else Internal.
absl::Status RunOnThreads(int64_t threads, const std::function<void()>& work);

}  // namespace rewright
