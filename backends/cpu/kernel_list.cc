#include "backends/cpu/kernel_list.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/base/text_hash.h"
#include "core/ops/foreign.h"

namespace rewright::cpu {
namespace {

bool HasEmptyTensors(const Graph& graph, const Group& group) {
  const auto empty = [](const TensorType& type) { return type.num_elements() == 0; };
  return std::any_of(group.nodes.begin(), group.nodes.end(), [&](NodeId id) {
    const Node& node = graph.node(id);
    return std::any_of(node.outputs.begin(), node.outputs.end(), empty) ||
           std::any_of(node.operands.begin(), node.operands.end(), [&](Value x) { return empty(graph.type(x)); });
  });
}

// The names that this function of each kernel gives.
template <typename Function>
std::vector<std::string> NamesOf(Function KernelEntry::*function, const DnnlContext& context, const Graph& graph,
                                 const FusedGroup& group) {
  std::vector<std::string> all;
  for (const KernelEntry& entry : KernelList()) {
    if (entry.*function == nullptr || !entry.Takes(graph.node(group.group.nodes[0]).op)) continue;
    for (std::string& name : (entry.*function)(context, graph, group)) all.push_back(std::move(name));
  }
  return all;
}

}  // namespace

bool KernelEntry::Takes(const OpDef* op) const {
  return (ops.empty() && derived.empty()) || std::find(ops.begin(), ops.end(), op) != ops.end() ||
         std::find(derived.begin(), derived.end(), op->name) != derived.end();
}

const std::vector<KernelEntry>& KernelList() {
#define REWRIGHT_ENTRY(Name) Name##Entry(),
  static const auto* const list = new std::vector<KernelEntry>{REWRIGHT_CPU_KERNELS(REWRIGHT_ENTRY)};
#undef REWRIGHT_ENTRY
  return *list;
}

std::string VersionOf(const std::vector<std::pair<std::string, int>>& kernels) {
  TextHash hash;
  for (const auto& [name, version] : kernels) {
    hash.Add(name);
    hash.Add(absl::StrCat(version));
  }
  return hash.Hex().substr(0, 8);
}

std::string KernelListVersion() {
#define REWRIGHT_VERSION(Name) {#Name, Name##Entry().version},
  return VersionOf({REWRIGHT_CPU_KERNELS(REWRIGHT_VERSION)});
#undef REWRIGHT_VERSION
}

Layout LayoutQuery::operand(size_t k) const {
  const Value operand = node().operands[k];
  return of(operand).value_or(Layout::RowMajor(graph.type(operand).shape));
}

Layout ResultLayout(const LayoutQuery& query) {
  const OpDef* const op = query.graph.node(query.group.group.nodes[0]).op;
  if (!HasEmptyTensors(query.graph, query.group.group)) {
    for (const KernelEntry& entry : KernelList()) {
      if (entry.layout == nullptr || !entry.Takes(op)) continue;
      if (const std::optional<Layout> layout = entry.layout(query)) return Simplified(*layout);
    }
  }
  return Layout::RowMajor(query.dims());
}

std::vector<std::string> AllowedLaws(const DnnlContext& context, const Graph& graph, const FusedGroup& group) {
  return NamesOf(&KernelEntry::laws, context, graph, group);
}

std::vector<std::string> OtherWays(const DnnlContext& context, const Graph& graph, const FusedGroup& group) {
  return NamesOf(&KernelEntry::ways, context, graph, group);
}

absl::Status PlanGroup(Lowering& lowering, const FusedGroup& group) {
  const std::vector<KernelEntry>& list = KernelList();
  const OpDef* const op = lowering.graph().node(group.group.nodes[0]).op;
  // Kernels may take it that there is an element, but for those of nodes that are not known here.
  const bool only_reference =
      HasEmptyTensors(lowering.graph(), group.group) && !IsForeign(lowering.graph().node(group.group.nodes[0]));
  auto entry = only_reference ? list.end() - 1 : list.begin();
  for (; entry != list.end(); ++entry) {
    if (!entry->Takes(op)) continue;
    ASSIGN_OR_RETURN(const bool planned, entry->plan(lowering, group));
    if (planned) return absl::OkStatus();
  }
  CHECK(false) << "the reference takes every group";
}

}  // namespace rewright::cpu
