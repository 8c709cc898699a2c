#include "runtime/parallel/rank_graph.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/interpreter/interpreter.h"
#include "core/lift/lift.h"
#include "core/ops/ops.h"
#include "core/tensor/memory.h"
#include "runtime/comm/collectives.h"

namespace rewright {
namespace {

int AxisOf(const Node& node) { return static_cast<int>(std::get<int64_t>(node.attrs.at("axis"))); }

// The reduction over the devices that the application may be.
std::optional<Reduction> ReductionOf(const Node& node) {
  const std::pair<const OpDef*, Reduction> all[] = {
      {ops::ReduceSum(), Reduction::kSum}, {ops::ReduceMean(), Reduction::kSum}, {ops::ReduceProd(), Reduction::kProd},
      {ops::ReduceMax(), Reduction::kMax}, {ops::ReduceMin(), Reduction::kMin},  {ops::ReduceAnd(), Reduction::kAnd},
      {ops::ReduceOr(), Reduction::kOr},
  };
  for (const auto& [op, reduction] : all) {
    if (node.op != op) continue;
    const bool over_devices = std::get<std::vector<int64_t>>(node.attrs.at("axes")) == std::vector<int64_t>{0};
    if (over_devices && std::get<int64_t>(node.attrs.at("keepdims")) == 0) return reduction;
  }
  return std::nullopt;
}

bool IsPlacement(const OpDef* op) {
  return op == ops::Partition() || op == ops::Replicate() || op == ops::Halo() || op == ops::GatherRows();
}

TensorType PartType(TensorType type) {
  type.shape.erase(type.shape.begin());
  return type;
}

class Projector {
 public:
  Projector(const Graph& cut, int rank, int size)
      : cut_(cut), rank_(rank), size_(size), arena_(std::make_shared<Arena>(cut.mode())) {
    for (NodeId id : cut.nodes()) {
      if (!cut.node(id).name.empty()) taken_.insert(cut.node(id).name);
    }
  }

  absl::StatusOr<RankGraph> Run() {
    for (Value input : cut_.inputs()) RETURN_IF_ERROR(AddLeaf(input));
    for (Value state : cut_.states()) RETURN_IF_ERROR(AddLeaf(state));
    for (NodeId id : cut_.nodes()) RETURN_IF_ERROR(Visit(id));
    std::vector<Output> outputs;
    for (const Output& output : cut_.outputs()) {
      if (output.updates.node < 0) {
        ASSIGN_OR_RETURN(const Value value, Whole(output.value));
        outputs.push_back({value, output.name});
        continue;
      }
      const auto axis = block_axis_.find(output.updates);
      ASSIGN_OR_RETURN(const Value value,
                       axis == block_axis_.end() ? Whole(output.value) : Block(output.value, axis->second));
      outputs.push_back({value, output.name, leaves_.at(output.updates)});
    }
    outputs.insert(outputs.end(), operands_.begin(), operands_.end());
    inputs_.insert(inputs_.end(), exchanged_.begin(), exchanged_.end());
    result_.graph = Graph(arena_, inputs_, std::move(outputs));
    return std::move(result_);
  }

 private:
  // ---------------------------------------------------------------- who has what

  // Returns whether the value has the device as its first axis. On another number of devices it is a tensor like any
  // other.
  bool OnDevices(Value value) const {
    const OpDef* op = cut_.node(value.node).op;
    return op != nullptr && (IsPlacement(op) || IsOnDevices(*op)) && cut_.type(value).shape[0] == size_;
  }

  bool IsPartition(NodeId id) const { return cut_.node(id).op == ops::Partition() && OnDevices({id, 0}); }

  // The axis along which every use cuts the leaf; -1: some use wants all of it.
  int BlockAxis(Value leaf) const {
    if (!cut_.contains(leaf.node)) return -1;
    for (const Output& output : cut_.outputs()) {
      if (output.value == leaf) return -1;
    }
    int axis = -1;
    for (int user : cut_.users(cut_.index(leaf.node))) {
      const Node& node = cut_.node(cut_.nodes()[user]);
      if (!IsPartition(cut_.nodes()[user]) || (axis >= 0 && AxisOf(node) != axis)) return -1;
      axis = AxisOf(node);
    }
    return axis;
  }

  // Returns whether some use wants all of what is joined or reduced: it is not only cut again.
  bool WantsWhole(NodeId id) const {
    const Value value{id, 0};
    for (const Output& output : cut_.outputs()) {
      if (output.value == value && !block_axis_.contains(output.updates)) return true;
    }
    const std::vector<int>& users = cut_.users(cut_.index(id));
    return std::any_of(users.begin(), users.end(), [&](int user) { return !IsPartition(cut_.nodes()[user]); });
  }

  // ---------------------------------------------------------------- leaves

  absl::Status AddLeaf(Value leaf) {
    const Node& node = cut_.node(leaf.node);
    ShardedLeaf here{node.name, node.outputs[0], BlockAxis(leaf)};
    TensorType type = here.whole;
    if (here.axis >= 0) {
      block_axis_[leaf] = here.axis;
      type = BlockType(type, here.axis, size_);
    }
    if (node.leaf == LeafKind::kInput) {
      ASSIGN_OR_RETURN(leaves_[leaf], arena_->AddInput(node.name, type));
      inputs_.push_back(leaves_[leaf]);
      result_.inputs.push_back(std::move(here));
      return absl::OkStatus();
    }
    Tensor value = *cut_.arena()->Elements(leaf.node);
    if (value.data() == nullptr) {  // never given
      value = Tensor(type, nullptr, nullptr);
    } else if (here.axis >= 0) {
      ASSIGN_OR_RETURN(Tensor block, AllocateTensor(type, absl::StrCat("a block of ", node.name)));
      CopyBlock(value, here.axis, rank_, &block);
      value = std::move(block);
    }
    ASSIGN_OR_RETURN(leaves_[leaf], arena_->AddState(node.name, value));
    if (cut_.mode() == Mode::kTraining) result_.states.push_back(std::move(here));
    return absl::OkStatus();
  }

  std::string FreeName(const std::string& stem) {
    std::string name;
    do name = absl::StrCat(stem, ".", numbered_++);
    while (!taken_.insert(name).second);
    return name;
  }

  // ---------------------------------------------------------------- nodes

  absl::Status Visit(NodeId id) {
    const Node& node = cut_.node(id);
    if (node.leaf == LeafKind::kConstant) {
      wholes_[{id, 0}] = arena_->AddConstant(node.data);
      return absl::OkStatus();
    }
    // Collectives wait for what is wanted of them.
    if (node.op == nullptr || IsCollective(node)) return absl::OkStatus();
    if (OnDevices({id, 0}) && IsPlacement(node.op)) {
      ASSIGN_OR_RETURN(parts_[Value(id, 0)], Placed(id));
      return absl::OkStatus();
    }
    const bool on_devices = OnDevices({id, 0});
    const OpDef* base = on_devices ? LiftedFrom(*node.op) : nullptr;
    std::vector<Value> operands;
    for (Value operand : node.operands) {
      ASSIGN_OR_RETURN(operands.emplace_back(), on_devices ? Part(operand) : Whole(operand));
    }
    if (on_devices && base == nullptr) return OwnBlock(id, std::move(operands));
    if (base == nullptr) {
      const NodeId whole = arena_->AddLike(node, std::move(operands));
      for (int32_t k = 0; k < static_cast<int32_t>(node.outputs.size()); ++k) wholes_[{id, k}] = {whole, k};
      return absl::OkStatus();
    }
    Attrs attrs = node.attrs;
    if (base->inputs.empty()) attrs.erase(node.op->attrs.back().name);  // the number of devices
    ASSIGN_OR_RETURN(const NodeId part, arena_->Add(*base, std::move(operands), std::move(attrs)));
    for (int32_t k = 0; k < static_cast<int32_t>(node.outputs.size()); ++k) {
      parts_[{id, k}] = {part, k};
      CHECK(arena_->type({part, k}) == PartType(node.outputs[k])) << node.op->name;
    }
    return absl::OkStatus();
  }

  // block_f, where this rank is the only device.
  absl::Status OwnBlock(NodeId id, std::vector<Value> operands) {
    const Node& node = cut_.node(id);
    for (Value& operand : operands) {
      ASSIGN_OR_RETURN(operand, AsRow(operand));
    }
    ASSIGN_OR_RETURN(const NodeId block,
                     arena_->Add(*node.op, std::move(operands), OnlyBlockOf(*node.op, node.attrs, rank_)));
    for (int32_t k = 0; k < static_cast<int32_t>(node.outputs.size()); ++k) {
      ASSIGN_OR_RETURN(const Value part, Reshaped({block, k}, PartType(node.outputs[k]).shape));
      parts_[{id, k}] = part;
    }
    return absl::OkStatus();
  }

  // `reshape` takes no sizes of 0. Tensors without elements are all equal, so a constant stands for them.
  absl::StatusOr<Value> Reshaped(Value value, const Shape& shape) {
    const TensorType type{arena_->type(value).dtype, shape};
    if (type.num_elements() == 0) return arena_->AddConstant(Tensor(type));
    return arena_->Apply("reshape", {value}, {{"shape", shape}});
  }

  // The part with an axis of one device before the others.
  absl::StatusOr<Value> AsRow(Value part) {
    Shape shape = arena_->type(part).shape;
    shape.insert(shape.begin(), 1);
    return Reshaped(part, shape);
  }

  absl::StatusOr<Value> Placed(NodeId id) {
    const Node& node = cut_.node(id);
    if (node.op == ops::Partition()) return Block(node.operands[0], AxisOf(node));
    if (node.op == ops::Replicate()) return Whole(node.operands[0]);
    return node.op == ops::Halo() ? Halo(id) : GatherRows(node);
  }

  bool IsCollective(const Node& node) const {
    return (node.op == ops::Combine() || ReductionOf(node)) && OnDevices(node.operands[0]);
  }

  // The whole value, which all ranks have.
  absl::StatusOr<Value> Whole(Value value) {
    if (const auto found = wholes_.find(value); found != wholes_.end()) return found->second;
    const Node& node = cut_.node(value.node);
    if (const auto leaf = leaves_.find(value); leaf != leaves_.end()) {
      CHECK(!block_axis_.contains(value)) << node.name;
      return leaf->second;
    }
    Value whole;
    if (OnDevices(value)) {
      ASSIGN_OR_RETURN(whole, Stacked(value));
    } else {
      CHECK(IsCollective(node)) << node.op->name;
      ASSIGN_OR_RETURN(const Value part, Part(node.operands[0]));
      const bool gathers = node.op == ops::Combine();
      Collective collective{gathers ? Collective::Kind::kAllGather : Collective::Kind::kAllReduce};
      if (gathers) {
        collective.axis = AxisOf(node);
      } else {
        collective.reduction = *ReductionOf(node);
      }
      ASSIGN_OR_RETURN(whole, Exchanged(std::move(collective), part, value, node.outputs[0]));
    }
    wholes_[value] = whole;
    return whole;
  }

  // This rank's part of a value on devices.
  absl::StatusOr<Value> Part(Value value) {
    if (const auto found = parts_.find(value); found != parts_.end()) return found->second;
    CHECK(!OnDevices(value) && cut_.type(value).shape[0] == size_) << cut_.node(value.node).op->name;
    ASSIGN_OR_RETURN(const Value whole, Whole(value));
    const TensorType type = arena_->type(whole);
    std::vector<int64_t> starts(type.shape.size(), 0), stops = type.shape;
    starts[0] = rank_;
    stops[0] = rank_ + 1;
    ASSIGN_OR_RETURN(const Value slice, arena_->Apply("slice", {whole}, {{"starts", starts}, {"stops", stops}}));
    ASSIGN_OR_RETURN(parts_[value], Reshaped(slice, PartType(type).shape));
    return parts_[value];
  }

  // This rank's block of what all have, or of what is joined or reduced.
  absl::StatusOr<Value> Block(Value value, int axis) {
    const Node& node = cut_.node(value.node);
    if (block_axis_.contains(value)) return leaves_.at(value);
    const bool cut_again =
        node.op != nullptr && IsCollective(node) && !wholes_.contains(value) && !WantsWhole(value.node);
    const bool joined = node.op == ops::Combine() && IsCollective(node);
    if (joined && AxisOf(node) == axis) return Part(node.operands[0]);
    const TensorType block = BlockType(cut_.type(value), axis, size_);
    if (!cut_again) {
      ASSIGN_OR_RETURN(const Value whole, Whole(value));
      std::vector<int64_t> starts(block.shape.size(), 0), stops = block.shape;
      starts[axis] = rank_ * block.shape[axis];
      stops[axis] += starts[axis];
      return arena_->Apply("slice", {whole}, {{"starts", starts}, {"stops", stops}});
    }
    const auto [found, is_new] = blocks_.try_emplace({value, axis});
    if (!is_new) return found->second;
    ASSIGN_OR_RETURN(const Value part, Part(node.operands[0]));
    Collective collective{joined ? Collective::Kind::kAllToAll : Collective::Kind::kReduceScatter};
    collective.axis = axis;
    if (joined) {
      collective.joined = AxisOf(node);
    } else {
      collective.reduction = *ReductionOf(node);
    }
    ASSIGN_OR_RETURN(const Value result, Exchanged(std::move(collective), part, value, block, axis));
    return blocks_[{value, axis}] = result;
  }

  // A value on devices as it is in the cut graph.
  absl::StatusOr<Value> Stacked(Value value) {
    ASSIGN_OR_RETURN(const Value part, Part(value));
    ASSIGN_OR_RETURN(const Value row, AsRow(part));
    return Exchanged({Collective::Kind::kAllGather}, row, value, cut_.type(value));
  }

  absl::StatusOr<Value> Mean(Value sum) {
    const Value count = arena_->AddConstant(Tensor::Scalar(arena_->type(sum).dtype, size_));
    return arena_->Apply("div", {sum, count});
  }

  absl::StatusOr<Value> Halo(NodeId id) {
    const Node& node = cut_.node(id);
    ASSIGN_OR_RETURN(const Value part, Part(node.operands[0]));
    const int64_t before = std::get<int64_t>(node.attrs.at("before")),
                  after = std::get<int64_t>(node.attrs.at("after"));
    if (before == 0 && after == 0) return part;
    Collective collective{Collective::Kind::kHalo};
    collective.axis = AxisOf(node);
    collective.before = before;
    return Exchanged(std::move(collective), part, {id, 0}, PartType(node.outputs[0]));
  }

  // For blocks of n rows, this rank being p: x[j - p*n] where 0 <= j - p*n < n, else 0, with j = indices mod (size*n).
  absl::StatusOr<Value> GatherRows(const Node& node) {
    ASSIGN_OR_RETURN(const Value table, Part(node.operands[0]));
    ASSIGN_OR_RETURN(const Value indices, Part(node.operands[1]));
    const TensorType type = arena_->type(table), picks = arena_->type(indices);
    const int64_t rows = type.shape[0];
    const auto number = [&](double value) { return arena_->AddConstant(Tensor::Scalar(picks.dtype, value)); };
    ASSIGN_OR_RETURN(const Value row, arena_->Apply("mod", {indices, number(static_cast<double>(rows * size_))}));
    ASSIGN_OR_RETURN(const Value local, arena_->Apply("sub", {row, number(static_cast<double>(rows * rank_))}));
    ASSIGN_OR_RETURN(const Value behind, arena_->Apply("greater_equal", {local, number(0)}));
    ASSIGN_OR_RETURN(const Value before, arena_->Apply("less", {local, number(static_cast<double>(rows))}));
    ASSIGN_OR_RETURN(const Value own, arena_->Apply("logical_and", {behind, before}));
    ASSIGN_OR_RETURN(const Value safe, arena_->Apply("where", {own, local, number(0)}));
    ASSIGN_OR_RETURN(const Value found, arena_->Apply("gather", {table, safe}, {{"axis", int64_t{0}}}));
    Shape shape = picks.shape;
    shape.resize(arena_->type(found).shape.size(), 1);
    ASSIGN_OR_RETURN(const Value mask, Reshaped(own, shape));
    return arena_->Apply("where", {mask, found, arena_->AddConstant(Tensor::Scalar(type.dtype, 0))});
  }

  // The result of a collective on `operand`, which is this rank's part of `value` of the cut graph. The result is all
  // of the value, this rank's part where the value is on devices and the type says so, or this rank's block along an
  // axis.
  absl::StatusOr<Value> Exchanged(Collective collective, Value operand, Value value, const TensorType& type,
                                  int block_axis = -1) {
    if (cut_.IsKnown(value)) return Known(value, type, block_axis);
    const Node& producer = arena_->node(operand.node);
    collective.of = producer.op != nullptr ? producer.op->name : producer.name;
    collective.name = FreeName(CollectiveName(collective.kind));
    ASSIGN_OR_RETURN(const Value result, arena_->AddInput(collective.name, type));
    operands_.push_back({operand, collective.name});
    exchanged_.push_back(result);
    result_.collectives.push_back(std::move(collective));
    return cut_.node(value.node).op == ops::ReduceMean() ? Mean(result) : result;
  }

  absl::StatusOr<Value> Known(Value value, const TensorType& type, int block_axis) {
    const Graph graph(cut_.arena(), cut_.inputs(), {{value, "known"}});
    ASSIGN_OR_RETURN(const std::vector<Tensor> found, InterpretGraph(graph, {}));
    if (found[0].type() == type) return arena_->AddConstant(found[0]);
    const int axis = std::max(block_axis, 0);
    Tensor block(BlockType(found[0].type(), axis, size_));
    CopyBlock(found[0], axis, rank_, &block);
    const auto elements = std::make_shared<Tensor>(block);
    return arena_->AddConstant(Tensor(type, elements, elements->data()));
  }

  const Graph& cut_;
  const int rank_, size_;
  const std::shared_ptr<Arena> arena_;
  std::set<std::string> taken_;
  int numbered_ = 0;
  absl::flat_hash_map<Value, int> block_axis_;  // leaves that the rank has a block of
  absl::flat_hash_map<Value, Value> leaves_, wholes_, parts_;
  absl::flat_hash_map<std::pair<Value, int>, Value> blocks_;  // by axis
  std::vector<Value> inputs_, exchanged_;                     // exchanged: results of collectives
  std::vector<Output> operands_;                              // of collectives
  RankGraph result_;
};

}  // namespace

absl::StatusOr<size_t> RankGraph::FindState(const std::string& name) const {
  for (size_t k = 0; k < states.size(); ++k) {
    if (states[k].name == name) return k;
  }
  return absl::NotFoundError("no state " + name);
}

std::vector<Value> RankGraph::StatesInOrder() const {
  std::map<std::string, Value> by_name;
  for (Value state : graph.states()) by_name[graph.node(state.node).name] = state;
  std::vector<Value> ordered;
  for (const ShardedLeaf& state : states) ordered.push_back(by_name.at(state.name));
  return ordered;
}

const char* CollectiveName(Collective::Kind kind) {
  switch (kind) {
    case Collective::Kind::kAllGather: return "all-gather";
    case Collective::Kind::kAllReduce: return "all-reduce";
    case Collective::Kind::kReduceScatter: return "reduce-scatter";
    case Collective::Kind::kAllToAll: return "all-to-all";
    case Collective::Kind::kHalo: return "halo";
  }
  return "";
}

absl::StatusOr<RankGraph> GraphOfRank(const Graph& cut, int rank, int size) { return Projector(cut, rank, size).Run(); }

}  // namespace rewright
