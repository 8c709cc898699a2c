// The layout that a value has when its graph is lowered, told from the value's producers alone.
#pragma once

#include <memory>

#include "absl/container/flat_hash_map.h"
#include "backends/layout.h"
#include "core/graph.h"

namespace rewright::cpu {

// Remembers its answers for one arena: nodes never change. Not thread-safe.
class ContextLayouts {
 public:
  // `block`: channels per block in the convolutions of this machine.
  explicit ContextLayouts(int64_t block) : block_(block) {}
  Layout Of(const Graph& graph, Value value);
  // A number that is equal for equal layouts of one type, 0 for row-major.
  uint64_t HashOf(const Graph& graph, Value value);

 private:
  void Prepare(const Graph& graph, Value value);
  Layout Known(const Graph& graph, Value value) const;
  Layout Compute(const Graph& graph, Value value) const;

  const int64_t block_;
  std::weak_ptr<Arena> arena_;
  absl::flat_hash_map<Value, std::unique_ptr<const Layout>> known_;  // null: row-major
};

}  // namespace rewright::cpu
