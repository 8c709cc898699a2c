// Reads the text of certificates (certificate.h), and compares it with the text that the check derives.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "verifier/certificate/certificate.h"

namespace rewright {

// Reads the parts of a certificate that a check uses, with their places. Untrusted: a misread certificate can only make
// the check fail, because the law is derived again and every step is checked.
class CertificateReader {
 public:
  // `text` outlives the reader; `file` is for messages.
  CertificateReader(const std::string& text, std::string file);
  absl::Status Run();

  const std::string& law() const { return law_; }
  int law_line() const { return law_line_; }
  const DomainLimits& domain() const { return domain_; }
  const std::vector<int>& strategies() const { return strategies_; }
  const std::vector<int>& instance_lines() const { return instance_lines_; }
  // Queries, with the numbers of the lines (from 1) in which they begin.
  const std::vector<std::pair<size_t, SmtQuery>>& queries() const { return queries_; }
  // The steps that are told of each instance; `first`: the number of the first line (from 1).
  struct Steps {
    size_t first = 0;
    std::vector<absl::string_view> lines;
  };
  const std::vector<Steps>& steps() const { return steps_; }
  bool IsKnown(const SmtQuery& query) const { return texts_.count(query.text) > 0; }

  absl::Status ErrorAt(size_t line, const std::string& message) const;
  // Reports the first difference between the certificate and the derived text.
  absl::Status Compare(const std::string& derived) const;

 private:
  absl::Status Found(const std::string& expected) const;
  // The rest of the line that starts with `key`.
  absl::StatusOr<absl::string_view> Field(const char* key);
  absl::Status Header();
  absl::Status Law();
  absl::Status Instance();
  absl::Status Query();
  absl::Status ReadSteps();

  const std::string file_;
  std::vector<absl::string_view> lines_;
  size_t at_ = 0;
  std::string law_;
  int law_line_ = 0;
  DomainLimits domain_;
  std::vector<int> strategies_;
  std::vector<int> instance_lines_;
  std::vector<std::pair<size_t, std::string>> named_;  // queries that steps name, with their lines
  std::set<std::string> known_, texts_;
  std::vector<std::pair<size_t, SmtQuery>> queries_;
  std::vector<Steps> steps_;
};

// The queries of all instances, each once, in the order of first use.
std::vector<SmtQuery> DistinctQueries(const Certificate& certificate);

}  // namespace rewright
