#include "bench/proofs/attack_climb.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/ir/rewrite.h"
#include "substitutions/match/new_values.h"
#include "verifier/classify/classify_rule.h"

namespace rewright::attack {
namespace {

constexpr int kSteps = 24;  // of a climb
constexpr int kPerturbations = 16;

bool SameBits(const Tensor& a, const Tensor& b) {
  if (a.BitEqual(b)) return true;
  if (!IsFloating(a.dtype()) || a.type() != b.type()) return false;
  const size_t size = static_cast<size_t>(DTypeSize(a.dtype()));
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const size_t at = static_cast<size_t>(i) * size;
    const bool same =
        std::memcmp(static_cast<const char*>(a.data()) + at, static_cast<const char*>(b.data()) + at, size) == 0;
    if (!same && !(std::isnan(a.At(i)) && std::isnan(b.At(i)))) return false;
  }
  return true;
}

// Numbers that leaves are given: of the size that the goal is about.
class Numbers {
 public:
  Numbers(DType type, Goal goal, Rng& rng) : type_(type), goal_(goal), rng_(rng) {}

  // Where a climb begins: leaves are all of one size, or each of its own, or of a few values that tie.
  void Begin() {
    style_ = rng_() % 5;
    const double most = goal_ == Goal::kRange ? std::log2(LargestOf(type_)) : OrdinaryBits();
    scale_ = std::exp2(std::uniform_real_distribution<double>(-OrdinaryBits(), most)(rng_));
    if (style_ < 2) scale_ = 1;
  }
  double Element(bool positive) {
    double x = 0;
    if (style_ == 4) {
      constexpr double kTies[] = {0, 0.5, 1, 1.5, 2, 3};
      x = kTies[rng_() % std::size(kTies)] * (rng_() % 2 ? 1 : -1);
    } else {
      x = scale_ * normal_(rng_);
      if (style_ == 3) x = scale_ * (rng_() % 2 ? 1 : -1) * (1 + 0.01 * normal_(rng_));
    }
    return Within(x, positive);
  }
  double Changed(double x, bool positive) {
    switch (rng_() % 9) {
      case 0: x = -x; break;
      case 1: x *= std::exp2(static_cast<double>(rng_() % 9) - 4); break;
      case 2: x *= 1 + RoundingOf(type_) * static_cast<double>(rng_() % 9); break;
      case 3: x = std::round(x); break;
      case 4: x = Special(); break;
      case 5: x += scale_ * normal_(rng_); break;
      default: x = Element(positive);
    }
    return Within(x, positive);
  }
  double NotFinite() {
    constexpr double kNot[] = {HUGE_VAL, -HUGE_VAL, NAN};
    return kNot[rng_() % 3];
  }

 private:
  double OrdinaryBits() const { return type_ == DType::kFloat16 ? 4 : 16; }
  double Special() {
    const double ordinary[] = {0.0, -0.0, 1, -1, 0.5, scale_, -scale_};
    const double extreme[] = {LargestOf(type_), -LargestOf(type_), SmallestNormalOf(type_),
                              SmallestNormalOf(type_) * RoundingOf(type_) * 2};
    if ((goal_ == Goal::kBits || goal_ == Goal::kRange) && rng_() % 2) return extreme[rng_() % std::size(extreme)];
    return ordinary[rng_() % std::size(ordinary)];
  }
  double Within(double x, bool positive) const {
    if (positive) x = std::abs(x) + 1e-3;
    double most = LargestOf(type_), least = 0;
    if (goal_ == Goal::kError || goal_ == Goal::kSpecial) {
      most = std::exp2(OrdinaryBits());
      least = 1 / most;
    }
    if (std::abs(x) > most) x = std::copysign(most, x);
    if (x != 0 && std::abs(x) < least) x = std::copysign(least, x);
    return x;
  }

  const DType type_;
  const Goal goal_;
  Rng& rng_;
  std::normal_distribution<double> normal_;
  uint64_t style_ = 0;
  double scale_ = 1;
};

class Attack {
 public:
  Attack(const Sides& sides, Goal goal, Rng& rng)
      : sides_(sides), goal_(goal), rng_(rng), numbers_(sides.type, goal, rng) {}

  // One climb; the elements evaluated.
  int64_t Climb(Seen* best) {
    evaluated_ = 0;
    numbers_.Begin();
    CompiledGraph::Leaves leaves = Draw();
    std::optional<Seen> seen = Look(leaves);
    if (!seen) return std::max<int64_t>(evaluated_, 1);
    *best = *seen;
    int kept = 0;
    for (int step = 0; step < kSteps && !best->denied; ++step) {
      CompiledGraph::Leaves next = Change(leaves);
      seen = Look(next);
      if (!seen || seen->score < best->score) continue;
      kept += seen->score > best->score ? 1 : 0;
      *best = *seen;
      leaves = std::move(next);
    }
    if (best->denied) best->what += Describe(leaves);
    return std::max<int64_t>(evaluated_, 1);
  }
  bool partial() const { return partial_; }

 private:
  bool Positive(const std::string& name) const { return sides_.positive.count(name) > 0; }

  CompiledGraph::Leaves Draw() {
    CompiledGraph::Leaves leaves;
    for (const CompiledGraph* side : {&sides_.left, &sides_.right}) {
      const Graph& graph = side->graph();
      for (NodeId id : graph.nodes()) {
        const Node& node = graph.node(id);
        if (node.op != nullptr || node.leaf == LeafKind::kConstant || leaves.count(node.name) > 0) continue;
        Tensor leaf(node.outputs[0]);
        if (rng_() % 4 == 0 && goal_ != Goal::kRange) numbers_.Begin();  // a size of its own
        for (int64_t i = 0; i < leaf.num_elements(); ++i) {
          if (IsFloating(leaf.dtype())) {
            SetFloat(&leaf, i, numbers_.Element(Positive(node.name)));
          } else {
            leaf.SetInt(i, static_cast<int64_t>(rng_() % 2));
          }
        }
        leaves[node.name] = std::move(leaf);
      }
    }
    if (goal_ == Goal::kSpecial || (goal_ == Goal::kBits && rng_() % 3 == 0)) Spoil(&leaves);
    return leaves;
  }

  // Numbers that the leaf's type rounds to infinity are its largest.
  static void SetFloat(Tensor* leaf, int64_t i, double x) {
    leaf->Set(i, std::isfinite(x) ? std::clamp(x, -LargestOf(leaf->dtype()), LargestOf(leaf->dtype())) : x);
  }

  void Spoil(CompiledGraph::Leaves* leaves) {
    for (auto& [name, leaf] : *leaves) {
      if (!IsFloating(leaf.dtype()) || leaf.num_elements() == 0 || Positive(name) || sides_.finite.count(name))
        continue;
      for (uint64_t count = rng_() % 3; count > 0; --count) {
        leaf.Set(static_cast<int64_t>(rng_() % static_cast<uint64_t>(leaf.num_elements())), numbers_.NotFinite());
      }
    }
  }

  CompiledGraph::Leaves Change(const CompiledGraph::Leaves& leaves) {
    CompiledGraph::Leaves next = leaves;
    std::vector<std::string> names;
    for (const auto& [name, leaf] : leaves) {
      if (IsFloating(leaf.dtype()) && leaf.num_elements() > 0) names.push_back(name);
    }
    if (names.empty()) return next;
    std::sort(names.begin(), names.end());
    const std::string& name = names[rng_() % names.size()];
    const Tensor& from = leaves.at(name);
    Tensor to(from.type());
    ConvertElements(from.dtype(), from.data(), to.dtype(), to.data(), from.num_elements());
    const int64_t count = from.num_elements();
    if (rng_() % 6 == 0) {  // all of the leaf, to another size
      const double scale = std::exp2(static_cast<double>(rng_() % 13) - 6);
      for (int64_t i = 0; i < count; ++i) {
        const double x = from.At(i) * scale;
        if (std::isfinite(x) && (goal_ == Goal::kRange || goal_ == Goal::kBits)) SetFloat(&to, i, x);
      }
    } else {
      for (uint64_t changes = 1 + rng_() % (rng_() % 2 ? 2 : std::max<uint64_t>(2, static_cast<uint64_t>(count / 8)));
           changes > 0; --changes) {
        const auto i = static_cast<int64_t>(rng_() % static_cast<uint64_t>(count));
        if (std::isfinite(from.At(i))) SetFloat(&to, i, numbers_.Changed(from.At(i), Positive(name)));
      }
    }
    next[name] = std::move(to);
    return next;
  }

  // Nothing where a side does not run on them: an index outside.
  std::optional<Seen> Look(const CompiledGraph::Leaves& leaves) {
    const auto left = sides_.left.Run(leaves), right = sides_.right.Run(leaves);
    if (!left.ok() || !right.ok()) return std::nullopt;
    for (const Output& output : sides_.left.graph().outputs()) {
      evaluated_ += sides_.left.At(*left, output.value).num_elements();
    }
    switch (goal_) {
      case Goal::kBits: return Bits(*left, *right);
      case Goal::kRange: return Range(leaves, *left, *right);
      case Goal::kError: return Error(leaves, *left, *right);
      case Goal::kSpecial: return Special(leaves, *left, *right);
    }
    return std::nullopt;
  }

  // True if an element takes more than one operation.
  static bool HasInside(const Meaning& meaning) {
    int operations = 0;
    for (const OutputMeaning& output : meaning.outputs) {
      if (output.element->Contains(ExprKind::kReduce)) return true;
      Visit(output.element, [&](const ExprPtr& e) { operations += e->IsCall() ? 1 : 0; });
    }
    return operations > 1;
  }

  // True if elements are roots or their reciprocals: every type has room for these.
  static bool IsRoot(const Meaning& meaning) {
    const ExprPtr& element = meaning.outputs[0].element;
    const bool reciprocal = element->IsCall(Fn::kDiv) && element->arg(0)->IsConst();
    return (reciprocal ? element->arg(1) : element)->IsCall(Fn::kSqrt);
  }

  template <typename Compare>
  static void ForEachOutput(const CompiledGraph& a, const CompiledGraph::Values& of_a, const CompiledGraph& b,
                            const CompiledGraph::Values& of_b, Compare compare) {
    const std::vector<Output>&outputs = a.graph().outputs(), &others = b.graph().outputs();
    for (size_t k = 0; k < outputs.size(); ++k) compare(a.At(of_a, outputs[k].value), b.At(of_b, others[k].value));
  }

  Seen Bits(const CompiledGraph::Values& left, const CompiledGraph::Values& right) const {
    Seen seen;
    ForEachOutput(sides_.left, left, sides_.right, right, [&](const Tensor& a, const Tensor& b) {
      if (SameBits(a, b)) return;
      seen.denied = true;
      for (int64_t i = 0; i < a.num_elements(); ++i) {
        if (a.At(i) == b.At(i) && std::signbit(a.At(i)) == std::signbit(b.At(i))) continue;
        if (std::isnan(a.At(i)) && std::isnan(b.At(i))) continue;
        seen.what = absl::StrFormat("%.9g and %.9g at element %d of %d", a.At(i), b.At(i), i, a.num_elements());
      }
    });
    return seen;
  }

  Seen Range(const CompiledGraph::Leaves& leaves, const CompiledGraph::Values& left,
             const CompiledGraph::Values& right) {
    Seen seen;
    double of_left = 0;
    for (const std::vector<Tensor>& values : left) {
      for (const Tensor& value : values) of_left = std::max(of_left, Magnitude(value));
    }
    if (!std::isfinite(of_left) || of_left == 0) return seen;
    const Graph& graph = sides_.right.graph();
    for (size_t i = 0; i < right.size(); ++i) {
      const NodeId id = graph.nodes()[i];
      const Node& node = graph.node(id);
      if (node.op == nullptr || !sides_.added.count(id) || sides_.new_values.count(id)) continue;
      double of_operands = 0, of_node = 0;
      for (Value operand : node.operands) {
        of_operands = std::max(of_operands, Magnitude(sides_.right.At(right, operand)));
      }
      for (const Tensor& value : right[i]) of_node = std::max(of_node, Magnitude(value));
      if (!std::isfinite(of_operands)) continue;
      if (!std::isfinite(of_node)) {
        // f16 alone is computed in a type that has room for what an operator has inside.
        if (sides_.type != DType::kFloat16 && HasInside(*node.meaning)) {
          partial_ = true;
          continue;
        }
        if (IsRounding(leaves, left, i, LargestOf(sides_.type), LargestOf(sides_.type))) continue;
        seen.denied = true;
        seen.what = absl::StrFormat("%s is not finite, the left side is within %.6g", node.op->name, of_left);
        return seen;
      }
      // A new value that is only moved on is no larger than that.
      const double bound = std::max(of_left, of_operands);
      seen.score = std::max(seen.score, of_node / bound);
      if (of_node <= bound * (1 + kRoundingRoom) || IsRoot(*node.meaning)) continue;
      if (IsRounding(leaves, left, i, of_node, bound)) continue;
      seen.denied = true;
      seen.what = absl::StrFormat("%s is up to %.6g, the left side within %.6g", node.op->name, of_node, bound);
      return seen;
    }
    return seen;
  }

  std::optional<Seen> Error(const CompiledGraph::Leaves& leaves, const CompiledGraph::Values& left,
                            const CompiledGraph::Values& right) {
    if (!sides_.truth) return std::nullopt;
    const auto truth = sides_.truth->Run(leaves);
    if (!truth.ok()) return std::nullopt;
    const Graph &a = sides_.left.graph(), &b = sides_.right.graph();
    std::vector<double> allowed = LeftErrors(left, *truth), errors;
    for (size_t k = 0; k < a.outputs().size(); ++k) {
      const Tensor& r = sides_.right.At(right, b.outputs()[k].value);
      // A new value may overflow: who applies the rule sees to it.
      const bool counts = std::isfinite(allowed[k]) && (std::isfinite(Magnitude(r)) || sides_.new_values.empty());
      errors.push_back(counts ? Difference(r, sides_.truth->At(*truth, a.outputs()[k].value)) : 0);
    }
    if (Ratio(errors, allowed) > Factor() / 4) {
      AddCondition(leaves, *truth, &allowed);  // only then is it asked for
      const auto other = sides_.right_truth->Run(leaves);
      if (!other.ok()) return std::nullopt;
      for (size_t k = 0; k < allowed.size(); ++k) {
        allowed[k] += Difference(sides_.right_truth->At(*other, b.outputs()[k].value),
                                 sides_.truth->At(*truth, a.outputs()[k].value));
      }
    }
    Seen seen;
    seen.score = Ratio(errors, allowed);
    if (seen.score > Factor()) {
      seen.denied = true;
      seen.what = absl::StrFormat("error of %.3g roundings that the left side may have made", seen.score);
    }
    return seen;
  }

  // True if errors that the class allows explain how the right side's node, over the reals within the bound but for
  // these, comes to have an element of the size `found`.
  bool IsRounding(const CompiledGraph::Leaves& leaves, const CompiledGraph::Values& left, size_t at, double found,
                  double bound) {
    if (!sides_.truth) return false;
    const auto truth = sides_.truth->Run(leaves), right_truth = sides_.right_truth->Run(leaves);
    if (!truth.ok() || !right_truth.ok()) return false;
    std::vector<double> allowed = LeftErrors(left, *truth);
    AddCondition(leaves, *truth, &allowed);
    double largest = 0;
    for (const Tensor& value : (*right_truth)[at]) largest = std::max(largest, Magnitude(value));
    double error = RoundingOf(sides_.type) * largest;
    const Graph& graph = sides_.right.graph();
    for (size_t k = 0; k < allowed.size(); ++k) {
      if (graph.outputs()[k].value.node == graph.nodes()[at]) error = std::max(error, allowed[k]);
    }
    return largest - Factor() * error <= bound && found <= largest + Factor() * error;
  }

  // By output: the left side's error, or the rounding of its largest element; infinite where these are no numbers.
  std::vector<double> LeftErrors(const CompiledGraph::Values& left, const CompiledGraph::Values& truth) const {
    std::vector<double> errors;
    for (const Output& output : sides_.left.graph().outputs()) {
      const size_t k = errors.size();
      const Tensor& true_value = sides_.truth->At(truth, sides_.truth->graph().outputs()[k].value);
      const Tensor& l = sides_.left.At(left, output.value);
      if (!IsFloating(l.dtype()) || !std::isfinite(Magnitude(l)) || !std::isfinite(Magnitude(true_value))) {
        errors.push_back(HUGE_VAL);
        continue;
      }
      const DType type = l.dtype();
      errors.push_back(std::max({Difference(l, true_value), RoundingOf(type) * Magnitude(true_value),
                                 SmallestNormalOf(type) * RoundingOf(type) * 2}));
    }
    return errors;
  }

  // Raises the errors to what roundings of leaves and of values do to the left side's outputs.
  void AddCondition(const CompiledGraph::Leaves& leaves, const CompiledGraph::Values& truth,
                    std::vector<double>* allowed) {
    for (int k = 0; k < kPerturbations; ++k) Perturb(leaves, truth, /*values=*/k % 2 == 1, allowed);
  }

  double Factor() const { return IsHalf(sides_.type) ? kHalfRiskFactor : kRiskFactor; }

  static double Ratio(const std::vector<double>& errors, const std::vector<double>& allowed) {
    double ratio = 0;
    for (size_t k = 0; k < errors.size(); ++k) {
      if (allowed[k] > 0) ratio = std::max(ratio, errors[k] / allowed[k]);
    }
    return ratio;
  }

  static double Difference(const Tensor& a, const Tensor& b) {
    double largest = 0;
    for (int64_t i = 0; i < a.num_elements(); ++i) {
      const double d = std::abs(a.At(i) - b.At(i));
      largest = d <= largest ? largest : std::isnan(d) ? HUGE_VAL : d;
    }
    return largest;
  }

  // Changes each element by a rounding of the type or not at all.
  Tensor Rounded(const Tensor& wide, DType type) {
    Tensor to(wide.type());
    for (int64_t i = 0; i < wide.num_elements(); ++i) {
      to.Set(i, wide.At(i) * (1 + (static_cast<double>(rng_() % 3) - 1) * RoundingOf(type)));
    }
    return to;
  }

  // Every second time, the values of the left side are changed as well as its leaves.
  void Perturb(const CompiledGraph::Leaves& leaves, const CompiledGraph::Values& truth, bool values,
               std::vector<double>* allowed) {
    CompiledGraph::Leaves moved;
    int64_t most = 1;  // changes that are all for the worst do at most sqrt(most) times as much as drawn ones
    for (const auto& [name, leaf] : leaves) {
      most = std::max(most, leaf.num_elements());
      auto wide = ToPrecision(leaf, Precision::kFloat64);
      moved[name] = wide.ok() && IsFloating(leaf.dtype()) ? Rounded(*wide, leaf.dtype()) : leaf;
    }
    const auto change = [&](Tensor* value) {
      if (IsFloating(value->dtype())) *value = Rounded(*value, sides_.type);
    };
    const auto run = values ? sides_.truth->Run(moved, change) : sides_.truth->Run(moved);
    if (!run.ok()) return;
    const Graph& graph = sides_.left.graph();
    for (size_t k = 0; k < graph.outputs().size(); ++k) {
      const Value output = graph.outputs()[k].value;
      (*allowed)[k] =
          std::max((*allowed)[k], std::sqrt(static_cast<double>(most)) *
                                      Difference(sides_.truth->At(*run, output), sides_.truth->At(truth, output)));
    }
  }

  Seen Special(const CompiledGraph::Leaves& leaves, const CompiledGraph::Values& left,
               const CompiledGraph::Values& right) const {
    Seen seen = Finiteness(sides_.left, left, sides_.right, right);
    if (!seen.denied || !sides_.truth) return seen;
    const auto truth = sides_.truth->Run(leaves), right_truth = sides_.right_truth->Run(leaves);
    if (!truth.ok() || !right_truth.ok()) return seen;
    return Finiteness(*sides_.truth, *truth, *sides_.right_truth, *right_truth);
  }

  static Seen Finiteness(const CompiledGraph& a, const CompiledGraph::Values& of_a, const CompiledGraph& b,
                         const CompiledGraph::Values& of_b) {
    Seen seen;
    ForEachOutput(a, of_a, b, of_b, [&](const Tensor& x, const Tensor& y) {
      if (!IsFloating(x.dtype())) return;
      for (int64_t i = 0; i < x.num_elements(); ++i) {
        if (std::isfinite(x.At(i)) == std::isfinite(y.At(i))) continue;
        seen.denied = true;
        seen.what = absl::StrFormat("%.6g and %.6g at element %d of %d", x.At(i), y.At(i), i, x.num_elements());
      }
    });
    return seen;
  }

  static std::string Describe(const CompiledGraph::Leaves& leaves) {
    std::map<std::string, std::string> texts;
    for (const auto& [name, leaf] : leaves) {
      std::vector<std::string> elements;
      for (int64_t i = 0; i < std::min<int64_t>(leaf.num_elements(), 6); ++i) {
        elements.push_back(absl::StrFormat("%.9g", leaf.At(i)));
      }
      if (leaf.num_elements() > 6) elements.push_back("..");
      texts[name] = absl::StrCat(name, leaf.type().ToString(), "=", absl::StrJoin(elements, " "));
    }
    std::string text;
    for (const auto& [name, described] : texts) absl::StrAppend(&text, "; ", described);
    return text;
  }

  const Sides& sides_;
  const Goal goal_;
  Rng& rng_;
  Numbers numbers_;
  int64_t evaluated_ = 0;
  bool partial_ = false;
};

}  // namespace

Climb ClimbToward(Goal goal, const Sides& sides, Rng& rng) {
  Attack attack(sides, goal, rng);
  Climb climb;
  climb.evaluations = attack.Climb(&climb.best);
  climb.partial = attack.partial();
  return climb;
}

}  // namespace rewright::attack
