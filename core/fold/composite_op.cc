#include "core/fold/composite_op.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ir/made_op.h"
#include "core/ir/rewrite.h"

namespace rewright {
namespace {

// What the composition reads of a graph; it outlives the graph.
struct Part {
  struct Member {
    std::shared_ptr<const Meaning> meaning;
    std::vector<TensorType> operand_types;
    Attrs attrs;
    std::vector<Value> operands;
    std::vector<uint32_t> units;  // by operand: axes whose size the meaning takes to be one
  };
  std::map<NodeId, Member> members;
  std::map<NodeId, std::pair<DType, double>> numbers;  // constants of one element
  std::vector<Value> operands, results;
};

class Composer {
 public:
  Composer(OpBuilder& b, const Part& part) : b_(b), part_(part) {
    for (size_t k = 0; k < part.operands.size(); ++k) operand_.emplace(part.operands[k], static_cast<int>(k));
  }

  absl::Status Run() {
    for (const auto& [id, member] : part_.members) {
      for (const Requirement& requirement : member.meaning->requirements) {
        b_.Require(Cond(SizesOf(id)(requirement.condition)), requirement.message);
      }
      for (size_t k = 0; k < std::min(member.units.size(), member.operands.size()); ++k) {
        const std::vector<Index>& shape = ShapeOf(member.operands[k]);
        for (size_t axis = 0; axis < shape.size(); ++axis) {
          if (member.units[k] >> axis & 1) b_.Require(shape[axis] == 1, "the size is one");
        }
      }
    }
    for (const Value result : part_.results) {
      const OutputMeaning& output = part_.members.at(result.node).meaning->outputs[static_cast<size_t>(result.output)];
      b_.Output(output.dtype, ShapeOf(result), [&](const std::vector<Index>& at) { return Element(result, at); });
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<Index>& ShapeOf(Value value) {
    if (const auto found = shapes_.find(value); found != shapes_.end()) return found->second;
    std::vector<Index> shape;
    if (const auto operand = operand_.find(value); operand != operand_.end()) {
      shape = b_.sizes(operand->second);
    } else if (!part_.numbers.contains(value.node)) {
      const OutputMeaning& output = part_.members.at(value.node).meaning->outputs[static_cast<size_t>(value.output)];
      ExprReindexer sizes = SizesOf(value.node);
      for (const ExprPtr& size : output.shape) shape.emplace_back(sizes(size));
    }
    return shapes_[value] = std::move(shape);
  }

  // The replacements of a member's sizes and attributes.
  const std::vector<ExprPtr>& SymbolsOf(NodeId id) {
    if (const auto found = symbols_.find(id); found != symbols_.end()) return found->second;
    const Part::Member& member = part_.members.at(id);
    const Bindings numbers = BindingsOf(*member.meaning, member.operand_types, member.attrs);
    std::vector<ExprPtr> symbols;
    for (size_t v = 0; v < member.meaning->variables.size(); ++v) {
      const Meaning::Variable& var = member.meaning->variables[v];
      switch (var.kind) {
        case Meaning::VarKind::kSize: {
          const Value operand = member.operands[static_cast<size_t>(var.input)];
          symbols.push_back(part_.numbers.contains(operand.node)
                                ? Index(1).node()
                                : ShapeOf(operand)[static_cast<size_t>(var.axis)].node());
          break;
        }
        case Meaning::VarKind::kAttr: symbols.push_back(Index(numbers.variables[v]).node()); break;
        default: symbols.push_back(nullptr);
      }
    }
    return symbols_[id] = std::move(symbols);
  }

  // Real attributes are numbers.
  static ExprPtr WithNumbers(const Part::Member& member, const ExprPtr& expr) {
    const std::vector<double> params = BindingsOf(*member.meaning, member.operand_types, member.attrs).params;
    if (params.empty()) return expr;
    return RewriteExpr(expr, [&](const ExprPtr& node) {
      return node->kind() == ExprKind::kParam
                 ? Constant(params[static_cast<size_t>(node->param())], node->dtype()).node()
                 : node;
    });
  }

  ExprReindexer SizesOf(NodeId id) { return {b_, SymbolsOf(id), nullptr}; }

  Scalar Element(Value value, const std::vector<Index>& at) {
    if (const auto operand = operand_.find(value); operand != operand_.end()) return b_.Read(operand->second, at);
    if (const auto number = part_.numbers.find(value.node); number != part_.numbers.end()) {
      return Constant(number->second.second, number->second.first);
    }
    std::vector<ExprPtr> position;
    for (const Index& index : at) position.push_back(index.node());
    if (const auto made = elements_.find({value, position}); made != elements_.end()) return Scalar(made->second);
    const Part::Member& member = part_.members.at(value.node);
    const OutputMeaning& output = member.meaning->outputs[static_cast<size_t>(value.output)];
    std::vector<ExprPtr> variables = SymbolsOf(value.node);
    for (size_t axis = 0; axis < position.size(); ++axis) variables[output.index_vars[axis]] = position[axis];
    ExprReindexer here(b_, std::move(variables), [&](int operand, const std::vector<Index>& there, DType) {
      return Element(member.operands[static_cast<size_t>(operand)], there);
    });
    ExprPtr element = here(WithNumbers(member, output.element));
    elements_[{value, position}] = element;
    return Scalar(element);
  }

  OpBuilder& b_;
  const Part& part_;
  std::map<Value, int> operand_;
  std::map<Value, std::vector<Index>> shapes_;
  std::map<NodeId, std::vector<ExprPtr>> symbols_;
  std::map<std::pair<Value, std::vector<ExprPtr>>, ExprPtr> elements_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const OpDef>> MakeCompositeOp(std::string name, const Graph& graph,
                                                             const std::vector<Value>& operands,
                                                             const std::vector<Value>& results) {
  auto part = std::make_shared<Part>();
  part->operands = operands;
  part->results = results;
  std::vector<Value> open = results;
  while (!open.empty()) {
    const Value value = open.back();
    open.pop_back();
    if (std::find(operands.begin(), operands.end(), value) != operands.end()) continue;
    if (part->members.contains(value.node) || part->numbers.contains(value.node)) continue;
    const Node& node = graph.node(value.node);
    if (node.op == nullptr) {
      if (node.leaf != LeafKind::kConstant || node.data.num_elements() != 1) {
        return absl::InvalidArgumentError(
            absl::StrCat(name, ": found the leaf ", node.outputs[0].ToString(), ", expected it among the operands"));
      }
      part->numbers.emplace(value.node, std::pair(node.outputs[0].dtype, node.data.At(0)));
      continue;
    }
    if (node.meaning->IsOpaque()) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": found ", node.op->name, ", expected declared elements"));
    }
    const std::vector<TensorType> types = graph.types(node.operands);
    part->members.emplace(value.node, Part::Member{node.meaning, types, node.attrs, node.operands,
                                                   StructuralKeyOf(*node.op, types, node.attrs).units});
    open.insert(open.end(), node.operands.begin(), node.operands.end());
  }
  auto op = std::make_shared<OpDef>();
  op->name = std::move(name);
  for (size_t k = 0; k < operands.size(); ++k) op->inputs.push_back(absl::StrCat("x", k));
  op->meaning = [part](OpBuilder& b) { return Composer(b, *part).Run(); };
  return std::shared_ptr<const OpDef>(std::move(op));
}

}  // namespace rewright
