#include "verifier/refute/numeric_instance.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/ir/index_value.h"
#include "substitutions/language/stand_ins.h"

namespace rewright {
namespace {

// A Scalar over the instance's real symbols and, as numbers, its integer ones; nothing where it is anything but
// arithmetic.
std::optional<double> EvalReal(const ExprNode& expr, const std::vector<int64_t>& symbols,
                               const std::vector<Number>& reals) {
  switch (expr.kind()) {
    case ExprKind::kConst: return expr.real();
    case ExprKind::kParam: return RealOf(reals[expr.param()]);
    case ExprKind::kFromIndex: return EvalIndex(expr.arg(0), symbols);
    case ExprKind::kCall: break;
    default: return std::nullopt;
  }
  const std::optional<double> a = EvalReal(*expr.arg(0), symbols, reals);
  const std::optional<double> b = EvalReal(*expr.args().back(), symbols, reals);
  if (!a || !b) return std::nullopt;
  return EvaluateReal(expr.fn(), *a, *b);
}

// Evaluates an i64 expression of sums, differences and products, which wrap around; nothing if an index in it has no
// value.
std::optional<uint64_t> EvalInteger(const ExprPtr& expr, const std::vector<int64_t>& symbols,
                                    const std::vector<Number>& reals) {
  if (expr->kind() == ExprKind::kParam) return static_cast<uint64_t>(std::get<int64_t>(reals[expr->param()]));
  if (expr->kind() == ExprKind::kFromIndex) return EvalIndex(expr->arg(0), symbols);
  CHECK(expr->kind() == ExprKind::kCall) << PrintExpr(expr, {});
  const std::optional<uint64_t> a = EvalInteger(expr->arg(0), symbols, reals);
  if (!a) return std::nullopt;
  if (expr->fn() == Fn::kNeg) return -*a;
  const std::optional<uint64_t> b = EvalInteger(expr->arg(1), symbols, reals);
  if (!b) return std::nullopt;
  CHECK(expr->fn() == Fn::kAdd || expr->fn() == Fn::kSub || expr->fn() == Fn::kMul) << FnName(expr->fn());
  return expr->fn() == Fn::kAdd ? *a + *b : expr->fn() == Fn::kSub ? *a - *b : *a * *b;
}

// Doubles computed in two ways are the same up to rounding.
bool Agree(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return true;
  if (!std::isfinite(a) || !std::isfinite(b)) return false;
  return std::abs(a - b) <= 1e-9 * std::max({1.0, std::abs(a), std::abs(b)});
}

bool Agree(const Number& a, const Number& b) {
  const int64_t *x = std::get_if<int64_t>(&a), *y = std::get_if<int64_t>(&b);
  return x != nullptr && y != nullptr ? *x == *y : Agree(RealOf(a), RealOf(b));
}

absl::Status Refuse(const std::string& why) {
  return absl::FailedPreconditionError(absl::StrCat("the interpreter does not confirm the counterexample: ", why));
}

absl::Status ConfirmElement(const Counterexample& found, const Tensor& left, const Tensor& right) {
  int64_t linear = 0;
  for (size_t k = 0; k < found.at.size(); ++k) linear = linear * left.shape()[k] + found.at[k];
  const Number l = ElementOf(left, linear), r = ElementOf(right, linear);
  if (!Agree(l, found.lhs) || !Agree(r, found.rhs) || Agree(l, r)) {
    return Refuse(absl::StrCat("it computes ", NumberString(l), " on the left and ", NumberString(r),
                               " on the right, expected ", NumberString(found.lhs), " and ", NumberString(found.rhs)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<const CompiledMeaning*> CompiledNodes::Find(size_t node, const Meaning& meaning,
                                                           const Bindings& bindings,
                                                           const std::vector<TensorType>& inputs,
                                                           const std::vector<TensorType>& outputs,
                                                           Precision precision) {
  std::vector<uint64_t> params;
  for (double param : bindings.params) params.push_back(std::bit_cast<uint64_t>(param));
  // Types, too: inputs may be stored as the graph says or as the precision does.
  std::vector<int64_t> numbers = bindings.variables;
  for (const std::vector<TensorType>* types : {&inputs, &outputs}) {
    for (const TensorType& type : *types) {
      numbers.push_back(static_cast<int64_t>(type.dtype));
      numbers.insert(numbers.end(), type.shape.begin(), type.shape.end());
    }
  }
  auto& entry = compiled_[Key(node, precision, std::move(numbers), std::move(params))];
  if (entry == nullptr) {
    ASSIGN_OR_RETURN(CompiledMeaning made, CompiledMeaning::Compile(meaning, bindings, inputs, outputs, precision));
    entry = std::make_unique<CompiledMeaning>(std::move(made));
  }
  return entry.get();
}

TensorType NumericInstance::TypeOf(const SymbolicNode& node, size_t output) const {
  TensorType type{node.dtypes[output], {}};
  for (const ExprPtr& size : node.shapes[output]) type.shape.push_back(EvalIndex(size, symbols_).value_or(-1));
  return type;
}

absl::Status NumericInstance::Legal(const SymbolicNode& node) const {
  if (node.meaning == nullptr) {
    const TensorType type = TypeOf(node, 0);
    const bool positive = std::all_of(type.shape.begin(), type.shape.end(), [](int64_t size) { return size >= 1; });
    return positive ? absl::OkStatus() : absl::OutOfRangeError(absl::StrCat(node.name, " has type ", type.ToString()));
  }
  const auto bindings = BindingsAt(node);
  if (!bindings.ok()) return bindings.status();
  for (size_t v = 0; v < node.meaning->variables.size(); ++v) {
    const Meaning::Variable& variable = node.meaning->variables[v];
    if (variable.kind != Meaning::VarKind::kAttr || variable.min == INT64_MIN) continue;
    if (bindings->variables[v] >= variable.min) continue;
    return absl::OutOfRangeError(absl::StrCat(node.op->name, ": ", variable.attr, " is ", bindings->variables[v]));
  }
  for (const Requirement& requirement : node.meaning->requirements) {
    if (EvalCond(requirement.condition, bindings->variables).value_or(false)) continue;
    return absl::OutOfRangeError(absl::StrCat(node.op->name, ": ", requirement.message));
  }
  for (const OutputMeaning& output : node.meaning->outputs) {
    for (const ExprPtr& size : output.shape) {
      if (EvalIndex(size, bindings->variables).value_or(-1) >= 0) continue;
      return absl::OutOfRangeError(absl::StrCat(node.op->name, ": the output has a negative size"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Bindings> NumericInstance::BindingsAt(const SymbolicNode& node) const {
  Bindings bindings;
  bindings.variables.assign(node.meaning->variables.size(), 0);
  for (size_t v = 0; v < node.indices.size(); ++v) {
    if (node.indices[v] == nullptr) continue;
    const std::optional<int64_t> value = EvalIndex(node.indices[v], symbols_);
    if (!value) return absl::OutOfRangeError(absl::StrCat(node.op->name, ": an attribute has no value"));
    bindings.variables[v] = *value;
  }
  for (const ExprPtr& param : node.params) {
    const std::optional<double> value = EvalReal(*param, symbols_, reals_);
    if (!value) return absl::UnimplementedError(absl::StrCat(node.op->name, ": a real attribute has no value"));
    bindings.params.push_back(*value);
  }
  return bindings;
}

// Not by the interpreter, to which a parameter is a double.
absl::StatusOr<Tensor> NumericInstance::Filled(const SymbolicNode& node, Precision precision) const {
  const TensorType type = TypeOf(node, 0);
  Tensor tensor(TensorType{StoredDType(precision, type.dtype), type.shape});
  const ExprPtr& value = node.params[0];
  if (!IsFloating(value->dtype())) {
    const std::optional<uint64_t> integer = EvalInteger(value, symbols_, reals_);
    if (!integer) return absl::UnimplementedError("a constant has no value");
    FillWith(static_cast<int64_t>(*integer), &tensor);
    return tensor;
  }
  const std::optional<double> real = EvalReal(*value, symbols_, reals_);
  if (!real) return absl::UnimplementedError("a constant has no value");
  FillWith(*real, &tensor);
  return tensor;
}

absl::StatusOr<const CompiledMeaning*> NumericInstance::ProgramOf(size_t n, const std::vector<Tensor>& inputs,
                                                                  Precision precision, CompiledNodes* compiled) const {
  const SymbolicNode& node = instance_.nodes[n];
  ASSIGN_OR_RETURN(const Bindings bindings, BindingsAt(node));
  std::vector<TensorType> types, outputs;
  for (const Tensor& input : inputs) types.push_back(input.type());
  for (size_t k = 0; k < node.dtypes.size(); ++k) outputs.push_back(TypeOf(node, k));
  return compiled->Find(n, *node.meaning, bindings, types, outputs, precision);
}

CompiledNodes::Programs* NumericInstance::ProgramsOf(const std::vector<Tensor>& leaves, Precision precision,
                                                     CompiledNodes* compiled) const {
  if (!reals_.empty()) return nullptr;
  std::vector<int64_t> numbers = symbols_;
  for (const Tensor& leaf : leaves) numbers.push_back(static_cast<int64_t>(leaf.dtype()));
  return &compiled->of_instance_[{precision, std::move(numbers)}];
}

absl::StatusOr<std::vector<std::vector<Tensor>>> NumericInstance::Run(const std::vector<Tensor>& leaves,
                                                                      Precision precision, size_t end,
                                                                      CompiledNodes* compiled) const {
  CompiledNodes own;
  if (compiled == nullptr) compiled = &own;
  CompiledNodes::Programs* const programs = ProgramsOf(leaves, precision, compiled);
  std::vector<std::vector<Tensor>> values(instance_.nodes.size());
  std::vector<Tensor> inputs;
  for (size_t n = 0; n < end; ++n) {
    const SymbolicNode& node = instance_.nodes[n];
    const CompiledMeaning* program = nullptr;
    if (node.op == nullptr) {
      values[n] = {leaves[n]};
    } else if (IsFill(node)) {
      ASSIGN_OR_RETURN(Tensor filled, Filled(node, precision));
      values[n] = {std::move(filled)};
    } else {
      inputs.clear();
      for (SymbolicValue input : node.inputs) inputs.push_back(values[input.node][input.output]);
      if (programs != nullptr && n < programs->size()) {
        program = (*programs)[n];
      } else {
        ASSIGN_OR_RETURN(program, ProgramOf(n, inputs, precision, compiled));
      }
      ASSIGN_OR_RETURN(values[n], program->Run(inputs));
    }
    if (programs != nullptr && n == programs->size()) programs->push_back(program);
  }
  return values;
}

bool HasStandIn(const RuleInstance& instance) {
  return std::any_of(instance.nodes.begin(), instance.nodes.end(),
                     [](const SymbolicNode& node) { return IsStandIn(node.op); });
}

absl::Status ConfirmCounterexample(const RuleInstance& instance, const Counterexample& found) {
  if (HasStandIn(instance)) return Refuse("a function tells the sides apart that is no operator's");
  std::vector<int64_t> symbols;
  for (const auto& symbol : found.symbols) symbols.push_back(symbol.second);
  std::vector<Number> reals;
  for (const auto& real : found.reals) reals.push_back(real.second);
  const NumericInstance numeric(instance, symbols, reals);
  for (const ExprPtr& condition : instance.conditions) {
    if (!EvalCond(condition, symbols).value_or(false)) return Refuse("a condition of the rule fails");
  }
  const auto left_nodes = static_cast<size_t>(instance.num_lhs_nodes);
  absl::Status right_legal;
  for (size_t n = 0; n < instance.nodes.size() && right_legal.ok(); ++n) {
    const absl::Status legal = numeric.Legal(instance.nodes[n]);
    if (n >= left_nodes) {
      right_legal = legal;
    } else if (!legal.ok()) {
      return Refuse(absl::StrCat("the left side is not legal: ", std::string(legal.message())));
    }
  }
  const auto node_of = [&](SymbolicValue value) -> const SymbolicNode& { return instance.nodes[value.node]; };
  if (found.obligation == Obligation::kWellFormed) {
    return right_legal.ok() ? Refuse("the right side is legal") : absl::OkStatus();
  }
  if (!right_legal.ok()) return Refuse(std::string(right_legal.message()));
  const SymbolicValue left = instance.lhs[found.output];
  const SymbolicValue right = instance.rhs[found.output];
  const bool same_shape = numeric.TypeOf(node_of(left), static_cast<size_t>(left.output)).shape ==
                          numeric.TypeOf(node_of(right), static_cast<size_t>(right.output)).shape;
  if (found.obligation == Obligation::kShape) {
    return same_shape ? Refuse("the shapes are the same") : absl::OkStatus();
  }
  if (!same_shape) return Refuse("the shapes differ");

  std::vector<Tensor> leaves(instance.nodes.size());
  size_t input = 0;
  for (size_t n = 0; n < instance.nodes.size(); ++n) {
    if (instance.nodes[n].meaning != nullptr) continue;
    const Counterexample::Input& given = found.inputs[input++];
    Tensor leaf(TensorType{StoredDType(Precision::kFloat64, given.type.dtype), given.type.shape});
    for (int64_t i = 0; i < leaf.num_elements(); ++i) {
      const double value = given.values[i];
      if (IsFloating(leaf.dtype())) {
        leaf.Set(i, value);
      } else {
        leaf.SetInt(i, given.integers.empty() ? static_cast<int64_t>(value) : given.integers[i]);
      }
    }
    leaves[n] = std::move(leaf);
  }
  const auto one_side = numeric.Run(leaves, Precision::kFloat64, left_nodes);
  if (!one_side.ok()) return Refuse(absl::StrCat("the left side: ", std::string(one_side.status().message())));
  const auto values = numeric.Run(leaves, Precision::kFloat64, instance.nodes.size());
  if (found.obligation == Obligation::kReads) {
    return values.ok() ? Refuse("it reads within bounds") : absl::OkStatus();
  }
  if (!values.ok()) return Refuse(absl::StrCat("the right side: ", std::string(values.status().message())));
  const auto value_of = [&](SymbolicValue value) -> const Tensor& { return (*values)[value.node][value.output]; };
  return ConfirmElement(found, value_of(left), value_of(right));
}

}  // namespace rewright
