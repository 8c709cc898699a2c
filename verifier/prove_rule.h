// A verdict for a whole rule: its instances proved one by one, in domains that grow.
//
// A rule has an instance for every choice of ranks and other structural values, and some of high rank are beyond the
// prover. Such a rule is still proved in the largest domain (ranks up to 3, 4, ...) whose instances all are, and may
// be applied there.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/stop.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/language/rule.h"
#include "verifier/classify/classify_rule.h"
#include "verifier/prove/prove_instance.h"

namespace rewright {

struct RuleProofOptions {
  DomainLimits limits;
  double work_limit_s = 60;      // seconds of work (work.h), all instances together
  double instance_limit_s = 20;  // the same for one instance
  uint64_t seed = 1;
  RuleUse use = RuleUse::kMatching;  // kProof: also rules that no matcher can find
  StopFlag stop = nullptr;
  verifier::ProofObserver* observer = nullptr;  // is told every step of every proof
  bool certify = false;                         // make a certificate of the proof
  bool classify = true;                         // else `rule_class` is left to the caller (ClassifyRule)
};

struct RuleVerdict {
  // kProved: every instance within `limits` is. kRefuted: one instance is, whatever its rank.
  Verdict verdict = Verdict::kUnknown;
  RuleClass rule_class = RuleClass::kFiniteOnly;
  bool used_finite_only_step = false;  // of kProved: by some instance within the limits
  DomainLimits limits;
  int instances = 0;  // within the limits
  int proofs = 0;     // of different instances: the others are one of these once axes are merged (merged_axes.h)
  // The largest domain had nothing new but numbers of merged axes: the proof holds for any number of them, given that
  // operators are declared alike for every rank.
  bool every_rank = false;
  std::string domain;        // in words
  int trials = 0;            // assignments of sizes, attributes and elements at which the sides were compared
  int vacuous = 0;           // proofs of instances whose conditions nothing satisfies
  bool used_bounds = false;  // sizes and attributes are taken to be below 2^31, as they are where a rule is applied
  std::set<std::string> provisos;  // of sizes, at which alone the right side's constants have elements
  std::string reason;              // of the first instance that is not proved, and which it is; empty where all are
  std::string witness;             // of kRefuted: sizes and values at which the rule is false
  std::optional<Counterexample> counterexample;  // the same as data
  std::string instance;                          // of kRefuted: the structural values there
  std::string certificate;                       // its text, where one was asked for
  // The reason why a proved rule has no known class (kFiniteOnly stands for it) or no certificate.
  std::string trouble;
  // The operators of a proved rule with an operator variable (OperatorsOf), with their classes on f32 if it is
  // classified.
  std::vector<OperatorClass> operators;
  RuleRounding rounding;  // of kProved, where it is classified
  bool interrupted = false;
  double cpu_ms = 0;
};

RuleVerdict ProveRule(const Rule& rule, const RuleProofOptions& options);

// The operators that may stand for the rule's operator variable, by name, ascending. If the rule asks for a property,
// these are the operators for which its law is proved, infinite elements included.
std::vector<std::string> OperatorsOf(const Rule& rule);

// The record of a rule that is proved; `certificate` as it is to stand there; `halves`: with the class on 16-bit
// floats. Error: the verdict has a trouble, so the class would be a guess.
absl::StatusOr<ProofRecord> RecordOf(const Rule& rule, const RuleVerdict& verdict, const std::string& certificate = "",
                                     bool halves = true);

// The rule's conditions, as they stand in its text; empty where there are none.
std::string ConditionsText(const Rule& rule);

}  // namespace rewright
