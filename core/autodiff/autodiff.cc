#include "core/autodiff/autodiff.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/adjoint/operators.h"
#include "core/autodiff/copies.h"
#include "core/base/status_macros.h"
#include "core/ir/pointwise.h"
#include "core/tensor/tensor.h"

namespace rewright {
namespace {

absl::Status At(const Arena& arena, NodeId id, const absl::Status& status) {
  return ErrorAt(absl::StrCat(arena.node(id).op->name, " (node ", id, ")"), status);
}

absl::StatusOr<Value> Stretched(Arena& arena, Value value, const Shape& shape) {
  if (arena.type(value).shape == shape) return value;
  return arena.Apply("expand", {value}, {{"shape", shape}});
}

// Makes a tensor filled with one number.
absl::StatusOr<Value> Filled(Arena& arena, const TensorType& type, double number) {
  return Stretched(arena, arena.AddConstant(Tensor::Scalar(type.dtype, number)), type.shape);
}

// A simple form of a derived application: zero, or a copy of an operand.
struct Outcome {
  bool is_zero = false;
  std::optional<size_t> copies;  // the operand that output 0 equals
};

Outcome OutcomeOf(const Application& application, const std::vector<TensorType>& operands, size_t output) {
  Outcome outcome;
  const OutputMeaning& meaning = application.meaning->outputs[output];
  const ExprNode& element = *meaning.element;
  outcome.is_zero = element.IsConst() && element.real() == 0;
  if (!element.IsRead() || operands[element.operand()] != application.outputs[output]) return outcome;
  const bool in_place =
      std::equal(element.args().begin(), element.args().end(), meaning.index_vars.begin(), meaning.index_vars.end(),
                 [](const ExprPtr& index, int variable) { return index->IsVariable(variable); });
  if (in_place) outcome.copies = static_cast<size_t>(element.operand());
  return outcome;
}

// True for an elementwise application whose operands broadcast as in NumPy: axes are aligned from the last one on.
bool Broadcasts(const Arena& arena, const Node& node) {
  const auto has_shape = [&](Value operand) { return arena.type(operand).shape == node.outputs[0].shape; };
  if (!node.op->broadcasts || !IsPointwise(*node.meaning) ||
      std::all_of(node.operands.begin(), node.operands.end(), has_shape)) {
    return false;
  }
  const std::vector<PointwiseRead> reads = PointwiseReads(*node.meaning);
  return std::all_of(reads.begin(), reads.end(), [&](const PointwiseRead& read) {
    const int skipped = node.outputs[0].rank() - static_cast<int>(read.axes.size());
    for (size_t d = 0; d < read.axes.size(); ++d) {
      if (read.axes[d] >= 0 && read.axes[d] != static_cast<int>(d) + skipped) return false;
    }
    return true;
  });
}

absl::Status CheckFloating(const Arena& arena, Value value, const std::string& what) {
  if (IsFloating(arena.type(value).dtype)) return absl::OkStatus();
  return InvalidArgument(what, " of ", arena.type(value).ToString(), ": only floating-point numbers have derivatives");
}

// Returns the nodes below the values that depend on some of `leaves`, users first.
std::vector<NodeId> NodesBetween(const Arena& arena, const std::vector<Value>& values,
                                 const absl::flat_hash_set<Value>& leaves) {
  std::set<NodeId> below;
  std::vector<NodeId> stack;
  for (Value value : values) stack.push_back(value.node);
  while (!stack.empty()) {
    const NodeId id = stack.back();
    stack.pop_back();
    if (!below.insert(id).second) continue;
    for (Value operand : arena.node(id).operands) stack.push_back(operand.node);
  }
  absl::flat_hash_set<NodeId> reached;
  for (Value leaf : leaves) reached.insert(leaf.node);
  std::vector<NodeId> between;
  for (NodeId id : below) {
    const Node& node = arena.node(id);
    const bool depends = std::any_of(node.operands.begin(), node.operands.end(), [&](Value operand) {
      return reached.contains(operand.node) && IsFloating(arena.type(operand).dtype);
    });
    if (depends) reached.insert(id);
    if (reached.contains(id)) between.push_back(id);
  }
  std::reverse(between.begin(), between.end());
  return between;
}

class Derivation {
 public:
  explicit Derivation(Arena& arena) : arena_(arena) {}

 protected:
  // Adds the application, unless all its results are zero or an operand; nothing for an output that is zero.
  absl::StatusOr<std::vector<std::optional<Value>>> Applied(const OpDef& op, const std::vector<Value>& operands,
                                                            const Attrs& attrs) {
    const std::vector<TensorType> types = arena_.types(operands);
    ASSIGN_OR_RETURN(const Application application, rewright::Apply(op, types, attrs, arena_.meanings()));
    std::vector<std::optional<Value>> results;
    std::optional<NodeId> node;
    for (size_t o = 0; o < application.outputs.size(); ++o) {
      const Outcome outcome = OutcomeOf(application, types, o);
      results.emplace_back();
      if (outcome.is_zero) continue;
      if (outcome.copies) {
        results.back() = operands[*outcome.copies];
        continue;
      }
      if (!node) {
        ASSIGN_OR_RETURN(node, arena_.Add(op, operands, application.attrs));
      }
      results.back() = Value{*node, static_cast<int32_t>(o)};
    }
    return results;
  }

  Arena& arena_;
};

class Reverse : Derivation {
 public:
  Reverse(Arena& arena, const std::vector<Value>& by) : Derivation(arena), by_(by.begin(), by.end()) {}

  absl::StatusOr<std::vector<Value>> Run(const std::vector<Value>& values, const std::vector<Value>& cotangents,
                                         const std::vector<Value>& by) {
    for (size_t i = 0; i < values.size(); ++i) parts_[values[i]].push_back(cotangents[i]);
    const std::vector<NodeId> nodes = NodesBetween(arena_, values, by_);
    between_.insert(nodes.begin(), nodes.end());
    for (NodeId id : nodes) {
      if (auto status = Visit(id); !status.ok()) return At(arena_, id, status);
    }
    std::vector<Value> gradients;
    for (Value value : by) {
      ASSIGN_OR_RETURN(const std::optional<Value> total, TotalOf(value));
      if (total) {
        gradients.push_back(*total);
      } else {
        ASSIGN_OR_RETURN(gradients.emplace_back(), Filled(arena_, arena_.type(value), 0));
      }
    }
    return gradients;
  }

 private:
  // Sums the contributions of all readers.
  absl::StatusOr<std::optional<Value>> TotalOf(Value value) {
    const auto found = parts_.find(value);
    if (found == parts_.end()) return std::optional<Value>();
    std::vector<Value>& parts = found->second;
    Value sum = parts[0];
    for (size_t i = 1; i < parts.size(); ++i) {
      ASSIGN_OR_RETURN(sum, arena_.Apply("add", {sum, parts[i]}));
    }
    parts = {sum};
    return std::optional<Value>(sum);
  }

  absl::Status Visit(NodeId id) {
    const Node& node = arena_.node(id);
    if (node.op == nullptr) return absl::OkStatus();
    std::vector<std::optional<Value>> cotangents;
    bool some = false;
    for (int32_t o = 0; o < static_cast<int32_t>(node.outputs.size()); ++o) {
      ASSIGN_OR_RETURN(cotangents.emplace_back(), TotalOf(Value{id, o}));
      some |= cotangents.back().has_value();
    }
    if (!some) return absl::OkStatus();
    if (const auto joined = JoinedOperands(arena_, node)) return PullApart(node, *joined, *cotangents[0]);
    if (const auto cut = CutOperand(arena_, node)) return PullTogether(node, *cut, cotangents);
    // Operands that broadcast are expanded first. Gradients of operators are then those for equal shapes, and one
    // gradient of expansion serves all.
    std::vector<Value> stretched = node.operands;
    if (Broadcasts(arena_, node)) {
      for (Value& operand : stretched) {
        ASSIGN_OR_RETURN(operand, Stretched(arena_, operand, node.outputs[0].shape));
      }
    }
    for (size_t k = 0; k < node.operands.size(); ++k) {
      const Value operand = node.operands[k];
      if (!IsWanted(operand)) continue;
      ASSIGN_OR_RETURN(std::optional<Value> part, Part(node, stretched, static_cast<int>(k), cotangents));
      if (part && stretched[k] != operand) {
        ASSIGN_OR_RETURN(part, Part(arena_.node(stretched[k].node), {operand}, 0, {part}));
      }
      if (part) parts_[operand].push_back(*part);
    }
    return absl::OkStatus();
  }

  // Concatenated operands: each gets its part of the cotangent.
  absl::Status PullApart(const Node& node, const PartsAlongAxis& joined, Value cotangent) {
    std::vector<int64_t> starts(node.outputs[0].shape.size(), 0), stops = node.outputs[0].shape;
    const auto axis = static_cast<size_t>(joined.axis);
    for (size_t k = 0; k < joined.ends.size(); ++k) {
      starts[axis] = k == 0 ? 0 : joined.ends[k - 1];
      stops[axis] = joined.ends[k];
      if (!IsWanted(node.operands[k])) continue;
      ASSIGN_OR_RETURN(const Value part, arena_.Apply("slice", {cotangent}, {{"starts", starts}, {"stops", stops}}));
      parts_[node.operands[k]].push_back(part);
    }
    return absl::OkStatus();
  }

  // Parts of an operand: the operand gets their cotangents concatenated.
  absl::Status PullTogether(const Node& node, const PartsAlongAxis& cut,
                            const std::vector<std::optional<Value>>& cotangents) {
    if (!IsWanted(node.operands[0])) return absl::OkStatus();
    std::vector<Value> parts;
    for (size_t k = 0; k < cotangents.size(); ++k) {
      if (cotangents[k]) {
        parts.push_back(*cotangents[k]);
      } else {
        ASSIGN_OR_RETURN(parts.emplace_back(), Filled(arena_, node.outputs[k], 0));
      }
    }
    ASSIGN_OR_RETURN(const Value whole, arena_.Apply("concat", std::move(parts), {{"axis", cut.axis}}));
    parts_[node.operands[0]].push_back(whole);
    return absl::OkStatus();
  }

  bool IsWanted(Value operand) const {
    return IsFloating(arena_.type(operand).dtype) && between_.contains(operand.node);
  }

  // Returns the application's contribution to the cotangent of one of its operands; nothing if that is zero.
  absl::StatusOr<std::optional<Value>> Part(const Node& node, const std::vector<Value>& inputs, int input,
                                            const std::vector<std::optional<Value>>& cotangents) {
    ASSIGN_OR_RETURN(const DerivedCall call,
                     GradientCall(*node.op, arena_.types(inputs), node.attrs, node.outputs, input));
    std::vector<Value> operands;
    for (const DerivedCall::Operand& operand : call.operands) {
      if (!operand.is_direction) {
        operands.push_back(inputs[operand.number]);
      } else if (cotangents[operand.number]) {
        operands.push_back(*cotangents[operand.number]);
      } else {
        ASSIGN_OR_RETURN(operands.emplace_back(), Filled(arena_, node.outputs[operand.number], 0));
      }
    }
    ASSIGN_OR_RETURN(const auto results, Applied(*call.op, operands, call.attrs));
    return results[0];
  }

  const absl::flat_hash_set<Value> by_;
  absl::flat_hash_set<NodeId> between_;
  absl::flat_hash_map<Value, std::vector<Value>> parts_;
};

class Forward : Derivation {
 public:
  explicit Forward(Arena& arena) : Derivation(arena) {}

  absl::StatusOr<std::vector<Value>> Run(const std::vector<Value>& values,
                                         const std::vector<std::pair<Value, Value>>& along) {
    absl::flat_hash_set<Value> leaves;
    for (const auto& [value, tangent] : along) {
      leaves.insert(value);
      tangents_[value] = tangent;
    }
    std::vector<NodeId> nodes = NodesBetween(arena_, values, leaves);
    std::reverse(nodes.begin(), nodes.end());
    for (NodeId id : nodes) {
      if (auto status = Visit(id); !status.ok()) return At(arena_, id, status);
    }
    std::vector<Value> results;
    for (Value value : values) {
      ASSIGN_OR_RETURN(results.emplace_back(), TangentOf(value));
    }
    return results;
  }

 private:
  absl::StatusOr<Value> TangentOf(Value value) {
    if (const auto found = tangents_.find(value); found != tangents_.end()) return found->second;
    return Filled(arena_, arena_.type(value), 0);
  }

  absl::Status Visit(NodeId id) {
    const Node& node = arena_.node(id);
    const auto moves = [&](Value operand) { return tangents_.contains(operand); };
    const bool floats = std::any_of(node.outputs.begin(), node.outputs.end(),
                                    [](const TensorType& type) { return IsFloating(type.dtype); });
    if (node.op == nullptr || !floats || std::none_of(node.operands.begin(), node.operands.end(), moves)) {
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const DerivedCall call, TangentCall(*node.op, arena_.types(node.operands), node.attrs));
    std::vector<Value> operands;
    for (const DerivedCall::Operand& operand : call.operands) {
      operands.push_back(node.operands[operand.number]);
      if (operand.is_direction) {
        ASSIGN_OR_RETURN(operands.back(), TangentOf(operands.back()));
      }
    }
    ASSIGN_OR_RETURN(const auto results, Applied(*call.op, operands, call.attrs));
    size_t next = 0;
    for (int32_t o = 0; o < static_cast<int32_t>(node.outputs.size()); ++o) {
      if (!IsFloating(node.outputs[o].dtype)) continue;
      const Value value{id, o};
      // A value of `along` keeps the given tangent.
      if (const auto& result = results[next++]; result && !tangents_.contains(value)) tangents_[value] = *result;
    }
    return absl::OkStatus();
  }

  absl::flat_hash_map<Value, Value> tangents_;
};

}  // namespace

absl::StatusOr<std::vector<Value>> PullBack(Arena& arena, const std::vector<Value>& values,
                                            const std::vector<Value>& cotangents, const std::vector<Value>& by) {
  if (values.size() != cotangents.size()) {
    return InvalidArgument("found ", cotangents.size(), " cotangents of ", values.size(), " values");
  }
  for (Value value : by) RETURN_IF_ERROR(CheckFloating(arena, value, "the gradient by a value"));
  for (size_t i = 0; i < values.size(); ++i) {
    RETURN_IF_ERROR(CheckFloating(arena, values[i], "the gradient of a value"));
    if (arena.type(values[i]) != arena.type(cotangents[i])) {
      return InvalidArgument("a cotangent of type ", arena.type(cotangents[i]).ToString(),
                             ", expected that of its value, ", arena.type(values[i]).ToString());
    }
  }
  return Reverse(arena, by).Run(values, cotangents, by);
}

absl::StatusOr<std::vector<Value>> Gradients(Arena& arena, Value loss, const std::vector<Value>& by) {
  const TensorType type = arena.type(loss);
  if (type.num_elements() != 1) {
    return InvalidArgument("the loss is of type ", type.ToString(), ", expected one number: reduce it first");
  }
  RETURN_IF_ERROR(CheckFloating(arena, loss, "the gradient of a loss"));
  ASSIGN_OR_RETURN(const Value one, Filled(arena, type, 1));
  return PullBack(arena, {loss}, {one}, by);
}

absl::StatusOr<std::vector<Value>> PushForward(Arena& arena, const std::vector<Value>& values,
                                               const std::vector<std::pair<Value, Value>>& along) {
  for (Value value : values) RETURN_IF_ERROR(CheckFloating(arena, value, "the tangent of a value"));
  for (const auto& [value, tangent] : along) {
    RETURN_IF_ERROR(CheckFloating(arena, value, "the tangent of a value"));
    if (arena.type(value) != arena.type(tangent)) {
      return InvalidArgument("a tangent of type ", arena.type(tangent).ToString(), ", expected that of its value, ",
                             arena.type(value).ToString());
    }
  }
  return Forward(arena).Run(values, along);
}

}  // namespace rewright
