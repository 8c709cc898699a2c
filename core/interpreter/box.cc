#include "core/interpreter/box.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "core/interpreter/kernels.h"
#include "core/interpreter/panel.h"

namespace rewright::interp {
namespace {

// Nanoseconds, roughly; only ratios matter.
struct UnitCost {
  double per_row = 0;
  double per_lane = 0;
};
constexpr double kPerEvaluation = 15;

bool IsSlow(Fn fn) {
  return fn == Fn::kExp || fn == Fn::kLog || fn == Fn::kErf || fn == Fn::kTanh || fn == Fn::kSigmoid || fn == Fn::kPow;
}

class CostModel {
 public:
  explicit CostModel(const Stage& stage)
      : stage_(stage), evaluations_(stage.nodes.size(), 1), fused_(stage.nodes.size()) {
    std::vector<double> by_bit(kMaxVariables, 1);    // number of evaluations of nodes that depend on the variable
    for (size_t i = stage.nodes.size(); i-- > 0;) {  // a reduction comes after what it contains
      const Node& n = stage.nodes[i];
      for (uint64_t rest = n.deps >> kFirstBound << kFirstBound; rest != 0; rest &= rest - 1) {
        evaluations_[i] = std::max(evaluations_[i], by_bit[std::countr_zero(rest)]);
      }
      if (n.rep == Rep::kBool) {  // cached for few values of bound variables
        double values = 1;
        for (uint64_t rest = n.deps >> kFirstBound; rest != 0; rest &= rest - 1) {
          values *= static_cast<double>(stage.bound_extents[std::countr_zero(rest)]);
        }
        if (values <= 64) evaluations_[i] = std::min(evaluations_[i], values);
      }
      double trips = evaluations_[i];
      for (int bit : n.bound) {
        trips *= static_cast<double>(stage.bound_extents[bit - kFirstBound]);
        by_bit[bit] = std::max(by_bit[bit], trips);
      }
      if (n.kind != NodeKind::kReduce) continue;
      evaluations_[i] = trips;
      const Node& body = stage.nodes[n.args[1]];
      if (n.reduce == ReduceKind::kSum && body.kind == NodeKind::kCall && body.fn == Fn::kMul) {
        const bool squares = FactorsOf(stage, body).squares;
        fused_[n.args[1]] = true;
        for (int factor : body.args) fused_[factor] = fused_[factor] || squares;
        panels_ |= FindPanel(body.rep, squares) != nullptr;
      }
    }
  }

  double Cost(const std::vector<int64_t>& box) const {
    double blocks = 1;
    for (size_t axis = 0; axis < box.size(); ++axis) {
      blocks *= static_cast<double>((stage_.extents[axis] + box[axis] - 1) / box[axis]);
    }
    double lanes = 1;
    for (int64_t size : box) lanes *= static_cast<double>(size);
    // The cost of starting the block, and of storing it: row by row, or scattered.
    size_t last = box.size();
    while (last > 0 && stage_.extents[last - 1] == 1) --last;
    const double inner = last == 0 ? 1 : static_cast<double>(box[last - 1]);
    double cost = 100 + (last > 0 && inner == 1 ? 2 * lanes : 6 * lanes / inner + 0.1 * lanes);
    for (size_t i = 0; i < stage_.nodes.size(); ++i) {
      if (fused_[i]) continue;
      cost += evaluations_[i] * NodeCost(stage_.nodes[i], box);
    }
    return cost * blocks;
  }

  double work() const {
    double total = 1;
    for (int64_t extent : stage_.extents) total *= static_cast<double>(extent);
    return total * *std::max_element(evaluations_.begin(), evaluations_.end());
  }

 private:
  uint32_t AxesOf(int id) const { return static_cast<uint32_t>(stage_.nodes[id].deps) & kAxisMask; }

  double NodeCost(const Node& n, const std::vector<int64_t>& box) const {
    const uint32_t axes = static_cast<uint32_t>(n.deps) & kAxisMask;
    UnitCost unit{2, 0.3};
    uint32_t first = axes, second = axes;  // axes of two operands
    switch (n.kind) {
      case NodeKind::kConst:
      case NodeKind::kVar: return 0;
      case NodeKind::kNonNegative: unit = {5, 0.05}; break;
      case NodeKind::kFloorDiv:
      case NodeKind::kMod: unit = {2, 4}; break;
      case NodeKind::kRead: unit = ReadCost(n, box); break;
      case NodeKind::kCall:
        first = AxesOf(n.args[0]);
        if (n.args.size() > 1) second = AxesOf(n.args[1]);
        unit = {4, IsSlow(n.fn) ? 6 : 0.2};
        break;
      case NodeKind::kReduce: {
        first = AxesOf(n.args[1]);
        const Node& body = stage_.nodes[n.args[1]];
        if (fused_[n.args[1]]) {
          first = AxesOf(body.args[0]);
          second = AxesOf(body.args[1]);
        }
        unit = fused_[n.args[1]] && panels_ ? UnitCost{0.7, 0.07} : UnitCost{4, 0.15};
        break;
      }
      default: break;
    }
    // Rows end at an axis that belongs to other operands than the axes inside it.
    double lanes = 1, row = 1;
    int inner = -1;
    bool open = true;
    for (size_t axis = box.size(); axis-- > 0;) {
      if (!((axes >> axis) & 1) || box[axis] == 1) continue;
      lanes *= static_cast<double>(box[axis]);
      const int signature = static_cast<int>(((first >> axis) & 1) * 2 + ((second >> axis) & 1));
      if (inner < 0) inner = signature;
      const bool merges = n.kind == NodeKind::kRead ? inner == signature && row == 1 : inner == signature;
      open &= merges;
      if (open) row *= static_cast<double>(box[axis]);
    }
    return kPerEvaluation + unit.per_row * lanes / row + unit.per_lane * lanes;
  }

  UnitCost ReadCost(const Node& n, const std::vector<int64_t>& box) const {
    int64_t inner_factor = 1;
    int inner_axis = -1;
    for (const auto& [id, factor] : n.linear.terms) {
      const Node& atom = stage_.nodes[id];
      if (atom.kind == NodeKind::kVar) {
        if (atom.imm < kFirstBound && box[atom.imm] > 1 && atom.imm > inner_axis) {
          inner_axis = static_cast<int>(atom.imm);
          inner_factor = factor;
        }
        continue;
      }
      for (uint32_t rest = AxesOf(id); rest != 0; rest &= rest - 1) {
        if (box[std::countr_zero(rest)] > 1) return {5, 3};  // a gather
      }
    }
    if (inner_factor == 1) return {6, 0.1};
    // Neighbours in lines of their own: the next steps find those in the first cache, if they are few.
    constexpr int64_t kLine = 16, kFewLines = 512;
    const bool misses = std::abs(inner_factor) >= kLine && box[static_cast<size_t>(inner_axis)] > kFewLines;
    return {6, misses ? 5.0 : 1.0};
  }

  const Stage& stage_;
  std::vector<double> evaluations_;  // by node, in one block
  std::vector<bool> fused_;          // products that are summed as they are formed
  bool panels_ = false;
};

// Tries all boxes of at most `limit` lanes with sizes from a coarse scale.
void Search(const CostModel& model, const std::vector<int64_t>& extents, int64_t limit, size_t axis,
            std::vector<int64_t>& box, double& best_cost, std::vector<int64_t>& best) {
  if (axis == extents.size()) {
    const double cost = model.Cost(box);
    if (best.empty() || cost < best_cost) {
      best_cost = cost;
      best = box;
    }
    return;
  }
  bool whole = false;
  for (int64_t size = 1; size <= limit && !whole; size *= 4) {
    whole = size >= extents[axis];
    box[axis] = whole ? extents[axis] : size;
    Search(model, extents, limit / box[axis], axis + 1, box, best_cost, best);
  }
  if (!whole && extents[axis] <= limit) {
    box[axis] = extents[axis];
    Search(model, extents, limit / box[axis], axis + 1, box, best_cost, best);
  }
  box[axis] = 1;
}

// Doubles, halves or completes single axes as long as that lowers the cost.
void Improve(const CostModel& model, const std::vector<int64_t>& extents, int64_t limit, double best_cost,
             std::vector<int64_t>& best) {
  bool improved = true;
  while (improved) {
    improved = false;
    for (size_t axis = 0; axis < extents.size(); ++axis) {
      const int64_t present = best[axis];
      for (int64_t size : {present * 2, present + 1, present / 2, extents[axis]}) {
        std::vector<int64_t> box = best;
        box[axis] = std::clamp<int64_t>(size, 1, extents[axis]);
        if (NumElements(box) > limit) continue;
        const double cost = model.Cost(box);
        if (cost >= best_cost) continue;
        best_cost = cost;
        best = box;
        improved = true;
      }
    }
  }
}

}  // namespace

std::vector<int64_t> ChooseBox(const Stage& stage, int64_t max_lanes) {
  const int64_t total = NumElements(stage.extents);
  if (total == 0) return std::vector<int64_t>(stage.extents.size(), 1);
  const CostModel model(stage);
  int64_t limit = max_lanes;
  if (total <= max_lanes) {
    if (model.work() < 1e6) return stage.extents;
    // Stages of more than a millisecond leave something for every thread, but no block so small that starting its steps
    // takes longer than they do.
    if (model.work() > 1e7) limit = std::max<int64_t>(512, total / 8);
  }
  std::vector<int64_t> box(stage.extents.size(), 1), best;
  double best_cost = 0;
  Search(model, stage.extents, limit, 0, box, best_cost, best);
  Improve(model, stage.extents, limit, best_cost, best);
  return best;
}

}  // namespace rewright::interp
