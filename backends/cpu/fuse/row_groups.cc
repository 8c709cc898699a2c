#include "backends/cpu/fuse/row_groups.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "backends/common/group.h"
#include "backends/common/node_access.h"
#include "backends/cpu/codegen/jit.h"
#include "backends/cpu/codegen/tile_program.h"
#include "backends/cpu/codegen/tile_text.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
namespace {

constexpr int64_t kLeastRows = 8;                    // fewer are shared by threads in parts
constexpr int64_t kLeastRow = 128, kMostRow = 8192;  // elements; what is shorter has its operands laid out anew

// The axis from which on all are reduced. None where others are.
std::optional<int> FirstReducedAxis(const Graph& graph, const Node& reduction) {
  const auto rank = graph.type(reduction.operands[0]).shape.size();
  const std::vector<int64_t>& axes = Ints(reduction, "axes");
  const std::set<int64_t> reduced(axes.begin(), axes.end());
  const int64_t first = static_cast<int64_t>(rank) - static_cast<int64_t>(reduced.size());
  return !reduced.empty() && *reduced.begin() == first ? std::optional(static_cast<int>(first)) : std::nullopt;
}

// Pairs of a size that is not 1 and the axis of the results that it is read at.
std::vector<std::pair<int64_t, int>> AxesRead(const Shape& dims, const std::vector<int>& axes) {
  std::vector<std::pair<int64_t, int>> read;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] != 1) read.emplace_back(dims[d], axes[d]);
  }
  return read;
}
// The same of the results' axes first..last-1, all of them.
std::vector<std::pair<int64_t, int>> AxesOf(const Shape& shape, int first, int last) {
  std::vector<std::pair<int64_t, int>> all;
  for (int axis = first; axis < last; ++axis) {
    if (shape[axis] != 1) all.emplace_back(shape[axis], axis);
  }
  return all;
}

// The groups of a graph by what they give and who reads that.
class Rows {
 public:
  Rows(const Graph& graph, std::vector<FusedGroup> groups) : graph_(graph), groups_(std::move(groups)) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (Value output : groups_[g].group.outputs) maker_[output] = g;
      for (Value input : groups_[g].group.inputs) ++readers_[input];
    }
  }

  std::vector<FusedGroup> Join() {
    for (size_t g = 0; g < groups_.size(); ++g) {
      const FusedGroup& group = groups_[g];
      if (group.kind == FusedGroup::Kind::kPointwise && group.group.outputs.size() == 1 && !group.is_last) TryJoin(g);
    }
    std::vector<FusedGroup> left;
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (gone_.count(g) == 0) left.push_back(std::move(groups_[g]));
    }
    return left;
  }

 private:
  void TryJoin(size_t sink) {
    for (Value input : groups_[sink].group.inputs) {
      const std::optional<std::vector<size_t>> before = ChainTo(input);
      if (!before) continue;
      const FusedGroup& first = groups_[before->back()];
      FusedGroup joined;
      joined.kind = FusedGroup::Kind::kRows;
      joined.reduction = first.group.nodes.back();
      if (!IsByRows(groups_[sink].group, input, graph_.node(joined.reduction), first)) continue;
      std::vector<int> members;
      const auto add = [&](const Group& group) {
        for (NodeId id : group.nodes) members.push_back(graph_.index(id));
      };
      for (size_t g : *before) add(groups_[g].group);
      add(groups_[sink].group);
      std::sort(members.begin(), members.end());
      joined.group = MakeGroup(graph_, members, {graph_.index(groups_[sink].group.outputs[0].node)});
      if (!IsCompiled(joined)) continue;
      gone_.insert(before->begin(), before->end());
      groups_[sink] = std::move(joined);
      return;
    }
  }

  // From a value with an element a row the groups back to the reduction that it is computed from alone.
  std::optional<std::vector<size_t>> ChainTo(Value value) const {
    std::vector<size_t> chain;
    const int64_t rows = graph_.type(value).num_elements();
    while (rows >= kLeastRows) {
      const auto maker = maker_.find(value);
      if (maker == maker_.end() || graph_.is_output(value) || readers_.at(value) != 1) return std::nullopt;
      const FusedGroup& group = groups_[maker->second];
      const Node& last = graph_.node(group.group.nodes.back());
      if (gone_.count(maker->second) > 0 || group.group.outputs.size() != 1 ||
          graph_.type(value).num_elements() != rows) {
        return std::nullopt;
      }
      chain.push_back(maker->second);
      switch (group.kind) {
        case FusedGroup::Kind::kReduce: return chain;
        case FusedGroup::Kind::kOther: return IsJoin(last) ? std::optional(chain) : std::nullopt;
        case FusedGroup::Kind::kView:
          if (last.op != ops::Reshape()) return std::nullopt;
          value = last.operands[0];
          break;
        case FusedGroup::Kind::kPointwise: {
          std::vector<Value> computed;
          for (Value input : group.group.inputs) {
            if (!graph_.IsKnown(input)) {
              computed.push_back(input);
            } else if (graph_.type(input).num_elements() != 1) {
              return std::nullopt;
            }
          }
          if (computed.size() != 1 || !ReadsInOrder(group.group, computed[0])) return std::nullopt;
          value = computed[0];
          break;
        }
        default: return std::nullopt;
      }
    }
    return std::nullopt;
  }

  // Element number r of the group's values is computed from element r of this one: its axes are not exchanged.
  bool ReadsInOrder(const Group& group, Value value) const {
    return std::all_of(group.nodes.begin(), group.nodes.end(), [&](NodeId id) {
      const Node& node = graph_.node(id);
      const std::vector<PointwiseRead> reads = PointwiseReads(*node.meaning);
      const Shape& shape = node.outputs[0].shape;
      return std::all_of(reads.begin(), reads.end(), [&](const PointwiseRead& read) {
        return node.operands[read.input] != value ||
               AxesRead(graph_.type(value).shape, read.axes) == AxesOf(shape, 0, static_cast<int>(shape.size()));
      });
    });
  }

  // The sink reads `row` once for each row that is reduced, and all else along rows, and so do the terms.
  bool IsByRows(const Group& sink, Value row, const Node& reduction, const FusedGroup& first) const {
    const TensorType& x = graph_.type(reduction.operands[0]);
    const std::optional<int> axis = FirstReducedAxis(graph_, reduction);
    if (x.dtype != DType::kFloat32 || !axis || graph_.type(sink.outputs[0]).shape != x.shape) return false;
    int64_t size = 1;
    for (size_t k = *axis; k < x.shape.size(); ++k) size *= x.shape[k];
    if (size < kLeastRow || size > kMostRow) return false;
    const auto lies_along = [&](const Group& group) {
      return std::all_of(group.nodes.begin(), group.nodes.end(), [&](NodeId id) {
        const Node& node = graph_.node(id);
        if (&node == &reduction) return true;
        for (const PointwiseRead& read : PointwiseReads(*node.meaning)) {
          const Value operand = node.operands[read.input];
          if (!LiesAlong(AxesRead(graph_.type(operand).shape, read.axes), x.shape, *axis, operand == row)) return false;
        }
        return true;
      });
    };
    return lies_along(sink) && lies_along(first.group);
  }
  // The operand has all of a row or repeats one element along it; for each row one, where `by_row`.
  static bool LiesAlong(const std::vector<std::pair<int64_t, int>>& read, const Shape& shape, int axis, bool by_row) {
    const int rank = static_cast<int>(shape.size());
    if (by_row) return read == AxesOf(shape, 0, axis);
    std::vector<std::pair<int64_t, int>> along;
    std::copy_if(read.begin(), read.end(), std::back_inserter(along),
                 [&](const std::pair<int64_t, int>& one) { return one.second >= axis; });
    return std::is_sorted(read.begin(), read.end(), [](const auto& a, const auto& b) { return a.second < b.second; }) &&
           (along.empty() || along == AxesOf(shape, axis, rank));
  }

  bool IsCompiled(const FusedGroup& group) const {
    const RowParts parts = RowPartsOf(graph_, group);
    int64_t instructions = 1;  // the reduction
    for (const auto& [part, row] : {std::pair(&parts.terms, static_cast<const PointwiseOperand*>(nullptr)),
                                    std::pair(&parts.results, &parts.row)}) {
      if (part->nodes.empty()) continue;
      const auto single = [&](Value value) { return SingleConstant(graph_, value); };
      const absl::StatusOr<PointwiseProgram> program = BuildProgram(graph_, *part, single, row);
      if (!program.ok() || !std::all_of(program->instructions.begin(), program->instructions.end(),
                                        [&](const PointwiseInstruction& one) { return HasTileText(*program, one); })) {
        return false;
      }
      const auto leaves = program->operands.size() + program->constants.size();
      if (leaves > kMaxProgramLeaves || program->instructions.size() + leaves > kMaxProgramTiles) return false;
      instructions += static_cast<int64_t>(program->instructions.size());
    }
    return instructions * parts.rows * parts.size >= kLeastCompiled;
  }

  const Graph& graph_;
  std::vector<FusedGroup> groups_;
  std::map<Value, size_t> maker_;
  std::map<Value, int> readers_;
  std::set<size_t> gone_;  // what joined others
};

}  // namespace

bool IsJoin(const Node& node) {
  return node.op == ops::ReduceSum() || node.op == ops::ReduceMean() || node.op == ops::ReduceMax() ||
         node.op == ops::ReduceMin();
}

RowParts RowPartsOf(const Graph& graph, const FusedGroup& group) {
  const Node& reduction = graph.node(group.reduction);
  const Value x = reduction.operands[0];
  RowParts parts;
  parts.row = {Value{group.reduction, 0}, {}, reduction.outputs[0].dtype};
  const int axis = FirstReducedAxis(graph, reduction).value();
  for (int k = 0; k < axis; ++k) parts.row.axes.push_back(k);
  parts.rows = reduction.outputs[0].num_elements();
  parts.size = graph.type(x).num_elements() / parts.rows;
  // The terms are all that x is computed from.
  std::set<NodeId> terms = {x.node};
  for (auto id = group.group.nodes.rbegin(); id != group.group.nodes.rend(); ++id) {
    if (*id == group.reduction) continue;
    const bool is_term = terms.count(*id) > 0;
    (is_term ? parts.terms : parts.results).nodes.push_back(*id);
    for (Value operand : graph.node(*id).operands) {
      if (is_term) terms.insert(operand.node);
    }
  }
  for (Group* part : {&parts.terms, &parts.results}) std::reverse(part->nodes.begin(), part->nodes.end());
  parts.terms.outputs = {x};
  parts.results.outputs = group.group.outputs;
  return parts;
}

std::vector<FusedGroup> JoinRows(const Graph& graph, std::vector<FusedGroup> groups) {
  const bool any = HasLoopCompiler() && std::any_of(groups.begin(), groups.end(), [&](const FusedGroup& group) {
                     return IsJoin(graph.node(group.group.nodes.back()));
                   });
  if (!any) return groups;
  return Rows(graph, std::move(groups)).Join();
}

}  // namespace rewright::cpu
