#include "backends/cpu/folds/folds.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/common/group.h"
#include "backends/cpu/simd/simd.h"
#include "core/base/status_macros.h"
#include "core/fold/composite_op.h"
#include "core/index/cost_features.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
namespace {

// Constants of one element are numbers of the composed operator.
bool IsNumber(const Graph& graph, Value value) {
  const Node& node = graph.node(value.node);
  return node.op == nullptr && node.leaf == LeafKind::kConstant && node.data.num_elements() == 1;
}

double OperationsOf(const Graph& graph, const Group& group) {
  double operations = 0;
  for (NodeId id : group.nodes) {
    const Node& node = graph.node(id);
    operations += FeaturesOf(*node.meaning, graph.types(node.operands), node.attrs, node.outputs).flops;
  }
  return operations;
}

// Returns whether tiles have all the operations of the program.
bool HasTiles(const BlockProgram& program) {
  return std::all_of(program.values.begin(), program.values.end(), [&](const BlockProgram::Value& value) {
    using Kind = BlockProgram::Value::Kind;
    if (value.dtype != DType::kFloat32 && value.dtype != DType::kBool) return false;
    const auto reads_numbers = [&] {
      return std::all_of(value.args.begin(), value.args.end(),
                         [&](int arg) { return program.values[static_cast<size_t>(arg)].dtype == DType::kFloat32; });
    };
    if (value.kind == Kind::kCall) return Simd().f32[static_cast<int>(value.fn)] != nullptr && reads_numbers();
    if (value.kind == Kind::kNumber || value.kind == Kind::kSelect) return value.dtype == DType::kFloat32;
    return true;
  });
}

// The groups of a graph by what they give and who reads that.
class FoldCandidates {
 public:
  FoldCandidates(const Graph& graph, const std::vector<FusedGroup>& groups) : graph_(graph), groups_(groups) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (Value output : groups_[g].group.outputs) maker_[output] = g;
      for (Value input : groups_[g].group.inputs) readers_[input].push_back(g);
    }
  }

  // The groups that join the product `sink`, itself as the last; empty: it is none of activations, or no product stands
  // before it.
  std::vector<size_t> Behind(size_t sink) const {
    if (!IsProductOfActivations(groups_[sink])) return {};
    const TensorType& left = graph_.type(graph_.node(groups_[sink].group.nodes[0]).operands[0]);
    const int64_t rows = left.num_elements() / left.shape.back();
    std::set<size_t> members = {sink};
    std::vector<Value> open = {graph_.node(groups_[sink].group.nodes[0]).operands[0]};
    bool has_product = false;
    // Groups stand behind those that they read: the last one that all of its readers are known of is the next.
    while (!open.empty()) {
      const auto next =
          std::max_element(open.begin(), open.end(), [&](Value a, Value b) { return Maker(a) < Maker(b); });
      const Value value = *next;
      open.erase(next);
      const int maker = Maker(value);
      if (maker < 0 || members.contains(static_cast<size_t>(maker))) continue;
      const FusedGroup& group = groups_[static_cast<size_t>(maker)];
      if (graph_.type(value).num_elements() % rows != 0 || !IsInside(value, members) || !MayJoin(group)) continue;
      members.insert(static_cast<size_t>(maker));
      if (group.kind == FusedGroup::Kind::kMatmul) {
        if (!IsProductOfActivations(group)) return {};
        has_product = true;
      } else {
        open.insert(open.end(), group.group.inputs.begin(), group.group.inputs.end());
      }
    }
    return has_product ? std::vector<size_t>(members.begin(), members.end()) : std::vector<size_t>();
  }

 private:
  int Maker(Value value) const {
    const auto found = maker_.find(value);
    return found == maker_.end() ? -1 : static_cast<int>(found->second);
  }
  bool IsInside(Value value, const std::set<size_t>& members) const {
    const std::vector<size_t>& readers = readers_.at(value);
    return !graph_.is_output(value) &&
           std::all_of(readers.begin(), readers.end(), [&](size_t reader) { return members.contains(reader); });
  }
  bool IsProductOfActivations(const FusedGroup& group) const {
    if (group.kind != FusedGroup::Kind::kMatmul) return false;
    const Node& node = graph_.node(group.group.nodes[0]);
    return std::none_of(node.operands.begin(), node.operands.end(), [&](Value x) { return graph_.IsKnown(x); });
  }
  bool MayJoin(const FusedGroup& group) const {
    using Kind = FusedGroup::Kind;
    const Node& last = graph_.node(group.group.nodes.back());
    return group.group.outputs.size() == 1 && !group.is_last && last.outputs[0].dtype == DType::kFloat32 &&
           (group.kind == Kind::kMatmul || group.kind == Kind::kPointwise || group.kind == Kind::kReduce ||
            group.kind == Kind::kRows || group.kind == Kind::kOther);
  }

  const Graph& graph_;
  const std::vector<FusedGroup>& groups_;
  absl::flat_hash_map<Value, size_t> maker_;
  absl::flat_hash_map<Value, std::vector<size_t>> readers_;
};

}  // namespace

absl::StatusOr<GroupFold> FoldOf(const Graph& graph, const Group& group, Value along, int axis) {
  GroupFold found;
  std::vector<Value> operands;
  for (size_t k = 0; k < group.inputs.size(); ++k) {
    if (IsNumber(graph, group.inputs[k])) continue;
    found.inputs.push_back(static_cast<int>(k));
    operands.push_back(group.inputs[k]);
  }
  const auto operand = std::find(operands.begin(), operands.end(), along);
  if (operand == operands.end()) return absl::NotFoundError("the axis is of no input");
  ASSIGN_OR_RETURN(found.op, MakeCompositeOp("group", graph, operands, group.outputs));
  MeaningCache meanings;
  const std::vector<TensorType> types = graph.types(operands);
  ASSIGN_OR_RETURN(const Application application, Apply(*found.op, types, {}, meanings));
  found.meaning = application.meaning;
  found.bindings = BindingsOf(*found.meaning, types, {});
  ASSIGN_OR_RETURN(found.fold, DeriveFold(*found.meaning, 0, static_cast<int>(operand - operands.begin()), axis));
  ASSIGN_OR_RETURN(found.program, MakeBlockProgram(*found.meaning, 0, found.bindings, found.fold));
  if (!HasTiles(found.program)) return absl::NotFoundError("tiles do not have all operations");
  return found;
}

std::shared_ptr<const GroupFold> GroupFolds::Of(const Graph& graph, const Group& group, Value along, int axis) const {
  // Equal nodes of an arena are one.
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (arena_.lock() != graph.arena()) {
      arena_ = graph.arena();
      of_nodes_.clear();
    }
    if (const auto found = of_nodes_.find(group.nodes); found != of_nodes_.end()) return found->second;
  }
  const std::string key = GroupSignature(graph, group, [&](Value x) { return x == along ? "along" : ""; });
  const auto known = [&]() -> std::optional<std::shared_ptr<const GroupFold>> {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = known_.find(key);
    return found == known_.end() ? std::nullopt : std::optional(found->second);
  }();
  std::shared_ptr<const GroupFold> made = known.value_or(nullptr);
  if (!known && OperationsOf(graph, group) >= least_operations_) {
    absl::StatusOr<GroupFold> found = FoldOf(graph, group, along, axis);
    if (found.ok() && allowed_->AllowFold(found->fold)) made = std::make_shared<const GroupFold>(*std::move(found));
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  made = known_.try_emplace(key, std::move(made)).first->second;
  if (arena_.lock() == graph.arena()) of_nodes_[group.nodes] = made;
  return made;
}

std::vector<FusedGroup> GroupFolds::Join(const Graph& graph, std::vector<FusedGroup> groups,
                                         const std::function<bool(const FusedGroup&)>& accept) const {
  if (graph.mode() == Mode::kTraining) return groups;
  std::set<size_t> gone;
  std::map<size_t, FusedGroup> joined;  // by sink
  const auto is_product = [](const FusedGroup& group) { return group.kind == FusedGroup::Kind::kMatmul; };
  if (std::none_of(groups.begin(), groups.end(), is_product)) return groups;
  const FoldCandidates candidates(graph, groups);
  for (size_t sink = 0; sink < groups.size(); ++sink) {
    const std::vector<size_t> parts = candidates.Behind(sink);
    if (parts.empty()) continue;
    FusedGroup group{.kind = FusedGroup::Kind::kFold};
    std::vector<int> members;
    for (const size_t part : parts) {
      for (NodeId id : groups[part].group.nodes) members.push_back(graph.index(id));
    }
    std::sort(members.begin(), members.end());
    group.group = MakeGroup(graph, members, {graph.index(groups[sink].group.outputs[0].node)});
    const Value right = graph.node(groups[sink].group.nodes[0]).operands[1];
    group.fold = Of(graph, group.group, right, graph.type(right).rank() - 2);
    if (group.fold == nullptr) continue;
    for (const size_t part : parts) group.parts.push_back(groups[part]);
    if (!accept(group)) continue;
    for (const size_t part : parts) gone.insert(part);
    joined.emplace(sink, std::move(group));
  }
  if (joined.empty()) return groups;
  std::vector<FusedGroup> left;
  for (size_t g = 0; g < groups.size(); ++g) {
    if (const auto found = joined.find(g); found != joined.end()) {
      left.push_back(std::move(found->second));
    } else if (!gone.contains(g)) {
      left.push_back(std::move(groups[g]));
    }
  }
  return left;
}

}  // namespace rewright::cpu
