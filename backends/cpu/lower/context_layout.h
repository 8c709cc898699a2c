// The groups of a graph on the CPU device and the layouts of what they give, as lowering will have them: what costs
// depend on.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "backends/common/layout.h"
#include "backends/cpu/fuse/fusion.h"
#include "backends/cpu/onednn/dnnl_util.h"
#include "core/device/device.h"
#include "core/ir/graph.h"

namespace rewright::cpu {

// A layout hangs on the group that makes the value, so on who else reads what is within, and on the layouts before it:
// it is told for a graph as a whole, group by group, by ResultLayout (kernel_list.h). What a group gives from operands
// in some layouts is remembered for one arena, whole graphs for as long as they are among the last that were asked for.
// Thread-safe.
class CpuLayouts {
 public:
  explicit CpuLayouts(std::shared_ptr<const DnnlContext> context) : context_(std::move(context)) {}

  std::vector<Group> GroupsOf(const Graph& graph);
  // As it is fused; nothing where the graph has no such group.
  std::optional<FusedGroup> FusedOf(const Graph& graph, const Group& group);
  // Of a value that the graph computes in a group of its own, or of an input; row-major elsewhere.
  Layout Of(const Graph& graph, Value value);
  // Equal for groups whose inputs lie alike.
  uint64_t HashOf(const Graph& graph, const Group& group);
  // Of a group with its inputs as they lie (backends/common/group.h).
  std::string SignatureOf(const Graph& graph, const Group& group);

 private:
  struct Laid {
    Layout layout;
    uint64_t hash = 0;
  };
  using LaidPtr = std::shared_ptr<const Laid>;  // null: row-major
  // What is known of a graph.
  struct Table {
    std::weak_ptr<Arena> arena;
    std::vector<NodeId> nodes;
    std::vector<Value> outputs;
    std::vector<FusedGroup> groups;
    absl::flat_hash_map<NodeId, size_t> group_of;  // by its first node
    absl::flat_hash_map<Value, LaidPtr> laid;

    bool IsOf(const Graph& graph) const;
    LaidPtr Find(Value value) const;
  };

  std::shared_ptr<const Table> TableOf(const Graph& graph);
  // The layout of a value that the group gives. Requires the mutex.
  LaidPtr Lay(const Graph& graph, const FusedGroup& group, Value value, const Table& before);

  const std::shared_ptr<const DnnlContext> context_;
  std::mutex mutex_;                                 // of what follows
  std::deque<std::shared_ptr<const Table>> tables_;  // those asked for last come first
  std::weak_ptr<Arena> arena_;                       // of what is remembered
  absl::flat_hash_map<std::vector<uint64_t>, LaidPtr> remembered_;
};

}  // namespace rewright::cpu
