#include "core/onnx/source.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/onnx/import/graph_importer.h"

namespace rewright {
namespace {

constexpr int kWorthRestoring = 2;   // nodes in the place of one
constexpr int kWorthMore = 12;       // nodes in the place of one of several
constexpr int kMostRestored = 4;     // nodes before one
constexpr int kMaxChainDepth = 256;  // of a chain of nodes that compute a constant

// A change of an operator's definition after which an older node has another meaning.
struct Change {
  const char* op_type;
  int64_t opset;
  const char* attribute = "";  // nodes without it are not concerned
};

// Changes of operators from opset 7 on, from ONNX's change log. Pure additions (types, attributes with a default) are
// left out.
constexpr Change kChanges[] = {
    {"AveragePool", 19, "ceil_mode"},
    {"BatchNormalization", 9, "spatial"},
    {"Clip", 11, "min"},
    {"Clip", 11, "max"},
    {"Dropout", 12},
    {"GridSample", 20},
    {"GroupNormalization", 21},
    {"Hardmax", 13},
    {"LogSoftmax", 13},
    {"Pad", 11},
    {"ReduceL1", 18, "axes"},
    {"ReduceL2", 18, "axes"},
    {"ReduceLogSum", 18, "axes"},
    {"ReduceLogSumExp", 18, "axes"},
    {"ReduceMax", 18, "axes"},
    {"ReduceMean", 18, "axes"},
    {"ReduceMin", 18, "axes"},
    {"ReduceProd", 18, "axes"},
    {"ReduceSum", 13, "axes"},
    {"ReduceSumSquare", 18, "axes"},
    {"Resize", 11},
    {"RoiAlign", 16},
    {"Scatter", 11},
    {"Slice", 10},
    {"Softmax", 13},
    {"Split", 13},
    {"Split", 18},
    {"Squeeze", 13, "axes"},
    {"TopK", 10},
    {"Unsqueeze", 13},
    {"Upsample", 9},
    {"Upsample", 10},
};

}  // namespace

bool CallsFunction(const onnx::NodeProto& node,
                   const google::protobuf::RepeatedPtrField<onnx::FunctionProto>& functions) {
  return std::any_of(functions.begin(), functions.end(), [&](const onnx::FunctionProto& function) {
    return function.name() == node.op_type() && function.domain() == node.domain();
  });
}

bool MeansTheSame(const onnx::NodeProto& node, int64_t from, int64_t to) {
  if (from == to) return true;
  // The outputs beyond the first were statistics of training, in other numbers and orders.
  if (node.op_type() == "BatchNormalization" && from < 14 && to >= 14 && node.output_size() > 1) return false;
  return std::none_of(std::begin(kChanges), std::end(kChanges), [&](const Change& change) {
    return change.opset > from && change.opset <= to && node.op_type() == change.op_type &&
           (change.attribute[0] == '\0' || FindAttribute(node, change.attribute) != nullptr);
  });
}

OnnxSource::OnnxSource(std::shared_ptr<const onnx::ModelProto> model, int64_t opset, std::shared_ptr<Arena> arena,
                       absl::flat_hash_map<std::string, Value> values, std::vector<int> tail)
    : model_(std::move(model)),
      opset_(opset),
      arena_(std::move(arena)),
      values_(std::move(values)),
      tail_(std::move(tail)) {
  for (int i = 0; i < model_->graph().node_size(); ++i) {
    for (const std::string& name : node(i).output()) producers_.emplace(name, i);
  }
}

namespace {

bool AllMeanTheSame(const onnx::NodeProto& node, int64_t from, int64_t to) {
  return (!IsOnnxDomain(node.domain()) || MeansTheSame(node, from, to)) &&
         std::all_of(node.attribute().begin(), node.attribute().end(), [&](const onnx::AttributeProto& attribute) {
           const auto& nodes = attribute.g().node();
           return std::all_of(nodes.begin(), nodes.end(),
                              [&](const auto& inner) { return AllMeanTheSame(inner, from, to); });
         });
}

}  // namespace

bool OnnxSource::TailMeansTheSame(int64_t opset) const {
  return std::all_of(tail_.begin(), tail_.end(), [&](int i) { return AllMeanTheSame(node(i), opset_, opset); });
}

bool OnnxSource::CanBeKept(int i, int64_t opset) const {
  return !HoldsSubgraph(node(i)) && MeansTheSame(node(i), opset_, opset);
}

const Tensor* OnnxSource::Elements(const std::string& name) const {
  const auto found = values_.find(name);
  const bool is_leaf = found != values_.end() && arena_->node(found->second.node).op == nullptr;
  return is_leaf ? arena_->KnownElements(found->second.node) : nullptr;
}

int OnnxSource::producer(const std::string& name) const {
  const auto found = producers_.find(name);
  return found == producers_.end() ? -1 : found->second;
}

namespace {

// The nodes that compute the constants that a node of the source reads.
class ConstantChain {
 public:
  ConstantChain(const OnnxSource& source, int64_t opset, const absl::flat_hash_set<NodeId>& sized)
      : source_(source), opset_(opset), sized_(sized) {}

  // Returns false if the known tensor can neither be computed by nodes of the source nor written as it is.
  bool Add(const std::string& name) { return AddTensor(name, 0); }

  std::vector<int> Nodes() && {
    std::sort(nodes_.begin(), nodes_.end());
    nodes_.erase(std::unique(nodes_.begin(), nodes_.end()), nodes_.end());
    return std::move(nodes_);
  }

 private:
  bool AddTensor(const std::string& name, int depth) {
    if (const auto known = seen_.find(name); known != seen_.end()) return known->second;
    return seen_[name] = IsThere(name, depth);
  }

  bool IsThere(const std::string& name, int depth) {
    const Value value = source_.value(name);
    const Node& node = source_.arena()->node(value.node);
    if (!source_.arena()->IsKnown(node)) return false;
    const int producer = source_.producer(name);
    const bool leaf = node.op == nullptr;
    const bool small = node.outputs[value.output].num_bytes() <= kSmallBytes || sized_.contains(value.node);
    if (leaf && (IsGivenAsItIs(value) || small)) return true;
    if (producer < 0) return false;
    const size_t before = nodes_.size();
    if (AddNode(producer, depth + 1)) {
      nodes_.push_back(producer);
      return true;
    }
    nodes_.resize(before);
    return leaf;
  }

  // Matches an initializer or a constant, possibly under another name.
  bool IsGivenAsItIs(Value leaf) const {
    const int producer = source_.producer(source_.arena()->name(leaf));
    return producer < 0 || source_.node(producer).op_type() == "Constant";
  }

  bool AddNode(int i, int depth) {
    const onnx::NodeProto& node = source_.node(i);
    if (depth > kMaxChainDepth || !source_.CanBeKept(i, opset_)) return false;
    return std::all_of(node.input().begin(), node.input().end(),
                       [&](const std::string& name) { return name.empty() || AddTensor(name, depth); });
  }

  const OnnxSource& source_;
  const int64_t opset_;
  const absl::flat_hash_set<NodeId>& sized_;
  absl::flat_hash_map<std::string, bool> seen_;
  std::vector<int> nodes_;
};

// Finds the inputs of a node of the source in the values that play the part of its outputs.
class Matching {
 public:
  Matching(const OnnxSource& source, const onnx::NodeProto& node, absl::flat_hash_map<Value, Value> bindings)
      : arena_(*source.arena()), bindings_(std::move(bindings)) {
    for (const std::string& name : node.input()) {
      if (!name.empty()) inputs_.insert(source.value(name));
    }
  }

  // Matches `theirs`, a value of the source, with `ours`.
  bool Match(Value theirs, Value ours) {
    if (inputs_.contains(theirs)) {
      const auto [bound, is_new] = bindings_.emplace(theirs, ours);
      return is_new ? arena_.type(theirs) == arena_.type(ours) : bound->second == ours;
    }
    if (theirs == ours && !ReadsInput(theirs)) return true;
    if (const auto known = matched_.find(theirs); known != matched_.end()) return known->second == ours;
    const Node& a = arena_.node(theirs.node);
    const Node& b = arena_.node(ours.node);
    if (a.op == nullptr || a.op != b.op || theirs.output != ours.output || a.attrs != b.attrs ||
        a.operands.size() != b.operands.size()) {
      return false;
    }
    for (size_t k = 0; k < a.operands.size(); ++k) {
      if (!Match(a.operands[k], b.operands[k])) return false;
    }
    matched_[theirs] = ours;
    return true;
  }

  // True if the node, imported on the bound values, gives the matched values. The importer may have built a value that
  // is also an input: a constant 1, or g(x) of inputs x and g(x). If that input is bound to another value, the two
  // differ.
  bool IsWhole() const {
    return std::all_of(bindings_.begin(), bindings_.end(), [&](const auto& binding) {
      const auto [theirs, ours] = binding;
      if (theirs == ours) return true;
      const Node& a = arena_.node(theirs.node);
      if (a.op == nullptr) return a.leaf != LeafKind::kConstant;
      return std::any_of(a.operands.begin(), a.operands.end(),
                         [&](Value operand) { return !bindings_.contains(operand) && !matched_.contains(operand); });
    });
  }

  absl::flat_hash_map<Value, Value>& bindings() { return bindings_; }

 private:
  bool ReadsInput(Value value) const {
    const Node& node = arena_.node(value.node);
    return node.reads_input || node.reads_state;
  }

  const Arena& arena_;
  absl::flat_hash_set<Value> inputs_;
  absl::flat_hash_map<Value, Value> bindings_;
  absl::flat_hash_map<Value, Value> matched_;
};

}  // namespace

ExportPlan::ExportPlan(const Graph& graph, const OnnxSource* source, int64_t opset,
                       const absl::flat_hash_map<NodeId, NodeId>& fused, absl::flat_hash_set<NodeId> sized)
    : graph_(graph), source_(source), opset_(opset), fused_(fused), sized_(std::move(sized)) {
  for (NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (source == nullptr || !graph.IsRun(node)) continue;
    for (int32_t k = 0; k < static_cast<int32_t>(node.outputs.size()); ++k) {
      by_name_.emplace(graph.arena()->name(Value{id, k}), Value{id, k});
    }
  }
  by_name_.erase("");
  absl::flat_hash_set<Value> needed;
  for (const Output& output : graph.outputs()) needed.insert(output.value);
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    const NodeId id = graph.nodes()[i];
    const Node& node = graph.node(id);
    if (node.op == nullptr) continue;
    std::vector<Value> outputs;
    for (int32_t k = 0; k < static_cast<int32_t>(node.outputs.size()); ++k) {
      if (needed.contains(Value{id, k})) outputs.push_back(Value{id, k});
    }
    if (outputs.empty()) continue;
    const auto whole = fused.find(id);
    if ((whole == fused.end() || !IsOwn(whole->second)) && Keep(id, outputs)) {
      for (const auto& [theirs, ours] : kept_.at(KeptFor(outputs[0])).bindings) needed.insert(ours);
    } else {
      own_.insert(id);
      needed.insert(node.operands.begin(), node.operands.end());
      if (!graph_.IsRun(node)) continue;
      for (Value operand : node.operands) NoteGenerated(operand);
    }
  }
}

void ExportPlan::NoteGenerated(Value value) {
  if (source_ == nullptr || sized_.contains(value.node)) return;
  const Node& node = graph_.node(value.node);
  const std::string& name = graph_.arena()->name(value);
  const bool large = node.leaf == LeafKind::kConstant && node.outputs[0].num_bytes() > kSmallBytes;
  if (!large || source_->producer(name) < 0 || source_->value(name) != value) return;
  ConstantChain chain(*source_, opset_, sized_);
  if (!chain.Add(name)) return;
  std::vector<int> nodes = std::move(chain).Nodes();
  int64_t bytes = 0;
  for (int i : nodes) {
    for (const std::string& input : source_->node(i).input()) {
      const Tensor* read = input.empty() ? nullptr : source_->Elements(input);
      const auto made = std::find(nodes.begin(), nodes.end(), source_->producer(input));
      if (read != nullptr && made == nodes.end()) bytes += read->num_bytes();
    }
  }
  if (!nodes.empty() && bytes < node.outputs[0].num_bytes()) generated_[value] = std::move(nodes);
}

bool ExportPlan::Keep(NodeId id, const std::vector<Value>& needed) {
  if (source_ == nullptr || !graph_.IsRun(graph_.node(id))) return false;
  int producer = -1;
  std::vector<std::string> names;
  for (Value value : needed) {
    names.push_back(graph_.arena()->name(value));
    const int found = names.back().empty() || outputs_.contains(names.back()) ? -1 : source_->producer(names.back());
    if (found < 0 || (producer >= 0 && found != producer)) return false;
    if (graph_.type(value) != graph_.type(source_->value(names.back()))) return false;
    producer = found;
  }
  if (!source_->CanBeKept(producer, opset_)) return false;
  std::optional<KeptNode> kept = Matched(producer, names, needed);
  if (!kept) kept = Restored(producer, id);
  if (!kept) return false;
  // The node is written at this place, so it must come after all that it reads.
  for (const auto& [theirs, ours] : kept->bindings) {
    if (graph_.index(ours.node) >= graph_.index(id)) return false;
  }
  ConstantChain chain(*source_, opset_, sized_);
  std::vector<int> written = kept->before;
  written.push_back(producer);
  for (int i : written) {
    for (const std::string& name : source_->node(i).input()) {
      if (name.empty()) continue;
      const Value theirs = source_->value(name);
      const auto bound = kept->bindings.find(theirs);
      if (!graph_.IsKnown(theirs)) {
        const bool is_written = std::find(written.begin(), written.end(), source_->producer(name)) != written.end();
        if (bound == kept->bindings.end() && !is_written) return false;
      } else if ((bound == kept->bindings.end() || bound->second == theirs) && !chain.Add(name)) {
        // This covers values that the import used without making them operands of the node: a shape, a list of axes.
        return false;
      }
    }
  }
  for (int i : std::move(chain).Nodes()) kept->before.push_back(i);
  std::sort(kept->before.begin(), kept->before.end());
  kept_[producer] = *std::move(kept);
  for (size_t k = 0; k < needed.size(); ++k) {
    kept_for_[needed[k]] = names[k];
    outputs_[names[k]] = needed[k];
  }
  return true;
}

std::optional<KeptNode> ExportPlan::Matched(int node, const std::vector<std::string>& names,
                                            const std::vector<Value>& values) const {
  const auto before = kept_.find(node);
  Matching matching(*source_, source_->node(node),
                    before == kept_.end() ? absl::flat_hash_map<Value, Value>() : before->second.bindings);
  for (size_t k = 0; k < values.size(); ++k) {
    if (!matching.Match(source_->value(names[k]), values[k])) return std::nullopt;
  }
  if (!matching.IsWhole()) return std::nullopt;
  return KeptNode{{}, std::move(matching.bindings())};
}

std::optional<KeptNode> ExportPlan::Restored(int node, NodeId id) const {
  KeptNode kept;
  std::vector<int> open = {node};
  while (!open.empty()) {
    const int at = open.back();
    open.pop_back();
    for (const std::string& name : source_->node(at).input()) {
      if (name.empty()) continue;
      const Value theirs = source_->value(name);
      if (graph_.IsKnown(theirs)) continue;
      const auto named = by_name_.find(graph_.arena()->name(theirs));
      if (graph_.contains(theirs.node)) {
        kept.bindings[theirs] = theirs;
      } else if (named != by_name_.end() && graph_.type(named->second) == graph_.type(theirs)) {
        kept.bindings[theirs] = named->second;
      } else {
        const int producer = source_->producer(name);
        const bool is_new = std::find(kept.before.begin(), kept.before.end(), producer) == kept.before.end();
        if (!is_new) continue;
        if (producer < 0 || kept_.contains(producer) || !source_->CanBeKept(producer, opset_) ||
            std::ssize(kept.before) >= kMostRestored) {
          return std::nullopt;
        }
        kept.before.push_back(producer);
        open.push_back(producer);
      }
    }
  }
  if (const auto before = kept_.find(node); before != kept_.end()) {
    if (before->second.bindings != kept.bindings) return std::nullopt;
    return kept;
  }
  const int least = kept.before.empty() ? kWorthRestoring : kWorthMore * static_cast<int>(kept.before.size() + 1);
  return CountBetween(id, kept.bindings) < least ? std::nullopt : std::optional(kept);
}

int ExportPlan::CountBetween(NodeId id, const absl::flat_hash_map<Value, Value>& read) const {
  absl::flat_hash_set<Value> ends;
  for (const auto& [theirs, ours] : read) ends.insert(ours);
  std::set<int> between = {graph_.index(id)};
  std::vector<NodeId> stack = {id};
  while (!stack.empty()) {
    const Node& node = graph_.node(stack.back());
    stack.pop_back();
    for (Value operand : node.operands) {
      if (ends.contains(operand) || graph_.IsKnown(operand)) continue;
      if (graph_.node(operand.node).op == nullptr) return 0;  // something that the node does not read
      if (between.insert(graph_.index(operand.node)).second) stack.push_back(operand.node);
    }
  }
  int count = 0;
  absl::flat_hash_set<int> alone;
  for (auto i = between.rbegin(); i != between.rend(); ++i) {
    const NodeId at = graph_.nodes()[static_cast<size_t>(*i)];
    const bool is_root = at == id;
    const bool is_output = !is_root && std::any_of(graph_.outputs().begin(), graph_.outputs().end(),
                                                   [&](const Output& output) { return output.value.node == at; });
    const std::vector<int>& users = graph_.users(*i);
    if (!is_root && (is_output || !std::all_of(users.begin(), users.end(), [&](int u) { return alone.contains(u); }))) {
      continue;
    }
    alone.insert(*i);
    const auto whole = fused_.find(at);
    count += whole == fused_.end() || !between.contains(graph_.index(whole->second));
  }
  return count;
}

int ExportPlan::KeptFor(Value value) const {
  const auto found = kept_for_.find(value);
  return found == kept_for_.end() ? -1 : source_->producer(found->second);
}

Value ExportPlan::KeptOutput(const std::string& name) const {
  const auto found = outputs_.find(name);
  return found == outputs_.end() ? Value{} : found->second;
}

}  // namespace rewright
