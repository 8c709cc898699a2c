#include "verifier/refute/concrete.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/base/integer.h"
#include "core/base/work.h"
#include "core/ir/function_values.h"
#include "core/ir/index_value.h"
#include "core/ir/rewrite.h"
#include "substitutions/language/stand_ins.h"
#include "verifier/refute/counterexample.h"

namespace rewright::verifier {
namespace {

constexpr int64_t kMaxConcreteElements = 20000;

int64_t LinearIndex(const Shape& shape, const std::vector<int64_t>& at) {
  int64_t linear = 0;
  for (size_t k = 0; k < shape.size(); ++k) {
    if (at[k] < 0 || at[k] >= shape[k]) return -1;
    linear = linear * shape[k] + at[k];
  }
  return linear;
}

// An integer element as 64 bits.
uint64_t Word(double value) { return static_cast<uint64_t>(static_cast<int64_t>(value)); }

bool IsRounded(const ExprPtr& e) {
  return AnyOf(e, [](const ExprNode& node) {
    if (node.IsCall(Fn::kFloor) || node.IsCall(Fn::kCeil)) return true;
    return node.kind() == ExprKind::kCast && IsFloating(node.arg(0)->dtype()) && !IsFloating(node.dtype());
  });
}

}  // namespace

bool RoundsToIntegers(const RuleInstance& instance) {
  return std::any_of(instance.nodes.begin(), instance.nodes.end(), [](const SymbolicNode& node) {
    return node.meaning != nullptr &&
           std::any_of(node.meaning->outputs.begin(), node.meaning->outputs.end(),
                       [](const OutputMeaning& output) { return IsRounded(output.element); });
  });
}

ConcreteInstance::ConcreteInstance(const RuleInstance& instance, const std::vector<int64_t>& symbols, bool fractions,
                                   std::mt19937_64* rng)
    : instance_(instance), symbols_(symbols), fractions_(fractions) {
  for (const RealSymbol& real : instance.reals) {
    static constexpr double kValues[] = {0.5, 1, 2, 3, -1, -2, 0};
    const uint64_t draw = (*rng)();
    if (IsFloating(real.dtype)) {
      reals_.push_back(kValues[draw % (real.positive ? 4 : 7)]);
    } else if (real.dtype == DType::kBool) {
      reals_.push_back(static_cast<double>(draw % 2));
    } else {
      reals_.push_back(static_cast<double>(draw % (real.positive ? 4 : 7)) + (real.positive ? 1 : -3));
    }
  }
  const size_t count = instance.nodes.size();
  shapes_.resize(count);
  values_.resize(count);
  state_.resize(count);
  variables_.resize(count);
  for (size_t k = 0; k < count; ++k) {
    const SymbolicNode& n = instance.nodes[k];
    if (n.meaning != nullptr) {
      variables_[k].resize(n.meaning->variables.size());
      for (size_t v = 0; v < n.indices.size() && v < variables_[k].size(); ++v) {
        if (n.indices[v] == nullptr) continue;
        const std::optional<int64_t> value = EvalIndex(n.indices[v], symbols_);
        usable_ = usable_ && value;
        variables_[k][v] = value.value_or(0);
      }
    }
    const size_t outputs = n.meaning != nullptr ? n.meaning->outputs.size() : n.shapes.size();
    for (size_t o = 0; o < outputs; ++o) {
      Shape shape;
      for (const ExprPtr& size : n.meaning != nullptr ? n.meaning->outputs[o].shape : n.shapes[o]) {
        const int64_t value = EvalIndex(size, n.meaning != nullptr ? variables_[k] : symbols_).value_or(-1);
        usable_ = usable_ && value >= 0;
        shape.push_back(value);
      }
      if (!usable_) return;
      int64_t elements = 1;
      for (int64_t size : shape) {
        usable_ = usable_ && CheckedMultiply(elements, size, &elements) && elements <= kMaxConcreteElements;
      }
      if (!usable_) return;
      shapes_[k].push_back(std::move(shape));
      values_[k].emplace_back(static_cast<size_t>(elements));
      state_[k].emplace_back(static_cast<size_t>(elements), n.meaning == nullptr ? 1 : 0);
    }
    if (n.meaning == nullptr) FillLeaf(static_cast<int>(k), rng);
  }
}

std::string ConcreteInstance::Wrong() const {
  for (size_t k = 0; k < instance_.nodes.size(); ++k) {
    const SymbolicNode& n = instance_.nodes[k];
    if (n.meaning == nullptr) continue;
    for (size_t v = 0; v < n.meaning->variables.size(); ++v) {
      const Meaning::Variable& variable = n.meaning->variables[v];
      if (variable.kind != Meaning::VarKind::kAttr || variables_[k][v] >= variable.min) continue;
      return absl::StrCat(n.op->name, ": found ", variable.attr, "=", variables_[k][v], ", expected ", variable.min);
    }
    for (const Requirement& requirement : n.meaning->requirements) {
      if (!EvalCond(requirement.condition, variables_[k]).value_or(false)) {
        return absl::StrCat(n.op->name, ": ", requirement.message);
      }
    }
  }
  if (instance_.lhs.size() != instance_.rhs.size()) return "sides with different numbers of outputs";
  for (size_t o = 0; o < instance_.lhs.size(); ++o) {
    const SymbolicValue left = instance_.lhs[o], right = instance_.rhs[o];
    const bool same_type =
        instance_.nodes[left.node].dtypes[left.output] == instance_.nodes[right.node].dtypes[right.output];
    if (!same_type || ShapeOf(left) != ShapeOf(right)) return absl::StrCat("sides of different types in output ", o);
  }
  return "";
}

void ConcreteInstance::FillLeaf(int node, std::mt19937_64* rng) {
  const SymbolicNode& n = instance_.nodes[node];
  for (double& value : values_[node][0]) {
    if (n.splat.has_value()) {
      value = RoundedTo(n.dtypes[0], *n.splat);
    } else if (n.dtypes[0] == DType::kBool) {
      value = static_cast<double>((*rng)() % 2);
    } else if (n.positive) {
      value = static_cast<double>(1 + (*rng)() % 4);
    } else {
      value = static_cast<double>((*rng)() % 7) - 3;
    }
    const bool open = !n.splat.has_value() && IsFloating(n.dtypes[0]);
    if (fractions_ && open) value += static_cast<double>((*rng)() % 4) / 4;
  }
}

double ConcreteInstance::Element(SymbolicValue value, const std::vector<int64_t>& at) {
  return ElementAt(value, LinearIndex(ShapeOf(value), at));
}

double ConcreteInstance::ElementAt(SymbolicValue value, int64_t linear) {
  const auto node = static_cast<size_t>(value.node), output = static_cast<size_t>(value.output);
  if (linear < 0) {
    out_of_bounds_ = true;
    return 0;
  }
  const auto place = static_cast<size_t>(linear);
  uint8_t& state = state_[node][output][place];
  if (state == 0 && instance_.nodes[node].meaning->IsOpaque()) RunReference(value.node);
  if (state == 0) {
    const bool undefined_before = undefined_, out_before = out_of_bounds_;
    Clear();
    const OutputMeaning& meaning = instance_.nodes[node].meaning->outputs[output];
    Frame frame{value.node, variables_[node]};
    const Shape& shape = shapes_[node][output];
    for (size_t axis = shape.size(); axis-- > 0; linear /= shape[axis]) {
      frame.variables[meaning.index_vars[axis]] = linear % shape[axis];
    }
    double result = Eval(meaning.element, frame);
    if (std::isnan(result)) undefined_ = true;
    values_[node][output][place] = result;
    state = static_cast<uint8_t>(1 | (undefined_ ? 2 : 0) | (out_of_bounds_ ? 4 : 0));
    undefined_ = undefined_before;
    out_of_bounds_ = out_before;
  }
  undefined_ = undefined_ || (state & 2) != 0;
  out_of_bounds_ = out_of_bounds_ || (state & 4) != 0;
  return values_[node][output][place];
}

// Computes all outputs of an opaque operator, from all elements of its operands. If one of those does not exist, no
// element of the outputs does.
void ConcreteInstance::RunReference(int node) {
  const SymbolicNode& n = instance_.nodes[node];
  const bool undefined_before = undefined_, out_before = out_of_bounds_;
  Clear();
  const auto tensor = [](DType dtype, const Shape& shape) {
    return Tensor(TensorType{IsFloating(dtype) ? DType::kFloat64 : dtype, shape});
  };
  std::vector<Tensor> inputs, outputs;
  for (SymbolicValue input : n.inputs) {
    Tensor whole = tensor(instance_.nodes[input.node].dtypes[input.output], ShapeOf(input));
    for (int64_t i = 0; i < whole.num_elements(); ++i) whole.Set(i, ElementAt(input, i));
    inputs.push_back(std::move(whole));
  }
  Bindings bindings{variables_[node], {}};
  for (const ExprPtr& param : n.params) {
    Frame outer{-1, symbols_};
    bindings.params.push_back(Eval(param, outer));
  }
  for (size_t k = 0; k < n.dtypes.size(); ++k) outputs.push_back(tensor(n.dtypes[k], shapes_[node][k]));
  undefined_ = undefined_ || !n.meaning->reference(bindings, inputs, &outputs).ok();
  const auto state = static_cast<uint8_t>(1 | (undefined_ ? 2 : 0) | (out_of_bounds_ ? 4 : 0));
  for (size_t k = 0; k < outputs.size(); ++k) {
    for (int64_t i = 0; i < outputs[k].num_elements(); ++i) values_[node][k][i] = outputs[k].At(i);
    std::fill(state_[node][k].begin(), state_[node][k].end(), state);
  }
  undefined_ = undefined_before;
  out_of_bounds_ = out_before;
}

int64_t ConcreteInstance::EvalIndexAt(const ExprPtr& e, Frame& frame) {
  switch (e->kind()) {
    case ExprKind::kInt: return e->value();
    case ExprKind::kVar: return frame.variables[e->variable()];
    case ExprKind::kFromValue: {
      const double value = Eval(e->arg(0), frame);
      undefined_ = undefined_ || !FitsInt64(value);
      return FitsInt64(value) ? std::llround(value) : 0;
    }
    default: break;
  }
  CountSteps(1);
  const int64_t a = EvalIndexAt(e->arg(0), frame), b = EvalIndexAt(e->arg(1), frame);
  int64_t value;
  if (EvalIndex(e->kind(), a, b, &value)) return value;
  undefined_ = true;
  return 0;
}

bool ConcreteInstance::EvalCondAt(const ExprPtr& e, Frame& frame) {
  switch (e->kind()) {
    case ExprKind::kBool: return e->truth();
    case ExprKind::kLess: return EvalIndexAt(e->arg(0), frame) < EvalIndexAt(e->arg(1), frame);
    case ExprKind::kLessEqual: return EvalIndexAt(e->arg(0), frame) <= EvalIndexAt(e->arg(1), frame);
    case ExprKind::kEqual: return EvalIndexAt(e->arg(0), frame) == EvalIndexAt(e->arg(1), frame);
    case ExprKind::kAnd: return EvalCondAt(e->arg(0), frame) && EvalCondAt(e->arg(1), frame);
    case ExprKind::kOr: return EvalCondAt(e->arg(0), frame) || EvalCondAt(e->arg(1), frame);
    case ExprKind::kNot: return !EvalCondAt(e->arg(0), frame);
    case ExprKind::kHolds: return Eval(e->arg(0), frame) != 0;
    default: break;
  }
  undefined_ = true;
  return false;
}

double ConcreteInstance::Eval(const ExprPtr& e, Frame& frame) {
  CountSteps(1);
  switch (e->kind()) {
    case ExprKind::kConst: return e->real();
    case ExprKind::kParam: {
      if (frame.node < 0) return reals_[e->param()];
      const SymbolicNode& n = instance_.nodes[frame.node];
      Frame outer{-1, symbols_};
      return EvalCast(Eval(n.params[e->param()], outer), n.params[e->param()]->dtype(), e->dtype());
    }
    case ExprKind::kFromIndex: return static_cast<double>(EvalIndexAt(e->arg(0), frame));
    case ExprKind::kRead: {
      const SymbolicValue operand = instance_.nodes[frame.node].inputs[e->operand()];
      const Shape& shape = ShapeOf(operand);
      int64_t linear = 0;
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        const int64_t index = EvalIndexAt(e->arg(axis), frame);
        linear = linear < 0 || index < 0 || index >= shape[axis] ? -1 : linear * shape[axis] + index;
      }
      return ElementAt(operand, linear);
    }
    case ExprKind::kCall: return EvalCall(e, frame);
    case ExprKind::kSelect: return Eval(EvalCondAt(e->condition(), frame) ? e->yes() : e->no(), frame);
    case ExprKind::kReduce: return EvalReduce(e, frame);
    case ExprKind::kCast: return EvalCast(Eval(e->arg(0), frame), e->arg(0)->dtype(), e->dtype());
    case ExprKind::kOpaque: {  // of elements alone: others are computed whole
      std::vector<double> arguments;
      for (const ExprPtr& arg : e->args()) arguments.push_back(Eval(arg, frame));
      return StandInValue(e->name(), arguments);
    }
    default: break;
  }
  undefined_ = true;
  return 0;
}

double ConcreteInstance::EvalCast(double x, DType from, DType to) {
  if (to == DType::kBool) return x != 0 ? 1 : 0;
  if (IsFloating(from) && IsInteger(to)) return std::trunc(x);
  return x;
}

double ConcreteInstance::EvalCall(const ExprPtr& e, Frame& frame) {
  const double a = Eval(e->arg(0), frame);
  const double b = e->args().size() > 1 ? Eval(e->arg(1), frame) : 0;
  if (IsInteger(e->dtype()) && e->fn() == Fn::kDiv && b != 0) return std::trunc(a / b);
  if (e->IsCall(Fn::kRandomBits)) return RandomBitsValue(a, b);
  if (IsOfBits(e->fn())) return BitsValue(e->fn(), DTypeSize(e->dtype()) == 8, a, b);
  const double value = EvaluateReal(e->fn(), a, b);
  // The function has no real value: a pole, a logarithm of a negative number, or a value beyond the range of doubles.
  if (!std::isfinite(value) && std::isfinite(a) && std::isfinite(b)) {
    undefined_ = true;
    return 0;
  }
  return value;
}

bool IsOfBits(Fn fn) { return !Evaluate(fn, 1.0, 1.0).exists && Evaluate(fn, int64_t{1}, int64_t{1}).exists; }

double RandomBitsValue(double key, double position) {
  return static_cast<double>(RandomBits(Word(key), Word(position)));
}

double BitsValue(Fn fn, bool wide, double a, double b) {
  const double range = wide ? 1 << 16 : 1 << 15;
  const auto wrapped = [&](double x) { return x - range * std::floor(x / range + 0.5); };
  const auto whole = [&](double x) { return static_cast<int64_t>(wrapped(x)); };
  return wrapped(static_cast<double>(Evaluate(fn, whole(a), whole(b)).value));
}

double ConcreteInstance::EvalReduce(const ExprPtr& e, Frame& frame) {
  if (!frame.reducing) {
    frame.reducing = true;
    const double value = Reduced(e, frame);
    frame.reducing = false;
    return value;
  }
  const std::pair<int, const ExprNode*> key(frame.node, e.get());
  std::vector<int64_t> at;
  {
    Last& last = last_[key];
    if (last.state == 0) last.free = FreeVariables(e);
    for (int v : last.free) at.push_back(frame.variables[v]);
    if (last.state != 0 && last.at == at) {
      undefined_ = undefined_ || (last.state & 2) != 0;
      out_of_bounds_ = out_of_bounds_ || (last.state & 4) != 0;
      return last.value;
    }
  }
  const bool undefined_before = undefined_, out_before = out_of_bounds_;
  Clear();
  const double value = Reduced(e, frame);
  Last& last = last_[key];  // those inside have moved it
  last.at = std::move(at);
  last.value = value;
  last.state = static_cast<uint8_t>(1 | (undefined_ ? 2 : 0) | (out_of_bounds_ ? 4 : 0));
  undefined_ = undefined_ || undefined_before;
  out_of_bounds_ = out_of_bounds_ || out_before;
  return value;
}

double ConcreteInstance::Reduced(const ExprPtr& e, Frame& frame) {
  std::vector<int64_t> extents;
  bool empty = false;
  for (const BoundVar& b : e->bound()) {
    frame.variables[b.id] = 0;
    extents.push_back(EvalIndexAt(b.extent, frame));
    empty = empty || extents.back() <= 0;
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const ReduceKind kind = e->reduction();
  const bool max = kind == ReduceKind::kMax || kind == ReduceKind::kArgMax;
  const bool extremum = max || kind == ReduceKind::kMin || kind == ReduceKind::kArgMin;
  double total = kind == ReduceKind::kProd ? 1 : extremum ? (max ? -kInfinity : kInfinity) : 0;
  int64_t best = 0;
  while (!empty) {
    if (EvalCondAt(e->guard(), frame)) {
      double x = Eval(e->body(), frame);
      if (kind == ReduceKind::kSum) {
        total += x;
      } else if (kind == ReduceKind::kProd) {
        total *= x;
      } else if (std::isnan(x) || (max ? x > total : x < total)) {
        total = x;
        // The place is that of the first NaN; an extremum over no axes at all has no place.
        if (!e->bound().empty()) best = frame.variables[e->bound()[0].id];
        if (std::isnan(x)) break;
      }
    }
    size_t digit = e->bound().size();
    while (digit > 0) {
      int64_t& v = frame.variables[e->bound()[digit - 1].id];
      if (++v < extents[digit - 1]) break;
      v = 0;
      --digit;
    }
    if (digit == 0) break;
  }
  return kind == ReduceKind::kArgMax || kind == ReduceKind::kArgMin ? static_cast<double>(best) : total;
}

}  // namespace rewright::verifier
