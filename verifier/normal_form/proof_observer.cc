#include "verifier/normal_form/proof_observer.h"

#include "verifier/integer/context.h"
#include "verifier/integer/index_observer.h"

namespace rewright::verifier {

ProofObserver* ObserverOf(const Context& ctx) {
  return ctx.record->observer == nullptr ? nullptr : ctx.record->observer->AsProofObserver();
}

}  // namespace rewright::verifier
