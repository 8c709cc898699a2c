// Work on several threads. What a call throws on any of them reaches the caller once all have ended: nothing that goes
// wrong on a thread ends the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace rewright {

// The number of threads that somebody asked for; 0: as many as this process may run at once.
int NumThreads(int asked);

// Calls `work` on so many threads at once, this one among them, and returns when all calls have ended; `work` hands out
// its parts by itself. Where the machine gives fewer threads, they do it all. Throws the first of what calls threw.
void OnThreads(int64_t threads, const std::function<void()>& work);

// Calls body(0) .. body(count - 1), each once, on up to `threads` threads, the calling one among them. Throws the first
// of what they threw; others may not have been called then.
void ForEachIndex(size_t count, int64_t threads, const std::function<void(size_t)>& body);

}  // namespace rewright
