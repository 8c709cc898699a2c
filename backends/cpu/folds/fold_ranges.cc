#include "backends/cpu/folds/fold_ranges.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <vector>

namespace rewright::cpu {
namespace {

using BlockValue = BlockProgram::Value;
using ValueKind = BlockProgram::Value::Kind;

// Below it exp is 0 in f32: less than half of the smallest number.
constexpr float kNoPower = -105;

// From the least to the greatest; not known where one is NaN.
Range HullOf(std::initializer_list<float> numbers) {
  if (std::any_of(numbers.begin(), numbers.end(), [](float x) { return std::isnan(x); })) return {};
  return {std::min(numbers), std::max(numbers)};
}
bool IsFinite(const Range& x) { return std::isfinite(x.low) && std::isfinite(x.high); }

// Rounding keeps the order, so that ends bound what the kernel computes. Sums of infinite ends may be NaN between them,
// and products of such are not looked at.
Range SumOf(const Range& a, const Range& b) {
  return HullOf({a.low + b.low, a.low + b.high, a.high + b.low, a.high + b.high});
}
Range ProductOf(const Range& a, const Range& b) {
  if (!IsFinite(a) || !IsFinite(b)) return {};
  return HullOf({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
}
Range Negative(const Range& x) { return HullOf({-x.high, -x.low}); }
Range QuotientOf(const Range& a, const Range& b) {
  if (!IsFinite(a) || !IsFinite(b) || !(b.low > 0)) return {};
  return HullOf({a.low / b.low, a.low / b.high, a.high / b.low, a.high / b.high});
}
Range PowerOf(const Range& x) {
  if (x.high < kNoPower) return {0, 0};
  // The kernel's exp may differ in the last digits. NaN stays.
  return HullOf({0, std::max(std::exp(x.high) * 1.001f, std::numeric_limits<float>::denorm_min())});
}
// Extrema of both ends, where both ranges are known.
Range ExtremaOf(const Range& a, const Range& b, bool largest) {
  if (std::isnan(a.low) || std::isnan(b.low)) return {};
  if (largest) return {std::max(a.low, b.low), std::max(a.high, b.high)};
  return {std::min(a.low, b.low), std::min(a.high, b.high)};
}

class BlockRanges {
 public:
  BlockRanges(const BlockProgram& program, const LeafRanges& leaves)
      : program_(program), leaves_(leaves), ranges_(program.values.size()) {}

  // Steps are asked one after the other, as long as they are unchanged: new numbers are then the old ones.
  bool IsUnchanged(int number) {
    const BlockProgram::Step& step = program_.steps[static_cast<size_t>(number)];
    for (const int v : step.values) ranges_[static_cast<size_t>(v)] = Of(program_.values[static_cast<size_t>(v)], v);
    const Range body = At(step.body);
    if (step.kind == ReduceKind::kSum) {
      // 0 times a factor that is infinite is NaN.
      return body.IsOnly(0) && (step.factor < 0 || IsFinite(leaves_.of_value(step.factor)));
    }
    const Range before = leaves_.of_carried(number);
    if (step.kind == ReduceKind::kMax) return body.high <= before.low;
    return step.kind == ReduceKind::kMin && body.low >= before.high;
  }

 private:
  Range At(int v) const {
    const BlockValue& value = program_.values[static_cast<size_t>(v)];
    const bool carried = value.kind == ValueKind::kOld || value.kind == ValueKind::kNew;
    return carried ? leaves_.of_carried(value.carried) : ranges_[static_cast<size_t>(v)];
  }

  Range Of(const BlockValue& value, int v) const {
    if (value.kind == ValueKind::kCall) return OfCall(value);
    if (value.kind != ValueKind::kSelect) return leaves_.of_value(v);
    const Range condition = At(value.args[0]), yes = At(value.args[1]), no = At(value.args[2]);
    if (condition.IsOnly(1)) return yes;
    if (condition.IsOnly(0)) return no;
    return HullOf({yes.low, yes.high, no.low, no.high});
  }

  Range OfCall(const BlockValue& value) const {
    const Range a = At(value.args[0]), b = value.args.size() > 1 ? At(value.args[1]) : Range();
    switch (value.fn) {
      case Fn::kAdd: return SumOf(a, b);
      case Fn::kSub: return SumOf(a, Negative(b));
      case Fn::kMul: return ProductOf(a, b);
      case Fn::kDiv: return QuotientOf(a, b);
      case Fn::kNeg: return Negative(a);
      case Fn::kMax: return ExtremaOf(a, b, true);
      case Fn::kMin: return ExtremaOf(a, b, false);
      // exp(a - b) where the plan has joined the two.
      case Fn::kExp: return PowerOf(value.args.size() > 1 ? SumOf(a, Negative(b)) : a);
      default: return {};
    }
  }

  const BlockProgram& program_;
  const LeafRanges& leaves_;
  std::vector<Range> ranges_;
};

}  // namespace

bool LeavesAllUnchanged(const BlockProgram& program, const LeafRanges& leaves) {
  BlockRanges ranges(program, leaves);
  for (size_t k = 0; k < program.steps.size(); ++k) {
    if (!ranges.IsUnchanged(static_cast<int>(k))) return false;
  }
  return true;
}

bool MayLeaveUnchanged(const BlockProgram& program) {
  bool reads = false, multiplies = false;
  for (const BlockProgram::Step& step : program.steps) {
    for (const int v : step.values) {
      const BlockValue& value = program.values[static_cast<size_t>(v)];
      reads = reads || (value.kind == ValueKind::kRead && (value.axes & BlockProgram::kLoop));
      multiplies = multiplies || value.kind == ValueKind::kProduct;
    }
  }
  return reads && multiplies;
}

}  // namespace rewright::cpu
