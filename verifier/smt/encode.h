// Translation of normal forms to Z3. Private to solver.cc and encode.cc; besides them only query_solver.cc
// sees z3++.h.
#pragma once

#include <z3++.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "verifier/integer/context.h"
#include "verifier/normal_form/term.h"
#include "verifier/smt/solver.h"

namespace rewright::verifier {

struct Increasing;

class Encoder {
 public:
  // linear: products of variables are fresh integers, and products of elements uninterpreted. `equal_closures` may be
  // empty; then closures are equal only by congruence.
  Encoder(Context& ctx, z3::context& z3, bool linear, const ClosureEquality& equal_closures)
      : ctx_(ctx), z3_(z3), linear_(linear), equal_closures_(equal_closures) {}

  z3::expr OfPoly(const Poly& p);
  z3::expr OfGuard(const Guard& g);
  z3::expr OfForm(const NormalForm& n, const Guard& path);
  z3::expr RealOf(const Rational& r);

  // Ranges and minima of the variables met so far, and of those that occur in them; not of `hidden`.
  std::vector<z3::expr> VariableFacts(const std::vector<Var>& hidden);
  // Lemma instances about the products met so far; `bounds` are polynomials known to be >= 0 under some condition.
  std::vector<z3::expr> Lemmas(const std::vector<Poly>& bounds);
  // Definitions of quotients and minima, instances of commutativity, equalities of closures.
  const std::vector<z3::expr>& side() const { return side_; }
  bool has_products() const { return !products_.empty() || nonlinear_ || (cases_ && element_products_); }

 private:
  struct Instance {
    std::string name;
    std::string kind;
    std::vector<Poly> params;
    std::vector<Family> families;  // as they stand
    std::string skeleton;
    Guard path;
    z3::expr value;
  };

  void AddQuotientLemmas(const std::vector<Poly>& bounds, std::vector<z3::expr>* out);
  z3::expr OfVar(Var v);
  z3::expr OfMonomial(const Monomial& m);
  z3::expr OfTerm(const Term& t, const Guard& path);
  z3::expr OfAtom(const Atom& a, const Guard& path);
  z3::expr OfFunction(const Atom& a, const Guard& path);
  z3::expr Rounded(const std::string& name, const z3::expr& x);
  void Increase(const Increasing& fn, const z3::expr& x, const z3::expr& value);
  z3::expr OfMaxWithoutBound(const Atom& a, const Guard& path);
  z3::expr Product(const std::vector<Atom>& atoms, const z3::expr* extra, const Guard& path);
  z3::expr ProductOf(const std::vector<Atom>& sorted, const std::vector<z3::expr>& factors);
  // A sum or maximum as an uninterpreted function of the index expressions it is open in.
  z3::expr Closure(const std::string& kind, const std::vector<Family>& families, const Guard& path);
  z3::expr Uninterpreted(const std::string& name, const std::vector<z3::expr>& args, const z3::sort& range);

  Context& ctx_;
  z3::context& z3_;
  bool linear_;
  const ClosureEquality& equal_closures_;
  bool nonlinear_ = false;
  bool cases_ = false, element_products_ = false;  // the latter: comparisons decide factors
  std::map<Var, z3::expr> vars_;
  std::map<Monomial, z3::expr> products_;
  std::vector<z3::expr> side_;
  std::map<std::string, std::string> closure_names_;
  std::vector<Instance> instances_;
  std::map<std::string, std::vector<std::pair<z3::expr, z3::expr>>> applications_;  // of increasing functions
};

}  // namespace rewright::verifier
