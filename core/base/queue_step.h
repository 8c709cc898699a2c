// The order of work on several queues. (Standard types alone: plugins share it.)
#pragma once

#include <vector>

namespace rewright {

// One of several pieces of work, some of which may run at the same time: it runs after the one before it on its queue,
// and after those that it waits for, which precede it in the list.
struct QueueStep {
  int queue = 0;
  std::vector<int> after;
};

}  // namespace rewright
