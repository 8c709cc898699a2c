#include "verifier/equal/part_weights.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ir/index_value.h"
#include "core/ir/rewrite.h"

namespace rewright {
namespace {

// Places, inside an axis, between which its parts lie.
using Cuts = std::set<int64_t>;

// Follows the parts of values that applications read upwards, to known values.
class Tracer {
 public:
  explicit Tracer(const Graph& graph) : arena_(*graph.arena()) {
    for (auto id = graph.nodes().rbegin(); id != graph.nodes().rend(); ++id) {  // readers first
      if (!graph.IsRun(graph.node(*id))) continue;
      for (int32_t k = 0; k < static_cast<int32_t>(graph.node(*id).outputs.size()); ++k) {
        const Shape& shape = graph.node(*id).outputs[k].shape;
        for (size_t axis = 0; axis < shape.size(); ++axis) {
          Cuts& cuts = cuts_[{{*id, k}, axis}];
          cuts.insert({0, shape[axis]});
          Above({*id, k}, axis, cuts);
        }
      }
    }
  }

  const std::map<std::pair<Value, size_t>, Cuts>& known() const { return known_; }

 private:
  // Cuts of a value's axis are cuts of its operands' axes that are read along with it, as in x[i + 3].
  void Above(Value value, size_t axis, const Cuts& cuts) {
    const Node& node = arena_.node(value.node);
    if (node.op == nullptr || node.meaning->IsOpaque()) return;
    const OutputMeaning& output = node.meaning->outputs[value.output];
    const int variable = output.index_vars[axis];
    Bindings bindings = BindingsOf(*node.meaning, arena_.types(node.operands), node.attrs);
    std::vector<std::tuple<Value, size_t, int64_t>> reads;
    Visit(output.element, [&](const ExprPtr& expr) {
      if (!expr->IsRead()) return;
      for (size_t k = 0; k < expr->args().size(); ++k) {
        if (const auto offset = OffsetOf(expr->arg(k), variable, *node.meaning, bindings)) {
          reads.emplace_back(node.operands[expr->operand()], k, *offset);
        }
      }
    });
    for (const auto& [operand, k, offset] : reads) {
      Cuts shifted;
      for (int64_t cut : cuts) {
        if (cut + offset > 0 && cut + offset < arena_.type(operand).shape[k]) shifted.insert(cut + offset);
      }
      if (shifted.empty()) continue;
      auto& cuts_above = arena_.IsKnown(operand) ? known_ : cuts_;
      cuts_above[{operand, k}].insert(shifted.begin(), shifted.end());
    }
  }

  // c where the index is `variable` + c.
  static std::optional<int64_t> OffsetOf(const ExprPtr& index, int variable, const Meaning& meaning,
                                         Bindings& bindings) {
    if (!index->MayMention(variable) || index->ReadsData()) return std::nullopt;
    bool mentioned = false;
    for (int other : FreeVariables(index)) {
      const Meaning::VarKind kind = meaning.variables[other].kind;
      mentioned = mentioned || other == variable;
      if (other != variable && (kind == Meaning::VarKind::kOutputIndex || kind == Meaning::VarKind::kBound)) {
        return std::nullopt;
      }
    }
    if (!mentioned) return std::nullopt;
    std::optional<int64_t> offset;
    for (int64_t value : {0, 1, 2}) {
      bindings.variables[variable] = value;
      const std::optional<int64_t> at = EvalIndex(index, bindings.variables);
      if (!at || (offset && *at != *offset + value)) return std::nullopt;
      if (value == 0) offset = at;
    }
    bindings.variables[variable] = 0;
    return offset;
  }

  const Arena& arena_;
  std::map<std::pair<Value, size_t>, Cuts> cuts_;   // by value and axis, of applications that run
  std::map<std::pair<Value, size_t>, Cuts> known_;  // likewise, of known values
};

Tensor PartOf(const Tensor& whole, size_t axis, int64_t begin, int64_t size) {
  TensorType type = whole.type();
  type.shape[axis] = size;
  Tensor part(type);
  int64_t outer = 1, inner = static_cast<int64_t>(DTypeSize(type.dtype));
  for (size_t k = 0; k < axis; ++k) outer *= type.shape[k];
  for (size_t k = axis + 1; k < type.shape.size(); ++k) inner *= type.shape[k];
  const int64_t stride = whole.shape()[axis] * inner;
  const char* from = static_cast<const char*>(whole.data()) + begin * inner;
  char* to = static_cast<char*>(part.data());
  for (int64_t i = 0; i < outer; ++i) std::copy_n(from + i * stride, size * inner, to + i * size * inner);
  return part;
}

}  // namespace

absl::StatusOr<Region> PartWeights(const Region& region) {
  std::vector<Output> roots;
  for (const auto& [a, b] : region.pairs) {
    roots.push_back({a, ""});
    roots.push_back({b, ""});
  }
  const Graph graph(region.arena, {}, roots);
  const Tracer tracer(graph);
  ValueMap parted;
  for (const auto& [place, cuts] : tracer.known()) {
    const auto& [value, axis] = place;
    if (parted.contains(value)) continue;
    const Tensor* const elements = region.arena->Elements(value.node);
    const std::optional<Tensor> leaf = elements == nullptr ? std::nullopt : std::optional(*elements);
    const Shape shape = region.arena->type(value).shape;
    Cuts ends = cuts;
    ends.insert(shape[axis]);
    std::vector<Value> parts;
    int64_t begin = 0;
    for (int64_t end : ends) {
      absl::StatusOr<Value> part;
      if (leaf) {
        const std::string name = absl::StrCat("part", region.arena->size(), "_", parts.size());
        part = region.arena->AddState(name, PartOf(*leaf, axis, begin, end - begin));
      } else {
        Shape starts(shape.size()), stops = shape;
        starts[axis] = begin;
        stops[axis] = end;
        part = region.arena->Apply("slice", {value}, {{"starts", starts}, {"stops", stops}});
      }
      RETURN_IF_ERROR(part.status());
      parts.push_back(*part);
      begin = end;
    }
    ASSIGN_OR_RETURN(parted[value],
                     region.arena->Apply("concat", std::move(parts), {{"axis", static_cast<int64_t>(axis)}}));
  }
  if (parted.empty()) return region;
  ASSIGN_OR_RETURN(const Graph replaced, ReplaceValues(graph, parted));
  Region result = region;
  for (size_t i = 0; i < result.pairs.size(); ++i) {
    result.pairs[i] = {replaced.outputs()[2 * i].value, replaced.outputs()[2 * i + 1].value};
  }
  return result;
}

}  // namespace rewright
