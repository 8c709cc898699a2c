#include "verifier/classify_rule.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/interpreter.h"
#include "verifier/counterexample.h"

namespace rewright {
namespace {

// Enough to meet every kind of instance; a rule may have thousands.
constexpr int kMeasuredInstances = 24;
constexpr int kAssignments = 3;
constexpr int64_t kMaxElements = 1 << 16;
constexpr double kRounding = 0x1p-24;

// A Scalar over the instance's real symbols; nothing where a function has no business there.
std::optional<double> EvalReal(const ExprPtr& expr, const std::vector<double>& reals) {
  if (expr->kind == ExprKind::kConst) return expr->real;
  if (expr->kind == ExprKind::kParam) return reals[static_cast<size_t>(expr->integer)];
  if (expr->kind != ExprKind::kCall) return std::nullopt;
  std::vector<double> args;
  for (const ExprPtr& arg : expr->args) {
    const std::optional<double> value = EvalReal(arg, reals);
    if (!value) return std::nullopt;
    args.push_back(*value);
  }
  switch (expr->fn) {
    case Fn::kAdd: return args[0] + args[1];
    case Fn::kSub: return args[0] - args[1];
    case Fn::kMul: return args[0] * args[1];
    case Fn::kDiv: return args[0] / args[1];
    case Fn::kNeg: return -args[0];
    case Fn::kMax: return std::max(args[0], args[1]);
    case Fn::kMin: return std::min(args[0], args[1]);
    case Fn::kSqrt: return std::sqrt(args[0]);
    default: return std::nullopt;
  }
}

// An instance at fixed sizes, computed in one carrier.
class NumericInstance {
 public:
  NumericInstance(const RuleInstance& instance, const std::vector<int64_t>& symbols, std::vector<double> reals)
      : instance_(instance), symbols_(symbols), reals_(std::move(reals)) {}

  TensorType TypeOf(const SymbolicNode& node, size_t output) const {
    TensorType type{node.dtypes[output], {}};
    for (const ExprPtr& size : node.shapes[output]) type.shape.push_back(EvalIndex(size, symbols_));
    return type;
  }

  // Values of all nodes, given those of the leaves by node; nothing where they cannot be computed.
  std::optional<std::vector<std::vector<Tensor>>> Run(const std::vector<Tensor>& leaves, Carrier carrier) const {
    std::vector<std::vector<Tensor>> values(instance_.nodes.size());
    for (size_t n = 0; n < instance_.nodes.size(); ++n) {
      const SymbolicNode& node = instance_.nodes[n];
      if (node.op == nullptr) {
        values[n] = {leaves[n]};
        continue;
      }
      std::vector<Tensor> inputs;
      for (SymbolicValue input : node.inputs) {
        inputs.push_back(values[static_cast<size_t>(input.node)][static_cast<size_t>(input.output)]);
      }
      const std::optional<Bindings> bindings = BindingsAt(node);
      if (!bindings) return std::nullopt;
      std::vector<TensorType> outputs;
      for (size_t k = 0; k < node.dtypes.size(); ++k) outputs.push_back(TypeOf(node, k));
      InterpretOptions options;
      options.carrier = carrier;
      absl::StatusOr<std::vector<Tensor>> results = Interpret(*node.meaning, *bindings, outputs, inputs, options);
      if (!results.ok()) return std::nullopt;
      values[n] = *std::move(results);
    }
    return values;
  }

 private:
  std::optional<Bindings> BindingsAt(const SymbolicNode& node) const {
    Bindings bindings;
    bindings.variables.assign(node.meaning->variables.size(), 0);
    for (size_t v = 0; v < node.indices.size(); ++v) {
      if (node.indices[v] != nullptr) bindings.variables[v] = EvalIndex(node.indices[v], symbols_);
    }
    for (const ExprPtr& param : node.params) {
      const std::optional<double> value = EvalReal(param, reals_);
      if (!value) return std::nullopt;
      bindings.params.push_back(*value);
    }
    return bindings;
  }

  const RuleInstance& instance_;
  const std::vector<int64_t>& symbols_;
  const std::vector<double> reals_;
};

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

}  // namespace

void RuleClassifier::Add(const RuleInstance& instance, const ProofResult& proof) {
  finite_only_ = finite_only_ || proof.used_finite_only_step;
  if (measured_instances_ >= kMeasuredInstances) return;
  ++measured_instances_;
  verifier::CounterexampleSearch search(instance, rng_());
  search.Run(kAssignments, 0.05);
  const std::vector<std::vector<int64_t>>& assignments = search.assignments();
  for (size_t i = 0; i < std::min<size_t>(assignments.size(), kAssignments); ++i) {
    for (Leaves leaves : {Leaves::kOrdinary, Leaves::kScaled, Leaves::kFarFromZero}) {
      Measure(instance, assignments[i], leaves);
    }
  }
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
        leaf.SetInt(i, static_cast<int64_t>(rng_() % 2));
      }
    }
    leaves[n] = leaf;
  }
  const auto rounded = numeric.Run(leaves, Carrier::kNative);
  const auto precise = numeric.Run(leaves, Carrier::kFloat64);
  if (!rounded || !precise) return;
  ++samples_;
  const auto at = [](const std::vector<std::vector<Tensor>>& values, SymbolicValue value) -> const Tensor& {
    return values[static_cast<size_t>(value.node)][static_cast<size_t>(value.output)];
  };
  for (size_t k = 0; k < instance.lhs.size(); ++k) {
    const Tensor& left = at(*rounded, instance.lhs[k]);
    const Tensor& right = at(*rounded, instance.rhs[k]);
    const Tensor& truth = at(*precise, instance.lhs[k]);
    if (!left.BitEqual(right)) same_bits_ = false;
    if (!AllFinite(left) || !AllFinite(truth)) continue;
    const double allowed = std::max(LargestError(left, truth), kRounding * LargestElement(truth));
    risky_ = risky_ || !AllFinite(right) || LargestError(right, truth) > kRiskFactor * allowed;
  }
}

RuleClass RuleClassifier::Class() const {
  if (risky_) return RuleClass::kNumericallyRisky;
  if (finite_only_) return RuleClass::kFiniteOnly;
  return same_bits_ && samples_ > 0 ? RuleClass::kExact : RuleClass::kReassociating;
}

}  // namespace rewright
