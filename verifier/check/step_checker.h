// A check of proofs that does not reason as the prover does.
//
// It receives every step of a proof (proof_observer.h) and applies laws of its own, few and general, to check that each
// term is equal before and after the step. Sums have two laws, in place of the prover's many:
//
//   change of variables   SUM_v [g(v)] t(v) = SUM_u [h(u)] s(u)  where f and b are inverse to each other between the
//                         points of g and those of h, and t(f(u)) = s(u) at these
//   counting              SUM_v [0 <= v + c < n] t = n t
//
// (one-point rules, digits, quotients, alignments and ways to write a guard are changes of variables). A third law is
// about equal products whose coefficients cancel. Their conditions on indices are questions for any solver, for all
// sizes at once (step_queries.h). Laws of functions, maxima and products, which no solver knows, are computed on both
// sides at several sizes and elements (step_values.h). So is the normal form of every element that is compared, beside
// the declarations themselves (concrete.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "verifier/check/checked_steps.h"
#include "verifier/check/query_solver.h"
#include "verifier/check/questions/step_queries.h"
#include "verifier/check/sizes_at.h"
#include "verifier/normal_form/proof_observer.h"
#include "verifier/refute/concrete.h"

namespace rewright {

// The name of a read: NAME@3 of the instance's node 3, NAME%2 of its real number 2, or a number. Not trusted: -1 and
// not a number stand for none.
struct LeafName {
  enum class Kind : uint8_t { kLeaf, kReal, kNumber };
  explicit LeafName(const std::string& name);
  Kind kind = Kind::kNumber;
  int number = -1;
  double value = 0;
};

// Not thread-safe. One for the proofs of one rule.
class StepChecker : public verifier::ProofObserver {
 public:
  using Variables = verifier::Variables;
  using Term = verifier::Term;
  using NormalForm = verifier::NormalForm;
  using Guard = verifier::Guard;
  using Poly = verifier::Poly;
  using Var = verifier::Var;
  using Substitution = verifier::Substitution;

  explicit StepChecker(uint64_t seed = 1) : rng_(seed) {}
  ~StepChecker() override;
  const CheckedSteps& report() const { return report_; }

  void Begin(const RuleInstance& instance, const std::vector<std::vector<int64_t>>& assignments) override;
  void Stated(const Variables& /*ctx*/, const std::vector<Poly>& /*symbols*/) override {}
  void Resummed(const Variables& ctx, verifier::Law law, const Term& before, const Term& after,
                const Substitution& forward, const Substitution& backward) override;
  void Counted(const Variables& ctx, const Term& before, const Term& after, Var v, const Poly& count) override;
  void Vanished(const Variables& ctx, const Term& term) override;
  void Collected(const Variables& ctx, const NormalForm& parts, const std::vector<size_t>& place,
                 const NormalForm& sum) override;
  void Decided(const Variables& ctx, verifier::Law law, const std::vector<Guard>& also, const std::vector<Guard>& goals,
               const std::vector<Var>& hidden) override;
  void Divided(const Variables& ctx, const Poly& num, const Poly& den, const Poly& result) override;
  void Least(const Variables& ctx, const Poly& a, const Poly& b, const Poly& result) override;
  void Equal(const Variables& ctx, verifier::Law law, const Guard& also, const NormalForm& before,
             const NormalForm& after) override;
  void Zero(const Variables& ctx, const std::vector<Guard>& facts, const NormalForm& sum,
            const std::vector<std::vector<verifier::MovedTerm>>& classes) override;
  void Composed(const Variables& ctx, int node, int output, const std::vector<Poly>& at,
                const NormalForm& form) override;

 private:
  friend class ProofCheck;  // asks and counts obligations in the same way
  enum class Finding : uint8_t { kText, kQuestion, kValue, kOpen, kWrong };
  class Comparison;
  // The objects that a step speaks about.
  struct Subject {
    std::string note;
    NormalForm terms;
    std::vector<Guard> guards;
    std::vector<Poly> indices;

    // True if it mentions elements that select positions, or values as a whole.
    bool HasElements(const Variables& ctx) const;
    std::string ToString(const Variables& ctx) const;
  };

  // Checks that under the facts the coefficients of these terms, which are equal products, cancel.
  void Cancelled(const Variables& ctx, const std::vector<Guard>& facts, const NormalForm& members);
  SmtAnswer AnswerTo(SmtQuery query, unsigned limit);
  // Asks if the facts imply the goals.
  Finding Ask(verifier::StepQueryBuilder& claim, const std::vector<std::string>& facts,
              const std::vector<std::string>& goals);
  // Counts the step; `subject` is asked for where it is wrong.
  void Note(const Variables& ctx, Finding finding, verifier::Law law, absl::FunctionRef<Subject()> subject);
  // The value of a read of the instance's leaves and numbers; not a number where there is none.
  static double ReadAt(const RuleInstance& instance, verifier::ConcreteInstance& concrete,
                       const verifier::AtomNode& read, const std::vector<int64_t>& position);
  static std::vector<std::string> FactsOf(const Variables& ctx, verifier::StepQueryBuilder& claim);
  // Points at which both sides of a step were computed.
  struct Tally {
    int computed = 0, wrong = 0;
    std::string where;

    Finding Judged() const { return wrong > 0 ? Finding::kWrong : computed == 0 ? Finding::kOpen : Finding::kValue; }
  };
  // At sizes number k and these values of variables, and others that are drawn. False: sizes at which it is too much.
  bool ComposedAt(const Variables& ctx, SymbolicValue value, const std::vector<Poly>& at, const NormalForm& form,
                  size_t k, const verifier::Assignment& given, Tally* tally);
  // Both sides of an equality.
  struct Sides {
    const Guard& also;
    const NormalForm &before, &after;
    std::vector<Var> free;
    bool wraps = false;  // of integers that wrap around
  };
  // `sizes`: null where no instance is known. `point`: which elements are drawn.
  bool EqualAt(const Variables& ctx, const Sides& sides, int point, const std::vector<int64_t>* sizes,
               const verifier::Assignment& given, Tally* tally);
  // False: at these there is nothing to compute.
  bool AddSizes(const std::vector<int64_t>& sizes);
  // Where nothing was computed at any sizes: at others, that are drawn for what the step is about. `compute` is called
  // with their number and values of variables.
  void AtFurtherSizes(SizesAt& search, const Tally& tally,
                      absl::FunctionRef<bool(size_t, const verifier::Assignment&)> compute);

  std::mt19937_64 rng_;
  CheckedSteps report_;
  double lost_s_ = 0;  // seconds of work on questions that no answer came to
  struct Asked {
    SmtAnswer answer = SmtAnswer::kUnknown;
    unsigned limit = 0;
  };
  std::unordered_map<std::string, Asked> answers_;  // by the text of the question
  std::set<std::string> equal_;                     // pairs that have been computed
  const RuleInstance* instance_ = nullptr;
  std::vector<std::unique_ptr<verifier::ConcreteInstance>> concrete_;
  std::vector<std::vector<int64_t>> sizes_;  // of each
  size_t with_elements_ = 0;                 // number of size assignments, the first ones, without empty values
  size_t first_added_ = 0;                   // size assignments from here on were drawn for a step
  bool fractions_ = false;                   // of the leaves of each
};

}  // namespace rewright
