#include "core/ir/index_range.h"

#include <set>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace rewright {
namespace {

void FindReads(const ExprPtr& expr, std::set<int>* operands) {
  if (expr->kind == ExprKind::kRead) operands->insert(static_cast<int>(expr->integer));
  for (const ExprPtr& arg : expr->args) FindReads(arg, operands);
}

// The operands whose elements become indices inside `expr`.
void FindIndices(const ExprPtr& expr, std::set<int>* operands) {
  if (expr->kind == ExprKind::kFromValue) return FindReads(expr->args[0], operands);
  for (const ExprPtr& arg : expr->args) FindIndices(arg, operands);
}

// element mod size
bool IsWrapped(const ExprPtr& index) {
  return index->kind == ExprKind::kMod && index->args[0]->kind == ExprKind::kFromValue &&
         index->args[0]->args[0]->kind == ExprKind::kRead;
}

void FindAxes(const ExprPtr& expr, absl::flat_hash_set<const ExprNode*>* seen, std::vector<IndexedAxis>* axes) {
  if (!seen->insert(expr.get()).second) return;
  for (size_t axis = 0; axis < expr->args.size(); ++axis) {
    if (expr->kind == ExprKind::kRead) {
      std::set<int> indices;
      FindIndices(expr->args[axis], &indices);
      for (int operand : indices) {
        axes->push_back(
            {operand, static_cast<int>(expr->integer), static_cast<int>(axis), IsWrapped(expr->args[axis])});
      }
    }
    FindAxes(expr->args[axis], seen, axes);
  }
}

}  // namespace

std::vector<IndexedAxis> IndexedAxes(const Meaning& meaning) {
  std::vector<IndexedAxis> axes;
  absl::flat_hash_set<const ExprNode*> seen;
  for (const OutputMeaning& output : meaning.outputs) FindAxes(output.element, &seen, &axes);
  return axes;
}

IndexRange::IndexRange(const Graph& graph, NodeId id, const IndexedAxis& at) {
  const Node& node = graph.node(id);
  const Value indices = node.operands[at.indices];
  const TensorType& indexed = graph.type(node.operands[at.indexed]);
  const std::string& name = graph.node(indices.node).name;
  application_ = absl::StrCat(node.op->name, " (node ", id, ")");
  indices_ = absl::StrCat(name.empty() ? "the indices" : name, " ", graph.type(indices).ToString());
  axis_ = absl::StrCat("axis ", at.axis, " of ", indexed.ToString());
  size_ = indexed.shape[at.axis];
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
