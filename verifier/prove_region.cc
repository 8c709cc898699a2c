#include "verifier/prove_region.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/base/status_macros.h"
#include "verifier/known_equal.h"
#include "verifier/prove_rule.h"

namespace rewright {
namespace {

constexpr SaturationLimits kLimits = {
    .max_rounds = 8, .max_nodes = 2000, .max_matches_of_rule = 100, .max_merge_rounds = 3, .rewrite_weights = false};

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
    RETURN_IF_ERROR(JoinKnown());
    SaturationLimits limits = kLimits;
    absl::Status status;
    limits.stop = [&] { return options_.stop != nullptr && *options_.stop; };
    limits.done = [&] {
      if (!Met()) status = JoinKnown();
      return !status.ok() || Met();
    };
    std::map<std::string, int64_t> uses;
    // What is joined after the last round may let rules apply again.
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
    ASSIGN_OR_RETURN(const Region stated, WithoutFolded());
    absl::StatusOr<Rule> rule = RegionRule(stated, name);
    if (absl::IsFailedPrecondition(rule.status())) {
      Region exchanged = stated;
      for (auto& [a, b] : exchanged.pairs) std::swap(a, b);
      rule = RegionRule(exchanged, name);
    }
    if (!rule.ok()) return absl::OkStatus();  // no such rule: nothing is proved
    RuleProofOptions prove;
    prove.time_limit_s = prove.instance_limit_s = options_.region_limit_s;
    prove.use = RuleUse::kProof;
    prove.classify = false;
    prove.certify = options_.certify;
    prove.stop = options_.stop;
    const RuleVerdict verdict = ProveRule(*rule, prove);
    if (verdict.verdict != Verdict::kProved) return absl::OkStatus();
    outcome->proved = true;
    outcome->proof = {{*std::move(rule), verdict.certificate}};
    TakeFoldings(outcome);
    return absl::OkStatus();
  }

 private:
  struct Joined {
    Value a, b;
    double error;
  };

  bool Met() const {
    return std::all_of(region_.pairs.begin(), region_.pairs.end(),
                       [&](const auto& pair) { return egraph_.Equal(pair.first, pair.second); });
  }

  // Known classes that are the same numbers become one.
  absl::Status JoinKnown() {
    std::map<std::pair<DType, Shape>, std::vector<Value>> by_type;
    for (Value value : egraph_.Classes()) {
      const TensorType& type = region_.arena->type(value);
      if (region_.arena->IsKnown(value)) by_type[{type.dtype, type.shape}].push_back(value);
    }
    for (const auto& [type, values] : by_type) {
      for (size_t i = 0; i < values.size(); ++i) {
        for (size_t k = 0; k < i; ++k) {
          if (egraph_.Equal(values[i], values[k]) || !compared_.emplace(values[k], values[i]).second) continue;
          ASSIGN_OR_RETURN(const std::optional<double> error, known_.Difference(values[k], values[i]));
          if (!error) continue;
          joined_.push_back({values[k], values[i], *error});
          egraph_.Union(values[k], values[i]);
        }
      }
    }
    egraph_.Rebuild();
    return absl::OkStatus();
  }

  // The region in which leaves that are the folding of something are replaced by what they fold.
  absl::StatusOr<Region> WithoutFolded() const {
    std::vector<Value> left, right;
    for (const auto& [a, b] : region_.pairs) {
      left.push_back(a);
      right.push_back(b);
    }
    const auto below = [&](const std::vector<Value>& values) {
      std::vector<Output> outputs;
      for (Value value : values) outputs.push_back({value, ""});
      const Graph graph(region_.arena, {}, std::move(outputs));
      return std::set<NodeId>(graph.nodes().begin(), graph.nodes().end());
    };
    const std::set<NodeId> of_left = below(left), of_right = below(right);
    ValueMap replacement;
    const auto note = [&](Value leaf, Value instead) {
      if (region_.arena->node(leaf.node).leaf != LeafKind::kState || replacement.contains(leaf)) return;
      if (of_left.contains(leaf.node) == of_right.contains(leaf.node)) return;  // of neither, or shared
      const std::set<NodeId> under = below({instead});
      for (NodeId id : under) {
        if (region_.arena->node(id).op != nullptr) continue;
        if (!(of_left.contains(leaf.node) ? of_right : of_left).contains(id)) return;
      }
      replacement.emplace(leaf, instead);
    };
    for (const Joined& joined : joined_) {
      note(joined.a, joined.b);
      note(joined.b, joined.a);
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

  void TakeFoldings(RegionOutcome* outcome) const {
    const auto text = [&](Value value) {
      const Node& node = region_.arena->node(value.node);
      return node.op != nullptr ? node.op->name : node.name.empty() ? "constant" : node.name;
    };
    for (const Joined& joined : joined_) {
      if (joined.error == 0) continue;
      outcome->foldings.push_back({text(joined.a), text(joined.b), region_.arena->type(joined.a), joined.error});
    }
  }

  const Region& region_;
  const EqualOptions& options_;
  KnownValues known_;
  EGraph egraph_;
  std::set<std::pair<Value, Value>> compared_;
  std::vector<Joined> joined_;
};

}  // namespace

absl::StatusOr<RegionOutcome> ProveRegion(const Region& region, const std::string& name, const EqualOptions& options) {
  RegionOutcome outcome;
  RegionProver prover(region, options);
  RETURN_IF_ERROR(prover.ByRules(&outcome));
  if (!outcome.proved) RETURN_IF_ERROR(prover.ByProver(name, &outcome));
  return outcome;
}

}  // namespace rewright
