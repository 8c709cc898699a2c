#include "verifier/prove/elements.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "verifier/integer/give_up.h"
#include "verifier/normal_form/cases.h"
#include "verifier/normal_form/eliminate.h"
#include "verifier/normal_form/function_laws.h"
#include "verifier/normal_form/normal_form.h"
#include "verifier/normal_form/one_term.h"
#include "verifier/normal_form/substitute.h"
#include "verifier/prove/elements_internal.h"

namespace rewright::verifier {

constexpr size_t kMostCases = 4;

bool MentionsHolds(const ExprPtr& e) {
  if (!e->Contains(ExprKind::kHolds)) return false;
  return e->kind() == ExprKind::kHolds ||
         (IsCondKind(e->kind()) && std::any_of(e->args().begin(), e->args().end(), MentionsHolds));
}

std::string Typed(const char* name, DType dtype) {
  return IsInteger(dtype) ? absl::StrCat(name, ".", DTypeName(dtype)) : name;
}

Elements::Elements(Context* ctx, const RuleInstance& instance) : ctx_(*ctx), instance_(instance) {
  for (const Symbol& symbol : instance.symbols) {
    std::optional<int64_t> min;
    if (symbol.min != INT64_MIN) min = symbol.min;
    symbols_.push_back(Poly::Of(ctx_.NewParam(symbol.name, min)));
  }
}

// ---------------------------------------------------------------- conditions and shapes

Poly Elements::FromSymbols(const ExprPtr& e) {
  Scope scope;
  for (const Poly& p : symbols_) scope.variables.emplace_back(p);
  return ToPoly(e, scope);
}

Guard Elements::CondFromSymbols(const ExprPtr& e) {
  Scope scope;
  for (const Poly& p : symbols_) scope.variables.emplace_back(p);
  return ToGuard(e, scope);
}

Elements::Scope Elements::ScopeOf(int node) {
  const SymbolicNode& n = instance_.nodes[node];
  Scope scope;
  scope.node = node;
  if (n.meaning == nullptr) return scope;
  scope.variables.resize(n.meaning->variables.size());
  for (size_t v = 0; v < n.indices.size() && v < scope.variables.size(); ++v) {
    if (n.indices[v] != nullptr) scope.variables[v] = FromSymbols(n.indices[v]);
  }
  return scope;
}

std::vector<Guard> Elements::Conditions() {
  std::vector<Guard> out;
  for (const ExprPtr& condition : instance_.conditions) out.push_back(CondFromSymbols(condition));
  return out;
}

std::vector<Guard> Elements::Requirements(int first_node, int last_node) {
  std::vector<Guard> out;
  for (int k = first_node; k < last_node; ++k) {
    const SymbolicNode& n = instance_.nodes[k];
    if (n.meaning == nullptr) continue;
    Scope scope = ScopeOf(k);
    for (size_t v = 0; v < n.meaning->variables.size(); ++v) {
      const Meaning::Variable& variable = n.meaning->variables[v];
      if (variable.kind != Meaning::VarKind::kAttr || variable.min == INT64_MIN || !scope.variables[v]) continue;
      out.push_back(Guard::Ge(*scope.variables[v] - Poly(variable.min)));
    }
    for (const Requirement& requirement : n.meaning->requirements) {
      out.push_back(ToGuard(requirement.condition, scope));
    }
    for (const OutputMeaning& output : n.meaning->outputs) {
      for (const ExprPtr& size : output.shape) out.push_back(Guard::Ge(ToPoly(size, scope)));
    }
  }
  return out;
}

std::vector<Poly> Elements::Shape(SymbolicValue value) {
  const SymbolicNode& n = instance_.nodes[value.node];
  std::vector<Poly> out;
  if (n.meaning != nullptr) {
    Scope scope = ScopeOf(value.node);
    for (const ExprPtr& size : n.meaning->outputs[value.output].shape) {
      out.push_back(ToPoly(size, scope));
    }
    return out;
  }
  for (const ExprPtr& size : n.shapes[value.output]) out.push_back(FromSymbols(size));
  return out;
}

std::vector<Guard> Elements::SolveEquations(std::vector<Guard> facts) {
  auto substitute = [&](const Substitution& s) {
    for (Poly& p : symbols_) p = ctx_.Subst(p, s);
    std::vector<Guard> rest;
    for (const Guard& g : facts) {
      for (const Guard& part : Conjuncts(ctx_.Subst(g, s))) rest.push_back(part);
    }
    facts = std::move(rest);
  };
  for (bool again = true; again;) {
    again = false;
    ctx_.SetFacts(facts);
    for (const Guard& g : facts) {
      if (!g.IsEq()) continue;
      const Poly p = ctx_.WithoutCommonFactors(g.poly());
      if (p != g.poly()) {
        const Guard shorter = Guard::Eq(p);
        std::replace(facts.begin(), facts.end(), Guard(g), shorter);
        again = true;
        break;
      }
      // num = den * floor(num / den): the quotient becomes a parameter.
      for (Var q : p.Vars()) {
        const VarInfo info = ctx_.Info(q);
        if (info.kind != VarInfo::Kind::kDiv) continue;
        Poly exact = info.a - info.b * Poly::Of(q);
        if (p != exact && p != -exact) continue;
        Var f = ctx_.NewParam("q" + std::to_string(q), std::nullopt);
        if (ctx_.QuickNonneg(info.a - Poly(1))) {
          ctx_.MutableInfo(f).min = 1;
        } else if (ctx_.QuickNonneg(info.a)) {
          ctx_.MutableInfo(f).min = 0;
        }
        ctx_.MutableInfo(f).defined.emplace(info.a, info.b);
        facts.erase(std::find(facts.begin(), facts.end(), g));
        facts.push_back(Guard::Eq(info.a - info.b * Poly::Of(f)));
        again = true;
        break;
      }
      if (again) break;
      // A parameter that stands alone: preferably one that equals a polynomial with positive coefficients.
      Var best = -1;
      Poly best_value;
      int best_score = -1;
      for (Var v : p.Vars()) {
        const std::optional<Poly> value = ctx_.IsParam(v) ? SolvedFor(ctx_, p, v) : std::nullopt;
        if (!value) continue;
        bool positive =
            std::all_of(value->items().begin(), value->items().end(), [](const Poly::Item& i) { return i.coef > 0; });
        bool quotient = ctx_.Info(v).defined.has_value();
        int score = (positive ? 2 : 0) + (quotient ? 0 : 1);
        if (score >= best_score) best = v, best_value = *value, best_score = score;
      }
      if (best < 0) continue;
      Substitution s;
      s.Set(best, best_value);
      Guard minimum = Guard::True();
      if (ctx_.Info(best).min.has_value()) minimum = Guard::Ge(*s.Find(best) - Poly(*ctx_.Info(best).min));
      substitute(s);
      if (!minimum.IsTrue() && std::find(facts.begin(), facts.end(), minimum) == facts.end()) {
        facts.push_back(minimum);
      }
      again = true;
      break;
    }
  }
  std::vector<Guard> kept;
  for (const Guard& g : facts) {
    bool needed = !g.IsTrue() && !(g.IsGe() && ctx_.QuickNonneg(g.poly()));
    if (needed && std::find(kept.begin(), kept.end(), g) == kept.end()) kept.push_back(g);
  }
  facts = std::move(kept);
  ctx_.SetFacts(facts);
  return facts;
}

// ---------------------------------------------------------------- indices and conditions

Poly Elements::ToPoly(const ExprPtr& e, Scope& scope) {
  switch (e->kind()) {
    case ExprKind::kInt: return Poly(e->value());
    case ExprKind::kVar: {
      CHECK(e->variable() < static_cast<int>(scope.variables.size())) << e->name();
      const std::optional<Poly>& value = scope.variables[e->variable()];
      if (!value.has_value()) throw GiveUp("the variable " + e->name() + " is not bound");
      return *value;
    }
    case ExprKind::kIndexAdd: return ToPoly(e->arg(0), scope) + ToPoly(e->arg(1), scope);
    case ExprKind::kIndexSub: return ToPoly(e->arg(0), scope) - ToPoly(e->arg(1), scope);
    case ExprKind::kIndexMul: return ToPoly(e->arg(0), scope) * ToPoly(e->arg(1), scope);
    case ExprKind::kFloorDiv:
    case ExprKind::kMod: {
      Poly num = ToPoly(e->arg(0), scope), den = ToPoly(e->arg(1), scope);
      if (ctx_.strategy.unroll && scope.reads == nullptr) CheckRemainder(num, den);
      if (!ctx_.ProveNonneg({den - Poly(1)}, ctx_.assumptions)) {
        throw GiveUp("the divisor " + ctx_.Print(den) + " is not provably positive");
      }
      return e->kind() == ExprKind::kMod ? ctx_.Mod(num, den) : ctx_.FloorDiv(num, den);
    }
    case ExprKind::kIndexMin: return ctx_.MinOf(ToPoly(e->arg(0), scope), ToPoly(e->arg(1), scope));
    case ExprKind::kIndexMax: return -ctx_.MinOf(-ToPoly(e->arg(0), scope), -ToPoly(e->arg(1), scope));
    case ExprKind::kFromValue: return ToIndex(ToForm(e->arg(0), scope), e->arg(0)->dtype());
    default: break;
  }
  throw GiveUp("an index expression of an unknown kind");
}

// The element depends on the remainder of a position by a literal: the proof starts again with one case per remainder.
void Elements::CheckRemainder(const Poly& num, const Poly& den) const {
  if (!den.IsConst() || den.Constant() > kMostTerms) return;
  for (Var v : ctx_.positions) {
    if (num.Coef(v) % den.Constant() != 0) throw DividedPosition{v, den.Constant()};
  }
}

// Positions are themselves. Any other element is an integer about which only equality is known: a sum of elements may
// have wrapped around.
Poly Elements::ToIndex(const NormalForm& conditional, DType dtype) {
  Poly index;
  NormalForm value = conditional;
  for (const auto& [holds, fails] : cases_) value = AssumeForm(ctx_, value, holds, fails);
  if (IsBoundedIndex(ctx_, value, dtype == DType::kInt64, &index)) return index;
  return IndexOfElement(ctx_, value);
}

Guard Elements::ToComparison(const ExprPtr& e, Scope& scope) {
  const Poly a = ToPoly(e->arg(0), scope), b = ToPoly(e->arg(1), scope);
  const std::optional<Guard> literal = e->Contains(ExprKind::kFromValue) ? LiteralOfValues(ctx_, a - b) : std::nullopt;
  if (literal && cases_.size() < kMostCases) {
    Guard out = Guard::False();
    for (const auto& [holds, fails] : {std::pair(*literal, Guard::Not(*literal)), {Guard::Not(*literal), *literal}}) {
      cases_.emplace_back(holds, fails);
      out = Guard::Or(out, Guard::And(holds, ToComparison(e, scope)));
      cases_.pop_back();
    }
    return out;
  }
  if (e->kind() == ExprKind::kLess) return WithoutDigit(Guard::Lt(a, b));
  return e->kind() == ExprKind::kEqual ? Guard::Eq(a - b) : WithoutDigit(Guard::Le(a, b));
}

// Replaces d a + v >= 0 by a >= 0 if 0 <= v < d, since integers p >= 0 are those with p div d >= 0: a condition on the
// part of a tensor that a position lies in does not depend on the place in that part. Here a is no constant: the solver
// decides if a position lies within a size.
Guard Elements::WithoutDigit(const Guard& condition) {
  if (!condition.IsGe()) return condition;
  const Poly& p = condition.poly();
  for (Var v : p.Vars()) {
    const auto& range = ctx_.Info(v).range;
    if (!range || !range->first.IsZero() || range->second.items().size() != 1) continue;
    const Poly d = range->second;  // positive, since v has a value
    const Monomial& unit = d.items()[0].vars;
    bool apart = !unit.empty(), varies = false;
    for (const Poly::Item& item : p.items()) {
      Monomial rest;
      if (item.vars.empty() || item.vars == Monomial{v}) continue;
      apart = apart && DivideMonomial(item.vars, unit, &rest);
      varies = varies || item.vars.size() > unit.size();
    }
    if (!apart || !varies) continue;
    // The quotient of -v is not seen: its negation is.
    const bool positive = p.Coef(v) > 0;
    const Poly part = ctx_.FloorDiv(positive ? p : -p - Poly(1), d);
    if (ctx_.HasDefinition(part) || ctx_.Mentions(part, {v})) continue;
    return positive ? Guard::Ge(part) : Guard::Not(Guard::Ge(part));
  }
  return condition;
}

Guard Elements::ToGuard(const ExprPtr& e, Scope& scope) {
  switch (e->kind()) {
    case ExprKind::kBool: return e->truth() ? Guard::True() : Guard::False();
    case ExprKind::kLess:
    case ExprKind::kLessEqual:
    case ExprKind::kEqual: return ToComparison(e, scope);
    case ExprKind::kAnd: {
      Guard first = ToGuard(e->arg(0), scope);
      Under under(ctx_, scope, first);
      return Guard::And(first, ToGuard(e->arg(1), scope));
    }
    case ExprKind::kOr: return Guard::Or(ToGuard(e->arg(0), scope), ToGuard(e->arg(1), scope));
    case ExprKind::kNot: return Guard::Not(ToGuard(e->arg(0), scope));
    default: break;
  }
  throw GiveUp("a condition on elements stands where only indices are understood");
}

NormalForm Elements::ToIndicator(const ExprPtr& e, Scope& scope) {
  if (!MentionsHolds(e)) return Restrict(ctx_, ToGuard(e, scope), ConstantForm(1));
  switch (e->kind()) {
    case ExprKind::kHolds: return ToForm(e->arg(0), scope);
    case ExprKind::kNot: return Add(ctx_, ConstantForm(1), Scale(ToIndicator(e->arg(0), scope), -1));
    case ExprKind::kAnd: return Multiply(ctx_, ToIndicator(e->arg(0), scope), ToIndicator(e->arg(1), scope));
    case ExprKind::kOr: {
      NormalForm a = ToIndicator(e->arg(0), scope), b = ToIndicator(e->arg(1), scope);
      return Add(ctx_, Add(ctx_, a, b), Scale(Multiply(ctx_, a, RenameAll(ctx_, b)), -1));
    }
    default: break;
  }
  throw GiveUp("a condition of an unknown kind");
}

// ---------------------------------------------------------------- elements

std::string Elements::LeafName(int node) const { return absl::StrCat(instance_.nodes[node].name, "@", node); }

NormalForm Elements::Element(SymbolicValue value, const std::vector<Poly>& at) {
  const SymbolicNode& n = instance_.nodes[value.node];
  if (n.meaning == nullptr) {
    if (n.splat.has_value()) return ToConstant(*n.splat, n.dtypes[value.output]);
    DType dtype = n.dtypes[value.output];
    return AtomForm(MakeRead(ctx_, Leaf{LeafName(value.node), n.positive, dtype == DType::kBool}, at));
  }
  std::string assumed;
  for (const Guard& g : ctx_.assumptions) assumed += ctx_.Print(g) + ";";
  for (const auto& [holds, fails] : cases_) assumed += "|" + ctx_.Print(holds);
  auto key = std::make_tuple(value.node, value.output, at, assumed);
  auto it = cache_.find(key);
  // Products rename their bound variables; sums of very many terms need no other names.
  if (it != cache_.end()) return ctx_.strategy.unroll ? it->second : RenameAll(ctx_, it->second);
  Scope scope = ScopeOf(value.node);
  const OutputMeaning& output = n.meaning->outputs[value.output];
  for (size_t k = 0; k < at.size(); ++k) scope.variables[output.index_vars[k]] = at[k];
  NormalForm form = Stored(ToForm(output.element, scope), output.element, value);
  cache_.emplace(std::move(key), form);
  return form;
}

// Integers of 8 to 32 bits are computed in a wider type and wrap around where they are stored. A value that was read in
// the same type and only moved does not change, and neither does a constant within the type.
NormalForm Elements::Stored(NormalForm form, const ExprPtr& element, SymbolicValue value) {
  const SymbolicNode& n = instance_.nodes[value.node];
  const DType to = n.dtypes[value.output];
  if (!IsInteger(to) || !IsNarrow(to) || IsMoved(element, n, to)) return form;
  Rational number;
  if (form.empty() || (IsConstant(form, &number) && IsWithin(number, to)) || IsLeafOf(form, to)) return form;
  return Apply(ctx_, absl::StrCat("wrap_", DTypeName(to)), {form});
}

bool Elements::IsMoved(const ExprPtr& e, const SymbolicNode& n, DType type) const {
  switch (e->kind()) {
    case ExprKind::kRead: {
      const SymbolicValue operand = n.inputs[e->operand()];
      return instance_.nodes[operand.node].dtypes[operand.output] == type;
    }
    case ExprKind::kConst: {
      const double number = e->real();
      return std::floor(number) == number && std::abs(number) < 0x1p40 &&
             IsWithin(Rational(static_cast<int64_t>(number)), type);
    }
    case ExprKind::kSelect: return IsMoved(e->yes(), n, type) && IsMoved(e->no(), n, type);
    default: return false;
  }
}

bool Elements::IsLeafOf(const NormalForm& form, DType type) const {
  if (!IsSingleAtom(form, AtomNode::Kind::kRead)) return false;
  for (size_t node = 0; node < instance_.nodes.size(); ++node) {
    const SymbolicNode& n = instance_.nodes[node];
    if (n.meaning == nullptr && form[0].atoms[0]->name == LeafName(static_cast<int>(node))) return n.dtypes[0] == type;
  }
  return false;
}

// An integer is itself. A real that is a small dyadic fraction, and a number of its type, is that rational. Any other
// is a power of 2 times a symbol, named by its digits: a proof then holds for every value of it, those that it is
// rounded to among them, and rounding of constants is never taken for an identity.
NormalForm Elements::ToConstant(const Number& number, DType dtype) {
  if (const int64_t* integer = std::get_if<int64_t>(&number)) return ConstantForm(*integer);
  const double value = std::get<double>(number);
  if (!std::isfinite(value)) throw GiveUp("an infinite constant");
  constexpr double kScale = 1 << 20;
  double scaled = value * kScale;
  if (std::floor(scaled) == scaled && std::abs(scaled) < 4e15 && RoundedTo(dtype, value) == value) {
    return ConstantForm(Rational(static_cast<int64_t>(scaled), static_cast<int64_t>(kScale)));
  }
  constexpr int kGreatestPower = 30;  // no number of a type is out of range by it
  int power = 0;
  double part = std::frexp(std::abs(value), &power);
  if (std::abs(power) > kGreatestPower) part = std::abs(value), power = 0;
  char digits[40];
  std::snprintf(digits, sizeof digits, "%.17g", part);
  const Rational times = power < 0 ? Rational(1, int64_t{1} << -power) : Rational(int64_t{1} << power);
  return Scale(AtomForm(MakeRead(ctx_, Leaf{digits, true, false}, {})), value < 0 ? -times : times);
}

// A condition that an element among the indices depends on, if there may be more cases.
std::optional<Guard> Elements::LiteralOfPlace(const std::vector<Poly>& at) const {
  if (cases_.size() >= kMostCases) return std::nullopt;
  for (const Poly& p : at) {
    if (std::optional<Guard> literal = LiteralOfValues(ctx_, p)) return literal;
  }
  return std::nullopt;
}

// x[[c] ? i : j] = [c] ? x[i] : x[j]
NormalForm Elements::ReadByCases(const ExprPtr& e, Scope& scope, const Guard& literal) {
  const auto read = [&](const Guard& holds, const Guard& fails) {
    Under under(ctx_, scope, holds);
    cases_.emplace_back(holds, fails);
    NormalForm form = ToRead(e, scope);
    cases_.pop_back();
    return form;
  };
  const Guard no = Guard::Not(literal);
  const NormalForm yes = read(literal, no);
  return Choose(ctx_, literal, yes, read(no, literal));
}

NormalForm Elements::ToRead(const ExprPtr& e, Scope& scope) {
  std::vector<Poly> at;
  for (const ExprPtr& index : e->args()) at.push_back(ToPoly(index, scope));
  const SymbolicNode& n = instance_.nodes[scope.node];
  const SymbolicValue operand = n.inputs[e->operand()];
  if (scope.reads == nullptr) {
    if (const std::optional<Guard> literal = LiteralOfPlace(at)) return ReadByCases(e, scope, *literal);
    return Element(operand, at);
  }
  scope.reads->push_back({Guard::And(scope.path), at, Shape(operand), PrintExpr(e, {})});
  Leaf leaf{"$" + std::to_string(operand.node) + "." + std::to_string(operand.output), false, false};
  return AtomForm(MakeRead(ctx_, leaf, at));
}

// The family and, where its elements are conditional, one for each case.
void Elements::AddFamily(Family family, std::vector<Family>* families) {
  constexpr size_t kMostFamilies = 16;
  if (families->size() > kMostFamilies) throw GiveUp("an operand has too many cases");
  if (!SimplifyFamily(ctx_, &family, /*repeats=*/false)) return;
  const std::vector<Guard> literals = FreeLiterals(ctx_, family.body[0].atoms[0]->args.back());
  if (literals.empty()) return families->push_back(std::move(family));
  const Guard yes = literals[0], no = Guard::Not(yes);
  for (const auto& [holds, fails] : {std::pair(yes, no), std::pair(no, yes)}) {
    Family part{family.bound, Guard::And(family.guard, holds), AssumeForm(ctx_, family.body, holds, fails)};
    AddFamily(RenameBound(ctx_, part), families);
  }
}

Atom Elements::WholeValue(SymbolicValue value) {
  Family positions;
  std::vector<Poly> at;
  std::vector<Guard> ranges;
  std::vector<NormalForm> pair;
  for (const Poly& size : Shape(value)) {
    positions.bound.push_back(ctx_.NewRanged(absl::StrCat("p", at.size()), Poly(), size));
    at.push_back(Poly::Of(positions.bound.back()));
    ranges.push_back(Guard::InRange(at.back(), Poly(), size));
    pair.push_back(IndexForm(ctx_, at.back()));
  }
  pair.push_back(Element(value, at));
  positions.guard = Guard::And(ranges);
  positions.body = AtomForm(MakeFnAtom(ctx_, "at", std::move(pair)));
  std::vector<Family> families;
  AddFamily(std::move(positions), &families);
  return MakeWholeValue(ctx_, std::move(families));
}

// An uninterpreted function, one for each output of the operator at its structural attributes, of the position, the
// symbolic attributes, and the sizes and elements of all operands: equal where these are equal.
NormalForm Elements::ToOpaque(const ExprPtr& e, Scope& scope) {
  std::string name = absl::StrCat(e->name(), "#", e->output());
  std::vector<NormalForm> args;
  for (const ExprPtr& arg : e->args()) {
    args.push_back(IsIndexKind(arg->kind()) ? IndexForm(ctx_, ToPoly(arg, scope)) : ToForm(arg, scope));
  }
  // A stand-in for an operator is of elements alone; the value of an attribute or constant is of no node.
  if (scope.node < 0 || !instance_.nodes[scope.node].meaning->IsOpaque()) return Apply(ctx_, e->name(), args);
  const SymbolicNode& n = instance_.nodes[scope.node];
  for (SymbolicValue input : n.inputs) {
    absl::StrAppend(&name, " ", DTypeName(instance_.nodes[input.node].dtypes[input.output]));
    for (const Poly& size : Shape(input)) args.push_back(IndexForm(ctx_, size));
    // An opaque operator reads its operands as a whole, so its reads stay in bounds: obligations do not need them.
    if (scope.reads == nullptr) args.push_back(AtomForm(WholeValue(input)));
  }
  return AtomForm(MakeFnAtom(ctx_, name, std::move(args)));
}

NormalForm Elements::ToForm(const ExprPtr& e, Scope& scope) {
  switch (e->kind()) {
    case ExprKind::kConst: return ToConstant(e->real(), e->dtype());
    case ExprKind::kParam: {
      if (scope.node < 0) {
        const RealSymbol& real = instance_.reals[e->param()];
        const Leaf leaf{absl::StrCat(real.name, "%", e->param()), real.positive, real.dtype == DType::kBool};
        return AtomForm(MakeRead(ctx_, leaf, {}));
      }
      const auto& params = instance_.nodes[scope.node].params;
      CHECK(e->param() < static_cast<int>(params.size())) << e->name();
      Scope outer;
      for (const Poly& p : symbols_) outer.variables.emplace_back(p);
      const ExprPtr& param = params[e->param()];
      const NormalForm value = ToForm(param, outer);
      return IsFloating(e->dtype()) || !IsFloating(param->dtype()) ? value : Truncated(value, e->dtype());
    }
    case ExprKind::kFromIndex: return IndexForm(ctx_, ToPoly(e->arg(0), scope));
    case ExprKind::kRead: return ToRead(e, scope);
    case ExprKind::kCall: return ToCall(e, scope);
    case ExprKind::kReduce: return ToReduce(e, scope);
    case ExprKind::kCast: return ToCast(ToForm(e->arg(0), scope), e->arg(0)->dtype(), e->dtype());
    case ExprKind::kOpaque: return ToOpaque(e, scope);
    case ExprKind::kSelect: break;
    default: throw GiveUp("an element expression of an unknown kind");
  }
  if (MentionsHolds(e->condition())) {
    NormalForm condition = ToIndicator(e->condition(), scope);
    NormalForm yes = ToForm(e->yes(), scope), no = ToForm(e->no(), scope);
    NormalForm difference = Add(ctx_, yes, Scale(RenameAll(ctx_, no), -1));
    return Add(ctx_, no, Multiply(ctx_, condition, difference));
  }
  Guard condition = ToGuard(e->condition(), scope);
  NormalForm yes, no;
  if (!condition.IsFalse()) {
    Under under(ctx_, scope, condition);
    yes = ToForm(e->yes(), scope);
  }
  if (!condition.IsTrue()) {
    Under under(ctx_, scope, Guard::Not(condition));
    no = ToForm(e->no(), scope);
  }
  return Choose(ctx_, condition, yes, no);
}

// Truncates a real number that stands for an integer, such as the value of a padding.
NormalForm Elements::Truncated(const NormalForm& value, DType to) {
  Rational number;
  if (value.empty() || (IsConstant(value, &number) && FitsType(number, Typed("", to)))) return value;
  return ToCast(value, DType::kFloat64, to);
}

// True if a narrow integer type holds the number.
bool Elements::IsWithin(const Rational& number, DType type) {
  const int bits = static_cast<int>(8 * DTypeSize(type)) - (IsUnsigned(type) ? 0 : 1);
  const int64_t most = (int64_t{1} << bits) - 1;
  return number.den() == 1 && number.num() <= most && number.num() >= (IsUnsigned(type) ? 0 : -most - 1);
}

NormalForm Elements::ToCast(const NormalForm& x, DType from, DType to) {
  if (from == to || (IsFloating(to) && IsFloating(from))) return x;  // rounding is not seen over the reals
  if (from == DType::kBool) return x;                                // truth values are 0 and 1
  if (to == DType::kBool) return Add(ctx_, ConstantForm(1), Scale(Apply(ctx_, Typed("zero", from), {x}), -1));
  // A sum that has wrapped around is another number than the sum of the casts.
  if (IsInteger(from) && IsFloating(to)) return Apply(ctx_, Typed("float", from), {x});
  if (from == DType::kInt32 && to == DType::kInt64) return Apply(ctx_, Typed("widen", from), {x});
  // A number beyond i32 becomes another integer there than in i64.
  return Apply(ctx_, absl::StrCat(IsFloating(from) ? "truncate_" : "wrap_", DTypeName(to)), {x});
}

NormalForm Elements::ToCall(const ExprPtr& e, Scope& scope) {
  std::vector<NormalForm> args;
  for (const ExprPtr& arg : e->args()) args.push_back(ToForm(arg, scope));
  auto one_minus = [&](const NormalForm& n) { return Add(ctx_, ConstantForm(1), Scale(n, -1)); };
  auto minus = [&](const NormalForm& a, const NormalForm& b) { return Add(ctx_, a, Scale(b, -1)); };
  const DType compared = e->arg(0)->dtype();
  auto less = [&](const NormalForm& a, const NormalForm& b) {
    if (IsInteger(compared)) return Apply(ctx_, Typed("less", compared), {a, b});
    return Apply(ctx_, "pos", {minus(b, a)});
  };
  switch (e->fn()) {
    case Fn::kAdd: return Add(ctx_, args[0], args[1]);
    case Fn::kSub: return minus(args[0], args[1]);
    case Fn::kMul:
    case Fn::kAnd: return Multiply(ctx_, args[0], args[1]);
    case Fn::kNeg: return Scale(args[0], -1);
    case Fn::kDiv:
      if (IsInteger(e->dtype())) return Apply(ctx_, Typed("quotient", e->dtype()), args);
      return Multiply(ctx_, args[0], Apply(ctx_, "recip", {args[1]}));
    case Fn::kMax: return Apply(ctx_, Typed("max", e->dtype()), args);
    case Fn::kMin: return Apply(ctx_, Typed("min", e->dtype()), args);
    case Fn::kPow: return Apply(ctx_, "pow", args);
    case Fn::kAbs:
      if (IsInteger(e->dtype())) {
        return Apply(ctx_, Typed("max", e->dtype()), {args[0], Scale(RenameAll(ctx_, args[0]), -1)});
      }
      return Apply(ctx_, "abs", args);
    case Fn::kLess: return less(args[0], args[1]);
    case Fn::kLessEqual: return one_minus(less(args[1], args[0]));
    case Fn::kEqual:
      if (compared != DType::kBool) return Apply(ctx_, Typed("zero", compared), {minus(args[0], args[1])});
      // 1 - a - b + 2 a b
      return Add(ctx_, one_minus(args[0]), minus(Scale(Multiply(ctx_, args[0], RenameAll(ctx_, args[1])), 2), args[1]));
    case Fn::kOr: return minus(Add(ctx_, args[0], args[1]), Multiply(ctx_, args[0], RenameAll(ctx_, args[1])));
    case Fn::kNot: return one_minus(args[0]);
    default: break;
  }
  return Apply(ctx_, Typed(InfoOf(e->fn()).name, e->dtype()), args);
}

std::vector<Elements::ReadObligation> Elements::Reads(int node) {
  const SymbolicNode& n = instance_.nodes[node];
  std::vector<ReadObligation> out;
  if (n.meaning == nullptr) return out;
  for (const OutputMeaning& output : n.meaning->outputs) {
    Scope scope = ScopeOf(node);
    scope.reads = &out;
    for (size_t k = 0; k < output.shape.size(); ++k) {
      Poly size = ToPoly(output.shape[k], scope);
      Var v = ctx_.NewRanged("i" + std::to_string(k), Poly(), size);
      scope.variables[output.index_vars[k]] = Poly::Of(v);
      scope.path.push_back(Guard::InRange(Poly::Of(v), Poly(), size));
    }
    ToForm(output.element, scope);
  }
  return out;
}

}  // namespace rewright::verifier
