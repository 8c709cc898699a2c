// The verifier: proves that the two sides of a rule instance are equal for tensors of every size.
//
// Four obligations, with PRE the instance's conditions and sizes of the leaves at least 1:
//   1. PRE and a legal left side imply a legal right side.
//   2. Every output has the same shape and element type on both sides.
//   3. Every read of every operator application lies within its operand.
//   4. Every element of every output is equal over the real numbers.
// A search for a counterexample at small sizes always comes first. The method: normal_form.h (normal forms), prover.h
// (alignment, one query per class), solver.h (arithmetic).
// Thread-safe: a proof has no state outside its call except the cache that it is given to share
// (ProofOptions::query_cache).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "substitutions/instance/instance.h"
#include "verifier/integer/smt_query.h"
#include "verifier/refute/witness.h"

namespace rewright {

namespace verifier {
class QueryCache;
class ProofObserver;
}  // namespace verifier

enum class Verdict : uint8_t { kProved, kRefuted, kUnknown };
const char* VerdictName(Verdict verdict);  // "proved", "refuted", "unknown"

struct ProofOptions {
  double work_limit_s = 2;  // seconds of work (work.h)
  uint64_t seed = 1;        // of the search for a counterexample
  bool search_counterexample = true;
  int trials = 32;           // small assignments tried before the proof
  bool keep_smtlib = false;  // and all steps
  // Shared by the proofs of one rule's instances (solver.h); without, each proof has its own.
  verifier::QueryCache* query_cache = nullptr;
  // Is told every step of the attempt that succeeded, which is gone through once more.
  verifier::ProofObserver* observer = nullptr;
  bool tell_attempts = false;  // every attempt instead, also those that fail
  // Assignments of the symbols that satisfy the conditions and make the left side legal, in the place of those that a
  // search for a counterexample finds: inequalities that fail there are not asked about.
  const std::vector<std::vector<int64_t>>* assignments = nullptr;
  // The first three obligations are known to hold: they are proved of an instance that differs in its elements alone.
  bool legal = false;
};

struct ProofResult {
  Verdict verdict = Verdict::kUnknown;
  std::string reason;  // of kUnknown: the obligation that is open; of kRefuted: the counterexample in one line
  std::optional<Counterexample> counterexample;
  double cpu_ms = 0;
  int queries = 0;  // to Z3
  int trials = 0;   // assignments at which the sides were compared
  // The proof used a law of the reals that fails for infinities (exp of a difference, reciprocal of a product).
  bool used_finite_only_step = false;
  // Sizes, like "n - m >= 1", at which alone the right side's constants have elements and the rule is applied.
  std::vector<std::string> provisos;
  bool used_bounds = false;  // of kProved: sizes and attributes were taken to be below 2^31, as the matcher sees to
  bool vacuous = false;      // of kProved: nothing satisfies the conditions
  int strategy = -1;         // of kProved: which attempt succeeded
  // When asked for: obligations, normal forms, changes of variables with their inverses, witnesses, equal closures, and
  // the queries that were settled, which the steps name.
  std::vector<std::string> steps;
  std::vector<SmtQuery> smtlib;
};

ProofResult Prove(const RuleInstance& instance, const ProofOptions& options = {});

}  // namespace rewright
