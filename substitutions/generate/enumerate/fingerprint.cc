#include "substitutions/generate/enumerate/fingerprint.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "substitutions/generate/enumerate/field.h"

namespace rewright::generate {
namespace {

uint64_t Fingerprint(uint64_t* hashes, size_t count) {
  std::sort(hashes, hashes + count);
  uint64_t result = count;
  for (size_t k = 0; k < count; ++k) result = KeyedHash(result, hashes[k]);
  return result;
}

constexpr uint64_t Bit(int i) { return uint64_t{1} << i; }
constexpr int ApplicationOf(Ref ref) { return (ref - kOutputs) / kMaxOutputs; }
constexpr int OutputOf(Ref ref) { return (ref - kOutputs) % kMaxOutputs; }

// Calls `visit` with every naming of the inputs in `live` by the first names of their groups; the other inputs of
// these groups get the names that are left.
template <typename F>
void ForEachNaming(const Terms& terms, uint64_t live, const F& visit) {
  std::array<Ref, kOutputs> names;
  std::iota(names.begin(), names.end(), Ref{0});
  const size_t groups = terms.space().inputs.size();
  std::vector<std::vector<Ref>> chosen(groups), order(groups);
  for (int input = 0; input < terms.num_inputs(); ++input) {
    if ((live >> input) & 1) chosen[terms.group_of(input)].push_back(static_cast<Ref>(input));
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

// Calls `visit` with every naming of the inputs in `live` by any names of their groups.
template <typename F>
void ForEachInjection(const Terms& terms, uint64_t live, const F& visit) {
  std::array<Ref, kOutputs> names;
  std::iota(names.begin(), names.end(), Ref{0});
  std::vector<int> inputs;
  for (int input = 0; input < terms.num_inputs(); ++input) {
    if ((live >> input) & 1) inputs.push_back(input);
  }
  const auto choose = [&](const auto& self, size_t k, uint64_t taken) -> void {
    if (k == inputs.size()) {
      visit(names);
      return;
    }
    const int group = terms.group_of(inputs[k]);
    for (int i = 0; i < terms.space().inputs[group].count; ++i) {
      const int name = terms.first_of(group) + i;
      if ((taken >> name) & 1) continue;
      names[inputs[k]] = static_cast<Ref>(name);
      self(self, k + 1, taken | Bit(name));
    }
  };
  choose(choose, 0, 0);
}

}  // namespace

std::array<uint64_t, kMaxOps> ConesOf(const Space& space, const SmallGraph& graph) {
  std::array<uint64_t, kMaxOps> cones{};
  for (int i = 0; i < graph.size; ++i) {
    cones[i] = uint64_t{1} << i;
    const int arity = space.operators[graph.applications[i].op].arity;
    for (int k = 0; k < arity; ++k) {
      const Ref ref = graph.applications[i].operands[k];
      if (ref >= kOutputs) cones[i] |= cones[(ref - kOutputs) / kMaxOutputs];
    }
  }
  return cones;
}

MatchCounts& MatchCounts::operator+=(const MatchCounts& other) {
  graphs += other.graphs;
  reducible += other.reducible;
  repeated += other.repeated;
  undefined += other.undefined;
  distinct += other.distinct;
  matches += other.matches;
  congruent += other.congruent;
  instances += other.instances;
  separate += other.separate;
  constant += other.constant;
  return *this;
}

// ---------------------------------------------------------------- classes

Classes::Classes(const Space& space, const GraphCode& code) : space_(space), code_(code) {
  for (size_t g = 0; g < space.inputs.size(); ++g)
    group_of_.insert(group_of_.end(), space.inputs[g].count, static_cast<int>(g));
}

Simplicity Classes::SimplicityOf(PackedGraph graph) const {
  return generate::SimplicityOf(space_, code_.Unpack(graph), group_of_.data());
}

const PackedGraph* Classes::Find(uint64_t fingerprint) const {
  const auto found = finished_.find(fingerprint);
  return found == finished_.end() ? nullptr : &found->second;
}

PackedGraph Classes::Representative(uint64_t fingerprint) const {
  const PackedGraph* found = Find(fingerprint);
  return found != nullptr ? *found : current_.find(fingerprint)->second;
}

void Classes::Add(const Record* records, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (Find(records[i].fingerprint) != nullptr) {
      matches_.push_back(records[i]);
      continue;
    }
    const auto [at, fresh] = current_.emplace(records[i].fingerprint, records[i].graph);
    if (fresh) continue;
    // The order in which graphs come must not matter.
    Record other = records[i];
    if (std::pair(SimplicityOf(other.graph), other.graph) < std::pair(SimplicityOf(at->second), at->second)) {
      std::swap(other.graph, at->second);
    }
    matches_.push_back(other);
  }
}

void Classes::Finish() {
  finished_.reserve(finished_.size() + current_.size());
  finished_.insert(current_.begin(), current_.end());
  Drop();
}

void Classes::Drop() {
  current_ = {};
  matches_ = {};
}

size_t Classes::num_bytes() const {
  return (finished_.capacity() + current_.capacity()) * (sizeof(std::pair<uint64_t, PackedGraph>) + 1) +
         matches_.capacity() * sizeof(Record);
}

// ---------------------------------------------------------------- fingerprints

// The part of a graph's structure that does not depend on names.
struct Fingerprinter::Layout {
  std::array<uint64_t, kMaxOps> cones;  // applications that each is computed from, itself among them
  uint64_t used[kMaxOps] = {};          // by application: applications that read it
  uint8_t reads[kMaxOps] = {};          // by application: outputs of it that are read, as bits
  Ref outputs[kMaxOps * kMaxOutputs];
  size_t num_outputs = 0;
  uint64_t output_applications = 0;
};

Fingerprinter::Fingerprinter(Terms& terms, const GraphCode& code, const Classes& classes)
    : terms_(terms), space_(terms.space()), code_(code), classes_(classes) {}

MatchCounts Fingerprinter::TakeCounts() { return std::exchange(counts_, MatchCounts()); }

void Fingerprinter::Release(const Terms::Mark& mark) {
  absl::erase_if(parts_, [&](const auto& entry) { return entry.first >= static_cast<ValueId>(mark.values); });
}

void Fingerprinter::Describe(const SmallGraph& graph, Layout* layout) const {
  layout->cones = ConesOf(space_, graph);
  for (int i = 0; i < graph.size; ++i) {
    const SmallGraph::Application& application = graph.applications[i];
    const int arity = space_.operators[application.op].arity;
    for (int k = 0; k < arity; ++k) {
      const Ref ref = application.operands[k];
      if (ref < kOutputs) continue;
      layout->used[ApplicationOf(ref)] |= Bit(i);
      layout->reads[ApplicationOf(ref)] |= static_cast<uint8_t>(1 << OutputOf(ref));
    }
  }
  for (int i = 0; i < graph.size; ++i) {
    if (layout->used[i] != 0) continue;
    layout->output_applications |= Bit(i);
    const int count = NumOutputs(space_.operators[graph.applications[i].op]);
    for (int k = 0; k < count; ++k) layout->outputs[layout->num_outputs++] = OutputRef(i, k);
  }
}

// The graphs without applications: one input, or two, or three of one kind where a split has as many parts.
void Fingerprinter::AddSingles(std::vector<Record>* records) {
  const auto add = [&](SmallGraph graph) {
    uint64_t live = 0;
    for (int i = 0; i < graph.num_inputs; ++i) live |= Bit(graph.inputs[i]);
    Record record{UINT64_MAX, {}};
    ForEachNaming(terms_, live, [&](const std::array<Ref, kOutputs>& names) {
      SmallGraph renamed = graph;
      uint64_t hashes[3];
      for (int i = 0; i < graph.num_inputs; ++i) {
        renamed.inputs[i] = names[graph.inputs[i]];
        hashes[i] = terms_.value(renamed.inputs[i]).hash;
      }
      const Record next{Fingerprint(hashes, static_cast<size_t>(graph.num_inputs)), code_.Pack(renamed)};
      if (std::pair(next.fingerprint, next.graph) < std::pair(record.fingerprint, record.graph)) record = next;
    });
    records->push_back(record);
    ++counts_.graphs;
    const int names = space_.inputs[terms_.group_of(graph.inputs[0])].count;
    for (int i = 0; graph.num_inputs == 1 && i < names; ++i) {
      SmallGraph renamed = graph;
      renamed.inputs[0] = static_cast<Ref>(graph.inputs[0] + i);
      uint64_t hash = terms_.value(renamed.inputs[0]).hash;
      const Record next{Fingerprint(&hash, 1), code_.Pack(renamed)};
      if (next.fingerprint != record.fingerprint) records->push_back(next);
    }
  };
  const bool three = std::any_of(space_.operators.begin(), space_.operators.end(),
                                 [](const OperatorChoice& choice) { return choice.parts == 3; });
  for (size_t g = 0; g < space_.inputs.size(); ++g) {
    SmallGraph graph{.num_inputs = 1};
    graph.inputs[0] = static_cast<Ref>(terms_.first_of(static_cast<int>(g)));
    add(graph);
    graph.num_inputs = 2;
    for (size_t h = g; h < space_.inputs.size(); ++h) {
      if (g == h && space_.inputs[g].count < 2) continue;
      graph.inputs[1] = static_cast<Ref>(terms_.first_of(static_cast<int>(h)) + (g == h ? 1 : 0));
      add(graph);
    }
    if (!three || space_.inputs[g].count < 3) continue;
    graph.num_inputs = 3;
    for (Ref k = 1; k < 3; ++k) graph.inputs[k] = static_cast<Ref>(graph.inputs[0] + k);
    add(graph);
  }
}

// `graph` with inputs renamed; values of all but the last application go to `values`.
bool Fingerprinter::Rename(const SmallGraph& graph, const Ref* names, ValueId* values, SmallGraph* renamed) {
  *renamed = graph;
  for (int i = 0; i < graph.size; ++i) {
    SmallGraph::Application& application = renamed->applications[i];
    ValueId operands[kMaxArity];
    const int arity = space_.operators[application.op].arity;
    for (int k = 0; k < arity; ++k) {
      Ref& ref = application.operands[k];
      if (ref < kOutputs) {
        ref = names[ref];
        values[ref] = ref;
      }
      operands[k] = values[ref];
    }
    if (i + 1 == graph.size) break;
    const TermNodeId node = terms_.Add(application.op, operands);
    if (node < 0) return false;
    for (int k = 0; k < terms_.node(node).num_outputs; ++k) values[OutputRef(i, k)] = terms_.node(node).first + k;
  }
  return true;
}

// Evaluates the last application. `keep` adds it to the terms as a node, whose first output is `first` then. A value
// that is computed from the whole graph is needed once, so it is not kept otherwise.
bool Fingerprinter::EvaluateLast(const SmallGraph& graph, bool keep, const ValueId* values, LastValue* last,
                                 ValueId* first) {
  const SmallGraph::Application& application = graph.applications[graph.size - 1];
  ValueId operands[kMaxArity] = {-1, -1, -1};
  const int arity = space_.operators[application.op].arity;
  for (int k = 0; k < arity; ++k) operands[k] = values[application.operands[k]];
  if (!keep) return terms_.Evaluate(application.op, operands, &last->count, last->hashes, last->supports);
  const TermNodeId node = terms_.Add(application.op, operands);
  if (node < 0) return false;
  *first = terms_.node(node).first;
  last->count = terms_.node(node).num_outputs;
  for (int k = 0; k < last->count; ++k) {
    last->hashes[k] = terms_.value(*first + k).hash;
    last->supports[k] = terms_.value(*first + k).support;
  }
  return true;
}

ValueId Fingerprinter::RenameValue(ValueId value, const Ref* names) {
  const TermNode node = terms_.node(terms_.value(value).node);
  if (node.op < 0) return names[value];
  ValueId operands[kMaxArity] = {-1, -1, -1};
  for (int k = 0; k < space_.operators[node.op].arity; ++k) {
    operands[k] = RenameValue(node.operands[k], names);
    if (operands[k] < 0) return -1;
  }
  const TermNodeId renamed = terms_.Add(node.op, operands);
  return renamed < 0 ? -1 : terms_.node(renamed).first + (value - node.first);
}

uint64_t Fingerprinter::FormOf(ValueId value) {
  const TermNode& node = terms_.node(terms_.value(value).node);
  if (node.op < 0) return InputForm(terms_.group_of(value));
  uint64_t operands[kMaxArity];
  for (int k = 0; k < space_.operators[node.op].arity; ++k) operands[k] = FormOf(node.operands[k]);
  return generate::FormOf(space_, node.op, operands, value - node.first);
}

const Fingerprinter::Part& Fingerprinter::PartOf(ValueId value) {
  const auto found = parts_.find(value);
  if (found != parts_.end()) return found->second;
  uint64_t least = UINT64_MAX;
  ForEachNaming(terms_, terms_.value(value).support, [&](const std::array<Ref, kOutputs>& names) {
    const ValueId renamed = RenameValue(value, names.data());
    if (renamed < 0) return;
    uint64_t hash = terms_.value(renamed).hash;
    least = std::min(least, Fingerprint(&hash, 1));
  });
  Part part{.form = FormOf(value)};
  if (const PackedGraph* simplest = classes_.Find(least)) part.least = classes_.SimplicityOf(*simplest);
  return parts_.emplace(value, part).first->second;
}

// True if a part that is an output of the applications before `end` makes the graph reducible.
bool Fingerprinter::IsReducible(const SmallGraph& graph, const Layout& layout, const ValueId* values, int end) {
  for (int i = 0; i < end; ++i) {
    const bool is_output = (layout.output_applications & Bit(i)) != 0;
    // Two outputs of one application are no part: both would have to be replaced.
    const int count = NumOutputs(space_.operators[graph.applications[i].op]);
    if (is_output && (layout.num_outputs == 1 || count > 1)) continue;
    if (layout.reads[i] == 3) continue;
    const int output = layout.reads[i] == 2 ? 1 : 0;
    const Part& part = PartOf(values[OutputRef(i, output)]);
    // An input is no output of any graph of the space.
    if (part.least.rank == UINT64_MAX || (is_output && part.least.rank == 0)) continue;
    // The applications that go away with the part: nothing else is computed from them, and they are no outputs.
    uint64_t own = Bit(i);
    for (int j = i; j-- > 0;) {
      if ((layout.cones[i] & Bit(j)) != 0 && (layout.used[j] & ~own) == 0) own |= Bit(j);
    }
    const uint64_t rank = RankOf(graph, own);
    if (part.least.rank < rank) return true;
    if (part.least.rank == rank && own == layout.cones[i] && part.least.form < part.form) return true;
  }
  return false;
}

void Fingerprinter::Add(const SmallGraph& graph, const ValueId* values, std::vector<Record>* records) {
  Layout layout;
  Describe(graph, &layout);
  if (layout.num_outputs > static_cast<size_t>(space_.max_outputs)) return;
  ++counts_.graphs;
  const int end = graph.size - 1;
  if (IsReducible(graph, layout, values, end)) {
    ++counts_.reducible;
    return;
  }
  // A last application that does not need all of the graph is the last one of a smaller graph, too.
  const bool keep = layout.cones[end] + 1 != Bit(graph.size);
  LastValue last;
  ValueId first = -1;
  if (!EvaluateLast(graph, keep, values, &last, &first)) {
    ++counts_.undefined;
    return;
  }
  if (keep) {
    ValueId all[256];
    for (int i = 0; i < end; ++i) {
      for (int k = 0; k < kMaxOutputs; ++k) all[OutputRef(i, k)] = values[OutputRef(i, k)];
    }
    for (int k = 0; k < last.count; ++k) all[OutputRef(end, k)] = first + k;
    if (IsReducible(graph, layout, all, graph.size)) {
      ++counts_.reducible;
      return;
    }
  }
  // A tensor that occurs twice: for a graph with one output that is a law; the law of other graphs is in a smaller one.
  for (int i = 0; i < end && layout.num_outputs > 1; ++i) {
    const int count = NumOutputs(space_.operators[graph.applications[i].op]);
    for (int k = 0; k < count; ++k) {
      for (int l = 0; l < last.count; ++l) {
        if (terms_.value(values[OutputRef(i, k)]).hash != last.hashes[l]) continue;
        ++counts_.repeated;
        return;
      }
    }
  }
  uint64_t live = 0;
  for (size_t k = 0; k < layout.num_outputs; ++k) {
    const Ref ref = layout.outputs[k];
    live |= ApplicationOf(ref) == end ? last.supports[OutputOf(ref)] : terms_.value(values[ref]).support;
  }

  Record record{UINT64_MAX, {}};
  // The origins of the values tell graphs apart that differ in more than the order of operands. The others are graphs
  // that a naming makes of this one, with the same values: (x + y) + z and (x + z) + y.
  using Origin = std::array<ValueId, kMaxArity + kMaxOps * kMaxOutputs>;
  Origin origin{};
  std::vector<std::pair<Origin, PackedGraph>> others;
  ForEachNaming(terms_, live, [&](const std::array<Ref, kOutputs>& names) {
    ValueId renamed_values[256];
    SmallGraph renamed;
    if (!Rename(graph, names.data(), renamed_values, &renamed)) return;
    const bool same = std::equal(graph.applications, graph.applications + graph.size, renamed.applications);
    LastValue renamed_last;
    ValueId renamed_first;
    if (!same && !EvaluateLast(renamed, keep, renamed_values, &renamed_last, &renamed_first)) return;
    uint64_t hashes[kMaxOps * kMaxOutputs];
    for (size_t k = 0; k < layout.num_outputs; ++k) {
      const Ref ref = layout.outputs[k];
      hashes[k] = ApplicationOf(ref) == end ? (same ? last : renamed_last).hashes[OutputOf(ref)]
                                            : terms_.value(renamed_values[ref]).hash;
    }
    const uint64_t fingerprint = Fingerprint(hashes, layout.num_outputs);
    if (fingerprint > record.fingerprint) return;
    const Record next{fingerprint, code_.Pack(renamed)};
    const Origin next_origin = [&] {
      Origin result{};
      const SmallGraph::Application& application = renamed.applications[end];
      const OperatorChoice& choice = space_.operators[application.op];
      for (int k = 0; k < choice.arity; ++k) {
        const Ref ref = application.operands[k];
        result[k] = ref < kOutputs ? ref : renamed_values[ref];
      }
      if (choice.commutative) std::sort(result.begin(), result.begin() + choice.arity);
      for (size_t k = 0; k < layout.num_outputs; ++k) {
        const Ref ref = layout.outputs[k];
        if (ApplicationOf(ref) != end) result[kMaxArity + k] = renamed_values[ref];
      }
      return result;
    }();
    if (fingerprint < record.fingerprint) others.clear();
    if (graph.size > 1) others.emplace_back(next_origin, next.graph);
    if (std::pair(next.fingerprint, next.graph) < std::pair(record.fingerprint, record.graph)) {
      record = next;
      origin = next_origin;
    }
  });
  records->push_back(record);
  if (live == 0 || record.fingerprint == UINT64_MAX) return;
  if (graph.size == 1 && layout.num_outputs == 1) AddNamings(graph, live, record.fingerprint, records);
  if (classes_.Find(record.fingerprint) != nullptr) return;
  std::sort(others.begin(), others.end());
  for (size_t k = 0; k < others.size(); ++k) {
    if (others[k].first == origin || (k > 0 && others[k].first == others[k - 1].first)) continue;
    records->push_back({record.fingerprint, others[k].second});
  }
}

// A larger graph may equal this one and mention inputs that its value does not depend on, as in (x + y) - y. It is
// looked up under one naming of all its inputs, so that the small ones have to be there under every name.
void Fingerprinter::AddNamings(const SmallGraph& graph, uint64_t live, uint64_t known, std::vector<Record>* records) {
  ForEachInjection(terms_, live, [&](const std::array<Ref, kOutputs>& names) {
    ValueId values[256];
    SmallGraph renamed;
    LastValue last;
    ValueId first = -1;
    if (!Rename(graph, names.data(), values, &renamed) || !EvaluateLast(renamed, false, values, &last, &first)) return;
    const uint64_t fingerprint = Fingerprint(last.hashes, 1);
    if (fingerprint != known) records->push_back({fingerprint, code_.Pack(renamed)});
  });
}

// ---------------------------------------------------------------- outputs

std::vector<ValueId> EvaluateGraph(Terms& terms, const SmallGraph& graph) {
  ValueId values[256];
  for (int i = 0; i < graph.size; ++i) {
    const SmallGraph::Application& application = graph.applications[i];
    ValueId operands[kMaxArity] = {-1, -1, -1};
    const int arity = terms.space().operators[application.op].arity;
    for (int k = 0; k < arity; ++k) {
      const Ref ref = application.operands[k];
      operands[k] = ref < kOutputs ? ref : values[ref];
    }
    const TermNodeId node = terms.Add(application.op, operands);
    if (node < 0) return {};
    for (int k = 0; k < terms.node(node).num_outputs; ++k) values[OutputRef(i, k)] = terms.node(node).first + k;
  }
  std::vector<ValueId> result;
  for (Ref ref : OutputsOf(terms.space(), graph)) result.push_back(ref < kOutputs ? ref : values[ref]);
  return result;
}

std::vector<uint64_t> HashesOf(Terms& terms, const SmallGraph& graph) {
  std::vector<uint64_t> hashes;
  for (ValueId value : EvaluateGraph(terms, graph)) hashes.push_back(terms.value(value).hash);
  std::sort(hashes.begin(), hashes.end());
  return hashes;
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
