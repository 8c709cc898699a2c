// A folder of certificates: one file per rule, and an index that names them all with their seals, so that a file that
// is lost, added or exchanged shows.
//
//   rewright certificates 1
//   rules 2
//   relu-twice.cert 0123456789abcdef
//   slice-all.cert 89abcdef01234567
//   seal 0123456789abcdef
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rewright {

struct RuleVerdict;

inline constexpr char kCertificateIndex[] = "index";

// Seals by file name.
using CertificateIndex = std::map<std::string, std::string>;

// Makes the folder where it does not exist. Error: its index could not be written; asked before long work.
absl::Status MakeCertificateFolder(const std::string& folder);

// Where the certificate of a rule lies, and how a file of rules, in whatever folder, names it.
std::string CertificatePath(const std::string& folder, const std::string& rule);
std::string CertificateFrom(const std::string& rules_file, const std::string& folder, const std::string& rule);

// Writes the certificate of a rule that was proved with one; gives its seal, empty where there is none. It is taken out
// of the verdict: thousands of them would fill the memory.
absl::StatusOr<std::string> WriteCertificate(const std::string& folder, const std::string& rule, RuleVerdict* verdict);

// Writes DIR/index and removes certificates that it does not name.
absl::Status WriteCertificateIndex(const std::string& folder, const CertificateIndex& index);

// Errors are `file:line: found .., expected ..`: an index that was altered, files that it names and that are not there,
// and certificates that it does not name.
absl::StatusOr<CertificateIndex> ReadCertificateIndex(const std::string& folder);

}  // namespace rewright
