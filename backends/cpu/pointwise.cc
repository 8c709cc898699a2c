#include "backends/cpu/pointwise.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"

namespace rewright::cpu {
namespace {

TileOp TileOpOf(Fn fn) {
  switch (fn) {
    case Fn::kAdd: return kTileAdd;
    case Fn::kSub: return kTileSub;
    case Fn::kMul: return kTileMul;
    case Fn::kDiv: return kTileDiv;
    case Fn::kNeg: return kTileNeg;
    case Fn::kMax: return kTileMax;
    case Fn::kMin: return kTileMin;
    case Fn::kPow: return kTilePow;
    case Fn::kExp: return kTileExp;
    case Fn::kLog: return kTileLog;
    case Fn::kSqrt: return kTileSqrt;
    case Fn::kErf: return kTileErf;
    case Fn::kTanh: return kTileTanh;
    case Fn::kSigmoid: return kTileSigmoid;
    case Fn::kAbs: return kTileAbs;
    case Fn::kFloor: return kTileFloor;
    case Fn::kCeil: return kTileCeil;
    case Fn::kLess: return kTileLess;
    case Fn::kLessEqual: return kTileLessEqual;
    case Fn::kEqual: return kTileEqual;
    case Fn::kAnd: return kTileAnd;
    case Fn::kOr: return kTileOr;
    case Fn::kNot: return kTileNot;
  }
  return kNumTileOps;
}

// Values are numbered provisionally while the program grows: operands from 0, constants from 1 << 20, results from
// 1 << 21; Finish() makes them dense.
constexpr int kConstantBase = 1 << 20;
constexpr int kResultBase = 1 << 21;

class Builder {
 public:
  Builder(const Graph& graph, const std::function<const Tensor*(Value)>& single_constant)
      : graph_(graph), single_constant_(single_constant) {}

  absl::Status AddNode(NodeId id) {
    const Node& node = graph_.node(id);
    std::vector<TensorType> inputs;
    for (Value operand : node.operands) inputs.push_back(graph_.type(operand));
    const Bindings bindings = BindingsOf(*node.meaning, inputs, node.attrs);
    Scope scope{node, bindings, {}};
    absl::StatusOr<int> result = Build(scope, *node.meaning->outputs[0].element);
    if (!result.ok()) return result.status();
    results_[Value{id, 0}] = *result;
    return absl::OkStatus();
  }

  PointwiseProgram Finish(NodeId last) {
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
    program_.result = dense(results_.at(Value{last, 0}));
    program_.dtype = graph_.type(Value{last, 0}).dtype;
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
    absl::StatusOr<int> result = BuildNew(scope, expr);
    if (result.ok()) scope.memo[&expr] = *result;
    return result;
  }

  absl::StatusOr<int> BuildNew(Scope& scope, const ExprNode& expr) {
    switch (expr.kind) {
      case ExprKind::kConst: return AddConstant(expr.dtype, expr.real);
      case ExprKind::kParam:
        return AddConstant(expr.dtype, scope.bindings.params[static_cast<size_t>(expr.integer)]);
      case ExprKind::kBool: return AddConstant(DType::kBool, static_cast<double>(expr.integer));
      case ExprKind::kRead: return BuildRead(scope, expr);
      case ExprKind::kHolds: return Build(scope, *expr.args[0]);
      case ExprKind::kCast: {
        absl::StatusOr<int> a = Build(scope, *expr.args[0]);
        if (!a.ok()) return a;
        const DType from = expr.args[0]->dtype;
        if (from == expr.dtype) return a;
        return Emit({kTileCopy, from, expr.dtype, *a});
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
    for (const ExprPtr& arg : expr.args) {
      absl::StatusOr<int> value = Build(scope, *arg);
      if (!value.ok()) return value;
      args.push_back(*value);
    }
    args.resize(3, -1);
    switch (expr.kind) {
      case ExprKind::kAnd: return Emit({kTileAnd, DType::kBool, DType::kBool, args[0], args[1]});
      case ExprKind::kOr: return Emit({kTileOr, DType::kBool, DType::kBool, args[0], args[1]});
      case ExprKind::kNot: return Emit({kTileNot, DType::kBool, DType::kBool, args[0]});
      case ExprKind::kSelect: return Emit({kTileSelect, expr.dtype, expr.dtype, args[0], args[1], args[2]});
      default: break;
    }
    const TileOp op = TileOpOf(expr.fn);
    const DType type = expr.args[0]->dtype;
    if (IsFloating(type)) {
      double constant = 0;
      if (op == kTilePow && ConstantOf(args[1], &constant)) {
        if (constant == 2) return Emit({kTileMul, type, type, args[0], args[0]});
        if (constant == 1) return args[0];
        if (constant == 0.5) return Emit({kTileSqrt, type, type, args[0]});
      }
      if (op == kTileDiv && ConstantOf(args[1], &constant) && std::isnormal(constant) &&
          std::isnormal(1 / constant) && std::abs(std::log2(std::abs(constant))) < 60) {
        return Emit({kTileMul, type, type, args[0], AddConstant(type, 1 / constant)});
      }
    }
    return Emit({op, type, expr.dtype, args[0], args[1]});
  }

  absl::StatusOr<int> BuildRead(Scope& scope, const ExprNode& expr) {
    const PointwiseRead read = PointwiseReadOf(*scope.node.meaning, expr);
    const Value value = scope.node.operands[static_cast<size_t>(read.input)];
    if (const auto found = results_.find(value); found != results_.end()) return found->second;
    if (const Tensor* tensor = single_constant_(value); tensor != nullptr) {
      return AddConstant(tensor->dtype(), tensor->At(0), IsFloating(tensor->dtype()) ? 0 : tensor->AtInt(0));
    }
    // The position's axes of this node are those of the group: reads inside a group are identity reads.
    for (size_t i = 0; i < program_.operands.size(); ++i) {
      if (program_.operands[i].value == value && program_.operands[i].axes == read.axes) return static_cast<int>(i);
    }
    program_.operands.push_back({value, read.axes, graph_.type(value).dtype});
    return static_cast<int>(program_.operands.size()) - 1;
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

  bool ConstantOf(int value, double* constant) const {
    if (value < kConstantBase || value >= kResultBase) return false;
    *constant = program_.constants[static_cast<size_t>(value - kConstantBase)].real;
    return true;
  }

  int Emit(const PointwiseInstruction& instruction) {
    program_.instructions.push_back(instruction);
    return kResultBase + static_cast<int>(program_.instructions.size()) - 1;
  }

  const Graph& graph_;
  const std::function<const Tensor*(Value)>& single_constant_;
  PointwiseProgram program_;
  std::map<Value, int> results_;
};

void CountLeaves(const ExprNode& expr, int* count) {
  if (expr.kind == ExprKind::kRead || expr.kind == ExprKind::kConst || expr.kind == ExprKind::kParam) {
    ++*count;
    return;
  }
  for (const ExprPtr& arg : expr.args) CountLeaves(*arg, count);
}

}  // namespace

DType PointwiseProgram::TypeOf(int value) const {
  size_t i = static_cast<size_t>(value);
  if (i < operands.size()) return operands[i].dtype;
  i -= operands.size();
  if (i < constants.size()) return constants[i].dtype;
  return instructions[i - constants.size()].to;
}

int CountProgramLeaves(const Meaning& meaning) {
  int count = 0;
  CountLeaves(*meaning.outputs[0].element, &count);
  return count;
}

absl::StatusOr<PointwiseProgram> BuildProgram(const Graph& graph, const std::vector<NodeId>& nodes,
                                              const std::function<const Tensor*(Value)>& single_constant) {
  Builder builder(graph, single_constant);
  for (NodeId node : nodes) {
    if (absl::Status status = builder.AddNode(node); !status.ok()) return status;
  }
  return builder.Finish(nodes.back());
}

}  // namespace rewright::cpu
