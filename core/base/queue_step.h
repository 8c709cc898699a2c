// The order of work on several queues. (Standard types alone: plugins share it.)
#pragma once

#include <vector>

namespace rewright {

// One of several pieces of work, some of which may run at the same time: behind the one before it on its queue, and
// behind those that it waits for, which come before it in the list.
struct QueueStep {
  int queue = 0;
  std::vector<int> after;
};

}  // namespace rewright
