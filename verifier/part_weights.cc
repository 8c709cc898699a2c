#include "verifier/part_weights.h"

#include <numeric>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/interpreter/known_values.h"
#include "core/ir/rewrite.h"

namespace rewright {
namespace {

// A known value, an axis of it, and the sizes of its parts along that axis.
using Parting = std::tuple<Value, size_t, std::vector<int64_t>>;

// Follows an axis of a value upwards to the known values whose axis it is.
class Tracer {
 public:
  Tracer(const Arena& arena, std::vector<Parting>* found) : arena_(arena), found_(*found) {}

  void Trace(Value value, size_t axis, const std::vector<int64_t>& sizes) {
    if (!met_.emplace(value, axis).second) return;
    if (arena_.IsKnown(value)) {
      found_.emplace_back(value, axis, sizes);
      return;
    }
    const Node& node = arena_.node(value.node);
    if (node.op == nullptr || node.meaning->IsOpaque()) return;
    const OutputMeaning& output = node.meaning->outputs[value.output];
    const int variable = output.index_vars[axis];
    std::vector<std::pair<Value, size_t>> above;
    Visit(output.element, [&](const ExprPtr& expr) {
      if (!expr->IsRead()) return;
      const Value operand = node.operands[expr->operand()];
      for (size_t k = 0; k < expr->args().size(); ++k) {
        const bool whole = arena_.type(operand).shape[k] == arena_.type(value).shape[axis];
        if (whole && expr->arg(k)->IsVariable(variable)) above.emplace_back(operand, k);
      }
    });
    for (const auto& [operand, k] : above) Trace(operand, k, sizes);
  }

 private:
  const Arena& arena_;
  std::vector<Parting>& found_;
  std::set<std::pair<Value, size_t>> met_;
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

absl::StatusOr<Region> PartWeights(const Region& region, int threads) {
  std::vector<Output> roots;
  for (const auto& [a, b] : region.pairs) {
    roots.push_back({a, ""});
    roots.push_back({b, ""});
  }
  const Graph graph(region.arena, {}, roots);
  std::vector<Parting> partings;
  for (NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (node.op == nullptr || node.op->name != "split" || !graph.IsRun(node)) continue;
    const size_t axis = static_cast<size_t>(std::get<int64_t>(node.attrs.at("axis")));
    Tracer(*region.arena, &partings).Trace(node.operands[0], axis, std::get<std::vector<int64_t>>(node.attrs.at("sizes")));
  }
  ValueMap parted;
  for (const auto& [value, axis, sizes] : partings) {
    if (parted.contains(value)) continue;
    Tensor whole;
    if (const Tensor* leaf = region.arena->Elements(value.node)) {
      whole = *leaf;
    } else {
      ASSIGN_OR_RETURN(const std::vector<Tensor> computed, ComputeKnown(region.arena, {value}, threads));
      whole = computed[0];
    }
    std::vector<Value> parts;
    int64_t begin = 0;
    for (int64_t size : sizes) {
      const std::string name = absl::StrCat("part", region.arena->size(), "_", parts.size());
      ASSIGN_OR_RETURN(const Value part, region.arena->AddState(name, PartOf(whole, axis, begin, size)));
      parts.push_back(part);
      begin += size;
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
