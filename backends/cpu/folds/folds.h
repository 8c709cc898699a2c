// Groups that one pass over an axis computes: folds (core/fold/fold.h) as block programs.
//
// A candidate is a product of activations together with the groups between it and earlier products of activations:
// whatever has elements for each of the rows of its left factor, and no reader outside. None of these groups is looked
// at by name; the nodes are composed into one operator, and its element must have a fold along the inner axis of the
// last product that makes a block program. A group of this kind keeps its parts, as which it runs where they are
// faster.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "backends/cpu/fuse/fusion.h"
#include "core/device/device.h"
#include "core/fold/block_program.h"
#include "core/fold/fold.h"
#include "core/ir/graph.h"

namespace rewright::cpu {

struct GroupFold {
  std::shared_ptr<const OpDef> op;  // the group as one operator
  std::shared_ptr<const Meaning> meaning;
  Bindings bindings;
  std::vector<int> inputs;  // by operand of the operator: the input of the group
  Fold fold;
  BlockProgram program;
};

// Derives the fold of a group with one result along axis `axis` of its input `along`, and its block program. Error: the
// reason why there is none.
absl::StatusOr<GroupFold> FoldOf(const Graph& graph, const Group& group, Value along, int axis);

// Remembers folds by the structure of their groups. Thread-safe.
class GroupFolds {
 public:
  // Groups of fewer operations are left as they are. `allowed` licenses folds.
  GroupFolds(std::shared_ptr<const AllowedKernelRewrites> allowed, double least_operations)
      : allowed_(std::move(allowed)), least_operations_(least_operations) {}

  // Joins the candidates that have an allowed fold and are accepted.
  std::vector<FusedGroup> Join(const Graph& graph, std::vector<FusedGroup> groups,
                               const std::function<bool(const FusedGroup&)>& accept) const;

 private:
  std::shared_ptr<const GroupFold> Of(const Graph& graph, const Group& group, Value along, int axis) const;

  const std::shared_ptr<const AllowedKernelRewrites> allowed_;
  const double least_operations_;
  mutable std::mutex mutex_;
  mutable absl::flat_hash_map<std::string, std::shared_ptr<const GroupFold>> known_;  // null: none
  mutable std::weak_ptr<Arena> arena_;
  mutable absl::flat_hash_map<std::vector<NodeId>, std::shared_ptr<const GroupFold>> of_nodes_;  // of the arena
};

}  // namespace rewright::cpu
