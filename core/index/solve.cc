#include "core/index/solve.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/index/compose.h"
#include "core/index/divide.h"
#include "core/index/form_builder.h"
#include "core/index/laws.h"
#include "core/index/print.h"
#include "core/index/range.h"

namespace rewright::index {
namespace {

using Kind = Atom::Kind;

class Solver {
 public:
  Solver(const std::vector<const Atom*>& first, const std::vector<const Atom*>& others,
         const std::vector<Form>& equations, Residues residues)
      : equations_(equations), residues_(residues) {
    for (const auto* group : {&first, &others}) {
      for (const Atom* variable : *group) {
        CHECK(variable->kind == Kind::kVariable && variable->range.low == 0 && ExtentOf(variable).IsKnown())
            << variable->name;
        unknowns_.push_back({variable, group == &first ? kFirst : kLast});
        solution_.values[variable] = Form::OfAtom(variable);
        solution_.exact[variable] = {Form::OfAtom(variable)};
      }
    }
  }

  std::optional<Solution> Run() {
    constexpr int kMaxSteps = 200;
    for (int step = 0; step < kMaxSteps; ++step) {
      Tidy();
      if (overflow_) return std::nullopt;
      if (!Digit() && !SolveUnit(/*whole=*/true) && !ScaleSum() && !Radix() && !SolveUnit(/*whole=*/false) &&
          !Quotient() && !Split() && !Scale() && !(residues_ == Residues::kTakenApart && Residue())) {
        break;
      }
    }
    for (const Form& equation : equations_) Require(Condition::Kind::kZero, equation);
    if (overflow_) return std::nullopt;
    for (const Unknown& unknown : unknowns_) solution_.free.push_back(unknown.variable);
    return std::move(solution_);
  }

 private:
  // The order in which variables are determined: those that the caller names, those that the laws introduce, the rest.
  enum Rank { kFirst, kNew, kLast };
  struct Unknown {
    const Atom* variable;
    Rank rank;
  };

  bool IsUnknown(const Atom* leaf) const {
    return std::any_of(unknowns_.begin(), unknowns_.end(), [&](const Unknown& u) { return u.variable == leaf; });
  }
  bool Moves(const Form& form) const {
    return std::any_of(unknowns_.begin(), unknowns_.end(),
                       [&](const Unknown& u) { return Contains(form, u.variable); });
  }
  // Returns the terms in which unknowns occur; the others, and the constant, are known.
  Form MovingPart(const Form& form) const {
    Form moving;
    for (const Form::Term& term : form.terms()) {
      const Form part = OfTerm(term);
      if (Moves(part)) moving = FormBuilder::Combine(moving, part, 1);
    }
    return moving;
  }
  // Returns the unknowns, those of the least rank first.
  std::vector<Unknown> ByRank() const {
    std::vector<Unknown> sorted = unknowns_;
    std::stable_sort(sorted.begin(), sorted.end(), [](const Unknown& a, const Unknown& b) { return a.rank < b.rank; });
    return sorted;
  }

  void Check(const Form& form) { overflow_ |= !form.IsKnown(); }

  void Require(Condition::Kind kind, const Form& form) {
    Check(form);
    if (kind == Condition::Kind::kZero ? form.Is(0) : IsNonNegative(form)) return;
    const Condition condition{kind, form};
    auto& all = solution_.conditions;
    if (std::find(all.begin(), all.end(), condition) == all.end()) all.push_back(condition);
  }
  void RequireWithin(const Form& form, const Form& extent) {
    Require(Condition::Kind::kNonNegative, form);
    Require(Condition::Kind::kNonNegative, extent - form - 1);
  }

  // Normalizes: equations have unknowns, conditions that must be 0 have none, and the first term with unknowns is
  // positive.
  void Tidy() {
    std::vector<Form> all = std::move(equations_);
    std::vector<Condition> conditions = std::exchange(solution_.conditions, {});
    for (const Condition& condition : conditions) {
      if (condition.kind == Condition::Kind::kZero) {
        all.push_back(condition.form);
      } else {
        Require(condition.kind, condition.form);
      }
    }
    equations_.clear();
    for (Form& equation : all) {
      Check(equation);
      const Form moving = MovingPart(equation);
      if (moving.terms().empty()) {
        Require(Condition::Kind::kZero, equation);
        continue;
      }
      if (moving.terms()[0].factor < 0) equation = -equation;
      if (std::find(equations_.begin(), equations_.end(), equation) == equations_.end()) equations_.push_back(equation);
    }
  }

  void Say(const char* law, const std::string& what, const Form& value) {
    solution_.steps.push_back(absl::StrCat(law, ": ", what, " = ", Text(value)));
  }

  // Sets scale * variable = `value`; `inside` tells that the value is known to be in the variable's range.
  void Replace(const char* law, const Atom* variable, const Form& value, const Form& scale, bool inside) {
    const Form quotient = FloorDiv(value, scale);
    Say(law, variable->name, quotient);
    unknowns_.erase(std::find_if(unknowns_.begin(), unknowns_.end(),
                                 [&](const Unknown& unknown) { return unknown.variable == variable; }));
    const Substitution substitution = {{variable, {value, scale}}};
    const auto rewrite = [&](Form* form) { Check(*form = Compose(*form, substitution)); };
    for (Form& equation : equations_) rewrite(&equation);
    for (Condition& condition : solution_.conditions) rewrite(&condition.form);
    for (auto& entry : solution_.values) rewrite(&entry.second);
    for (auto& [unknown, exact] : solution_.exact) {
      if (exact.value == Form::OfAtom(variable) && exact.scale.Is(1)) {
        exact = {value, scale};
      } else {
        rewrite(&exact.value);
      }
    }
    if (!inside) RequireWithin(quotient, ExtentOf(variable));
  }

  Form Fresh(const Atom* like, const char* suffix, const Form& extent) {
    const Form variable = like->space->Fresh(like->name + suffix, extent);
    if (variable.AsAtom() != nullptr) unknowns_.push_back({variable.AsAtom(), kNew});
    return variable;
  }

  // ---- the laws; each returns true if it was used

  // v + a = 0. `whole`: the equation has no other unknown. Otherwise a summed variable is not solved for if a position
  // could be, even only by division: the remaining sum is over that variable.
  bool SolveUnit(bool whole) {
    for (size_t i = 0; i < equations_.size(); ++i) {
      bool position = false;
      for (const Unknown& unknown : ByRank()) {
        Form factor, rest;
        if (!SplitAt(equations_[i], unknown.variable, &factor, &rest) || factor.Is(0) || Moves(factor)) continue;
        position |= unknown.rank == kFirst;
        if (!(factor.Is(1) || factor.Is(-1)) || (whole && Moves(rest)) || (unknown.rank == kLast && position)) continue;
        equations_.erase(equations_.begin() + static_cast<std::ptrdiff_t>(i));
        Replace("solve", unknown.variable, laws_.Solve(factor.constant(), rest), 1, /*inside=*/false);
        return true;
      }
    }
    return false;
  }

  // v + d*q = e with 0 <= v < d.
  bool Digit() {
    for (Form& equation : equations_) {
      const Form moving = MovingPart(equation);
      for (const Unknown& unknown : ByRank()) {
        Form factor, rest;
        if (!SplitAt(moving, unknown.variable, &factor, &rest) || !(factor.Is(1) || factor.Is(-1)) || rest.Is(0)) {
          continue;
        }
        const Form extent = ExtentOf(unknown.variable), others = rest * factor;
        Form d = extent, quotient, left;
        Divide(others, d, &quotient, &left);
        if (!left.Is(0) || quotient.Is(0)) {
          d = CommonFactor(others, 0);
          if (Moves(d)) d = d.Divisor();
          if (!IsNonNegative(d - extent)) continue;
          Divide(others, d, &quotient, &left);
        }
        if (!IsPositive(d) || !left.Is(0)) continue;
        const auto conclusion = laws_.Digit(d, quotient, (moving - equation) * factor);
        equation = conclusion.zero[0];
        const Form digit = conclusion.value[0];
        if (d != extent) RequireWithin(digit, extent);
        Replace("digit", unknown.variable, digit, 1, /*inside=*/true);
        return true;
      }
    }
    return false;
  }

  // c*a = e for a sum a.
  bool ScaleSum() {
    for (Form& equation : equations_) {
      const Form moving = MovingPart(equation), e = moving - equation;
      Form c = CommonFactor(moving, 0);
      if (Moves(c) || !IsPositive(c)) c = c.Divisor();
      if (c.Is(1)) continue;
      Form sum, nothing;
      Divide(moving, c, &sum, &nothing);
      const auto conclusion = laws_.Scale(c, e);
      Require(Condition::Kind::kZero, conclusion.zero[0]);
      equation = sum - conclusion.value[0];
      Say("scale", Text(sum), conclusion.value[0]);
      return true;
    }
    return false;
  }

  // P mod d = r and P div d = e.
  bool Radix() {
    for (size_t i = 0; i < equations_.size(); ++i) {
      const Form moving = MovingPart(equations_[i]);
      const Atom* mod = moving.AsAtom();
      if (mod == nullptr || mod->kind != Kind::kMod || Moves(mod->b)) continue;
      const Form quotient = MovingPart(mod->quotient), r = moving - equations_[i];
      for (size_t j = 0; j < equations_.size(); ++j) {
        if (quotient.Is(0) || MovingPart(equations_[j]) != quotient) continue;
        const auto conclusion = laws_.Radix(mod->a, mod->b, r, mod->quotient - equations_[j]);
        Say(r.Is(0) ? "exact" : "radix", Text(mod->a), mod->a - conclusion.zero[0]);
        for (const Form& form : conclusion.nonnegative) Require(Condition::Kind::kNonNegative, form);
        equations_[j] = conclusion.zero[0];
        equations_.erase(equations_.begin() + static_cast<std::ptrdiff_t>(i));
        return true;
      }
    }
    return false;
  }

  // (v + a) div d = e.
  bool Quotient() {
    for (size_t i = 0; i < equations_.size(); ++i) {
      const Form moving = MovingPart(equations_[i]);
      const Atom* div = moving.AsAtom();
      if (div == nullptr || div->kind != Kind::kFloorDiv || Moves(div->b) || !IsPositive(div->b)) continue;
      for (const Unknown& unknown : ByRank()) {
        Form factor, rest;
        if (!SplitAt(div->a, unknown.variable, &factor, &rest) || !factor.Is(1)) continue;
        const Form value = laws_.Quotient(rest, div->b, moving - equations_[i], Fresh(unknown.variable, "'", div->b));
        equations_.erase(equations_.begin() + static_cast<std::ptrdiff_t>(i));
        Replace("quotient", unknown.variable, value, 1, /*inside=*/false);
        return true;
      }
    }
    return false;
  }

  // Returns the division in a form that divides an unknown alone; null if there is none.
  const Atom* DivisionOfUnknown(const Form& form) const {
    for (const Form::Term& term : form.terms()) {
      for (const Atom* atom : FactorsOf(term.atom)) {
        if (atom->IsLeaf()) continue;
        const bool divides = atom->kind == Kind::kFloorDiv || atom->kind == Kind::kMod;
        if (divides && atom->a.AsAtom() != nullptr && IsUnknown(atom->a.AsAtom()) && !Moves(atom->b) &&
            IsPositive(atom->b)) {
          return atom;
        }
        for (const Form* part : {&atom->a, &atom->b}) {
          if (const Atom* found = DivisionOfUnknown(*part); found != nullptr) return found;
        }
      }
    }
    return nullptr;
  }

  void SplitBy(const Form& d, const Atom* v) {
    const Form extent = ExtentOf(v);
    const Form high = Fresh(v, "1", CeilDiv(extent, d));
    const Form value = laws_.Split(d, high, Fresh(v, "0", d));
    Require(Condition::Kind::kNonNegative, Mod(extent, d).Is(0) ? Form(0) : extent - value - 1);
    Replace("split", v, value, 1, /*inside=*/true);
  }

  // Splits an unknown v that occurs in v div d or v mod d.
  bool Split() {
    for (const Form& equation : equations_) {
      const Atom* division = DivisionOfUnknown(equation);
      if (division == nullptr) continue;
      SplitBy(division->b, division->a.AsAtom());
      return true;
    }
    return false;
  }

  // Splits a dividend of d as s * v + rest and returns s if it is 1 or -1, where d - 1 counts as -1; else 0.
  static int64_t SignOf(const Form& number, const Atom* v, const Form& d, Form* rest) {
    Form factor;
    if (!SplitAt(number, v, &factor, rest)) return 0;
    return factor.Is(1) ? 1 : factor.Is(-1) || factor + 1 == d ? -1 : 0;
  }

  // Returns the unknown of an equation (v + a) mod d = r that is solved for; a digit that `split` has made is
  // preferred.
  const Atom* UnknownOfResidue(const Atom& mod) const {
    const Atom* found = nullptr;
    for (const Unknown& unknown : ByRank()) {
      Form rest;
      if (SignOf(mod.a, unknown.variable, mod.b, &rest) == 0) continue;
      if (unknown.rank == kNew && ExtentOf(unknown.variable) == mod.b) return unknown.variable;
      if (found == nullptr) found = unknown.variable;
    }
    return found;
  }

  // (v + a) mod d = r, and likewise for -v.
  bool Residue() {
    for (size_t i = 0; i < equations_.size(); ++i) {
      const Form moving = MovingPart(equations_[i]), r = moving - equations_[i];
      const Atom* mod = moving.AsAtom();
      if (mod == nullptr || mod->kind != Kind::kMod || Moves(mod->b) || !IsPositive(mod->b)) continue;
      const Form d = mod->b;
      const Atom* v = UnknownOfResidue(*mod);
      if (v == nullptr) continue;
      if (!IsNonNegative(d - ExtentOf(v))) {
        SplitBy(d, v);
        return true;
      }
      Form rest;
      const int64_t sign = SignOf(mod->a, v, d, &rest);
      equations_.erase(equations_.begin() + static_cast<std::ptrdiff_t>(i));
      RequireWithin(r, d);
      Replace("residue", v, laws_.Residue((rest - r) * sign, d), 1, /*inside=*/ExtentOf(v) == d);
      return true;
    }
    return false;
  }

  // c*v + a = 0, with unknowns in a.
  bool Scale() {
    for (const Unknown& unknown : ByRank()) {
      for (size_t i = 0; i < equations_.size(); ++i) {
        Form factor, rest;
        if (!SplitAt(equations_[i], unknown.variable, &factor, &rest) || factor.Is(0) || Moves(factor)) continue;
        const bool positive = IsPositive(factor);
        if (!positive && !IsPositive(-factor)) continue;
        const Form value = positive ? -rest : rest, scale = positive ? factor : -factor;
        equations_.erase(equations_.begin() + static_cast<std::ptrdiff_t>(i));
        Replace("scale", unknown.variable, value, scale, /*inside=*/false);
        Require(Condition::Kind::kZero, laws_.Scale(scale, value).zero[0]);
        return true;
      }
    }
    return false;
  }

  std::vector<Unknown> unknowns_;
  std::vector<Form> equations_;
  const Residues residues_;
  Forms forms_;
  const Laws<Forms> laws_{forms_};
  Solution solution_;
  bool overflow_ = false;
};

}  // namespace

std::optional<Solution> Solve(const std::vector<const Atom*>& first, const std::vector<const Atom*>& others,
                              const std::vector<Form>& equations, Residues residues) {
  return Solver(first, others, equations, residues).Run();
}

}  // namespace rewright::index
