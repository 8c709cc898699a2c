#include "core/ir/index_range.h"

#include <algorithm>
#include <set>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/ir/rewrite.h"

namespace rewright {
namespace {

// Returns the operands whose elements become indices inside `expr`.
std::set<int> IndicesIn(const ExprPtr& expr) {
  std::set<int> operands;
  if (!expr->Contains(ExprKind::kFromValue)) return operands;
  Visit(expr, [&](const ExprPtr& node) {
    if (node->kind() != ExprKind::kFromValue) return;
    Visit(node, [&](const ExprPtr& inside) {
      if (inside->IsRead()) operands.insert(inside->operand());
    });
  });
  return operands;
}

// element mod size
bool IsWrapped(const ExprPtr& index) {
  return index->kind() == ExprKind::kMod && index->arg(0)->kind() == ExprKind::kFromValue &&
         index->arg(0)->arg(0)->kind() == ExprKind::kRead;
}

// True for a condition that uses elements only to select positions, or that has such parts.
bool IsPosition(const ExprNode& condition) {
  if (condition.kind() == ExprKind::kAnd) return true;
  const auto plain = [](const ExprPtr& side) { return !side->Contains(ExprKind::kFromValue) || IsWrapped(side); };
  return condition.IsEquation() && plain(condition.arg(0)) && plain(condition.arg(1));
}

// Returns the variables that occur outside of elements.
void AddVariables(const ExprNode& index, std::set<int>* variables) {
  if (index.IsVariable()) variables->insert(index.variable());
  if (index.kind() == ExprKind::kFromValue) return;
  for (const ExprPtr& arg : index.args()) AddVariables(*arg, variables);
}

}  // namespace

bool IsDataEquation(const ExprNode& condition) {
  return condition.IsEquation() && condition.Contains(ExprKind::kFromValue);
}

std::set<int> PositionsFromData(const ExprNode& reduction) {
  std::set<int> variables;
  for (const ExprPtr& condition : Conjuncts(reduction.guard())) {
    if (IsDataEquation(*condition)) AddVariables(*condition, &variables);
  }
  for (const BoundVar& var : reduction.bound()) variables.erase(var.id);
  return variables;
}

std::vector<IndexedAxis> IndexedAxes(const Meaning& meaning) {
  std::vector<IndexedAxis> axes;
  // Notes an equation of a position and an element mod the size of an operand's axis.
  const auto look_at_equation = [&](const ExprPtr& side) {
    if (!IsWrapped(side) || !side->arg(1)->IsVariable()) return;
    const Meaning::Variable& size = meaning.variables[side->arg(1)->variable()];
    const int indices = side->arg(0)->arg(0)->operand();
    if (size.kind == Meaning::VarKind::kSize) axes.push_back({indices, size.input, size.axis, /*wraps=*/true});
    if (size.kind == Meaning::VarKind::kAttr) axes.push_back({indices, -1, -1, true, side->arg(1)->variable()});
  };
  const auto look = [&](const ExprPtr& read) {
    if (read->IsEquation()) std::for_each(read->args().begin(), read->args().end(), look_at_equation);
    if (!read->IsRead()) return;
    for (size_t axis = 0; axis < read->args().size(); ++axis) {
      for (int operand : IndicesIn(read->arg(axis))) {
        axes.push_back({operand, read->operand(), static_cast<int>(axis), IsWrapped(read->arg(axis))});
      }
    }
  };
  absl::flat_hash_set<const ExprNode*> seen;
  bool tests_data = false;
  for (const OutputMeaning& output : meaning.outputs) {
    Visit(output.element, [&](const ExprPtr& node) {
      if (!seen.insert(node.get()).second) return;
      look(node);
      tests_data |= IsCondKind(node->kind()) && node->Contains(ExprKind::kFromValue) && !IsPosition(*node);
    });
  }
  // An operator that tests its indices itself (which device has the row?) has no known range.
  for (IndexedAxis& axis : axes) axis.wraps &= !tests_data;
  return axes;
}

int64_t IndexedAxis::Size(const Graph& graph, NodeId id) const {
  const Node& node = graph.node(id);
  if (size_variable < 0) return graph.type(node.operands[indexed]).shape[axis];
  return BindingsOf(*node.meaning, graph.types(node.operands), node.attrs).variables[size_variable];
}

IndexRange::IndexRange(const Graph& graph, NodeId id, const IndexedAxis& at) {
  const Node& node = graph.node(id);
  const Value indices = node.operands[at.indices];
  const std::string& name = graph.node(indices.node).name;
  application_ = absl::StrCat(node.op->name, " (node ", id, ")");
  indices_ = absl::StrCat(name.empty() ? "the indices" : name, " ", graph.type(indices).ToString());
  size_ = at.Size(graph, id);
  axis_ = at.size_variable < 0
              ? absl::StrCat("axis ", at.axis, " of ", graph.type(node.operands[at.indexed]).ToString())
              : absl::StrCat(node.meaning->variables[at.size_variable].name, " = ", size_);
}

absl::Status IndexRange::Error(int64_t element, int64_t index) const {
  return absl::OutOfRangeError(absl::StrCat(application_, ": index ", index, " at element ", element, " of ", indices_,
                                            ", expected ", -size_, " <= index < ", size_, " along ", axis_));
}

absl::Status IndexRange::Check(const Tensor& indices) const {
  for (int64_t i = 0; i < indices.num_elements(); ++i) {
    if (const int64_t index = indices.AtInt(i); !Contains(index)) return Error(i, index);
  }
  return absl::OkStatus();
}

std::vector<IndexInput> IndexInputs(const Graph& graph) {
  std::vector<IndexInput> found;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const Value input = graph.inputs()[i];
    if (!graph.contains(input.node) || !IsInteger(graph.type(input).dtype)) continue;
    for (int user : graph.users(graph.index(input.node))) {
      const NodeId id = graph.nodes()[user];
      for (const IndexedAxis& at : IndexedAxes(*graph.node(id).meaning)) {
        const Value indices = graph.node(id).operands[at.indices];
        if (at.wraps && indices == input) found.push_back({i, IndexRange(graph, id, at)});
      }
    }
  }
  return found;
}

}  // namespace rewright
