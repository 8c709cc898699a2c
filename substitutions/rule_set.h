// Rule files: loading rules with their proofs, and writing them.
//
// A rule in a file is followed by the verifier's result (ProofRecord). It is loaded only if that proof is still good:
// it names the prover (prover_hash.h), and a hash covers the rule's law, the meanings of the operators it uses and all
// fields of the record.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/language/rule.h"
#include "substitutions/match/matcher.h"

namespace rewright {

// Meanings of operators, built and printed once for all rules that use them.
struct MeaningTexts {
  MeaningCache meanings;
  std::map<const Meaning*, std::string> texts;  // stay where they are
};

// Hash of the law and of the meanings of the operators in its instances of low rank. It is the same in every build.
// `known` saves work for callers that ask about many rules.
absl::StatusOr<uint64_t> SpecHash(const CompiledRule& rule, MeaningTexts* known = nullptr);
// Hash of the rule (SpecHash) and of every other field of its record; `spec` has to equal it.
absl::StatusOr<uint64_t> RecordHash(const CompiledRule& rule, const ProofRecord& record, MeaningTexts* known = nullptr);

// Checks that the rule has a record that fits it, by this prover. The error says what does not fit.
absl::Status CheckRecord(const CompiledRule& rule, MeaningTexts* known = nullptr);

struct LoadOptions {
  bool trust_unverified = false;   // also take rules without a proof, or with a stale one
  bool allow_risky = false;        // also those of class numerically-risky
  bool allow_finite_only = false;  // also those of class finite-only: the caller knows that all values are finite
  bool exact_only = false;         // leave out rules that are not of class exact, or not known to be
  std::vector<std::string> disabled;
};

// Files of rules, each read once, and their rules, each compiled and checked once, for sets that share them. Not
// thread-safe.
class RuleReader {
 public:
  // The rules of a file, proved or not, as long as this lives.
  absl::StatusOr<const std::vector<Rule>*> Read(const std::string& path);
  // `rule` is one of those. Errors: those of CompileRule, and a proof that is none or stale.
  // One compiled rule, or, of a rule with an operator variable, one for each operator of its record.
  absl::StatusOr<std::vector<std::shared_ptr<const CompiledRule>>> Compile(const Rule& rule, bool trust_unverified);

 private:
  friend class RuleSet;
  struct Ready {
    std::vector<std::shared_ptr<const CompiledRule>> rules;
    bool checked = false;
  };
  const std::vector<Rule>* Add(const std::string& file, std::vector<Rule> rules);

  std::map<std::string, std::vector<Rule>> files_;
  std::map<const Rule*, Ready> ready_;
  MeaningTexts meanings_;
};

class RuleSet {
 public:
  // Rules whose proof is refused are an error; rules that are left out (risky, disabled) are not.
  // Errors: core.rules:12:1: rule x is not proved; `rewright verify` proves it, --trust-unverified takes it as it is
  static absl::StatusOr<RuleSet> FromText(const std::string& text, const std::string& file,
                                          const LoadOptions& options = {});
  // A rule that stands in several files counts once; two that have a name in common are an error. `reader`: for callers
  // that load several sets.
  static absl::StatusOr<RuleSet> FromFiles(const std::vector<std::string>& paths, const LoadOptions& options = {},
                                           RuleReader* reader = nullptr);

  const std::vector<std::shared_ptr<const Matcher>>& matchers() const { return index_.matchers(); }
  const RuleIndex& index() const { return index_; }
  // Null when there is no such rule.
  const Matcher* Find(const std::string& name) const;

 private:
  static absl::StatusOr<RuleSet> FromRules(const std::vector<const Rule*>& rules, const LoadOptions& options,
                                           RuleReader* reader);

  RuleIndex index_;
};

// All rules of a file, proved or not: for the verifier and tests.
absl::StatusOr<std::vector<Rule>> ReadRules(const std::string& path);

// The path of a rule file that comes with the program, such as "core.rules".
absl::StatusOr<std::string> FindRuleFile(const std::string& name);

}  // namespace rewright
