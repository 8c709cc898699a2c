#include "core/ir/graph.h"

#include <algorithm>
#include <cstring>

#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace rewright {
namespace {

// 64-bit mixing with fixed constants, so that hashes are the same in every process (Abseil's are seeded).
class Hasher {
 public:
  void Add(uint64_t value) {
    state_ ^= value + 0x9e3779b97f4a7c15ull + (state_ << 6) + (state_ >> 2);
    state_ *= 0xff51afd7ed558ccdull;
    state_ ^= state_ >> 32;
  }
  void AddBytes(const void* data, size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    Add(size);
    for (; size >= 8; bytes += 8, size -= 8) {
      uint64_t word;
      std::memcpy(&word, bytes, 8);
      Add(word);
    }
    uint64_t tail = 0;
    if (size > 0) std::memcpy(&tail, bytes, size);
    Add(tail);
  }
  void AddText(const std::string& text) { AddBytes(text.data(), text.size()); }
  void AddType(const TensorType& type) {
    Add(static_cast<uint64_t>(type.dtype));
    Add(type.shape.size());
    for (int64_t size : type.shape) Add(static_cast<uint64_t>(size));
  }
  void AddAttrs(const Attrs& attrs) {
    for (const auto& [name, attr] : attrs) {
      AddText(name);
      Add(attr.index());
      if (const auto* integer = std::get_if<int64_t>(&attr)) {
        Add(static_cast<uint64_t>(*integer));
      } else if (const auto* real = std::get_if<double>(&attr)) {
        AddBytes(real, sizeof *real);
      } else if (const auto* list = std::get_if<std::vector<int64_t>>(&attr)) {
        AddBytes(list->data(), list->size() * sizeof(int64_t));
      } else {
        Add(static_cast<uint64_t>(std::get<DType>(attr)));
      }
    }
  }
  uint64_t hash() const { return state_; }

 private:
  uint64_t state_ = 0x243f6a8885a308d3ull;
};

// Hashes the part of a node that depends neither on the arena nor on names.
uint64_t LocalHash(const Node& node) {
  Hasher hasher;
  hasher.Add(static_cast<uint64_t>(node.leaf));
  if (node.op != nullptr) hasher.AddText(node.op->name);
  hasher.AddAttrs(node.attrs);
  for (const TensorType& type : node.outputs) hasher.AddType(type);
  if (node.leaf == LeafKind::kConstant) {
    hasher.AddBytes(node.data.data(), static_cast<size_t>(node.data.num_bytes()));
  }
  return hasher.hash();
}

bool SameNode(const Node& a, const Node& b) {
  if (a.leaf != b.leaf || a.op != b.op || a.operands != b.operands || a.attrs != b.attrs || a.name != b.name ||
      a.outputs != b.outputs) {
    return false;
  }
  return a.leaf != LeafKind::kConstant || a.data.BitEqual(b.data);
}

// Returns Node::hash of a node like `like` with this name and these operands in the arena.
uint64_t HashIn(const Arena& arena, const Node& like, const std::string& name, const std::vector<Value>& operands) {
  Hasher hasher;
  hasher.Add(LocalHash(like));
  hasher.AddText(name);
  for (Value operand : operands) {
    hasher.Add(arena.node(operand.node).hash);
    hasher.Add(static_cast<uint64_t>(operand.output));
  }
  return hasher.hash();
}

// Returns the node of this hash that `same` accepts; if there is none, adds the result of `make`.
template <typename Same, typename Make>
NodeId FindOrAdd(uint64_t hash, absl::flat_hash_map<uint64_t, std::vector<NodeId>>& by_hash,
                 std::vector<std::unique_ptr<Node>>& nodes, Same same, Make make) {
  std::vector<NodeId>& candidates = by_hash[hash];
  for (NodeId id : candidates) {
    if (same(*nodes[id])) return id;
  }
  candidates.push_back(static_cast<NodeId>(nodes.size()));
  nodes.push_back(make());
  return candidates.back();
}

}  // namespace

const char* ModeName(Mode mode) { return mode == Mode::kInference ? "inference" : "training"; }

// ---------------------------------------------------------------- arena

NodeId Arena::Intern(Node node) {
  node.hash = HashIn(*this, node, node.name, node.operands);
  return FindOrAdd(
      node.hash, by_hash_, nodes_, [&](const Node& other) { return SameNode(other, node); },
      [&] { return std::make_unique<Node>(std::move(node)); });
}

void Arena::NoteLeaves(Node* application) const {
  // Values of nodes without a kernel here are not known before a run.
  const Meaning& meaning = *application->meaning;
  application->reads_input = meaning.IsOpaque() && meaning.work == nullptr;
  for (Value operand : application->operands) {
    application->reads_input |= node(operand.node).reads_input;
    application->reads_state |= node(operand.node).reads_state;
  }
}

std::vector<TensorType> Arena::types(const std::vector<Value>& values) const {
  std::vector<TensorType> types;
  for (Value value : values) types.push_back(type(value));
  return types;
}

const Tensor* Arena::Elements(NodeId leaf) const {
  if (node(leaf).leaf == LeafKind::kConstant) return &node(leaf).data;
  const auto it = states_.find(leaf);
  return it == states_.end() ? nullptr : &it->second;
}

absl::StatusOr<Value> Arena::AddInput(const std::string& name, const TensorType& type) {
  if (auto it = leaves_.find(name); it != leaves_.end()) {
    const Node& other = node(it->second);
    if (other.leaf == LeafKind::kInput && other.outputs[0] == type) return Value{it->second, 0};
    return InvalidArgument("input ", name, ": the name is taken by another leaf");
  }
  for (int64_t size : type.shape) {
    if (size < 0) return InvalidArgument("input ", name, ": size ", size);
  }
  Node leaf;
  leaf.leaf = LeafKind::kInput;
  leaf.reads_input = true;
  leaf.name = name;
  leaf.outputs = {type};
  const NodeId id = Intern(std::move(leaf));
  leaves_[name] = id;
  SetName(Value{id, 0}, name);
  return Value{id, 0};
}

absl::StatusOr<Value> Arena::AddState(const std::string& name, const Tensor& value) {
  if (auto it = leaves_.find(name); it != leaves_.end()) {
    const Tensor* other = node(it->second).leaf == LeafKind::kState ? Elements(it->second) : nullptr;
    if (other != nullptr && other->type() == value.type() &&
        (other->data() == value.data() || other->BitEqual(value))) {
      return Value{it->second, 0};
    }
    return InvalidArgument("state ", name, ": the name is taken by another leaf");
  }
  Node leaf;
  leaf.leaf = LeafKind::kState;
  leaf.name = name;
  leaf.outputs = {value.type()};
  leaf.reads_state = true;
  const NodeId id = Intern(std::move(leaf));
  states_[id] = value;
  leaves_[name] = id;
  SetName(Value{id, 0}, name);
  return Value{id, 0};
}

Value Arena::AddConstant(const Tensor& data) {
  Node leaf;
  leaf.leaf = LeafKind::kConstant;
  leaf.outputs = {data.type()};
  leaf.data = data;
  return Value{Intern(std::move(leaf)), 0};
}

absl::StatusOr<NodeId> Arena::Add(const OpDef& op, std::vector<Value> operands, Attrs attrs) {
  for (Value operand : operands) {
    CHECK(operand.node >= 0 && operand.node < size()) << op.name << ": no node " << operand.node;
  }
  ASSIGN_OR_RETURN(Application application, rewright::Apply(op, types(operands), std::move(attrs), meanings_));
  Node result;
  result.op = &op;
  result.operands = std::move(operands);
  result.attrs = std::move(application.attrs);
  result.meaning = std::move(application.meaning);
  result.outputs = std::move(application.outputs);
  NoteLeaves(&result);
  return Intern(std::move(result));
}

NodeId Arena::AddLike(const Node& like, std::vector<Value> operands) {
  const uint64_t hash = HashIn(*this, like, "", operands);
  const auto same = [&](const Node& other) {
    return other.op == like.op && other.operands == operands && other.attrs == like.attrs &&
           other.outputs == like.outputs;
  };
  // The node usually exists already; then nothing is copied.
  const NodeId id = FindOrAdd(hash, by_hash_, nodes_, same, [&] {
    CHECK(operands.size() == like.operands.size()) << like.op->name << ": " << operands.size() << " operands";
    auto result = std::make_unique<Node>();
    result->op = like.op;
    result->attrs = like.attrs;
    result->meaning = like.meaning;
    result->outputs = like.outputs;
    result->operands = std::move(operands);
    NoteLeaves(result.get());
    result->hash = hash;
    return result;
  });
  if (like.keeps_bits) nodes_[static_cast<size_t>(id)]->keeps_bits = true;
  return id;
}

void Arena::KeepBits(NodeId id) {
  std::vector<NodeId> open = {id};
  while (!open.empty()) {
    Node& next = *nodes_[static_cast<size_t>(open.back())];
    open.pop_back();
    if (next.keeps_bits || next.op == nullptr) continue;
    next.keeps_bits = true;
    for (Value operand : next.operands) open.push_back(operand.node);
  }
}

const std::string& Arena::name(Value value) const {
  static const std::string* const kEmpty = new std::string;
  auto it = names_.find(value);
  return it == names_.end() ? *kEmpty : it->second;
}

void Arena::SetName(Value value, const std::string& name) {
  std::string copy = name;  // it may be a name of the arena: a new one may move the others
  names_[value] = std::move(copy);
}

// ---------------------------------------------------------------- graph

Graph::Graph(std::shared_ptr<Arena> arena, std::vector<Value> inputs, std::vector<Output> outputs)
    : arena_(std::move(arena)), inputs_(std::move(inputs)), outputs_(std::move(outputs)) {
  // Depth first from the outputs, operands first; an explicit stack because graphs may be thousands of nodes deep.
  constexpr int kStarted = -1, kUnseen = -2;
  // The number of nodes up to which positions are kept in a table. A larger graph keeps them, while it is made, in an
  // array indexed by node: filling it is cheaper, but it is as long as the arena.
  constexpr int32_t kSmallGraph = 100;
  index_.reserve(std::min(arena_->size(), kSmallGraph));
  std::vector<int> positions;
  const auto start = [&](NodeId id) {  // false: it was started before
    if (positions.empty()) return index_.try_emplace(id, kStarted).second;
    int& position = positions[id];
    if (position != kUnseen) return false;
    position = kStarted;
    return true;
  };
  std::vector<std::pair<NodeId, size_t>> stack;
  for (const Output& output : outputs_) {
    if (start(output.value.node)) stack.emplace_back(output.value.node, 0);
    while (!stack.empty()) {
      auto& [id, next] = stack.back();
      const std::vector<Value>& operands = arena_->node(id).operands;
      if (next < operands.size()) {
        const NodeId operand = operands[next++].node;
        if (start(operand)) stack.emplace_back(operand, 0);
      } else {
        (positions.empty() ? index_[id] : positions[id]) = static_cast<int>(nodes_.size());
        nodes_.push_back(id);
        stack.pop_back();
        if (nodes_.size() != static_cast<size_t>(kSmallGraph)) continue;
        positions.assign(static_cast<size_t>(arena_->size()), kUnseen);
        for (const auto& [known, position] : index_) positions[known] = position;
      }
    }
  }
  for (const Output& output : outputs_) output_values_.push_back(output.value);
  std::sort(output_values_.begin(), output_values_.end());
  if (!positions.empty()) {
    index_.reserve(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) index_[nodes_[i]] = static_cast<int>(i);
  }
  users_.resize(nodes_.size());
  producers_.resize(nodes_.size());
  for (size_t user = 0; user < nodes_.size(); ++user) {
    const std::vector<Value>& operands = arena_->node(nodes_[user]).operands;
    producers_[user].reserve(operands.size());
    for (Value operand : operands) {
      const int producer = positions.empty() ? index_.at(operand.node) : positions[operand.node];
      std::vector<int>& list = users_[producer];
      if (!list.empty() && list.back() == static_cast<int>(user)) continue;
      list.push_back(static_cast<int>(user));
      producers_[user].push_back(producer);
    }
  }
}

std::vector<Output> Graph::results() const {
  std::vector<Output> results;
  for (const Output& output : outputs_) {
    if (output.updates.node < 0) results.push_back(output);
  }
  return results;
}

std::vector<Value> Graph::states() const {
  std::vector<Value> states;
  for (NodeId id : nodes_) {
    if (node(id).leaf == LeafKind::kState) states.push_back({id, 0});
  }
  for (const Output& output : outputs_) {
    if (output.updates.node >= 0 && !contains(output.updates.node)) states.push_back(output.updates);
  }
  return states;
}

bool Graph::is_output(Value value) const {
  return std::binary_search(output_values_.begin(), output_values_.end(), value);
}

int Graph::num_applications() const {
  return static_cast<int>(
      std::count_if(nodes_.begin(), nodes_.end(), [&](NodeId id) { return node(id).op != nullptr; }));
}

int Graph::num_runtime_nodes() const {
  return static_cast<int>(std::count_if(nodes_.begin(), nodes_.end(), [&](NodeId id) { return IsRun(node(id)); }));
}

uint64_t Graph::CanonicalHash() const {
  // Leaves are numbered by first use in the order of nodes(), which depends on the structure alone.
  std::vector<uint64_t> hashes;
  uint64_t leaves = 0;
  for (NodeId id : nodes_) {
    const Node& current = node(id);
    Hasher hasher;
    hasher.Add(LocalHash(current));
    if (current.leaf == LeafKind::kInput || current.leaf == LeafKind::kState) hasher.Add(leaves++);
    for (Value operand : current.operands) {
      hasher.Add(hashes[index(operand.node)]);
      hasher.Add(static_cast<uint64_t>(operand.output));
    }
    hashes.push_back(hasher.hash());
  }
  Hasher hasher;
  hasher.Add(static_cast<uint64_t>(mode()));
  for (const Output& output : outputs_) {
    hasher.Add(hashes[index(output.value.node)]);
    hasher.Add(static_cast<uint64_t>(output.value.output));
    if (output.updates.node >= 0) hasher.Add(contains(output.updates.node) ? index(output.updates.node) + 1 : 0);
  }
  return hasher.hash();
}

namespace {

absl::Status CheckReplacement(const Arena& arena, const ValueMap& replacement) {
  for (const auto& [from, to] : replacement) {
    if (arena.type(from) != arena.type(to)) {
      return InvalidArgument("a value of type ", arena.type(from).ToString(), " cannot be replaced by one of type ",
                             arena.type(to).ToString());
    }
  }
  return absl::OkStatus();
}

// A value that replaces a named one takes its name, unless it has its own.
void PassName(Arena& arena, Value from, Value to) {
  const std::string& name = arena.name(from);
  if (!name.empty() && arena.name(to).empty()) arena.SetName(to, name);
}

}  // namespace

absl::StatusOr<Graph> ReplaceValues(const Graph& graph, const ValueMap& replacement) {
  const std::shared_ptr<Arena>& arena = graph.arena();
  RETURN_IF_ERROR(CheckReplacement(*arena, replacement));
  ValueMap rebuilt = replacement;
  const auto resolve = [&](Value value) {
    auto it = rebuilt.find(value);
    return it == rebuilt.end() ? value : it->second;
  };
  for (const auto& [from, to] : replacement) PassName(*arena, from, to);
  std::vector<bool> touched(graph.nodes().size(), false);  // by position: some output has another value
  for (const auto& [from, to] : replacement) {
    if (graph.contains(from.node)) touched[graph.index(from.node)] = true;
  }
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const std::vector<int>& producers = graph.producers(static_cast<int>(i));
    if (std::none_of(producers.begin(), producers.end(), [&](int p) { return touched[p]; })) {
      continue;
    }
    const NodeId id = graph.nodes()[i];
    const Node& node = graph.node(id);
    std::vector<Value> operands = node.operands;
    bool changed = false;
    for (Value& operand : operands) {
      const Value resolved = resolve(operand);
      changed |= resolved != operand;
      operand = resolved;
    }
    if (!changed) continue;
    touched[i] = true;
    const NodeId copy = arena->AddLike(node, std::move(operands));
    const int32_t count = static_cast<int32_t>(arena->node(copy).outputs.size());
    for (int32_t output = 0; output < count; ++output) {
      const Value from{id, output};
      if (replacement.contains(from)) continue;
      rebuilt[from] = {copy, output};
      PassName(*arena, from, {copy, output});
    }
  }
  std::vector<Output> outputs = graph.outputs();
  for (Output& output : outputs) output.value = resolve(output.value);
  return Graph(arena, graph.inputs(), std::move(outputs));
}

absl::StatusOr<Graph> ReplaceEverywhere(const Graph& graph, const ValueMap& replacement) {
  const std::shared_ptr<Arena>& arena = graph.arena();
  RETURN_IF_ERROR(CheckReplacement(*arena, replacement));
  const auto cycle = [] { return absl::InvalidArgumentError("the replacements make a value depend on itself"); };
  const size_t count = arena->size();
  std::vector<bool> replaced(count, false);  // by node: some output of it
  for (const auto& [from, to] : replacement) replaced[from.node] = true;
  // Follows the replacements of `value` to the end, its operands left aside; returns no node if they go round in a
  // circle. The next walk from a value on the way takes one step: chains of replacements may be as long as the graph.
  ValueMap ends;
  const auto target = [&](Value value) {
    std::vector<Value> way;
    while (replaced[value.node]) {
      const auto [end, first] = ends.try_emplace(value);
      if (!first) {
        value = end->second;
        break;
      }
      const auto it = replacement.find(value);
      end->second = it == replacement.end() ? value : Value();  // no node while the walk is on
      if (it == replacement.end()) break;
      way.push_back(value);
      value = it->second;
    }
    for (Value passed : way) ends[passed] = value;
    return value;
  };
  constexpr NodeId kOpen = -1, kUnseen = -2;  // open: its operands are being rebuilt
  std::vector<NodeId> rebuilt(count, kUnseen);
  const auto copy_of = [&](Value value) { return Value{rebuilt[value.node], value.output}; };
  // Operands before users, with a stack: graphs are deep.
  std::vector<NodeId> stack;
  const auto rebuild = [&](NodeId root) -> absl::Status {
    stack.push_back(root);
    while (!stack.empty()) {
      const NodeId id = stack.back();
      NodeId& result = rebuilt[id];
      if (result >= 0) {
        stack.pop_back();
        continue;
      }
      const Node& node = arena->node(id);
      bool ready = true, changed = false;
      for (Value operand : node.operands) {
        const Value to = target(operand);
        if (to.node < 0) return cycle();
        const Value copy = copy_of(to);
        if (copy.node == kOpen) return cycle();
        if (copy.node == kUnseen) {
          stack.push_back(to.node);
          ready = false;
        }
        changed |= copy != operand;
      }
      result = ready ? id : kOpen;
      if (!ready) continue;
      stack.pop_back();
      if (!changed) continue;
      std::vector<Value> operands;
      operands.reserve(node.operands.size());
      for (Value operand : node.operands) operands.push_back(copy_of(target(operand)));
      const NodeId next = arena->size();
      result = arena->AddLike(node, std::move(operands));
      const bool fresh = result == next;  // and without names
      for (int32_t k = 0; k < static_cast<int32_t>(node.outputs.size()); ++k) {
        if (!fresh) {
          PassName(*arena, {id, k}, {result, k});
        } else if (const std::string& name = arena->name({id, k}); !name.empty()) {
          arena->SetName({result, k}, name);
        }
      }
    }
    return absl::OkStatus();
  };
  std::vector<Output> outputs = graph.outputs();
  for (Output& output : outputs) {
    const Value to = target(output.value);
    if (to.node < 0) return cycle();
    RETURN_IF_ERROR(rebuild(to.node));
    output.value = copy_of(to);
  }
  for (const auto& [from, to] : replacement) {
    const Value last = target(from);
    if (last.node < 0) return cycle();
    if (const Value copy = copy_of(last); copy.node >= 0) PassName(*arena, from, copy);
  }
  return Graph(arena, graph.inputs(), std::move(outputs));
}

absl::Status CopyNode(const Arena& from, NodeId id, Arena& to, ValueMap* copies) {
  const Node& node = from.node(id);
  NodeId copy;
  if (node.leaf == LeafKind::kInput) {
    ASSIGN_OR_RETURN(const Value input, to.AddInput(node.name, node.outputs[0]));
    copy = input.node;
  } else if (node.leaf == LeafKind::kState) {
    ASSIGN_OR_RETURN(const Value state, to.AddState(node.name, *from.Elements(id)));
    copy = state.node;
  } else if (node.leaf == LeafKind::kConstant) {
    copy = to.AddConstant(node.data).node;
  } else {
    std::vector<Value> operands;
    for (Value operand : node.operands) operands.push_back(copies->at(operand));
    copy = to.AddLike(node, std::move(operands));
  }
  for (int32_t k = 0; k < static_cast<int32_t>(node.outputs.size()); ++k) (*copies)[{id, k}] = {copy, k};
  return absl::OkStatus();
}

Graph CopyGraph(const Graph& graph, Mode mode) {
  auto arena = std::make_shared<Arena>(mode);
  ValueMap copies;
  const auto copy = [&](NodeId id) {
    const absl::Status status = CopyNode(*graph.arena(), id, *arena, &copies);
    CHECK(status.ok()) << status.ToString();
  };
  std::vector<Value> inputs;
  for (Value input : graph.inputs()) {
    copy(input.node);
    inputs.push_back(copies.at(input));
  }
  for (NodeId id : graph.nodes()) {
    copy(id);
    for (int32_t i = 0; i < static_cast<int32_t>(graph.node(id).outputs.size()); ++i) {
      const std::string& name = graph.arena()->name(Value{id, i});
      if (!name.empty()) arena->SetName(copies.at(Value{id, i}), name);
    }
  }
  std::vector<Output> outputs;
  for (const Output& output : graph.outputs()) {
    outputs.push_back(Output{copies.at(output.value), output.name});
    if (output.updates.node >= 0) outputs.back().updates = copies.at(output.updates);
  }
  return Graph(std::move(arena), std::move(inputs), std::move(outputs));
}

}  // namespace rewright
