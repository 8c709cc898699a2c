#include "search/memory/activation_lifetimes.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>

#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"

namespace rewright {
namespace {

bool ReadsElements(const ExprNode& expr) {
  if (expr.kind() == ExprKind::kFromValue || expr.IsRead()) return true;
  return std::any_of(expr.args().begin(), expr.args().end(), [](const ExprPtr& arg) { return ReadsElements(*arg); });
}

// Elements of the first operand, elsewhere, and where does not depend on elements.
bool Moves(const Node& node) {
  if (node.op == ops::Reshape()) return true;
  if (node.op == ops::Fetch()) return false;
  return std::all_of(node.meaning->outputs.begin(), node.meaning->outputs.end(), [](const OutputMeaning& output) {
    if (output.element == nullptr) return false;
    const ExprNode& element = *output.element;
    return element.IsRead() && element.operand() == 0 &&
           std::none_of(element.args().begin(), element.args().end(),
                        [](const ExprPtr& index) { return ReadsElements(*index); });
  });
}

}  // namespace

ActivationLifetimes::ActivationLifetimes(const Graph& graph, const std::vector<Group>& groups)
    : graph_(graph), groups_(groups) {
  positions_.assign(graph.nodes().size(), -1);
  for (size_t g = 0; g < groups.size(); ++g) {
    for (NodeId id : groups[g].nodes) positions_[graph.index(id)] = static_cast<int>(g);
  }
  FindRoots();
  FindUses();
}

void ActivationLifetimes::FindRoots() {
  tensors_.resize(positions_.size());
  for (int i = 0; i < static_cast<int>(tensors_.size()); ++i) {
    Tensor& tensor = tensors_[i];
    const Node& made = node(i);
    tensor.root = i;
    if (!graph_.IsRun(made)) continue;
    tensor.is_moved = Moves(made);
    tensor.written = positions_[i];
    tensor.may_drop = true;
    for (const TensorType& type : made.outputs) tensor.bytes += type.num_bytes();
    if (tensor.is_moved) tensor.root = tensors_[graph_.index(made.operands[0].node)].root;
  }
  // A node that only moves is a view in each group that reads it, and there for the first of them, whichever lists it.
  for (size_t i = tensors_.size(); i-- > 0;) {
    if (!tensors_[i].is_moved) continue;
    for (int user : graph_.users(static_cast<int>(i))) {
      if (positions_[user] >= 0) positions_[i] = std::min(positions_[i], positions_[user]);
    }
  }
  for (const Output& output : graph_.outputs()) {
    const int i = graph_.index(output.value.node);
    tensors_[i].may_drop = tensors_[tensors_[i].root].may_drop = false;
  }
}

void ActivationLifetimes::FindUses() {
  for (int i = 0; i < static_cast<int>(tensors_.size()); ++i) {
    Tensor& root = tensors_[tensors_[i].root];
    for (int user : graph_.users(i)) {
      if (positions_[user] >= 0 && !tensors_[user].is_moved) root.uses.push_back(positions_[user]);
    }
  }
  for (Tensor& tensor : tensors_) {
    std::sort(tensor.uses.begin(), tensor.uses.end());
    tensor.uses.erase(std::unique(tensor.uses.begin(), tensor.uses.end()), tensor.uses.end());
  }
  FindEnd();
  for (int i = 0; i < static_cast<int>(tensors_.size()); ++i) {
    Tensor& tensor = tensors_[i];
    if (tensor.root != i || !tensor.may_drop || tensor.written > end_) continue;
    const auto late = std::upper_bound(tensor.uses.begin(), tensor.uses.end(), end_);
    if (late == tensor.uses.end()) continue;
    tensor.late = *late;
    waiting_.push_back(i);
  }
  std::stable_sort(waiting_.begin(), waiting_.end(),
                   [&](int a, int b) { return tensors_[a].written < tensors_[b].written; });
}

// Each tensor counts while it waits longest.
void ActivationLifetimes::FindEnd() {
  std::vector<int64_t> bytes(groups_.size() + 1, 0);
  for (int i = 0; i < static_cast<int>(tensors_.size()); ++i) {
    Tensor& tensor = tensors_[i];
    if (tensor.root != i || !tensor.may_drop) continue;
    int before = tensor.from = tensor.to = tensor.written;
    for (int use : tensor.uses) {
      if (use - before > tensor.to - tensor.from) std::tie(tensor.from, tensor.to) = std::pair(before, use);
      before = use;
    }
    if (tensor.to - tensor.from < 2) continue;
    bytes[tensor.from] += tensor.bytes;
    bytes[tensor.to] -= tensor.bytes;
  }
  std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
  end_ = static_cast<int>(std::max_element(bytes.begin(), bytes.end()) - bytes.begin());
}

std::vector<int> ActivationLifetimes::OperandsOf(int tensor) const {
  std::vector<int> operands;
  for (Value operand : node(tensor).operands) {
    const int root = tensors_[graph_.index(operand.node)].root;
    if (graph_.IsRun(node(root)) && std::find(operands.begin(), operands.end(), root) == operands.end()) {
      operands.push_back(root);
    }
  }
  return operands;
}

class ActivationLifetimes::Rewriting {
 public:
  Rewriting(const ActivationLifetimes& waiting, const Residencies& kept)
      : waiting_(waiting), graph_(waiting.graph_), arena_(*graph_.arena()), kept_(kept) {}

  absl::StatusOr<Rewritten> Run() {
    const int size = static_cast<int>(graph_.nodes().size());
    std::vector<int> order(size);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return waiting_.positions_[a] < waiting_.positions_[b]; });
    for (int i : order) {
      const Node& node = waiting_.node(i);
      if (waiting_.positions_[i] > now_) Advance(waiting_.positions_[i]);
      std::vector<Value> operands = node.operands;
      if (graph_.IsRun(node)) {
        for (Value& operand : operands) {
          ASSIGN_OR_RETURN(operand, Read(operand, /*moved=*/waiting_.tensors_[i].is_moved));
        }
      }
      Note(i, operands == node.operands ? graph_.nodes()[i] : arena_.AddLike(node, operands), &result_.early);
    }
    std::vector<Output> outputs = graph_.outputs();
    for (Output& output : outputs) output.value = Early(output.value);
    result_.graph = Graph(graph_.arena(), graph_.inputs(), std::move(outputs));
    return std::move(result_);
  }

 private:
  Value Early(Value value) const { return {result_.early.at(value.node), value.output}; }

  void Note(int i, NodeId made, absl::flat_hash_map<NodeId, NodeId>* copies) {
    const NodeId id = graph_.nodes()[i];
    (*copies)[id] = made;
    result_.origins.emplace(made, id);
    for (int k = 0; k < static_cast<int>(waiting_.node(i).outputs.size()); ++k) {
      const std::string& name = arena_.name({id, k});
      if (made != id && !name.empty() && copies == &result_.early) arena_.SetName({made, k}, name);
    }
  }

  // Advances to the position: from here on a result of the last group before it is a trigger, if the device does not
  // care that one more node reads it.
  void Advance(int position) {
    for (; now_ < position; ++now_) {
      if (now_ < 0) continue;
      for (Value output : waiting_.groups_[now_].outputs) {
        const std::vector<int>& users = graph_.users(graph_.index(output.node));
        const bool alone = users.size() == 1 && waiting_.tensors_[users[0]].is_moved;
        const Tensor& root = RootOf(output);
        const bool stays = root.late < 0 || IsThere(output) || root.uses.front() < root.late;
        if (users.empty() || alone || !stays || !IsFloating(graph_.type(output).dtype)) continue;
        trigger_ = Early(output);
      }
    }
  }

  // The value that a reader at the present position reads for `value`.
  absl::StatusOr<Value> Read(Value value, bool moved) {
    const Tensor& root = RootOf(value);
    if (moved) return Early(value);
    const bool late = root.late >= 0 && now_ >= root.late;
    return late && !IsThere(value) ? Late(value) : There(value);
  }

  // The value as it is kept, or computed early.
  absl::StatusOr<Value> There(Value value) {
    const Tensor& root = RootOf(value);
    if (kept_[root.root] != Residency::kOffloaded || now_ <= root.from || !trigger_) return Early(value);
    const auto [stay, is_new] = stays_.try_emplace(root.root, Stay{now_, num_stays_});
    if (is_new || now_ - stay->second.last >= kLongWait) stay->second.number = num_stays_++;
    stay->second.last = now_;
    return Fetched(value, stay->second.number);
  }

  // The root from the second tier, and the values that are moved from it.
  absl::StatusOr<Value> Fetched(Value value, int stay) {
    std::vector<Value> moved;  // the root last
    for (Value next = value; !fetched_.contains({next, stay}); next = graph_.node(next.node).operands[0]) {
      moved.push_back(next);
      const int i = graph_.index(next.node);
      if (waiting_.tensors_[i].root == i || !graph_.IsRun(graph_.node(waiting_.node(i).operands[0].node))) break;
    }
    for (; !moved.empty(); moved.pop_back()) {
      ASSIGN_OR_RETURN((fetched_[{moved.back(), stay}]), FetchedOnce(moved.back(), stay));
    }
    return fetched_.at({value, stay});
  }

  // Likewise, where the first operand has been fetched.
  absl::StatusOr<Value> FetchedOnce(Value value, int stay) {
    const int i = graph_.index(value.node);
    if (waiting_.tensors_[i].root == i) {
      ASSIGN_OR_RETURN(const NodeId fetch, arena_.Add(*ops::Fetch(), {Early(value), *trigger_}));
      ++result_.replaced;
      result_.fetched.push_back(value);
      return Value{fetch, 0};
    }
    const Node& node = waiting_.node(i);
    std::vector<Value> operands = node.operands;
    for (size_t k = 0; k < operands.size(); ++k) {
      if (!graph_.IsRun(graph_.node(operands[k].node))) continue;
      operands[k] = k > 0 ? Early(operands[k]) : fetched_.at({operands[k], stay});
    }
    const Value made{arena_.AddLike(node, operands), value.output};
    result_.origins.emplace(made.node, value.node);
    return made;
  }

  const Tensor& RootOf(Value value) const {
    return waiting_.tensors_[waiting_.tensors_[graph_.index(value.node)].root];
  }
  // It need not be computed again.
  bool IsThere(Value value) const {
    const Tensor& root = RootOf(value);
    return !root.may_drop || kept_[root.root] != Residency::kRecomputed;
  }

  bool IsLate(Value value) const { return graph_.IsRun(graph_.node(value.node)) && !IsThere(value); }

  // The value, computed again from what is there. Operands first, with a stack: graphs are deep.
  absl::StatusOr<Value> Late(Value value) {
    std::vector<NodeId> open = {value.node};
    while (!open.empty()) {
      const NodeId id = open.back();
      if (late_.contains(id)) {
        open.pop_back();
        continue;
      }
      const size_t before = open.size();
      for (Value operand : waiting_.node(graph_.index(id)).operands) {
        if (IsLate(operand) && !late_.contains(operand.node)) open.push_back(operand.node);
      }
      if (open.size() == before) RETURN_IF_ERROR(ComputeLate(id));
    }
    return Value{late_.at(value.node), value.output};
  }

  absl::Status ComputeLate(NodeId id) {
    const int i = graph_.index(id);
    const Node& node = waiting_.node(i);
    std::vector<Value> operands = node.operands;
    bool behind = false;
    for (Value& operand : operands) {
      if (IsLate(operand)) {
        operand.node = late_.at(operand.node);
        behind = true;
      } else if (graph_.IsRun(graph_.node(operand.node))) {
        ASSIGN_OR_RETURN(operand, There(operand));
        ASSIGN_OR_RETURN(operand, Behind(operand));
        behind = true;
      }
    }
    for (size_t k = 0; k < operands.size() && !behind; ++k) {
      if (graph_.IsKnown(operands[k])) continue;
      ASSIGN_OR_RETURN(operands[k], Behind(operands[k]));
      behind = true;
    }
    CHECK(behind) << node.op->name << " is known before the run";
    Note(i, arena_.AddLike(node, operands), &late_);
    return absl::OkStatus();
  }

  absl::StatusOr<Value> Behind(Value value) {
    if (!trigger_) return value;
    ++result_.replaced;
    ASSIGN_OR_RETURN(const NodeId after, arena_.Add(*ops::After(), {value, *trigger_}));
    return Value{after, 0};
  }

  const ActivationLifetimes& waiting_;
  const Graph& graph_;
  Arena& arena_;
  const Residencies& kept_;
  Rewritten result_;
  absl::flat_hash_map<NodeId, NodeId> late_;
  // A time for which a tensor is back.
  struct Stay {
    int last = 0;  // position of its last reader
    int number = 0;
  };
  absl::flat_hash_map<int, Stay> stays_;  // by tensor
  int num_stays_ = 0;
  absl::flat_hash_map<std::pair<Value, int>, Value> fetched_;
  int now_ = -1;
  std::optional<Value> trigger_;
};

absl::StatusOr<ActivationLifetimes::Rewritten> ActivationLifetimes::Rewrite(const Residencies& kept) const {
  return Rewriting(*this, kept).Run();
}

}  // namespace rewright
