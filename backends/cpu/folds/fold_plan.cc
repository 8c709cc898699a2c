#include "backends/cpu/folds/fold_plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "backends/cpu/folds/fold_ranges.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/onednn/epilogue.h"
#include "core/ir/index_value.h"

namespace rewright::cpu {
namespace {

using BlockValue = BlockProgram::Value;
using ValueKind = BlockProgram::Value::Kind;

constexpr int64_t kFoldBytes = 256 << 10;  // of packed factors that a block of the loop reads
constexpr int64_t kMostLoop = 256, kMostRows = 144;
// With products on tiles, a strip of a block and its parts fit the first cache.
constexpr int64_t kSplitLoop = 128, kSplitRows = 512;

// Assigns slots to values in the order in which they are computed: a value takes the place of one of its arguments that
// nothing reads any more. `uses` are the values that are read behind each of them. Returns the end of the space.
int64_t AssignSlots(const FoldPlan& plan, const std::vector<std::pair<int, std::vector<int>>>& order, int64_t end,
                    FoldSlots* slots) {
  const std::vector<BlockValue>& values = plan.program.values;
  slots->at.assign(values.size(), -1);
  std::vector<size_t> last(values.size(), 0);
  for (size_t k = 0; k < order.size(); ++k) {
    if (order[k].first >= 0) {
      for (const int arg : values[static_cast<size_t>(order[k].first)].args) last[static_cast<size_t>(arg)] = k;
    }
    for (const int read : order[k].second) last[static_cast<size_t>(read)] = k;
  }
  std::vector<std::pair<unsigned, int64_t>> free;  // by axes
  for (size_t k = 0; k < order.size(); ++k) {
    const int v = order[k].first;
    if (v < 0) continue;
    const BlockValue& value = values[static_cast<size_t>(v)];
    const auto keeps = [&](int arg) {
      return values[static_cast<size_t>(arg)].kind == ValueKind::kNumber || slots->at[static_cast<size_t>(arg)] < 0;
    };
    if (value.kind != ValueKind::kProduct && value.dtype == DType::kFloat32) {
      // Reads, which mostly stay where they are, before all others.
      std::vector<int> args = value.args;
      std::stable_partition(args.begin(), args.end(),
                            [&](int arg) { return values[static_cast<size_t>(arg)].kind == ValueKind::kRead; });
      for (const int arg : args) {
        if (keeps(arg) || last[static_cast<size_t>(arg)] != k) continue;
        const BlockValue& from = values[static_cast<size_t>(arg)];
        if (from.dtype != DType::kFloat32) continue;
        const std::pair<unsigned, int64_t> place{from.axes, slots->at[static_cast<size_t>(arg)]};
        if (std::find(free.begin(), free.end(), place) == free.end()) free.push_back(place);
      }
    }
    // The last one that became free, an argument's if it can be.
    const auto found =
        std::find_if(free.rbegin(), free.rend(), [&](const auto& one) { return one.first == value.axes; });
    if (value.kind != ValueKind::kNumber && found != free.rend()) {
      slots->at[static_cast<size_t>(v)] = found->second;
      free.erase(std::next(found).base());
    } else {
      slots->at[static_cast<size_t>(v)] = end;
      end += plan.FloatsOf(value.axes);
    }
  }
  return end;
}

// Fills a plan with the sizes and places of one group.
class FoldPlanner {
 public:
  FoldPlanner(const GroupFold& fold, const std::vector<Layout>& operands, const Layout& out, int threads, bool splits)
      : fold_(fold), operands_(operands), out_(out) {
    plan_.program = fold.program;
    plan_.splits = splits;
    JoinDifferences();
    plan_.threads = threads;
    plan_.num_operands = static_cast<int>(operands.size());
    variables_ = fold.bindings.variables;
    int most = 0;
    for (const BlockValue& value : plan_.program.values) {
      if (value.expr != nullptr) most = std::max(most, value.expr->greatest_variable());
    }
    variables_.resize(std::max(variables_.size(), static_cast<size_t>(most) + 1));
  }

  FoldPlan Run() {
    const BlockProgram& program = plan_.program;
    const OutputMeaning& output = fold_.meaning->outputs[0];
    Shape points;
    for (size_t axis = 0; axis < output.index_vars.size(); ++axis) {
      const int v = output.index_vars[axis];
      const int64_t size = out_.dims[axis];
      if (v == program.row) {
        plan_.rows = size;
        plan_.out.row = out_.strides[axis];
      } else if (v == program.column) {
        plan_.columns = size;
        plan_.out.column = out_.strides[axis];
      } else {
        points.push_back(size);
      }
    }
    plan_.points = NumElements(points);
    plan_.loop = EvalIndex(program.extent, variables_).value_or(0);
    plan_.column_floats = WholeLines(plan_.columns);
    ReadOperands(points);
    plan_.splits = plan_.splits && FillsTiles();
    plan_.left_factors.assign(program.values.size(), 1);
    if (plan_.splits) MoveFactors();
    ChooseBlocks();
    // The first block is computed anyway.
    plan_.skips = plan_.loop > plan_.loop_block && MayLeaveUnchanged(program);
    PlacePacked();
    if (plan_.skips) PlaceRanges();
    PlaceOwn();
    return std::move(plan_);
  }

 private:
  // By value, how many read it.
  static std::vector<int> ReadersOf(const BlockProgram& program) {
    std::vector<int> readers(program.values.size(), 0);
    for (const BlockValue& value : program.values) {
      for (const int arg : value.args) ++readers[static_cast<size_t>(arg)];
    }
    for (const BlockProgram::Step& step : program.steps) {
      ++readers[static_cast<size_t>(step.body)];
      if (step.repair >= 0) ++readers[static_cast<size_t>(step.repair)];
    }
    ++readers[static_cast<size_t>(program.element)];
    return readers;
  }

  // exp(a - b) becomes one operation of a and b where b is one number for each row and nothing else reads a - b.
  void JoinDifferences() {
    BlockProgram& program = plan_.program;
    const std::vector<int> readers = ReadersOf(program);
    const unsigned columns = kLoopAxis | kColumnAxis;
    for (BlockValue& value : program.values) {
      if (value.kind != ValueKind::kCall || value.fn != Fn::kExp) continue;
      const int inner = value.args[0];
      const BlockValue& difference = program.values[static_cast<size_t>(inner)];
      if (difference.kind != ValueKind::kCall || difference.fn != Fn::kSub ||
          readers[static_cast<size_t>(inner)] != 1) {
        continue;
      }
      const unsigned left = program.values[static_cast<size_t>(difference.args[0])].axes;
      const unsigned right = program.values[static_cast<size_t>(difference.args[1])].axes;
      if ((left & columns) == 0 || (right & columns) != 0) continue;
      value.args = difference.args;
      for (BlockProgram::Step& step : program.steps) {
        for (std::vector<int>* order : {&step.values, &step.repair_values, &step.all_values}) std::erase(*order, inner);
      }
      std::erase(program.element_values, inner);
    }
  }

  void ReadOperands(const Shape& points) {
    const BlockProgram& program = plan_.program;
    const OutputMeaning& output = fold_.meaning->outputs[0];
    plan_.reads.resize(program.values.size());
    plan_.numbers.resize(program.values.size());
    for (size_t v = 0; v < program.values.size(); ++v) {
      const BlockValue& value = program.values[v];
      if (value.kind == ValueKind::kNumber) {
        plan_.numbers[v] = value.expr->kind() == ExprKind::kConst
                               ? static_cast<float>(value.expr->real())
                               : static_cast<float>(EvalIndex(value.expr->arg(0), variables_).value_or(0));
      }
      if (value.kind != ValueKind::kRead) continue;
      FoldRead& read = plan_.reads[v];
      read.operand = value.expr->operand();
      read.element_bytes = static_cast<int64_t>(DTypeSize(value.dtype));
      const Layout& layout = operands_[static_cast<size_t>(read.operand)];
      for (size_t axis = 0; axis < layout.dims.size(); ++axis) {
        const ExprPtr& index = value.expr->arg(axis);
        if (!index->IsVariable()) continue;
        if (int64_t* const step = StepOf(&read, value, index->variable())) *step += layout.strides[axis];
      }
    }
    std::vector<int64_t> at(points.size(), 0);
    for (int64_t point = 0; point < plan_.points; ++point) {
      int64_t rest = point;
      for (size_t k = points.size(); k-- > 0;) {
        at[k] = rest % points[k];
        rest /= points[k];
        variables_[static_cast<size_t>(program.parallel[k])] = at[k];
      }
      int64_t start = 0;
      for (size_t k = 0; k < points.size(); ++k) {
        const auto axis = std::find(output.index_vars.begin(), output.index_vars.end(), program.parallel[k]);
        start += at[k] * out_.strides[static_cast<size_t>(axis - output.index_vars.begin())];
      }
      plan_.out.starts.push_back(start);
      for (size_t v = 0; v < program.values.size(); ++v) {
        if (program.values[v].kind == ValueKind::kRead) plan_.reads[v].starts.push_back(StartOf(static_cast<int>(v)));
      }
    }
  }

  int64_t* StepOf(FoldRead* read, const BlockValue& value, int variable) const {
    if (variable == value.inner) return &read->inner;
    if (variable == plan_.program.loop) return &read->loop;
    if (variable == plan_.program.row) return &read->row;
    return variable == plan_.program.column ? &read->column : nullptr;
  }

  int64_t StartOf(int v) {
    const BlockValue& value = plan_.program.values[static_cast<size_t>(v)];
    FoldRead& read = plan_.reads[static_cast<size_t>(v)];
    const Layout& layout = operands_[static_cast<size_t>(read.operand)];
    int64_t start = 0;
    for (size_t axis = 0; axis < layout.dims.size(); ++axis) {
      const ExprPtr& index = value.expr->arg(axis);
      if (index->IsVariable() && StepOf(&read, value, index->variable()) != nullptr) continue;
      start += EvalIndex(index, variables_).value_or(0) * layout.strides[axis];
    }
    return start;
  }

  int64_t DepthOf(const BlockValue& product) const { return EvalIndex(product.extent, variables_).value_or(0); }

  // A number by which all elements of a product are multiplied goes to its left factor, which is split anyway.
  void MoveFactors() {
    BlockProgram& program = plan_.program;
    const std::vector<int> readers = ReadersOf(program);
    for (size_t v = 0; v < program.values.size(); ++v) {
      BlockValue& value = program.values[v];
      if (value.kind != ValueKind::kCall || (value.fn != Fn::kMul && value.fn != Fn::kDiv)) continue;
      auto left = static_cast<size_t>(value.args[0]), right = static_cast<size_t>(value.args[1]);
      if (value.fn == Fn::kMul && program.values[left].kind == ValueKind::kNumber) std::swap(left, right);
      if (program.values[left].kind != ValueKind::kProduct || program.values[right].kind != ValueKind::kNumber ||
          readers[left] != 1) {
        continue;
      }
      float factor = plan_.numbers[right];
      if (value.fn == Fn::kDiv) {
        int exponent = 0;
        if (std::abs(std::frexp(factor, &exponent)) != 0.5f || std::abs(exponent) > 20) continue;
        factor = 1 / factor;  // exact
      }
      if (!std::isfinite(factor)) continue;
      plan_.left_factors[v] = factor * plan_.left_factors[left];
      value = program.values[left];
      for (BlockProgram::Step& step : program.steps) {
        for (std::vector<int>* order : {&step.values, &step.repair_values, &step.all_values}) {
          std::erase(*order, static_cast<int>(left));
        }
      }
      program.values[left] = {};  // a number that nothing reads
    }
  }

  // Tiles are of whole units of rows, depth and columns, the rest of which is computed in vain.
  bool FillsTiles() const {
    constexpr int64_t kLeast = SplitTable::kDepth / 2;
    bool any = false, filled = plan_.rows >= kLeast && plan_.loop >= kLeast;
    for (const BlockValue& value : plan_.program.values) {
      if (value.kind != ValueKind::kProduct) continue;
      any = true;
      filled = filled && DepthOf(value) >= kLeast;
    }
    for (const BlockProgram::Step& step : plan_.program.steps) {
      if (step.factor < 0) continue;
      any = true;
      filled = filled && plan_.columns >= kLeast / 2;
    }
    return any && filled;
  }

  // Blocks of rows are as long as all threads have some.
  void ChooseRowBlocks(int64_t most) {
    int64_t parts = (plan_.rows + most - 1) / most;
    const int64_t strips = (plan_.rows + plan_.strip - 1) / plan_.strip;
    if (plan_.points * parts < 2 * plan_.threads) {
      parts = std::min(strips, (2 * plan_.threads + plan_.points - 1) / plan_.points);
    }
    plan_.row_block = (strips + parts - 1) / parts * plan_.strip;
    plan_.threads = static_cast<int>(std::min<int64_t>(plan_.threads, plan_.tasks()));
  }

  // Bytes of packed factors for each position of the loop decide on its blocks.
  void ChooseBlocks() {
    if (plan_.splits) {
      plan_.strip = SplitTable::kRows;
      plan_.loop_block = std::min(kSplitLoop, plan_.loop);
      return ChooseRowBlocks(kSplitRows);
    }
    const int64_t unit = Simd().gemm_rows, width = Simd().gemm_columns;
    int64_t floats = 0;
    for (const BlockValue& value : plan_.program.values) {
      if (value.kind == ValueKind::kProduct) floats += DepthOf(value);
    }
    for (const BlockProgram::Step& step : plan_.program.steps) {
      if (step.factor >= 0) floats += plan_.columns;
    }
    const int64_t fits = kFoldBytes / (4 * std::max<int64_t>(floats, 1)) / width * width;
    plan_.loop_block = std::min(std::clamp(fits, 2 * width, kMostLoop), plan_.loop);
    plan_.strip = std::min(6 * unit, plan_.rows);
    ChooseRowBlocks(kMostRows);
  }

  void PlacePacked() {
    plan_.packed_of.assign(plan_.program.values.size(), -1);
    const auto add = [&](int key, PackedFold factor) {
      if (plan_.packed_of[static_cast<size_t>(key)] >= 0) return;
      factor.slots = Numbered(plan_.reads[static_cast<size_t>(factor.value)].starts, &factor.starts);
      factor.floats = plan_.splits
                          ? FoldPlan::RightPartFloats(factor.depth, factor.columns)
                          : static_cast<int64_t>(PackedMatmulBytes(factor.depth, factor.columns) / sizeof(float));
      factor.offset = plan_.packed_floats;
      plan_.packed_floats += WholeLines(factor.floats * plan_.blocks() * static_cast<int64_t>(factor.starts.size()));
      plan_.packed_of[static_cast<size_t>(key)] = static_cast<int>(plan_.packed.size());
      plan_.packed.push_back(std::move(factor));
    };
    for (size_t v = 0; v < plan_.program.values.size(); ++v) {
      const BlockValue& value = plan_.program.values[v];
      if (value.kind != ValueKind::kProduct) continue;
      add(static_cast<int>(v), {value.args[1], false, DepthOf(value), plan_.loop_block});
    }
    for (const BlockProgram::Step& step : plan_.program.steps) {
      if (step.factor >= 0) add(step.factor, {step.factor, true, plan_.loop_block, plan_.columns});
    }
  }

  // Behind what is packed: the ranges of reads, and the greatest magnitudes of right factors.
  void PlaceRanges() {
    const auto take = [&](size_t count) {
      const int64_t at = plan_.packed_floats;
      plan_.packed_floats += WholeLines(static_cast<int64_t>(count));
      return at;
    };
    const auto blocks = static_cast<size_t>(plan_.blocks()), strips = static_cast<size_t>(plan_.strips());
    for (PackedFold& factor : plan_.packed) factor.most = take(factor.starts.size() * blocks);
    for (size_t v = 0; v < plan_.program.values.size(); ++v) {
      const BlockValue& value = plan_.program.values[v];
      if (value.kind != ValueKind::kRead || !(value.axes & kLoopAxis) || (value.axes & kColumnAxis)) continue;
      RangedRead read{static_cast<int>(v)};
      read.slots = Numbered(plan_.reads[v].starts, &read.starts);
      read.offset = take(2 * read.starts.size() * strips * blocks);
      plan_.ranged.push_back(std::move(read));
    }
  }

  void PlaceOwn() {
    int64_t end = 0;
    const auto take = [&](int64_t floats) {
      const int64_t at = end;
      end += WholeLines(floats);
      return at;
    };
    const std::vector<BlockProgram::Step>& steps = plan_.program.steps;
    for (const BlockProgram::Step& step : steps) {
      const bool columns = step.factor >= 0;
      const int64_t floats = plan_.row_block * (columns ? plan_.column_floats : 1);
      plan_.before.push_back(take(floats));
      plan_.behind.push_back(columns ? plan_.before.back() : take(floats));
    }
    plan_.block_numbers = take(plan_.strip);
    for (int64_t& fill : plan_.fills) fill = take(plan_.FillFloats());
    std::vector<std::pair<int, std::vector<int>>> order;
    for (const BlockProgram::Step& step : steps) {
      for (const int v : step.values) order.push_back({v, {}});
      for (const int v : step.repair_values) order.push_back({v, {}});
      order.push_back({-1, {step.body}});
      if (step.repair >= 0) order.back().second.push_back(step.repair);
    }
    end = AssignSlots(plan_, order, end, &plan_.slots[0]);
    order.clear();
    for (const int v : plan_.program.element_values) order.push_back({v, {}});
    order.push_back({-1, {plan_.program.element}});
    end = AssignSlots(plan_, order, end, &plan_.slots[1]);
    PlaceInPlace();
    if (plan_.splits) PlaceParts(take);
    plan_.left_bounds.assign(plan_.program.values.size(), -1);
    for (size_t v = 0; v < plan_.program.values.size() && plan_.skips; ++v) {
      if (plan_.program.values[v].kind == ValueKind::kProduct) {
        plan_.left_bounds[v] = take(plan_.row_block / plan_.strip);
      }
    }
    plan_.thread_floats = WholeLines(end);
  }

  // A repair that nothing else reads takes the place of what it repairs, position by position.
  void PlaceInPlace() {
    const std::vector<int> readers = ReadersOf(plan_.program);
    for (const BlockProgram::Step& step : plan_.program.steps) {
      bool in_place = step.factor >= 0 && step.repair >= 0;
      if (in_place) {
        const BlockValue& repair = plan_.program.values[static_cast<size_t>(step.repair)];
        in_place = (repair.kind == ValueKind::kCall || repair.kind == ValueKind::kSelect) &&
                   repair.axes == (kRowAxis | kColumnAxis) && readers[static_cast<size_t>(step.repair)] == 1;
      }
      plan_.in_place.push_back(in_place);
    }
  }

  template <typename Take>
  void PlaceParts(const Take& take) {
    const int64_t strips = plan_.row_block / plan_.strip;
    plan_.left_parts.assign(plan_.program.values.size(), -1);
    for (size_t v = 0; v < plan_.program.values.size(); ++v) {
      const BlockValue& value = plan_.program.values[v];
      if (value.kind == ValueKind::kProduct) {
        plan_.left_parts[v] = take(strips * FoldPlan::LeftPartFloats(DepthOf(value)));
      }
    }
    plan_.left_most = take(plan_.strip * kLineFloats);
    for (const BlockProgram::Step& step : plan_.program.steps) {
      plan_.body_most.push_back(step.factor >= 0 ? take(plan_.row_block * kLineFloats) : -1);
    }
    plan_.body_parts = take(FoldPlan::LeftPartFloats(plan_.loop_block));
    plan_.anew = take(static_cast<int64_t>(PackedMatmulBytes(plan_.loop_block, plan_.columns) / sizeof(float)));
  }

  const GroupFold& fold_;
  const std::vector<Layout>& operands_;
  const Layout& out_;
  std::vector<int64_t> variables_;
  FoldPlan plan_;
};

}  // namespace

FoldPlan PlanFold(const GroupFold& fold, const std::vector<Layout>& operands, const Layout& out, int threads,
                  bool splits) {
  return FoldPlanner(fold, operands, out, threads, splits).Run();
}

}  // namespace rewright::cpu
