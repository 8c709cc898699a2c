// The reason why a rule does not match at a node, for people.
#pragma once

#include <string>

#include "core/ir/graph.h"

namespace rewright {

// The attempt to lay a left side over the graph that got furthest, and what stopped it.
struct MatchObstacle {
  int matched = -1;       // applications of the left side that were found
  bool complete = false;  // all were found: a name, a condition, a type or a size stopped it
  Value at;               // where the graph is not as the left side wants it; node -1 where it is complete
  std::string reason;
};

}  // namespace rewright
