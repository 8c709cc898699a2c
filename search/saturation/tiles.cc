#include "search/saturation/tiles.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace rewright {
namespace {

constexpr double kInfiniteCost = std::numeric_limits<double>::infinity();
// An e-node is not free, or a graph could hold any number of them.
constexpr double kLeastCost = 1e-12;
// Together they must cost less by more than rounding.
constexpr double kFused = 0.999;
// E-nodes of a tile: a convolution, its bias, a sum, an activation.
constexpr size_t kMaxParts = 4;
// Larger constants are weights to a device.
constexpr int64_t kSmallConstant = 16;

// Zeros that take no memory before they are read.
Tensor Zeros(const TensorType& type) {
  void* data = std::calloc(static_cast<size_t>(std::max<int64_t>(type.num_bytes(), 1)), 1);
  CHECK(data != nullptr) << "out of memory for " << type.ToString();
  return Tensor(type, std::shared_ptr<void>(data, std::free), data);
}

}  // namespace

TileProblem::TileProblem(const EGraph& egraph, const std::vector<Value>& roots, CostModel& costs)
    : egraph_(egraph), costs_(costs), scratch_(std::make_shared<Arena>(egraph.arena()->mode())) {
  for (Value root : roots) problem_.roots.push_back(AddClass(root));
  AddSingles();
  Fuse();
}

int TileProblem::ClassOf(Value value) const {
  const auto it = class_numbers_.find(egraph_.Find(value));
  return it == class_numbers_.end() ? -1 : it->second;
}

int TileProblem::AddClass(Value value) {
  const Value representative = egraph_.Find(value);
  const auto [it, fresh] = class_numbers_.try_emplace(representative, num_classes());
  if (fresh) {
    classes_.push_back(representative);
    problem_.makers.emplace_back();
  }
  return it->second;
}

void TileProblem::AddSingles() {
  absl::flat_hash_map<NodeId, bool> known;
  // Classes are appended while they are gone through.
  for (int c = 0; c < num_classes(); ++c) {
    const std::vector<NodeId>& nodes = egraph_.Nodes(classes_[c]);
    for (NodeId id : nodes) {
      if (!known.try_emplace(id, true).second) continue;
      const Tile tile = {{c, id}};
      AddTile(tile, egraph_.arena()->node(id).op == nullptr ? 0 : CostOf(tile));
    }
  }
}

void TileProblem::AddTile(Tile tile, double cost) {
  const int number = static_cast<int>(tiles_.size());
  ExtractionProblem::Node node;
  node.cost = std::max(cost, kLeastCost);
  const NodeId root = tile[0].second;
  const int32_t count = static_cast<int32_t>(egraph_.arena()->node(root).outputs.size());
  for (int32_t k = 0; k < count; ++k) node.makes.push_back(AddClass(Value{root, k}));
  for (const auto& [c, id] : tile) {
    for (Value operand : egraph_.arena()->node(id).operands) {
      const int need = AddClass(operand);
      const bool inside =
          std::any_of(tile.begin() + 1, tile.end(), [&](const auto& part) { return part.first == need; });
      if (!inside && std::find(node.needs.begin(), node.needs.end(), need) == node.needs.end()) {
        node.needs.push_back(need);
      }
    }
  }
  std::vector<int> makes = node.makes;
  std::sort(makes.begin(), makes.end());
  makes.erase(std::unique(makes.begin(), makes.end()), makes.end());
  for (int made : makes) problem_.makers[made].push_back(number);
  problem_.nodes.push_back(std::move(node));
  tiles_.push_back(std::move(tile));
}

void TileProblem::Fuse() {
  const int singles = static_cast<int>(tiles_.size());
  // Tiles of one size, below an e-node, make tiles of the next.
  int begin = 0;
  for (size_t parts = 2; parts <= kMaxParts; ++parts) {
    const int end = static_cast<int>(tiles_.size());
    std::vector<std::vector<int>> below(static_cast<size_t>(num_classes()));
    for (int t = begin; t < end; ++t) {
      const Node& root = egraph_.arena()->node(tile(t)[0].second);
      if (!egraph_.arena()->IsRun(root) || root.outputs.size() != 1) continue;
      below[tile(t)[0].first].push_back(t);
    }
    for (int n = 0; n < singles; ++n) {
      const Node& node = egraph_.arena()->node(tile(n)[0].second);
      if (!egraph_.arena()->IsRun(node) || problem_.nodes[n].cost <= kLeastCost) continue;
      std::vector<int> tried;
      for (Value operand : node.operands) {
        const int c = ClassOf(operand);
        if (std::find(tried.begin(), tried.end(), c) != tried.end()) continue;
        tried.push_back(c);
        for (int t : below[c]) TryFuse(n, operand, t);
      }
    }
    begin = end;
  }
}

bool TileProblem::TryFuse(int node, Value operand, int below) {
  const ExtractionProblem::Node& lower = problem_.nodes[below];
  const ExtractionProblem::Node& upper = problem_.nodes[node];
  const int inner = ClassOf(operand);
  // The operands of the lower tile must not depend on the tile that it is fused into or on itself.
  for (int need : lower.needs) {
    if (need == inner || std::find(upper.makes.begin(), upper.makes.end(), need) != upper.makes.end()) return false;
  }
  Tile fused = tile(node);
  for (const auto& part : tile(below)) {
    const auto is_part = [&](const auto& other) { return other.first == part.first; };
    if (std::any_of(fused.begin(), fused.end(), is_part)) return false;
    // The upper e-node may not read the inside of the lower tile, either.
    if (part.first != inner && std::find(upper.needs.begin(), upper.needs.end(), part.first) != upper.needs.end()) {
      return false;
    }
    fused.push_back(part);
  }
  const double cost = CostOf(fused);
  if (!(cost < kFused * (upper.cost + lower.cost))) return false;
  AddTile(std::move(fused), cost);
  return true;
}

Value TileProblem::Leaf(Value representative) {
  const auto [it, fresh] = leaves_.try_emplace(representative);
  if (!fresh) return it->second;
  const Node& node = egraph_.arena()->node(representative.node);
  const TensorType& type = egraph_.arena()->type(representative);
  const std::string name =
      absl::StrCat(leaves_.size(), ":", type.ToString(), egraph_.arena()->IsKnown(node) ? "w" : "");
  absl::StatusOr<Value> leaf;
  if (node.leaf == LeafKind::kConstant && type.num_elements() <= kSmallConstant) {
    leaf = scratch_->AddConstant(node.data);
  } else if (egraph_.arena()->IsKnown(node)) {
    leaf = scratch_->AddState(name, Zeros(type));
  } else {
    leaf = scratch_->AddInput(name, type);
  }
  CHECK(leaf.ok()) << leaf.status().ToString();
  return it->second = *leaf;
}

double TileProblem::CostOf(const Tile& tile) {
  leaves_.clear();
  absl::flat_hash_map<int, Value> inside;
  NodeId top = -1;
  for (auto part = tile.rbegin(); part != tile.rend(); ++part) {
    const Node& node = egraph_.arena()->node(part->second);
    std::vector<Value> operands;
    for (Value operand : node.operands) {
      const Value representative = egraph_.Find(operand);
      const auto it = inside.find(AddClass(representative));
      operands.push_back(it != inside.end() ? it->second : Leaf(representative));
    }
    const absl::StatusOr<NodeId> copy = scratch_->Add(*node.op, std::move(operands), node.attrs);
    if (!copy.ok()) return kInfiniteCost;
    inside[part->first] = Value{*copy, 0};
    top = *copy;
  }
  const auto [it, fresh] = known_.try_emplace(top, kInfiniteCost);
  if (!fresh) return it->second;
  std::vector<Output> outputs;
  const int32_t count = static_cast<int32_t>(scratch_->node(top).outputs.size());
  for (int32_t k = 0; k < count; ++k) outputs.push_back({{top, k}, ""});
  std::vector<Value> inputs;
  const Graph view(scratch_, {}, outputs);
  for (NodeId id : view.nodes()) {
    if (view.node(id).leaf == LeafKind::kInput) inputs.push_back({id, 0});
  }
  const absl::StatusOr<GraphCost> cost = costs_.Cost(Graph(scratch_, std::move(inputs), std::move(outputs)));
  if (cost.ok()) it->second = cost->total();
  return it->second;
}

}  // namespace rewright
