#include "backends/cpu/lower/context_layout.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "backends/common/group.h"
#include "backends/common/node_access.h"
#include "backends/cpu/folds/folds.h"
#include "backends/cpu/kernel_list.h"

namespace rewright::cpu {
namespace {

constexpr size_t kTables = 8;

uint64_t HashOf(const Layout& layout) { return absl::HashOf(layout.block, layout.strides); }

bool SameOutputs(const std::vector<Value>& values, const std::vector<Output>& outputs) {
  return std::equal(values.begin(), values.end(), outputs.begin(), outputs.end(),
                    [](Value value, const Output& output) { return value == output.value; });
}

}  // namespace

bool CpuLayouts::Table::IsOf(const Graph& graph) const {
  return nodes == graph.nodes() && SameOutputs(outputs, graph.outputs()) && arena.lock() == graph.arena();
}

CpuLayouts::LaidPtr CpuLayouts::Table::Find(Value value) const {
  const auto found = laid.find(value);
  return found == laid.end() ? nullptr : found->second;
}

std::shared_ptr<const CpuLayouts::Table> CpuLayouts::TableOf(const Graph& graph) {
  const auto known = [&]() -> std::shared_ptr<const Table> {
    const auto is_of = [&](const std::shared_ptr<const Table>& table) { return table->IsOf(graph); };
    const auto found = std::find_if(tables_.begin(), tables_.end(), is_of);
    if (found == tables_.end()) return nullptr;
    std::rotate(tables_.begin(), found, found + 1);
    return tables_.front();
  };
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (auto table = known()) return table;
  }
  auto table = std::make_shared<Table>();
  table->arena = graph.arena();
  table->nodes = graph.nodes();
  for (const Output& output : graph.outputs()) table->outputs.push_back(output.value);
  table->groups = FuseGraph(graph);
  if (context_->folds != nullptr) {
    table->groups =
        context_->folds->Join(graph, std::move(table->groups), [](const FusedGroup&) { return true; });
  }
  for (size_t i = 0; i < table->groups.size(); ++i) table->group_of.emplace(table->groups[i].group.nodes[0], i);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (arena_.lock() != graph.arena()) {
    arena_ = graph.arena();
    remembered_.clear();
  }
  for (const FusedGroup& group : table->groups) {
    for (Value output : group.group.outputs) {
      if (LaidPtr laid = Lay(graph, group, output, *table)) table->laid.emplace(output, std::move(laid));
    }
  }
  tables_.push_front(table);
  if (tables_.size() > kTables) tables_.pop_back();
  return table;
}

CpuLayouts::LaidPtr CpuLayouts::Lay(const Graph& graph, const FusedGroup& group, Value value, const Table& before) {
  const bool returned = graph.is_output(value);
  // The key covers everything that ResultLayout reads.
  const FusedGroup& last = group.kind == FusedGroup::Kind::kFold ? group.parts.back() : group;
  const bool product = last.kind == FusedGroup::Kind::kMatmul;
  const uint64_t wanted = product ? rewright::cpu::HashOf(ProductLayout(graph, last, value)) : 0;
  std::vector<uint64_t> key = {static_cast<uint64_t>(value.output), returned, wanted, group.group.nodes.size()};
  for (NodeId node : group.group.nodes) key.push_back(static_cast<uint64_t>(node));
  for (Value input : group.group.inputs) {
    const LaidPtr laid = before.Find(input);
    key.push_back(laid == nullptr ? 0 : laid->hash);
  }
  const auto [entry, added] = remembered_.try_emplace(std::move(key));
  if (!added) return entry->second;
  const auto of = [&](Value input) -> std::optional<Layout> {
    if (graph.IsKnown(input)) return std::nullopt;
    const LaidPtr laid = before.Find(input);
    return laid == nullptr ? Layout::RowMajor(graph.type(input).shape) : laid->layout;
  };
  Layout layout = ResultLayout({*context_, graph, group, value, returned, of});
  if (!layout.IsRowMajor()) {
    const uint64_t hash = rewright::cpu::HashOf(layout);
    entry->second = std::make_shared<const Laid>(Laid{std::move(layout), hash});
  }
  return entry->second;
}

std::optional<FusedGroup> CpuLayouts::FusedOf(const Graph& graph, const Group& group) {
  const std::shared_ptr<const Table> table = TableOf(graph);
  const auto found = table->group_of.find(group.nodes[0]);
  if (found == table->group_of.end() || table->groups[found->second].group.nodes != group.nodes) return std::nullopt;
  return table->groups[found->second];
}

std::vector<Group> CpuLayouts::GroupsOf(const Graph& graph) {
  std::vector<Group> groups;
  for (const FusedGroup& group : TableOf(graph)->groups) groups.push_back(group.group);
  return groups;
}

Layout CpuLayouts::Of(const Graph& graph, Value value) {
  const LaidPtr laid = TableOf(graph)->Find(value);
  return laid == nullptr ? Layout::RowMajor(graph.type(value).shape) : laid->layout;
}

uint64_t CpuLayouts::HashOf(const Graph& graph, const Group& group) {
  const std::shared_ptr<const Table> table = TableOf(graph);
  uint64_t hash = 0;
  for (Value input : group.inputs) {
    const LaidPtr laid = table->Find(input);
    hash = hash * 0x9e3779b97f4a7c15 + (laid == nullptr ? 0 : laid->hash);
  }
  return hash;
}

std::string CpuLayouts::SignatureOf(const Graph& graph, const Group& group) {
  return GroupSignature(graph, group, [&](Value value) { return Of(graph, value).ToString(); });
}

}  // namespace rewright::cpu
