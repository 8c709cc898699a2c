#include "substitutions/generate/enumerate/walk.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace rewright::generate {
namespace {

std::string NameOf(const Space& space, Ref ref) {
  if (ref >= kOutputs) return absl::StrCat("t", (ref - kOutputs) / kMaxOutputs, ".", (ref - kOutputs) % kMaxOutputs);
  int input = ref;
  for (const InputGroup& group : space.inputs) {
    if (input < group.count) return absl::StrCat(group.name, input + 1);
    input -= group.count;
  }
  return "?";
}

}  // namespace

int NumOutputs(const OperatorChoice& choice) { return choice.op == "split" ? choice.parts : 1; }

std::string ToString(const Space& space, const SmallGraph& graph) {
  std::string text;
  for (int i = 0; i < graph.num_inputs && graph.size == 0; ++i) {
    absl::StrAppend(&text, i > 0 ? "; " : "", NameOf(space, graph.inputs[i]));
  }
  for (int i = 0; i < graph.size; ++i) {
    const OperatorChoice& choice = space.operators[graph.applications[i].op];
    absl::StrAppend(&text, i > 0 ? "; t" : "t", i, " = ", choice.name, "(");
    for (int k = 0; k < choice.arity; ++k) {
      absl::StrAppend(&text, k > 0 ? ", " : "", NameOf(space, graph.applications[i].operands[k]));
    }
    text += ")";
  }
  return text;
}

std::vector<Ref> OutputsOf(const Space& space, const SmallGraph& graph) {
  if (graph.size == 0) return std::vector<Ref>(graph.inputs, graph.inputs + graph.num_inputs);
  bool consumed[kMaxOps] = {};
  for (int i = 0; i < graph.size; ++i) {
    const int arity = space.operators[graph.applications[i].op].arity;
    for (int k = 0; k < arity; ++k) {
      const Ref ref = graph.applications[i].operands[k];
      if (ref >= kOutputs) consumed[(ref - kOutputs) / kMaxOutputs] = true;
    }
  }
  std::vector<Ref> outputs;
  for (int i = 0; i < graph.size; ++i) {
    const int count = NumOutputs(space.operators[graph.applications[i].op]);
    for (int k = 0; k < count && !consumed[i]; ++k) outputs.push_back(OutputRef(i, k));
  }
  return outputs;
}

// ---------------------------------------------------------------- canonical graphs

Walk::Walk(Terms& terms, int size, Visit visit)
    : terms_(terms), space_(terms.space()), size_(size), visit_(std::move(visit)) {
  CHECK(size >= 1 && size <= kMaxOps && space_.operators.size() < 128);
  for (const OperatorChoice& choice : space_.operators) max_arity_ = std::max(max_arity_, choice.arity);
  for (int input = 0; input < terms.num_inputs(); ++input) values_[input] = input;
}

bool Walk::Run() {
  next_subtree_ = 0;
  return EnterOrExtend(0);
}

bool Walk::EnterOrExtend(int depth) {
  if (depth != subtrees_.depth) return Extend(depth);
  const uint64_t number = next_subtree_++;
  return !subtrees_.enter(number) || (Extend(depth) && subtrees_.leave(number));
}

bool Walk::Extend(int depth) {
  for (size_t op = 0; op < space_.operators.size(); ++op) {
    if (space_.operators[op].view) continue;
    if (!Choose(depth, static_cast<int>(op), 0)) return false;
  }
  return true;
}

// Chooses operand `slot`: an available value, or the next unused input of a group.
bool Walk::Choose(int depth, int op, int slot) {
  const OperatorChoice& choice = space_.operators[op];
  if (slot == choice.arity) return Try(depth, op);
  const auto rank_fits = [&](Ref ref) {
    return choice.ranks.empty() || terms_.type(terms_.value(values_[ref]).type).rank() == choice.ranks[slot];
  };
  const size_t count = available_.size();
  for (size_t k = 0; k < count; ++k) {
    const Ref ref = available_[k];
    if (!rank_fits(ref)) continue;
    if (choice.commutative && slot == 1 && ref < operands_[0]) continue;
    operands_[slot] = ref;
    if (!Choose(depth, op, slot + 1)) return false;
  }
  for (size_t g = 0; g < space_.inputs.size(); ++g) {
    if (used_[g] == space_.inputs[g].count) continue;
    const Ref ref = static_cast<Ref>(terms_.first_of(static_cast<int>(g)) + used_[g]);
    if (!rank_fits(ref)) continue;
    if (choice.commutative && slot == 1 && ref < operands_[0]) continue;
    operands_[slot] = ref;
    ++used_[g];
    available_.push_back(ref);
    const bool go_on = Choose(depth, op, slot + 1);
    available_.pop_back();
    --used_[g];
    if (!go_on) return false;
  }
  return true;
}

// True if the sequence stays the least: every application after the last one that `next` needs is less than `next`.
bool Walk::InOrder(int depth, const SmallGraph::Application& next) const {
  const int arity = space_.operators[next.op].arity;
  int last = -1;
  for (int k = 0; k < arity; ++k) {
    if (next.operands[k] >= kOutputs) last = std::max(last, (next.operands[k] - kOutputs) / kMaxOutputs);
  }
  for (int i = last + 1; i < depth; ++i) {
    const SmallGraph::Application& other = graph_.applications[i];
    if (next.op != other.op) {
      if (next.op < other.op) return false;
      continue;
    }
    if (!std::lexicographical_compare(other.operands, other.operands + arity, next.operands, next.operands + arity)) {
      return false;
    }
  }
  return true;
}

bool Walk::Try(int depth, int op) {
  const OperatorChoice& choice = space_.operators[op];
  SmallGraph::Application next{.op = static_cast<int8_t>(op)};
  ValueId operands[kMaxArity];
  TypeId types[kMaxArity];
  for (int k = 0; k < choice.arity; ++k) {
    next.operands[k] = operands_[k];
    operands[k] = values_[operands_[k]];
    types[k] = terms_.value(operands[k]).type;
  }
  if (!InOrder(depth, next) || !terms_.Takes(op, operands) || terms_.Apply(op, types) == nullptr) return true;

  // Components: applications that share an input or an application. Bits 0..47: inputs, from 48 on: applications.
  uint64_t reach = uint64_t{1} << (48 + depth);
  for (int k = 0; k < choice.arity; ++k) {
    reach |= operands_[k] < kOutputs ? uint64_t{1} << operands_[k]
                                     : uint64_t{1} << (48 + (operands_[k] - kOutputs) / kMaxOutputs);
  }
  uint64_t components[kMaxOps];
  int count = 0;
  for (int i = 0; i <= depth; ++i) {
    uint64_t merged = i < depth ? reaches_[i] : reach;
    for (int j = 0; j < count;) {
      if ((components[j] & merged) != 0) {
        merged |= components[j];
        components[j] = components[--count];
        j = 0;
      } else {
        ++j;
      }
    }
    components[count++] = merged;
  }
  if (count > 1 + (size_ - depth - 1) * (max_arity_ - 1)) return true;

  graph_.applications[depth] = next;
  graph_.size = static_cast<int8_t>(depth + 1);
  if (depth + 1 == size_) {
    return visit_(graph_, values_);
  }
  const TermNodeId node = terms_.Add(op, operands);
  if (node < 0) return true;
  const TermNode& added = terms_.node(node);
  // A tensor that is there already needs no second name.
  for (int k = 0; k < added.num_outputs; ++k) {
    for (Ref ref : available_) {
      if (terms_.value(values_[ref]).hash == terms_.value(added.first + k).hash) return true;
    }
  }
  reaches_[depth] = reach;
  for (int k = 0; k < added.num_outputs; ++k) {
    values_[OutputRef(depth, k)] = added.first + k;
    available_.push_back(OutputRef(depth, k));
  }
  Ref saved[kMaxArity];
  std::copy_n(operands_, kMaxArity, saved);
  const int num_outputs = added.num_outputs;
  const bool go_on = EnterOrExtend(depth + 1);
  std::copy_n(saved, kMaxArity, operands_);
  available_.resize(available_.size() - static_cast<size_t>(num_outputs));
  return go_on;
}

// ---------------------------------------------------------------- raw graphs

namespace {

class RawWalk {
 public:
  RawWalk(const Space& space, int max_ops)
      : space_(space), terms_(space, {space.nominal}, false, 0), max_ops_(max_ops) {
    for (int input = 0; input < terms_.num_inputs(); ++input) values_.push_back(input);
  }

  uint64_t Count() {
    Visit(0);
    return count_;
  }

 private:
  void Visit(int depth) {
    ++count_;
    if (depth == max_ops_) return;
    for (size_t op = 0; op < space_.operators.size(); ++op) {
      const OperatorChoice& choice = space_.operators[op];
      const int n = static_cast<int>(values_.size());
      if (choice.arity == 0) Try(depth, static_cast<int>(op), -1, -1);
      for (int j = 0; j < n && choice.arity > 0; ++j) {
        if (choice.arity == 1) {
          Try(depth, static_cast<int>(op), j, -1);
          continue;
        }
        for (int k = choice.commutative || choice.in_order ? j + 1 : 0; k < n; ++k)
          Try(depth, static_cast<int>(op), j, k);
      }
    }
  }

  void Try(int depth, int op, int j, int k) {
    const ValueId operands[kMaxArity] = {j < 0 ? -1 : values_[j], k < 0 ? -1 : values_[k], -1};
    TypeId types[kMaxArity] = {};
    for (int i = 0; i < space_.operators[op].arity; ++i) types[i] = terms_.value(operands[i]).type;
    if (!terms_.Takes(op, operands) || terms_.Apply(op, types) == nullptr) return;
    for (TermNodeId id : nodes_) {
      const TermNode& node = terms_.node(id);
      if (node.op == op && std::equal(operands, operands + kMaxArity, node.operands)) return;
    }
    if (depth + 1 == max_ops_) {
      ++count_;
      return;
    }
    const TermNodeId id = terms_.Add(op, operands);
    nodes_.push_back(id);
    const TermNode node = terms_.node(id);
    for (int i = 0; i < node.num_outputs; ++i) values_.push_back(node.first + i);
    Visit(depth + 1);
    values_.resize(values_.size() - static_cast<size_t>(node.num_outputs));
    nodes_.pop_back();
  }

  const Space& space_;
  Terms terms_;
  const int max_ops_;
  std::vector<ValueId> values_;
  std::vector<TermNodeId> nodes_;
  uint64_t count_ = 0;
};

}  // namespace

uint64_t CountRawGraphs(const Space& space, int max_ops) { return RawWalk(space, max_ops).Count(); }

}  // namespace rewright::generate
