#include "verifier/equal/prove_region.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/base/status_macros.h"
#include "core/base/stop.h"
#include "verifier/equal/known_equal.h"
#include "verifier/equal/part_weights.h"
#include "verifier/prove_rule.h"

namespace rewright {
namespace {

const SaturationLimits kLimits = {
    .max_rounds = 6, .max_nodes = 500, .max_matches_of_rule = 50, .max_merge_rounds = 2, .rewrite_weights = false};

class RegionProver {
 public:
  RegionProver(const Region& region, const EqualOptions& options)
      : region_(region), options_(options), known_(region.arena, options.threads), egraph_(region.arena) {}

  absl::Status ByRules(RegionOutcome* outcome) {
    for (const auto& [a, b] : region_.pairs) {
      egraph_.Add(a);
      egraph_.Add(b);
    }
    egraph_.Rebuild();
    for (Value value : egraph_.Classes()) {
      if (!region_.arena->IsKnown(value)) continue;
      given_.push_back(value);
      if (IsLeaf(value)) given_leaves_.insert(value.node);
    }
    RETURN_IF_ERROR(JoinKnown());
    SaturationLimits limits = kLimits;
    absl::Status status;
    limits.stop = [] { return StopScope::Stopped(); };
    limits.done = [&] {
      if (!Met()) status = JoinKnown();
      return !status.ok() || Met();
    };
    std::map<std::string, int64_t> uses;
    // Values that are joined after the last round may let rules apply again.
    for (int again = 0; again < 2 && !Met(); ++again) {
      const int64_t unions = egraph_.num_unions();
      const SaturationResult result = Saturate(egraph_, options_.rules, limits);
      RETURN_IF_ERROR(status);
      for (size_t rule = 0; rule < options_.rules.size(); ++rule) {
        if (result.uses[rule] > 0) uses[options_.rules[rule].matcher->rule().name()] += result.uses[rule];
      }
      RETURN_IF_ERROR(JoinKnown());
      if (egraph_.num_unions() == unions) break;
    }
    if (!Met()) return absl::OkStatus();
    outcome->proved = outcome->by_rules = true;
    for (const auto& [name, count] : uses) outcome->rules.push_back(name);
    TakeFoldings(outcome);
    return absl::OkStatus();
  }

  absl::Status ByProver(const std::string& name, RegionOutcome* outcome) {
    for (bool of_second : {true, false}) {
      ASSIGN_OR_RETURN(Region stated, WithoutFolded(of_second));
      for (bool exchanged : {false, true}) {
        for (auto& [a, b] : stated.pairs) {
          if (exchanged) std::swap(a, b);
        }
        const absl::StatusOr<Rule> rule = RegionRule(stated, name);
        if (!rule.ok()) continue;  // one side reads leaves that the other does not
        if (Proves(*rule, outcome)) return absl::OkStatus();
        break;
      }
    }
    return absl::OkStatus();
  }

 private:
  struct Joined {
    Value a, b;
    KnownPair pair;
  };

  bool Met() const {
    return std::all_of(region_.pairs.begin(), region_.pairs.end(),
                       [&](const auto& pair) { return egraph_.Equal(pair.first, pair.second); });
  }

  // The value that stands for a class of known values: a leaf of the region, else what computes it. Constants that
  // rules fold are rounded.
  Value KnownOf(Value member) const {
    const Value value = egraph_.Find(member);
    std::optional<Value> computed;
    for (const NodeId id : egraph_.Nodes(value)) {
      if (given_leaves_.contains(id)) return {id, 0};
      if (computed || region_.arena->node(id).op == nullptr) continue;
      int32_t output = 0;
      while (egraph_.Find(Value{id, output}) != value) ++output;
      computed = Value{id, output};
    }
    return computed.value_or(value);
  }

  // Known classes that are the same numbers become one, where the region itself has one of them. A weight that is
  // folded may make others equal.
  absl::Status JoinKnown() {
    if (!options_.folded_weights) return absl::OkStatus();
    for (size_t folded = known_.folded() + 1; folded != known_.folded();) {
      folded = known_.folded();
      RETURN_IF_ERROR(JoinOnce());
      if (folded != known_.folded()) compared_.clear();
    }
    return absl::OkStatus();
  }

  absl::Status JoinOnce() {
    std::map<std::pair<DType, Shape>, std::vector<Value>> by_type;
    absl::flat_hash_set<Value> given;
    for (Value value : given_) given.insert(egraph_.Find(value));
    for (Value value : egraph_.Classes()) {
      const TensorType& type = region_.arena->type(value);
      if (region_.arena->IsKnown(value)) by_type[{type.dtype, type.shape}].push_back(value);
    }
    for (const auto& [type, values] : by_type) {
      for (size_t i = 0; i < values.size(); ++i) {
        for (size_t k = 0; k < i; ++k) {
          if (!given.contains(values[i]) && !given.contains(values[k])) continue;
          if (egraph_.Equal(values[i], values[k])) continue;
          const Value first = KnownOf(values[k]), second = KnownOf(values[i]);
          if (!compared_.emplace(first, second).second) continue;
          ASSIGN_OR_RETURN(const std::optional<KnownPair> pair, known_.Relate(first, second, options_.near_constants));
          if (!pair) continue;
          joined_.push_back({first, second, *pair});
          egraph_.Union(values[k], values[i]);
        }
      }
    }
    egraph_.Rebuild();
    return absl::OkStatus();
  }

  bool Proves(const Rule& rule, RegionOutcome* outcome) {
    RuleProofOptions prove;
    prove.work_limit_s = prove.instance_limit_s = options_.region_limit_s;
    prove.use = RuleUse::kProof;
    prove.classify = options_.certify;  // a certificate says the class
    prove.certify = options_.certify;
    prove.stop = options_.stop;
    const RuleVerdict verdict = ProveRule(rule, prove);
    if (verdict.verdict != Verdict::kProved) return false;
    outcome->proved = true;
    outcome->proof = {{rule, verdict.certificate}};
    TakeFoldings(outcome);
    return true;
  }

  // The values of classes that are known before a run, computed from constants and the states among `leaves`; by
  // representative.
  ValueMap Extract(const std::set<NodeId>& leaves) {
    ValueMap values;
    std::vector<Value> known;
    for (Value value : egraph_.Classes()) {
      if (!region_.arena->IsKnown(value)) continue;
      known.push_back(value);
      for (NodeId id : egraph_.Nodes(value)) {
        const LeafKind leaf = region_.arena->node(id).leaf;
        if (leaf == LeafKind::kConstant || (leaf == LeafKind::kState && leaves.contains(id))) values[value] = {id, 0};
      }
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (Value value : known) {
        if (values.contains(value)) continue;
        for (NodeId id : egraph_.Nodes(value)) {
          const Node& node = region_.arena->node(id);
          std::vector<Value> operands;
          for (Value operand : node.operands) {
            const auto found = values.find(egraph_.Find(operand));
            if (found != values.end()) operands.push_back(found->second);
          }
          if (node.op == nullptr || operands.size() != node.operands.size()) continue;
          int32_t output = 0;
          while (egraph_.Find(Value{id, output}) != value) ++output;
          values[value] = {region_.arena->AddLike(node, std::move(operands)), output};
          changed = true;
          break;
        }
      }
    }
    return values;
  }

  // The region in which weights that only one side has are computed from those of the other, where they are known to
  // be.
  absl::StatusOr<Region> WithoutFolded(bool of_second) {
    std::vector<Value> own, other;
    for (const auto& [a, b] : region_.pairs) {
      own.push_back(of_second ? b : a);
      other.push_back(of_second ? a : b);
    }
    const auto below = [&](const std::vector<Value>& values) {
      std::vector<Output> outputs;
      for (Value value : values) outputs.push_back({value, ""});
      const Graph graph(region_.arena, {}, std::move(outputs));
      return std::set<NodeId>(graph.nodes().begin(), graph.nodes().end());
    };
    const std::set<NodeId> of_own = below(own), of_other = below(other);
    const ValueMap computed = Extract(of_other);
    ValueMap replacement;
    for (NodeId id : of_own) {
      if (region_.arena->node(id).leaf != LeafKind::kState || of_other.contains(id)) continue;
      const auto instead = computed.find(egraph_.Find(Value{id, 0}));
      if (instead != computed.end()) replacement.emplace(Value{id, 0}, instead->second);
    }
    std::vector<Output> outputs;
    for (const auto& [a, b] : region_.pairs) {
      outputs.push_back({a, ""});
      outputs.push_back({b, ""});
    }
    ASSIGN_OR_RETURN(const Graph graph, ReplaceValues(Graph(region_.arena, {}, std::move(outputs)), replacement));
    Region stated = region_;
    for (size_t i = 0; i < stated.pairs.size(); ++i) {
      stated.pairs[i] = {graph.outputs()[2 * i].value, graph.outputs()[2 * i + 1].value};
    }
    return stated;
  }

  // The states below one side of the pairs.
  absl::flat_hash_set<NodeId> StatesBelow(Value std::pair<Value, Value>::*side) const {
    std::vector<Output> outputs;
    for (const auto& pair : region_.pairs) outputs.push_back({pair.*side, ""});
    return StatesOf(Graph(region_.arena, {}, std::move(outputs)));
  }
  static absl::flat_hash_set<NodeId> StatesOf(const Graph& graph) {
    absl::flat_hash_set<NodeId> states;
    for (Value state : graph.states()) states.insert(state.node);
    return states;
  }

  // Puts the value of A before that of B, judging by the weights that each is computed from.
  std::pair<Value, Value> InOrder(const Joined& joined, const absl::flat_hash_set<NodeId>& of_a,
                                  const absl::flat_hash_set<NodeId>& of_b) const {
    const auto lies_in = [&](Value value, const absl::flat_hash_set<NodeId>& side) {
      const absl::flat_hash_set<NodeId> below = StatesOf(Graph(region_.arena, {}, {{value, ""}}));
      return std::all_of(below.begin(), below.end(), [&](NodeId state) { return side.contains(state); });
    };
    const bool first_is_b = lies_in(joined.a, of_b) && !lies_in(joined.a, of_a);
    const bool second_is_a = lies_in(joined.b, of_a) && !lies_in(joined.b, of_b);
    return first_is_b || second_is_a ? std::pair(joined.b, joined.a) : std::pair(joined.a, joined.b);
  }

  void TakeFoldings(RegionOutcome* outcome) const {
    const absl::flat_hash_set<NodeId> of_a = StatesBelow(&std::pair<Value, Value>::first);
    const absl::flat_hash_set<NodeId> of_b = StatesBelow(&std::pair<Value, Value>::second);
    const auto text = [&](Value value) {
      const Node& node = region_.arena->node(value.node);
      return node.op != nullptr ? node.op->name : node.name.empty() ? "constant" : node.name;
    };
    for (const Joined& joined : joined_) {
      const bool near = joined.pair.relation == KnownRelation::kNear;
      // A value that only moves data is no folding.
      if (!near && joined.pair.error == 0 && IsLeaf(joined.a) == IsLeaf(joined.b)) continue;
      const auto [a, b] = InOrder(joined, of_a, of_b);
      (near ? outcome->constants : outcome->foldings)
          .push_back({text(a), text(b), region_.arena->type(a), joined.pair.error});
    }
  }

  bool IsLeaf(Value value) const { return region_.arena->node(value.node).op == nullptr; }

  const Region& region_;
  const EqualOptions& options_;
  KnownValues known_;
  EGraph egraph_;
  std::vector<Value> given_;                  // known values of the region
  absl::flat_hash_set<NodeId> given_leaves_;  // of them
  std::set<std::pair<Value, Value>> compared_;
  std::vector<Joined> joined_;
};

}  // namespace

std::vector<DirectedRule> RulesForEqual(const std::vector<std::shared_ptr<const Matcher>>& rules) {
  std::vector<DirectedRule> directed = DirectedRules(rules, /*both_ways=*/true);
  std::erase_if(directed, [](const DirectedRule& rule) {
    return rule.forward != nullptr && rule.forward->rule().lhs().size() == 1;
  });
  return directed;
}

absl::StatusOr<RegionOutcome> ProveRegion(const Region& region, const std::string& name, const EqualOptions& options) {
  RegionOutcome outcome;
  Region parted = region;
  if (options.folded_weights) {
    ASSIGN_OR_RETURN(parted, PartWeights(region));
  }
  RegionProver prover(parted, options);
  RETURN_IF_ERROR(prover.ByRules(&outcome));
  if (!outcome.proved) RETURN_IF_ERROR(prover.ByProver(name, &outcome));
  return outcome;
}

absl::StatusOr<RegionOutcome> ProvePairs(const Arena& arena, const std::vector<std::pair<Value, Value>>& pairs,
                                         const absl::flat_hash_set<Value>& cut, const std::string& name,
                                         const EqualOptions& options, const std::function<bool()>& stopped) {
  constexpr int kLargestRegion = 60;  // applications of a region that is worth a try
  absl::flat_hash_set<Value> common = CommonCut(arena, pairs, cut);
  for (int attempt = 0; attempt < 2 && !stopped(); ++attempt) {
    const Region region = MakeRegion(arena, pairs, common);
    if (region.applications > kLargestRegion) break;
    ASSIGN_OR_RETURN(RegionOutcome outcome, ProveRegion(region, name, options));
    if (outcome.proved) return outcome;
    // Once more from an application further up.
    std::vector<Value> all;
    for (const auto& [a, b] : pairs) {
      all.push_back(a);
      all.push_back(b);
    }
    for (Value value : BeginningOf(arena, all, common)) common.erase(value);
    if (MakeRegion(arena, pairs, common).applications == region.applications) break;
  }
  return RegionOutcome();
}

}  // namespace rewright
