// Writes the steps of a proof as text (proof_observer.h), so that a checker needs no prover to be told them.
//
// A line is a step, or an object that later lines mention by its number. Objects of a kind are numbered from 0 in the
// order in which they stand:
//
//   context                       what follows is about new variables; all numbers begin again
//   x param NAME MIN              variable: a symbol of the instance (MIN is - where nothing is known)
//   x exact NAME MIN P,P          the quotient of two polynomials, which is exact
//   x local NAME, x range NAME P,P, x div P,P, x min P,P, x value N
//   g >P, g =P, g !G, g &G,G      guard: P >= 0, P = 0, not, and; 0 is true, 1 is false
//   a read NAME FLAGS P,P         atom; flags: p positive, b of truth values, -
//   a int P, a fn NAME N,N, a bind NAME X,X:G:N|..
//   t RATIONAL X,X G A,A          term: coefficient, bound variables, guard, atoms
//   n T,T                         normal form
//   m PLACE T S S                 term moved to other variables, by substitutions X=P;X=P
//   facts G,G, assume G,G         the facts and the assumptions of the steps below
//   stated P,P                    and every step of the observer: sum, count, none, collect, decide, divide, least,
//                                 equal, zero, composed
//
// A polynomial is written 2x3x4-x5+1, an empty list -. A step about a part of an element that was told before, under
// the same facts and assumptions, is left out.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "verifier/normal_form/proof_observer.h"

namespace rewright {

// Not thread-safe. One for each instance.
class StepWriter : public verifier::ProofObserver {
 public:
  using Variables = verifier::Variables;
  using Term = verifier::Term;
  using NormalForm = verifier::NormalForm;
  using Guard = verifier::Guard;
  using Poly = verifier::Poly;
  using Var = verifier::Var;
  using Substitution = verifier::Substitution;

  // Lines, each with its end.
  std::string Take() { return std::move(text_); }

  void Begin(const RuleInstance& /*instance*/, const std::vector<std::vector<int64_t>>& /*assignments*/) override {}
  void Attempted(const Variables& ctx) override;
  void Stated(const Variables& ctx, const std::vector<Poly>& symbols) override;
  void Resummed(const Variables& ctx, verifier::Law law, const Term& before, const Term& after,
                const Substitution& forward, const Substitution& backward) override;
  void Counted(const Variables& ctx, const Term& before, const Term& after, Var v, const Poly& count) override;
  void Vanished(const Variables& ctx, const Term& term) override;
  void Collected(const Variables& ctx, const NormalForm& parts, const std::vector<size_t>& place,
                 const NormalForm& sum) override;
  void Decided(const Variables& ctx, verifier::Law law, const std::vector<Guard>& also, const std::vector<Guard>& goals,
               const std::vector<Var>& hidden) override;
  void Divided(const Variables& ctx, const Poly& num, const Poly& den, const Poly& result) override;
  void Least(const Variables& ctx, const Poly& a, const Poly& b, const Poly& result) override;
  void Equal(const Variables& ctx, verifier::Law law, const Guard& also, const NormalForm& before,
             const NormalForm& after) override;
  void Zero(const Variables& ctx, const std::vector<Guard>& facts, const NormalForm& sum,
            const std::vector<std::vector<verifier::MovedTerm>>& classes) override;
  void Composed(const Variables& ctx, int node, int output, const std::vector<Poly>& at,
                const NormalForm& form) override;

 private:
  // The number of the object that the line makes, which is written where it is the first of its kind.
  int Number(char kind, const std::string& line);
  int Of(const Variables& ctx, Var v);
  std::string Of(const Variables& ctx, const std::vector<Var>& vars);
  std::string Of(const Variables& ctx, const Poly& p);
  std::string Of(const Variables& ctx, const std::vector<Poly>& polys);
  int Of(const Variables& ctx, const Guard& g);
  std::string Of(const Variables& ctx, const std::vector<Guard>& guards);
  int Of(const Variables& ctx, const verifier::Atom& a);
  int Of(const Variables& ctx, const Term& t);
  int Of(const Variables& ctx, const NormalForm& n);
  std::string Of(const Variables& ctx, const Substitution& s);
  // A step, after the facts and assumptions under which it is told; `once`: it says nothing new a second time.
  void Step(const Variables& ctx, const std::string& line, bool once = true);

  std::string text_;
  std::map<char, std::map<std::string, int>> numbers_;
  std::map<Var, int> variables_;
  std::map<const verifier::AtomNode*, std::pair<verifier::Atom, int>> atoms_;  // those that were met, kept alive
  std::string facts_, assumptions_;
  std::set<std::string> told_;
};

// Names of leaves and functions as one word of a line.
std::string StepWord(std::string_view name);

}  // namespace rewright
