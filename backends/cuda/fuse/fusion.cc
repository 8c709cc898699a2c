#include "backends/cuda/fuse/fusion.h"

#include <algorithm>
#include <map>
#include <set>

#include "backends/common/fuser.h"
#include "backends/common/group.h"
#include "backends/common/node_access.h"
#include "backends/cuda/codegen/kernel_source.h"
#include "backends/cuda/lower/context_layout.h"
#include "core/ops/ops.h"

namespace rewright::cuda {
namespace {

constexpr size_t kMaxMembers = 32;
constexpr size_t kMaxInputs = 24;
constexpr size_t kMaxSiblings = 8;
constexpr double kCheap = 6;       // work on an element that may be done again at every reader
constexpr double kReduction = 24;  // work that says a node reduces

// Limits of the library's fused attention.
constexpr int64_t kMaxDepth = 128, kDepthUnit = 8;

class CudaFuser : private Fuser<FusedGroup> {
 public:
  CudaFuser(const Graph& graph, const FusionOptions& options) : Fuser(graph), options_(options) {}

  using Fuser::Restrict;

  std::vector<FusedGroup> Run() {
    const int count = num_nodes();
    for (int i = 0; i < count && options_.attention; ++i) {
      if (IsFree(i)) FuseAttention(i);
    }
    for (int i = 0; i < count; ++i) {
      if (IsFree(i) && IsAnchor(i)) FuseAnchor(i);
    }
    for (int i = count - 1; i >= 0; --i) {
      if (!IsFree(i)) continue;
      if (HasSlots(i)) {
        AddGroup({.kind = FusedGroup::Kind::kConcat}, {i});
      } else {
        Gather(i);
      }
    }
    return JoinSiblings(TakeGroups());
  }

 private:
  bool IsAnchor(int i) const {
    const Node& node = NodeAt(i);
    if (node.outputs[0].dtype != DType::kFloat32 || node.outputs[0].num_elements() == 0) return false;
    for (Value operand : node.operands) {
      if (graph_.type(operand).num_elements() == 0) return false;  // an empty sum is no call of a library
    }
    return node.op == ops::Conv2d() || node.op == ops::Matmul();
  }

  // ---- attention

  // The application that gives `value`, if no other node reads it and it is free; null otherwise.
  const Node* OnlyFor(Value value, int reader) const {
    const Node& node = graph_.node(value.node);
    const int i = graph_.index(value.node);
    if (!IsFree(i) || graph_.is_output(value) || node.outputs.size() != 1) return nullptr;
    const std::vector<int>& users = graph_.users(i);
    return users.size() == 1 && users[0] == reader ? &node : nullptr;
  }

  // Matches attention from its second product back to the first.
  void FuseAttention(int last) {
    const Node& second = NodeAt(last);
    if (second.op != ops::Matmul() || !IsAnchor(last)) return;
    std::vector<int> members = {last};
    Value at = second.operands[0];
    const Node* node = OnlyFor(at, last);
    const TensorType scores = graph_.type(at);
    auto step = [&](Value next) {
      members.push_back(graph_.index(at.node));
      at = next;
      node = OnlyFor(at, members.back());
    };
    if (node == nullptr || node->op != ops::Softmax() || Int(*node, "axis") != scores.rank() - 1) return;
    step(node->operands[0]);
    FusedGroup group{.kind = FusedGroup::Kind::kAttention};
    // The mask is the summand that is no scaled product.
    if (node != nullptr && node->op == ops::Add()) {
      const int product = IsScores(node->operands[0]) ? 0 : 1;
      group.mask = node->operands[1 - product];
      if (graph_.type(group.mask).rank() > 4) return;
      step(node->operands[product]);
    }
    if (node != nullptr && (node->op == ops::Mul() || node->op == ops::Div())) {
      const int constant = SingleConstant(graph_, node->operands[1]) != nullptr || node->op == ops::Div() ? 1 : 0;
      const Tensor* scale = SingleConstant(graph_, node->operands[constant]);
      if (scale == nullptr) return;
      group.scale = node->op == ops::Div() ? 1 / scale->At(0) : scale->At(0);
      step(node->operands[1 - constant]);
    }
    if (node == nullptr || node->op != ops::Matmul() || graph_.type(at) != scores) return;
    members.push_back(graph_.index(at.node));
    if (IsAttention(graph_.type(node->operands[0]), graph_.type(node->operands[1]), graph_.type(second.operands[1]))) {
      AddGroup(std::move(group), std::move(members));
    }
  }

  // A product, scaled or not.
  bool IsScores(Value value) const {
    const Node& node = graph_.node(value.node);
    if (!graph_.IsRun(node)) return false;
    if (node.op != ops::Mul() && node.op != ops::Div()) return node.op == ops::Matmul();
    return std::any_of(node.operands.begin(), node.operands.end(), [&](Value operand) {
      const Node& product = graph_.node(operand.node);
      return product.op != nullptr && product.op == ops::Matmul();
    });
  }

  static bool IsAttention(const TensorType& query, const TensorType& key, const TensorType& value) {
    const size_t rank = query.shape.size();
    if (query.dtype != DType::kFloat32 || rank < 2 || rank > 4) return false;
    if (key.shape.size() != rank || value.shape.size() != rank) return false;
    for (size_t k = 0; k + 2 < rank; ++k) {
      if (key.shape[k] != query.shape[k] || value.shape[k] != query.shape[k]) return false;
    }
    const auto fits = [](int64_t depth) { return depth % kDepthUnit == 0 && depth > 0 && depth <= kMaxDepth; };
    return fits(query.shape[rank - 1]) && fits(value.shape[rank - 1]);
  }

  // ---- anchors

  void FuseAnchor(int anchor) {
    FusedGroup group{.kind = NodeAt(anchor).op == ops::Conv2d() ? FusedGroup::Kind::kConv : FusedGroup::Kind::kMatmul};
    std::vector<int> members = Chain(anchor, [&](int last, int next) {
      return group.activation == Activation::kNone &&
             (IsReshapedForEpilogue(last, next, group) || Take(IdAt(last), NodeAt(next), &group));
    });
    AddGroup(std::move(group), std::move(members));
  }

  // A product lies in memory in row-major order, whatever its shape is called. Only in front of what is taken: else
  // the reshape is a view.
  bool IsReshapedForEpilogue(int product, int reshape, const FusedGroup& group) const {
    const Node& node = NodeAt(reshape);
    if (group.kind != FusedGroup::Kind::kMatmul || node.op != ops::Reshape() || Escapes(reshape)) return false;
    const std::vector<int>& users = graph_.users(reshape);
    if (users.size() != 1 || !IsFree(users[0])) return false;
    const Shape& from = NodeAt(product).outputs[0].shape;
    const Shape& to = node.outputs[0].shape;
    FusedGroup trial = group;
    return !to.empty() && to.back() == from.back() && Take(IdAt(reshape), NodeAt(users[0]), &trial);
  }

  static Activation ActivationOf(const Node& node, const FusedGroup& group) {
    if (node.op == ops::Relu()) return Activation::kRelu;
    if (group.kind == FusedGroup::Kind::kConv) {
      const bool limited = node.op == ops::Clip() && Real(node, "min") == 0 && Real(node, "max") > 0;
      return limited ? Activation::kRelu : Activation::kNone;
    }
    if (node.op == ops::Gelu()) return Activation::kGeluErf;
    return node.op == ops::GeluTanh() ? Activation::kGeluTanh : Activation::kNone;
  }

  // Makes `node`, the only reader of `last`, part of the epilogue if it can be.
  bool Take(NodeId last, const Node& node, FusedGroup* group) const {
    const TensorType& type = graph_.node(last).outputs[0];
    if (node.outputs[0] != type || options_.epilogue == Epilogue::kNone) return false;
    const bool whole = options_.epilogue == Epilogue::kWhole;
    if (const Activation activation = ActivationOf(node, *group); activation != Activation::kNone) {
      if (whole) group->activation = activation;
      if (whole && node.op == ops::Clip()) group->most = Real(node, "max");
      return whole;
    }
    if (node.op != ops::Add() || group->residual.node >= 0) return false;
    const int at = node.operands[0] == Value{last, 0} ? 0 : 1;
    const Value other = node.operands[1 - at];
    if (other == Value{last, 0}) return false;
    const TensorType& other_type = graph_.type(other);
    const int channel_axis = group->kind == FusedGroup::Kind::kConv ? 1 : type.rank() - 1;
    if (group->bias.node < 0 && graph_.IsKnown(other) && IsPerChannel(other_type, type, channel_axis)) {
      group->bias = other;
      return true;
    }
    if (other_type != type || !whole) return false;
    group->residual = other;
    return true;
  }

  // ---- generated kernels

  bool HasSlots(int i) const {
    const auto slots = ConcatSlots(graph_, IdAt(i), options_.channels_last, options_.element_bytes);
    return std::any_of(slots.begin(), slots.end(), [](const auto& slot) { return slot.has_value(); });
  }

  // Returns whether producer `i` may be computed in the kernel of these nodes: where its element is cheap enough to be
  // computed anew at every reader, or where it reduces the rows that the kernel's blocks have anyway. `trial` holds
  // `i`.
  bool CanJoin(int i, int sink, const std::vector<int>& trial) const {
    const Node& node = NodeAt(i);
    if (node.outputs.size() != 1 || node.outputs[0].num_elements() == 0) return false;
    if (ElementWork(graph_, IdAt(i), 0) <= kCheap) return true;
    const Value result{IdAt(sink), 0};
    if (options_.channels_last && graph_.type(result).rank() == 4) return false;  // rows do not lie along the last axis
    std::vector<NodeId> nodes;
    for (int member : trial) nodes.push_back(IdAt(member));
    return ReducesOncePerRow(graph_, nodes, result);
  }

  void Gather(int sink) {
    const Node& node = NodeAt(sink);
    const bool moves = OnlyMoves(graph_, node);
    const bool alone = node.outputs.size() > 1 || moves;
    // A reduction reads an element for many results: only the cheapest nodes may be computed anew for each.
    const bool reduces = ElementWork(graph_, IdAt(sink), 0) >= kReduction;
    std::vector<int> members = WithProducers({sink}, [&](int i, const std::set<int>& so_far) {
      if (alone || so_far.size() >= kMaxMembers) return false;
      std::vector<int> trial(so_far.begin(), so_far.end());
      trial.insert(std::lower_bound(trial.begin(), trial.end(), i), i);
      if (!CanJoin(i, sink, trial)) return false;
      if (const double work = ElementWork(graph_, IdAt(i), 0); reduces && work > kCheap / 2 && work <= kCheap)
        return false;
      return InputsOf(graph_, trial).size() <= kMaxInputs;
    });
    AddGroup({.kind = moves ? FusedGroup::Kind::kView : FusedGroup::Kind::kKernel}, std::move(members));
  }

  // ---- siblings

  // The one value that an anchor's group reads beside weights; a node of -1 where there are several.
  Value OnlyOperand(const FusedGroup& group) const {
    Value only;
    if (group.kind != FusedGroup::Kind::kConv && group.kind != FusedGroup::Kind::kMatmul) return only;
    for (Value input : group.group.inputs) {
      if (graph_.IsKnown(input)) continue;
      if (only.node >= 0) return Value();
      only = input;
    }
    return only;
  }

  // Where the first of them stands, all can: they wait for that value alone.
  std::vector<FusedGroup> JoinSiblings(std::vector<FusedGroup> groups) const {
    std::vector<FusedGroup> joined;
    std::map<Value, size_t> places;  // of the last group of siblings that read a value
    for (FusedGroup& group : groups) {
      const Value operand = OnlyOperand(group);
      if (operand.node < 0) {
        joined.push_back(std::move(group));
        continue;
      }
      const auto [place, first] = places.emplace(operand, joined.size());
      if (!first && joined[place->second].parts.size() < kMaxSiblings) {
        joined[place->second].parts.push_back(std::move(group));
        continue;
      }
      place->second = joined.size();
      joined.emplace_back();
      joined.back().kind = FusedGroup::Kind::kSiblings;
      joined.back().parts.push_back(std::move(group));
    }
    for (FusedGroup& group : joined) {
      if (group.kind != FusedGroup::Kind::kSiblings) continue;
      if (group.parts.size() == 1) {
        FusedGroup alone = std::move(group.parts[0]);
        group = std::move(alone);
        continue;
      }
      std::vector<int> members;
      std::vector<Value> outputs;
      for (const FusedGroup& part : group.parts) {
        for (NodeId id : part.group.nodes) members.push_back(graph_.index(id));
        outputs.insert(outputs.end(), part.group.outputs.begin(), part.group.outputs.end());
      }
      std::sort(members.begin(), members.end());
      group.group = MakeGroup(graph_, members);
      group.group.outputs = std::move(outputs);
    }
    return joined;
  }

  const FusionOptions options_;
};

}  // namespace

std::vector<FusedGroup> FuseGraph(const Graph& graph, const FusionOptions& options) {
  return CudaFuser(graph, options).Run();
}

std::vector<FusedGroup> FuseNodes(const Graph& graph, const std::vector<NodeId>& nodes, Epilogue epilogue) {
  FusionOptions options;
  options.epilogue = epilogue;
  CudaFuser fuser(graph, options);
  fuser.Restrict(nodes);
  return fuser.Run();
}

}  // namespace rewright::cuda
