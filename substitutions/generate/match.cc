#include "substitutions/generate/match.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "core/evaluate_field.h"

namespace rewright::generate {
namespace {

// The cones of all applications, as bits.
std::array<uint64_t, kMaxOps> Cones(const Space& space, const SmallGraph& graph) {
  std::array<uint64_t, kMaxOps> cones{};
  for (int i = 0; i < graph.size; ++i) {
    cones[static_cast<size_t>(i)] = uint64_t{1} << i;
    const int arity = space.operators[static_cast<size_t>(graph.applications[i].op)].arity;
    for (int k = 0; k < arity; ++k) {
      const Ref ref = graph.applications[i].operands[k];
      if (ref >= kOutputs) cones[static_cast<size_t>(i)] |= cones[static_cast<size_t>((ref - kOutputs) / kMaxOutputs)];
    }
  }
  return cones;
}

uint64_t Fingerprint(std::vector<uint64_t> hashes) {
  std::sort(hashes.begin(), hashes.end());
  uint64_t result = hashes.size();
  for (uint64_t hash : hashes) result = KeyedHash(result, hash);
  return result;
}

// Calls `visit` with every naming of the inputs in `live` by the first names of their groups; the other inputs of
// these groups get the names that are left.
template <typename F>
void ForEachNaming(const Terms& terms, uint64_t live, const F& visit) {
  std::array<Ref, kOutputs> names;
  std::iota(names.begin(), names.end(), Ref{0});
  const size_t groups = terms.space().inputs.size();
  std::vector<std::vector<Ref>> chosen(groups), order(groups);
  for (int input = 0; input < terms.num_inputs(); ++input) {
    if ((live >> input) & 1) chosen[static_cast<size_t>(terms.group_of(input))].push_back(static_cast<Ref>(input));
  }
  for (size_t g = 0; g < groups; ++g) {
    if (chosen[g].empty()) continue;
    order[g].resize(chosen[g].size());
    std::iota(order[g].begin(), order[g].end(), static_cast<Ref>(terms.first_of(static_cast<int>(g))));
    Ref next = static_cast<Ref>(terms.first_of(static_cast<int>(g)) + static_cast<int>(chosen[g].size()));
    for (int k = 0; k < terms.space().inputs[g].count; ++k) {
      const Ref input = static_cast<Ref>(terms.first_of(static_cast<int>(g)) + k);
      if (((live >> input) & 1) == 0) names[input] = next++;
    }
  }
  const auto choose = [&](const auto& self, size_t g) -> void {
    if (g == groups) {
      visit(names);
      return;
    }
    do {
      for (size_t k = 0; k < chosen[g].size(); ++k) names[chosen[g][k]] = order[g][k];
      self(self, g + 1);
    } while (std::next_permutation(order[g].begin(), order[g].end()));
  };
  choose(choose, 0);
}

}  // namespace

FingerprintTable::FingerprintTable(Terms& terms, int max_size, uint32_t part, uint32_t parts)
    : terms_(terms), space_(terms.space()), max_size_(max_size), part_(part), parts_(parts) {
  AddSingles();
}

// The graphs without applications: one input, or two.
void FingerprintTable::AddSingles() {
  for (int i = 0; i < terms_.num_inputs(); ++i) best_[terms_.value(i).hash] = 0;
  for (size_t g = 0; g < space_.inputs.size(); ++g) {
    SmallGraph graph{.num_inputs = 1};
    graph.inputs[0] = static_cast<Ref>(terms_.first_of(static_cast<int>(g)));
    Add(graph, nullptr);
    for (size_t h = g; h < space_.inputs.size(); ++h) {
      if (g == h && space_.inputs[g].count < 2) continue;
      graph.num_inputs = 2;
      graph.inputs[1] = static_cast<Ref>(terms_.first_of(static_cast<int>(h)) + (g == h ? 1 : 0));
      Add(graph, nullptr);
    }
  }
}

bool FingerprintTable::Rename(const SmallGraph& graph, const Ref* names, ValueId* values, SmallGraph* renamed) {
  *renamed = graph;
  for (int i = 0; i < graph.num_inputs && graph.size == 0; ++i) renamed->inputs[i] = names[graph.inputs[i]];
  for (int i = 0; i < graph.size; ++i) {
    SmallGraph::Application& application = renamed->applications[i];
    ValueId operands[kMaxArity];
    const int arity = space_.operators[static_cast<size_t>(application.op)].arity;
    for (int k = 0; k < arity; ++k) {
      Ref& ref = application.operands[k];
      if (ref < kOutputs) ref = names[ref];
      operands[k] = ref < kOutputs ? ref : values[ref];
    }
    if (i + 1 == graph.size) break;
    const NodeId node = terms_.Add(application.op, operands);
    if (node < 0) return false;
    for (int k = 0; k < terms_.node(node).num_outputs; ++k) values[OutputRef(i, k)] = terms_.node(node).first + k;
  }
  return true;
}

// Orders graphs by size, then by operators: less is simpler.
uint64_t FingerprintTable::Rank(uint64_t cone, const SmallGraph& graph) const {
  std::array<int, 128> uses{};
  uint64_t count = 0;
  for (int i = 0; i < graph.size; ++i) {
    if (((cone >> i) & 1) == 0) continue;
    ++uses[static_cast<size_t>(graph.applications[i].op)];
    ++count;
  }
  uint64_t rank = count;
  for (size_t op = 0; op < space_.operators.size(); ++op) {
    for (int k = 0; k < uses[op]; ++k) rank = rank << 7 | op;
  }
  return rank;
}

bool FingerprintTable::Reducible(const SmallGraph& graph, const ValueId* values, const LastValue& last,
                                 const std::vector<Ref>& outputs) const {
  const auto cones = Cones(space_, graph);
  const bool shares = outputs.size() > 1 && SharesWork(space_, graph);
  for (int i = 0; i < graph.size; ++i) {
    const bool is_output = std::find(outputs.begin(), outputs.end(), OutputRef(i, 0)) != outputs.end();
    if (is_output && (outputs.size() == 1 || shares)) continue;
    const int count = NumOutputs(space_.operators[static_cast<size_t>(graph.applications[i].op)]);
    const uint64_t rank = Rank(cones[static_cast<size_t>(i)], graph);
    for (int k = 0; k < count; ++k) {
      const uint64_t hash = i + 1 == graph.size ? last.hashes[k] : terms_.value(values[OutputRef(i, k)]).hash;
      const auto found = best_.find(hash);
      if (found != best_.end() && found->second < rank) return true;
    }
  }
  return false;
}

void FingerprintTable::Add(const SmallGraph& graph, const ValueId* values) {
  const std::vector<Ref> outputs = OutputsOf(space_, graph);
  LastValue last;
  uint64_t live = 0;
  if (graph.size > 0) {
    const SmallGraph::Application& application = graph.applications[graph.size - 1];
    ValueId operands[kMaxArity];
    const int arity = space_.operators[static_cast<size_t>(application.op)].arity;
    for (int k = 0; k < arity; ++k) operands[k] = values[application.operands[k]];
    if (!terms_.Evaluate(application.op, operands, &last.count, last.hashes, last.supports)) {
      ++counts_.undefined;
      return;
    }
    // A tensor that occurs twice: of a graph with one output that is a law, of others it is in a smaller one.
    bool repeated = false;
    for (int i = 0; i + 1 < graph.size; ++i) {
      const int count = NumOutputs(space_.operators[static_cast<size_t>(graph.applications[i].op)]);
      for (int k = 0; k < count; ++k) {
        for (int l = 0; l < last.count; ++l) {
          repeated = repeated || terms_.value(values[OutputRef(i, k)]).hash == last.hashes[l];
        }
      }
    }
    if (repeated) ++counts_.repeated;
    if (repeated && outputs.size() > 1) return;
  }
  const auto is_last = [&](Ref ref) { return ref >= kOutputs && (ref - kOutputs) / kMaxOutputs + 1 == graph.size; };
  for (Ref ref : outputs) {
    live |= is_last(ref) ? last.supports[(ref - kOutputs) % kMaxOutputs]
                         : terms_.value(ref < kOutputs ? ref : values[ref]).support;
  }
  ++counts_.graphs;

  const bool record = graph.size > 0 && graph.size < max_size_;
  const auto cones = Cones(space_, graph);
  uint64_t least = UINT64_MAX;
  SmallGraph best;
  ForEachNaming(terms_, live, [&](const std::array<Ref, kOutputs>& names) {
    ValueId renamed_values[256];
    SmallGraph renamed;
    if (!Rename(graph, names.data(), renamed_values, &renamed)) return;
    LastValue renamed_last;
    if (graph.size > 0) {
      const SmallGraph::Application& application = renamed.applications[graph.size - 1];
      ValueId operands[kMaxArity];
      for (int k = 0; k < kMaxArity; ++k) {
        const Ref ref = application.operands[k];
        operands[k] = ref < kOutputs ? ref : renamed_values[ref];
      }
      if (!terms_.Evaluate(application.op, operands, &renamed_last.count, renamed_last.hashes, renamed_last.supports)) {
        return;
      }
    }
    std::vector<uint64_t> hashes;
    for (Ref ref : outputs) {
      const Ref named = ref < kOutputs ? names[ref] : ref;
      hashes.push_back(is_last(ref) ? renamed_last.hashes[(ref - kOutputs) % kMaxOutputs]
                                    : terms_.value(named < kOutputs ? named : renamed_values[named]).hash);
      if (!record || ref < kOutputs) continue;
      const uint64_t cone = cones[static_cast<size_t>((ref - kOutputs) / kMaxOutputs)];
      if (cone + 1 != uint64_t{1} << graph.size) continue;
      const uint64_t rank = Rank(cone, graph);
      const auto [at, fresh] = best_.emplace(hashes.back(), rank);
      if (!fresh) at->second = std::min(at->second, rank);
    }
    const uint64_t fingerprint = Fingerprint(hashes);
    if (fingerprint < least) {
      least = fingerprint;
      best = renamed;
    }
  });
  if (least % parts_ != part_) return;
  const auto [at, fresh] = graphs_.emplace(least, best);
  if (fresh) {
    ++counts_.distinct;
    return;
  }
  ++counts_.matches;
  if (live == 0) {
    ++counts_.constant;
  } else if (graph.size > 0 && Reducible(graph, values, last, outputs)) {
    ++counts_.reducible;
  } else if (outputs.size() > 1 && !SharesWork(space_, graph) &&
             !SharesWork(space_, at->second)) {
    ++counts_.separate;
  } else if (Follows(at->second, best)) {
    ++counts_.congruent;
  } else {
    pairs_.push_back({at->second, best});
  }
}

// Whether some output is the same operator of equal operands on both sides.
bool FingerprintTable::Follows(const SmallGraph& a, const SmallGraph& b) {
  const std::vector<ValueId> left = EvaluateGraph(terms_, a), right = EvaluateGraph(terms_, b);
  for (ValueId l : left) {
    for (ValueId r : right) {
      if (terms_.value(l).hash != terms_.value(r).hash) continue;
      if (l == r) return true;
      const Node &p = terms_.node(terms_.value(l).node), &q = terms_.node(terms_.value(r).node);
      if (p.op < 0 || p.op != q.op || l - p.first != r - q.first) continue;
      const OperatorChoice& choice = space_.operators[static_cast<size_t>(p.op)];
      std::vector<uint64_t> x, y;
      for (int k = 0; k < choice.arity; ++k) {
        x.push_back(terms_.value(p.operands[k]).hash);
        y.push_back(terms_.value(q.operands[k]).hash);
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

bool SharesWork(const Space& space, const SmallGraph& graph) {
  const std::vector<Ref> outputs = OutputsOf(space, graph);
  const auto cones = Cones(space, graph);
  uint64_t work = 0;
  for (int i = 0; i < graph.size; ++i) {
    if (space.operators[static_cast<size_t>(graph.applications[i].op)].arity > 0) work |= uint64_t{1} << i;
  }
  for (size_t a = 0; a < outputs.size(); ++a) {
    for (size_t b = a + 1; b < outputs.size(); ++b) {
      if (outputs[a] < kOutputs || outputs[b] < kOutputs) continue;
      const size_t i = static_cast<size_t>((outputs[a] - kOutputs) / kMaxOutputs);
      const size_t j = static_cast<size_t>((outputs[b] - kOutputs) / kMaxOutputs);
      if ((cones[i] & cones[j] & work) != 0) return true;
    }
  }
  return false;
}

size_t FingerprintTable::num_bytes() const {
  return graphs_.capacity() * (sizeof(std::pair<uint64_t, SmallGraph>) + 1) +
         best_.capacity() * (sizeof(std::pair<uint64_t, uint64_t>) + 1) + pairs_.capacity() * sizeof(Pair);
}

std::vector<ValueId> EvaluateGraph(Terms& terms, const SmallGraph& graph) {
  ValueId values[256];
  for (int i = 0; i < graph.size; ++i) {
    const SmallGraph::Application& application = graph.applications[i];
    ValueId operands[kMaxArity] = {-1, -1, -1};
    const int arity = terms.space().operators[static_cast<size_t>(application.op)].arity;
    for (int k = 0; k < arity; ++k) {
      const Ref ref = application.operands[k];
      operands[k] = ref < kOutputs ? ref : values[ref];
    }
    const NodeId node = terms.Add(application.op, operands);
    if (node < 0) return {};
    for (int k = 0; k < terms.node(node).num_outputs; ++k) values[OutputRef(i, k)] = terms.node(node).first + k;
  }
  std::vector<ValueId> result;
  for (Ref ref : OutputsOf(terms.space(), graph)) result.push_back(ref < kOutputs ? ref : values[ref]);
  return result;
}

std::vector<int> OutputPairs(Terms& terms, const Pair& pair) {
  const std::vector<ValueId> left = EvaluateGraph(terms, pair.first), right = EvaluateGraph(terms, pair.second);
  std::vector<int> result;
  std::vector<bool> taken(right.size(), false);
  if (left.size() != right.size()) return {};
  for (ValueId l : left) {
    size_t k = 0;
    while (k < right.size() && (taken[k] || terms.value(right[k]).hash != terms.value(l).hash)) ++k;
    if (k == right.size()) return {};
    taken[k] = true;
    result.push_back(static_cast<int>(k));
  }
  return result;
}

}  // namespace rewright::generate
