#include "verifier/ranks/legal_indices.h"

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ir/index_range.h"

namespace rewright {
namespace {

std::string NameOf(const Graph& model, Value value) {
  const std::string& name = model.node(value.node).name;
  return name.empty() ? absl::StrCat("value ", value.node, " of the model") : name;
}

}  // namespace

std::string LegalIndex::Text(const Graph& model, Value indices) const {
  return absl::StrCat("0 <= ", NameOf(model, indices), " < ", size, ", the places along axis ", axis, " of ",
                      NameOf(model, indexed));
}

std::map<Value, LegalIndex> LegalIndices(const Graph& model) {
  std::map<Value, LegalIndex> legal;
  for (NodeId id : model.nodes()) {
    const Node& node = model.node(id);
    if (node.meaning == nullptr) continue;
    for (const IndexedAxis& at : IndexedAxes(*node.meaning)) {
      if (!at.wraps || at.size_variable >= 0) continue;
      const LegalIndex one{at.Size(model, id), node.operands[at.indexed], at.axis};
      const auto [found, first] = legal.emplace(node.operands[at.indices], one);
      if (!first && one.size < found->second.size) found->second = one;
    }
  }
  return legal;
}

absl::StatusOr<LegalTerm> TermOfLegal(Arena& arena, Value indices, int64_t size) {
  ASSIGN_OR_RETURN(const Value positions,
                   arena.Apply("iota", {}, {{"shape", Shape{size}},
                                            {"axis", int64_t{0}},
                                            {"dtype", arena.type(indices).dtype}}));
  ASSIGN_OR_RETURN(const Value legal, arena.Apply("gather", {positions, indices}, {{"axis", int64_t{0}}}));
  return LegalTerm{positions.node, legal};
}

}  // namespace rewright
