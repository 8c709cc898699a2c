// Checks that the steps which someone tells of an instance are a proof of it.
//
// StepChecker sees that each step holds. This class sees that they suffice. It knows the instance from its own reading
// of the law, and demands
//
//   1. facts that follow from the instance: its conditions, a legal left side, leaves with elements;
//   2. a right side that is legal, outputs of equal types and shapes, reads inside their operands: these it words and
//      asks itself (declared_claims.h), whatever is told;
//   3. for each output, cases of positions that together are all of its shape;
//   4. for each case the normal forms of both sides there, their difference, and that this is zero, under no other
//      facts than those of 1 and of the case. These steps must hold: none may stay open.
//
// Steps beside those of 4 say how the normal forms came about. They must hold where they are told; the normal forms are
// computed beside the declarations in any case.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "verifier/check/step_checker.h"

namespace rewright {

class DeclaredClaims;

// Not thread-safe. One for each instance. The objects of the steps stay alive until Finish().
class ProofCheck : public verifier::ProofObserver {
 public:
  using Variables = verifier::Variables;
  using Term = verifier::Term;
  using NormalForm = verifier::NormalForm;
  using Guard = verifier::Guard;
  using Poly = verifier::Poly;
  using AtomNode = verifier::AtomNode;
  using Var = verifier::Var;
  using Substitution = verifier::Substitution;

  // Steps and obligations are counted in the report of `steps`.
  ProofCheck(const RuleInstance& instance, StepChecker* steps);

  // All that is missing or wrong, `found .., expected ..` each; empty for a proof. Wrong steps are in the report of the
  // step checker.
  std::vector<std::string> Finish();

  void Begin(const RuleInstance& /*instance*/, const std::vector<std::vector<int64_t>>& /*assignments*/) override {}
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
  // The variables of an attempt whose facts follow from the instance.
  struct Base {
    const Variables* ctx = nullptr;
    std::vector<Poly> symbols;
    std::vector<Guard> facts;
    int params = 0;  // variables from here on are no parameters
  };
  struct Form {
    SymbolicValue value;
    std::vector<Poly> at;
    NormalForm form;
  };
  // Both sides are equal at these positions, under the facts.
  struct Case {
    SymbolicValue left, right;
    std::vector<Poly> at;
    std::vector<Guard> facts;  // beside those of the base
  };

  void Miss(const std::string& what);
  // True if the goals follow; counts the obligation.
  bool Holds(const Variables& ctx, verifier::StepQueryBuilder& claim, const std::vector<std::string>& facts,
             const std::vector<std::string>& goals, const std::string& what);
  // The values of the instance's symbols, and all that may be assumed of them.
  std::vector<verifier::IndexSum> Symbols(verifier::StepQueryBuilder& claim) const;
  // The equations by which quotients are exact.
  std::vector<std::string> Quotients(verifier::StepQueryBuilder& claim) const;
  std::vector<std::string> Given(verifier::StepQueryBuilder& claim, DeclaredClaims& declared) const;
  bool AreParameters(const Variables& ctx);
  bool FollowSymbols(const Variables& ctx, const std::vector<Poly>& symbols);
  bool FollowFacts(const Variables& ctx);
  void CheckLegality();
  std::vector<std::vector<std::string>> CasesAt(verifier::StepQueryBuilder& claim, size_t output,
                                                const std::vector<verifier::IndexSum>& at, bool is_digit) const;
  bool IsCovered(size_t output, bool is_digit);
  void CheckCovered(size_t output);
  bool OnlyOver(const Variables& ctx, const std::vector<Var>& vars, const std::vector<Var>& positions) const;
  // Reads are of leaves and numbers of the instance, with their flags; functions have names that look like no other
  // text.
  bool IsTruthful(const AtomNode& atom) const;
  bool AreTruthful(const Variables& ctx, const NormalForm& form, std::set<const void*>* seen) const;
  bool AreTruthful(const Variables& ctx, const Poly& p, std::set<const void*>* seen) const;
  bool EndsDifference(const Variables& ctx, const std::vector<Guard>& facts, const NormalForm& sum);
  // Steps that no solver decided, or for which no values were found.
  int64_t NumOpen() const;

  const RuleInstance& instance_;
  StepChecker& steps_;
  Base base_;
  std::vector<Case> cases_;
  // The normal forms that were told last, and their difference with what it was told under.
  std::vector<Form> forms_;
  const Variables* forms_of_ = nullptr;
  bool has_difference_ = false, held_ = true;
  NormalForm difference_;
  Guard also_;
  std::set<std::string> missing_;
  std::set<std::string> opaque_;  // functions that stand for operators
};

}  // namespace rewright
