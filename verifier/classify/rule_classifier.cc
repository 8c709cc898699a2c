#include "verifier/classify/rule_classifier.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <numeric>
#include <set>
#include <utility>

#include "core/ir/rewrite.h"
#include "verifier/classify/classify_rule.h"
#include "verifier/classify/rounded_decisions.h"
#include "verifier/refute/counterexample.h"
#include "verifier/refute/numeric_instance.h"

namespace rewright {
namespace {

constexpr int kDrawnAssignments = 6;  // for each that is measured
// Runs with elements that are not finite, at each assignment: the place of such an element matters. A rule with few
// instances gets at least kLeastNotFiniteRuns at each of them, since few sizes mean few elements. Every seed adds the
// same number.
constexpr int kNotFiniteRuns = 2;
constexpr int kLeastNotFiniteRuns = 24;
// Runs with elements from the full range of their types, at each assignment.
constexpr int kFullRangeRuns = 4;
// Runs in search of kComparedElements.
constexpr size_t kLeastBitRuns = 36;  // half as many in float64
constexpr size_t kMaxBitRuns = 260;
constexpr int kMaxDraws = 40;           // of five assignments each
constexpr double kMuchRounding = 1e-3;  // of the largest element
// Elements of which leaves meet every combination: comparisons of them fall out in every way.
constexpr double kSpecials[] = {0, 1, -1, HUGE_VAL, -HUGE_VAL, NAN};

std::vector<double> ElementsOf(const Tensor& tensor) {
  std::vector<double> elements(static_cast<size_t>(tensor.num_elements()));
  switch (tensor.dtype()) {
    case DType::kFloat32: std::copy_n(tensor.as<float>(), elements.size(), elements.begin()); break;
    case DType::kFloat64: std::copy_n(tensor.as<double>(), elements.size(), elements.begin()); break;
    default:
      for (size_t i = 0; i < elements.size(); ++i) elements[i] = tensor.At(static_cast<int64_t>(i));
  }
  return elements;
}

bool AllFinite(const std::vector<double>& elements) {
  return std::all_of(elements.begin(), elements.end(), [](double x) { return std::isfinite(x); });
}

double LargestError(const std::vector<double>& values, const std::vector<double>& truths) {
  double error = 0;
  for (size_t i = 0; i < truths.size(); ++i) error = std::max(error, std::abs(values[i] - truths[i]));
  return error;
}

double LargestElement(const std::vector<double>& elements) {
  double largest = 0;
  for (double x : elements) largest = std::max(largest, std::abs(x));
  return largest;
}

const Tensor& At(const std::vector<std::vector<Tensor>>& values, SymbolicValue value) {
  return values[value.node][value.output];
}

// The floating types in which positions and other integers are stored, among the values that the outputs depend on.
std::set<DType> TypesOfIntegers(const RuleInstance& instance, const std::vector<SymbolicValue>& outputs) {
  std::set<DType> types;
  std::set<int> seen;
  std::vector<SymbolicValue> open = outputs;
  while (!open.empty()) {
    const int id = open.back().node;
    open.pop_back();
    const SymbolicNode& node = instance.nodes[id];
    if (node.meaning == nullptr || !seen.insert(id).second) continue;
    open.insert(open.end(), node.inputs.begin(), node.inputs.end());
    for (size_t k = 0; k < node.meaning->outputs.size(); ++k) {
      if (!IsFloating(node.dtypes[k])) continue;
      Visit(node.meaning->outputs[k].element, [&](const ExprPtr& e) {
        const bool position = e->kind() == ExprKind::kFromIndex;
        if (position || (e->kind() == ExprKind::kCast && IsInteger(e->arg(0)->dtype()))) types.insert(node.dtypes[k]);
      });
    }
  }
  return types;
}

// A real number made of sizes, like 1 / (r s), rounds at some sizes and not at others: a few samples say nothing. So do
// positions, which are exact up to 2^8 in bf16, 2^11 in f16, 2^24 in f32: the same only where both sides have them in
// the same types.
bool RoundsWithSizes(const RuleInstance& instance) {
  if (TypesOfIntegers(instance, instance.lhs) != TypesOfIntegers(instance, instance.rhs)) return true;
  return std::any_of(instance.nodes.begin(), instance.nodes.end(), [](const SymbolicNode& node) {
    return std::any_of(node.params.begin(), node.params.end(),
                       [](const ExprPtr& param) { return param->Contains(ExprKind::kFromIndex); });
  });
}

// True if the floating values of the instance are of several types: a conversion between them is part of its meaning.
bool HasSeveralFloatingTypes(const RuleInstance& instance) {
  std::set<DType> types;
  for (const SymbolicNode& node : instance.nodes) {
    std::copy_if(node.dtypes.begin(), node.dtypes.end(), std::inserter(types, types.end()), IsFloating);
  }
  return types.size() > 1;
}

bool Mentions(const RuleInstance& instance, DType dtype) {
  return std::any_of(instance.nodes.begin(), instance.nodes.end(), [&](const SymbolicNode& node) {
    return std::find(node.dtypes.begin(), node.dtypes.end(), dtype) != node.dtypes.end();
  });
}

// Numbers of elements of the values, at sizes.
std::vector<int64_t> ElementCounts(const RuleInstance& instance, const std::vector<int64_t>& symbols) {
  std::vector<Number> ones;
  for (const RealSymbol& real : instance.reals) ones.push_back(OneOf(real.dtype));
  const NumericInstance numeric(instance, symbols, ones);
  std::vector<int64_t> counts;
  for (const SymbolicNode& node : instance.nodes) {
    for (size_t k = 0; k < node.dtypes.size(); ++k) counts.push_back(numeric.TypeOf(node, k).num_elements());
  }
  return counts;
}

// True if some element is chosen by a comparison of floats.
bool ComparesFloats(const RuleInstance& instance) {
  const auto compares = [](const ExprPtr& element) {
    return AnyOf(element, [](const ExprNode& e) {
      return e.IsCall() && FnHas(e.fn(), FnTrait::kCompares) && IsFloating(e.arg(0)->dtype());
    });
  };
  return std::any_of(instance.nodes.begin(), instance.nodes.end(), [&](const SymbolicNode& node) {
    return node.meaning != nullptr && !node.meaning->IsOpaque() &&
           std::any_of(node.meaning->outputs.begin(), node.meaning->outputs.end(),
                       [&](const OutputMeaning& output) { return compares(output.element); });
  });
}

bool HasEmptyValue(const RuleInstance& instance, const std::vector<int64_t>& symbols) {
  const std::vector<int64_t> counts = ElementCounts(instance, symbols);
  return std::find(counts.begin(), counts.end(), 0) != counts.end();
}

// The node with elements of that type; functions, selections and reductions have the type of their arguments.
ExprPtr WithType(const ExprPtr& node, DType dtype) {
  switch (node->kind()) {
    case ExprKind::kConst: return Constant(node->real(), dtype).node();
    case ExprKind::kParam: return Parameter(node->param(), node->name(), dtype).node();
    case ExprKind::kFromIndex: return FromIndex(Index(node->arg(0)), dtype).node();
    case ExprKind::kRead: return ReadOperand(node->operand(), {node->args().begin(), node->args().end()}, dtype).node();
    case ExprKind::kCast: return Cast(Scalar(node->arg(0)), dtype).node();
    case ExprKind::kOpaque: return OpaqueElement(node->name(), node->output(), node->args(), dtype).node();
    default: return node;
  }
}

// The instance with one type in the place of another.
class Retyped {
 public:
  Retyped(DType from, DType to) : from_(from), to_(to) {}

  RuleInstance Of(RuleInstance instance) const {
    for (SymbolicNode& node : instance.nodes) {
      for (DType& dtype : node.dtypes) Replace(&dtype);
      for (ExprPtr& param : node.params) param = OfExpr(param);
      if (node.meaning == nullptr) continue;
      auto meaning = std::make_shared<Meaning>(*node.meaning);
      for (OutputMeaning& output : meaning->outputs) {
        Replace(&output.dtype);
        output.element = OfExpr(output.element);
      }
      node.meaning = std::move(meaning);
    }
    return instance;
  }

 private:
  void Replace(DType* dtype) const {
    if (*dtype == from_) *dtype = to_;
  }

  ExprPtr OfExpr(const ExprPtr& expr) const {
    return RewriteExpr(expr, [this](const ExprPtr& node) {
      DType dtype = node->dtype();
      Replace(&dtype);
      return WithType(node, dtype);
    });
  }

  const DType from_, to_;
};

}  // namespace

Inspection Inspect(const RuleInstance& instance) {
  return {.rounds_with_sizes = RoundsWithSizes(instance), .may_decide_differently = MayDecideDifferently(instance)};
}

void RuleClassifier::Note(const Inspection& found) {
  same_bits_ = same_bits_ && !found.rounds_with_sizes;
  risky_ = risky_ || found.may_decide_differently;
}

void RuleClassifier::Measure(const RuleInstance& given) {
  if (half_ && (!Mentions(given, DType::kFloat32) || Mentions(given, DType::kFloat64))) return;
  const RuleInstance instance = half_ ? Retyped(DType::kFloat32, *half_).Of(given) : given;
  const std::vector<Symbols> assignments = Assignments(instance);
  const bool only_wide = Mentions(instance, DType::kFloat64) && !Mentions(instance, DType::kFloat32);
  const RuleInstance narrow = only_wide ? Retyped(DType::kFloat64, DType::kFloat32).Of(instance) : RuleInstance();
  const RuleInstance& measured = only_wide ? narrow : instance;
  const bool casts = Mentions(instance, DType::kFloat64) && Mentions(instance, DType::kFloat32);
  // A rule with many instances measures each a few times.
  const int least = assignments_ > kLeastAssignments ? kLeastNotFiniteRuns : 0;
  const int count = std::max(1, static_cast<int>(assignments.size()));
  const int not_finite_runs = (half_ ? 2 : 1) * std::max(kNotFiniteRuns, (least + count - 1) / count);
  CompiledNodes compiled;
  for (size_t a = 0; a < assignments.size() && !IsWorst(); ++a) {
    const Symbols& symbols = assignments[a];
    MeasureErrors(measured, symbols, Leaves::kOrdinary, &compiled);
    // Growth of errors shows at the largest sizes; the other causes of a class show at any size.
    for (Leaves leaves : {Leaves::kScaled, Leaves::kFarFromZero, Leaves::kOpposite, Leaves::kSmall, Leaves::kSteep,
                          Leaves::kSteepest}) {
      if (a < kLeastAssignments) MeasureErrors(measured, symbols, leaves, &compiled);
    }
    // Alternates the precisions, since finiteness hardly depends on them; 16 bits overflow soon.
    for (int run = 0; run < not_finite_runs && !finite_only_; ++run) {
      const bool native = half_ || run % 2 == 0;
      MeasureFiniteness(measured, symbols, native ? Precision::kNative : Precision::kFloat64, &compiled);
    }
    for (int run = 0; run < kFullRangeRuns && casts; ++run)
      MeasureErrors(measured, symbols, Leaves::kFullRange, &compiled);
    if (!half_ && !finite_only_ && !specials_met_) MeasureSpecials(measured, symbols, &compiled);
  }
  if (!same_bits_ || IsWorst()) return;
  // Instances of high rank may have values at few sizes only; those of low rank speak for them.
  const std::vector<Symbols> full = WithoutEmptyValues(instance);
  if (full.empty()) return;
  CompiledNodes of_bits;  // of the instance itself, not of a narrowed one
  CompareBits(instance, full, Precision::kNative, &of_bits);
  if (!half_) CompareBits(instance, full, Precision::kFloat64, &of_bits);
}

std::vector<RuleClassifier::Symbols> RuleClassifier::Assignments(const RuleInstance& instance) {
  verifier::CounterexampleSearch search(instance, random_.Next());
  std::vector<Symbols> assignments = search.Draw(kDrawnAssignments * static_cast<int>(assignments_));
  std::stable_sort(assignments.begin(), assignments.end(), [](const auto& a, const auto& b) {
    return std::accumulate(a.begin(), a.end(), int64_t{0}) > std::accumulate(b.begin(), b.end(), int64_t{0});
  });
  assignments.erase(std::unique(assignments.begin(), assignments.end()), assignments.end());
  // The largest, and smaller ones evenly spread.
  std::vector<Symbols> chosen;
  for (size_t a = 0; a < std::min(assignments.size(), kLeastAssignments); ++a) chosen.push_back(assignments[a]);
  const size_t more = assignments_ - kLeastAssignments, rest = assignments.size() - chosen.size();
  for (size_t k = 0; k < std::min(more, rest); ++k) {
    chosen.push_back(assignments[kLeastAssignments + k * rest / std::min(more, rest)]);
  }
  const auto empty = std::find_if(assignments.begin(), assignments.end(),
                                  [&](const Symbols& symbols) { return HasEmptyValue(instance, symbols); });
  if (empty != assignments.end()) chosen.push_back(*empty);
  return chosen;
}

std::vector<RuleClassifier::Symbols> RuleClassifier::WithoutEmptyValues(const RuleInstance& instance) {
  verifier::CounterexampleSearch search(instance, random_.Next());
  std::vector<Symbols> found;
  for (int draw = 0; draw < kMaxDraws && found.size() < kLeastAssignments; ++draw) {
    for (Symbols& symbols : search.Draw(5)) {
      // Values that are too large to draw are not measured, either.
      const std::vector<int64_t> counts = ElementCounts(instance, symbols);
      const bool fits = std::all_of(counts.begin(), counts.end(), [](int64_t count) {
        return count > 0 && count <= ValueDistribution::kMaxElements;
      });
      if (fits) found.push_back(std::move(symbols));
    }
  }
  return found;
}

void RuleClassifier::MeasureErrors(const RuleInstance& instance, const Symbols& symbols, Leaves kind,
                                   CompiledNodes* compiled) {
  const NumericInstance numeric(instance, symbols, random_.Reals(instance, kind));
  std::vector<Tensor> leaves;
  if (!random_.Draw(instance, numeric, kind, Precision::kNative, &leaves)) return;
  const auto rounded = numeric.Run(leaves, Precision::kNative, instance.nodes.size(), compiled);
  if (!rounded.ok()) return;
  // Elements from the full range of the type are compared only for finiteness, not for errors.
  const bool for_errors = kind != Leaves::kFullRange;
  std::vector<std::vector<Tensor>> precise;
  if (for_errors) {
    auto run = numeric.Run(leaves, Precision::kFloat64, static_cast<size_t>(instance.num_lhs_nodes), compiled);
    if (!run.ok()) return;
    precise = *std::move(run);
  }
  ++samples_;
  const bool one_type = !HasSeveralFloatingTypes(instance);
  for (size_t k = 0; k < instance.lhs.size(); ++k) {
    const Tensor& left = At(*rounded, instance.lhs[k]);
    const Tensor& right = At(*rounded, instance.rhs[k]);
    if (!left.BitEqual(right)) same_bits_ = false;
    const std::vector<double> lefts = ElementsOf(left), rights = ElementsOf(right);
    const std::vector<double> truths = for_errors ? ElementsOf(At(precise, instance.lhs[k])) : std::vector<double>();
    const double rounding = IsFloating(left.dtype()) ? RoundingOf(left.dtype()) : 0x1p-24;
    const double largest = LargestElement(truths), factor = half_ ? kHalfRiskFactor : kRiskFactor;
    for (size_t i = 0; i < lefts.size(); ++i) {
      const bool left_finite = std::isfinite(lefts[i]), right_finite = std::isfinite(rights[i]);
      risky_ = risky_ || (kind == Leaves::kFullRange && left_finite && !right_finite);
      if (left_finite || !right_finite) continue;
      // The right side must not define an element that the left side leaves undefined. Where the left side only
      // overflows on the way to a number that there is, the right side may have that number.
      const bool has_truth = for_errors && one_type && std::isfinite(largest) &&
                             std::abs(rights[i] - truths[i]) <= factor * rounding * largest;
      finite_only_ = finite_only_ || !has_truth;
    }
    if (!for_errors) continue;
    if (!AllFinite(lefts) || !AllFinite(truths) || (ranged_ && !AllFinite(rights))) continue;
    const double allowed = std::max(LargestError(lefts, truths), rounding * largest);
    risky_ = risky_ || !AllFinite(rights) || LargestError(rights, truths) > factor * allowed;
  }
}

// Measures on leaves or attributes some of which are infinite or NaN.
void RuleClassifier::MeasureFiniteness(const RuleInstance& instance, const Symbols& symbols, Precision precision,
                                       CompiledNodes* compiled) {
  std::vector<Number> reals = random_.Reals(instance, Leaves::kNotFinite);
  const bool spoiled = random_.InjectNonFiniteReal(instance, &reals);
  const NumericInstance numeric(instance, symbols, reals);
  std::vector<Tensor> leaves;
  if (!random_.Draw(instance, numeric, Leaves::kNotFinite, Precision::kNative, &leaves)) return;
  if (!spoiled && !random_.InjectNonFinite(instance, &leaves)) return;
  const auto values = numeric.Run(leaves, precision, instance.nodes.size(), compiled);
  if (!values.ok()) return;
  ++samples_;
  const auto differ = [&](const std::vector<std::vector<Tensor>>& found) {
    bool any = false;
    for (size_t k = 0; k < instance.lhs.size(); ++k) {
      any |= DifferInFiniteness(At(found, instance.lhs[k]), At(found, instance.rhs[k]));
    }
    return any;
  };
  if (!differ(*values) || finite_only_) return;
  // Rounding and overflow of ordinary elements are no matter of those that are not finite: in float64 they differ, too,
  // unless a conversion to a narrower type makes them infinite.
  if (precision != Precision::kFloat64 && !HasSeveralFloatingTypes(instance)) {
    const auto precise = numeric.Run(leaves, Precision::kFloat64, instance.nodes.size(), compiled);
    if (precise.ok() && !differ(*precise)) return;
  }
  finite_only_ = true;
}

// Leaves with more elements take lower digits of the number of a combination, so that each run meets as many new
// combinations as the longest leaf has elements.
void RuleClassifier::MeasureSpecials(const RuleInstance& instance, const Symbols& symbols, CompiledNodes* compiled) {
  if (!ComparesFloats(instance)) return;
  const NumericInstance numeric(instance, symbols, random_.Reals(instance, Leaves::kOrdinary));
  std::vector<Tensor> leaves;
  if (!random_.Draw(instance, numeric, Leaves::kOrdinary, Precision::kNative, &leaves)) return;
  std::vector<size_t> varied;
  for (size_t n = 0; n < leaves.size(); ++n) {
    const SymbolicNode& node = instance.nodes[n];
    if (node.op != nullptr || node.splat || node.finite || node.positive || !IsFloating(leaves[n].dtype())) continue;
    if (leaves[n].num_elements() > 0) varied.push_back(n);
  }
  if (varied.empty() || varied.size() > kSpecialLeaves) return;
  specials_met_ = true;
  std::stable_sort(varied.begin(), varied.end(),
                   [&](size_t a, size_t b) { return leaves[a].num_elements() > leaves[b].num_elements(); });
  int64_t combinations = 1;
  for (size_t k = 0; k < varied.size(); ++k) combinations *= std::ssize(kSpecials);
  const int64_t longest = leaves[varied[0]].num_elements();
  for (int64_t begin = 0; begin < combinations && !finite_only_; begin += longest) {
    int64_t place = 1;
    for (size_t n : varied) {
      Tensor leaf(leaves[n].type());
      const bool one = leaf.num_elements() == 1;
      for (int64_t i = 0; i < leaf.num_elements(); ++i) {
        leaf.Set(i, kSpecials[(begin + (one ? 0 : i)) / place % std::ssize(kSpecials)]);
      }
      leaves[n] = std::move(leaf);
      place *= std::ssize(kSpecials);
    }
    const auto values = numeric.Run(leaves, Precision::kNative, instance.nodes.size(), compiled);
    if (!values.ok()) return;
    ++samples_;
    for (size_t k = 0; k < instance.lhs.size(); ++k) {
      const bool differ = DifferInFiniteness(At(*values, instance.lhs[k]), At(*values, instance.rhs[k]));
      finite_only_ = finite_only_ || differ;
    }
  }
}

// Only bits, on finite leaves, until enough elements are compared. Scalars need many runs.
void RuleClassifier::CompareBits(const RuleInstance& instance, const std::vector<Symbols>& assignments,
                                 Precision precision, CompiledNodes* compiled) {
  std::vector<int64_t> compared(instance.lhs.size(), 0);
  const auto enough = [&] {
    return std::all_of(compared.begin(), compared.end(), [](int64_t count) { return count >= kComparedElements; });
  };
  const size_t least = precision == Precision::kNative ? kLeastBitRuns : kLeastBitRuns / 2;
  for (size_t run = 0; run < kMaxBitRuns && same_bits_ && (run < least || !enough()); ++run) {
    const Symbols& symbols = assignments[run % assignments.size()];
    // Zeros alone: a maximum of several numbers is hardly ever a zero whose sign depends on their order. They come
    // twice, since not every order shows.
    constexpr Leaves kKinds[] = {Leaves::kOrdinary, Leaves::kZeros, Leaves::kScaled,
                                 Leaves::kTies,     Leaves::kZeros, Leaves::kExtreme};
    const Leaves kind = kKinds[run % std::size(kKinds)];
    const NumericInstance numeric(instance, symbols, random_.Reals(instance, kind));
    std::vector<Tensor> leaves;
    if (!random_.Draw(instance, numeric, kind, precision, &leaves)) continue;
    const auto values = numeric.Run(leaves, precision, instance.nodes.size(), compiled);
    if (!values.ok()) continue;
    for (size_t k = 0; k < instance.lhs.size(); ++k) {
      const Tensor& left = At(*values, instance.lhs[k]);
      const Tensor& right = At(*values, instance.rhs[k]);
      if (!left.BitEqual(right)) same_bits_ = false;
      compared[k] += left.num_elements();
    }
  }
  compared_ = true;
  enough_compared_ = enough_compared_ && enough();
}

bool RuleClassifier::DifferInFiniteness(const Tensor& left, const Tensor& right) {
  const std::vector<double> lefts = ElementsOf(left), rights = ElementsOf(right);
  double size = 0;
  for (size_t i = 0; i < lefts.size(); ++i) {
    for (double value : {lefts[i], rights[i]}) {
      if (std::isfinite(value)) size = std::max(size, std::abs(value));
    }
  }
  // Elements that are finite on both sides may still differ, such as a truth value that a NaN decides.
  const double much = half_ ? kHalfRiskFactor * RoundingOf(*half_) : kMuchRounding;
  const double allowed = IsFloating(left.dtype()) ? much * size : 0;
  bool differ = false;
  for (size_t i = 0; i < lefts.size(); ++i) {
    const double a = lefts[i], b = rights[i];
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    same_bits_ = false;
    // An infinite element may become NaN, as in x (y + z) and x y + x z, but not an ordinary one.
    const bool differs = std::isfinite(a) && std::isfinite(b) && std::abs(a - b) > allowed;
    differ = differ || std::isfinite(a) != std::isfinite(b) || differs;
  }
  return differ;
}

RuleClass RuleClassifier::Class() const {
  if (risky_) return RuleClass::kNumericallyRisky;
  // Nothing is known of a rule that could not be measured.
  if (finite_only_ || samples_ == 0) return RuleClass::kFiniteOnly;
  return same_bits_ && compared_ && enough_compared_ ? RuleClass::kExact : RuleClass::kReassociating;
}

}  // namespace rewright
