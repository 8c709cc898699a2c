#include "tools/verbs/verify/certificate_folder.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "verifier/certificate/certificate.h"
#include "verifier/prove_rule.h"

namespace rewright {
namespace {

namespace fs = std::filesystem;

constexpr char kIndexFirstLine[] = "rewright certificates 1";

std::string Print(const CertificateIndex& index) {
  std::string text = absl::StrCat(kIndexFirstLine, "\nrules ", index.size(), "\n");
  for (const auto& [file, seal] : index) absl::StrAppend(&text, file, " ", seal, "\n");
  return absl::StrCat(text, "seal ", SealOf(text), "\n");
}

absl::StatusOr<std::set<std::string>> CertificatesIn(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::vector<std::string> all, NamesIn(folder));
  std::set<std::string> names;
  std::copy_if(all.begin(), all.end(), std::inserter(names, names.end()),
               [](const std::string& name) { return absl::EndsWith(name, ".cert"); });
  return names;
}

}  // namespace

absl::Status MakeCertificateFolder(const std::string& folder) {
  RETURN_IF_ERROR(MakeFolder(folder));
  return CheckWritable((fs::path(folder) / kCertificateIndex).string());
}

std::string CertificatePath(const std::string& folder, const std::string& rule) {
  return absl::StrCat(folder, "/", CertificateFileName(rule));
}

std::string CertificateFrom(const std::string& rules_file, const std::string& folder, const std::string& rule) {
  return (fs::absolute(folder).lexically_relative(fs::absolute(rules_file).parent_path()) / CertificateFileName(rule))
      .string();
}

absl::StatusOr<std::string> WriteCertificate(const std::string& folder, const std::string& rule, RuleVerdict* verdict) {
  if (verdict->certificate.empty()) return std::string();
  const std::string text = std::exchange(verdict->certificate, std::string());
  RETURN_IF_ERROR(WriteText(CertificatePath(folder, rule), text));
  return SealAtEnd(text);
}

absl::Status WriteCertificateIndex(const std::string& folder, const CertificateIndex& index) {
  ASSIGN_OR_RETURN(const std::set<std::string> present, CertificatesIn(folder));
  for (const std::string& name : present) {
    std::error_code error;
    const fs::path path = fs::path(folder) / name;
    const bool file = fs::is_regular_file(fs::symlink_status(path, error));
    if (file && index.count(name) == 0) fs::remove(path, error);
  }
  return WriteText((fs::path(folder) / kCertificateIndex).string(), Print(index));
}

absl::StatusOr<CertificateIndex> ReadCertificateIndex(const std::string& folder) {
  const std::string path = (fs::path(folder) / kCertificateIndex).string();
  const absl::StatusOr<std::string> text = ReadText(path);
  if (!text.ok()) return text.status();
  CertificateIndex index;
  const std::vector<std::string> lines = absl::StrSplit(*text, '\n');
  for (size_t i = 2; i + 2 < lines.size(); ++i) {
    const std::vector<std::string> words = absl::StrSplit(lines[i], ' ');
    if (words.size() == 2) index[words[0]] = words[1];
  }
  const std::string expected = Print(index);
  if (*text != expected) {
    const std::vector<std::string> right = absl::StrSplit(expected, '\n');
    size_t i = 0;
    while (i < lines.size() && i < right.size() && lines[i] == right[i]) ++i;
    return absl::InvalidArgumentError(absl::StrCat(path, ":", i + 1, ": found `", i < lines.size() ? lines[i] : "",
                                                   "`, expected `", i < right.size() ? right[i] : "", "`"));
  }
  ASSIGN_OR_RETURN(const std::set<std::string> present, CertificatesIn(folder));
  size_t line = 2;
  for (const auto& [file, seal] : index) {
    ++line;
    if (present.count(file) > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(path, ":", line, ": found no file ", file, " in the folder, expected it"));
  }
  for (const std::string& file : present) {
    if (index.count(file) > 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        (fs::path(folder) / file).string(), ":1: found a certificate that the index does not name, expected ", "none"));
  }
  return index;
}

}  // namespace rewright
