// The instances of a law, from its text: what has to be proved so that a certificate proves the law.
//
// The prover has its own way from a rule to its instances (substitutions/instances.h). A checker that took that way
// would believe whatever it makes of the text; this one is written for the checker alone, shares with the other nothing
// but operators' declarations and the data (substitutions/instance.h), and a certificate whose instances are others is
// refused (docs/decisions/089).
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "substitutions/instance.h"

namespace rewright::law {

// Calls `visit` for every instance within the domain, in the order in which certificates hold them. Errors: the law is
// not read, has a left side with an instance and a right side without, or has no instance; what `visit` says.
absl::Status ForEachInstance(const std::string& law, const DomainLimits& domain,
                             const std::function<absl::Status(RuleInstance)>& visit);

}  // namespace rewright::law
