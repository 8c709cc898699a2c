#include "substitutions/match/match_binding.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "substitutions/instance/instance.h"
#include "substitutions/language/rule_binding.h"
#include "substitutions/language/rule_printer.h"

namespace rewright {

using Class = RuleAttr::Class;

namespace {

constexpr size_t kMaxBroadcastRank = 20;  // the axes that StructuralAssignment::broadcasts has bits for

// Integers and reals are different numbers, and so are 0 and -0.
bool IsSameNumber(const Attr& a, const Attr& b) {
  const double *x = std::get_if<double>(&a), *y = std::get_if<double>(&b);
  return a == b && (x == nullptr || std::signbit(*x) == std::signbit(*y));
}

}  // namespace

MatchBinder::MatchBinder(const CompiledRule& rule, const Arena& arena, const std::vector<Value>& nodes)
    : rule_(rule), arena_(arena), nodes_(nodes), scope_(rule, arena, nodes, bindings_) {
  bindings_.sizes.assign(rule.sizes().size(), 0);  // 0: not bound
  bindings_.packs.resize(rule.packs().size());
  bindings_.attrs.resize(rule.attrs().size());
  pack_bound_.assign(rule.packs().size(), false);
  pack_lengths_.assign(rule.packs().size(), -1);
  attr_bound_.assign(rule.attrs().size(), false);
  broadcasts_.assign(static_cast<size_t>(rule.num_lhs_nodes()), 0);
}

bool MatchBinder::Bound(ArgExpr::Ref ref, int id) const {
  const size_t at = id;
  if (ref == ArgExpr::Ref::kSize) return bindings_.sizes[at] != 0;
  return ref == ArgExpr::Ref::kPack ? pack_bound_[at] : attr_bound_[at];
}

// True if an operator of the right side has it as an attribute.
bool MatchBinder::BecomesAttribute(int attr) const {
  const auto names = [&](const ArgExpr& expr) { return expr.ref == ArgExpr::Ref::kAttr && expr.id == attr; };
  return std::any_of(rule_.nodes().begin() + rule_.num_lhs_nodes(), rule_.nodes().end(),
                     [&](const RuleNode& node) { return std::any_of(node.attrs.begin(), node.attrs.end(), names); });
}

// ONNX stores real attributes in 32 bits, those of operators on doubles, too.
bool MatchBinder::SurvivesFloat(double value) {
  return std::isfinite(value) && std::abs(value) <= std::numeric_limits<float>::max() &&
         static_cast<double>(static_cast<float>(value)) == value;
}

bool MatchBinder::Run(std::string* why) {
  if (!BindTypes()) {
    if (why != nullptr) *why = "the element types are others, or a constant has two values";
    return false;
  }
  for (const RuleEquation& equation : rule_.binding_order()) {
    if (BindEquation(equation)) continue;
    if (why != nullptr) *why = NoSolution(equation);
    return false;
  }
  for (const ArgExpr& condition : rule_.conditions()) {
    MatchEvaluator evaluator(scope_);
    bool truth = false;
    if (evaluator.Condition(condition, &truth) && truth) continue;
    if (why != nullptr) *why = Unmet(condition);
    return false;
  }
  return true;
}

std::string MatchBinder::NoSolution(const RuleEquation& equation) const {
  const RuleNode& node = rule_.nodes()[equation.node];
  const Node& found = arena_.node(nodes_[equation.node].node);
  if (equation.attr < 0) {
    return absl::StrCat("the shape of ", node.name, ", ", ShapeString(arena_.type(nodes_[equation.node]).shape),
                        ", does not fit the rule's");
  }
  const size_t at = static_cast<size_t>(equation.attr);
  const std::string& name = node.op->attrs[at].name;
  return absl::StrCat("expected ", node.op->name, " with ", name, "=", PrintArg(node.attrs[at]), ", found ",
                      AttrString(found.attrs.at(name)));
}

// "the condition ?k == 2 does not hold, with ?k=3"
std::string MatchBinder::Unmet(const ArgExpr& condition) const {
  std::vector<std::string> names;
  const std::function<void(const ArgExpr&)> visit = [&](const ArgExpr& expr) {
    const size_t id = static_cast<size_t>(std::max(expr.id, 0));
    std::string value;
    if (expr.ref != ArgExpr::Ref::kNone && expr.ref != ArgExpr::Ref::kTensor && Bound(expr.ref, expr.id)) {
      if (expr.ref == ArgExpr::Ref::kSize) value = absl::StrCat(rule_.sizes()[id], "=", bindings_.sizes[id]);
      if (expr.ref == ArgExpr::Ref::kPack)
        value = absl::StrCat(rule_.packs()[id], "..=", ShapeString(bindings_.packs[id]));
      if (expr.ref == ArgExpr::Ref::kAttr) {
        value = absl::StrCat("?", rule_.attrs()[id].name, "=", AttrString(bindings_.attrs[id]));
      }
    }
    if (!value.empty() && std::find(names.begin(), names.end(), value) == names.end()) names.push_back(value);
    for (const ArgExpr& arg : expr.args) visit(arg);
  };
  visit(condition);
  return absl::StrCat("the condition ", PrintArg(condition), " does not hold",
                      names.empty() ? "" : absl::StrCat(", with ", absl::StrJoin(names, ", ")));
}

bool MatchBinder::BindTypes() {
  bool floating_bound = false;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const RuleNode& leaf = rule_.nodes()[i];
    if (leaf.op != nullptr) continue;
    const DType dtype = arena_.type(nodes_[i]).dtype;
    if (leaf.value && leaf.value->ref == ArgExpr::Ref::kAttr) {
      // The search has checked that the elements are known and equal, when it assigned the node.
      const Attr value =
          std::visit([](auto number) { return Attr(number); }, ElementOf(*arena_.Elements(nodes_[i].node), 0));
      const size_t attr = leaf.value->id;
      if (attr_bound_[attr] && !IsSameNumber(bindings_.attrs[attr], value)) return false;
      bindings_.attrs[attr] = value;
      attr_bound_[attr] = true;
      if (dtype == DType::kFloat64 && BecomesAttribute(leaf.value->id) && !SurvivesFloat(std::get<double>(value))) {
        return false;
      }
    }
    if (leaf.dtype_attr >= 0) {
      const size_t attr = leaf.dtype_attr;
      if (attr_bound_[attr] && std::get<DType>(bindings_.attrs[attr]) != dtype) return false;
      bindings_.attrs[attr] = dtype;
      attr_bound_[attr] = true;
    } else if (!leaf.floating) {
      if (dtype != leaf.dtype) return false;
    } else {
      if (!IsFloating(dtype) || (floating_bound && dtype != bindings_.floating)) return false;
      bindings_.floating = dtype;
      floating_bound = true;
    }
  }
  return true;
}

bool MatchBinder::BindEquation(const RuleEquation& equation) {
  const RuleNode& node = rule_.nodes()[equation.node];
  if (equation.attr < 0) return BindShape(node, equation.node);
  const Node& found = arena_.node(nodes_[equation.node].node);
  const size_t at = equation.attr;
  const AttrSpec& spec = node.op->attrs[at];
  const int rank = found.operands.empty() ? 0 : arena_.type(found.operands[0]).rank();
  return BindAttr(spec, node.attrs[at], found.attrs.at(spec.name), rank);
}

bool MatchBinder::BindShape(const RuleNode& leaf, int node) {
  const std::vector<int64_t>& shape = arena_.type(nodes_[node]).shape;
  if (leaf.shape.broadcasts) return BindBroadcast(leaf, node, shape);
  return BindList(leaf.shape.dims, shape, nullptr, 0);
}

bool MatchBinder::BindBroadcast(const RuleNode& leaf, int node, const std::vector<int64_t>& shape) {
  MatchEvaluator evaluator(scope_);
  ArgValue<Concrete> target;
  if (!evaluator.List(leaf.shape.dims, &target) || shape.size() > target.list.size()) return false;
  if (shape.size() > kMaxBroadcastRank) return false;
  uint32_t choice = static_cast<uint32_t>(shape.size());
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const int64_t size = target.list[target.list.size() - shape.size() + axis];
    if (shape[axis] == size) continue;
    if (shape[axis] != 1) return false;
    choice |= 1u << (8 + axis);
  }
  broadcasts_[node] = choice;
  return true;
}

bool MatchBinder::BindAttr(const AttrSpec& spec, const ArgExpr& expr, const Attr& attr, int rank) {
  const auto bound = [this](ArgExpr::Ref ref, int id) { return Bound(ref, id); };
  if (expr.kind == ArgExpr::Kind::kList && std::holds_alternative<std::vector<int64_t>>(attr)) {
    // A list of axes is sorted in the graph: it is compared as a whole where it is known.
    const bool compare = spec.kind == AttrKind::kAxes && AllBound(expr, bound);
    if (!compare) return BindList(expr.args, std::get<std::vector<int64_t>>(attr), &spec, rank);
  } else if (const auto* integer = std::get_if<int64_t>(&attr)) {
    return BindInt(expr, *integer, &spec, rank);
  }
  if (expr.ref == ArgExpr::Ref::kAttr && !Bound(expr.ref, expr.id)) {
    bindings_.attrs[expr.id] = attr;
    attr_bound_[expr.id] = true;
    return true;
  }
  if (!AllBound(expr, bound)) return true;  // comes up again
  MatchEvaluator evaluator(scope_);
  ArgValue<Concrete> value;
  Attr expected;
  if (!evaluator.Eval(expr, &value) || !ToAttr(value, spec.kind, &expected)) return false;
  if (spec.kind == AttrKind::kAxes) {
    auto& axes = std::get<std::vector<int64_t>>(expected);
    for (int64_t& axis : axes) axis += axis < 0 ? rank : 0;
    std::sort(axes.begin(), axes.end());
  }
  return expected == attr;
}

// The length of a spliced pack; false if it is not known.
bool MatchBinder::SpliceLength(const ArgExpr& name, int64_t* length) const {
  *length = name.ref == ArgExpr::Ref::kPack ? pack_lengths_[name.id] : -1;
  return *length >= 0;
}

// One splice of unknown length takes what the other elements leave.
bool MatchBinder::BindList(const std::vector<ArgExpr>& items, const std::vector<int64_t>& values, const AttrSpec* spec,
                           int rank) {
  const auto bound = [this](ArgExpr::Ref ref, int id) { return Bound(ref, id); };
  const ArgExpr* open = nullptr;
  size_t fixed = 0;
  for (const ArgExpr& item : items) {
    int64_t length;
    if (item.kind != ArgExpr::Kind::kSplice) {
      ++fixed;
    } else if (AllBound(item, bound)) {
      MatchEvaluator evaluator(scope_);
      ArgValue<Concrete> part;
      if (!evaluator.Eval(item.args[0], &part) || part.kind != ArgValue<Concrete>::Kind::kList) return false;
      fixed += part.list.size();
    } else if (!IsPlainName(item.args[0])) {
      return true;  // comes up again
    } else if (SpliceLength(item.args[0], &length)) {
      fixed += static_cast<size_t>(length);
    } else if (open != nullptr) {
      return true;  // comes up again
    } else {
      open = &item.args[0];
    }
  }
  if (open == nullptr ? fixed != values.size() : fixed > values.size()) return false;
  auto at = values.begin();
  for (const ArgExpr& item : items) {
    if (item.kind != ArgExpr::Kind::kSplice) {
      if (!BindInt(item, *at++, spec, rank)) return false;
      continue;
    }
    const ArgExpr& name = item.args[0];
    if (!AllBound(item, bound)) {
      int64_t length;
      if (!SpliceLength(name, &length)) length = static_cast<int64_t>(values.size() - fixed);
      if (!BindOpenSplice(name, {at, at + length})) return false;
      at += length;
      continue;
    }
    MatchEvaluator evaluator(scope_);
    ArgValue<Concrete> part;
    if (!evaluator.Eval(name, &part) || values.end() - at < static_cast<std::ptrdiff_t>(part.list.size())) return false;
    for (int64_t element : part.list) {
      if (*at++ != element) return false;
    }
  }
  return true;
}

bool MatchBinder::BindOpenSplice(const ArgExpr& name, std::vector<int64_t> values) {
  const size_t id = name.id;
  if (name.ref == ArgExpr::Ref::kPack) {
    if (std::any_of(values.begin(), values.end(), [](int64_t size) { return size < 1; })) return false;
    bindings_.packs[id] = std::move(values);
    pack_bound_[id] = true;
    return true;
  }
  if (name.ref != ArgExpr::Ref::kAttr) return false;
  bindings_.attrs[id] = std::move(values);
  attr_bound_[id] = true;
  return true;
}

bool MatchBinder::BindInt(const ArgExpr& expr, int64_t value, const AttrSpec* spec, int rank) {
  const auto bound = [this](ArgExpr::Ref ref, int id) { return Bound(ref, id); };
  if (!AllBound(expr, bound)) return Solve(expr, value);
  MatchEvaluator evaluator(scope_);
  int64_t expected;
  if (!evaluator.Int64(expr, &expected)) return false;
  const bool axis = spec != nullptr && (spec->kind == AttrKind::kAxis || spec->kind == AttrKind::kAxes);
  if (axis && expected < 0) expected += rank;
  return expected == value;
}

bool MatchBinder::Solve(const ArgExpr& expr, int64_t value) {
  const auto bound = [this](ArgExpr::Ref ref, int id) { return Bound(ref, id); };
  const ArgExpr* name = SolvableName(expr, bound);
  if (name == nullptr) return true;  // comes up again
  const ArgExpr* at = &expr;
  while (at != name) {
    const bool first_known = AllBound(at->args[0], bound);
    MatchEvaluator evaluator(scope_);
    int64_t known;
    if (!evaluator.Int64(at->args[first_known ? 0 : 1], &known)) return false;
    if (!SolveStep(at->op, first_known, known, value, &value)) return false;
    at = &at->args[first_known ? 1 : 0];
  }
  return SetName(*name, value);
}

bool MatchBinder::SetName(const ArgExpr& name, int64_t value) {
  if (IsLength(name)) {
    int64_t& length = pack_lengths_[name.args[0].id];
    if (value < 0 || (length >= 0 && length != value)) return false;
    length = value;
    return true;
  }
  const size_t id = name.id;
  if (name.ref == ArgExpr::Ref::kSize) {
    if (value < 1) return false;
    bindings_.sizes[id] = value;
    return true;
  }
  if (name.ref != ArgExpr::Ref::kAttr) return false;
  bindings_.attrs[id] = value;
  attr_bound_[id] = true;
  return true;
}

StructuralAssignment MatchBinder::TakeStructure() {
  StructuralAssignment structure;
  for (const auto& pack : bindings_.packs) structure.packs.push_back(static_cast<int>(pack.size()));
  for (size_t a = 0; a < bindings_.attrs.size(); ++a) {
    const Attr& attr = bindings_.attrs[a];
    std::vector<int64_t>& values = structure.attrs.emplace_back();
    switch (rule_.attrs()[a].kind) {
      case Class::kInt:
      case Class::kReal: break;
      case Class::kFixedInt: values = {std::get<int64_t>(attr)}; break;
      case Class::kList: values = {static_cast<int64_t>(std::get<std::vector<int64_t>>(attr).size())}; break;
      case Class::kFixedList: values = std::get<std::vector<int64_t>>(attr); break;
      case Class::kDType: values = {static_cast<int64_t>(std::get<DType>(attr))}; break;
    }
  }
  structure.broadcasts = std::move(broadcasts_);
  return structure;
}

bool MatchBinder::Symbols(std::vector<int64_t>* symbols) const {
  *symbols = bindings_.sizes;
  for (const auto& pack : bindings_.packs) symbols->insert(symbols->end(), pack.begin(), pack.end());
  for (size_t a = 0; a < bindings_.attrs.size(); ++a) {
    const RuleAttr& attr = rule_.attrs()[a];
    const size_t before = symbols->size();
    if (attr.kind == Class::kInt) symbols->push_back(std::get<int64_t>(bindings_.attrs[a]));
    if (attr.kind == Class::kList) {
      const auto& list = std::get<std::vector<int64_t>>(bindings_.attrs[a]);
      symbols->insert(symbols->end(), list.begin(), list.end());
    }
    for (size_t i = before; i < symbols->size(); ++i) {
      if ((*symbols)[i] < attr.min) return false;
    }
  }
  return std::all_of(symbols->begin(), symbols->end(),
                     [](int64_t value) { return value >= -kMostSize && value <= kMostSize; });
}

}  // namespace rewright
