#include "substitutions/operator_variables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/ir/rewrite.h"
#include "core/ops/common.h"
#include "substitutions/rule_lexer.h"
#include "substitutions/rule_terms.h"

namespace rewright {
namespace {

// ---------------------------------------------------------------- stand-ins

// Names of functions hold no point: those that do are functions of integers to the prover.
struct Property {
  std::optional<ArgFn> fn;
  const char* function;
};
constexpr Property kProperties[] = {{std::nullopt, "any_function"},
                                    {ArgFn::kIncreasing, "any_increasing"},
                                    {ArgFn::kOdd, "any_odd"},
                                    {ArgFn::kKeepsZero, "any_keeping_zero"}};

OpDef MakeStandIn(const char* function, int operands) {
  OpDef op;
  op.name = function;
  op.summary = "Any elementwise operator of a family.";
  op.inputs = {"a"};
  if (operands == 2) op.inputs.emplace_back("b");
  op.broadcasts = operands == 2;
  op.meaning = [function, operands](OpBuilder& b) -> absl::Status {
    RETURN_IF_ERROR(CheckElements(b, Elements::kFloats));
    if (operands == 1) {
      b.Output(b.dtype(0), b.sizes(0), [&](const std::vector<Index>& i) {
        return OpaqueElement(function, 0, {b.Read(0, i).node()}, b.dtype(0));
      });
      return absl::OkStatus();
    }
    const Broadcast common(b, {0, 1});
    b.Output(b.dtype(0), common.shape(), [&](const std::vector<Index>& i) {
      return OpaqueElement(function, 0, {b.Read(0, common.At(0, i)).node(), b.Read(1, common.At(1, i)).node()},
                           b.dtype(0));
    });
    return absl::OkStatus();
  };
  return op;
}

const OpDef* StandIn(std::optional<ArgFn> property, int operands) {
  static const auto* const kStandIns = [] {
    auto* const all = new std::vector<std::array<OpDef, 2>>();
    for (const Property& p : kProperties) all->push_back({MakeStandIn(p.function, 1), MakeStandIn(p.function, 2)});
    return all;
  }();
  for (size_t i = 0; i < std::size(kProperties); ++i) {
    if (kProperties[i].fn == property) return &(*kStandIns)[i][static_cast<size_t>(operands - 1)];
  }
  CHECK(false) << "no property of operators";
  return nullptr;
}

// ---------------------------------------------------------------- elementwise operators

// What the element is of the elements that are read, as text; nothing where it depends on anything else, or where
// shape, requirements or places that are read are others than the stand-in's.
std::optional<std::string> FunctionOfElements(const OpDef& op, const StructuralKey& key, MeaningCache& meanings) {
  const auto own = meanings.Get(op, key);
  const auto standard = meanings.Get(*StandIn(std::nullopt, static_cast<int>(op.inputs.size())), key);
  if (!own.ok() || !standard.ok()) return std::nullopt;
  const Meaning &m = **own, &s = **standard;
  if (m.IsOpaque() || m.outputs.size() != 1 || !m.params.empty() || m.variables.size() != s.variables.size()) {
    return std::nullopt;
  }
  // Operators call their operands, and so the sizes of these, as they like.
  std::vector<ExprPtr> numbered;
  for (size_t v = 0; v < s.variables.size(); ++v) {
    numbered.push_back(Variable(static_cast<int>(v), absl::StrCat("v", v)).node());
  }
  const std::vector<std::string> names = {"a", "b"};
  const auto text = [&](const ExprPtr& expr) { return PrintExpr(Substitute(expr, numbered, {}), names); };
  const OutputMeaning &output = m.outputs[0], &expected = s.outputs[0];
  bool same = output.dtype == expected.dtype && output.index_vars == expected.index_vars &&
              output.shape.size() == expected.shape.size() && m.requirements.size() == s.requirements.size();
  for (size_t i = 0; same && i < output.shape.size(); ++i) same = text(output.shape[i]) == text(expected.shape[i]);
  for (size_t i = 0; same && i < m.requirements.size(); ++i) {
    same = text(m.requirements[i].condition) == text(s.requirements[i].condition);
  }
  const ExprPtr element = Rewrite(output.element, [&](const ExprPtr& node) {
    if (!node->IsRead()) return node;
    const auto operand = static_cast<size_t>(node->operand());
    same = same && text(node) == text(expected.element->arg(operand));
    return Parameter(node->operand(), names[operand], node->dtype()).node();
  });
  const bool closed = FreeVariables(element).empty() && !element->Reduces() && !element->Contains(ExprKind::kOpaque) &&
                      !element->Contains(ExprKind::kFromIndex);
  if (!same || !closed) return std::nullopt;
  return text(element);
}

// At all ranks, and, of low ranks, wherever axes of size one are stretched, it is the same function.
bool IsElementwise(const OpDef& op, int operands) {
  constexpr int kMostRank = DomainLimits{}.max_rank, kStretched = 2;
  if (op.variadic || !op.attrs.empty() || static_cast<int>(op.inputs.size()) != operands) return false;
  if (op.broadcasts != (operands == 2)) return false;
  MeaningCache meanings;
  std::optional<std::string> function;
  const auto agrees = [&](const std::vector<int>& ranks, const std::vector<uint32_t>& units) {
    StructuralKey key;
    key.ranks = ranks;
    key.dtypes.assign(ranks.size(), DType::kFloat32);
    if (op.broadcasts) key.units = units;
    const std::optional<std::string> here = FunctionOfElements(op, key, meanings);
    if (here && !function) function = here;
    return here && *here == *function;
  };
  if (operands == 1) {
    for (int rank = 0; rank <= kMostRank; ++rank) {
      if (!agrees({rank}, {})) return false;
    }
    return true;
  }
  for (int a = 0; a <= kMostRank; ++a) {
    for (int b = 0; b <= kMostRank; ++b) {
      const bool all = a <= kStretched && b <= kStretched;
      for (uint32_t first = 0; first < (all ? 1U << a : 1U); ++first) {
        for (uint32_t second = 0; second < (all ? 1U << b : 1U); ++second) {
          if (!agrees({a, b}, {first, second})) return false;
        }
      }
    }
  }
  return true;
}

// ---------------------------------------------------------------- terms

template <typename Term, typename Visit>
void VisitTerms(Term& term, const Visit& visit) {
  visit(term);
  for (auto& operand : term.operands) VisitTerms(operand, visit);
}

template <typename Side, typename Visit>
void VisitTermsOfSide(Side& side, const Visit& visit) {
  for (auto& let : side.lets) VisitTerms(let.term, visit);
  for (auto& output : side.outputs) VisitTerms(output, visit);
}

template <typename AnyRule, typename Visit>
void VisitTermsOf(AnyRule& rule, const Visit& visit) {
  VisitTermsOfSide(rule.lhs, visit);
  VisitTermsOfSide(rule.rhs, visit);
}

bool MentionsProperty(const ArgExpr& expr) {
  return IsOperatorProperty(expr) || std::any_of(expr.args.begin(), expr.args.end(), MentionsProperty);
}

}  // namespace

bool IsOperatorVariable(const TensorTerm& term) {
  return term.kind == TensorTerm::Kind::kApply && term.name.starts_with('?');
}

int OperandsOfVariable(const Rule& rule) {
  int operands = 0;
  VisitTermsOf(rule, [&](const TensorTerm& term) {
    if (IsOperatorVariable(term)) operands = static_cast<int>(term.operands.size());
  });
  return operands;
}

bool HasOperatorVariable(const Rule& rule) { return OperandsOfVariable(rule) > 0; }

bool IsOperatorProperty(const ArgExpr& condition) {
  return condition.kind == ArgExpr::Kind::kCall &&
         (condition.fn == ArgFn::kIncreasing || condition.fn == ArgFn::kOdd || condition.fn == ArgFn::kKeepsZero);
}

std::optional<ArgFn> OperatorProperty(const Rule& rule) {
  const auto found = std::find_if(rule.conditions.begin(), rule.conditions.end(), IsOperatorProperty);
  return found == rule.conditions.end() ? std::nullopt : std::optional(found->fn);
}

absl::Status ResolveOperatorVariable(Rule& rule) {
  const auto error = [&](int line, int column, const std::string& message) {
    return RuleError(rule.file, line, column, absl::StrCat("rule ", rule.name, ": ", message));
  };
  const TensorTerm* first = nullptr;
  absl::Status status;
  VisitTermsOf(rule, [&](const TensorTerm& term) {
    if (!IsOperatorVariable(term) || !status.ok()) return;
    if (first == nullptr) first = &term;
    const auto refuse = [&](const std::string& message) { status = error(term.line, term.column, message); };
    if (term.name != first->name) {
      refuse(absl::StrCat("found ", term.name, " beside ", first->name, ", expected one operator variable"));
    } else if (!term.attrs.empty() || !term.bundle.empty()) {
      refuse(absl::StrCat("found an attribute of ", term.name, ", expected none of an operator variable"));
    } else if (term.operands.empty() || term.operands.size() > 2 || term.operands.size() != first->operands.size()) {
      refuse(absl::StrCat("found ", term.operands.size(), " operands of ", term.name, ", expected ",
                          first->operands.size() == 1 || first->operands.size() == 2
                              ? absl::StrCat(first->operands.size(), " as where it occurs first")
                              : "1 or 2"));
    } else if (std::any_of(term.operands.begin(), term.operands.end(), [](const TensorTerm& t) { return t.all; })) {
      refuse(absl::StrCat("found `..` as an operand of ", term.name, ", expected operands one by one"));
    }
  });
  RETURN_IF_ERROR(status);
  int properties = 0;
  for (const ArgExpr& condition : rule.conditions) {
    if (!MentionsProperty(condition)) continue;
    if (!IsOperatorProperty(condition) || ++properties > 1) {
      return error(condition.line, condition.column,
                   "found a property within another condition or beside another property, expected one by itself");
    }
    if (first == nullptr || condition.args.size() != 1 || condition.args[0].kind != ArgExpr::Kind::kAttr ||
        "?" + condition.args[0].name != first->name) {
      return error(condition.line, condition.column,
                   absl::StrCat("found a property of something else, expected it of ",
                                first == nullptr ? "an operator variable ?f" : first->name));
    }
  }
  if (first == nullptr) return absl::OkStatus();
  bool bound = false;
  VisitTermsOfSide(rule.lhs, [&](const TensorTerm& term) { bound |= IsOperatorVariable(term); });
  if (!bound) {
    return error(first->line, first->column,
                 absl::StrCat("found ", first->name, ", expected an operator variable that the left side binds"));
  }
  const auto operands = static_cast<int>(first->operands.size());
  const std::optional<ArgFn> property = OperatorProperty(rule);
  if (property && operands != 1) {
    return error(first->line, first->column, "found a property of an operator with 2 operands, expected one with 1");
  }
  VisitTermsOf(rule, [&](TensorTerm& term) {
    if (IsOperatorVariable(term)) term.op = StandIn(property, operands);
  });
  return absl::OkStatus();
}

const std::vector<const OpDef*>& ElementwiseOps(int operands) {
  const auto find = [](int count) {
    auto* const ops = new std::vector<const OpDef*>();
    for (const OpDef* op : AllOps()) {
      if (IsElementwise(*op, count)) ops->push_back(op);
    }
    std::sort(ops->begin(), ops->end(), [](const OpDef* a, const OpDef* b) { return a->name < b->name; });
    return ops;
  };
  static const std::vector<const OpDef*>*const kUnary = find(1), *const kBinary = find(2);
  return operands == 1 ? *kUnary : *kBinary;
}

Rule PutOperator(const Rule& rule, const OpDef& op) {
  Rule put = rule;
  put.name = absl::StrCat(rule.name, ":", op.name);
  VisitTermsOf(put, [&](TensorTerm& term) {
    if (!IsOperatorVariable(term)) return;
    term.name = op.name;
    term.op = &op;
  });
  put.conditions.erase(std::remove_if(put.conditions.begin(), put.conditions.end(), IsOperatorProperty),
                       put.conditions.end());
  if (!put.proof) return put;
  const std::vector<std::string>& exact = put.proof->exact;
  if (std::find(exact.begin(), exact.end(), op.name) != exact.end()) {
    put.proof->rule_class = RuleClass::kExact;
    if (put.proof->halves) put.proof->halves = RuleClass::kExact;
  }
  put.proof->operators.clear();
  put.proof->exact.clear();
  return put;
}

std::string RuleOfOperator(const std::string& name) { return name.substr(0, name.find(':')); }

std::vector<Rule> OperatorRules(const Rule& rule, size_t most) {
  if (!HasOperatorVariable(rule)) return {rule};
  std::vector<const OpDef*> ops;
  for (const OpDef* op : ElementwiseOps(OperandsOfVariable(rule))) {
    const auto& names = rule.proof ? rule.proof->operators : std::vector<std::string>();
    if (!rule.proof || std::binary_search(names.begin(), names.end(), op->name)) ops.push_back(op);
  }
  std::vector<Rule> rules;
  const size_t count = std::min(most, ops.size());
  for (size_t k = 0; k < count; ++k) rules.push_back(PutOperator(rule, *ops[k * ops.size() / count]));
  return rules;
}

std::vector<Rule> PropertyLaws(ArgFn property, const OpDef& op) {
  const auto variable = [](const char* name, bool declared) {
    TensorTerm term;
    term.name = name;
    if (declared) term.shape = ShapeSpec{false, {NameArg("n")}};
    return term;
  };
  TensorTerm zero;
  zero.kind = TensorTerm::Kind::kValue;
  zero.value = ArgExpr::Int(0);
  zero.shape = ShapeSpec{false, {NameArg("n")}};
  const auto of = [&](TensorTerm term) { return Application(op.name, {std::move(term)}); };
  const auto law = [&](const char* what, TensorTerm left, TensorTerm right) {
    Rule rule;
    rule.name = absl::StrCat(op.name, what);
    rule.lhs.outputs = {std::move(left)};
    rule.rhs.outputs = {std::move(right)};
    return rule;
  };
  if (property == ArgFn::kIncreasing) {
    return {law("-increases", of(Application("max", {variable("x", true), variable("y", true)})),
                Application("max", {of(variable("x", false)), of(variable("y", false))}))};
  }
  std::vector<Rule> laws = {law("-keeps-zero", of(zero), zero)};
  if (property == ArgFn::kOdd) {
    laws.push_back(
        law("-is-odd", of(Application("neg", {variable("x", true)})), Application("neg", {of(variable("x", false))})));
  }
  return laws;
}

bool IsStandIn(const OpDef* op) {
  return op != nullptr && std::any_of(std::begin(kProperties), std::end(kProperties),
                                      [&](const Property& p) { return op->name == p.function; });
}

std::optional<ArgFn> StandInProperty(const std::string& function) {
  for (const Property& p : kProperties) {
    if (function == p.function) return p.fn;
  }
  return std::nullopt;
}

double StandInValue(const std::string& function, const std::vector<double>& arguments) {
  const double a = arguments[0], b = arguments.size() > 1 ? arguments[1] : 1;
  const std::optional<ArgFn> property = StandInProperty(function);
  if (!property) return std::cos(3 * a + 1) * (b + 0.5) + 0.25 * a * a + std::sin(2 * b);
  switch (*property) {
    case ArgFn::kIncreasing: return std::max(a, 0.5) + std::floor(a);  // level between some points, with jumps
    case ArgFn::kOdd: return a * a * a - 2 * a;
    default: return a * a - 3 * a;
  }
}

}  // namespace rewright
