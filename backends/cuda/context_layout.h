// The layout that a value has when its graph is lowered, told from the value's producers alone.
#pragma once

#include <memory>

#include "absl/container/flat_hash_map.h"
#include "backends/layout.h"
#include "core/graph.h"

namespace rewright::cuda {

// Remembers its answers for one arena: nodes never change. Not thread-safe.
class ContextLayouts {
 public:
  explicit ContextLayouts(bool channels_last) : channels_last_(channels_last) {}
  Layout Of(const Graph& graph, Value value);

 private:
  Layout Compute(const Graph& graph, Value value);

  const bool channels_last_;  // of convolutions
  std::weak_ptr<Arena> arena_;
  absl::flat_hash_map<Value, Layout> known_;
};

}  // namespace rewright::cuda
