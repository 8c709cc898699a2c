#include "verifier/check/bounded/bounded_check.h"

#include <z3++.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/ir/expr.h"
#include "core/ir/index_value.h"
#include "substitutions/instance/random_application.h"
#include "substitutions/language/stand_ins.h"
#include "substitutions/match/applier.h"
#include "verifier/z3/watchdog.h"

namespace rewright {
namespace {

// Why nothing can be said.
struct CannotEvaluate {
  std::string why;
};

// The elements of graphs of one arena as terms.
class Unroller {
 public:
  Unroller(const Arena& arena, z3::context& context)
      : arena_(arena), z3_(context), facts_(context), sums_(SumsOfProducts(context)) {}

  static z3::params SumsOfProducts(z3::context& context) {
    z3::params sums(context);
    sums.set("som", true);
    sums.set("som_blowup", 20u);
    sums.set("max_steps", 200000u);  // an exception beyond
    return sums;
  }

  z3::expr Element(Value value, int64_t at) {
    const auto key = std::pair(value, at);
    const auto known = elements_.find(key);
    if (known != elements_.end()) return known->second;
    if (++count_ > kMostTerms) throw CannotEvaluate{"too many terms"};
    const Node& node = arena_.node(value.node);
    const z3::expr term = node.op == nullptr ? Leaf(value, at) : Computed(node, value.output, at);
    elements_.emplace(key, term);
    return term;
  }

  void AssumePositive(Value leaf) {
    for (int64_t i = 0; i < arena_.type(leaf).num_elements(); ++i) facts_.push_back(Element(leaf, i) > 0);
  }

  // The leaf is a constant of the rule's text.
  void Write(Value leaf, double number) { written_.emplace(leaf, number); }

  const z3::expr_vector& facts() const { return facts_; }
  bool interprets_all() const { return interprets_all_; }
  bool rounds_constants() const { return rounds_constants_; }

 private:
  static constexpr int64_t kMostTerms = 20000;

  // The scope in which an expression is evaluated.
  struct Frame {
    const Node& node;
    Bindings bindings;
  };

  z3::sort SortOf(DType dtype) {
    switch (dtype) {
      case DType::kBool: return z3_.bool_sort();
      default: return IsInteger(dtype) ? z3_.bv_sort(BitsOf(ComputedDType(dtype))) : z3_.real_sort();
    }
  }

  z3::expr Exactly(double value) {
    if (!std::isfinite(value)) throw CannotEvaluate{"a constant that is not finite"};
    int exponent = 0;
    const auto mantissa = static_cast<int64_t>(std::ldexp(std::frexp(value, &exponent), 53));
    exponent -= 53;
    z3::expr number = z3_.real_val(std::to_string(mantissa).c_str());
    const z3::expr two = z3_.real_val("2");
    for (; exponent > 0; --exponent) number = (number * two).simplify();
    for (; exponent < 0; ++exponent) number = (number / two).simplify();
    return number;
  }

  // A number of a text, of a rule or of a declaration. One that is rounded in f32 and another in f64 may be either.
  z3::expr Literal(double value) {
    if (static_cast<double>(static_cast<float>(value)) == value) return Exactly(value);
    rounds_constants_ = true;
    return z3_.real_const(absl::StrFormat("literal!%.17g", value).c_str());
  }

  z3::expr Number(DType dtype, double real, int64_t integer) {
    if (IsFloating(dtype)) return Exactly(real);
    if (dtype == DType::kBool) return z3_.bool_val(integer != 0);
    return z3_.bv_val(integer, BitsOf(ComputedDType(dtype)));
  }

  z3::expr Leaf(Value value, int64_t at) {
    const Node& node = arena_.node(value.node);
    const DType dtype = node.outputs[0].dtype;
    if (node.leaf != LeafKind::kConstant) {
      return z3_.constant(absl::StrCat(node.name, "!", at).c_str(), SortOf(dtype));
    }
    if (const auto written = written_.find(value); written != written_.end()) {
      return Literal(written->second);
    }
    // Only halves of small integers are not changed by rounding.
    if (IsFloating(dtype) && std::abs(node.data.At(at)) < 1e6 &&
        std::floor(4 * node.data.At(at)) != 4 * node.data.At(at)) {
      rounds_constants_ = true;
    }
    return IsFloating(dtype) ? Number(dtype, node.data.At(at), 0) : Number(dtype, 0, node.data.AtInt(at));
  }

  z3::expr Computed(const Node& node, int32_t output, int64_t at) {
    if (node.meaning->IsOpaque()) throw CannotEvaluate{absl::StrCat(node.op->name, " is opaque")};
    Frame frame{node, BindingsOf(*node.meaning, arena_.types(node.operands), node.attrs)};
    const OutputMeaning& meaning = node.meaning->outputs[output];
    const Shape& shape = node.outputs[output].shape;
    for (size_t axis = shape.size(); axis-- > 0; at /= shape[axis]) {
      frame.bindings.variables[meaning.index_vars[axis]] = at % shape[axis];
    }
    return OfScalar(*meaning.element, frame);
  }

  int64_t OfIndex(const ExprNode& e, Frame& frame) {
    if (e.Contains(ExprKind::kFromValue)) throw CannotEvaluate{"elements select positions"};
    int64_t value;
    if (!EvalIndex(e, frame.bindings.variables, &value)) throw CannotEvaluate{"an index has no value of 64 bits"};
    return value;
  }

  // A truth value that no element decides, or a term.
  z3::expr OfCond(const ExprNode& e, Frame& frame) {
    const auto index = [&](size_t k) { return OfIndex(*e.arg(k), frame); };
    switch (e.kind()) {
      case ExprKind::kBool: return z3_.bool_val(e.truth());
      case ExprKind::kLess: return z3_.bool_val(index(0) < index(1));
      case ExprKind::kLessEqual: return z3_.bool_val(index(0) <= index(1));
      case ExprKind::kEqual: return z3_.bool_val(index(0) == index(1));
      case ExprKind::kAnd: {
        const z3::expr first = OfCond(*e.arg(0), frame);
        return first.is_false() ? first : (first && OfCond(*e.arg(1), frame)).simplify();
      }
      case ExprKind::kOr: {
        const z3::expr first = OfCond(*e.arg(0), frame);
        return first.is_true() ? first : (first || OfCond(*e.arg(1), frame)).simplify();
      }
      case ExprKind::kNot: return (!OfCond(*e.arg(0), frame)).simplify();
      case ExprKind::kHolds: return OfScalar(*e.arg(0), frame).simplify();
      default: throw CannotEvaluate{"not a condition"};
    }
  }

  z3::expr OfScalar(const ExprNode& e, Frame& frame) {
    if (++count_ > kMostTerms) throw CannotEvaluate{"too many terms"};
    switch (e.kind()) {
      case ExprKind::kConst:
        return IsFloating(e.dtype()) ? Literal(e.real()) : Number(e.dtype(), e.real(), static_cast<int64_t>(e.real()));
      case ExprKind::kParam:
        return Number(e.dtype(), frame.bindings.params[e.param()],
                      static_cast<int64_t>(frame.bindings.params[e.param()]));
      case ExprKind::kFromIndex: {
        const int64_t index = OfIndex(*e.arg(0), frame);
        return Number(e.dtype(), static_cast<double>(index), index);
      }
      case ExprKind::kRead: return OfRead(e, frame);
      case ExprKind::kCall: {
        const z3::expr a = OfScalar(*e.arg(0), frame);
        return Call(e.fn(), e.arg(0)->dtype(), a, e.args().size() > 1 ? OfScalar(*e.arg(1), frame) : a);
      }
      case ExprKind::kSelect: {
        const z3::expr condition = OfCond(*e.condition(), frame);
        if (condition.is_true()) return OfScalar(*e.yes(), frame);
        if (condition.is_false()) return OfScalar(*e.no(), frame);
        return z3::ite(condition, OfScalar(*e.yes(), frame), OfScalar(*e.no(), frame));
      }
      case ExprKind::kReduce: return OfReduction(e, frame);
      case ExprKind::kCast: return Cast(OfScalar(*e.arg(0), frame), e.arg(0)->dtype(), e.dtype());
      case ExprKind::kOpaque: return OfStandIn(e, frame);
      default: throw CannotEvaluate{"not an element"};
    }
  }

  // The function of an operator variable: its property is stated for every application.
  z3::expr OfStandIn(const ExprNode& e, Frame& frame) {
    interprets_all_ = false;
    z3::expr_vector args(z3_);
    for (const ExprPtr& arg : e.args()) args.push_back(OfScalar(*arg, frame).simplify(sums_));
    z3::sort_vector sorts(z3_);
    for (unsigned i = 0; i < args.size(); ++i) sorts.push_back(z3_.real_sort());
    const z3::func_decl function = z3_.function(e.name().c_str(), sorts, z3_.real_sort());
    const z3::expr value = function(args);
    const std::string property = StandInProperty(e.name());
    if (property == "odd") facts_.push_back(function((-args[0]).simplify(sums_)) == -value);
    if (property == "keeps_zero") facts_.push_back(function(z3_.real_val(0)) == 0);
    if (property == "increasing") {
      for (const auto& [other, other_value] : increasing_) {
        facts_.push_back(z3::implies(args[0] <= other, value <= other_value));
        facts_.push_back(z3::implies(args[0] >= other, value >= other_value));
      }
      increasing_.emplace_back(args[0], value);
    }
    return value;
  }

  z3::expr OfRead(const ExprNode& e, Frame& frame) {
    const Value operand = frame.node.operands[e.operand()];
    const Shape& shape = arena_.type(operand).shape;
    int64_t offset = 0;
    for (size_t axis = 0; axis < e.args().size(); ++axis) {
      const int64_t index = OfIndex(*e.arg(axis), frame);
      if (index < 0 || index >= shape[axis]) {
        throw CannotEvaluate{absl::StrCat(frame.node.op->name, " reads index ", index, " of ", shape[axis])};
      }
      offset = offset * shape[axis] + index;
    }
    return Element(operand, offset);
  }

  z3::expr OfReduction(const ExprNode& e, Frame& frame) {
    std::vector<std::pair<int64_t, z3::expr>> terms;  // with the place, where one variable is bound
    OverTerms(e, 0, frame, [&] {
      const int64_t place = e.bound().empty() ? 0 : frame.bindings.variables[e.bound()[0].id];
      terms.emplace_back(place, OfScalar(*e.body(), frame));
    });
    const DType dtype = e.body()->dtype();
    const ReduceKind kind = e.reduction();
    if (terms.empty()) {
      if (kind == ReduceKind::kSum) return Number(dtype, 0, 0);
      if (kind == ReduceKind::kProd) return Number(dtype, 1, 1);
      throw CannotEvaluate{"a maximum of nothing"};
    }
    z3::expr result = terms[0].second;
    z3::expr place = z3_.bv_val(terms[0].first, 64);
    for (size_t i = 1; i < terms.size(); ++i) {
      const z3::expr& term = terms[i].second;
      switch (kind) {
        case ReduceKind::kSum: result = Call(Fn::kAdd, dtype, result, term); break;
        case ReduceKind::kProd: result = Call(Fn::kMul, dtype, result, term); break;
        case ReduceKind::kMax: result = Call(Fn::kMax, dtype, result, term); break;
        case ReduceKind::kMin: result = Call(Fn::kMin, dtype, result, term); break;
        case ReduceKind::kArgMax:
        case ReduceKind::kArgMin: {
          const z3::expr better =
              kind == ReduceKind::kArgMax ? Call(Fn::kLess, dtype, result, term) : Call(Fn::kLess, dtype, term, result);
          place = z3::ite(better, z3_.bv_val(terms[i].first, 64), place);
          result = z3::ite(better, term, result);
          break;
        }
      }
    }
    return IsPosition(kind) ? place : result;
  }

  template <typename F>
  void OverTerms(const ExprNode& e, size_t depth, Frame& frame, const F& take) {
    if (depth == e.bound().size()) {
      const z3::expr guard = OfCond(*e.guard(), frame);
      if (!guard.is_true() && !guard.is_false()) throw CannotEvaluate{"elements say what is reduced"};
      if (guard.is_true()) take();
      return;
    }
    const int64_t extent = OfIndex(*e.bound()[depth].extent, frame);
    for (int64_t i = 0; i < extent; ++i) {
      frame.bindings.variables[e.bound()[depth].id] = i;
      OverTerms(e, depth + 1, frame, take);
    }
  }

  z3::expr Cast(const z3::expr& a, DType from, DType to) {
    if (from == to || (IsFloating(from) && IsFloating(to))) return a;
    if (from == DType::kBool) return z3::ite(a, Number(to, 1, 1), Number(to, 0, 0));
    if (to == DType::kBool) return a != Number(from, 0, 0);
    throw CannotEvaluate{"a cast between reals and integers"};
  }

  z3::expr Uninterpreted(Fn fn, const z3::sort& sort, const z3::expr& a, const z3::expr& b) {
    interprets_all_ = false;
    const FnInfo& info = InfoOf(fn);
    if (info.arity == 2) return z3_.function(info.name, sort, sort, sort)(a, b);
    // Equal polynomials are equal operands.
    const z3::expr value = z3_.function(info.name, sort, sort)(a.is_real() ? a.simplify(sums_) : a);
    if (FnHas(fn, FnTrait::kPositive)) facts_.push_back(value > 0);
    return value;
  }

  z3::expr Inverse(const z3::expr& of) {
    const z3::expr a = of.simplify(sums_);
    const z3::expr inverse = z3_.function("inverse", z3_.real_sort(), z3_.real_sort())(a);
    facts_.push_back(z3::implies(a != 0, a * inverse == 1));
    interprets_all_ = false;
    return inverse;
  }

  // a^b for exponents that say how to compute it.
  std::optional<z3::expr> Power(const z3::expr& a, const z3::expr& b) {
    constexpr int64_t kMost = 8;
    int64_t num = 0, den = 0;
    const z3::expr exponent = b.simplify();
    if (!exponent.is_numeral() || !Z3_get_numeral_small(z3_, exponent, &num, &den)) return std::nullopt;
    if (num == 1 && den == 2) return Call(Fn::kSqrt, DType::kFloat64, a, a);
    if (den != 1 || num < -kMost || num > kMost) return std::nullopt;
    z3::expr product = z3_.real_val(1);
    for (int64_t k = 0; k < std::abs(num); ++k) product = product * a;
    return num < 0 ? Inverse(product) : product;
  }

  z3::expr Call(Fn fn, DType dtype, const z3::expr& a, const z3::expr& b) {
    const bool real = IsFloating(dtype);
    if (dtype == DType::kBool) return CallBool(fn, a, b);
    switch (fn) {
      case Fn::kAdd: return a + b;
      case Fn::kSub: return a - b;
      case Fn::kMul: return a * b;
      case Fn::kNeg: return -a;
      case Fn::kMax: return z3::ite(a > b, a, b);
      case Fn::kMin: return z3::ite(a < b, a, b);
      case Fn::kAbs: return z3::ite(a < 0, -a, a);
      case Fn::kLess: return a < b;
      case Fn::kLessEqual: return a <= b;
      case Fn::kEqual: return a == b;
      case Fn::kDiv:
        if (real) return b.is_numeral() ? (a / b).simplify() : a * Inverse(b);
        break;
      case Fn::kSign:
        return z3::ite(a > 0, Number(dtype, 1, 1), z3::ite(a < 0, Number(dtype, -1, -1), Number(dtype, 0, 0)));
      case Fn::kFloor: return z3::to_real(z3::expr(z3_, Z3_mk_real2int(z3_, a)));
      case Fn::kCeil: return -z3::to_real(z3::expr(z3_, Z3_mk_real2int(z3_, -a)));
      case Fn::kSqrt: {
        const z3::expr root = Uninterpreted(fn, z3_.real_sort(), a, b);
        facts_.push_back(z3::implies(a >= 0, root >= 0 && root * root == a));
        return root;
      }
      case Fn::kPow:
        if (const auto power = real ? Power(a, b) : std::nullopt) return *power;
        break;
      case Fn::kSigmoid: return Inverse(1 + Call(Fn::kExp, dtype, -a, a));
      default: break;
    }
    if (FnHas(fn, FnTrait::kCompares)) throw CannotEvaluate{"a comparison"};
    return Uninterpreted(fn, SortOf(dtype), a, b);
  }

  static z3::expr CallBool(Fn fn, const z3::expr& a, const z3::expr& b) {
    switch (fn) {
      case Fn::kAdd:
      case Fn::kMax:
      case Fn::kOr: return a || b;
      case Fn::kMul:
      case Fn::kMin:
      case Fn::kAnd: return a && b;
      case Fn::kNot: return !a;
      case Fn::kEqual: return a == b;
      case Fn::kLess: return !a && b;
      case Fn::kLessEqual: return !a || b;
      default: throw CannotEvaluate{"a function of truth values"};
    }
  }

  const Arena& arena_;
  z3::context& z3_;
  z3::expr_vector facts_;
  const z3::params sums_;
  std::map<Value, double> written_;
  std::vector<std::pair<z3::expr, z3::expr>> increasing_;  // arguments and values of the stand-in's function
  std::map<std::pair<Value, int64_t>, z3::expr> elements_;
  int64_t count_ = 0;
  bool interprets_all_ = true;
  bool rounds_constants_ = false;
};

class Derivation {
 public:
  Derivation(const CompiledRule& rule, const BoundedCheckOptions& options) : rule_(rule), options_(options) {}

  absl::StatusOr<BoundedCheck> Run() {
    std::vector<std::pair<StructuralAssignment, RuleInstance>> all;
    RETURN_IF_ERROR(ForEachStructuralAssignment(rule_, SmallLimits(rule_),
                                                [&](const StructuralAssignment& structure, RuleInstance instance) {
                                                  all.emplace_back(structure, std::move(instance));
                                                  return absl::OkStatus();
                                                }));
    const size_t some = std::min(all.size(), static_cast<size_t>(options_.structures));
    std::mt19937_64 rng(options_.seed);
    for (size_t k = 0; k < some; ++k) {
      const auto& [structure, instance] = all[some == 1 ? 0 : k * (all.size() - 1) / (some - 1)];
      DeriveStructure(structure, instance, rng);
      if (result_.verdict == BoundedVerdict::kDenied) return result_;
    }
    if (result_.applications == 0 && result_.reason.empty()) result_.reason = "no small sizes were found";
    const bool confirmed = !given_up_ && result_.applications > 0;
    result_.verdict = confirmed ? BoundedVerdict::kConfirmed : BoundedVerdict::kGivenUp;
    return result_;
  }

 private:
  // Checks that the right side is legal at all draws, and that its elements are equal at the most telling ones.
  void DeriveStructure(const StructuralAssignment& structure, const RuleInstance& instance, std::mt19937_64& rng) {
    const verifier::DistinguishingAssignments draws = verifier::DrawTelling(instance, options_.draws, rng);
    for (const std::vector<int64_t>& symbols : draws.all) {
      const std::optional<RandomApplication> application = ApplicationAt(rule_, structure, instance, symbols);
      if (!application) continue;
      const absl::StatusOr<ValueMap> right = BuildReplacement(application->graph, application->match);
      if (right.ok() || absl::IsOutOfRange(right.status())) continue;
      return Take(BoundedVerdict::kDenied, std::string(right.status().message()), *application);
    }
    for (const std::vector<int64_t>& symbols : draws.chosen) {
      const std::optional<RandomApplication> application = ApplicationAt(rule_, structure, instance, symbols);
      if (!application) continue;
      std::string why;
      const BoundedVerdict verdict = Judge(*application, &why);
      Take(verdict, why, *application);
      if (verdict == BoundedVerdict::kDenied) return;
    }
  }

  void Take(BoundedVerdict verdict, const std::string& why, const RandomApplication& application) {
    if (verdict == BoundedVerdict::kConfirmed) {
      ++result_.applications;
      return;
    }
    const bool denied = verdict == BoundedVerdict::kDenied;
    if (denied) result_.verdict = verdict;
    if (denied || result_.reason.empty()) result_.reason = absl::StrCat(why, " (", application.description, ")");
    given_up_ = true;
  }

  BoundedVerdict Judge(const RandomApplication& application, std::string* why) const {
    const absl::StatusOr<ValueMap> right = BuildReplacement(application.graph, application.match);
    if (!right.ok()) {
      *why = std::string(right.status().message());
      return absl::IsOutOfRange(right.status()) ? BoundedVerdict::kGivenUp : BoundedVerdict::kDenied;
    }
    const Arena& arena = *application.graph.arena();
    z3::context context;
    Unroller unroller(arena, context);
    try {
      for (int i = 0; i < rule_.num_lhs_nodes(); ++i) {
        const RuleNode& node = rule_.nodes()[i];
        if (node.op == nullptr && node.positive && !node.value) unroller.AssumePositive(application.match.nodes[i]);
        if (node.value && node.value->kind == ArgExpr::Kind::kReal &&
            IsFloating(arena.type(application.match.nodes[i]).dtype)) {
          unroller.Write(application.match.nodes[i], node.value->real);
        }
      }
      const z3::params sums = Unroller::SumsOfProducts(context);
      z3::expr_vector apart(context);
      for (Value root : application.match.roots) {
        const auto replaced = right->find(root);
        if (replaced == right->end()) continue;
        if (arena.type(root) != arena.type(replaced->second)) {
          *why = absl::StrCat("types ", arena.type(root).ToString(), " and ", arena.type(replaced->second).ToString());
          return BoundedVerdict::kDenied;
        }
        for (int64_t at = 0; at < arena.type(root).num_elements(); ++at) {
          const z3::expr a = unroller.Element(root, at), b = unroller.Element(replaced->second, at);
          if (z3::eq(a, b)) continue;
          const z3::expr differ =
              a.is_bool() ? (a != b).simplify() : ((a - b).simplify(sums) != (a - a)).simplify(sums);
          if (!differ.is_false()) apart.push_back(differ);
        }
      }
      if (apart.empty()) return BoundedVerdict::kConfirmed;
      return Ask(context, unroller, apart, why);
    } catch (const CannotEvaluate& stuck) {
      *why = stuck.why;
    } catch (const z3::exception& error) {
      *why = error.msg();
    }
    return BoundedVerdict::kGivenUp;
  }

  z3::check_result Answer(z3::context& context, const Unroller& unroller, const z3::expr& question) const {
    z3::solver solver(context, z3::solver::simple());  // no tactics, which take long to give up
    z3::params limits = verifier::SolverParameters(context, options_.resource_limit);
    limits.set("arith.nl.nra", false);  // algebraic numbers of sums of squares do not heed it
    solver.set(limits);
    for (unsigned i = 0; i < unroller.facts().size(); ++i) solver.add(unroller.facts()[static_cast<int>(i)]);
    solver.add(question);
    const verifier::Watchdog watchdog(context, verifier::kHangSeconds);
    return solver.check();
  }

  BoundedVerdict Ask(z3::context& context, const Unroller& unroller, const z3::expr_vector& apart,
                     std::string* why) const {
    z3::check_result answer = Answer(context, unroller, z3::mk_or(apart));
    // Checks one element at a time if all of them at once are too much work.
    for (unsigned i = 0; answer == z3::unknown && i < apart.size(); ++i) {
      const z3::check_result alone = Answer(context, unroller, apart[static_cast<int>(i)]);
      if (alone == z3::unknown) break;
      if (alone == z3::sat || i + 1 == apart.size()) answer = alone;
    }
    switch (answer) {
      case z3::unsat: return BoundedVerdict::kConfirmed;
      case z3::sat:
        if (!unroller.interprets_all()) {
          *why = "it needs a law of a function";
          return BoundedVerdict::kGivenUp;
        }
        if (unroller.rounds_constants()) {
          *why = "its constants are rounded";
          return BoundedVerdict::kGivenUp;
        }
        *why = "real numbers tell the sides apart";
        return BoundedVerdict::kDenied;
      default: *why = "Z3 does not decide it"; return BoundedVerdict::kGivenUp;
    }
  }

  const CompiledRule& rule_;
  const BoundedCheckOptions& options_;
  BoundedCheck result_;
  bool given_up_ = false;  // an application is
};

}  // namespace

absl::StatusOr<BoundedCheck> CheckAtSmallSizes(const CompiledRule& rule, const BoundedCheckOptions& options) {
  absl::StatusOr<BoundedCheck> all = Derivation(rule, options).Run();
  for (const auto& other : rule.other_counts()) {
    if (!all.ok() || all->verdict == BoundedVerdict::kDenied) break;
    absl::StatusOr<BoundedCheck> one = Derivation(*other, options).Run();
    if (!one.ok()) return one;
    one->applications += all->applications;
    if (one->verdict != BoundedVerdict::kConfirmed || all->verdict == BoundedVerdict::kConfirmed) all = std::move(one);
  }
  return all;
}

}  // namespace rewright
