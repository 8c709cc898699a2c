#include "core/numerics/running_error.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/base/status_macros.h"
#include "core/interpreter/interpreter.h"
#include "core/numerics/rounding_op.h"

namespace rewright {
namespace {

TensorType WideType(const TensorType& type) { return {DType::kFloat64, type.shape}; }

class RunningErrors {
 public:
  RunningErrors(const Graph& graph, const RunningErrorOptions& options) : graph_(graph), options_(options) {}

  absl::StatusOr<RunningError> Run() {
    for (const NodeId id : graph_.nodes()) {
      if (const auto given = options_.instead.find(Value{id, 0}); given != options_.instead.end()) {
        values_[{id, 0}] = given->second;
      } else if (graph_.node(id).op == nullptr) {
        RETURN_IF_ERROR(AddLeaf(id));
      } else {
        RETURN_IF_ERROR(AddApplication(id));
      }
    }
    return values_.at(graph_.outputs()[0].value);
  }

 private:
  absl::Status AddLeaf(NodeId id) {
    const Value value{id, 0};
    const Tensor& elements = *graph_.arena()->Elements(id);
    RunningError& leaf = values_[value];
    ASSIGN_OR_RETURN(leaf.value, ToPrecision(elements, Precision::kFloat64));
    if (!options_.leaves_rounded || !IsFloating(elements.dtype())) return absl::OkStatus();
    leaf.error = Tensor(WideType(elements.type()));
    for (int64_t i = 0; i < elements.num_elements(); ++i)
      leaf.error->Set(i, HalfUnitAt(elements.dtype(), elements.At(i)));
    return absl::OkStatus();
  }

  absl::Status AddApplication(NodeId id) {
    const Node& node = graph_.node(id);
    std::vector<TensorType> types;
    std::vector<Tensor> operands;
    bool bounded = true, carries = false;
    for (const Value operand : node.operands) {
      const RunningError& of = values_.at(operand);
      types.push_back(graph_.type(operand));
      operands.push_back(of.value);
      bounded = bounded && of.bounded;
      carries = carries || of.error.has_value();
    }
    ASSIGN_OR_RETURN(std::vector<Tensor> results, Interpret(*node.meaning, BindingsOf(*node.meaning, types, node.attrs),
                                                            node.outputs, types, operands, In64()));
    for (int32_t o = 0; o < static_cast<int32_t>(results.size()); ++o) {
      RunningError& result = values_[{id, o}];
      result.value = std::move(results[static_cast<size_t>(o)]);
      result.bounded = bounded;
      if (!IsFloating(node.outputs[static_cast<size_t>(o)].dtype)) continue;
      if (node.meaning->IsOpaque()) {
        result.bounded = false;
        continue;
      }
      if (carries) {
        ASSIGN_OR_RETURN(result.error, Carried(node, o, types, operands));
      }
      RETURN_IF_ERROR(AddLocal(node, o, types, operands, &result));
    }
    return absl::OkStatus();
  }

  InterpretOptions In64() const { return {.precision = Precision::kFloat64, .threads = options_.threads}; }

  // Output 0 of an operator that is made from the node's, on these operands.
  absl::StatusOr<Tensor> Applied(const OpDef& op, const Node& node, const std::vector<TensorType>& types,
                                 const std::vector<Tensor>& operands) {
    ASSIGN_OR_RETURN(const Application made, Apply(op, types, node.attrs, meanings_));
    ASSIGN_OR_RETURN(std::vector<Tensor> results, Interpret(*made.meaning, BindingsOf(*made.meaning, types, made.attrs),
                                                            made.outputs, types, operands, In64()));
    return std::move(results[0]);
  }

  absl::StatusOr<Tensor> Carried(const Node& node, int32_t output, std::vector<TensorType> types,
                                 std::vector<Tensor> operands) {
    const size_t count = operands.size();
    for (size_t k = 0; k < count; ++k) {
      const RunningError& of = values_.at(node.operands[k]);
      types.push_back(types[k]);
      // The errors of integers are not read.
      operands.push_back(!IsFloating(types[k].dtype) ? operands[k] : of.error ? *of.error : Tensor(WideType(types[k])));
    }
    return Applied(CarriedErrorOp(*node.op, output), node, types, operands);
  }

  // Adds the roundings of the node's own operations to the error.
  absl::Status AddLocal(const Node& node, int32_t output, const std::vector<TensorType>& types,
                        const std::vector<Tensor>& operands, RunningError* result) {
    const ExprNode& element = *node.meaning->outputs[static_cast<size_t>(output)].element;
    const DType stored = node.outputs[static_cast<size_t>(output)].dtype, computed = ComputedDType(stored);
    const std::optional<Roundings> once = RoundingsOfOneCall(element);
    const bool converts = once && element.kind() == ExprKind::kCast;
    if (once && once->worst == 0 && !converts) return absl::OkStatus();
    if (converts && IsFloating(types[0].dtype) && RoundingOf(types[0].dtype) >= RoundingOf(stored)) {
      return absl::OkStatus();
    }
    Tensor inside;  // in units of the computed type
    if (!once || once->worst > 1) {
      if (once) {
        inside = Tensor(result->value.type());
        for (int64_t i = 0; i < inside.num_elements(); ++i) inside.Set(i, once->worst * std::abs(result->value.At(i)));
      } else {
        ASSIGN_OR_RETURN(inside, Applied(RoundingOp(*node.op, output), node, types, operands));
      }
    }
    Tensor total(WideType(result->value.type()));
    bool rounds = false;
    for (int64_t i = 0; i < total.num_elements(); ++i) {
      const double x = result->value.At(i), carried = result->error ? result->error->At(i) : 0;
      double local = 0;
      if (!once || once->worst > 1) {
        local = RoundingOf(computed) * inside.At(i);
        if (IsNarrow(stored) && (local > 0 || carried > 0)) local += HalfUnitAt(stored, x);
      } else {
        // Elements are in f64, where a sum of f64 has lost its own rounding.
        const bool exact = carried == 0 && stored != DType::kFloat64;
        local = exact ? std::abs(NearestOf(stored, x) - x) : HalfUnitAt(stored, x);
        if (IsNarrow(stored) && local > 0) local += 2 * HalfUnitAt(computed, x);  // rounded twice
      }
      if (std::isnan(local)) local = 0;  // of an infinity, or of what is no number
      rounds = rounds || carried + local > 0;
      total.Set(i, carried + local);
    }
    result->error.reset();
    if (rounds) result->error = std::move(total);
    return absl::OkStatus();
  }

  const Graph& graph_;
  const RunningErrorOptions& options_;
  MeaningCache meanings_;
  absl::flat_hash_map<Value, RunningError> values_;
};

}  // namespace

double HalfUnitAt(DType dtype, double x) {
  const double least = SmallestNormalOf(dtype), magnitude = std::max(std::abs(x), least);
  if (!std::isfinite(x)) return 0;
  return std::ldexp(RoundingOf(dtype), std::ilogb(magnitude));
}

absl::StatusOr<RunningError> RunningErrorOf(const std::shared_ptr<Arena>& arena, Value value,
                                            const RunningErrorOptions& options) {
  return RunningErrors(Graph(arena, {}, {{value, ""}}), options).Run();
}

}  // namespace rewright
