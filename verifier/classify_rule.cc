#include "verifier/classify_rule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/interpreter.h"
#include "verifier/counterexample.h"
#include "verifier/numeric_instance.h"

namespace rewright {
namespace {

// Enough to meet every kind of instance; a rule may have thousands.
constexpr int kMeasuredInstances = 24;
constexpr int kAssignments = 3;
constexpr int kDrawnAssignments = 18;
// With elements that are not finite, at each assignment: where such an element stands matters.
constexpr int kNotFiniteRuns = 4;
constexpr int64_t kMaxElements = 1 << 16;
constexpr double kRounding = 0x1p-24;
constexpr double kMuchRounding = 1e-3;  // of the largest element

bool AllFinite(const Tensor& tensor) {
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (!std::isfinite(tensor.At(i))) return false;
  }
  return true;
}

double LargestError(const Tensor& value, const Tensor& truth) {
  double error = 0;
  for (int64_t i = 0; i < truth.num_elements(); ++i) error = std::max(error, std::abs(value.At(i) - truth.At(i)));
  return error;
}

double LargestElement(const Tensor& tensor) {
  double largest = 0;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) largest = std::max(largest, std::abs(tensor.At(i)));
  return largest;
}

bool MentionsIndex(const ExprPtr& expr) {
  return expr->kind == ExprKind::kFromIndex ||
         std::any_of(expr->args.begin(), expr->args.end(), [](const ExprPtr& arg) { return MentionsIndex(arg); });
}

// A real number made of sizes, like 1 / (r s), rounds at some sizes and not at others: a few samples say nothing.
bool RoundsWithSizes(const RuleInstance& instance) {
  return std::any_of(instance.nodes.begin(), instance.nodes.end(), [](const SymbolicNode& node) {
    return std::any_of(node.params.begin(), node.params.end(),
                       [](const ExprPtr& param) { return MentionsIndex(param); });
  });
}

}  // namespace

void RuleClassifier::Add(const RuleInstance& instance, const ProofResult& proof) {
  if (RoundsWithSizes(instance)) same_bits_ = false;
  finite_only_ = finite_only_ || proof.used_finite_only_step;
  if (measured_instances_ >= kMeasuredInstances) return;
  ++measured_instances_;
  for (const std::vector<int64_t>& symbols : Assignments(instance)) {
    for (Leaves leaves : {Leaves::kOrdinary, Leaves::kScaled, Leaves::kFarFromZero}) {
      Measure(instance, symbols, leaves);
    }
    for (int run = 0; run < kNotFiniteRuns && !finite_only_; ++run) Measure(instance, symbols, Leaves::kNotFinite);
  }
}

std::vector<std::vector<int64_t>> RuleClassifier::Assignments(const RuleInstance& instance) {
  verifier::CounterexampleSearch search(instance, rng_());
  search.Run(kDrawnAssignments, 0.05);
  std::vector<std::vector<int64_t>> assignments = search.assignments();
  std::stable_sort(assignments.begin(), assignments.end(), [](const auto& a, const auto& b) {
    return std::accumulate(a.begin(), a.end(), int64_t{0}) > std::accumulate(b.begin(), b.end(), int64_t{0});
  });
  if (assignments.size() > kAssignments) assignments.resize(kAssignments);
  return assignments;
}

void RuleClassifier::Measure(const RuleInstance& instance, const std::vector<int64_t>& symbols, Leaves kind) {
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> exponent(-2, 2);
  std::vector<double> reals;
  for (const RealSymbol& real : instance.reals) {
    const double value = normal(rng_);
    reals.push_back(real.positive ? std::abs(value) + 1e-3 : value);
  }
  const NumericInstance numeric(instance, symbols, reals);
  std::vector<Tensor> leaves(instance.nodes.size());
  for (size_t n = 0; n < instance.nodes.size(); ++n) {
    const SymbolicNode& node = instance.nodes[n];
    for (size_t k = 0; k < node.dtypes.size(); ++k) {
      if (numeric.TypeOf(node, k).num_elements() > kMaxElements) return;
    }
    if (node.op != nullptr) continue;
    Tensor leaf(numeric.TypeOf(node, 0));
    const double scale = kind == Leaves::kScaled ? std::pow(10, exponent(rng_)) : 1;
    const double offset = kind == Leaves::kFarFromZero ? 1000 : 0;
    for (int64_t i = 0; i < leaf.num_elements(); ++i) {
      if (node.splat.has_value()) {
        leaf.Set(i, *node.splat);
      } else if (IsFloating(leaf.dtype())) {
        const double value = offset + scale * normal(rng_);
        leaf.Set(i, node.positive ? std::abs(value) + 1e-3 : value);
      } else {
        leaf.SetInt(i, RandomInteger(leaf.dtype(), kind));
      }
    }
    leaves[n] = leaf;
  }
  if (kind == Leaves::kNotFinite && !SpoilOne(instance, &leaves)) return;
  const auto rounded = numeric.Run(leaves, Carrier::kNative, instance.nodes.size());
  const auto precise = numeric.Run(leaves, Carrier::kFloat64, instance.nodes.size());
  if (!rounded.ok() || !precise.ok()) return;
  ++samples_;
  const auto at = [](const std::vector<std::vector<Tensor>>& values, SymbolicValue value) -> const Tensor& {
    return values[static_cast<size_t>(value.node)][static_cast<size_t>(value.output)];
  };
  for (size_t k = 0; k < instance.lhs.size(); ++k) {
    const Tensor& left = at(*rounded, instance.lhs[k]);
    const Tensor& right = at(*rounded, instance.rhs[k]);
    const Tensor& truth = at(*precise, instance.lhs[k]);
    if (kind == Leaves::kNotFinite) {
      CompareFiniteness(left, right);
      continue;
    }
    if (!left.BitEqual(right)) same_bits_ = false;
    // What the left side leaves undefined the right side must not define.
    for (int64_t i = 0; i < left.num_elements(); ++i) {
      finite_only_ = finite_only_ || (!std::isfinite(left.At(i)) && std::isfinite(right.At(i)));
    }
    if (!AllFinite(left) || !AllFinite(truth)) continue;
    const double allowed = std::max(LargestError(left, truth), kRounding * LargestElement(truth));
    risky_ = risky_ || !AllFinite(right) || LargestError(right, truth) > kRiskFactor * allowed;
  }
}

// Small ones, which may be indices or truth values; some of both signs; some that float32 cannot tell apart.
int64_t RuleClassifier::RandomInteger(DType dtype, Leaves kind) {
  const int64_t small = static_cast<int64_t>(rng_() % 2);
  if (dtype == DType::kBool || (kind != Leaves::kScaled && kind != Leaves::kFarFromZero)) return small;
  return kind == Leaves::kScaled ? static_cast<int64_t>(rng_() % 11) - 5 : (int64_t{1} << 24) + small;
}

// Makes one element of one floating leaf infinite or NaN; false where there is none.
bool RuleClassifier::SpoilOne(const RuleInstance& instance, std::vector<Tensor>* leaves) {
  std::vector<size_t> choices;
  for (size_t n = 0; n < instance.nodes.size(); ++n) {
    const SymbolicNode& node = instance.nodes[n];
    if (node.op != nullptr || node.splat.has_value() || node.finite) continue;
    if (IsFloating((*leaves)[n].dtype()) && (*leaves)[n].num_elements() > 0) choices.push_back(n);
  }
  if (choices.empty()) return false;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double values[] = {kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()};
  Tensor& leaf = (*leaves)[choices[rng_() % choices.size()]];
  leaf.Set(static_cast<int64_t>(rng_() % static_cast<uint64_t>(leaf.num_elements())), values[rng_() % 3]);
  return true;
}

void RuleClassifier::CompareFiniteness(const Tensor& left, const Tensor& right) {
  double size = 0;
  for (int64_t i = 0; i < left.num_elements(); ++i) {
    for (double value : {left.At(i), right.At(i)}) {
      if (std::isfinite(value)) size = std::max(size, std::abs(value));
    }
  }
  // What is finite on both sides may still differ, as a truth value does that a NaN decides.
  const double allowed = IsFloating(left.dtype()) ? kMuchRounding * size : 0;
  for (int64_t i = 0; i < left.num_elements(); ++i) {
    const double a = left.At(i), b = right.At(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    same_bits_ = false;
    // An infinite element may become NaN, as in x (y + z) and x y + x z, but not an ordinary one.
    const bool differs = std::isfinite(a) && std::isfinite(b) && std::abs(a - b) > allowed;
    if (std::isfinite(a) != std::isfinite(b) || differs) finite_only_ = true;
  }
}

RuleClass RuleClassifier::Class() const {
  if (risky_) return RuleClass::kNumericallyRisky;
  // Nothing is known of a rule that could not be measured.
  if (finite_only_ || samples_ == 0) return RuleClass::kFiniteOnly;
  return same_bits_ ? RuleClass::kExact : RuleClass::kReassociating;
}

}  // namespace rewright
