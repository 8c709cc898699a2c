// A loop over several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace rewright {

// Calls body(0) .. body(count - 1), each once, in up to `threads` threads, the calling one among them.
void ForEachIndex(size_t count, int threads, const std::function<void(size_t)>& body);

}  // namespace rewright
