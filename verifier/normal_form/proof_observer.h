// Receives the algebra's work on elements step by step, for a checker (step_checker.h).
//
// A step is told as the form before, the form after, and what a reader needs to see that both are the same: for
// example, the other variables that a sum runs over. A search tells nothing, and the steps told decide nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "verifier/integer/context.h"
#include "verifier/integer/index_observer.h"
#include "verifier/normal_form/term.h"

namespace rewright {
struct RuleInstance;
}  // namespace rewright

namespace rewright::verifier {

class Context;

// A term of a sum, rewritten with the variables of another term. `forward` expresses the variables that the term alone
// binds by those of `moved`, `backward` the reverse; all others are the same in both.
struct MovedTerm {
  size_t place = 0;  // of the term in the sum
  Term moved;
  Substitution forward, backward;
};

class ProofObserver : public IndexObserver {
 public:
  // All that follows is about this instance; `assignments` of its symbols satisfy its conditions.
  virtual void Begin(const RuleInstance& instance, const std::vector<std::vector<int64_t>>& assignments) = 0;
  // All that follows is told of `ctx`, which has as yet one variable for each symbol, in their order.
  virtual void Attempted(const Variables& /*ctx*/) {}
  // The symbols equal these polynomials. The facts of ctx are from here on all that the proof assumes of them.
  virtual void Stated(const Variables& ctx, const std::vector<Poly>& symbols) = 0;
  // The sum `before` is `after`: by other variables (one-point rule), or by another way to write its guard. The maps
  // are those of MovedTerm.
  virtual void Resummed(const Variables& ctx, Law law, const Term& before, const Term& after,
                        const Substitution& forward, const Substitution& backward) = 0;
  // No atom of before mentions v, which takes `count` values.
  virtual void Counted(const Variables& ctx, const Term& before, const Term& after, Var v, const Poly& count) = 0;
  // The guard never holds.
  virtual void Vanished(const Variables& ctx, const Term& term) = 0;
  // parts[i] is the term number place[i] of `sum` but for the coefficient.
  virtual void Collected(const Variables& ctx, const NormalForm& parts, const std::vector<size_t>& place,
                         const NormalForm& sum) = 0;
  // Equal elements, by laws of functions, maxima, products and truth values, under the facts, the assumptions and
  // `also`.
  virtual void Equal(const Variables& ctx, Law law, const Guard& also, const NormalForm& before,
                     const NormalForm& after) = 0;
  // Tells that under the facts the sum is 0: the terms of each class are equal products whose coefficients cancel. The
  // terms that are in no class cancel by a query in which elements are uninterpreted (encode.h).
  virtual void Zero(const Variables& ctx, const std::vector<Guard>& facts, const NormalForm& sum,
                    const std::vector<std::vector<MovedTerm>>& classes) = 0;
  // The normal form of an element of a value of the instance, at that position.
  virtual void Composed(const Variables& ctx, int node, int output, const std::vector<Poly>& at,
                        const NormalForm& form) = 0;

  ProofObserver* AsProofObserver() final { return this; }
};

// The observer of the context's session; null if none receives the work on elements.
inline ProofObserver* ObserverOf(const Context& ctx) {
  return ctx.session->observer == nullptr ? nullptr : ctx.session->observer->AsProofObserver();
}

}  // namespace rewright::verifier
