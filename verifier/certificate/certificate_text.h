// The text of certificates (certificate.h): what a check takes from it, and the comparison with what it derives.
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

// Reads what a check takes from a certificate, and tells where it stands. Nothing hangs on its being read rightly: what
// is derived from it is a proof of the law, or it is none.
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
  bool IsKnown(const SmtQuery& query) const { return texts_.count(query.text) > 0; }

  absl::Status ErrorAt(size_t line, const std::string& message) const;
  // The first difference between the certificate and what was derived.
  absl::Status Compare(const std::string& derived) const;

 private:
  absl::Status Found(const std::string& expected) const;
  // The rest of the line that starts with `key`.
  absl::StatusOr<absl::string_view> Field(const char* key);
  absl::Status Header();
  absl::Status Law();
  absl::Status Instance();
  absl::Status Query();

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
};

// The queries of all instances, each once, in the order of first use.
std::vector<SmtQuery> DistinctQueries(const Certificate& certificate);

}  // namespace rewright
