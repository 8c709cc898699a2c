#include "substitutions/match/applier.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "substitutions/match/match_scope.h"
#include "substitutions/match/new_values.h"

namespace rewright {
namespace {

constexpr int64_t kMaxConstant = 1 << 26;  // elements of a constant that a rule makes

class Applier {
 public:
  Applier(Arena& arena, const Match& match, Numerics* numerics)
      : arena_(arena),
        match_(match),
        rule_(*match.rule),
        numerics_(numerics),
        nodes_(match.nodes),
        scope_(rule_, arena, nodes_, match.bindings) {}

  absl::StatusOr<ValueMap> Run() {
    exact_ = numerics_ == nullptr || KeepsBits(rule_, arena_, match_);
    const bool keep = numerics_ != nullptr && std::any_of(match_.roots.begin(), match_.roots.end(), [&](Value root) {
                        return arena_.node(root.node).keeps_bits;
                      });
    if (keep && !exact_) return Error("a rounding to integers hangs on the result", absl::StatusCode::kOutOfRange);
    for (size_t i = nodes_.size(); i < rule_.nodes().size(); ++i) {
      const RuleNode& node = rule_.nodes()[i];
      auto value = node.op == nullptr ? Constant(node) : Application(node);
      if (!value.ok()) return Error(value.status().message(), value.status().code());
      nodes_.push_back(*value);
      if (node.op == nullptr) continue;
      if (!AddsUp(node, *value)) return Error("a number is too small for its type", absl::StatusCode::kOutOfRange);
      if (exact_) continue;
      const absl::Status numbers = CheckNumbers(static_cast<int>(i), value->node);
      if (!numbers.ok()) return Error(numbers.message(), numbers.code());
    }
    for (const auto& [node, why] : may_overflow_) {
      if (!IsPartOfSum(node)) return Error(why.message(), why.code());
    }
    std::vector<Value> outputs;
    for (const RuleValue& term : rule_.rhs()) Expand(term, &outputs);
    if (outputs.size() != match_.roots.size()) return Error("the sides have different numbers of outputs");
    if (keep) {
      for (Value output : outputs) arena_.KeepBits(output.node);
    }
    ValueMap map;
    for (size_t k = 0; k < outputs.size(); ++k) {
      const Value from = match_.roots[k], to = outputs[k];
      if (arena_.type(from) != arena_.type(to)) {
        return Error(absl::StrCat("output ", k, " is ", arena_.type(to).ToString(), ", expected ",
                                  arena_.type(from).ToString()));
      }
      if (from == to) continue;
      map[from] = to;
      if (exact_) continue;
      const absl::Status fits = CheckRoomForRounding(*numerics_, arena_, from, to);
      if (!fits.ok()) return Error(fits.message(), fits.code());
    }
    return map;
  }

 private:
  absl::Status Error(absl::string_view message, absl::StatusCode code = absl::StatusCode::kInternal) const {
    if (code != absl::StatusCode::kOutOfRange) code = absl::StatusCode::kInternal;
    return absl::Status(code, absl::StrCat("rule ", rule_.name(), " at ", match_.Describe(), ": ", message));
  }

  absl::Status CheckNumbers(int rule_node, NodeId application) {
    const std::optional<ProofRecord>& proof = rule_.rule().proof;
    // Nothing is known of a rule without a record.
    if (!proof || std::binary_search(proof->new_values.begin(), proof->new_values.end(), rule_node)) {
      const absl::Status fits = CheckOverflow(*numerics_, arena_, application);
      if (!fits.ok()) may_overflow_.emplace_back(rule_node, fits);
    }
    return CheckCancellation(*numerics_, arena_, application);
  }

  // True if a value of the right side that may overflow by itself is a part of a sum that does not.
  bool IsPartOfSum(int rule_node) {
    for (size_t i = static_cast<size_t>(rule_node) + 1; i < rule_.nodes().size(); ++i) {
      const std::vector<RuleValue>& operands = rule_.nodes()[i].operands;
      const bool reads = std::any_of(operands.begin(), operands.end(),
                                     [&](const RuleValue& operand) { return operand.node == rule_node; });
      const bool overflows = std::any_of(may_overflow_.begin(), may_overflow_.end(),
                                         [&](const auto& other) { return other.first == static_cast<int>(i); });
      if (reads && !overflows && rule_.nodes()[i].op != nullptr &&
          IsBoundedBySum(*numerics_, arena_, nodes_[i].node, nodes_[static_cast<size_t>(rule_node)].node)) {
        return true;
      }
    }
    return false;
  }

  // Refuses a number that the rule computes and its type cannot hold, unless a bound number is already infinite or NaN.
  absl::Status CheckRange(DType type, const Attr& computed) const {
    const double* number = std::get_if<double>(&computed);
    if (number == nullptr) return absl::OkStatus();
    const std::vector<Attr>& given = match_.bindings.attrs;
    const bool overflows = !std::isfinite(*number) && std::all_of(given.begin(), given.end(), [](const Attr& attr) {
      const double* bound = std::get_if<double>(&attr);
      return bound == nullptr || std::isfinite(*bound);
    });
    if (!overflows && HasNumber(type, *number)) return absl::OkStatus();
    return absl::OutOfRangeError(absl::StrCat(DTypeName(type), " has no number ", *number));
  }

  // Looks at sums in an expression of numbers, as ?a + ?b.
  absl::Status CheckSums(const ArgExpr& expr) const {
    for (const ArgExpr& arg : expr.args) RETURN_IF_ERROR(CheckSums(arg));
    if (expr.kind != ArgExpr::Kind::kOp || (expr.op != ArgOp::kAdd && expr.op != ArgOp::kSub)) return absl::OkStatus();
    double largest_term = 0;
    const std::optional<double> sum = RealValue(expr);
    for (const ArgExpr& arg : expr.args) largest_term = std::max(largest_term, std::abs(RealValue(arg).value_or(0)));
    return sum ? CheckCancellation(*sum, largest_term) : absl::OkStatus();
  }

  std::optional<double> RealValue(const ArgExpr& expr) const {
    MatchEvaluator evaluator(scope_);
    ArgValue<Concrete> value;
    Number number;
    if (!evaluator.Eval(expr, &value) || !ToNumber(value, match_.bindings.floating, &number)) return std::nullopt;
    return RealOf(number);
  }

  void Expand(const RuleValue& term, std::vector<Value>* values) const {
    const Value value = nodes_[term.node];
    const bool leaf = rule_.nodes()[term.node].op == nullptr;
    if (leaf) {
      values->push_back(value);
    } else if (term.whole || term.all) {
      const int32_t count = static_cast<int32_t>(arena_.node(value.node).outputs.size());
      for (int32_t k = 0; k < count; ++k) values->push_back(Value{value.node, k});
    } else {
      values->push_back(Value{value.node, term.output});
    }
  }

  absl::StatusOr<Value> Application(const RuleNode& node) {
    std::vector<Value> operands;
    for (const RuleValue& operand : node.operands) Expand(operand, &operands);
    for (Value operand : operands) {
      if (operand.output >= static_cast<int32_t>(arena_.node(operand.node).outputs.size())) {
        return absl::InvalidArgumentError(absl::StrCat("there is no output ", operand.output));
      }
    }
    Attrs attrs;
    for (size_t k = 0; k < node.attrs.size(); ++k) {
      const AttrSpec& spec = node.op->attrs[k];
      MatchEvaluator evaluator(scope_);
      ArgValue<Concrete> value;
      if (!evaluator.Eval(node.attrs[k], &value) || !ToAttr(value, spec.kind, &attrs[spec.name])) {
        return absl::InvalidArgumentError(
            absl::StrCat("attribute ", spec.name, " of ", node.op->name, ": ",
                         evaluator.error() == nullptr ? "wrong kind" : evaluator.error()));
      }
      RETURN_IF_ERROR(CheckRange(match_.bindings.floating, attrs[spec.name]));
    }
    auto id = arena_.Add(*node.op, std::move(operands), std::move(attrs));
    if (!id.ok()) return id.status();
    for (const TensorType& type : arena_.node(*id).outputs) {
      for (int64_t size : type.shape) {
        if (size > kMostSize) return absl::OutOfRangeError(absl::StrCat("an axis of ", size));
      }
    }
    return Value{*id, 0};
  }

  // A number below the normal ones of its type is off by as much as any sum that is stored in the type: it may be added
  // to another, and not multiplied.
  bool AddsUp(const RuleNode& node, Value made) const {
    const auto is_subnormal = [&](const RuleValue& operand) {
      const RuleNode* leaf = &rule_.nodes()[static_cast<size_t>(operand.node)];
      return std::find(subnormal_.begin(), subnormal_.end(), leaf) != subnormal_.end();
    };
    return IsSum(arena_.node(made.node)) || std::none_of(node.operands.begin(), node.operands.end(), is_subnormal);
  }

  absl::StatusOr<Value> Constant(const RuleNode& leaf) {
    MatchEvaluator evaluator(scope_);
    TensorType type{match_.bindings.floating, {}};
    if (!leaf.floating) type.dtype = leaf.dtype;
    if (leaf.dtype_attr >= 0) type.dtype = std::get<DType>(match_.bindings.attrs[leaf.dtype_attr]);
    ArgValue<Concrete> value, dims;
    Number number;
    if (!evaluator.Eval(*leaf.value, &value) || !evaluator.List(leaf.shape.dims, &dims)) {
      return absl::InvalidArgumentError(absl::StrCat("the constant ", leaf.name, " has no value"));
    }
    if (!ToNumber(value, type.dtype, &number)) {
      return absl::OutOfRangeError(absl::StrCat(DTypeName(type.dtype), " has no number ", leaf.name));
    }
    type.shape = dims.list;
    int64_t count = 1;
    for (int64_t size : type.shape) {
      if (size < 1 || __builtin_mul_overflow(count, size, &count) || count > kMaxConstant) {
        return absl::InvalidArgumentError(absl::StrCat("a constant of shape ", ShapeString(type.shape)));
      }
    }
    if (IsFloating(type.dtype)) {
      const absl::Status range = CheckRange(type.dtype, RealOf(number));
      const double rounded = RoundedTo(type.dtype, number);
      const bool subnormal = rounded != 0 && std::isfinite(rounded) && HasNumber(DType::kFloat32, number);
      if (!range.ok() && !subnormal) return range;
      if (!range.ok()) subnormal_.push_back(&leaf);
      if (!exact_) RETURN_IF_ERROR(CheckSums(*leaf.value));
    }
    Tensor tensor(type);
    FillWith(number, &tensor);
    return arena_.AddConstant(tensor);
  }

  Arena& arena_;
  const Match& match_;
  const CompiledRule& rule_;
  Numerics* const numerics_;
  std::vector<std::pair<int, absl::Status>> may_overflow_;  // nodes of the rule, ascending
  std::vector<const RuleNode*> subnormal_;  // constants of the rule that are no normal numbers of their type
  bool exact_ = true;                       // every bit of the outputs stays, or nothing runs
  std::vector<Value> nodes_;
  MatchScope scope_;
};

}  // namespace

bool KeepsBits(const CompiledRule& rule, const Arena& arena, const Match& match) {
  const std::optional<ProofRecord>& proof = rule.rule().proof;
  if (!proof || proof->rule_class != RuleClass::kExact) return false;
  const bool narrow = std::any_of(match.nodes.begin(), match.nodes.end(), [&](Value value) {
    const std::vector<TensorType>& types = arena.node(value.node).outputs;
    return std::any_of(types.begin(), types.end(),
                       [](const TensorType& type) { return IsFloating(type.dtype) && IsNarrow(type.dtype); });
  });
  return !narrow || proof->halves == RuleClass::kExact;
}

absl::StatusOr<ValueMap> BuildReplacement(Arena& arena, const Match& match, Numerics* numerics) {
  return Applier(arena, match, numerics).Run();
}

absl::StatusOr<ValueMap> BuildReplacement(const Graph& graph, const Match& match, Numerics* numerics) {
  return BuildReplacement(*graph.arena(), match, numerics);
}

absl::StatusOr<Graph> ApplyMatch(const Graph& graph, const Match& match, Numerics* numerics) {
  auto map = BuildReplacement(graph, match, numerics);
  if (!map.ok()) return map.status();
  return ReplaceValues(graph, *map);
}

}  // namespace rewright
