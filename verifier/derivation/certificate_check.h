// The check of certificates (certificate.h).
//
// The check takes four things from a certificate: the law, the domain, the number of the strategy of each instance, and
// the queries. It derives everything else again from the operators' declarations, with the recorded queries in the
// solver's place, and prints it; the text must come out the same, to the byte. So an instance, obligation, step or
// query that is altered, dropped, added or exchanged is refused. A solver still has to find that the queries are
// unsatisfiable (query_solver.h). Code of the check alone reads the law and enumerates its instances
// (rule_instances.h): the prover's reading of the law shows in the certificate, and must be the same.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "verifier/certificate/certificate.h"

namespace rewright {

namespace verifier {
class ProofObserver;
}  // namespace verifier

struct CheckedCertificate {
  Rule rule;
  Certificate certificate;
  std::vector<SmtQuery> queries;  // distinct; they remain to be settled
  std::vector<int> query_lines;   // of each, in the file
};

// Errors are `file:line: found .., expected ..`. `observer` is told every step of every instance.
absl::StatusOr<CheckedCertificate> CheckCertificate(const std::string& text, const std::string& file,
                                                    verifier::ProofObserver* observer = nullptr);

}  // namespace rewright
