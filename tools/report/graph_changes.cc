#include "tools/report/graph_changes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rewright {
namespace {

// The most values that RegionOf visits, from a value without a change of its own on to its operands.
constexpr size_t kMostAsked = 64;

class GraphComparison {
 public:
  GraphComparison(const Graph& before, const Graph& after) : before_(before), after_(after) {}

  GraphChanges Run() {
    Gather(before_, &changes_.before);
    Gather(after_, &changes_.after);
    IndexAfter();
    for (NodeId id : before_.nodes()) Match(id);
    Connect();
    Number();
    FindKinds();
    Name(before_, changes_.before);
    Name(after_, changes_.after);
    return std::move(changes_);
  }

 private:
  static void Gather(const Graph& graph, ChangedSide* side) {
    for (NodeId id : graph.nodes()) {
      const Node& node = graph.node(id);
      if (node.leaf != LeafKind::kInput && !graph.IsRun(node)) continue;
      side->position[id] = static_cast<int>(side->nodes.size());
      side->nodes.push_back(id);
    }
    side->partner.assign(side->nodes.size(), -1);
    side->region.assign(side->nodes.size(), -1);
  }

  void IndexAfter() {
    for (NodeId id : after_.nodes()) {
      const Node& node = after_.node(id);
      if (node.op != nullptr) applications_[{node.op, node.operands}].push_back(id);
      for (int32_t k = 0; k < static_cast<int32_t>(node.outputs.size()); ++k) {
        const std::string& name = after_.arena()->name({id, k});
        if (!name.empty()) by_name_.emplace(name, Value{id, k});
      }
    }
    for (const Output& output : before_.outputs()) {
      for (const Output& other : after_.outputs()) {
        if (other.name == output.name) image_.emplace(output.value, other.value);
      }
    }
  }

  // Finds the values of the graph after that take the place of the outputs of a node before.
  void Match(NodeId id) {
    const Node& node = before_.node(id);
    const NodeId same = node.op == nullptr ? (after_.contains(id) ? id : NodeId{-1}) : ApplicationLike(node);
    const bool found = same >= 0;
    if (found) Pair(id, same);
    for (int32_t k = 0; k < static_cast<int32_t>(node.outputs.size()); ++k) {
      const Value value{id, k};
      if (found) {
        image_[value] = {same, k};
        continue;
      }
      const auto named = by_name_.find(before_.arena()->name(value));
      if (named != by_name_.end() && after_.type(named->second) == before_.type(value)) {
        image_.emplace(value, named->second);
      }
    }
  }

  NodeId ApplicationLike(const Node& node) const {
    std::vector<Value> operands;
    for (Value operand : node.operands) {
      const auto image = image_.find(operand);
      if (image == image_.end()) return -1;
      operands.push_back(image->second);
    }
    const auto alike = applications_.find({node.op, operands});
    if (alike == applications_.end()) return -1;
    for (NodeId id : alike->second) {
      if (after_.node(id).attrs == node.attrs) return id;
    }
    return -1;
  }

  void Pair(NodeId id, NodeId same) {
    const auto a = changes_.before.position.find(id), b = changes_.after.position.find(same);
    if (a == changes_.before.position.end() || b == changes_.after.position.end()) return;
    if (changes_.after.partner[b->second] >= 0) return;  // two nodes have become one
    changes_.before.partner[a->second] = b->second;
    changes_.after.partner[b->second] = a->second;
  }

  // ---- nodes that are on one side alone, joined over edges and over values that took each other's place
  int Root(int at) {
    while (parent_[at] != at) at = parent_[at] = parent_[parent_[at]];
    return at;
  }

  void Connect() {
    const int count = static_cast<int>(changes_.before.nodes.size());
    parent_.resize(changes_.before.nodes.size() + changes_.after.nodes.size());
    std::iota(parent_.begin(), parent_.end(), 0);
    const auto over_edges = [&](const Graph& graph, const ChangedSide& side, int first) {
      for (size_t i = 0; i < side.nodes.size(); ++i) {
        if (side.partner[i] >= 0) continue;
        for (Value operand : graph.node(side.nodes[i]).operands) {
          const auto at = side.position.find(operand.node);
          if (at == side.position.end() || side.partner[at->second] >= 0) continue;
          parent_[Root(first + at->second)] = Root(first + static_cast<int>(i));
        }
      }
    };
    over_edges(before_, changes_.before, 0);
    over_edges(after_, changes_.after, count);
    for (const auto& [value, image] : image_) {
      const auto a = changes_.before.position.find(value.node), b = changes_.after.position.find(image.node);
      if (a == changes_.before.position.end() || b == changes_.after.position.end()) continue;
      if (changes_.before.partner[a->second] >= 0 || changes_.after.partner[b->second] >= 0) continue;
      parent_[Root(a->second)] = Root(count + b->second);
    }
  }

  void Number() {
    std::map<int, int> numbers;
    const auto number = [&](ChangedSide& side, int first) {
      for (size_t i = 0; i < side.nodes.size(); ++i) {
        if (side.partner[i] >= 0) continue;
        const int root = Root(first + static_cast<int>(i));
        side.region[i] = numbers.emplace(root, static_cast<int>(numbers.size())).first->second;
      }
    };
    number(changes_.after, static_cast<int>(changes_.before.nodes.size()));
    number(changes_.before, 0);
    changes_.regions = static_cast<int>(numbers.size());
  }

  // The text of each change on one side: its nodes in order, operands inside by their place, others by their type.
  static void Describe(const Graph& graph, const ChangedSide& side, std::vector<std::string>* texts) {
    absl::flat_hash_map<NodeId, int> places;
    std::vector<int> counts(texts->size(), 0);
    for (size_t i = 0; i < side.nodes.size(); ++i) {
      const int region = side.region[i];
      if (region < 0) continue;
      const Node& node = graph.node(side.nodes[i]);
      places[side.nodes[i]] = counts[region]++;
      std::string& text = (*texts)[region];
      absl::StrAppend(&text, node.op == nullptr ? "input" : node.op->name, AttrsString(node.attrs));
      for (const TensorType& type : node.outputs) absl::StrAppend(&text, " ", type.ToString());
      for (Value operand : node.operands) {
        const auto at = side.position.find(operand.node);
        if (at != side.position.end() && side.region[at->second] == region) {
          absl::StrAppend(&text, " #", places[operand.node], ".", operand.output);
        } else {
          absl::StrAppend(&text, " ", graph.type(operand).ToString());
        }
      }
      text += ";";
    }
  }

  void FindKinds() {
    std::vector<std::string> texts(static_cast<size_t>(changes_.regions));
    Describe(before_, changes_.before, &texts);
    for (std::string& text : texts) text += "=>";
    Describe(after_, changes_.after, &texts);
    std::map<std::string, int> first;
    for (int r = 0; r < changes_.regions; ++r) changes_.kind.push_back(first.emplace(texts[r], r).first->second);
  }

  void Name(const Graph& graph, const ChangedSide& side) {
    for (size_t i = 0; i < side.nodes.size(); ++i) {
      if (side.region[i] < 0) continue;
      for (int32_t k = 0; k < static_cast<int32_t>(graph.node(side.nodes[i]).outputs.size()); ++k) {
        const std::string& name = graph.arena()->name({side.nodes[i], k});
        if (!name.empty()) changes_.named.emplace(name, side.region[i]);
      }
    }
  }

  const Graph& before_;
  const Graph& after_;
  GraphChanges changes_;
  std::map<std::pair<const OpDef*, std::vector<Value>>, std::vector<NodeId>> applications_;
  absl::flat_hash_map<std::string, Value> by_name_;
  absl::flat_hash_map<Value, Value> image_;
  std::vector<int> parent_;
};

int Lookup(const ChangedSide& side, NodeId id) {
  const auto at = side.position.find(id);
  return at == side.position.end() ? -1 : side.region[at->second];
}

}  // namespace

int GraphChanges::DirectRegionOf(const Arena& arena, Value value) const {
  for (const ChangedSide* side : {&after, &before}) {
    if (const int region = Lookup(*side, value.node); region >= 0) return region;
  }
  const auto by_name = named.find(arena.name(value));
  return by_name == named.end() ? -1 : by_name->second;
}

int GraphChanges::RegionOf(const Arena& arena, Value value) const {
  std::vector<Value> asked = {value};
  for (size_t i = 0; i < asked.size() && i < kMostAsked; ++i) {
    if (const int region = DirectRegionOf(arena, asked[i]); region >= 0) return region;
    for (Value operand : arena.node(asked[i].node).operands) {
      if (std::find(asked.begin(), asked.end(), operand) == asked.end()) asked.push_back(operand);
    }
  }
  return -1;
}

GraphChanges ChangesBetween(const Graph& before, const Graph& after) { return GraphComparison(before, after).Run(); }

}  // namespace rewright
