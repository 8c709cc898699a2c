#include "verifier/check/proof_check.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/ir/rewrite.h"
#include "verifier/check/declared_claims.h"
#include "verifier/integer/give_up.h"

namespace rewright {

using verifier::Atom;
using verifier::Has;
using verifier::IndexEnvironment;
using verifier::IndexSum;
using verifier::Law;
using verifier::PlusTimes;
using verifier::StepQueryBuilder;
using verifier::Times;
using verifier::VarInfo;

namespace {

using verifier::AtomNode;
using verifier::Guard;
using verifier::NormalForm;
using verifier::Poly;
using verifier::Term;
using verifier::Var;
using verifier::Variables;

bool Same(const std::vector<Atom>& a, const std::vector<Atom>& b);

bool Same(const NormalForm& a, const NormalForm& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Term& x, const Term& y) {
    return x.coef == y.coef && x.bound == y.bound && x.guard == y.guard && Same(x.atoms, y.atoms);
  });
}

bool Same(const AtomNode& a, const AtomNode& b) {
  if (&a == &b) return true;
  return a.kind == b.kind && a.name == b.name && a.positive == b.positive && a.boolean == b.boolean && a.at == b.at &&
         a.value == b.value &&
         std::equal(a.args.begin(), a.args.end(), b.args.begin(), b.args.end(),
                    [](const NormalForm& x, const NormalForm& y) { return Same(x, y); }) &&
         std::equal(a.families.begin(), a.families.end(), b.families.begin(), b.families.end(),
                    [](const verifier::Family& x, const verifier::Family& y) {
                      return x.bound == y.bound && x.guard == y.guard && Same(x.body, y.body);
                    });
}

bool Same(const std::vector<Atom>& a, const std::vector<Atom>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Atom& x, const Atom& y) { return Same(*x, *y); });
}

// The variables of an index that are no parameters.
std::vector<Var> PositionsOf(const Variables& ctx, const std::vector<Poly>& at) {
  std::vector<Var> out;
  for (const Poly& p : at) {
    for (Var v : p.Vars()) {
      if (!ctx.IsParam(v) && !Has(out, v)) out.push_back(v);
    }
  }
  return out;
}

std::string Printed(const Variables& ctx, const std::vector<Poly>& at) {
  return absl::StrCat("[", absl::StrJoin(at, ", ", [&](std::string* out, const Poly& p) { out->append(ctx.Print(p)); }),
                      "]");
}

// Splits off the terms of p in which none of the variables occurs, and gives the factor of each variable. False: a
// variable does not stand alone with a factor of parameters.
bool Factors(const Variables& ctx, const Poly& p, std::vector<std::pair<Poly, Var>>* factors, Poly* rest) {
  *rest = p;
  for (Var v : PositionsOf(ctx, {p})) {
    Poly factor, other;
    if (!rest->Decompose(v, &factor, &other) || !PositionsOf(ctx, {factor}).empty()) return false;
    if (ctx.Info(v).kind != VarInfo::Kind::kLocal || !ctx.Info(v).range) return false;
    factors->emplace_back(factor, v);
    *rest = other;
  }
  return true;
}

// The values of a case's variables at position `at`: quotients by the factor of the first variable, of the rest by that
// of the second, and so on. `is_digit`: a constant part of the case's position is the last digit, else an offset.
std::optional<IndexEnvironment> SolvedFor(StepQueryBuilder& claim, const std::vector<Poly>& position,
                                          const std::vector<IndexSum>& at, bool is_digit) {
  IndexEnvironment values;
  for (size_t axis = 0; axis < at.size(); ++axis) {
    std::vector<std::pair<Poly, Var>> factors;
    Poly rest;
    if (!Factors(claim.context(), position[axis], &factors, &rest)) return std::nullopt;
    std::stable_sort(factors.begin(), factors.end(), [](const auto& a, const auto& b) {
      const auto& x = a.first.items().back();
      const auto& y = b.first.items().back();
      return x.vars.size() != y.vars.size() ? x.vars.size() > y.vars.size() : x.coef > y.coef;
    });
    const Poly digit = is_digit ? Poly(rest.Constant()) : Poly();
    IndexSum left_over = PlusTimes(at[axis], claim.Of(rest - digit, {}), -1);
    for (size_t i = 0; i < factors.size(); ++i) {
      const auto& [factor, v] = factors[i];
      if (i + 1 == factors.size()) left_over = PlusTimes(left_over, claim.Of(digit, {}), -1);
      const IndexSum times = claim.Of(factor, {});
      const IndexSum value = factor == Poly(1) ? left_over : claim.Quotient(left_over, times);
      if (!values.emplace(v, value).second) return std::nullopt;
      left_over = PlusTimes(left_over, Times(times, value), -1);
    }
  }
  return values;
}

}  // namespace

ProofCheck::ProofCheck(const RuleInstance& instance, StepChecker* steps) : instance_(instance), steps_(*steps) {
  steps_.Begin(instance, {});
  for (const SymbolicNode& n : instance.nodes) {
    if (n.meaning == nullptr) continue;
    for (const OutputMeaning& output : n.meaning->outputs) {
      AnyOf(output.element, [&](const ExprNode& e) {
        if (e.kind() != ExprKind::kOpaque) return false;
        std::string name = n.meaning->IsOpaque() ? absl::StrCat(e.name(), "#", e.output()) : e.name();
        for (SymbolicValue input : n.meaning->IsOpaque() ? n.inputs : std::vector<SymbolicValue>()) {
          const SymbolicNode& operand = instance.nodes[static_cast<size_t>(input.node)];
          absl::StrAppend(&name, " ", DTypeName(operand.dtypes[static_cast<size_t>(input.output)]));
        }
        opaque_.insert(std::move(name));
        return false;
      });
    }
  }
}

void ProofCheck::Miss(const std::string& what) {
  missing_.insert(absl::StrCat(what, instance_.description.empty() ? "" : ", at ", instance_.description));
}

int64_t ProofCheck::NumOpen() const {
  int64_t open = static_cast<int64_t>(steps_.report().refused.size());
  for (const auto& [law, count] : steps_.report().open) open += count;
  return open;
}

bool ProofCheck::Holds(const Variables& ctx, StepQueryBuilder& claim, const std::vector<std::string>& facts,
                       const std::vector<std::string>& goals, const std::string& what) {
  using Finding = StepChecker::Finding;
  const Finding finding = steps_.Ask(claim, facts, goals);
  if (finding <= Finding::kQuestion) steps_.Note(ctx, finding, Law::kObligation, [] { return StepChecker::Subject(); });
  return finding <= Finding::kQuestion || (Miss(absl::StrCat("found no proof that ", what, ", expected one")), false);
}

// ---------------------------------------------------------------- facts

std::vector<IndexSum> ProofCheck::Symbols(StepQueryBuilder& claim) const {
  std::vector<IndexSum> out;
  for (const Poly& p : base_.symbols) out.push_back(claim.Of(p, {}));
  return out;
}

std::vector<std::string> ProofCheck::Quotients(StepQueryBuilder& claim) const {
  const Variables& ctx = *base_.ctx;
  IndexEnvironment symbols;
  const std::vector<IndexSum> values = Symbols(claim);
  for (size_t s = 0; s < values.size(); ++s) symbols[static_cast<Var>(s)] = values[s];
  std::vector<std::string> out;
  for (Var v = static_cast<Var>(values.size()); v < base_.params; ++v) {
    if (!ctx.IsParam(v)) continue;
    const auto& [num, den] = *ctx.Info(v).defined;
    out.push_back(claim.Equal(Times(claim.Of(den, symbols), claim.Of(Poly::Of(v), {})), claim.Of(num, symbols)));
  }
  return out;
}

std::vector<std::string> ProofCheck::Given(StepQueryBuilder& claim, DeclaredClaims& declared) const {
  std::vector<std::string> given = declared.Premises();
  for (std::string& exact : Quotients(claim)) given.push_back(std::move(exact));
  for (const Guard& fact : base_.facts) given.push_back(claim.Of(fact, {}));
  return given;
}

// True of a polynomial of parameters, and of quotients and least values of such.
static bool IsOfParameters(const Variables& ctx, const Poly& p) {
  const std::vector<Var> vars = p.Vars(), below = ctx.BaseVars(p);
  const auto is_value = [&](Var x) { return ctx.Info(x).kind == VarInfo::Kind::kValue; };
  return std::none_of(vars.begin(), vars.end(), is_value) &&
         std::all_of(below.begin(), below.end(), [&](Var x) { return ctx.IsParam(x); });
}

// The parameters are the symbols, and quotients of polynomials of parameters.
bool ProofCheck::AreParameters(const Variables& ctx) {
  const auto count = static_cast<Var>(instance_.symbols.size());
  for (Var v = 0; v < std::max(count, ctx.NumVariables()); ++v) {
    if (v < count && (v >= ctx.NumVariables() || !ctx.IsParam(v) || ctx.Info(v).defined)) return false;
    if (!ctx.IsParam(v)) continue;
    const VarInfo& info = ctx.Info(v);
    if (v < count) {
      const int64_t min = instance_.symbols[static_cast<size_t>(v)].min;
      if (info.min != (min == INT64_MIN ? std::nullopt : std::optional(min))) return false;
      continue;
    }
    if (!info.defined) return false;
    if (!IsOfParameters(ctx, info.defined->first) || !IsOfParameters(ctx, info.defined->second)) return false;
  }
  return true;
}

// The quotients are exact, and the symbols equal their polynomials.
bool ProofCheck::FollowSymbols(const Variables& ctx, const std::vector<Poly>& symbols) {
  const auto count = static_cast<Var>(instance_.symbols.size());
  std::vector<Var> quotients;
  for (Var v = count; v < ctx.NumVariables(); ++v) {
    if (ctx.IsParam(v)) quotients.push_back(v);
  }
  const auto builder = [&] {
    auto claim = std::make_unique<StepQueryBuilder>(ctx);
    claim->Hide(quotients);
    return claim;
  };
  // With the quotients before number `known` defined.
  const auto given = [&](StepQueryBuilder& claim, size_t known) {
    std::vector<IndexSum> themselves;
    for (Var s = 0; s < count; ++s) themselves.push_back(claim.Of(Poly::Of(s), {}));
    std::vector<std::string> facts = DeclaredClaims(claim, instance_, themselves).Premises();
    for (size_t q = 0; q < known; ++q) {
      const VarInfo& info = ctx.Info(quotients[q]);
      const IndexSum product = Times(claim.Of(info.defined->second, {}), claim.Of(Poly::Of(quotients[q]), {}));
      facts.push_back(claim.Equal(product, claim.Of(info.defined->first, {})));
    }
    return facts;
  };
  bool all = true;
  for (size_t q = 0; q < quotients.size(); ++q) {
    const VarInfo& info = ctx.Info(quotients[q]);
    const auto claim = builder();
    const std::vector<std::string> facts = given(*claim, q);
    const IndexSum num = claim->Of(info.defined->first, {}), den = claim->Of(info.defined->second, {});
    const std::string exact = claim->Equal(num, Times(den, claim->Quotient(num, den)));
    all = Holds(ctx, *claim, facts, {exact}, absl::StrCat(info.name, " is an exact quotient")) && all;
    if (!info.min) continue;
    const auto least = builder();
    const std::vector<std::string> defined = given(*least, q + 1);
    const IndexSum above = PlusTimes(least->Of(Poly::Of(quotients[q]), {}), {{{}, 1}}, -*info.min);
    all = Holds(ctx, *least, defined, {least->AtLeastZero(above)}, absl::StrCat(info.name, " >= ", *info.min)) && all;
  }
  for (Var s = 0; s < count; ++s) {
    if (symbols[static_cast<size_t>(s)] == Poly::Of(s)) continue;
    const auto claim = builder();
    const std::vector<std::string> facts = given(*claim, quotients.size());
    const std::string same = claim->Equal(claim->Of(Poly::Of(s), {}), claim->Of(symbols[static_cast<size_t>(s)], {}));
    all = Holds(ctx, *claim, facts, {same},
                absl::StrCat(ctx.Info(s).name, " = ", ctx.Print(symbols[static_cast<size_t>(s)]))) &&
          all;
  }
  return all;
}

bool ProofCheck::FollowFacts(const Variables& ctx) {
  bool all = true;
  for (const Guard& fact : ctx.facts()) {
    const std::vector<Var> below = ctx.BaseVars(fact);
    if (!std::all_of(below.begin(), below.end(), [&](Var v) { return ctx.IsParam(v); })) {
      Miss(absl::StrCat("found the fact ", ctx.Print(fact), ", expected one about sizes and attributes"));
      all = false;
      continue;
    }
    StepQueryBuilder claim(ctx);
    DeclaredClaims declared(claim, instance_, Symbols(claim));
    std::vector<std::string> given = declared.Premises();
    for (std::string& exact : Quotients(claim)) given.push_back(std::move(exact));
    all = Holds(ctx, claim, given, {claim.Of(fact, {})}, absl::StrCat("the fact ", ctx.Print(fact), " holds")) && all;
  }
  return all;
}

void ProofCheck::Stated(const Variables& ctx, const std::vector<Poly>& symbols) {
  const bool first = base_.ctx == nullptr;
  base_ = Base{&ctx, symbols, {}, ctx.NumVariables()};
  cases_.clear();  // of other variables
  const bool whole = symbols.size() == instance_.symbols.size() &&
                     std::all_of(symbols.begin(), symbols.end(), [&](const Poly& p) { return IsOfParameters(ctx, p); });
  if (!whole || !AreParameters(ctx)) {
    Miss("found other parameters, expected the symbols of the instance and their quotients");
    base_.ctx = nullptr;
    return;
  }
  if (!FollowSymbols(ctx, symbols) || !FollowFacts(ctx)) {
    base_.ctx = nullptr;
    return;
  }
  base_.facts = ctx.facts();
  if (first) CheckLegality();
}

// ---------------------------------------------------------------- what the declarations demand

void ProofCheck::CheckLegality() {
  const Variables& ctx = *base_.ctx;
  const auto ask = [&](const std::string& what, const auto& goals_of) {
    StepQueryBuilder claim(ctx);
    DeclaredClaims declared(claim, instance_, Symbols(claim));
    declared.UseLeastValues();
    const std::vector<std::string> given = Given(claim, declared), goals = goals_of(claim, declared);
    for (const std::string& goal : goals) Holds(ctx, claim, given, {goal}, what);
  };
  const int count = static_cast<int>(instance_.nodes.size());
  for (int k = instance_.num_lhs_nodes; k < count; ++k) {
    ask("the right side is legal", [&](StepQueryBuilder&, DeclaredClaims& declared) { return declared.Legal(k); });
  }
  if (instance_.lhs.size() != instance_.rhs.size()) return Miss("found sides with different numbers of outputs");
  for (size_t o = 0; o < instance_.lhs.size(); ++o) {
    const SymbolicValue left = instance_.lhs[o], right = instance_.rhs[o];
    const auto type = [&](SymbolicValue value) {
      const SymbolicNode& n = instance_.nodes[static_cast<size_t>(value.node)];
      return n.dtypes[static_cast<size_t>(value.output)];
    };
    ask(absl::StrCat("the shapes of output ", o, " are equal"),
        [&](StepQueryBuilder& claim, DeclaredClaims& declared) -> std::vector<std::string> {
          const std::vector<IndexSum> a = declared.Shape(left), b = declared.Shape(right);
          if (a.size() != b.size() || type(left) != type(right)) return {"false"};
          std::vector<std::string> goals;
          for (size_t k = 0; k < a.size(); ++k) goals.push_back(claim.Equal(a[k], b[k]));
          return goals;
        });
  }
  for (int k = 0; k < count; ++k) {
    StepQueryBuilder claim(ctx);
    DeclaredClaims declared(claim, instance_, Symbols(claim));
    declared.UseLeastValues();
    const std::vector<std::string> given = Given(claim, declared);
    for (const DeclaredClaims::Obligation& read : declared.Reads(k)) {
      std::vector<std::string> facts = given;
      facts.insert(facts.end(), read.given.begin(), read.given.end());
      for (const std::string& goal : read.goals) {
        Holds(ctx, claim, facts, {goal},
              absl::StrCat(instance_.nodes[static_cast<size_t>(k)].op->name, ": ", read.what));
      }
    }
  }
}

// ---------------------------------------------------------------- elements

void ProofCheck::Composed(const Variables& ctx, int node, int output, const std::vector<Poly>& at,
                          const NormalForm& form) {
  const int64_t open = NumOpen();
  const bool exists =
      node < static_cast<int>(instance_.nodes.size()) &&
      output < static_cast<int>(instance_.nodes[static_cast<size_t>(node)].shapes.size()) &&
      at.size() == instance_.nodes[static_cast<size_t>(node)].shapes[static_cast<size_t>(output)].size();
  if (!exists) return Miss("found the element of a value that there is not, expected one of the instance");
  steps_.Composed(ctx, node, output, at, form);
  if (&ctx != forms_of_ || forms_.size() == 2) {
    forms_.clear();
    held_ = true;
  }
  forms_of_ = &ctx;
  held_ = held_ && NumOpen() == open;
  forms_.push_back({{node, output}, at, form});
  has_difference_ = false;
}

void ProofCheck::Equal(const Variables& ctx, Law law, const Guard& also, const NormalForm& before,
                       const NormalForm& after) {
  const int64_t open = NumOpen();
  // An equality that was computed elsewhere, under other facts, counts for no difference.
  if (law == Law::kDifference) steps_.equal_.clear();
  steps_.Equal(ctx, law, also, before, after);
  if (law != Law::kDifference || forms_.size() != 2 || forms_of_ != &ctx) return;
  NormalForm sides = forms_[0].form;
  for (Term t : forms_[1].form) {
    t.coef = -t.coef;
    sides.push_back(std::move(t));
  }
  if (!Same(sides, before)) return;
  held_ = held_ && NumOpen() == open;
  has_difference_ = true;
  difference_ = after;
  also_ = also;
}

bool ProofCheck::OnlyOver(const Variables& ctx, const std::vector<Var>& vars, const std::vector<Var>& positions) const {
  return std::all_of(vars.begin(), vars.end(),
                     [&](Var v) { return ctx.IsParam(v) ? v < base_.params : Has(positions, v); });
}

bool ProofCheck::IsTruthful(const AtomNode& read) const {
  if (read.kind == AtomNode::Kind::kInt) return true;
  if (read.kind != AtomNode::Kind::kRead) {
    return opaque_.count(read.name) > 0 || std::all_of(read.name.begin(), read.name.end(), [](char c) {
             return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
           });
  }
  const LeafName name(read.name);
  switch (name.kind) {
    case LeafName::Kind::kNumber:
      return read.at.empty() && !read.boolean && std::isfinite(name.value) && (name.value > 0 || !read.positive);
    case LeafName::Kind::kReal: {
      if (name.number < 0 || name.number >= static_cast<int>(instance_.reals.size())) return false;
      const RealSymbol& real = instance_.reals[static_cast<size_t>(name.number)];
      return read.at.empty() && read.name == absl::StrCat(real.name, "%", name.number) &&
             read.positive == real.positive && read.boolean == (real.dtype == DType::kBool);
    }
    case LeafName::Kind::kLeaf: break;
  }
  if (name.number < 0 || name.number >= static_cast<int>(instance_.nodes.size())) return false;
  const SymbolicNode& n = instance_.nodes[static_cast<size_t>(name.number)];
  return n.meaning == nullptr && !n.splat && read.name == absl::StrCat(n.name, "@", name.number) &&
         read.at.size() == n.shapes[0].size() && read.positive == n.positive &&
         read.boolean == (n.dtypes[0] == DType::kBool);
}

bool ProofCheck::AreTruthful(const Variables& ctx, const Poly& p, std::set<const void*>* seen) const {
  const std::vector<Var> vars = p.Vars();
  return std::all_of(vars.begin(), vars.end(), [&](Var v) {
    const VarInfo& info = ctx.Info(v);
    if (!ctx.IsDefinition(v) || !seen->insert(&info).second) return true;
    if (info.kind == VarInfo::Kind::kValue) return AreTruthful(ctx, verifier::ElementOf(info), seen);
    return AreTruthful(ctx, info.a, seen) && AreTruthful(ctx, info.b, seen);
  });
}

bool ProofCheck::AreTruthful(const Variables& ctx, const NormalForm& form, std::set<const void*>* seen) const {
  std::vector<Poly> polys;
  for (const Term& t : form) verifier::CollectPolys(t.guard, &polys);
  const std::vector<Atom> atoms = verifier::AtomsOf(form);
  const auto holds = [&](const Atom& a) {
    if (!seen->insert(a.get()).second) return true;
    if (!IsTruthful(*a)) return false;
    polys.insert(polys.end(), a->at.begin(), a->at.end());
    polys.push_back(a->value);
    for (const verifier::Family& b : a->families) verifier::CollectPolys(b.guard, &polys);
    return std::all_of(a->args.begin(), a->args.end(),
                       [&](const NormalForm& arg) { return AreTruthful(ctx, arg, seen); }) &&
           std::all_of(a->families.begin(), a->families.end(),
                       [&](const verifier::Family& b) { return AreTruthful(ctx, b.body, seen); });
  };
  return std::all_of(atoms.begin(), atoms.end(), holds) &&
         std::all_of(polys.begin(), polys.end(), [&](const Poly& p) { return AreTruthful(ctx, p, seen); });
}

// The difference is that of both sides at one position, and mentions nothing else than it and the parameters.
bool ProofCheck::EndsDifference(const Variables& ctx, const std::vector<Guard>& facts, const NormalForm& sum) {
  if (!has_difference_ || forms_of_ != &ctx || base_.ctx != &ctx || !held_) return false;
  if (forms_[0].at != forms_[1].at || !Same(difference_, sum)) return false;
  if (ctx.facts() != base_.facts || !ctx.assumptions.empty()) return false;
  const std::vector<Var> positions = PositionsOf(ctx, forms_[0].at);
  for (Var v : positions) {
    const auto& range = ctx.Info(v).range;
    if (!range || !OnlyOver(ctx, ctx.BaseVars(range->first), {}) || !OnlyOver(ctx, ctx.BaseVars(range->second), {})) {
      return false;
    }
  }
  std::set<const void*> seen;
  for (const NormalForm* form : std::initializer_list<const NormalForm*>{&forms_[0].form, &forms_[1].form, &sum}) {
    if (!OnlyOver(ctx, verifier::FreeVars(ctx, *form), positions) || !AreTruthful(ctx, *form, &seen)) return false;
  }
  std::vector<Guard> known;
  for (const Guard& fact : facts) {
    for (const Guard& part : verifier::Conjuncts(fact)) known.push_back(part);
    if (!OnlyOver(ctx, ctx.BaseVars(fact), positions)) return false;
  }
  const std::vector<Guard> also = verifier::Conjuncts(also_);
  return std::all_of(also.begin(), also.end(),
                     [&](const Guard& g) { return std::find(known.begin(), known.end(), g) != known.end(); });
}

void ProofCheck::Zero(const Variables& ctx, const std::vector<Guard>& facts, const NormalForm& sum,
                      const std::vector<std::vector<verifier::MovedTerm>>& classes) {
  const int64_t open = NumOpen();
  steps_.equal_.clear();
  steps_.Zero(ctx, facts, sum, classes);
  if (NumOpen() == open && EndsDifference(ctx, facts, sum)) {
    Case found{forms_[0].value, forms_[1].value, forms_[0].at, {}};
    for (const Guard& fact : facts) {
      for (const Guard& part : verifier::Conjuncts(fact)) {
        const bool given = std::find(base_.facts.begin(), base_.facts.end(), part) != base_.facts.end();
        if (!given) found.facts.push_back(part);
      }
    }
    cases_.push_back(std::move(found));
  }
  forms_.clear();
  has_difference_ = false;
}

// The cases, each as the conditions under which it is about position `at` of the output; those that are solved for.
std::vector<std::vector<std::string>> ProofCheck::CasesAt(StepQueryBuilder& claim, size_t output,
                                                          const std::vector<IndexSum>& at, bool is_digit) const {
  std::vector<std::vector<std::string>> choices;
  for (const Case& one : cases_) {
    if (!(one.left == instance_.lhs[output]) || !(one.right == instance_.rhs[output])) continue;
    const std::optional<IndexEnvironment> values = SolvedFor(claim, one.at, at, is_digit);
    if (!values) continue;
    std::vector<std::string> goals;
    for (size_t axis = 0; axis < at.size(); ++axis) {
      goals.push_back(claim.Equal(claim.Of(one.at[axis], *values), at[axis]));
    }
    for (const auto& [v, value] : *values) {
      const auto& [low, high] = *base_.ctx->Info(v).range;
      goals.push_back(claim.AtLeastZero(PlusTimes(value, claim.Of(low, *values), -1)));
      goals.push_back(claim.AtLeastZero(PlusTimes(PlusTimes(claim.Of(high, *values), value, -1), {{{}, 1}}, -1)));
    }
    for (const Guard& fact : one.facts) {
      for (const Guard& part : verifier::Conjuncts(fact)) goals.push_back(claim.Of(part, *values));
    }
    goals.erase(std::remove(goals.begin(), goals.end(), "true"), goals.end());
    choices.push_back(std::move(goals));
  }
  return choices;
}

bool ProofCheck::IsCovered(size_t output, bool is_digit) {
  StepQueryBuilder claim(*base_.ctx);
  DeclaredClaims declared(claim, instance_, Symbols(claim));
  declared.UseLeastValues();
  std::vector<std::string> given = Given(claim, declared);
  std::vector<IndexSum> at;
  for (const IndexSum& size : declared.Shape(instance_.lhs[output])) {
    at.push_back(claim.Fresh());
    given.push_back(claim.AtLeastZero(at.back()));
    given.push_back(claim.AtLeastZero(PlusTimes(PlusTimes(size, at.back(), -1), {{{}, 1}}, -1)));
  }
  const std::vector<std::vector<std::string>> choices = CasesAt(claim, output, at, is_digit);
  if (choices.empty()) return false;
  std::vector<std::string> goals = choices[0];
  if (choices.size() > 1) {
    const auto conjunction = [](std::string* out, const std::vector<std::string>& parts) {
      absl::StrAppend(out, "(and ", absl::StrJoin(parts, " "), ")");
    };
    const bool everywhere = std::any_of(choices.begin(), choices.end(), [](const auto& c) { return c.empty(); });
    goals = {everywhere ? "true" : absl::StrCat("(or ", absl::StrJoin(choices, " ", conjunction), ")")};
  }
  const StepChecker::Finding finding = steps_.Ask(claim, given, goals);
  if (finding > StepChecker::Finding::kQuestion) return false;
  steps_.Note(*base_.ctx, finding, Law::kPositions, [] { return StepChecker::Subject(); });
  return true;
}

// Each position of the output is that of a case.
void ProofCheck::CheckCovered(size_t output) {
  if (IsCovered(output, /*is_digit=*/false) || IsCovered(output, /*is_digit=*/true)) return;
  std::vector<std::string> places;
  for (const Case& one : cases_) {
    if (one.left == instance_.lhs[output] && one.right == instance_.rhs[output]) {
      places.push_back(Printed(*base_.ctx, one.at));
    }
  }
  Miss(absl::StrCat("found that both sides are equal at ", places.empty() ? "no position" : absl::StrJoin(places, ", "),
                    " of output ", output, ", expected all of it"));
}

std::vector<std::string> ProofCheck::Finish() {
  if (base_.ctx == nullptr) {
    Miss("found no facts that follow from the instance, expected them before the elements are compared");
  } else {
    try {
      for (size_t o = 0; o < instance_.lhs.size() && o < instance_.rhs.size(); ++o) CheckCovered(o);
    } catch (const verifier::GiveUp& stopped) {
      Miss(absl::StrCat("found positions that are not solved for: ", stopped.reason));
    }
  }
  return {missing_.begin(), missing_.end()};
}

// ---------------------------------------------------------------- other steps

void ProofCheck::Resummed(const Variables& ctx, Law law, const Term& before, const Term& after,
                          const Substitution& forward, const Substitution& backward) {
  steps_.Resummed(ctx, law, before, after, forward, backward);
}
void ProofCheck::Counted(const Variables& ctx, const Term& before, const Term& after, Var v, const Poly& count) {
  steps_.Counted(ctx, before, after, v, count);
}
void ProofCheck::Vanished(const Variables& ctx, const Term& term) { steps_.Vanished(ctx, term); }
void ProofCheck::Collected(const Variables& ctx, const NormalForm& parts, const std::vector<size_t>& place,
                           const NormalForm& sum) {
  steps_.Collected(ctx, parts, place, sum);
}
void ProofCheck::Decided(const Variables& ctx, Law law, const std::vector<Guard>& also, const std::vector<Guard>& goals,
                         const std::vector<Var>& hidden) {
  steps_.Decided(ctx, law, also, goals, hidden);
}
void ProofCheck::Divided(const Variables& ctx, const Poly& num, const Poly& den, const Poly& result) {
  steps_.Divided(ctx, num, den, result);
}
void ProofCheck::Least(const Variables& ctx, const Poly& a, const Poly& b, const Poly& result) {
  steps_.Least(ctx, a, b, result);
}

}  // namespace rewright
