// One attempt at an instance under one strategy: the four obligations of prove_instance.h. The first three do not
// depend on the strategy.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "verifier/integer/context.h"
#include "verifier/integer/law.h"
#include "verifier/normal_form/term.h"
#include "verifier/prove/elements.h"
#include "verifier/prove/prove_instance.h"
#include "verifier/smt/solver.h"

namespace rewright::verifier {

// kFailed: an obligation that does not depend on the strategy is open.
enum class Outcome : uint8_t { kProved, kOpen, kNextStrategy, kFailed };

// The result of proving the first three obligations, which is done once, and the number of records that it made.
struct Legality {
  bool proved = false;
  size_t steps = 0;
  size_t queries = 0;
};

// Not thread-safe. Throws GiveUp where a limit is reached.
class Attempt {
 public:
  Attempt(const RuleInstance& instance, const Strategy& strategy, const ProofOptions& options, ProofSession* session,
          const std::vector<std::vector<int64_t>>& assignments);

  Outcome Run(Legality* legal, std::string* reason);
  // The first three obligations, once.
  bool ProveLegality(Legality* legal, std::string* reason);
  // True if no values of the symbols satisfy the rule's conditions and make the left side legal.
  bool IsVacuous();

  bool used_finite_law() const { return ctx_.used_finite_law; }
  const Context& context() const { return ctx_; }
  const std::vector<std::string>& provisos() const { return provisos_; }

 private:
  // A line of the record that certificates hold.
  template <typename... Parts>
  void Step(const Parts&... parts) {
    if (ctx_.session->certify) ctx_.session->steps.push_back(absl::StrCat(parts...));
  }
  std::string Text(const Poly& p) { return ctx_.session->certify ? ctx_.Print(p) : std::string(); }
  std::string Text(const Guard& g) { return ctx_.session->certify ? ctx_.Print(g) : std::string(); }
  std::string Text(const NormalForm& n) { return ctx_.session->certify ? NormalFormKey(ctx_, n) : std::string(); }

  bool IsLeaf(int node) const { return instance_.nodes[node].meaning == nullptr; }
  void CollectFacts();
  // Assumes that constants of the right side have elements: a rule is not applied where one would be empty. An
  // assumption that does not follow from the other facts becomes part of the domain.
  void AssumeConstantsHaveElements();
  void OrderFactors(int order);

  // The facts imply it.
  bool Holds(const Guard& goal, const char* tag, Law law);
  bool WellFormed(std::string* reason);
  DType TypeOf(SymbolicValue v) const;
  bool EqualTypes(std::string* reason);
  // Each application by itself, at every position of its outputs: the operands' elements may then be taken for defined.
  bool ReadsInBounds(std::string* reason);
  bool InRange(const Guard& path, const Poly& index, const Poly& size);
  bool DecideInRange(const Guard& path, const Poly& index, const Poly& size);

  // Alternatives of positions that together cover the output. A product axis is indexed by digits; a sum axis, where
  // the strategy says so, is covered piece by piece.
  std::vector<std::vector<Poly>> Positions(const std::vector<Poly>& shape, std::vector<std::vector<Guard>>* facts);
  void CutSum(const Poly& size, std::vector<std::pair<Poly, Poly>>* pieces);
  Outcome EqualElements(std::string* reason);
  // Proves the outputs equal by cases if the elements depend on the remainder of a position p by d: p = d q + 0, d q +
  // 1, ..
  Outcome EqualByRemainders(size_t output, const std::vector<Poly>& at, const std::vector<Guard>& facts, int depth = 0);
  Outcome EqualAt(size_t output, const std::vector<Poly>& at, const std::vector<Guard>& facts);
  bool MentionsDefinition(const NormalForm& n) const;

  const RuleInstance& instance_;
  Context ctx_;
  Solver solver_;
  Elements elements_;
  std::vector<Guard> facts_;
  std::vector<std::string> provisos_;
};

}  // namespace rewright::verifier
