// The memory of `rewright verify --resume`: a verdict per line (JSON and its hash), appended as it is found, so that an
// interrupted or killed run loses only the rules that were being proved. A verdict counts again as long as nothing that
// it depends on has changed: the law, the operators' meanings, the version of the prover, the limits and the seed. A
// line that is not as it was written is ignored.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/files.h"
#include "tools/program/console.h"
#include "verifier/prove_rule.h"

namespace rewright {

// The counterexample as an object: obligation, instance, sizes, output, at, lhs, rhs, inputs.
Json ToJson(const Counterexample& found, const std::string& instance);

// A verdict as the journal keeps it.
struct JournalEntry {
  RuleVerdict verdict;
  Json counterexample;  // null where there is none
  std::string seal;     // of the certificate that was written; empty where none was
};

// Thread-safe.
class VerifyJournal {
 public:
  // Reads the file where it exists, and opens it for appending. Errors: it is something else than a journal.
  absl::Status Open(const std::string& path);
  bool is_open() const { return out_.has_value(); }

  const JournalEntry* Find(const std::string& key) const;
  absl::Status Add(const std::string& key, const Rule& rule, const JournalEntry& entry);

 private:
  std::mutex mutex_;
  std::map<std::string, JournalEntry> entries_;
  std::optional<AppendFile> out_;
};

// A hash of everything that a verdict depends on; nothing where the rule cannot be understood.
std::optional<std::string> JournalKey(const Rule& rule, const RuleProofOptions& options);

}  // namespace rewright
