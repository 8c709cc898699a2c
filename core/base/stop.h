// Requests to end long work early.
#pragma once

#include <atomic>

namespace rewright {

// A flag that another thread or a handler of signals sets. Null: nothing ends the work.
using StopFlag = const std::atomic<bool>*;

inline bool IsStopped(StopFlag stop) { return stop != nullptr && *stop; }

}  // namespace rewright
