#include "substitutions/matcher.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "substitutions/match_binding.h"
#include "substitutions/match_scope.h"

namespace rewright {

// Assigns nodes of the left side to nodes of the graph, in match_order(), with backtracking over the operands of
// commutative operators and the places of further outputs.
class MatchSearch {
 public:
  MatchSearch(const Matcher& matcher, const Graph& graph, std::vector<Match>* matches)
      : matcher_(matcher),
        rule_(*matcher.rule_),
        graph_(graph),
        matches_(matches),
        nodes_(static_cast<size_t>(rule_.num_lhs_nodes()), Value{}) {}

  void Run(NodeId root) {
    const RuleValue& first = rule_.lhs()[0];
    if (Assign(first.node, Value{root, 0})) Step(0);
  }

 private:
  const RuleNode& pattern(int id) const { return rule_.nodes()[static_cast<size_t>(id)]; }

  // Matches match_order()[k] and what follows.
  void Step(size_t k) {
    if (k == rule_.match_order().size()) return Finish();
    const int id = rule_.match_order()[k];
    if (nodes_[static_cast<size_t>(id)].node < 0) return FurtherRoot(k, id);
    Application(k, id);
  }

  // An output that no earlier one leads down to: reached by going up from what they share.
  void FurtherRoot(size_t k, int id) {
    size_t root = 1;
    while (root < rule_.lhs().size() && (rule_.root(root) != id || rule_.entry_paths()[root].empty())) ++root;
    if (root == rule_.lhs().size()) return;
    const std::vector<int>& path = rule_.entry_paths()[root];
    const NodeId entry = nodes_[static_cast<size_t>(path[0])].node;
    std::vector<int> places = {graph_.index(entry)};
    for (size_t step = 1; step < path.size(); ++step) {
      std::vector<int> above;
      for (int place : places) {
        for (int user : graph_.users(place)) {
          if (graph_.node(graph_.nodes()[static_cast<size_t>(user)]).op == pattern(path[step]).op)
            above.push_back(user);
        }
      }
      std::sort(above.begin(), above.end());
      above.erase(std::unique(above.begin(), above.end()), above.end());
      places = std::move(above);
    }
    // Of a pair of matches that differ by exchanging outputs, the one in the order of the graph is taken.
    const Value before = nodes_[static_cast<size_t>(rule_.root(root - 1))];
    const int after = rule_.symmetric(root - 1) ? graph_.index(before.node) : -1;
    for (int place : places) {
      if (place <= after) continue;
      const size_t mark = trail_.size();
      if (Assign(id, Value{graph_.nodes()[static_cast<size_t>(place)], 0})) Application(k, id);
      Undo(mark);
    }
  }

  void Application(size_t k, int id) {
    const RuleNode& node = pattern(id);
    const std::vector<Value>& operands = graph_.node(nodes_[static_cast<size_t>(id)].node).operands;
    const size_t mark = trail_.size();
    if (Operands(node, operands)) Step(k + 1);
    Undo(mark);
    const bool exchange = node.op->commutative && operands.size() == 2 && operands[0] != operands[1];
    if (!exchange) return;
    if (Operands(node, {operands[1], operands[0]})) Step(k + 1);
    Undo(mark);
  }

  bool Operands(const RuleNode& node, const std::vector<Value>& operands) {
    const size_t spread = static_cast<size_t>(
        std::count_if(node.operands.begin(), node.operands.end(), [](const RuleValue& v) { return v.all; }));
    if (spread == 0 && operands.size() != node.operands.size()) return false;
    size_t at = 0;
    for (const RuleValue& wanted : node.operands) {
      if (at >= operands.size()) return false;
      const Value found = operands[at];
      if (wanted.all) {
        const size_t count = graph_.node(found.node).outputs.size();
        for (size_t k = 0; k < count; ++k, ++at) {
          if (at >= operands.size() || operands[at] != Value{found.node, static_cast<int32_t>(k)}) return false;
        }
        if (!Assign(wanted.node, Value{found.node, 0})) return false;
        continue;
      }
      ++at;
      if (pattern(wanted.node).op == nullptr) {
        if (!Assign(wanted.node, found)) return false;
        continue;
      }
      if (found.output != wanted.output) return false;
      if (wanted.whole && graph_.node(found.node).outputs.size() != 1) return false;
      if (!Assign(wanted.node, Value{found.node, 0})) return false;
    }
    return at == operands.size();
  }

  bool Assign(int id, Value value) {
    Value& place = nodes_[static_cast<size_t>(id)];
    if (place.node >= 0) return place == value;
    if (!CanBe(id, value)) return false;
    place = value;
    trail_.push_back(id);
    return true;
  }

  // Cheap checks that fail early.
  bool CanBe(int id, Value value) const {
    const RuleNode& wanted = pattern(id);
    if (wanted.op == nullptr) {
      if (!wanted.value) return true;
      const Tensor* elements = KnownElements(graph_, value, matcher_.options_);
      const double number = wanted.value->kind == ArgExpr::Kind::kInt    ? static_cast<double>(wanted.value->integer)
                            : wanted.value->kind == ArgExpr::Kind::kReal ? wanted.value->real
                            : elements != nullptr && elements->num_elements() > 0 ? elements->At(0)
                                                                                  : 0;
      return elements != nullptr && AllElementsEqual(*elements, number);
    }
    const Node& found = graph_.node(value.node);
    if (found.op != wanted.op) return false;
    for (const auto& [name, attr] : matcher_.literals_[static_cast<size_t>(id)]) {
      if (found.attrs.at(name) != attr) return false;
    }
    return true;
  }

  void Undo(size_t mark) {
    while (trail_.size() > mark) {
      nodes_[static_cast<size_t>(trail_.back())] = Value{};
      trail_.pop_back();
    }
  }

  // ---------------------------------------------------------------- complete assignments

  void Finish() {
    std::vector<Value> roots;
    if (!Roots(&roots)) return;
    MatchBinder binder(rule_, graph_, nodes_, matcher_.options_);
    if (!binder.Run()) return;
    std::vector<int64_t> symbols;
    if (!binder.Symbols(&symbols)) return;
    const auto domain = matcher_.FindDomain(binder.TakeStructure());
    if (!domain->proved) return;
    for (const ExprPtr& requirement : domain->requirements) {
      if (!EvalCond(requirement, symbols)) return;
    }
    for (const auto& [id, shape] : domain->shapes) {
      const Shape& found = graph_.type(nodes_[static_cast<size_t>(id)]).shape;
      if (found.size() != shape.size()) return;
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        if (EvalIndex(shape[axis], symbols) != found[axis]) return;
      }
    }
    matches_->push_back(Match{&rule_, std::move(roots), nodes_, std::move(binder.bindings())});
  }

  bool Roots(std::vector<Value>* roots) const {
    for (const RuleValue& term : rule_.lhs()) {
      const NodeId node = nodes_[static_cast<size_t>(term.node)].node;
      const int32_t count = static_cast<int32_t>(graph_.node(node).outputs.size());
      if (!term.whole && term.output >= count) return false;
      const int32_t begin = term.whole ? 0 : term.output;
      for (int32_t k = begin; k < (term.whole ? count : begin + 1); ++k) {
        if (std::find(roots->begin(), roots->end(), Value{node, k}) != roots->end()) return false;
        roots->push_back(Value{node, k});
      }
    }
    if (rule_.lhs().size() == 1) return true;
    return !LeafDependsOnRoot();
  }

  // Then the new outputs would be computed from the old ones.
  bool LeafDependsOnRoot() const {
    absl::flat_hash_set<NodeId> seen;
    NodeId first = graph_.arena()->size();
    for (const RuleValue& term : rule_.lhs()) first = std::min(first, nodes_[static_cast<size_t>(term.node)].node);
    const auto is_root = [&](NodeId id) {
      return std::any_of(rule_.lhs().begin(), rule_.lhs().end(),
                         [&](const RuleValue& term) { return nodes_[static_cast<size_t>(term.node)].node == id; });
    };
    std::vector<NodeId> stack;
    const auto push = [&](NodeId id) {
      if (id >= first && seen.insert(id).second) stack.push_back(id);
    };
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (rule_.nodes()[i].op == nullptr) push(nodes_[i].node);
    }
    while (!stack.empty()) {
      const NodeId id = stack.back();
      stack.pop_back();
      if (is_root(id)) return true;
      for (Value operand : graph_.node(id).operands) push(operand.node);
    }
    return false;
  }

  const Matcher& matcher_;
  const CompiledRule& rule_;
  const Graph& graph_;
  std::vector<Match>* matches_;
  std::vector<Value> nodes_;
  std::vector<int> trail_;
};

// ---------------------------------------------------------------- Matcher

namespace {

// A scope without names.
struct NoScope {
  bool Get(ArgExpr::Ref, int, ArgValue<Concrete>*) const { return false; }
  bool TensorShape(int, std::vector<int64_t>*) const { return false; }
  bool Predicate(ArgFn, const ArgExpr&, bool, bool*) const { return false; }
};

bool IsSame(const ExprPtr& a, const ExprPtr& b) {
  return a->kind == b->kind && (a->kind == ExprKind::kVar || a->kind == ExprKind::kInt) && a->integer == b->integer;
}

bool IsTrivial(const ExprPtr& condition) {
  if (condition->kind == ExprKind::kBool) return condition->integer != 0;
  return condition->kind == ExprKind::kEqual && IsSame(condition->args[0], condition->args[1]);
}

}  // namespace

Matcher::Matcher(std::shared_ptr<const CompiledRule> rule, const DomainLimits& limits, const MatchOptions& options)
    : rule_(std::move(rule)), limits_(limits), options_(options) {
  const RuleNode& root = rule_->nodes()[static_cast<size_t>(rule_->root(0))];
  root_op_ = root.op;
  const bool fixed = std::none_of(root.operands.begin(), root.operands.end(), [](const RuleValue& v) { return v.all; });
  for (size_t k = 0; fixed && k < root.operands.size(); ++k) {
    operand_ops_.push_back(rule_->nodes()[static_cast<size_t>(root.operands[k].node)].op);
  }
  const NoScope scope;
  for (int i = 0; i < rule_->num_lhs_nodes(); ++i) {
    const RuleNode& node = rule_->nodes()[static_cast<size_t>(i)];
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

bool Matcher::OperandsFit(const Graph& graph, const Node& node) const {
  if (operand_ops_.empty()) return true;
  if (operand_ops_.size() != node.operands.size()) return false;
  const auto fits = [&](size_t wanted, size_t found) {
    return operand_ops_[wanted] == nullptr || graph.node(node.operands[found].node).op == operand_ops_[wanted];
  };
  bool in_order = true;
  for (size_t k = 0; k < operand_ops_.size() && in_order; ++k) in_order = fits(k, k);
  return in_order || (root_op_->commutative && operand_ops_.size() == 2 && fits(0, 1) && fits(1, 0));
}

void Matcher::MatchAt(const Graph& graph, NodeId node, std::vector<Match>* matches) const {
  const Node& found = graph.node(node);
  if (found.op != root_op_ || !OperandsFit(graph, found)) return;
  MatchSearch(*this, graph, matches).Run(node);
}

std::vector<Match> Matcher::FindMatches(const Graph& graph) const {
  std::vector<Match> matches;
  for (NodeId node : graph.nodes()) MatchAt(graph, node, &matches);
  return matches;
}

std::shared_ptr<const Matcher::Domain> Matcher::FindDomain(const Structure& structure) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<const Domain>& domain = domains_[structure.Key()];
  if (domain == nullptr) domain = std::make_shared<const Domain>(MakeDomain(structure));
  return domain;
}

// Operators that do not broadcast have the same meaning in the instance as in the graph, so their requirements hold.
Matcher::Domain Matcher::MakeDomain(const Structure& structure) const {
  Domain domain;
  const InstanceResult result = BuildInstance(*rule_, structure, limits_, meanings_);
  if (result.outcome != InstanceResult::Outcome::kBuilt) return domain;
  domain.proved = true;
  for (int i = 0; i < rule_->num_lhs_nodes(); ++i) {
    const SymbolicNode& node = result.instance.nodes[static_cast<size_t>(i)];
    if (node.op == nullptr || !node.op->broadcasts) continue;
    for (const Requirement& requirement : node.meaning->requirements) {
      ExprPtr condition = Substitute(requirement.condition, node.indices, node.params);
      if (!IsTrivial(condition)) domain.requirements.push_back(std::move(condition));
    }
    const auto& operands = rule_->nodes()[static_cast<size_t>(i)].operands;
    const bool any_shape = std::any_of(operands.begin(), operands.end(), [&](const RuleValue& operand) {
      return rule_->nodes()[static_cast<size_t>(operand.node)].any_shape;
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
  for (const auto& matcher : matchers_) by_root_[matcher->root_op()].push_back(matcher.get());
}

const std::vector<const Matcher*>& RuleIndex::RootedAt(const OpDef* op) const {
  static const auto* const kNone = new std::vector<const Matcher*>;
  const auto found = by_root_.find(op);
  return found == by_root_.end() ? *kNone : found->second;
}

void RuleIndex::MatchAt(const Graph& graph, NodeId node, std::vector<Match>* matches) const {
  for (const Matcher* matcher : RootedAt(graph.node(node).op)) matcher->MatchAt(graph, node, matches);
}

std::vector<Match> RuleIndex::FindMatches(const Graph& graph) const {
  std::vector<Match> matches;
  for (NodeId node : graph.nodes()) {
    if (graph.node(node).op != nullptr) MatchAt(graph, node, &matches);
  }
  return matches;
}

}  // namespace rewright
