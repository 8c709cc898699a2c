#include "verifier/check/rule_graph.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/ops/ops.h"
#include "substitutions/instance/instance.h"
#include "substitutions/language/stand_ins.h"
#include "verifier/check/rule_values.h"

namespace rewright::check {
namespace {

using Class = Attribute::Class;

bool IsSplice(const ParsedExpr& phrase) { return phrase.kind == ParsedExpr::Kind::kSplice; }
bool IsName(const ParsedExpr& phrase) { return phrase.kind == ParsedExpr::Kind::kName; }
bool IsAttribute(const ParsedExpr& phrase) { return phrase.kind == ParsedExpr::Kind::kAttribute; }

ParsedExpr OfAttr(const Attr& attr) {
  ParsedExpr phrase;
  if (const auto* integer = std::get_if<int64_t>(&attr)) {
    phrase.integer = *integer;
  } else if (const auto* real = std::get_if<double>(&attr)) {
    phrase.kind = ParsedExpr::Kind::kReal;
    phrase.real = *real;
  } else if (const auto* list = std::get_if<std::vector<int64_t>>(&attr)) {
    phrase.kind = ParsedExpr::Kind::kList;
    for (int64_t value : *list) phrase.args.push_back(OfAttr(value));
  } else {
    phrase.kind = ParsedExpr::Kind::kName;
    phrase.text = DTypeName(std::get<DType>(attr));
  }
  return phrase;
}

}  // namespace

RuleGraph::RuleGraph(const ParsedLaw& law) : name(law.name) {
  static const auto* const kProperties = new std::set<std::string>{"increasing", "odd", "keeps_zero"};
  for (const ParsedExpr& condition : law.conditions) {
    if (kProperties->count(condition.text) == 0) {
      conditions.push_back(condition);
    } else if (std::exchange(property_, condition.text) != "") {
      throw NoInstance{"found two properties, expected one"};
    } else {
      property_of_ = absl::StrCat("?", condition.args.at(0).text);
    }
  }
  left = AddSide(law.left);
  num_left = nodes.size();
  DeclareNames();
  on_left_ = false;
  right = AddSide(law.right);
  CheckTypes();
  // Top-level conditions positive(x) and finite(x) say something about the elements of a leaf.
  for (const ParsedExpr& condition : conditions) {
    if (condition.text != "positive" && condition.text != "finite") continue;
    const ParsedExpr& arg = condition.args.at(0);
    if (IsAttribute(arg) && FindAttr(arg.text) >= 0) attrs[FindAttr(arg.text)].positive = true;
    const auto tensor = tensors.find(arg.text);
    if (!IsName(arg) || tensor == tensors.end()) continue;
    Node& node = nodes[tensor->second.node];
    node.finite = true;
    node.positive = node.positive || condition.text == "positive";
  }
}

int RuleGraph::FindAttr(const std::string& attr) const {
  const auto found = std::find_if(attrs.begin(), attrs.end(), [&](const Attribute& a) { return a.name == attr; });
  return found == attrs.end() ? -1 : static_cast<int>(found - attrs.begin());
}

// ---------------------------------------------------------------- nodes

std::vector<Ref> RuleGraph::AddSide(const Side& side) {
  for (const auto& [let, term] : side.lets) {
    const Ref ref = Add(term);
    if (!tensors.emplace(let, ref).second) throw NoInstance{absl::StrCat("found let ", let, " again")};
  }
  std::vector<Ref> outputs;
  for (const Term& term : side.outputs) {
    if (term.all) throw NoInstance{"found `..` behind an output, expected none"};
    outputs.push_back(Add(term));
  }
  return outputs;
}

Ref RuleGraph::Add(const Term& term) {
  Ref ref = term.kind == Term::Kind::kApplication ? AddApplication(term) : AddLeaf(term);
  if (term.output < 0 && !term.all) return ref;
  if (!ref.whole || nodes[ref.node].op == nullptr) throw NoInstance{"only an application has outputs to select"};
  ref.whole = false;
  ref.all = term.all;
  ref.output = std::max(term.output, 0);
  return ref;
}

Ref RuleGraph::AddLeaf(const Term& term) {
  const bool variable = term.kind == Term::Kind::kVariable;
  Node node{.leaf = term};
  if (variable) {
    const auto known = tensors.find(term.name);
    if (known != tensors.end() && !term.shape && !term.type) return known->second;
    if (known != tensors.end() || !on_left_) {
      throw NoInstance{absl::StrCat("found ", term.name, ", expected a variable that the left side declares once")};
    }
  }
  if (!on_left_ && term.shape && term.shape->broadcasts) throw NoInstance{"`~` is for variables of the left side"};
  if (on_left_ && !variable && IsAttribute(term.value)) Declare({.name = term.value.text, .kind = Class::kReal});
  if (on_left_ && term.type && IsAttribute(*term.type)) Declare({.name = term.type->text, .kind = Class::kDType});
  if (!term.shape) {
    node.leaf.shape.emplace();
    const ParsedExpr any{.kind = ParsedExpr::Kind::kName, .text = absl::StrCat("shape(", term.name, ")")};
    if (variable) node.leaf.shape->dims = {{.kind = ParsedExpr::Kind::kSplice, .args = {any}}};
  }
  nodes.push_back(std::move(node));
  const Ref ref{static_cast<int>(nodes.size()) - 1};
  if (variable) tensors[term.name] = ref;
  return ref;
}

// ?f is one operator throughout the law: the stand-in about which only the property is known.
const OpDef* RuleGraph::OperatorOf(const Term& term) {
  if (!term.name.starts_with('?')) return FindOp(term.name);
  const size_t count = term.operands.size();
  if (variable_.empty()) {
    variable_ = term.name;
    variable_operands_ = count;
  }
  const bool same = term.name == variable_ && count == variable_operands_;
  if (!same || (!property_.empty() && (property_of_ != variable_ || count != 1))) {
    throw NoInstance{"found operator variables otherwise, expected one that is used alike throughout"};
  }
  return StandIn(property_, static_cast<int>(count));
}

Ref RuleGraph::AddApplication(const Term& term) {
  Node node;
  node.op = OperatorOf(term);
  if (node.op == nullptr) throw NoInstance{absl::StrCat("found ", term.name, ", expected an operator")};
  const OpDef& op = *node.op;
  bool several = false;
  for (const Term& operand : term.operands) {
    node.operands.push_back(Add(operand));
    several = several || operand.all;
    // A constant without a shape has any that leaves the result's to the other operand.
    if (on_left_ && operand.kind == Term::Kind::kConstant && !operand.shape && !op.broadcasts) {
      throw NoInstance{
          absl::StrCat("found a constant without a shape, expected one: ", op.name, " does not broadcast")};
    }
  }
  const size_t count = term.operands.size(), declared = op.inputs.size();
  if (several ? !op.variadic : op.variadic ? count < declared : count != declared) {
    throw NoInstance{absl::StrCat("found ", count, " operands of ", op.name)};
  }
  for (const auto& [attr, value] : term.attrs) {
    if (attr != "attrs" && op.FindAttr(attr) == nullptr) throw NoInstance{absl::StrCat("found attribute ", attr)};
  }
  for (const AttrSpec& spec : op.attrs) node.attrs.push_back(AttributeOf(term, spec));
  // Equal applications are one node of a graph.
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& other = nodes[i];
    if (other.op == &op && other.operands == node.operands && other.attrs == node.attrs) return {static_cast<int>(i)};
  }
  nodes.push_back(std::move(node));
  return {static_cast<int>(nodes.size()) - 1};
}

// The attribute as it is given, else from attrs=?c, else the default.
ParsedExpr RuleGraph::AttributeOf(const Term& term, const AttrSpec& spec) const {
  const ParsedExpr* bundle = nullptr;
  for (const auto& [attr, value] : term.attrs) {
    if (attr == spec.name) return value;
    if (attr == "attrs") bundle = &value;
  }
  if (bundle != nullptr) {
    return {.kind = ParsedExpr::Kind::kAttribute, .text = absl::StrCat(bundle->text, ".", spec.name)};
  }
  if (!spec.fallback) throw NoInstance{absl::StrCat("found no attribute ", spec.name, " of ", term.name)};
  return OfAttr(*spec.fallback);
}

// A proof in f32 stands for f64 too, but not if the law names types: a tensor that is f32 in one place may then be of
// another type elsewhere.
void RuleGraph::CheckTypes() const {
  const auto names_type = [](const Node& node) {
    return node.op != nullptr && std::any_of(node.op->attrs.begin(), node.op->attrs.end(),
                                             [](const AttrSpec& spec) { return spec.kind == AttrKind::kDType; });
  };
  const auto untyped = [](const Node& node) {
    return node.op == nullptr && node.leaf.kind == Term::Kind::kVariable && !node.leaf.type;
  };
  if (std::any_of(nodes.begin(), nodes.end(), names_type) && std::any_of(nodes.begin(), nodes.end(), untyped)) {
    throw NoInstance{"an operator names types, expected the type of every variable"};
  }
}

// ---------------------------------------------------------------- names

// One that occurs several times is structural where one of these places asks for that.
void RuleGraph::Declare(Attribute attr) {
  const int known = FindAttr(attr.name);
  if (known < 0) return attrs.push_back(std::move(attr));
  Attribute& first = attrs[known];
  first.min = std::max(first.min, attr.min);
  const auto becomes = [&](Class open, Class fixed) { return first.kind == open && attr.kind == fixed; };
  const auto stays = [&](Class open, Class fixed) { return first.kind == fixed && attr.kind == open; };
  if (becomes(Class::kInt, Class::kFixedInt) || becomes(Class::kList, Class::kFixedList)) {
    first.kind = attr.kind;
    first.node = attr.node;
    first.spec_kind = attr.spec_kind;
  } else if (first.kind != attr.kind && !stays(Class::kInt, Class::kFixedInt) &&
             !stays(Class::kList, Class::kFixedList)) {
    throw NoInstance{absl::StrCat("?", attr.name, " stands for values of two kinds")};
  }
}

// Declares the names that occur on the left side; a name that is spliced somewhere is a pack.
void RuleGraph::DeclareNames() {
  const auto dims = [](const Node& node) {
    return node.op == nullptr ? node.leaf.shape->dims : std::vector<ParsedExpr>();
  };
  for (const Node& node : nodes) {
    for (const ParsedExpr& dim : dims(node)) FindPacks(dim);
    for (const ParsedExpr& attr : node.attrs) FindPacks(attr);
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    for (const ParsedExpr& dim : dims(node)) FindSizes(dim);
    for (size_t k = 0; k < node.attrs.size(); ++k) {
      FindSizes(node.attrs[k]);
      FindAttrs(static_cast<int>(i), node.op->attrs[k], node.attrs[k]);
    }
  }
}

void RuleGraph::FindPacks(const ParsedExpr& phrase) {
  if (IsSplice(phrase) && IsName(phrase.args[0])) {
    const std::string& pack = phrase.args[0].text;
    if (std::find(packs.begin(), packs.end(), pack) == packs.end()) packs.push_back(pack);
  }
  for (const ParsedExpr& arg : phrase.args) FindPacks(arg);
}

void RuleGraph::FindSizes(const ParsedExpr& phrase) {
  DType type;
  if (IsName(phrase) && !ParseDType(phrase.text, &type) &&
      std::find(packs.begin(), packs.end(), phrase.text) == packs.end() &&
      std::find(sizes.begin(), sizes.end(), phrase.text) == sizes.end()) {
    sizes.push_back(phrase.text);
  }
  const bool of_tensor = phrase.text == "rank" || phrase.text == "shape" || phrase.text == "dim";
  const bool skips = phrase.kind == ParsedExpr::Kind::kCall && of_tensor;
  for (size_t i = skips ? 1 : 0; i < phrase.args.size(); ++i) FindSizes(phrase.args[i]);
}

// ?a as the whole attribute, or within a list.
void RuleGraph::FindAttrs(int node, const AttrSpec& spec, const ParsedExpr& phrase) {
  const bool is_list = spec.kind == AttrKind::kInts || spec.kind == AttrKind::kAxes;
  const auto declare = [&](const ParsedExpr& bound, bool list, bool whole) {
    const bool fixed = IsStructural(spec);
    Attribute attr{.name = bound.text, .spec_kind = spec.kind, .min = spec.min, .node = node};
    attr.kind = spec.kind == AttrKind::kReal    ? Class::kReal
                : spec.kind == AttrKind::kDType ? Class::kDType
                : list                          ? (fixed ? Class::kFixedList : Class::kList)
                                                : (fixed ? Class::kFixedInt : Class::kInt);
    if (attr.kind == Class::kList && spec.fallback && whole) {
      // A default that is not empty has the only length.
      const size_t length = std::get<std::vector<int64_t>>(*spec.fallback).size();
      if (length > 0) attr.length = static_cast<int>(length);
    }
    Declare(std::move(attr));
  };
  if (IsAttribute(phrase)) declare(phrase, is_list, true);
  if (phrase.kind != ParsedExpr::Kind::kList || !is_list) return;
  for (const ParsedExpr& item : phrase.args) {
    const ParsedExpr& bound = IsSplice(item) ? item.args[0] : item;
    if (IsAttribute(bound)) declare(bound, IsSplice(item), false);
  }
}

}  // namespace rewright::check
