// Receives the work of index arithmetic step by step, for a checker. The part of the proof observer that needs no
// elements (normal_form/proof_observer.h).
#pragma once

#include <vector>

#include "verifier/integer/guard.h"
#include "verifier/integer/law.h"
#include "verifier/integer/polynomial.h"

namespace rewright::verifier {

class Variables;
class ProofObserver;

class IndexObserver {
 public:
  virtual ~IndexObserver() = default;

  // Tells that all goals hold under the facts, the assumptions of the context and `also`. Ranges of `hidden` variables
  // are not known.
  virtual void Decided(const Variables& ctx, Law law, const std::vector<Guard>& also, const std::vector<Guard>& goals,
                       const std::vector<Var>& hidden) = 0;
  // result = floor(num / den) and min(a, b), under the facts and the assumptions.
  virtual void Divided(const Variables& ctx, const Poly& num, const Poly& den, const Poly& result) = 0;
  virtual void Least(const Variables& ctx, const Poly& a, const Poly& b, const Poly& result) = 0;

  // This observer, if it receives the work on elements too; else null.
  virtual ProofObserver* AsProofObserver() { return nullptr; }
};

}  // namespace rewright::verifier
