// Attacks what the records of rules say of rounding: hill climbing on the elements of leaves toward an overflow, a bit
// or an error that a class denies.
//
//   rule_attack_bench [--evaluations N] [--seed N] [--largest N] [--rule NAME] [--csv FILE] [FILE.rules ...]
//   rule_attack_bench --unranged [--seed N] [--rule NAME] [FILE.rules ...]
//
// Without files: substitutions/rules. Each rule is applied to graphs of its own left side, as matches are, at sizes
// that are drawn, up to --largest (4096) on one axis, in f64, f32, f16 and bf16 as far as its record has a class there.
// Both sides are computed by the reference interpreter. An evaluation is one element of one output, computed on both
// sides;
// --evaluations (10^6) are shared out evenly. Per class the record denies:
//
//   bits     (exact) an element has other bits, for any leaves; one NaN is as good as another
//   range    (all but risky; where the record has a class in 16 bits, with which new values are put down) leaves are
//            finite, all of the left side is, and a value that is not in `new=` is the first of the right side that is
//            not finite, or larger than its operands and all of the left side by more than kRoundingRoom, though errors
//            that `error` allows do not explain it; but for f16 an operator of several operations, or a sum, only
//            counts as `partial` where it is not finite: what it has inside may overflow in one order and not in
//            another
//   error    (all but exact and risky) the error of the right side is kRiskFactor (16 bits: kHalfRiskFactor) times what
//            is allowed: the largest of the left side's error, the rounding of its largest element, and what changes
//            of every leaf and of every value of the left side by a rounding do to it: the left side's error alone may
//            be small by luck, which a climb would find. The truth is the left side in f64, as exact as the right side
//            in f64 is equal to it; f64 itself has none
//   special  (exact, reassociating) leaves have a NaN or an infinity, other elements are of ordinary size, and one side
//            is finite where the other is not, in f64 as well: overflow of ordinary elements belongs to `range`
//
// Prints what was found and where; status 1 if anything was. --csv: a line for each rule and type, with the greatest
// ratio of errors and of ranges (the largest element of a value of the right side that is not new, over that of its
// operands and of all of the left side) that was climbed to.
//
// --unranged attacks nothing: it names the rules that a graph of f16 loses where nothing is known of its inputs and its
// weights are of ordinary size (0.5 to 2). Such a rule has a class there that is not used by default, or new values
// that its applications cannot show to fit.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/graph.h"
#include "core/ir/index_value.h"
#include "core/ir/rewrite.h"
#include "core/numerics/retype.h"
#include "substitutions/instance/instances.h"
#include "substitutions/instance/random_application.h"
#include "substitutions/language/operator_variables.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/match/applier.h"
#include "substitutions/match/matcher.h"
#include "substitutions/match/new_values.h"
#include "verifier/classify/classify_rule.h"
#include "verifier/refute/counterexample.h"

namespace rewright {
namespace {

using Rng = std::mt19937_64;

constexpr int64_t kMostElements = 1 << 15;  // of one value
constexpr int kSteps = 24;                  // of a climb
constexpr int kPerturbations = 16;
constexpr int kDrawnStructures = 6;  // of a rule in one type, before structures repeat

struct Flags {
  double evaluations = 1e6;
  uint64_t seed = 1;
  int64_t largest = 4096;
  std::string rule;
  std::string csv;
  bool unranged = false;
  std::vector<std::string> files;
};

// A graph whose applications are compiled once for many runs.
class CompiledGraph {
 public:
  using Leaves = std::map<std::string, Tensor>;     // in order: draws do not hang on a hash
  using Values = std::vector<std::vector<Tensor>>;  // by position of the node

  static absl::StatusOr<CompiledGraph> Make(const Graph& graph, Precision precision) {
    CompiledGraph made(graph, precision);
    for (NodeId id : graph.nodes()) {
      const Node& node = graph.node(id);
      made.programs_.emplace_back();
      for (const TensorType& type : node.outputs) {
        if (type.num_elements() > kMostElements) return absl::OutOfRangeError("too large");
      }
      if (node.op == nullptr) continue;
      if (node.meaning->IsOpaque()) return absl::UnimplementedError("opaque");
      const std::vector<TensorType> types = graph.arena()->types(node.operands);
      ASSIGN_OR_RETURN(made.programs_.back(),
                       CompiledMeaning::Compile(*node.meaning, BindingsOf(*node.meaning, types, node.attrs), types,
                                                node.outputs, precision));
    }
    return made;
  }

  // Leaves are by name, in the types of the graph; constants are its own. `change` may alter what an application gives.
  absl::StatusOr<Values> Run(const Leaves& leaves, const std::function<void(Tensor*)>& change = nullptr) const {
    Values values;
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.node(graph_.nodes()[i]);
      if (node.op == nullptr) {
        ASSIGN_OR_RETURN(Tensor leaf,
                         ToPrecision(node.leaf == LeafKind::kConstant ? node.data : leaves.at(node.name), precision_));
        values.push_back({std::move(leaf)});
        continue;
      }
      std::vector<Tensor> operands;
      for (Value operand : node.operands) operands.push_back(At(values, operand));
      ASSIGN_OR_RETURN(std::vector<Tensor> results, programs_[i]->Run(operands));
      if (change != nullptr) {
        for (Tensor& result : results) change(&result);
      }
      values.push_back(std::move(results));
    }
    return values;
  }

  const Tensor& At(const Values& values, Value value) const {
    return values[static_cast<size_t>(graph_.index(value.node))][static_cast<size_t>(value.output)];
  }
  const Graph& graph() const { return graph_; }

 private:
  CompiledGraph(const Graph& graph, Precision precision) : graph_(graph), precision_(precision) {}

  Graph graph_;
  Precision precision_;
  std::vector<std::optional<CompiledMeaning>> programs_;
};

// Both sides of a rule at one match, in one type.
struct Sides {
  CompiledGraph left, right;
  std::optional<CompiledGraph> truth, right_truth;  // the sides in f64
  std::set<NodeId> new_values;                      // of the right side's graph
  std::set<NodeId> added;                           // applications that the right side adds
  DType type;
  std::string description;
  std::set<std::string> positive, finite;  // leaves
};

// The applications that the rule adds and that may be new values: those of the record, in the order in which they are
// made. Where some were there before, or the match has more siblings, all of such an operator.
std::set<NodeId> NewValues(const CompiledRule& rule, const Graph& graph, NodeId first) {
  std::vector<NodeId> made;
  for (NodeId id = first; id < graph.arena()->size(); ++id) {
    if (graph.arena()->node(id).op != nullptr) made.push_back(id);
  }
  std::vector<int> nodes;
  for (int i = rule.num_lhs_nodes(); i < static_cast<int>(rule.nodes().size()); ++i) {
    if (rule.nodes()[static_cast<size_t>(i)].op != nullptr) nodes.push_back(i);
  }
  const std::vector<int>& listed = rule.rule().proof->new_values;
  std::set<NodeId> found;
  for (size_t k = 0; k < nodes.size(); ++k) {
    if (!std::binary_search(listed.begin(), listed.end(), nodes[k])) continue;
    const OpDef* op = rule.nodes()[static_cast<size_t>(nodes[k])].op;
    for (size_t m = 0; m < made.size(); ++m) {
      if (nodes.size() == made.size() ? m == k : graph.arena()->node(made[m]).op == op) found.insert(made[m]);
    }
  }
  return found;
}

// A left side and its match in one type; without a type, in those that the rule names. Nothing where the type cannot be
// put in the place of these.
struct TypedMatch {
  Graph left;
  Match match;
};
std::optional<TypedMatch> MatchInType(const RandomApplication& application, std::optional<DType> type) {
  TypedMatch typed{application.graph, application.match};
  if (!type) return typed;
  const absl::StatusOr<Retyped> retyped = Retype(typed.left, {.to = *type});
  if (!retyped.ok()) return std::nullopt;
  typed.left = retyped->graph;
  for (std::vector<Value>* values : {&typed.match.nodes, &typed.match.roots}) {
    for (Value& value : *values) {
      const auto to = retyped->values.find(value);
      if (to == retyped->values.end()) return std::nullopt;
      value = to->second;
    }
  }
  typed.match.bindings.floating = *type;
  for (Attr& attr : typed.match.bindings.attrs) {
    if (auto* dtype = std::get_if<DType>(&attr); dtype != nullptr && IsFloating(*dtype)) *dtype = *type;
  }
  return typed;
}

// Both sides in one type, and which applications the right side adds, as it is made in that type.
struct Typed {
  Graph left, right;
  std::set<NodeId> added, new_values;
};

std::optional<Typed> InType(const CompiledRule& rule, const RandomApplication& application, std::optional<DType> type) {
  const std::optional<TypedMatch> given = MatchInType(application, type);
  if (!given) return std::nullopt;
  const NodeId first = given->left.arena()->size();
  const absl::StatusOr<ValueMap> map = Instantiate(given->left, given->match);
  if (!map.ok()) return std::nullopt;
  absl::StatusOr<Graph> right = ReplaceValues(given->left, *map);
  if (!right.ok()) return std::nullopt;
  Typed typed{given->left, *std::move(right), {}, {}};
  typed.new_values = NewValues(rule, typed.right, first);
  for (NodeId id = first; id < typed.right.arena()->size(); ++id) typed.added.insert(id);
  return typed;
}

// Nothing where the type cannot be put in the place of the rule's own, or a value is too large.
std::optional<Sides> MakeSides(const CompiledRule& rule, const RuleInstance& instance,
                               const RandomApplication& application, std::optional<DType> type) {
  std::optional<Typed> typed = InType(rule, application, type);
  if (!typed) return std::nullopt;
  auto left = CompiledGraph::Make(typed->left, Precision::kNative);
  auto right = CompiledGraph::Make(typed->right, Precision::kNative);
  if (!left.ok() || !right.ok()) return std::nullopt;
  const DType computed = type.value_or(DType::kFloat32);
  Sides sides{*std::move(left), *std::move(right),       {}, {}, std::move(typed->new_values), std::move(typed->added),
              computed,         application.description, {}, {}};
  const std::optional<Typed> wide =
      computed == DType::kFloat64 ? std::nullopt : InType(rule, application, DType::kFloat64);
  if (wide) {
    auto truth = CompiledGraph::Make(wide->left, Precision::kFloat64);
    auto right_truth = CompiledGraph::Make(wide->right, Precision::kFloat64);
    if (truth.ok() && right_truth.ok()) {
      sides.truth = *std::move(truth);
      sides.right_truth = *std::move(right_truth);
    }
  }
  for (const SymbolicNode& node : instance.nodes) {
    if (node.op == nullptr && node.positive) sides.positive.insert(node.name);
    if (node.op == nullptr && node.finite) sides.finite.insert(node.name);
  }
  return sides;
}

double Magnitude(const Tensor& tensor) {
  double largest = 0;
  if (!IsFloating(tensor.dtype())) return 0;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const double x = std::abs(tensor.At(i));
    if (!(x <= largest)) largest = std::isnan(x) ? HUGE_VAL : x;
  }
  return largest;
}

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

enum class Goal : uint8_t { kBits, kRange, kError, kSpecial };
constexpr const char* kGoalNames[] = {"bits", "range", "error", "special"};

struct Seen {
  double score = 0;  // what a climb raises
  bool denied = false;
  std::string what;
};

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

  // True if elements are reciprocals of roots: every type has room for these.
  static bool IsReciprocalRoot(const Meaning& meaning) {
    const ExprPtr& element = meaning.outputs[0].element;
    return element->IsCall(Fn::kDiv) && element->arg(0)->IsConst() && element->arg(1)->IsCall(Fn::kSqrt);
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
      if (of_node <= bound * (1 + kRoundingRoom) || IsReciprocalRoot(*node.meaning)) continue;
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

// A record without a class in 16 bits names no new values.
std::vector<Goal> GoalsOf(RuleClass rule_class, const ProofRecord& proof) {
  std::vector<Goal> goals;
  switch (rule_class) {
    case RuleClass::kExact: goals = {Goal::kBits}; break;
    case RuleClass::kReassociating: goals = {Goal::kRange, Goal::kError, Goal::kSpecial}; break;
    case RuleClass::kFiniteOnly: goals = {Goal::kRange, Goal::kError}; break;
    case RuleClass::kNumericallyRisky: break;
  }
  if (!proof.halves) goals.erase(std::remove(goals.begin(), goals.end(), Goal::kRange), goals.end());
  return goals;
}

// Sizes at which the rule may be applied: small ones, of which one axis is made large as often as not.
std::optional<std::vector<int64_t>> DrawSymbols(const RuleInstance& instance, int64_t largest, Rng& rng) {
  verifier::CounterexampleSearch search(instance, rng());
  std::vector<std::vector<int64_t>> drawn = search.Draw(6);
  if (drawn.empty()) return std::nullopt;
  std::vector<int64_t> symbols = drawn[rng() % drawn.size()];
  if (symbols.empty() || rng() % 2 == 0) return symbols;
  std::vector<int64_t> large = symbols;
  const size_t at = rng() % symbols.size();
  if (!instance.symbols[at].is_size) return symbols;
  large[at] = std::max<int64_t>(
      1, static_cast<int64_t>(std::exp2(std::uniform_real_distribution<double>(2, std::log2(largest))(rng))));
  const bool legal = std::all_of(instance.conditions.begin(), instance.conditions.end(),
                                 [&](const ExprPtr& condition) { return EvalCond(condition, large).value_or(false); });
  return legal ? large : symbols;
}

struct Line {
  std::string file, rule, type, rule_class;
  int64_t evaluations = 0;
  int graphs = 0;
  double error = 0, range = 0;
  bool partial = false;
  std::string found;
};

class Program {
 public:
  explicit Program(Flags flags) : flags_(std::move(flags)) {}

  int Run() {
    if (const absl::Status read = ReadRules(); !read.ok()) {
      std::fprintf(stderr, "%s\n", std::string(read.message()).c_str());
      return 2;
    }
    if (flags_.unranged) return ReportUnranged();
    int64_t tasks = 0;
    for (const auto& [file, rule] : rules_) tasks += static_cast<int64_t>(TypesOf(*rule).size());
    const double share = flags_.evaluations / std::max<double>(1, static_cast<double>(tasks));
    for (const auto& [file, rule] : rules_) {
      for (const auto& [name, type] : TypesOf(*rule)) lines_.push_back(AttackRule(file, *rule, name, type, share));
    }
    return Report();
  }

 private:
  using Types = std::vector<std::pair<std::string, std::optional<DType>>>;

  absl::Status ReadRules() {
    if (flags_.files.empty()) {
      for (const auto& entry : std::filesystem::directory_iterator("substitutions/rules")) {
        if (entry.path().extension() == ".rules") flags_.files.push_back(entry.path().string());
      }
      std::sort(flags_.files.begin(), flags_.files.end());
    }
    std::set<std::string> names;
    for (const std::string& file : flags_.files) {
      std::ifstream in(file);
      if (!in.good()) return absl::NotFoundError(absl::StrCat(file, ": cannot be read"));
      std::stringstream text;
      text << in.rdbuf();
      ASSIGN_OR_RETURN(const std::vector<Rule> rules, ParseRules(text.str(), file));
      for (const Rule& rule : rules) {
        // The same rule stands in several files.
        if (!rule.proof || !names.insert(absl::StrCat(rule.name, " ", rule.proof->spec_hash)).second) continue;
        if (!flags_.rule.empty() && rule.name != flags_.rule) continue;
        for (const Rule& own : OperatorRules(rule)) {
          auto compiled = CompileRule(own);
          if (compiled.ok()) {
            rules_.emplace_back(file, *std::move(compiled));
          } else {
            ++skipped_;
          }
        }
      }
    }
    return absl::OkStatus();
  }

  // Types as which the rule's floats are run, by name; `own`: in those that it names itself.
  static Types TypesOf(const CompiledRule& rule) {
    Types types;
    const ProofRecord& proof = *rule.rule().proof;
    if (!GoalsOf(proof.rule_class, proof).empty()) types = {{"f32", std::nullopt}, {"f64", DType::kFloat64}};
    if (proof.halves && !GoalsOf(*proof.halves, proof).empty()) {
      types.emplace_back("f16", DType::kFloat16);
      types.emplace_back("bf16", DType::kBFloat16);
    }
    return types;
  }

  Line AttackRule(const std::string& file, const CompiledRule& rule, const std::string& name, std::optional<DType> type,
                  double share) {
    const ProofRecord& proof = *rule.rule().proof;
    const RuleClass rule_class = type && IsHalf(*type) ? *proof.halves : proof.rule_class;
    Line line{file, rule.name(), name, RuleClassName(rule_class), 0, 0, 0, 0, false, ""};
    Rng rng(flags_.seed * 1000003 + std::hash<std::string>()(rule.name() + name));
    std::vector<std::pair<StructuralAssignment, RuleInstance>> instances = InstancesOf(rule, rng);
    if (instances.empty()) return line;
    const std::vector<Goal> goals = GoalsOf(rule_class, proof);
    for (int tries = 0;
         tries < 4 * kDrawnStructures || (line.graphs > 0 && static_cast<double>(line.evaluations) < share); ++tries) {
      if (static_cast<double>(line.evaluations) >= share || !line.found.empty()) break;
      const auto& [structure, instance] = instances[static_cast<size_t>(tries) % instances.size()];
      const std::optional<std::vector<int64_t>> symbols = DrawSymbols(instance, flags_.largest, rng);
      if (!symbols) continue;
      const std::optional<RandomApplication> application = ApplicationAt(rule, structure, instance, *symbols);
      if (!application) continue;
      const std::optional<Sides> sides = MakeSides(rule, instance, *application, type);
      if (!sides) continue;
      ++line.graphs;
      for (int climb = 0; climb < 4 && line.found.empty(); ++climb) {
        for (Goal goal : goals) {
          Attack attack(*sides, goal, rng);
          Seen best;
          line.evaluations += attack.Climb(&best);
          line.partial |= attack.partial();
          if (goal == Goal::kError) line.error = std::max(line.error, best.score);
          if (goal == Goal::kRange) line.range = std::max(line.range, best.score);
          if (best.denied && line.found.empty()) {
            line.found = absl::StrCat(kGoalNames[static_cast<int>(goal)], ": ", best.what, "; ", sides->description);
          }
        }
      }
    }
    return line;
  }

  // Names the rules that f16 loses without known ranges; status 0.
  int ReportUnranged() const {
    std::map<std::string, std::map<std::string, std::string>> reasons;  // by file and rule; of any of its operators
    for (const auto& [file, rule] : rules_) {
      const std::string family = rule->name().substr(0, rule->name().find(':'));
      std::string& why = reasons[file][family];
      if (why.empty()) why = WhyLostInF16(*rule);
    }
    for (const auto& [file, rules] : reasons) {
      int lost = 0;
      for (const auto& [name, why] : rules) {
        if (why.empty()) continue;
        ++lost;
        std::printf("%s: %s: %s\n", file.c_str(), name.c_str(), why.c_str());
      }
      std::printf("%s: %d of %d rules are lost in f16 where no range is known (%.0f %%)\n", file.c_str(), lost,
                  static_cast<int>(rules.size()), 100.0 * lost / static_cast<double>(rules.size()));
    }
    return 0;
  }

  // Empty if the rule is used in all of some applications in f16.
  std::string WhyLostInF16(const CompiledRule& rule) const {
    const ProofRecord& proof = *rule.rule().proof;
    const RuleClass rule_class = proof.halves.value_or(
        proof.rule_class == RuleClass::kExact ? RuleClass::kReassociating : RuleClass::kNumericallyRisky);
    if (rule_class == RuleClass::kNumericallyRisky || rule_class == RuleClass::kFiniteOnly) {
      return proof.halves ? absl::StrCat("is ", RuleClassName(rule_class)) : "has no class there";
    }
    if (proof.new_values.empty()) return "";
    Rng rng(flags_.seed);
    for (const auto& [structure, instance] : InstancesOf(rule, rng)) {
      const std::optional<std::vector<int64_t>> symbols = DrawSymbols(instance, /*largest=*/16, rng);
      if (!symbols) continue;
      const std::optional<RandomApplication> application = ApplicationAt(rule, structure, instance, *symbols);
      if (!application) continue;
      const std::optional<TypedMatch> given = MatchInType(*application, DType::kFloat16);
      if (!given) continue;
      Numerics numerics;
      const absl::Status made = Instantiate(given->left, given->match, &numerics).status();
      if (absl::IsOutOfRange(made)) return std::string(made.message());
    }
    return "";
  }

  // Some of the rule's instances, drawn.
  static std::vector<std::pair<StructuralAssignment, RuleInstance>> InstancesOf(const CompiledRule& rule, Rng& rng) {
    std::vector<std::pair<StructuralAssignment, RuleInstance>> instances;
    int64_t met = 0;
    DomainLimits limits = SmallLimits(rule);
    const absl::Status status =
        ForEachStructuralAssignment(rule, limits, [&](const StructuralAssignment& structure, RuleInstance instance) {
          ++met;
          if (instances.size() < kDrawnStructures) {
            instances.emplace_back(structure, std::move(instance));
          } else if (const uint64_t at = rng() % static_cast<uint64_t>(met); at < kDrawnStructures) {
            instances[at] = {structure, std::move(instance)};
          }
          return absl::OkStatus();
        });
    if (!status.ok()) instances.clear();
    return instances;
  }

  int Report() const {
    int64_t evaluations = 0;
    int found = 0, attacked = 0;
    for (const Line& line : lines_) {
      evaluations += line.evaluations;
      attacked += line.graphs > 0 ? 1 : 0;
      if (line.found.empty()) continue;
      ++found;
      std::printf("%s: %s in %s, %s: %s\n", line.file.c_str(), line.rule.c_str(), line.type.c_str(),
                  line.rule_class.c_str(), line.found.c_str());
    }
    std::printf(
        "%d rules (%d not compiled), %d of %d pairs of a rule and a type attacked, %lld evaluations: %d denied by "
        "their class\n",
        static_cast<int>(rules_.size()), skipped_, attacked, static_cast<int>(lines_.size()),
        static_cast<long long>(evaluations), found);
    if (!flags_.csv.empty()) {
      std::ofstream out(flags_.csv);
      out << "file,rule,type,class,graphs,evaluations,error,range,partial,found\n";
      for (const Line& line : lines_) {
        std::string found_text = line.found;
        std::replace(found_text.begin(), found_text.end(), ',', ' ');
        out << line.file << ',' << line.rule << ',' << line.type << ',' << line.rule_class << ',' << line.graphs << ','
            << line.evaluations << absl::StrFormat(",%.3g,%.6g,", line.error, line.range) << (line.partial ? "yes" : "")
            << ',' << found_text << '\n';
      }
    }
    return found > 0 ? 1 : 0;
  }

  Flags flags_;
  std::vector<std::pair<std::string, std::shared_ptr<const CompiledRule>>> rules_;
  std::vector<Line> lines_;
  int skipped_ = 0;
};

int Main(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    bool good = true;
    if (arg == "--evaluations") {
      good = absl::SimpleAtod(value, &flags.evaluations);
    } else if (arg == "--seed") {
      good = absl::SimpleAtoi(value, &flags.seed);
    } else if (arg == "--largest") {
      good = absl::SimpleAtoi(value, &flags.largest) && flags.largest >= 8;
    } else if (arg == "--rule") {
      flags.rule = value;
    } else if (arg == "--csv") {
      flags.csv = value;
    } else if (arg == "--unranged") {
      flags.unranged = true;
      continue;
    } else {
      flags.files.push_back(arg);
      continue;
    }
    if (!good || i + 1 >= argc) {
      std::fprintf(stderr, "rule_attack_bench: %s: found `%s`, expected a value\n", arg.c_str(), value.c_str());
      return 2;
    }
    ++i;
  }
  return Program(flags).Run();
}

}  // namespace
}  // namespace rewright

int main(int argc, char** argv) { return rewright::Main(argc, argv); }
