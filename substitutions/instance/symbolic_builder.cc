#include "substitutions/instance/symbolic_builder.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace rewright {
namespace {

// Sizes are trees that share parts: a rule could make them exponentially large.
constexpr int kMaxExprNodes = 4000;

void CountNodes(const ExprPtr& expr, int* count) {
  if (++*count > kMaxExprNodes) return;
  for (const ExprPtr& arg : expr->args()) CountNodes(arg, count);
}

bool TooLarge(const ExprPtr& expr) {
  int count = 0;
  CountNodes(expr, &count);
  return count > kMaxExprNodes;
}

}  // namespace

SymbolicBuilder::SymbolicBuilder(const CompiledRule& rule, const StructuralAssignment& structure,
                                 const DomainLimits& limits, MeaningCache& meanings)
    : rule_(rule), structure_(structure), limits_(limits), meanings_(meanings) {}

bool SymbolicBuilder::Fail(const std::string& why) {
  why_ = why;
  return false;
}

bool SymbolicBuilder::Ok(const absl::Status& status) { return status.ok() || Fail(std::string(status.message())); }

bool SymbolicBuilder::FailEval(const Evaluator& evaluator) {
  return Fail(evaluator.error() == nullptr ? "an expression has no value" : evaluator.error());
}

// ---------------------------------------------------------------- symbols

int SymbolicBuilder::AttrSymbols(size_t attr) const {
  switch (rule_.attrs()[attr].kind) {
    case RuleAttr::Class::kInt: return 1;
    case RuleAttr::Class::kList:
      return structure_.attrs[attr].empty() ? 0 : static_cast<int>(structure_.attrs[attr][0]);
    default: return 0;
  }
}

std::vector<Symbol> SymbolicBuilder::Symbols() const {
  std::vector<Symbol> symbols;
  for (const std::string& size : rule_.sizes()) symbols.push_back(Symbol{size, 1, true});
  for (size_t p = 0; p < rule_.packs().size(); ++p) {
    for (int i = 0; i < structure_.packs[p]; ++i) symbols.push_back(Symbol{absl::StrCat(rule_.packs()[p], i), 1, true});
  }
  for (size_t a = 0; a < rule_.attrs().size(); ++a) {
    const RuleAttr& attr = rule_.attrs()[a];
    const int count = AttrSymbols(a);
    for (int i = 0; i < count; ++i) {
      const std::string element = attr.kind == RuleAttr::Class::kList ? absl::StrCat(i) : "";
      symbols.push_back(Symbol{absl::StrCat("?", attr.name, element), attr.min, false});
    }
  }
  return symbols;
}

std::vector<RealSymbol> SymbolicBuilder::Reals() const {
  std::vector<RealSymbol> reals;
  for (size_t id = 0; id < rule_.attrs().size(); ++id) {
    const RuleAttr& attr = rule_.attrs()[id];
    if (attr.kind != RuleAttr::Class::kReal) continue;
    const bool constant = std::any_of(rule_.nodes().begin(), rule_.nodes().end(), [&](const RuleNode& node) {
      return node.value && node.value->kind == ArgExpr::Kind::kAttr && static_cast<size_t>(node.value->id) == id;
    });
    const DType type = ConstantType(rule_, structure_, static_cast<int>(id));
    reals.push_back(RealSymbol{absl::StrCat("?", attr.name), type, attr.positive, constant});
  }
  return reals;
}

Index SymbolicBuilder::SymbolVar(int id, const std::string& name) const { return Variable(id, name); }

bool SymbolicBuilder::Get(ArgExpr::Ref ref, int id, Value* value) const {
  using Class = RuleAttr::Class;
  const size_t at = id;
  if (ref == ArgExpr::Ref::kSize) {
    value->kind = Value::Kind::kInt;
    value->integer = SymbolVar(id, rule_.sizes()[at]);
    return true;
  }
  int first = static_cast<int>(rule_.sizes().size());
  if (ref == ArgExpr::Ref::kPack) {
    for (size_t p = 0; p < at; ++p) first += structure_.packs[p];
    value->kind = Value::Kind::kList;
    value->list.clear();
    for (int i = 0; i < structure_.packs[at]; ++i) {
      value->list.push_back(SymbolVar(first + i, absl::StrCat(rule_.packs()[at], i)));
    }
    return true;
  }
  if (ref != ArgExpr::Ref::kAttr) return false;
  const RuleAttr& attr = rule_.attrs()[at];
  const std::vector<int64_t>& fixed = structure_.attrs[at];
  const bool symbols = attr.kind == Class::kInt || attr.kind == Class::kList;
  if (attr.kind == Class::kReal) {
    int number = 0;
    for (size_t a = 0; a < at; ++a) number += rule_.attrs()[a].kind == Class::kReal ? 1 : 0;
    const std::string name = absl::StrCat("?", attr.name);
    if (IsFloating(ConstantType(rule_, structure_, id))) {
      value->kind = Value::Kind::kReal;
      value->real = Parameter(number, name, DType::kFloat32);
    } else {
      value->kind = Value::Kind::kElement;
      value->element = Parameter(number, name, DType::kInt64);
    }
    return true;
  }
  if (attr.kind == Class::kDType) {
    if (fixed.empty()) return false;
    value->kind = Value::Kind::kDType;
    value->dtype = static_cast<DType>(fixed[0]);
    return true;
  }
  if (symbols) {
    for (int length : structure_.packs) first += length;
    for (size_t a = 0; a < at; ++a) first += AttrSymbols(a);
  }
  if (attr.kind == Class::kInt) {
    value->kind = Value::Kind::kInt;
    value->integer = SymbolVar(first, absl::StrCat("?", attr.name));
    return true;
  }
  if (attr.kind == Class::kFixedInt) {
    if (fixed.empty()) return false;
    value->kind = Value::Kind::kInt;
    value->integer = Index(fixed[0]);
    return true;
  }
  value->kind = Value::Kind::kList;
  value->list.clear();
  if (attr.kind == Class::kFixedList) {
    for (int64_t element : fixed) value->list.push_back(Index(element));
    return true;
  }
  if (fixed.empty()) return false;
  for (int i = 0; i < AttrSymbols(at); ++i)
    value->list.push_back(SymbolVar(first + i, absl::StrCat("?", attr.name, i)));
  return true;
}

bool SymbolicBuilder::TensorShape(int node, std::vector<Index>* shape) const {
  if (node >= next()) return false;
  const SymbolicNode& built = nodes_[node];
  if (built.shapes.size() != 1) return false;
  shape->clear();
  for (const ExprPtr& size : built.shapes[0]) shape->push_back(Index(size));
  return true;
}

// weight(x) and constant(x) say nothing about values. positive(x) and finite(x) at the top level are assumptions on the
// leaf (SymbolicNode). Everywhere else the prover must do without: the predicate gets the truth value that makes the
// condition weaker.
bool SymbolicBuilder::Predicate(ArgFn, const ArgExpr&, bool positive_place, Cond* truth) const {
  *truth = Cond(positive_place);
  return true;
}

// ---------------------------------------------------------------- leaves

bool SymbolicBuilder::BuildNext() {
  const RuleNode& rule_node = rule_.nodes()[nodes_.size()];
  SymbolicNode node;
  const bool built = rule_node.op == nullptr ? BuildLeaf(rule_node, &node) : BuildApplication(rule_node, &node);
  if (!built) return false;
  for (const auto& shape : node.shapes) {
    // The values of the left side have at most max_rank axes; the right side may need more on the way.
    if (next() < rule_.num_lhs_nodes() && static_cast<int>(shape.size()) > limits_.max_rank) {
      return Fail("a value has more axes than the limit");
    }
  }
  nodes_.push_back(std::move(node));
  return true;
}

bool SymbolicBuilder::BuildLeaf(const RuleNode& leaf, SymbolicNode* node) {
  node->name = leaf.name;
  node->positive = leaf.positive;
  node->finite = leaf.finite;
  DType dtype = leaf.floating ? DType::kFloat32 : leaf.dtype;
  if (leaf.dtype_attr >= 0) {
    Value value;
    if (!Get(ArgExpr::Ref::kAttr, leaf.dtype_attr, &value)) return Fail("an element type is not known");
    dtype = value.dtype;
  }
  node->dtypes = {dtype};
  return LeafShape(leaf, &node->shapes.emplace_back()) && (!leaf.value || LeafValue(leaf, node));
}

bool SymbolicBuilder::BroadcastTarget(const RuleNode& leaf, std::vector<Index>* target) {
  Evaluator evaluator(*this);
  Value value;
  if (!evaluator.List(leaf.shape.dims, &value)) return FailEval(evaluator);
  *target = std::move(value.list);
  return true;
}

bool SymbolicBuilder::LeafShape(const RuleNode& leaf, std::vector<ExprPtr>* shape) {
  std::vector<Index> dims;
  if (!BroadcastTarget(leaf, &dims)) return false;
  if (leaf.shape.broadcasts) {
    if (static_cast<int>(dims.size()) > limits_.max_broadcast_rank)
      return Fail("broadcast to more axes than the limit");
    const uint32_t choice = structure_.broadcasts[nodes_.size()];
    const size_t rank = choice & 0xff;
    if (rank > dims.size()) return Fail("broadcast to fewer axes");
    dims.erase(dims.begin(), dims.end() - static_cast<std::ptrdiff_t>(rank));
    for (size_t axis = 0; axis < rank; ++axis) {
      if ((choice >> (8 + axis)) & 1) dims[axis] = Index(1);
    }
  }
  for (const Index& dim : dims) {
    int64_t size;
    if (dim.IsInt(&size) && size < 1) return Fail("a size is below one");
    if (TooLarge(dim.node())) return Fail("a size is too large an expression");
    shape->push_back(dim.node());
  }
  return true;
}

bool SymbolicBuilder::LeafValue(const RuleNode& leaf, SymbolicNode* node) {
  Evaluator evaluator(*this);
  Value value;
  if (!evaluator.Eval(*leaf.value, &value)) return FailEval(evaluator);
  const DType type = node->dtypes[0];
  int64_t integer;
  if (value.kind == Value::Kind::kInt && value.integer.IsInt(&integer))
    return Ok(SetNumber(integer, leaf.floating, node));
  if (value.kind == Value::Kind::kReal && value.real.node()->kind() == ExprKind::kConst) {
    return Ok(SetNumber(value.real.node()->real(), leaf.floating, node));
  }
  if (IsFloating(type)) {
    if (value.kind == Value::Kind::kInt) return Ok(SetFill(Symbolic::ToReal(value.integer).node(), meanings_, node));
    if (value.kind == Value::Kind::kReal) return Ok(SetFill(value.real.node(), meanings_, node));
  } else {
    // A truth value is 0 or 1, which sums are not.
    const bool plain = value.kind == Value::Kind::kElement && value.element.node()->kind() == ExprKind::kParam;
    if (type == DType::kBool && !plain) return Fail("a constant is no truth value");
    if (value.kind == Value::Kind::kInt) return Ok(SetFill(Symbolic::ToElement(value.integer).node(), meanings_, node));
    if (value.kind == Value::Kind::kElement) return Ok(SetFill(value.element.node(), meanings_, node));
  }
  return Fail(absl::StrCat("a constant is no number of type ", DTypeName(type)));
}

// ---------------------------------------------------------------- applications

bool SymbolicBuilder::Operands(const std::vector<RuleValue>& operands, std::vector<SymbolicValue>* inputs) {
  for (const RuleValue& operand : operands) {
    const int count = static_cast<int>(nodes_[operand.node].shapes.size());
    if (operand.all) {
      for (int k = 0; k < count; ++k) inputs->push_back(SymbolicValue{operand.node, k});
      continue;
    }
    if (operand.whole && count != 1) return Fail("an operand has several outputs: select one, or `..` for all");
    if (operand.output >= count) return Fail(absl::StrCat("there is no output ", operand.output));
    inputs->push_back(SymbolicValue{operand.node, operand.output});
  }
  return true;
}

bool SymbolicBuilder::BuildApplication(const RuleNode& application, SymbolicNode* node) {
  const OpDef& op = *application.op;
  node->op = &op;
  if (!Operands(application.operands, &node->inputs)) return false;
  StructuralKey key;
  for (const SymbolicValue& input : node->inputs) {
    const SymbolicNode& operand = nodes_[input.node];
    const std::vector<ExprPtr>& shape = operand.shapes[input.output];
    key.ranks.push_back(static_cast<int>(shape.size()));
    key.dtypes.push_back(operand.dtypes[input.output]);
    if (!NoteUnits(op, shape, &key)) return false;
  }
  std::vector<std::vector<ExprPtr>> values(op.attrs.size());
  for (size_t i = 0; i < op.attrs.size(); ++i) {
    if (!Attribute(op, op.attrs[i], application.attrs[i], &key, &values[i])) return false;
    if (op.attrs[i].is_shape && !NoteUnits(op, values[i], &key)) return false;
  }
  return Bind(key, values, node);
}

// Does for symbolic sizes that are known to be one the same as StructuralKeyOf().
bool SymbolicBuilder::NoteUnits(const OpDef& op, const std::vector<ExprPtr>& shape, StructuralKey* key) {
  if (shape.size() > 31) return Fail("a value has more than 31 axes");
  if (!op.broadcasts) return true;
  uint32_t units = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) units |= Index(shape[axis]).Is(1) ? 1u << axis : 0u;
  key->units.push_back(units);
  return true;
}

bool SymbolicBuilder::Attribute(const OpDef& op, const AttrSpec& spec, const ArgExpr& expr, StructuralKey* key,
                                std::vector<ExprPtr>* values) {
  Evaluator evaluator(*this);
  Value value;
  if (!evaluator.Eval(expr, &value)) return FailEval(evaluator);
  if (IsStructural(spec)) {
    Attr attr;
    const int rank = key->ranks.empty() ? 0 : key->ranks[0];
    if (!FixedAttribute(spec, value, rank, &attr)) return Fail(absl::StrCat(op.name, ": ", why_));
    key->attrs[spec.name] = std::move(attr);
    return true;
  }
  if (spec.kind == AttrKind::kReal) {
    if (value.kind == Value::Kind::kInt) value.real = Symbolic::ToReal(value.integer);
    if (value.kind != Value::Kind::kInt && value.kind != Value::Kind::kReal) return Fail("expected a real number");
    int64_t integer;
    if (value.kind == Value::Kind::kInt && value.integer.IsInt(&integer)) {
      value.real = Symbolic::FromDouble(static_cast<double>(integer));
    }
    values->push_back(value.real.node());
    return true;
  }
  const bool list = spec.kind == AttrKind::kInts;
  if (value.kind != (list ? Value::Kind::kList : Value::Kind::kInt)) {
    return Fail(absl::StrCat(op.name, ": ", spec.name, ": expected ", list ? "a list" : "an integer"));
  }
  if (list) {
    key->lengths[spec.name] = static_cast<int>(value.list.size());
  } else {
    value.list = {value.integer};
  }
  for (const Index& element : value.list) {
    int64_t integer;
    if (element.IsInt(&integer) && integer < spec.min) {
      return Fail(absl::StrCat(op.name, ": ", spec.name, ": found ", integer, ", expected at least ", spec.min));
    }
    if (TooLarge(element.node())) return Fail("a size is too large an expression");
    values->push_back(element.node());
  }
  return true;
}

bool SymbolicBuilder::FixedAttribute(const AttrSpec& spec, const Value& value, int rank, Attr* attr) {
  if (spec.kind == AttrKind::kDType) {
    if (value.kind != Value::Kind::kDType) return Fail("expected an element type");
    *attr = value.dtype;
    return true;
  }
  const bool list = spec.kind == AttrKind::kInts || spec.kind == AttrKind::kAxes;
  if (value.kind != (list ? Value::Kind::kList : Value::Kind::kInt))
    return Fail(list ? "expected a list" : "expected an integer");
  absl::StatusOr<Attr> fixed = StructuralAttr(spec, list ? value.list : std::vector<Index>{value.integer}, rank);
  if (!fixed.ok()) return Ok(fixed.status());
  *attr = *std::move(fixed);
  return true;
}

bool SymbolicBuilder::Bind(const StructuralKey& key, const std::vector<std::vector<ExprPtr>>& attr_values,
                           SymbolicNode* node) {
  if (!Ok(BindMeaning(nodes_, key, attr_values, meanings_, node))) return false;
  for (const std::vector<ExprPtr>& shape : node->shapes) {
    if (std::any_of(shape.begin(), shape.end(), TooLarge)) return Fail("a size is too large an expression");
  }
  return true;
}

// ---------------------------------------------------------------- the whole

bool SymbolicBuilder::Conditions(std::vector<ExprPtr>* conditions) {
  for (const ArgExpr& condition : rule_.conditions()) {
    Evaluator evaluator(*this);
    Cond truth;
    if (!evaluator.Condition(condition, &truth)) return FailEval(evaluator);
    if (truth.node()->IsFalse()) return Fail("a condition fails");
    if (!truth.node()->IsTrue()) conditions->push_back(truth.node());
  }
  return true;
}

bool SymbolicBuilder::Outputs(const std::vector<RuleValue>& terms, std::vector<SymbolicValue>* outputs) {
  for (const RuleValue& term : terms) {
    const int count = static_cast<int>(nodes_[term.node].shapes.size());
    if (!term.whole && term.output >= count) return Fail(absl::StrCat("there is no output ", term.output));
    if (!term.whole) {
      outputs->push_back(SymbolicValue{term.node, term.output});
      continue;
    }
    for (int k = 0; k < count; ++k) outputs->push_back(SymbolicValue{term.node, k});
  }
  return true;
}

}  // namespace rewright
