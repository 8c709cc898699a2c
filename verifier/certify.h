// Makes the certificate of a proof (certificate/certificate.h) by going through the attempt that succeeded once more.
#pragma once

#include "absl/status/statusor.h"
#include "verifier/certificate/certificate.h"
#include "verifier/prove/prove_instance.h"

namespace rewright {

// The certificate of an instance that was proved with `keep_smtlib`. Error: the attempt that succeeded does not succeed
// again.
absl::StatusOr<InstanceCertificate> Certify(const RuleInstance& instance, const ProofResult& proof);

}  // namespace rewright
