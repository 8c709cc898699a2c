#include "verifier/normal_form/proof_observer.h"

#include "verifier/integer/context.h"
#include "verifier/integer/index_observer.h"

namespace rewright::verifier {

ProofObserver* ObserverOf(const Context& ctx) {
  return ctx.session->observer == nullptr ? nullptr : ctx.session->observer->AsProofObserver();
}

}  // namespace rewright::verifier
