#include "core/autodiff/copies.h"

#include <algorithm>

#include "core/ir/index_value.h"
#include "core/ir/rewrite.h"

namespace rewright {
namespace {

// Reads indices of a declaration at the sizes of one application.
class IndexReader {
 public:
  IndexReader(const Arena& arena, const Node& node)
      : meaning_(*node.meaning), values_(BindingsOf(meaning_, arena.types(node.operands), node.attrs).variables) {}

  // Returns a number that depends on no position.
  std::optional<int64_t> Number(const ExprPtr& index) const {
    for (int variable : FreeVariables(index)) {
      const Meaning::VarKind kind = meaning_.variables[static_cast<size_t>(variable)].kind;
      if (kind != Meaning::VarKind::kSize && kind != Meaning::VarKind::kAttr) return std::nullopt;
    }
    return EvalIndex(index, values_);
  }

  // True if the element is the operand's element at the same position, `offset` further along the axis.
  bool Reads(const ExprNode& element, int operand, const OutputMeaning& output, int64_t axis, int64_t offset) const {
    const std::vector<int>& position = output.index_vars;
    if (!element.IsRead(operand) || element.args().size() != position.size()) return false;
    for (size_t k = 0; k < position.size(); ++k) {
      if (Offset(element.arg(k), position[k]) != (static_cast<int64_t>(k) == axis ? offset : 0)) return false;
    }
    return true;
  }

 private:
  // Returns the number that is added to the variable; nothing if the index is another function of it.
  std::optional<int64_t> Offset(const ExprPtr& index, int variable) const {
    if (index->IsVariable(variable)) return 0;
    const bool adds = index->kind() == ExprKind::kIndexAdd;
    if (!adds && index->kind() != ExprKind::kIndexSub) return std::nullopt;
    const size_t at = adds && index->arg(1)->IsVariable(variable) ? 1 : 0;
    if (!index->arg(at)->IsVariable(variable)) return std::nullopt;
    const std::optional<int64_t> number = Number(index->arg(1 - at));
    return number && !adds ? -*number : number;
  }

  const Meaning& meaning_;
  const std::vector<int64_t> values_;
};

// Returns the axis of the position that has this variable; the rank if there is none.
int64_t AxisOf(const OutputMeaning& output, const ExprNode& variable) {
  const std::vector<int>& position = output.index_vars;
  const auto is_it = [&](int id) { return variable.IsVariable(id); };
  return std::find_if(position.begin(), position.end(), is_it) - position.begin();
}

// True if the type of the part is that of the whole except for its size along the axis.
bool IsPart(TensorType whole, const TensorType& part, int64_t axis, int64_t size) {
  whole.shape[static_cast<size_t>(axis)] = size;
  return part == whole;
}

bool CopiesParts(const Node& node) { return node.op != nullptr && !node.meaning->IsOpaque(); }

}  // namespace

// Matches i < end ? x[i] : i < end' ? y[i - end] : ..
std::optional<PartsAlongAxis> JoinedOperands(const Arena& arena, const Node& node) {
  if (!CopiesParts(node) || node.outputs.size() != 1 || node.operands.size() < 2) return std::nullopt;
  const IndexReader indices(arena, node);
  const OutputMeaning& output = node.meaning->outputs[0];
  const Shape& shape = node.outputs[0].shape;
  PartsAlongAxis parts;
  const ExprNode* element = output.element.get();
  int64_t begin = 0;
  for (size_t k = 0; k < node.operands.size(); ++k) {
    const bool last = k + 1 == node.operands.size();
    if ((element->kind() == ExprKind::kSelect) == last) return std::nullopt;
    std::optional<int64_t> end;
    if (!last) {
      const ExprNode& condition = *element->condition();
      if (condition.kind() != ExprKind::kLess) return std::nullopt;
      const int64_t axis = AxisOf(output, *condition.arg(0));
      if (axis == std::ssize(shape) || (k > 0 && axis != parts.axis)) return std::nullopt;
      parts.axis = axis;
      end = indices.Number(condition.arg(1));
    } else {
      end = shape[static_cast<size_t>(parts.axis)];
    }
    const ExprNode& part = last ? *element : *element->yes();
    if (!end || !indices.Reads(part, static_cast<int>(k), output, parts.axis, -begin) ||
        !IsPart(node.outputs[0], arena.type(node.operands[k]), parts.axis, *end - begin)) {
      return std::nullopt;
    }
    parts.ends.push_back(begin = *end);
    if (!last) element = element->no().get();
  }
  return parts;
}

std::optional<PartsAlongAxis> CutOperand(const Arena& arena, const Node& node) {
  if (!CopiesParts(node) || node.outputs.size() < 2 || node.operands.size() != 1) return std::nullopt;
  const TensorType& whole = arena.type(node.operands[0]);
  const IndexReader indices(arena, node);
  for (int64_t axis = 0; axis < whole.rank(); ++axis) {
    PartsAlongAxis parts{axis, {}};
    int64_t begin = 0;
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      const TensorType& part = node.outputs[k];
      if (part.rank() != whole.rank()) return std::nullopt;
      const int64_t size = part.shape[static_cast<size_t>(axis)];
      const OutputMeaning& output = node.meaning->outputs[k];
      if (!IsPart(whole, part, axis, size) || !indices.Reads(*output.element, 0, output, axis, begin)) break;
      parts.ends.push_back(begin += size);
    }
    if (parts.ends.size() == node.outputs.size() && begin == whole.shape[static_cast<size_t>(axis)]) return parts;
  }
  return std::nullopt;
}

}  // namespace rewright
