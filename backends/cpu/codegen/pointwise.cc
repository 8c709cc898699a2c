#include "backends/cpu/codegen/pointwise.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "backends/common/node_access.h"
#include "core/base/status_macros.h"

namespace rewright::cpu {
namespace {

// Values are numbered provisionally while the program grows: operands from 0, constants from 1 << 20, results from
// 1 << 21; Finish() makes them dense.
constexpr int kConstantBase = 1 << 20;
constexpr int kResultBase = 1 << 21;

class Builder {
 public:
  Builder(const Graph& graph, const std::function<const Tensor*(Value)>& single_constant, const PointwiseOperand* row)
      : graph_(graph), single_constant_(single_constant), row_(row) {}

  absl::Status AddNode(NodeId id) {
    const Node& node = graph_.node(id);
    if (OnlyMoves(graph_, node)) {  // of an element a row
      results_[Value{id, 0}] = Read(node.operands[0], {});
      return absl::OkStatus();
    }
    const Bindings bindings = BindingsOf(graph_, node);
    Scope scope{node, bindings, {}};
    ASSIGN_OR_RETURN(const int result, Build(scope, *node.meaning->outputs[0].element));
    // Integers wrap around where each result would be stored; 16-bit floats are rounded at the end alone.
    const DType dtype = node.outputs[0].dtype;
    results_[Value{id, 0}] = IsFloating(dtype) ? result : Widened(Narrowed(result, dtype), dtype);
    return absl::OkStatus();
  }

  PointwiseProgram Finish(const std::vector<Value>& outputs) {
    std::vector<int> stored;
    for (Value output : outputs) stored.push_back(Narrowed(results_.at(output), graph_.type(output).dtype));
    const int constants = static_cast<int>(program_.operands.size());
    const int results = constants + static_cast<int>(program_.constants.size());
    auto dense = [&](int value) {
      if (value >= kResultBase) return value - kResultBase + results;
      if (value >= kConstantBase) return value - kConstantBase + constants;
      return value;
    };
    for (PointwiseInstruction& instruction : program_.instructions) {
      instruction.a = dense(instruction.a);
      instruction.b = dense(instruction.b);
      instruction.c = dense(instruction.c);
    }
    for (int value : stored) program_.results.push_back(dense(value));
    return std::move(program_);
  }

 private:
  struct Scope {
    const Node& node;
    const Bindings& bindings;
    std::map<const ExprNode*, int> memo;
  };

  absl::StatusOr<int> Build(Scope& scope, const ExprNode& expr) {
    if (const auto found = scope.memo.find(&expr); found != scope.memo.end()) return found->second;
    ASSIGN_OR_RETURN(const int result, BuildNew(scope, expr));
    return scope.memo[&expr] = result;
  }

  // An element of type `dtype` as it is computed with, and as it is stored.
  int Widened(int value, DType dtype) {
    if (!IsNarrow(dtype)) return value;
    const auto [found, fresh] = widened_.emplace(value, -1);
    if (fresh) found->second = Emit({kTileCopy, dtype, ComputedDType(dtype), value});
    return found->second;
  }
  int Narrowed(int value, DType dtype) {
    if (!IsNarrow(dtype)) return value;
    const auto [found, fresh] = narrowed_.emplace(std::pair(value, dtype), -1);
    if (fresh) found->second = Emit({kTileCopy, ComputedDType(dtype), dtype, value});
    return found->second;
  }

  absl::StatusOr<int> BuildNew(Scope& scope, const ExprNode& expr) {
    const DType dtype = IsScalarKind(expr.kind()) ? ComputedDType(expr.dtype()) : DType::kBool;
    switch (expr.kind()) {
      case ExprKind::kConst: return AddConstant(dtype, expr.real());
      case ExprKind::kParam: return AddConstant(dtype, scope.bindings.params[expr.param()]);
      case ExprKind::kBool: return AddConstant(DType::kBool, expr.truth() ? 1 : 0);
      case ExprKind::kRead: return BuildRead(scope, expr);
      case ExprKind::kHolds: return Build(scope, *expr.arg(0));
      case ExprKind::kCast: {
        ASSIGN_OR_RETURN(const int a, Build(scope, *expr.arg(0)));
        const DType from = ComputedDType(expr.arg(0)->dtype());
        const int cast = from == dtype ? a : Emit({kTileCopy, from, dtype, a});
        return Widened(Narrowed(cast, expr.dtype()), expr.dtype());
      }
      case ExprKind::kAnd:
      case ExprKind::kOr:
      case ExprKind::kNot:
      case ExprKind::kCall:
      case ExprKind::kSelect: return BuildCall(scope, expr);
      default: return absl::InternalError("a pointwise group holds an expression that is not pointwise");
    }
  }

  absl::StatusOr<int> BuildCall(Scope& scope, const ExprNode& expr) {
    std::vector<int> args;
    for (const ExprPtr& arg : expr.args()) {
      ASSIGN_OR_RETURN(args.emplace_back(), Build(scope, *arg));
    }
    args.resize(3, -1);
    switch (expr.kind()) {
      case ExprKind::kAnd: return Emit({kTileAnd, DType::kBool, DType::kBool, args[0], args[1]});
      case ExprKind::kOr: return Emit({kTileOr, DType::kBool, DType::kBool, args[0], args[1]});
      case ExprKind::kNot: return Emit({kTileNot, DType::kBool, DType::kBool, args[0]});
      case ExprKind::kSelect: {
        const DType chosen = ComputedDType(expr.dtype());
        return Emit({kTileSelect, chosen, chosen, args[0], args[1], args[2]});
      }
      default: break;
    }
    const auto op = static_cast<TileOp>(expr.fn());
    const DType type = ComputedDType(expr.arg(0)->dtype());
    // The product with the reciprocal of a power of two is the quotient, bit for bit: both round the same number.
    if (op == kTileDiv && IsFloating(type)) {
      if (const auto inverse = ExactInverse(args[1])) {
        return Emit({kTileMul, type, type, args[0], AddConstant(type, *inverse)});
      }
    }
    // The square, which no power is closer to than the product.
    if (op == kTilePow && IsFloating(type) && IsConstant(args[1], 2)) {
      return Emit({kTileMul, type, type, args[0], args[0]});
    }
    return Emit({op, type, ComputedDType(expr.dtype()), args[0], args[1]});
  }

  absl::StatusOr<int> BuildRead(Scope& scope, const ExprNode& expr) {
    const PointwiseRead read = PointwiseReadOf(*scope.node.meaning, expr);
    return Read(scope.node.operands[read.input], read.axes);
  }

  int Read(Value value, const std::vector<int>& node_axes) {
    if (const auto found = results_.find(value); found != results_.end()) return found->second;
    if (const Tensor* tensor = single_constant_(value); tensor != nullptr) {
      return AddConstant(ComputedDType(tensor->dtype()), tensor->At(0),
                         IsFloating(tensor->dtype()) ? 0 : tensor->AtInt(0));
    }
    // The position's axes of this node are those of the group: reads inside a group are identity reads.
    const std::vector<int>& axes = row_ != nullptr && row_->value == value ? row_->axes : node_axes;
    for (size_t i = 0; i < program_.operands.size(); ++i) {
      if (program_.operands[i].value == value && program_.operands[i].axes == axes) {
        return Widened(static_cast<int>(i), graph_.type(value).dtype);
      }
    }
    program_.operands.push_back({value, axes, graph_.type(value).dtype});
    return Widened(static_cast<int>(program_.operands.size()) - 1, graph_.type(value).dtype);
  }

  int AddConstant(DType dtype, double real) { return AddConstant(dtype, real, static_cast<int64_t>(real)); }
  int AddConstant(DType dtype, double real, int64_t integer) {
    for (size_t i = 0; i < program_.constants.size(); ++i) {
      const PointwiseConstant& known = program_.constants[i];
      const bool same = IsFloating(dtype) ? known.real == real && std::signbit(known.real) == std::signbit(real)
                                          : known.integer == integer;
      if (known.dtype == dtype && same) return kConstantBase + static_cast<int>(i);
    }
    program_.constants.push_back({dtype, real, integer});
    return kConstantBase + static_cast<int>(program_.constants.size()) - 1;
  }

  bool IsConstant(int value, double real) const {
    return value >= kConstantBase && value < kResultBase && program_.constants[value - kConstantBase].real == real;
  }

  // The reciprocal of a constant that is a power of two; far from the ends of the range of floats.
  std::optional<double> ExactInverse(int value) const {
    if (value < kConstantBase || value >= kResultBase) return std::nullopt;
    const double constant = program_.constants[value - kConstantBase].real;
    int exponent = 0;
    const bool power = std::abs(std::frexp(constant, &exponent)) == 0.5;
    return power && std::abs(exponent) < 60 ? std::optional(1 / constant) : std::nullopt;
  }

  int Emit(const PointwiseInstruction& instruction) {
    program_.instructions.push_back(instruction);
    return kResultBase + static_cast<int>(program_.instructions.size()) - 1;
  }

  const Graph& graph_;
  const std::function<const Tensor*(Value)>& single_constant_;
  const PointwiseOperand* const row_;
  PointwiseProgram program_;
  std::map<Value, int> results_;
  std::map<int, int> widened_;
  std::map<std::pair<int, DType>, int> narrowed_;
};

// Copies the values that `root` needs from one program into another.
class Extractor {
 public:
  Extractor(const PointwiseProgram& from, PointwiseProgram* to) : from_(from), to_(to) {}

  // Values that must not be entered any further: they become operands of `to`.
  std::map<int, PointwiseOperand> replaced;
  std::map<int, int> operand_of;  // of a replaced value, in `to`

  void Extract(const std::vector<int>& roots) {
    for (const bool constants : {false, true}) {
      std::set<int> seen;
      for (int root : roots) Leaves(root, constants, &seen);
    }
    instruction_base_ = static_cast<int>(to_->operands.size() + to_->constants.size());
    for (int root : roots) to_->results.push_back(Instructions(root));
  }

 private:
  const PointwiseInstruction* InstructionOf(int value) const {
    const int leaves = static_cast<int>(from_.operands.size() + from_.constants.size());
    if (value < leaves || replaced.count(value) > 0) return nullptr;
    return &from_.instructions[value - leaves];
  }
  bool IsConstantValue(int value) const {
    return value >= static_cast<int>(from_.operands.size()) &&
           value < static_cast<int>(from_.operands.size() + from_.constants.size());
  }

  // Leaves get their numbers first: operands, then constants.
  void Leaves(int value, bool constants, std::set<int>* seen) {
    if (value < 0 || !seen->insert(value).second) return;
    if (const PointwiseInstruction* instruction = InstructionOf(value); instruction != nullptr) {
      for (int operand : {instruction->a, instruction->b, instruction->c}) Leaves(operand, constants, seen);
      return;
    }
    const auto other = replaced.find(value);
    if (constants != (IsConstantValue(value) && other == replaced.end())) return;
    number_[value] = static_cast<int>(to_->operands.size() + to_->constants.size());
    if (constants) {
      to_->constants.push_back(from_.constants[value - from_.operands.size()]);
    } else if (other == replaced.end()) {
      to_->operands.push_back(from_.operands[value]);
    } else {
      operand_of[value] = number_[value];
      to_->operands.push_back(other->second);
    }
  }
  int Instructions(int value) {
    if (value < 0) return value;
    if (const auto found = number_.find(value); found != number_.end()) return found->second;
    PointwiseInstruction instruction = *InstructionOf(value);
    instruction.a = Instructions(instruction.a);
    instruction.b = Instructions(instruction.b);
    instruction.c = Instructions(instruction.c);
    to_->instructions.push_back(instruction);
    return number_[value] = instruction_base_ + static_cast<int>(to_->instructions.size()) - 1;
  }

  const PointwiseProgram& from_;
  PointwiseProgram* to_;
  std::map<int, int> number_;
  int instruction_base_ = 0;
};

void CountLeaves(const ExprNode& expr, int* count) {
  if (expr.kind() == ExprKind::kRead || expr.kind() == ExprKind::kConst || expr.kind() == ExprKind::kParam) {
    ++*count;
    return;
  }
  for (const ExprPtr& arg : expr.args()) CountLeaves(*arg, count);
}

}  // namespace

DType PointwiseProgram::TypeOf(int value) const {
  size_t i = value;
  if (i < operands.size()) return operands[i].dtype;
  i -= operands.size();
  if (i < constants.size()) return constants[i].dtype;
  return instructions[i - constants.size()].to;
}

std::vector<HoistedProgram> HoistConstants(const std::function<bool(Value)>& is_constant, PointwiseProgram* program) {
  const int operands = static_cast<int>(program->operands.size());
  const int leaves = operands + static_cast<int>(program->constants.size());
  // By value: not constant (-2), a plain constant (-1), or like constant operand number k.
  std::vector<int> like(static_cast<size_t>(program->num_values()), -2);
  for (int v = 0; v < leaves; ++v) {
    if (v >= operands) {
      like[v] = -1;
    } else if (is_constant(program->operands[v].value)) {
      like[v] = v;
    }
  }
  std::vector<int> roots;  // constant instructions that others read
  auto read = [&](int value) {
    if (value >= leaves && like[value] >= 0 && std::find(roots.begin(), roots.end(), value) == roots.end()) {
      roots.push_back(value);
    }
  };
  for (size_t i = 0; i < program->instructions.size(); ++i) {
    const PointwiseInstruction& instruction = program->instructions[i];
    int kind = -1;
    for (int operand : {instruction.a, instruction.b, instruction.c}) {
      if (operand < 0 || kind == -2) continue;
      const int other = like[operand];
      if (other == -2 || kind == -1) {
        kind = other == -1 ? kind : other;
      } else if (other >= 0 && program->operands[other].axes != program->operands[kind].axes) {
        kind = -2;
      }
    }
    like[leaves + i] = kind;
    if (kind != -2) continue;
    for (int operand : {instruction.a, instruction.b, instruction.c}) read(operand);
  }
  std::vector<HoistedProgram> hoisted(roots.size());
  const bool all_run =
      std::all_of(program->results.begin(), program->results.end(), [&](int result) { return like[result] == -2; });
  if (roots.empty() || !all_run) return {};
  PointwiseProgram rest;
  Extractor remaining(*program, &rest);
  for (size_t i = 0; i < roots.size(); ++i) {
    Extractor(*program, &hoisted[i].program).Extract({roots[i]});
    const PointwiseOperand& shape = program->operands[like[roots[i]]];
    remaining.replaced[roots[i]] = {Value{}, shape.axes, program->TypeOf(roots[i])};
    for (PointwiseOperand& operand : hoisted[i].program.operands) {
      for (size_t d = 0; d < operand.axes.size(); ++d) operand.axes[d] = static_cast<int>(d);
    }
  }
  remaining.Extract(program->results);
  for (size_t i = 0; i < roots.size(); ++i) hoisted[i].operand = remaining.operand_of.at(roots[i]);
  *program = std::move(rest);
  return hoisted;
}

int CountProgramLeaves(const Meaning& meaning) {
  int count = 0;
  CountLeaves(*meaning.outputs[0].element, &count);
  return count;
}

absl::StatusOr<PointwiseProgram> BuildProgram(const Graph& graph, const Group& group,
                                              const std::function<const Tensor*(Value)>& single_constant,
                                              const PointwiseOperand* row) {
  Builder builder(graph, single_constant, row);
  for (NodeId node : group.nodes) {
    RETURN_IF_ERROR(builder.AddNode(node));
  }
  return builder.Finish(group.outputs);
}

}  // namespace rewright::cpu
