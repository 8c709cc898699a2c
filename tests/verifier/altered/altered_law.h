// Which law of the prover is false at the moment; see algebra_mutations.txt.
#pragma once

namespace rewright {

// Notes that law number `number` is met; true where it is the one that is altered.
bool AlteredLaw(int number);

}  // namespace rewright
