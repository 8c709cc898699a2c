#include "core/numerics/compose.h"

#include <algorithm>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "core/ir/rewrite.h"
#include "core/numerics/rounding_op.h"

namespace rewright {
namespace {

constexpr int kMostNodes = 8;

// True for nodes that may be joined into an expression: those of floating elements, except products of tensors.
bool IsInlined(const Arena& arena, Value value) {
  const Node& node = arena.node(value.node);
  if (node.op == nullptr || node.meaning->IsOpaque() || arena.IsKnown(node)) return false;
  ExprPtr terms;
  return IsFloating(node.outputs[static_cast<size_t>(value.output)].dtype) &&
         !(node.operands.size() > 1 && IsSumOfProducts(*node.meaning, &terms));
}

bool Is(const Node& node, bool (*predicate)(const ExprNode&)) {
  return node.op != nullptr && !node.meaning->IsOpaque() && predicate(*node.meaning->outputs[0].element);
}
bool Reduces(const ExprNode& element) { return element.Reduces(); }
bool TakesExtremum(const ExprNode& element) {
  return element.kind() == ExprKind::kReduce &&
         (element.reduction() == ReduceKind::kMax || element.reduction() == ReduceKind::kMin);
}
bool Divides(const ExprNode& element) { return element.IsCall(Fn::kDiv); }

// True if such a node leads to the value, by way of nodes with one operand that is no constant.
bool LeadsTo(const Arena& arena, Value value, bool (*predicate)(const ExprNode&)) {
  for (int steps = 0; steps < kMostNodes - 2; ++steps) {
    const Node& node = arena.node(value.node);
    if (!IsInlined(arena, value)) return false;
    if (Is(node, predicate)) return true;
    const auto runs = [&](Value operand) { return !arena.IsKnown(operand); };
    if (std::count_if(node.operands.begin(), node.operands.end(), runs) != 1) return false;
    value = *std::find_if(node.operands.begin(), node.operands.end(), runs);
  }
  return false;
}

bool MayTellMore(const Arena& arena, const Node& node) {
  if (node.op == nullptr || node.meaning->IsOpaque() || node.outputs.size() != 1 || node.operands.size() != 2 ||
      !IsFloating(node.outputs[0].dtype)) {
    return false;
  }
  const ExprNode& element = *node.meaning->outputs[0].element;
  if (element.IsCall(Fn::kDiv)) return LeadsTo(arena, node.operands[1], Reduces);
  for (const Value operand : node.operands) {
    if (element.IsCall(Fn::kSub) && LeadsTo(arena, operand, TakesExtremum)) return true;
    if (element.IsCall(Fn::kMul) && LeadsTo(arena, operand, Divides)) return true;
  }
  return false;
}

class Composer {
 public:
  explicit Composer(const Arena& arena) : arena_(arena), meaning_(std::make_shared<Meaning>()) {}

  Composed Run(NodeId node) {
    const TensorType& type = arena_.node(node).outputs[0];
    OutputMeaning output{.dtype = type.dtype};
    std::vector<ExprPtr> position;
    for (const int64_t size : type.shape) {
      output.shape.push_back(Index(size).node());
      position.push_back(NewVariable("i", Meaning::VarKind::kOutputIndex));
      output.index_vars.push_back(position.back()->variable());
    }
    nodes_ = {node};
    output.element = Element({node, 0}, position);
    meaning_->outputs.push_back(std::move(output));
    return {meaning_, operands_};
  }

 private:
  ExprPtr NewVariable(const std::string& name, Meaning::VarKind kind) {
    meaning_->variables.push_back({name, kind});
    return Variable(static_cast<int>(meaning_->variables.size()) - 1, name).node();
  }

  // One application at a position: the replacements of its variables, and its expressions written so far.
  struct Scope {
    const Node& node;
    Bindings bindings;
    std::vector<ExprPtr> variables;
    absl::flat_hash_map<const ExprNode*, ExprPtr> done;
  };

  ExprPtr Element(Value value, const std::vector<ExprPtr>& position) {
    ExprPtr& made = elements_[{value, position}];
    if (made != nullptr) return made;
    const Node& node = arena_.node(value.node);
    const OutputMeaning& output = node.meaning->outputs[static_cast<size_t>(value.output)];
    Scope scope{node, BindingsOf(*node.meaning, arena_.types(node.operands), node.attrs), {}, {}};
    for (size_t v = 0; v < node.meaning->variables.size(); ++v) {
      const Meaning::VarKind kind = node.meaning->variables[v].kind;
      const bool number = kind == Meaning::VarKind::kSize || kind == Meaning::VarKind::kAttr;
      scope.variables.push_back(number ? Index(scope.bindings.variables[v]).node() : nullptr);
    }
    for (size_t axis = 0; axis < position.size(); ++axis) {
      scope.variables[static_cast<size_t>(output.index_vars[axis])] = position[axis];
    }
    const ExprPtr element = Written(output.element, scope);
    return elements_[{value, position}] = element;
  }

  ExprPtr Written(const ExprPtr& expr, Scope& scope) {
    if (const auto found = scope.done.find(expr.get()); found != scope.done.end()) return found->second;
    ExprPtr written = Write(expr, scope);
    scope.done.emplace(expr.get(), written);
    return written;
  }

  ExprPtr Write(const ExprPtr& expr, Scope& scope) {
    if (expr->IsVariable()) {
      ExprPtr& stands = scope.variables[static_cast<size_t>(expr->variable())];
      if (stands == nullptr) stands = NewVariable(expr->name(), Meaning::VarKind::kBound);
      return stands;
    }
    if (expr->kind() == ExprKind::kParam) {
      return Constant(scope.bindings.params[static_cast<size_t>(expr->param())], expr->dtype()).node();
    }
    std::vector<ExprPtr> args;
    for (const ExprPtr& arg : expr->args()) args.push_back(Written(arg, scope));
    if (expr->IsRead()) return Read(scope.node.operands[static_cast<size_t>(expr->operand())], args);
    std::vector<BoundVar> bound;
    for (const BoundVar& variable : expr->bound()) {
      ExprPtr& stands = scope.variables[static_cast<size_t>(variable.id)];
      if (stands == nullptr) stands = NewVariable(variable.name, Meaning::VarKind::kBound);
      bound.push_back({stands->variable(), variable.name, Written(variable.extent, scope)});
    }
    return WithChildren(expr, std::move(args), std::move(bound));
  }

  ExprPtr Read(Value value, const std::vector<ExprPtr>& at) {
    const bool known = std::count(nodes_.begin(), nodes_.end(), value.node) > 0;
    if (IsInlined(arena_, value) && (known || nodes_.size() < kMostNodes)) {
      if (!known) nodes_.push_back(value.node);
      return Element(value, at);
    }
    auto found = std::find(operands_.begin(), operands_.end(), value);
    if (found == operands_.end()) found = operands_.insert(operands_.end(), value);
    std::vector<Index> indices;
    for (const ExprPtr& index : at) indices.emplace_back(index);
    return ReadOperand(static_cast<int>(found - operands_.begin()), indices, arena_.type(value).dtype).node();
  }

  const Arena& arena_;
  std::shared_ptr<Meaning> meaning_;
  std::vector<Value> operands_;
  std::vector<NodeId> nodes_;
  std::map<std::pair<Value, std::vector<ExprPtr>>, ExprPtr> elements_;
};

}  // namespace

Composed ComposeForFacts(const Arena& arena, NodeId node) {
  return MayTellMore(arena, arena.node(node)) ? Composer(arena).Run(node) : Composed();
}

}  // namespace rewright
