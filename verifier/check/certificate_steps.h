// The check of a certificate without the prover: its law is read, every instance of it enumerated, and the steps that
// are told of each must prove it (proof_check.h).
//
// The lines that the prover derives anew (verifier/derivation/) say nothing here, and neither does the class.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "verifier/check/step_checker.h"
#include "verifier/integer/smt_query.h"

namespace rewright {

struct ToldCertificate {
  std::string law;
  size_t instances = 0;
  std::vector<SmtQuery> queries;     // that remain to be settled
  std::vector<size_t> query_lines;   // of each, in the file
  std::vector<std::string> missing;  // `file:line: found .., expected ..`: what the steps do not show
};

// Counts the steps, and those that are wrong, in the report of `steps`. Errors, of a certificate that is not read, are
// `file:line: found .., expected ..`.
absl::StatusOr<ToldCertificate> CheckToldSteps(const std::string& text, const std::string& file, StepChecker* steps);

}  // namespace rewright
