#include "verifier/classify/prove_rounding.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "core/tensor/compare.h"
#include "substitutions/language/number.h"
#include "verifier/classify/classify_rule.h"
#include "verifier/classify/rounding_laws.h"
#include "verifier/classify/value_distribution.h"
#include "verifier/refute/counterexample.h"
#include "verifier/refute/numeric_instance.h"

namespace rewright {
namespace {

bool IsBounded(const ExprPtr& e);

// True for at most 1 over the root of an element: 2^12 for the smallest number of f16, 2^67 for that of bf16. (Over 0
// it is infinite, as the left side is: the sides are equal where they are defined.)
bool IsReciprocalRoot(const ExprPtr& e) {
  return e->IsCall(Fn::kDiv) && e->arg(0)->IsConst() && std::abs(e->arg(0)->real()) <= 1 &&
         e->arg(1)->IsCall(Fn::kSqrt) && e->arg(1)->arg(0)->IsRead();
}

// True if no element is larger than 1 and all that is read, or than what the type always has room for.
bool IsBounded(const ExprPtr& e) {
  if (IsReciprocalRoot(e)) return true;
  switch (e->kind()) {
    case ExprKind::kConst: return std::abs(e->real()) <= 1;
    case ExprKind::kRead: return true;
    case ExprKind::kSelect: return IsBounded(e->yes()) && IsBounded(e->no());
    case ExprKind::kReduce:
      return (e->reduction() == ReduceKind::kMax || e->reduction() == ReduceKind::kMin) && IsBounded(e->body());
    case ExprKind::kCast:
      return e->arg(0)->dtype() == DType::kBool || (IsFloating(e->arg(0)->dtype()) && IsBounded(e->arg(0)));
    case ExprKind::kCall: break;
    default: return false;
  }
  switch (e->fn()) {
    case Fn::kTanh:
    case Fn::kSigmoid:
    case Fn::kErf:
    case Fn::kSin:
    case Fn::kCos:
    case Fn::kSign: return true;
    case Fn::kMax:
    case Fn::kMin:
    case Fn::kNeg:
    case Fn::kAbs:
    case Fn::kSqrt: return std::all_of(e->args().begin(), e->args().end(), IsBounded);
    default: return false;
  }
}

bool IsBounded(const SymbolicNode& node, size_t output) {
  if (node.meaning == nullptr || !IsFloating(node.dtypes[output])) return true;
  if (IsFill(node)) return true;  // a constant of the rule is a number of its type
  return !node.meaning->IsOpaque() && IsBounded(node.meaning->outputs[output].element);
}

// The elements of leaves.
enum class Sizes : uint8_t {
  kOfLeaves,    // each leaf has a size, from which its elements differ by a factor of 2 at most; all are positive
  kOfElements,  // each element has a size of its own, or is 0
  kOfProducts,  // one element of each leaf is 1, the others are tiny: what one side has of their product shows
  kSigned,      // those of leaves, with elements of either sign
};

// One instance at some sizes, with numbers for its leaves: a law that fails there need not be proved. Draws sizes when
// they are asked for.
class Sample {
 public:
  explicit Sample(const RuleInstance& instance) : instance_(instance), random_(kSeed) {}

  const std::vector<std::vector<int64_t>>& symbols() {
    constexpr int kDraws = 6, kTries = 20;  // large instances are rarely legal
    if (search_) return symbols_;
    search_.emplace(instance_, kSeed);
    for (int k = 0; k < kTries && symbols_.empty(); ++k) symbols_ = search_->Draw(kDraws);
    return symbols_;
  }

  // Some at which one size is large, with those that the conditions tie to it.
  std::vector<std::vector<int64_t>> LargeSymbols() {
    constexpr int64_t kLarge = 1024;
    std::vector<std::vector<int64_t>> all;
    if (symbols().empty()) return all;
    for (size_t one = 0; one < instance_.symbols.size(); ++one) {
      if (!instance_.symbols[one].is_size) continue;
      // A size that another one makes by a product has not every value.
      for (int64_t large : {kLarge, kLarge + kLarge / 2, kLarge - 1, kLarge + 1}) {
        std::optional<std::vector<int64_t>> drawn = search_->DrawAt(static_cast<int>(one), large);
        if (!drawn) continue;
        all.push_back(*std::move(drawn));
        break;
      }
    }
    return all;
  }

  // The values of all nodes; nothing where they cannot be computed. Leaves, or their elements, have sizes between
  // 2^-spread and 1.
  std::optional<std::vector<std::vector<Tensor>>> Run(const RuleInstance& law, const std::vector<int64_t>& symbols,
                                                      int spread, Sizes sizes, CompiledNodes* compiled) {
    ValueDistribution leaves_of(random_(), std::nullopt);
    std::vector<Number> reals = leaves_of.Reals(law, Leaves::kOrdinary);
    for (size_t k = 0; k < reals.size(); ++k) {
      if (law.reals[k].positive) reals[k] = std::abs(RealOf(reals[k]));
    }
    const NumericInstance numeric(law, symbols, reals);
    std::vector<Tensor> leaves;
    if (!leaves_of.Draw(law, numeric, Leaves::kOrdinary, Precision::kFloat64, &leaves)) return std::nullopt;
    for (size_t n = 0; n < leaves.size(); ++n) {
      if (law.nodes[n].meaning != nullptr || law.nodes[n].splat || !IsFloating(leaves[n].dtype())) continue;
      std::uniform_real_distribution<double> of_leaf(-spread, 0), power(-1, 1);
      const double size = std::exp2(of_leaf(random_));
      const bool one = sizes == Sizes::kOfProducts && leaves[n].num_elements() > 0;
      const int64_t place = one ? static_cast<int64_t>(random_() % static_cast<uint64_t>(leaves[n].num_elements())) : 0;
      for (int64_t i = 0; i < leaves[n].num_elements(); ++i) {
        const bool negative = sizes == Sizes::kSigned && !law.nodes[n].positive && random_() % 2 != 0;
        double element = size * std::exp2(power(random_));
        if (sizes == Sizes::kOfElements) element = random_() % 3 == 0 ? 0 : std::exp2(of_leaf(random_));
        if (sizes == Sizes::kOfProducts) element = i == place ? 1 : std::exp2(-spread);
        SetElement(negative ? -element : element, i, &leaves[n]);
      }
    }
    auto values = numeric.Run(leaves, Precision::kFloat64, law.nodes.size(), compiled);
    if (!values.ok()) return std::nullopt;
    return *std::move(values);
  }

 private:
  static constexpr uint64_t kSeed = 1;

  const RuleInstance& instance_;
  std::mt19937_64 random_;
  std::optional<verifier::CounterexampleSearch> search_;
  std::vector<std::vector<int64_t>> symbols_;
};

// Finds values of the right side that have an element, at some sizes, which the left side has not: their law of
// ranges is false.
class SeenValues {
 public:
  SeenValues(const RuleInstance& instance, const std::set<int>& left, Sample* sample) {
    constexpr int kSpread = 4;
    for (const std::vector<int64_t>& symbols : sample->symbols()) {
      auto values = sample->Run(instance, symbols, kSpread, Sizes::kSigned, /*compiled=*/nullptr);
      if (!values) continue;
      std::vector<double> seen = {0, 1};
      for (int node : left) {
        for (const Tensor& value : (*values)[static_cast<size_t>(node)]) AddElements(value, &seen);
      }
      std::sort(seen.begin(), seen.end());
      runs_.emplace_back(*std::move(values), std::move(seen));
    }
  }

  bool AllSeen(SymbolicValue value) const {
    constexpr double kRounding = 1e-9;
    for (const auto& [values, seen] : runs_) {
      std::vector<double> elements;
      AddElements(values[static_cast<size_t>(value.node)][static_cast<size_t>(value.output)], &elements);
      for (double x : elements) {
        const auto next = std::lower_bound(seen.begin(), seen.end(), x * (1 - kRounding));
        if (next == seen.end() || *next > x * (1 + kRounding)) return false;
      }
    }
    return true;
  }

 private:
  static void AddElements(const Tensor& value, std::vector<double>* elements) {
    if (!IsFloating(value.dtype())) return;
    for (int64_t i = 0; i < value.num_elements(); ++i) elements->push_back(std::abs(value.At(i)));
  }

  std::vector<std::pair<std::vector<std::vector<Tensor>>, std::vector<double>>> runs_;
};

// The greatest ratio of the largest elements that the sides of the law of magnitudes give, in both directions: at these
// sizes, each so many times, for leaves of these sizes. Both 0 where nothing could be computed.
std::pair<double, double> Growth(const RuleInstance& law, const std::vector<std::vector<int64_t>>& all, Sizes sizes,
                                 int runs, Sample* sample, CompiledNodes* compiled) {
  constexpr int kSpread = 20;
  double growth = 0, loss = 0;
  for (const std::vector<int64_t>& symbols : all) {
    for (int run = 0; run < runs; ++run) {
      const auto values = sample->Run(law, symbols, kSpread, sizes, compiled);
      if (!values) continue;
      for (size_t k = 0; k < law.lhs.size(); ++k) {
        const auto at = [&](SymbolicValue v) -> const Tensor& {
          return (*values)[static_cast<size_t>(v.node)][static_cast<size_t>(v.output)];
        };
        const Tensor &of_left = at(law.lhs[k]), &of_right = at(law.rhs[k]);
        if (!IsFloating(of_left.dtype()) || FirstNotFinite(of_left) >= 0 || FirstNotFinite(of_right) >= 0) continue;
        const double left = LargestMagnitude(of_left), right = LargestMagnitude(of_right);
        if (left + right == 0) continue;
        growth = std::max(growth, right / left);
        loss = std::max(loss, left / right);
      }
    }
  }
  return {growth, loss};
}

// True if no element of the law is another expression than that of the instance, which is proved.
bool IsInstanceItself(const RuleInstance& law, const RuleInstance& instance) {
  for (size_t n = 0; n < instance.nodes.size(); ++n) {
    const SymbolicNode &a = law.nodes[n], &b = instance.nodes[n];
    if (a.params != b.params) return false;
    if (b.meaning == nullptr || b.meaning->IsOpaque()) continue;
    for (size_t k = 0; k < b.meaning->outputs.size(); ++k) {
      if (a.meaning->outputs[k].element != b.meaning->outputs[k].element) return false;
    }
  }
  return true;
}

bool HasFloatingOutputs(const RuleInstance& instance) {
  return std::any_of(instance.lhs.begin(), instance.lhs.end(), [&](SymbolicValue v) {
    return IsFloating(instance.nodes[static_cast<size_t>(v.node)].dtypes[static_cast<size_t>(v.output)]);
  });
}

// Bits and ranges are those of all numbers: a step that fails for infinities shows nothing about them. Magnitudes are
// those of positive numbers.
enum class Numbers : uint8_t { kAll, kFinite };

// The law is made of an instance that is proved, of which `sample` is: the prover has to compare elements alone.
bool IsProved(const RuleInstance& law, ProofOptions options, Numbers numbers, Sample* sample) {
  options.search_counterexample = false;
  options.assignments = &sample->symbols();
  options.legal = true;
  options.observer = nullptr;
  options.keep_smtlib = false;
  const ProofResult result = Prove(law, options);
  return result.verdict == Verdict::kProved && (numbers == Numbers::kFinite || !result.used_finite_only_step);
}

// Tells whether the law, made of an instance of which `sample` is, fails at some sizes.
bool IsRefuted(const RuleInstance& law, Sample* sample) {
  constexpr uint64_t kSeed = 1;
  const std::optional<Counterexample> found = verifier::CounterexampleSearch(law, kSeed).RunAt(sample->symbols());
  return found && ConfirmCounterexample(law, *found).ok();
}

bool HasSameOperations(const RuleInstance& instance, bool stored, const ProofOptions& options, Sample* sample) {
  const RuleInstance law = LawOfOperations(instance, stored);
  return IsInstanceItself(law, instance) || IsProved(law, options, Numbers::kAll, sample);
}

}  // namespace

RoundingOfInstance ProveRounding(const RuleInstance& instance, bool same_bits, const ProofOptions& options) {
  RoundingOfInstance rounding;
  Sample sample(instance);
  rounding.same_operations = same_bits && HasSameOperations(instance, /*stored=*/false, options, &sample);
  rounding.same_magnitudes = rounding.same_operations || !HasFloatingOutputs(instance);
  if (rounding.same_magnitudes) return rounding;
  const RuleInstance law = LawOfMagnitudes(instance);
  rounding.same_magnitudes =
      !IsRefuted(law, &sample) && IsProved(LawOfMagnitudes(instance, Counts::kAny), options, Numbers::kFinite, &sample);
  if (rounding.same_magnitudes) return rounding;
  CompiledNodes compiled;
  const auto draw = [&](const std::vector<std::vector<int64_t>>& all, Sizes sizes, int runs) {
    const auto [growth, loss] = Growth(law, all, sizes, runs, &sample, &compiled);
    rounding.growth = std::max(rounding.growth, growth);
    rounding.loss = std::max(rounding.loss, loss);
  };
  rounding.growth = rounding.loss = 0;
  constexpr int kRuns = 4;
  draw(sample.symbols(), Sizes::kOfLeaves, kRuns + 1);
  // Nothing says how the ratio grows with sizes, or between elements of one leaf, which shows at any size.
  for (Sizes sizes : {Sizes::kOfLeaves, Sizes::kOfElements, Sizes::kOfProducts}) {
    if (std::max(rounding.growth, rounding.loss) > kRiskFactor) break;  // no larger one says more
    draw(sizes == Sizes::kOfLeaves ? sample.LargeSymbols() : sample.symbols(), sizes, kRuns);
  }
  if (rounding.growth == 0 && rounding.loss == 0) rounding.growth = rounding.loss = HUGE_VAL;  // nothing is known
  return rounding;
}

RoundingOnHalves ProveRoundingOnHalves(const RuleInstance& instance, bool same_operations,
                                       const ProofOptions& options) {
  RoundingOnHalves rounding;
  Sample sample(instance);
  rounding.same_operations = same_operations && HasSameOperations(instance, /*stored=*/true, options, &sample);
  if (rounding.same_operations) return rounding;  // both sides overflow together
  std::optional<SeenValues> seen;
  const auto may_exceed = [&](SymbolicValue value) {
    const SymbolicNode& n = instance.nodes[static_cast<size_t>(value.node)];
    if (IsBounded(n, static_cast<size_t>(value.output))) return false;
    if (std::find(instance.rhs.begin(), instance.rhs.end(), value) != instance.rhs.end()) return false;
    if (!seen) seen.emplace(instance, Used(instance, instance.lhs), &sample);
    return !seen->AllSeen(value) || !IsProved(LawOfRanges(instance, value), options, Numbers::kAll, &sample);
  };
  for (int node : Used(instance, instance.rhs)) {
    if (node < instance.num_lhs_nodes) continue;
    const int outputs = static_cast<int>(instance.nodes[static_cast<size_t>(node)].dtypes.size());
    bool exceeds = false;
    for (int k = 0; k < outputs && !exceeds; ++k) exceeds = may_exceed({node, k});
    if (exceeds) rounding.new_values.push_back(node);
  }
  return rounding;
}

}  // namespace rewright
