// The layout that a value has when its graph is lowered, told from the value's producers alone.
#pragma once

#include <memory>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "backends/layout.h"
#include "core/ir/device.h"
#include "core/ir/graph.h"

namespace rewright {

// Remembers its answers for one arena: nodes never change. Leaves and values that depend on weights alone are
// row-major; what an application gives is the device's to say. Not thread-safe.
class ContextLayouts {
 public:
  virtual ~ContextLayouts() = default;
  Layout Of(const Graph& graph, Value value);
  // Equal for groups whose inputs lie alike.
  uint64_t HashOf(const Graph& graph, const Group& group);
  // Of a group with its inputs as they lie (backends/group.h).
  std::string SignatureOf(const Graph& graph, const Group& group);

 protected:
  // The layout of a result of an application whose operands are known.
  virtual Layout Compute(const Graph& graph, Value value) const = 0;
  Layout Known(const Graph& graph, Value value) const;

 private:
  void Prepare(const Graph& graph, Value value);

  std::weak_ptr<Arena> arena_;
  absl::flat_hash_map<Value, std::unique_ptr<const Layout>> known_;  // null: row-major
};

}  // namespace rewright
