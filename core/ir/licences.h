// Which kernels may compute an operator by other operators.
#pragma once

#include <string>

#include "core/ir/graph.h"

namespace rewright {

// A kernel whose arithmetic is not that of its operator says what it computes as a graph of operators, and which law
// leads there (docs/decisions/038). Thread-safe.
class Licences {
 public:
  virtual ~Licences() = default;
  // Whether the law of that name is proved, is not switched off, and leads from the application to `meaning`, a value
  // of the graph's arena.
  virtual bool Allow(const std::string& law, const Graph& graph, NodeId application, Value meaning) const = 0;
};

}  // namespace rewright
