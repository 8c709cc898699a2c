// Demands of the operators' declarations at the symbols of a rule instance, as conditions of a question to solvers:
// that an application is legal, its shape, that its reads are inside their operands.
//
// It belongs to the check of proofs (proof_check.h) and reads the declarations themselves, beside the prover's
// elements.h.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/ir/expr.h"
#include "substitutions/instance/instance.h"
#include "verifier/check/questions/step_queries.h"

namespace rewright {

// Not thread-safe.
class DeclaredClaims {
 public:
  using IndexSum = verifier::IndexSum;
  // Under `given`, all `goals` hold.
  struct Obligation {
    std::string what;
    std::vector<std::string> given, goals;
  };

  // `symbols`: the values of the instance's symbols.
  DeclaredClaims(verifier::StepQueryBuilder& claim, const RuleInstance& instance, std::vector<IndexSum> symbols)
      : claim_(claim), instance_(instance), symbols_(std::move(symbols)) {}

  // Parameters of the question's variables are at least their least values: divisions may be simplified by that.
  void UseLeastValues();

  // All that may be assumed: the instance's conditions, a legal left side, and leaves that have elements. (A rule is
  // not applied where a constant of the right side would have none.)
  std::vector<std::string> Premises();
  // The conditions under which an application is legal.
  std::vector<std::string> Legal(int node);
  std::vector<IndexSum> Shape(SymbolicValue value);
  // All reads of an application are within their operands, and all divisors are positive, at every position.
  std::vector<Obligation> Reads(int node);

 private:
  // The values of a meaning's variables, and the conditions under which an expression is evaluated.
  struct Scope {
    int node = -1;
    std::vector<std::optional<IndexSum>> variables;
    std::vector<std::string> path;
    std::vector<Obligation>* reads = nullptr;
  };
  Scope OfSymbols() const;
  Scope OfNode(int node);
  IndexSum Of(const ExprPtr& e, const Scope& scope);
  // Nothing for a condition that elements decide.
  std::optional<std::string> Condition(const ExprPtr& e, const Scope& scope);
  // floor((den a + b) / den) is a where 0 <= b < den.
  IndexSum Quotient(const IndexSum& num, const IndexSum& den);
  // A new constant from 0 to below the extent; the scope's path says so.
  IndexSum Ranged(const IndexSum& extent, Scope& scope);
  // True if the extremes of ranges and least values show it; `depth` of the ranges that were replaced.
  bool IsNonnegative(const IndexSum& a, int depth = 0) const;
  // The parts of a conjunction that indices decide.
  void Conjuncts(const ExprPtr& e, const Scope& scope, std::vector<std::string>* out);
  void Require(const Scope& scope, const std::string& what, std::vector<std::string> goals);
  // Collects the reads of an expression of any sort.
  void Visit(const ExprPtr& e, Scope& scope);

  verifier::StepQueryBuilder& claim_;
  const RuleInstance& instance_;
  std::vector<IndexSum> symbols_;
  std::map<int, IndexSum> extents_;  // constants from 0 to below these
  std::map<int, int64_t> least_;     // constants that are no less
};

}  // namespace rewright
