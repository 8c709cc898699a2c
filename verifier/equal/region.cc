#include "verifier/equal/region.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "substitutions/language/rule_terms.h"

namespace rewright {
namespace {

// Calls visit(id, is_leaf) for all nodes below `values`, operands before users, and for nothing below a leaf.
template <typename IsLeaf, typename Visit>
void ForEachNode(const Arena& arena, const std::vector<Value>& values, IsLeaf is_leaf, Visit visit) {
  absl::flat_hash_set<NodeId> done;
  std::vector<std::pair<Value, bool>> stack;
  for (auto it = values.rbegin(); it != values.rend(); ++it) stack.emplace_back(*it, true);
  // The second says that the value is a root. A node is visited when it comes up again, after its operands.
  absl::flat_hash_set<NodeId> open;
  absl::flat_hash_set<Value> leaves;
  while (!stack.empty()) {
    const auto [value, root] = stack.back();
    if (!root && is_leaf(value)) {
      stack.pop_back();
      if (leaves.insert(value).second) visit(value, true);
      continue;
    }
    if (done.contains(value.node)) {
      stack.pop_back();
      continue;
    }
    if (open.insert(value.node).second) {
      const Node& node = arena.node(value.node);
      for (auto it = node.operands.rbegin(); it != node.operands.rend(); ++it) stack.emplace_back(*it, false);
      continue;
    }
    stack.pop_back();
    done.insert(value.node);
    visit(value, false);
  }
}

bool AllPositive(const Tensor& tensor) {
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const double x = tensor.At(i);
    if (!(x > 0) || !std::isfinite(x)) return false;
  }
  return true;
}

bool AllEqual(const Tensor& tensor) {
  for (int64_t i = 1; i < tensor.num_elements(); ++i) {
    if (IsFloating(tensor.dtype()) ? !(tensor.At(i) == tensor.At(0)) : tensor.AtInt(i) != tensor.AtInt(0)) return false;
  }
  return tensor.num_elements() > 0 && (!IsFloating(tensor.dtype()) || std::isfinite(tensor.At(0)));
}

ArgExpr AttrValue(const Attr& attr) {
  if (const auto* integer = std::get_if<int64_t>(&attr)) return ArgExpr::Int(*integer);
  if (const auto* real = std::get_if<double>(&attr)) return ArgExpr::Real(*real);
  if (const auto* dtype = std::get_if<DType>(&attr)) return DTypeArg(*dtype);
  return NumbersArg(std::get<std::vector<int64_t>>(attr));
}

// Terms of one side of a rule.
class SideWriter {
 public:
  SideWriter(const Arena& arena, const std::string& prefix, DeclaredVariables* variables,
             std::vector<ArgExpr>* conditions, const SizeNames& names)
      : arena_(arena), prefix_(prefix), variables_(*variables), conditions_(*conditions), names_(names) {}

  RuleSide Write(const std::vector<Value>& outputs) {
    for (Value output : outputs) ++uses_[output.node];
    const auto is_leaf = [&](Value value) { return arena_.node(value.node).op == nullptr; };
    std::vector<NodeId> order;
    ForEachNode(arena_, outputs, is_leaf, [&](Value value, bool leaf) {
      if (leaf || is_leaf(value)) return;
      order.push_back(value.node);
      for (Value operand : arena_.node(value.node).operands) ++uses_[operand.node];
    });
    RuleSide side;
    for (NodeId id : order) {
      TensorTerm term = ApplicationOf(id);
      if (uses_[id] > 1 || arena_.node(id).outputs.size() > 1) {
        const std::string name = absl::StrCat(prefix_, side.lets.size());
        side.lets.push_back({name, std::move(term)});
        term = TensorTerm{.kind = TensorTerm::Kind::kName, .name = name};
      }
      terms_[id] = std::move(term);
    }
    for (Value output : outputs) side.outputs.push_back(TermOf(output));
    return side;
  }

 private:
  TensorTerm ApplicationOf(NodeId id) {
    const Node& node = arena_.node(id);
    TensorTerm term{.kind = TensorTerm::Kind::kApply, .name = node.op->name, .op = node.op};
    for (Value operand : node.operands) term.operands.push_back(TermOf(operand));
    for (const AttrSpec& spec : node.op->attrs) {
      const Attr& value = node.attrs.at(spec.name);
      if (spec.fallback && *spec.fallback == value) continue;
      term.attrs.push_back({spec.name, spec.structural ? AttrValue(value) : Named(id, spec.name, value)});
    }
    return term;
  }

  std::vector<ArgExpr> SizesOf(NodeId id, const std::string& attribute, const std::vector<int64_t>& sizes) const {
    if (names_) return names_(id, attribute, sizes);
    return NumbersArg(sizes).args;
  }

  ArgExpr Named(NodeId id, const std::string& attribute, const Attr& value) const {
    if (const auto* integer = std::get_if<int64_t>(&value)) return SizesOf(id, attribute, {*integer})[0];
    const auto* integers = std::get_if<std::vector<int64_t>>(&value);
    return integers == nullptr ? AttrValue(value) : ArgExpr::List(SizesOf(id, attribute, *integers));
  }

  TensorTerm TermOf(Value value) {
    const Node& node = arena_.node(value.node);
    if (node.op == nullptr) return LeafOf(value);
    TensorTerm term = terms_.at(value.node);
    if (node.outputs.size() > 1) term.output = value.output;
    return term;
  }

  TensorTerm LeafOf(Value value) {
    const TensorType& type = arena_.type(value);
    TensorTerm term;
    term.dtype = DTypeArg(type.dtype);
    term.shape.emplace();
    term.shape->dims = SizesOf(value.node, "", type.shape);
    const Tensor* elements = arena_.KnownElements(value.node);
    if (elements != nullptr && type.dtype != DType::kBool && AllEqual(*elements)) {
      term.kind = TensorTerm::Kind::kValue;
      term.value = IsFloating(type.dtype) ? ArgExpr::Real(elements->At(0)) : ArgExpr::Int(elements->AtInt(0));
      return term;
    }
    term.name = absl::StrCat(elements != nullptr ? "w" : "x", value.node);
    const bool first = variables_.emplace(term.name, term).second;
    if (first && elements != nullptr && IsFloating(type.dtype) && AllPositive(*elements)) {
      conditions_.push_back(CallArg(ArgFn::kPositive, {NameArg(term.name)}));
    }
    return term;
  }

  const Arena& arena_;
  std::string prefix_;
  DeclaredVariables& variables_;
  std::vector<ArgExpr>& conditions_;
  const SizeNames& names_;
  absl::flat_hash_map<NodeId, int> uses_;
  absl::flat_hash_map<NodeId, TensorTerm> terms_;
};

}  // namespace

Region MakeRegion(const Arena& arena, const std::vector<std::pair<Value, Value>>& pairs,
                  const absl::flat_hash_set<Value>& cut) {
  Region region;
  region.arena = std::make_shared<Arena>(arena.mode());
  absl::flat_hash_map<Value, Value> leaves;
  absl::flat_hash_map<NodeId, NodeId> copies;
  const auto is_cut = [&](Value value) { return cut.contains(value) && !arena.IsKnown(value); };
  std::vector<Value> roots;
  for (const auto& [a, b] : pairs) {
    roots.push_back(a);
    roots.push_back(b);
  }
  const auto copy_of = [&](Value value) {
    const auto leaf = leaves.find(value);
    return leaf != leaves.end() ? leaf->second : Value{copies.at(value.node), value.output};
  };
  ForEachNode(arena, roots, is_cut, [&](Value value, bool leaf) {
    const Node& node = arena.node(value.node);
    if (leaf || node.leaf == LeafKind::kInput) {
      const auto input = region.arena->AddInput(absl::StrCat("v", value.node, ".", value.output), arena.type(value));
      CHECK(input.ok()) << input.status().ToString();
      (leaf ? leaves[value] = *input : Value{copies[value.node] = input->node, 0});
    } else if (node.leaf == LeafKind::kState) {
      const auto state = region.arena->AddState(node.name, *arena.Elements(value.node));
      CHECK(state.ok()) << state.status().ToString();
      copies[value.node] = state->node;
    } else if (node.leaf == LeafKind::kConstant) {
      copies[value.node] = region.arena->AddConstant(node.data).node;
    } else {
      std::vector<Value> operands;
      for (Value operand : node.operands) operands.push_back(copy_of(operand));
      copies[value.node] = region.arena->AddLike(node, std::move(operands));
      ++region.applications;
    }
  });
  for (const auto& [a, b] : pairs) {
    region.pairs.emplace_back(Value{copies.at(a.node), a.output}, Value{copies.at(b.node), b.output});
  }
  return region;
}

std::vector<Value> BeginningOf(const Arena& arena, const std::vector<Value>& values,
                               const absl::flat_hash_set<Value>& cut) {
  std::vector<Value> beginning;
  const auto is_leaf = [&](Value value) {
    return arena.IsKnown(value) || cut.contains(value) || arena.node(value.node).op == nullptr;
  };
  ForEachNode(arena, values, is_leaf, [&](Value value, bool leaf) {
    if (leaf && !arena.IsKnown(value)) beginning.push_back(value);
  });
  std::sort(beginning.begin(), beginning.end());
  return beginning;
}

absl::flat_hash_set<Value> CommonCut(const Arena& arena, const std::vector<std::pair<Value, Value>>& pairs,
                                     const absl::flat_hash_set<Value>& cut) {
  constexpr int kDeepening = 6;  // steps by which a region grows
  absl::flat_hash_set<Value> common = cut;
  std::vector<Value> left, right;
  for (const auto& [a, b] : pairs) {
    left.push_back(a);
    right.push_back(b);
  }
  for (int step = 0; step < kDeepening; ++step) {
    const std::vector<Value> first = BeginningOf(arena, left, common), second = BeginningOf(arena, right, common);
    std::vector<Value> one_sided;
    std::set_symmetric_difference(first.begin(), first.end(), second.begin(), second.end(),
                                  std::back_inserter(one_sided));
    bool changed = false;
    for (Value value : one_sided) changed = common.erase(value) > 0 || changed;
    if (!changed) break;
  }
  return common;
}

// The error about a leaf of the right side alone, by its variable: a letter and the number of the node.
static absl::Status OnlyRight(const Arena& arena, const std::string& variable) {
  const Node& leaf = arena.node(static_cast<NodeId>(std::stoi(variable.substr(1))));
  if (leaf.leaf == LeafKind::kInput) {
    return absl::FailedPreconditionError("# B has a value here that A has not, of the type " +
                                         leaf.outputs[0].ToString());
  }
  return absl::FailedPreconditionError(
      absl::StrCat("# B has ", leaf.leaf == LeafKind::kState ? "the weight " + leaf.name : "a number",
                   " here, which A has not; rules that say where it comes from may be given by --rules"));
}

absl::StatusOr<Rule> RegionRule(const Region& region, const std::string& name, const SizeNames& left_names,
                                const SizeNames& right_names) {
  Rule rule;
  rule.name = name;
  rule.file = name;
  std::vector<Value> left, right;
  for (const auto& [a, b] : region.pairs) {
    left.push_back(a);
    right.push_back(b);
  }
  DeclaredVariables variables;
  rule.lhs = SideWriter(*region.arena, "l", &variables, &rule.conditions, left_names).Write(left);
  const DeclaredVariables of_left = variables;
  rule.rhs = SideWriter(*region.arena, "r", &variables, &rule.conditions, right_names).Write(right);
  for (const auto& [variable, leaf] : variables) {
    if (!of_left.contains(variable)) return OnlyRight(*region.arena, variable);
  }
  // Only the first occurrence of a variable is its declaration.
  std::set<std::string> seen;
  ForEachTerm(rule.lhs, [&](TensorTerm& term) { PlaceDeclarations(term, variables, seen); });
  ForEachTerm(rule.rhs, [&](TensorTerm& term) { PlaceDeclarations(term, variables, seen); });
  return rule;
}

}  // namespace rewright
