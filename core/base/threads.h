// Runs work on several threads. An exception on any thread reaches the caller after all threads have ended, so a fault
// on a thread never ends the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace rewright {

// Returns the number of threads asked for; 0 asks for as many as this process may run at once.
int NumThreads(int asked);

// Calls `work` on `threads` threads at once, the calling one among them, and returns when all calls have ended; `work`
// distributes its parts by itself. If the machine gives fewer threads, these do all the work. Rethrows the first
// exception.
void OnThreads(int64_t threads, const std::function<void()>& work);

// Calls body(0) .. body(count - 1), each once, on up to `threads` threads, the calling one among them. Rethrows the
// first exception; the calls that had not begun by then are skipped.
void ForEachIndex(size_t count, int64_t threads, const std::function<void(size_t)>& body);

}  // namespace rewright
