// The state of one proof attempt: its variables and their definitions (variables.h), the facts, the strategy, the time
// limit.
// Not thread-safe; a proof owns its contexts.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/cpu_time.h"
#include "core/base/work.h"
#include "core/index/laws.h"
#include "verifier/integer/guard.h"
#include "verifier/integer/implication_oracle.h"
#include "verifier/integer/polynomial.h"
#include "verifier/integer/smt_query.h"
#include "verifier/integer/variables.h"

namespace rewright::verifier {

class IndexObserver;
class QueryCache;

// The choices of one attempt. The attempts of a proof go from cheap to thorough.
struct Strategy {
  bool split_products = false;  // split every range that is a product, not only those under a division
  bool sum_cases = false;       // cover output axes whose size is a sum by cases
  bool finite_laws = false;     // exp(a + b) = exp(a) * exp(b), reciprocal of a product, x * (1 / x) = 1
  bool probe = false;           // give up as soon as a division survives both sides
  int factor_order = 0;         // which order of the factors of a product axis
  bool unfold = false;          // tanh by sigmoid, sigmoid by exp
  bool quotients = false;       // sums over variables that divisions determine: v = e div d
  bool digits = false;          // sums over variables that digits determine: a div d = e, a mod d = r mean a = d e + r
  bool unroll = false;          // sums over literal ranges are their terms, divided positions go by their remainders
  bool split_counts = false;    // an integer that is a sum is a sum of elements: (p + q) x = p x + q x
  friend bool operator==(const Strategy&, const Strategy&) = default;
};

// Limits and records of a whole proof, shared by its contexts.
struct ProofSession {
  double work_limit_s = 2;  // of the thread's work since `start_s`, in seconds of work (work.h)
  double start_s = ThreadWorkSeconds();
  double cpu_start_s = ThreadCpuSeconds();  // for reports alone
  bool certify = false;                     // keep every step and query in full
  QueryCache* query_cache = nullptr;        // of the solver (smt/solver.h)
  IndexObserver* observer = nullptr;        // receives every step; usually null
  // Gives the solver's answers in a replay. A query that is not known to be unsatisfiable settles nothing.
  std::function<bool(const SmtQuery&)> known_unsat;
  int queries = 0;
  bool hung = false;  // a query of that kind ran past its time: no other is asked
  std::vector<SmtQuery> smtlib;
  std::vector<std::string> steps;  // obligations, normal forms, changes of variables, witnesses, queries

  double RemainingSeconds() const { return work_limit_s - (ThreadWorkSeconds() - start_s); }  // of work
  void CheckLimit() const;                                                                    // throws GiveUp
};

class Context : public Variables {
 public:
  Context(ProofSession* session, const Strategy& strategy, uint64_t seed);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // ---- variables
  // Printed names of parameters are made unique: texts serve as keys.
  Var NewParam(const std::string& name, std::optional<int64_t> min);
  Var NewLocal(std::string name);
  Var NewRanged(std::string name, Poly lo, Poly hi);
  // A new variable with the range of v.
  Var FreshCopy(Var v);
  VarInfo& MutableInfo(Var v) { return vars_[v]; }

  // ---- index arithmetic, as index::Laws needs it
  using Number = Poly;
  // den is positive wherever the result is used: the caller has proved it.
  Poly FloorDiv(const Poly& num, const Poly& den);
  Poly Mod(const Poly& num, const Poly& den) { return index::Laws<Context>::Rest(num, den, FloorDiv(num, den)); }
  Poly MinOf(const Poly& a, const Poly& b);
  // Divides p by every positive variable that occurs in all its monomials; p = 0 is equivalent before and after.
  Poly WithoutCommonFactors(Poly p) const {
    CancelCommonFactors({&p});
    return p;
  }
  // The integer element `value` as an index, with the variables that it mentions; equal texts give equal variables.
  Poly ValueOf(std::shared_ptr<const IndexElement> value, std::vector<Var> inner);
  // Rebuilds definitions so that they can simplify.
  Poly Subst(const Poly& p, const Substitution& s);
  Guard Subst(const Guard& g, const Substitution& s);
  // Substitutes fresh variables of equal range: nothing new can simplify.
  Poly Rename(const Poly& p, const Substitution& s);
  Guard Rename(const Guard& g, const Substitution& s);

  // True if elements of tensors, which may be any integers, are indices in the polynomial.
  bool MentionsElements(const Poly& p) const;

  // ---- deciding
  // p >= 0 from ranges and minima by substituting extremes; sound, incomplete, cheap. The ranges of `hidden` are not
  // used.
  bool QuickNonneg(const Poly& p, const std::vector<Var>& hidden = {}) const;
  // The same for p plus or minus one of the facts that are equations.
  bool QuickNonnegByEquation(const std::vector<Guard>& facts, const Poly& p, const std::vector<Var>& hidden = {}) const;
  // p >= 0 with nonnegative coefficients once every parameter is measured from its minimum.
  bool TriviallyNonneg(const Poly& p) const { return NonnegParams(p); }
  // Every goal is >= 0, from ranges, minima, facts and `extra`.
  // kLinear keeps to linear arithmetic over abstracted products.
  enum class Effort : uint8_t { kLinear, kFull };
  bool ProveNonneg(const std::vector<Poly>& goals, const std::vector<Guard>& extra = {},
                   const std::vector<Var>& hidden = {}, Effort effort = Effort::kFull);
  bool ProvePositive(const Poly& p) { return ProveNonneg({p - Poly(1)}); }
  // Random values of p's variables in a sample; false where something is undefined.
  bool Evaluate(const Poly& p, Assignment* values) const;
  bool Evaluate(const Poly& p, Assignment* values, int64_t* result) const;
  bool Evaluate(const Guard& g, Assignment* values, bool* result) const;

  void SetFacts(std::vector<Guard> facts);
  std::vector<Var> positions;  // of the output whose elements are compared; asked for where sums are unrolled
  Strategy strategy;
  ProofSession* session;
  bool used_finite_law = false;
  bool used_bounds = false;  // sizes, attributes and positions were taken to be below 2^31
  // Set if the strategy's choices about product ranges, sum axes, literals and elements that count matter here.
  bool met_product = false, met_sum = false, met_literal = false, met_count = false;
  std::map<std::string, bool> lemmas;   // equalities of closures that were tried, by their texts
  ImplicationOracle* oracle = nullptr;  // null: inequalities hold only where ranges and facts show it
  // Position of a parameter in the order of factors of product axes.
  int FactorRank(Var v) const;
  std::vector<Var> factor_order;

 private:
  Poly MakeDiv(const Poly& num, const Poly& den);
  Poly Divide(const Poly& num, const Poly& den);
  Poly Least(const Poly& a, const Poly& b);
  bool DecideNonneg(const std::vector<Poly>& goals, const std::vector<Guard>& extra, const std::vector<Var>& hidden,
                    Effort effort);
  Poly SubstImpl(const Poly& p, const Substitution& s, bool rename);
  Guard SubstImpl(const Guard& g, const Substitution& s, bool rename);
  void CancelCommonFactors(std::initializer_list<Poly*> all) const;
  bool NonnegRec(const Poly& p, const std::vector<Var>& hidden, int depth) const;
  bool NonnegParams(const Poly& p) const;
  bool WithoutFineQuotient(const Poly& p, const std::vector<Var>& hidden, int depth, Poly* lower) const;
  bool NonnegDefinitions(const Poly& p, Var q, const std::vector<Var>& hidden, int depth) const;
  bool UpperBound(const Poly& p, const std::vector<Var>& hidden, Poly* bound) const;
  bool RefutedBySample(const std::vector<Poly>& goals, const std::vector<Guard>& extra, const std::vector<Var>& hidden);
  bool EvaluateVar(Var v, Assignment* values, int64_t* result) const;
  // A random integer from 0 to below `count`, which is positive.
  int64_t Below(int64_t count) const { return static_cast<int64_t>(rng_() % static_cast<uint64_t>(count)); }

  std::map<std::pair<Poly, Poly>, Var> divs_, mins_;
  std::map<std::string, Var> values_;
  std::set<std::string> param_names_;
  absl::flat_hash_map<std::string, bool> proved_;
  mutable std::mt19937_64 rng_;
};

}  // namespace rewright::verifier
