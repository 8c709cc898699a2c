#include "search/cost_model.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/index/cost_features.h"

namespace rewright {
namespace {

// A device does 1e9 operations and more per second; a graph that folds weights must never look slower for it.
constexpr double kSecondsPerLoadFlop = 1e-17;
constexpr double kSecondsPerLoadByte = 1e-17;
constexpr double kSecondsPerNode = 1e-11;

// Constants of at most this number of elements are part of the signature by content.
constexpr int64_t kSmallConstant = 16;

int64_t Bits(double value) {
  int64_t bits;
  static_assert(sizeof bits == sizeof value);
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Writes the features of a group that a device can see as a list of numbers. Every list is preceded by its length, so
// that equal signatures mean equal groups.
class SignatureWriter {
 public:
  SignatureWriter(const Graph& graph, const Group& group) : graph_(graph), group_(group) {}

  std::vector<int64_t> Write() {
    out_.reserve(kUsualLength);
    Put(static_cast<int64_t>(group_.nodes.size()));
    for (NodeId id : group_.nodes) PutNode(graph_.node(id));
    for (Value output : group_.outputs) {
      Put(NumberOf(group_.nodes, output.node));
      Put(output.output);
    }
    return std::move(out_);
  }

 private:
  static constexpr size_t kUsualLength = 64;

  void Put(int64_t number) { out_.push_back(number); }

  // -1: it is not there. Groups are small.
  template <typename T>
  static int64_t NumberOf(const std::vector<T>& list, const T& wanted) {
    const auto it = std::find(list.begin(), list.end(), wanted);
    return it == list.end() ? -1 : it - list.begin();
  }

  void PutNode(const Node& node) {
    // Operators are never destroyed, so their addresses are names.
    Put(static_cast<int64_t>(reinterpret_cast<intptr_t>(node.op)));
    for (const auto& [name, attr] : node.attrs) PutAttr(attr);
    Put(static_cast<int64_t>(node.operands.size()));
    for (Value operand : node.operands) PutOperand(operand);
    for (const TensorType& type : node.outputs) PutType(type);
  }

  void PutAttr(const Attr& attr) {
    Put(static_cast<int64_t>(attr.index()));
    if (const auto* integer = std::get_if<int64_t>(&attr)) {
      Put(*integer);
    } else if (const auto* real = std::get_if<double>(&attr)) {
      Put(Bits(*real));
    } else if (const auto* list = std::get_if<std::vector<int64_t>>(&attr)) {
      Put(static_cast<int64_t>(list->size()));
      out_.insert(out_.end(), list->begin(), list->end());
    } else {
      Put(static_cast<int64_t>(std::get<DType>(attr)));
    }
  }

  void PutOperand(Value operand) {
    if (const int64_t place = NumberOf(group_.nodes, operand.node); place >= 0) {
      Put(place);
      Put(operand.output);
      return;
    }
    const int64_t known = NumberOf(externals_, operand);
    Put(known >= 0 ? -1 - known : -1 - static_cast<int64_t>(externals_.size()));
    if (known >= 0) return;
    externals_.push_back(operand);
    const Node& node = graph_.node(operand.node);
    PutType(graph_.type(operand));
    Put(graph_.IsKnown(node));
    const bool by_content = node.leaf == LeafKind::kConstant && node.outputs[0].num_elements() <= kSmallConstant;
    Put(by_content);
    if (!by_content) return;
    for (int64_t i = 0; i < node.data.num_elements(); ++i) {
      Put(IsFloating(node.data.dtype()) ? Bits(node.data.At(i)) : node.data.AtInt(i));
    }
  }

  void PutType(const TensorType& type) {
    Put(static_cast<int64_t>(type.dtype));
    Put(type.rank());
    out_.insert(out_.end(), type.shape.begin(), type.shape.end());
  }

  const Graph& graph_;
  const Group& group_;
  std::vector<Value> externals_;
  std::vector<int64_t> out_;
};

std::string GroupString(const Graph& graph, const Group& group) {
  std::string text;
  for (NodeId id : group.nodes) absl::StrAppend(&text, text.empty() ? "" : "+", graph.node(id).op->name);
  return text;
}

}  // namespace

double TieBreak(const Graph& graph) {
  double seconds = 0;
  for (NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (node.op == nullptr) continue;
    if (!graph.IsKnown(node)) {
      seconds += kSecondsPerNode;
      continue;
    }
    seconds +=
        kSecondsPerLoadFlop * FeaturesOf(*node.meaning, graph.types(node.operands), node.attrs, node.outputs).flops;
    for (const TensorType& type : node.outputs) {
      seconds += kSecondsPerLoadByte * static_cast<double>(type.num_bytes());
    }
  }
  return seconds;
}

absl::StatusOr<GraphCost> CostModel::Cost(const Graph& graph) {
  GraphCost cost;
  for (const Group& group : device_.Partition(graph)) {
    const absl::StatusOr<double> seconds = GroupCost(graph, group);
    if (!seconds.ok()) return seconds.status();
    cost.seconds += *seconds;
  }
  cost.tie_break = TieBreak(graph);
  return cost;
}

absl::StatusOr<double> CostModel::GroupCost(const Graph& graph, const Group& group) {
  Signature signature = SignatureWriter(graph, group).Write();
  signature.push_back(static_cast<int64_t>(device_.CostContext(graph, group)));
  {
    const absl::ReaderMutexLock lock(&mutex_);
    if (auto it = seconds_.find(signature); it != seconds_.end()) return it->second;
  }
  const absl::MutexLock lock(&mutex_);
  if (auto it = seconds_.find(signature); it != seconds_.end()) return it->second;
  if (auto it = refused_.find(signature); it != refused_.end()) return it->second;
  if (stop_ && stop_()) return absl::DeadlineExceededError("no time is left to ask for costs");
  const absl::StatusOr<double> seconds = device_.Cost(graph, group);
  if (!seconds.ok()) {
    const std::string what = absl::StrCat("cost of ", GroupString(graph, group), " on ", device_.name());
    return refused_.emplace(std::move(signature), ErrorAt(what, seconds.status())).first->second;
  }
  seconds_.emplace(std::move(signature), *seconds);
  return *seconds;
}

}  // namespace rewright
