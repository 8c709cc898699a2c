#include "core/autodiff/copies.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "core/ir/index_value.h"

namespace rewright {
namespace {

// Reads indices of a declaration at the sizes of one application.
class IndexReader {
 public:
  IndexReader(const Arena& arena, const Node& node)
      : meaning_(*node.meaning), values_(BindingsOf(meaning_, arena.types(node.operands), node.attrs).variables) {}

  // Returns a number that depends on no position.
  std::optional<int64_t> Number(const ExprNode& index) {
    if (const auto found = numbers_.find(&index); found != numbers_.end()) return found->second;
    return numbers_[&index] = NumberAnew(index);
  }

  // True if the element is the operand's element at the same position, `offset` further along the axis.
  bool Reads(const ExprNode& element, int operand, const OutputMeaning& output, int64_t axis, int64_t offset) {
    const std::vector<int>& position = output.index_vars;
    if (!element.IsRead(operand) || element.args().size() != position.size()) return false;
    for (size_t k = 0; k < position.size(); ++k) {
      if (Offset(element.arg(k), position[k]) != (static_cast<int64_t>(k) == axis ? offset : 0)) return false;
    }
    return true;
  }

 private:
  std::optional<int64_t> NumberAnew(const ExprNode& index) {
    if (index.kind() == ExprKind::kInt) return index.value();
    if (index.IsVariable()) {
      const size_t id = static_cast<size_t>(index.variable());
      const Meaning::VarKind kind = meaning_.variables[id].kind;
      const bool fixed = kind == Meaning::VarKind::kSize || kind == Meaning::VarKind::kAttr;
      return fixed ? std::optional<int64_t>(values_[id]) : std::nullopt;
    }
    if (index.kind() == ExprKind::kFromValue) return std::nullopt;
    const std::optional<int64_t> a = Number(*index.arg(0)), b = Number(*index.arg(1));
    int64_t value;
    return a && b && EvalIndex(index.kind(), *a, *b, &value) ? std::optional<int64_t>(value) : std::nullopt;
  }

  // Returns the number that is added to the variable; nothing if the index is another function of it.
  std::optional<int64_t> Offset(const ExprPtr& index, int variable) {
    if (index->IsVariable(variable)) return 0;
    const bool adds = index->kind() == ExprKind::kIndexAdd;
    if (!adds && index->kind() != ExprKind::kIndexSub) return std::nullopt;
    const size_t at = adds && index->arg(1)->IsVariable(variable) ? 1 : 0;
    if (!index->arg(at)->IsVariable(variable)) return std::nullopt;
    const std::optional<int64_t> number = Number(*index->arg(1 - at));
    return number && !adds ? -*number : number;
  }

  const Meaning& meaning_;
  const std::vector<int64_t> values_;
  absl::flat_hash_map<const ExprNode*, std::optional<int64_t>> numbers_;
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

// Matches i < end ? (a join of the first operands) : (a join of the others), down to single operands.
class JoinMatcher {
 public:
  JoinMatcher(const Arena& arena, const Node& node)
      : arena_(arena), node_(node), output_(node.meaning->outputs[0]), indices_(arena, node) {}

  std::optional<PartsAlongAxis> Match() {
    const ExprNode& element = *output_.element;
    if (element.kind() != ExprKind::kSelect || element.condition()->kind() != ExprKind::kLess) return std::nullopt;
    parts_.axis = AxisOf(output_, *element.condition()->arg(0));
    if (parts_.axis == node_.outputs[0].rank() || !MatchParts(element)) return std::nullopt;
    const int64_t size = node_.outputs[0].shape[static_cast<size_t>(parts_.axis)];
    return parts_.ends.size() == node_.operands.size() && End() == size ? std::optional(parts_) : std::nullopt;
  }

 private:
  int64_t End() const { return parts_.ends.empty() ? 0 : parts_.ends.back(); }

  // Adds the ends of the operands that the element joins, behind those that have been found.
  bool MatchParts(const ExprNode& element) {
    if (element.kind() != ExprKind::kSelect) return MatchOperand(element);
    const ExprNode& condition = *element.condition();
    return condition.kind() == ExprKind::kLess && AxisOf(output_, *condition.arg(0)) == parts_.axis &&
           MatchParts(*element.yes()) && indices_.Number(*condition.arg(1)) == End() && MatchParts(*element.no());
  }

  bool MatchOperand(const ExprNode& element) {
    const size_t k = parts_.ends.size();
    if (k == node_.operands.size()) return false;
    const TensorType& type = arena_.type(node_.operands[k]);
    if (type.rank() != node_.outputs[0].rank()) return false;
    const int64_t size = type.shape[static_cast<size_t>(parts_.axis)];
    const bool reads = indices_.Reads(element, static_cast<int>(k), output_, parts_.axis, -End());
    parts_.ends.push_back(End() + size);
    return reads && IsPart(node_.outputs[0], type, parts_.axis, size);
  }

  const Arena& arena_;
  const Node& node_;
  const OutputMeaning& output_;
  IndexReader indices_;
  PartsAlongAxis parts_;
};

}  // namespace

std::optional<PartsAlongAxis> JoinedOperands(const Arena& arena, const Node& node) {
  if (!CopiesParts(node) || node.outputs.size() != 1 || node.operands.size() < 2) return std::nullopt;
  return JoinMatcher(arena, node).Match();
}

std::optional<PartsAlongAxis> CutOperand(const Arena& arena, const Node& node) {
  if (!CopiesParts(node) || node.outputs.size() < 2 || node.operands.size() != 1) return std::nullopt;
  const TensorType& whole = arena.type(node.operands[0]);
  IndexReader indices(arena, node);
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
