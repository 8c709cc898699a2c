#include "substitutions/generate/select/redundancy.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace rewright::generate {
namespace {

constexpr size_t kMaxCompared = 48;  // graphs of a class that each further one is compared with

bool IsConstant(const Space& space, const TermNode& node) {
  return node.op >= 0 && space.operators[node.op].arity == 0;
}

// True if an output on the left and one on the right are the same operator of equal operands.
bool IsCongruent(Terms& terms, const std::vector<ValueId>& left, const std::vector<ValueId>& right) {
  for (ValueId l : left) {
    for (ValueId r : right) {
      if (terms.value(l).hash != terms.value(r).hash) continue;
      if (l == r) return true;
      const TermNode &p = terms.node(terms.value(l).node), &q = terms.node(terms.value(r).node);
      if (p.op < 0 || p.op != q.op || l - p.first != r - q.first) continue;
      const OperatorChoice& choice = terms.space().operators[p.op];
      std::vector<uint64_t> x, y;
      for (int k = 0; k < choice.arity; ++k) {
        x.push_back(terms.value(p.operands[k]).hash);
        y.push_back(terms.value(q.operands[k]).hash);
      }
      if (choice.commutative) {
        std::sort(x.begin(), x.end());
        std::sort(y.begin(), y.end());
      }
      if (x == y) return true;
    }
  }
  return false;
}

// A pair with inputs in place of parts that both sides have.
class Abstraction {
 public:
  Abstraction(Terms& terms, const std::vector<ValueId>& left, const std::vector<ValueId>& right)
      : terms_(terms), left_(left), right_(right) {
    std::map<uint64_t, ValueId> parts;
    for (ValueId value : left) Collect(value, [&](ValueId part) { parts.emplace(HashOf(part), part); });
    for (ValueId value : right) {
      Collect(value, [&](ValueId part) {
        if (parts.count(HashOf(part)) == 1) common_.emplace(HashOf(part), terms_.value(part).type);
      });
    }
    // An output is all that its side says.
    for (ValueId value : left) common_.erase(HashOf(value));
    for (ValueId value : right) common_.erase(HashOf(value));
  }

  bool IsInstance() {
    if (common_.empty()) return false;
    if (Holds(common_)) return true;
    for (const auto& part : common_) {
      if (common_.size() > 1 && Holds({part})) return true;
    }
    return false;
  }

 private:
  using Parts = std::map<uint64_t, TypeId>;  // by hash

  uint64_t HashOf(ValueId value) const { return terms_.value(value).hash; }

  template <typename F>
  void Collect(ValueId value, const F& visit) {
    const TermNode node = terms_.node(terms_.value(value).node);
    if (node.op < 0 || IsConstant(terms_.space(), node)) return;
    visit(value);
    for (ValueId operand : node.operands) {
      if (operand >= 0) Collect(operand, visit);
    }
  }

  // Inputs that are read outside the parts.
  uint64_t InputsBeside(ValueId value, const Parts& parts) const {
    if (parts.count(HashOf(value)) == 1) return 0;
    const TermNode& node = terms_.node(terms_.value(value).node);
    if (node.op < 0) return uint64_t{1} << value;
    uint64_t inputs = 0;
    for (ValueId operand : node.operands) {
      if (operand >= 0) inputs |= InputsBeside(operand, parts);
    }
    return inputs;
  }

  bool Holds(const Parts& parts) {
    uint64_t taken = 0;
    for (ValueId value : left_) taken |= InputsBeside(value, parts);
    for (ValueId value : right_) taken |= InputsBeside(value, parts);
    inputs_.clear();
    for (const auto& [hash, type] : parts) {
      for (int input = 0; input < terms_.num_inputs(); ++input) {
        if (((taken >> input) & 1) != 0 || terms_.value(input).type != type) continue;
        taken |= uint64_t{1} << input;
        inputs_[hash] = input;
        break;
      }
    }
    // If there are more parts than free inputs, only the parts that got one are replaced.
    if (inputs_.empty()) return false;
    std::vector<uint64_t> left, right;
    return Outputs(left_, &left) && Outputs(right_, &right) && left == right;
  }

  // The hashes of the outputs; false where the graph with inputs in it is none of the space.
  bool Outputs(const std::vector<ValueId>& values, std::vector<uint64_t>* hashes) {
    std::vector<std::vector<ValueId>> components;  // leaves and nodes' outputs
    for (ValueId value : values) {
      std::vector<ValueId> reached;
      const ValueId result = Replace(value, &reached);
      if (result < 0) return false;
      hashes->push_back(HashOf(result));
      std::vector<std::vector<ValueId>> apart;
      for (std::vector<ValueId>& other : components) {
        const bool meets = std::any_of(other.begin(), other.end(), [&](ValueId v) {
          return std::find(reached.begin(), reached.end(), v) != reached.end();
        });
        if (meets) {
          reached.insert(reached.end(), other.begin(), other.end());
        } else {
          apart.push_back(std::move(other));
        }
      }
      apart.push_back(std::move(reached));
      components = std::move(apart);
    }
    std::sort(hashes->begin(), hashes->end());
    return components.size() == 1;
  }

  ValueId Replace(ValueId value, std::vector<ValueId>* reached) {
    const auto found = inputs_.find(HashOf(value));
    if (found != inputs_.end()) {
      reached->push_back(found->second);
      return found->second;
    }
    const TermNode node = terms_.node(terms_.value(value).node);
    if (node.op < 0) {
      reached->push_back(value);
      return value;
    }
    ValueId operands[kMaxArity] = {-1, -1, -1};
    for (int k = 0; k < terms_.space().operators[node.op].arity; ++k) {
      operands[k] = Replace(node.operands[k], reached);
      if (operands[k] < 0) return -1;
    }
    if (!terms_.Takes(node.op, operands)) return -1;
    const TermNodeId replaced = terms_.Add(node.op, operands);
    if (replaced < 0) return -1;
    // All outputs of a node belong together.
    reached->push_back(terms_.node(replaced).first);
    return terms_.node(replaced).first + (value - node.first);
  }

  Terms& terms_;
  const std::vector<ValueId>&left_, &right_;
  Parts common_;
  std::map<uint64_t, ValueId> inputs_;  // by hash of the part
};

}  // namespace

std::vector<Redundancy> RedundanciesOf(Terms& terms, const std::vector<SmallGraph>& graphs) {
  const size_t count = graphs.size();
  std::vector<std::vector<ValueId>> values;
  std::vector<bool> shares;
  for (const SmallGraph& graph : graphs) {
    values.push_back(EvaluateGraph(terms, graph));
    shares.push_back(SharesWork(terms.space(), graph));
  }
  uint64_t live = 0;
  for (ValueId value : values[0]) live |= terms.value(value).support;
  if (live == 0) return std::vector<Redundancy>(count, Redundancy::kConstant);

  const auto link = [&](size_t a, size_t b) {
    if (values[b].size() > 1 && !shares[a] && !shares[b]) return Redundancy::kSeparate;
    if (IsCongruent(terms, values[a], values[b])) return Redundancy::kCongruent;
    return Abstraction(terms, values[a], values[b]).IsInstance() ? Redundancy::kInstance : Redundancy::kNone;
  };
  std::vector<Redundancy> result(count, Redundancy::kNone);
  std::vector<size_t> group(count);  // of linked graphs: its first one
  std::iota(group.begin(), group.end(), size_t{0});
  for (size_t b = 1; b < count; ++b) {
    for (size_t a = 0; a < std::min(b, kMaxCompared); ++a) {
      if (group[a] == group[b]) continue;
      const Redundancy redundancy = link(a, b);
      if (redundancy == Redundancy::kNone) continue;
      const size_t later = std::max(group[a], group[b]), earlier = std::min(group[a], group[b]);
      result[later] = redundancy;
      std::replace(group.begin(), group.end(), later, earlier);
    }
  }
  return result;
}

bool SharesWork(const Space& space, const SmallGraph& graph) {
  const std::vector<Ref> outputs = OutputsOf(space, graph);
  const auto cones = ConesOf(space, graph);
  uint64_t work = 0;
  for (int i = 0; i < graph.size; ++i) {
    if (space.operators[graph.applications[i].op].arity > 0) work |= uint64_t{1} << i;
  }
  for (size_t a = 0; a < outputs.size(); ++a) {
    for (size_t b = a + 1; b < outputs.size(); ++b) {
      if (outputs[a] < kOutputs || outputs[b] < kOutputs) continue;
      const size_t i = (outputs[a] - kOutputs) / kMaxOutputs;
      const size_t j = (outputs[b] - kOutputs) / kMaxOutputs;
      if ((cones[i] & cones[j] & work) != 0) return true;
    }
  }
  return false;
}

}  // namespace rewright::generate
