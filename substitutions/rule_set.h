// Rule files: loading rules with their proofs, and writing them.
//
// A rule in a file is followed by what the verifier found (ProofRecord). It is loaded only if that proof is still
// good: it names the prover (prover_hash.h), and a hash covers the rule's law, the meanings of the operators it uses
// and all that the record says.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "substitutions/compiled_rule.h"
#include "substitutions/matcher.h"
#include "substitutions/rule.h"

namespace rewright {

// Of the law and the meanings of the operators in its instances of low rank. The same in every build.
absl::StatusOr<uint64_t> SpecHash(const CompiledRule& rule);
// Of what the record is about (SpecHash) and of every other field of it: what its `spec` has to be.
absl::StatusOr<uint64_t> RecordHash(const CompiledRule& rule, const ProofRecord& record);
// Whether the rule has a record, by this prover, that fits it. The error says what does not.
absl::Status CheckRecord(const CompiledRule& rule);

struct LoadOptions {
  bool trust_unverified = false;   // also take rules without a proof, or with a stale one
  bool allow_risky = false;        // also those of class numerically-risky
  bool allow_finite_only = false;  // also those of class finite-only: the caller knows that all values are finite
  bool exact_only = false;         // leave out rules that are not of class exact, or not known to be
  std::vector<std::string> disabled;
};

class RuleSet {
 public:
  // Rules whose proof is refused are an error; rules that are left out (risky, disabled) are not.
  // Errors: core.rules:12:1: rule x is not proved; `rewright verify` proves it, --trust-unverified takes it as it is
  static absl::StatusOr<RuleSet> FromText(const std::string& text, const std::string& file,
                                          const LoadOptions& options = {});
  // A rule that stands in several files counts once; two that have a name in common are an error.
  static absl::StatusOr<RuleSet> FromFiles(const std::vector<std::string>& paths, const LoadOptions& options = {});

  const std::vector<std::shared_ptr<const Matcher>>& matchers() const { return index_.matchers(); }
  const RuleIndex& index() const { return index_; }
  // Null when there is no such rule.
  const Matcher* Find(const std::string& name) const;
  // Changes when a rule is added, dropped or altered: part of the key of what search remembers.
  uint64_t hash() const { return hash_; }

 private:
  static absl::StatusOr<RuleSet> FromRules(const std::vector<Rule>& rules, const LoadOptions& options);

  RuleIndex index_;
  uint64_t hash_ = 0;
};

// All rules of a file, proved or not: for the verifier and tests.
absl::StatusOr<std::vector<Rule>> ReadRules(const std::string& path);

// Where a rule file that comes with the program lies, such as "core.rules".
absl::StatusOr<std::string> FindRuleFile(const std::string& name);

}  // namespace rewright
