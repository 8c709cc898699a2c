#include "verifier/equal/equal_by_claims.h"

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/status_macros.h"
#include "core/base/stop.h"
#include "substitutions/egraph/egraph.h"
#include "verifier/equal/equal_result.h"
#include "verifier/equal/prove_region.h"
#include "verifier/equal/region.h"

namespace rewright {
namespace {

// Nodes that the values are computed from, their own among them.
absl::flat_hash_set<NodeId> ConeOf(const Arena& arena, const std::vector<Value>& values) {
  absl::flat_hash_set<NodeId> cone;
  std::vector<Value> stack = values;
  while (!stack.empty()) {
    const NodeId id = stack.back().node;
    stack.pop_back();
    if (!cone.insert(id).second) continue;
    for (Value operand : arena.node(id).operands) stack.push_back(operand);
  }
  return cone;
}

// Values from which both sides are computed: a proof need not look below them.
absl::flat_hash_set<Value> SharedBelow(const Arena& arena, const EqualityClaim& claim) {
  std::vector<Value> before, after;
  for (const auto& [a, b] : claim) {
    before.push_back(a);
    after.push_back(b);
  }
  const absl::flat_hash_set<NodeId> left = ConeOf(arena, before), right = ConeOf(arena, after);
  absl::flat_hash_set<Value> shared;
  for (NodeId id : left) {
    if (!right.contains(id)) continue;
    for (int32_t k = 0; k < static_cast<int32_t>(arena.node(id).outputs.size()); ++k) shared.insert({id, k});
  }
  return shared;
}

std::string NameOf(const Arena& arena, Value value) {
  if (!arena.name(value).empty()) return arena.name(value);
  const Node& node = arena.node(value.node);
  return node.op == nullptr ? node.name : absl::StrCat(node.op->name, " ", arena.type(value).ToString());
}

class Path {
 public:
  Path(const Graph& a, const Graph& b, const EqualOptions& options)
      : a_(a), b_(b), options_(options), arena_(*a.arena()), egraph_(a.arena()) {}

  absl::StatusOr<EqualResult> Run(const std::vector<EqualityClaim>& claims) {
    for (const Graph* graph : {&a_, &b_}) {
      for (const Output& output : graph->outputs()) egraph_.Add(output.value);
    }
    for (NodeId id : b_.nodes()) {
      if (!b_.IsRun(b_.node(id))) continue;
      ++result_.values;
      if (a_.contains(id)) ++result_.shared;
    }
    const StopScope interrupt(options_.stop), limit(nullptr, absl::Now() + absl::Seconds(options_.time_limit_s));
    for (const EqualityClaim& claim : claims) {
      if (Stopped()) break;
      ASSIGN_OR_RETURN(bool proved, Prove(claim));
      // The search may have changed several places at once: each is proved by itself.
      for (size_t i = 0; i < claim.size() && !proved; ++i) {
        ASSIGN_OR_RETURN(const bool part, ProveByParts(claim[i].first, claim[i].second));
        if (!part)
          AddOpen(arena_, claim, SharedBelow(arena_, claim), Name(claim[i].first), Name(claim[i].second), &result_);
      }
    }
    bool proved = true;
    egraph_.Rebuild();
    for (size_t o = 0; o < a_.outputs().size(); ++o) {
      proved = proved && egraph_.Equal(a_.outputs()[o].value, b_.outputs()[o].value);
    }
    if (proved) {
      result_.equality = Equality::kProved;
      result_.open.clear();
      result_.time_out = false;
    }
    KeepSmallest(&result_);
    return std::move(result_);
  }

 private:
  bool Stopped() {
    if (!StopScope::Stopped()) return false;
    result_.time_out = !IsStopped(options_.stop);
    return true;
  }

  std::string Name(Value value) const { return NameOf(arena_, value); }

  absl::StatusOr<bool> Prove(const EqualityClaim& claim) {
    absl::StatusOr<RegionOutcome> outcome =
        ProvePairs(arena_, claim, SharedBelow(arena_, claim), absl::StrCat("region-", result_.regions.size() + 1),
                   options_, [this] { return Stopped(); });
    if (absl::IsCancelled(outcome.status()) && Stopped()) return false;
    if (!outcome.ok()) return outcome.status();
    if (!outcome->proved) return false;
    AddProved(*std::move(outcome), &result_);
    for (const auto& [before, after] : claim) {
      egraph_.Add(before);
      egraph_.Add(after);
      egraph_.Union(before, after);
    }
    return true;
  }

  // A pair whose parts are looked at, one after the other.
  struct OpenPair {
    Value before, after;
    std::vector<std::pair<Value, Value>> parts;  // operands; none where the operators differ
    size_t next = 0;
    bool equal_parts = true;  // those before `next`
  };

  // True if the two are known to be equal, false if they cannot be proved, nothing if their parts have to decide.
  std::optional<bool> KnownOf(Value before, Value after) {
    if (arena_.type(before) != arena_.type(after) || Stopped()) return false;
    egraph_.Add(before);
    egraph_.Add(after);
    egraph_.Rebuild();
    if (egraph_.Equal(before, after)) return true;
    if (!tried_.emplace(before, after).second) return false;
    return std::nullopt;
  }

  OpenPair Opened(Value before, Value after) const {
    OpenPair pair{before, after, {}};
    const Node &first = arena_.node(before.node), &second = arena_.node(after.node);
    const bool alike = first.op != nullptr && first.op == second.op && first.attrs == second.attrs &&
                       first.operands.size() == second.operands.size() && before.output == after.output;
    for (size_t i = 0; alike && i < first.operands.size(); ++i) {
      pair.parts.emplace_back(first.operands[i], second.operands[i]);
    }
    pair.equal_parts = alike;
    return pair;
  }

  // Proves two values equal if they are the same operator of equal operands; else by a region of its own. It visits no
  // pair twice. It does not recurse: a graph may be as deep as it has nodes.
  absl::StatusOr<bool> ProveByParts(Value before, Value after) {
    std::optional<bool> equal = KnownOf(before, after);
    if (equal) return *equal;
    std::vector<OpenPair> open = {Opened(before, after)};
    while (!open.empty()) {
      OpenPair& last = open.back();
      if (last.next < last.parts.size()) {
        const auto [first, second] = last.parts[last.next++];
        equal = KnownOf(first, second);
        if (!equal) {
          open.push_back(Opened(first, second));
          continue;
        }
      } else {
        egraph_.Rebuild();
        equal = last.equal_parts && egraph_.Equal(last.before, last.after);
        if (!*equal) {
          ASSIGN_OR_RETURN(equal, Prove({{last.before, last.after}}));
        }
        open.pop_back();
      }
      if (!open.empty()) open.back().equal_parts = open.back().equal_parts && *equal;
    }
    return *equal;
  }

  const Graph& a_;
  const Graph& b_;
  const EqualOptions& options_;
  const Arena& arena_;
  EGraph egraph_;
  EqualResult result_;
  std::set<std::pair<Value, Value>> tried_;
};

}  // namespace

absl::StatusOr<EqualResult> ProveByClaims(const Graph& a, const Graph& b, const std::vector<EqualityClaim>& claims,
                                          const EqualOptions& options) {
  if (a.arena() != b.arena() || a.outputs().size() != b.outputs().size()) {
    return absl::InvalidArgumentError("the graphs do not share an arena, or have not as many outputs");
  }
  return Path(a, b, options).Run(claims);
}

}  // namespace rewright
