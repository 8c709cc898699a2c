#include "substitutions/match/matcher.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/ir/index_value.h"
#include "core/ir/pointwise.h"
#include "core/ir/rewrite.h"
#include "substitutions/match/match_binding.h"
#include "substitutions/match/match_scope.h"
#include "substitutions/match/match_search.h"
#include "substitutions/match/sibling_groups.h"

namespace rewright {
namespace {

// MatchSearch's view of the applications that the first root reads: a value is computed by one node.
class ArenaView {
 public:
  static constexpr bool kUniqueProducer = true;

  explicit ArenaView(const Arena& arena) : arena_(arena) {}

  const Arena& arena() const { return arena_; }
  Value Class(Value value) const { return value; }
  template <typename Visit>
  void ForEachProducer(Value value, int32_t output, const OpDef* op, Visit visit) const {
    if (value.output == output && arena_.node(value.node).op == op) visit(value.node);
  }
  int PlaceOf(NodeId node) const { return node; }
  NodeId NodeAt(int place) const { return place; }
  void AppendUsers(Value, const OpDef*, std::vector<int>*) const {}

  // True if a leaf depends on a root: the new outputs would then be computed from the old ones.
  bool IsCyclic(const CompiledRule& rule, const std::vector<Value>& nodes) const {
    if (rule.lhs().size() == 1) return false;
    absl::flat_hash_set<NodeId> seen;
    NodeId first = arena_.size();
    for (const RuleValue& term : rule.lhs()) first = std::min(first, nodes[term.node].node);
    const auto is_root = [&](NodeId id) {
      return std::any_of(rule.lhs().begin(), rule.lhs().end(),
                         [&](const RuleValue& term) { return nodes[term.node].node == id; });
    };
    std::vector<NodeId> stack;
    const auto push = [&](NodeId id) {
      if (id >= first && seen.insert(id).second) stack.push_back(id);
    };
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (rule.nodes()[i].op == nullptr) push(nodes[i].node);
    }
    while (!stack.empty()) {
      const NodeId id = stack.back();
      stack.pop_back();
      if (is_root(id)) return true;
      for (Value operand : arena_.node(id).operands) push(operand.node);
    }
    return false;
  }

 private:
  const Arena& arena_;
};

// The view of a graph: further roots are found among the users of what the first root reads.
class GraphView : public ArenaView {
 public:
  explicit GraphView(const Graph& graph) : ArenaView(*graph.arena()), graph_(graph) {}

  int PlaceOf(NodeId node) const { return graph_.index(node); }
  NodeId NodeAt(int place) const { return graph_.nodes()[place]; }
  void AppendUsers(Value value, const OpDef* op, std::vector<int>* places) const {
    for (int user : graph_.users(graph_.index(value.node))) {
      if (graph_.node(NodeAt(user)).op == op) places->push_back(user);
    }
  }

 private:
  const Graph& graph_;
};

// ---------------------------------------------------------------- Matcher

// A scope without names.
struct NoScope {
  bool Get(ArgExpr::Ref, int, ArgValue<Concrete>*) const { return false; }
  bool TensorShape(int, std::vector<int64_t>*) const { return false; }
  bool Predicate(ArgFn, const ArgExpr&, bool, bool*) const { return false; }
};

// Positions are sizes as well.
bool HasLongAxis(const Node& node) {
  return std::any_of(node.outputs.begin(), node.outputs.end(), [](const TensorType& type) {
    return std::any_of(type.shape.begin(), type.shape.end(), [](int64_t size) { return size > kMostSize; });
  });
}

bool IsTrivial(const ExprPtr& condition) {
  return condition->IsTrue() || (condition->IsEquation() && condition->arg(0) == condition->arg(1));
}

bool IsPlain(DType dtype) {
  return std::find(std::begin(kPlainDTypes), std::end(kPlainDTypes), dtype) != std::end(kPlainDTypes);
}

// True if a literal has its exact value in the proof and another value in 16-bit floats. (A literal that f32 rounds may
// be any number in the proof.)
bool IsRoundedInHalves(const RuleNode& leaf) {
  if (!leaf.value) return false;
  const bool real = leaf.value->kind == ArgExpr::Kind::kReal;
  if (!real && leaf.value->kind != ArgExpr::Kind::kInt) return false;
  const double number = real ? leaf.value->real : static_cast<double>(leaf.value->integer);
  if (NearestOf(DType::kFloat32, number) != number) return false;
  return NearestOf(DType::kFloat16, number) != number || NearestOf(DType::kBFloat16, number) != number;
}

bool AlwaysMoves(const OpDef& op) {
  constexpr uint64_t kSamples = 8;
  MeaningCache meanings;
  for (uint64_t seed = 0; seed < kSamples; ++seed) {
    Rng rng(seed);
    const OpSample sample = op.sample(rng);
    const auto application = Apply(op, sample.inputs, sample.attrs, meanings);
    if (!application.ok() || !MovesElements(*application->meaning)) return false;
  }
  return true;
}

}  // namespace

Matcher::Matcher(std::shared_ptr<const CompiledRule> rule, const DomainLimits& limits, bool halves)
    : rule_(std::move(rule)), limits_(limits), halves_(halves) {
  const RuleNode& root = rule_->nodes()[rule_->root(0)];
  root_op_ = root.op;
  const NoScope scope;
  for (int i = 0; i < rule_->num_lhs_nodes(); ++i) {
    const RuleNode& node = rule_->nodes()[i];
    auto& literals = literals_.emplace_back();
    for (size_t k = 0; k < node.attrs.size(); ++k) {
      const AttrSpec& spec = node.op->attrs[k];
      if (spec.kind == AttrKind::kAxes) continue;  // to be sorted first
      ArgEvaluator<Concrete, NoScope> evaluator(scope);
      ArgValue<Concrete> value;
      Attr attr;
      if (!evaluator.Eval(node.attrs[k], &value) || !ToAttr(value, spec.kind, &attr)) continue;
      if (spec.kind == AttrKind::kAxis && std::get<int64_t>(attr) < 0) continue;  // depends on the rank
      literals.emplace_back(spec.name, std::move(attr));
    }
  }
}

void Matcher::MatchAt(const Graph& graph, NodeId node, std::vector<Match>* matches, MatchObstacle* obstacle) const {
  if (graph.node(node).op != root_op_) return;
  const size_t before = matches->size();
  MatchSearch<GraphView>(*this, GraphView(graph), matches, obstacle).Run(node);
  if (rule_->siblings()) SiblingGroups<GraphView>(*this, GraphView(graph), matches).Append(before);
}

void Matcher::MatchBelow(const Arena& arena, NodeId node, std::vector<Match>* matches) const {
  if (arena.node(node).op == root_op_) MatchSearch<ArenaView>(*this, ArenaView(arena), matches).Run(node);
}

const Matcher* Matcher::ForSiblings(int count) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto [place, fresh] = for_siblings_.try_emplace(count);
  if (!fresh) return place->second.get();
  Rule expanded = ExpandSiblings(rule_->rule(), count);
  auto rule = CompileRule(expanded);
  if (rule.ok() && expanded.proof && !expanded.proof->new_values.empty()) {
    // The numbers in the record are those of the rule for two siblings: in the other expansions any value may be new.
    std::vector<int>& all = expanded.proof->new_values;
    all.resize((*rule)->nodes().size() - static_cast<size_t>((*rule)->num_lhs_nodes()));
    std::iota(all.begin(), all.end(), (*rule)->num_lhs_nodes());
    rule = CompileRule(expanded);
  }
  if (rule.ok()) place->second = std::make_unique<const Matcher>(*std::move(rule), limits_, halves_);
  return place->second.get();
}

std::vector<Match> Matcher::FindMatches(const Graph& graph) const {
  std::vector<Match> matches;
  for (NodeId node : graph.nodes()) MatchAt(graph, node, &matches);
  return matches;
}

std::optional<Match> Matcher::Complete(const Arena& arena, std::vector<Value> roots, const std::vector<Value>& nodes,
                                       std::string* why) const {
  const auto no = [why](const char* reason) {
    if (why != nullptr) *why = reason;
    return std::nullopt;
  };
  MatchBinder binder(*rule_, arena, nodes);
  if (!TakesTypes(arena, nodes)) return no("the rule is not known to hold for these element types");
  if (!binder.Run(why)) return std::nullopt;
  std::vector<int64_t> symbols;
  if (!binder.Symbols(&symbols)) return no("a size or number is outside of those that the rule is proved for");
  for (Value value : nodes) {
    if (HasLongAxis(arena.node(value.node))) return no("an axis is longer than the rule is proved for");
  }
  const auto domain = FindDomain(binder.TakeStructure());
  if (!domain->proved) return no("the rule is not proved for these ranks and attributes");
  constexpr char kStretched[] = "an axis of size 1 is stretched where the rule wants equal sizes";
  for (const ExprPtr& requirement : domain->requirements) {
    if (!EvalCond(requirement, symbols).value_or(false)) return no(kStretched);
  }
  for (const auto& [id, shape] : domain->shapes) {
    const Shape& found = arena.type(nodes[id]).shape;
    if (found.size() != shape.size()) return no(kStretched);
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (EvalIndex(shape[axis], symbols) != found[axis]) return no(kStretched);
    }
  }
  return Match{rule_.get(), std::move(roots), nodes, std::move(binder.bindings())};
}

bool Matcher::TakesTypes(const Arena& arena, const std::vector<Value>& nodes) const {
  bool halves = false, others = false;
  for (Value value : nodes) {
    for (const TensorType& type : arena.node(value.node).outputs) {
      halves |= IsHalf(type.dtype);
      others |= !IsHalf(type.dtype) && !IsPlain(type.dtype);
    }
  }
  if (!halves && !others) return true;
  return other_types().all || (!others && halves_ && other_types().halves);
}

const Matcher::OtherTypes& Matcher::other_types() const {
  std::call_once(looked_at_types_, [this] {
    other_types_.halves = other_types_.all = true;
    for (const RuleNode& node : rule_->nodes()) {
      if (node.op == nullptr) {
        if (IsRoundedInHalves(node)) other_types_ = {};
        continue;
      }
      const auto& specs = node.op->attrs;
      const bool names_type =
          std::any_of(specs.begin(), specs.end(), [](const AttrSpec& spec) { return spec.kind == AttrKind::kDType; });
      if (names_type) other_types_ = {};
      other_types_.all = other_types_.all && AlwaysMoves(*node.op);
    }
  });
  return other_types_;
}

std::shared_ptr<const Matcher::Domain> Matcher::FindDomain(const StructuralAssignment& structure) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<const Domain>& domain = domains_[structure.Key()];
  if (domain == nullptr) domain = std::make_shared<const Domain>(MakeDomain(structure));
  return domain;
}

// Operators that do not broadcast have the same meaning in the instance as in the graph, so their requirements hold.
Matcher::Domain Matcher::MakeDomain(const StructuralAssignment& structure) const {
  Domain domain;
  const InstanceResult result = BuildInstance(*rule_, structure, limits_, meanings_);
  if (result.outcome != InstanceResult::Outcome::kBuilt) return domain;
  domain.proved = true;
  for (int i = 0; i < rule_->num_lhs_nodes(); ++i) {
    const SymbolicNode& node = result.instance.nodes[i];
    if (node.op == nullptr || !node.op->broadcasts) continue;
    for (const Requirement& requirement : node.meaning->requirements) {
      ExprPtr condition = Substitute(requirement.condition, node.indices, node.params);
      if (!IsTrivial(condition)) domain.requirements.push_back(std::move(condition));
    }
    const auto& operands = rule_->nodes()[i].operands;
    const bool any_shape = std::any_of(operands.begin(), operands.end(), [&](const RuleValue& operand) {
      return rule_->nodes()[operand.node].any_shape;
    });
    if (any_shape) domain.shapes.emplace_back(i, node.shapes[0]);
  }
  return domain;
}

// ---------------------------------------------------------------- Match, RuleIndex

std::string Match::Describe() const {
  std::vector<std::string> parts;
  for (size_t i = 0; i < bindings.packs.size(); ++i) {
    parts.push_back(absl::StrCat(rule->packs()[i], "..=", ShapeString(bindings.packs[i])));
  }
  for (size_t i = 0; i < bindings.sizes.size(); ++i)
    parts.push_back(absl::StrCat(rule->sizes()[i], "=", bindings.sizes[i]));
  for (size_t i = 0; i < bindings.attrs.size(); ++i) {
    parts.push_back(absl::StrCat("?", rule->attrs()[i].name, "=", AttrString(bindings.attrs[i])));
  }
  return absl::StrJoin(parts, ", ");
}

RuleIndex::RuleIndex(std::vector<std::shared_ptr<const Matcher>> matchers) : matchers_(std::move(matchers)) {
  std::vector<const CompiledRule*> rules;
  for (const auto& matcher : matchers_) rules.push_back(&matcher->rule());
  net_ = DiscriminationNet(rules);
}

void RuleIndex::Candidates(const Graph& graph, NodeId node, std::vector<int>* rules) const {
  net_.Find(GraphView(graph), node, rules);
}

void RuleIndex::MatchAt(const Graph& graph, NodeId node, std::vector<Match>* matches) const {
  std::vector<int> rules;
  Candidates(graph, node, &rules);
  for (int rule : rules) matchers_[rule]->MatchAt(graph, node, matches);
}

std::vector<Match> RuleIndex::FindMatches(const Graph& graph) const {
  std::vector<Match> matches;
  for (NodeId node : graph.nodes()) {
    if (graph.node(node).op != nullptr) MatchAt(graph, node, &matches);
  }
  return matches;
}

}  // namespace rewright
