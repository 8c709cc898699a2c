// Enumerates the instances of a law from its text: the statements that together prove the law.
//
// The prover has its own way from a rule to its instances (substitutions/instance/instances.h). A checker that took
// that way would repeat every misreading of the text. This code is written for the checker alone. It shares with the
// other only operators' declarations and the data (substitutions/instance/instance.h), and a certificate with other
// instances is refused (docs/decisions/089).
//
// A structural value is picked where the law first needs one. Lengths of packs up to max_rank and element types of
// variables come first. Then, node by node of the left side, come the shapes of variables [~ ..] and the values that an
// application binds (axes, permutations, flags, lengths of lists). Each path through all of them on which the left side
// is well-formed and no condition fails for every size is an instance; its sizes, integers and reals stay symbols.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "substitutions/instance/instance.h"

// Laws as the check of certificates reads them.
namespace rewright::check {

// Calls `visit` for every instance within the domain, in the order in which certificates hold them. Errors: the law is
// not read, has a left side with an instance and a right side without, or has no instance; those of `visit`.
// Thread-safe. Each instance is built from the beginning: the time is that of the paths, dead ends included, times the
// size of the law.
absl::Status ForEachInstance(const std::string& law, const DomainLimits& domain,
                             const std::function<absl::Status(RuleInstance)>& visit);

}  // namespace rewright::check
