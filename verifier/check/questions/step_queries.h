// Turns claims about indices into questions that any solver reads.
//
// It belongs to the checker of steps (step_checker.h). It reads the prover's polynomials, conditions and definitions of
// variables as data, and calls none of its arithmetic. Indices are sums of products of constants of the question;
// variables are replaced by an environment while they are read, so nothing is ever substituted.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "verifier/check/questions/index_sum.h"
#include "verifier/integer/smt_query.h"
#include "verifier/normal_form/term.h"

namespace rewright::verifier {

// The values of variables; a variable without one stands for itself.
using IndexEnvironment = std::map<Var, IndexSum>;

// One question: its constants, and the texts of conditions about them.
class StepQueryBuilder {
 public:
  explicit StepQueryBuilder(const Variables& ctx) : ctx_(ctx) {}

  const Variables& context() const { return ctx_; }
  // The ranges of these variables are not known, nor their least values.
  void Hide(const std::vector<Var>& vars) { hidden_.insert(vars.begin(), vars.end()); }
  IndexSum Fresh() { return {{{NewConstant()}, 1}}; }
  IndexSum Of(const Poly& p, const IndexEnvironment& environment);
  std::string Of(const Guard& g, const IndexEnvironment& environment);
  std::string Equal(const IndexSum& a, const IndexSum& b);
  std::string AtLeastZero(const IndexSum& a);
  // The q with den q <= num < den q + den, where den is positive; nothing is known of it elsewhere.
  IndexSum Quotient(const IndexSum& num, const IndexSum& den);
  IndexSum Least(const IndexSum& a, const IndexSum& b);
  // A constant of which nothing is known, the same for the same text.
  IndexSum Unknown(const std::string& text);
  static std::string Text(const IndexSum& a);
  // The normal form as a text that is the same for the same environment, for elements that are indices.
  std::string Text(const NormalForm& n, const IndexEnvironment& environment);

  // The goals (as texts) that the facts do not imply by bounds alone (step_bounds.h).
  std::vector<std::string> Open(const std::vector<std::string>& facts, const std::vector<std::string>& goals) const;
  // Asks if the facts (as texts) imply all goals; `logic` is QF_LIA or QF_NIA. Constants are named in the order of
  // their use. With `connected`, only facts that are linked to the goals are used, through others if need be.
  SmtQuery Query(const std::vector<std::string>& facts, const std::vector<std::string>& goals, bool connected) const;
  // For all integers: a >= 0 and b >= 0 imply a b >= 0, and so with 1; a = 0 implies a b = 0.
  static SmtQuery LemmaOfProducts();
  // Query() with every product of constants as a constant of its own, and with facts about these: instances of the
  // lemma, where a is a compared quantity, b a product of constants, and a b is multiplied out; and products of
  // constants of at least 1 are at least 1.
  SmtQuery LinearQuery(std::vector<std::string> facts, std::vector<std::string> goals) const;

 private:
  struct Constant {
    std::vector<std::string> known;                        // conditions
    std::optional<std::pair<IndexSum, IndexSum>> quotient;  // it is the first divided by the second
  };
  int NewConstant() {
    constants_.emplace_back();
    return static_cast<int>(constants_.size()) - 1;
  }
  IndexSum OfVar(Var v, const IndexEnvironment& environment);
  std::string Text(const Atom& a, const IndexEnvironment& environment);
  // The facts and goals as texts.
  std::vector<std::string> Products(const std::set<std::string>& facts, const std::set<std::string>& goals) const;
  // Adds instances about these relations, with products of `met`.
  static void AddProducts(const std::vector<IndexRelation>& relations, const std::set<std::vector<int>>& met,
                          std::vector<std::string>* instances);

  const Variables& ctx_;
  std::set<Var> hidden_;
  std::vector<Constant> constants_;
  std::map<Var, int> of_var_;
  std::map<std::string, int> of_text_;         // quotients, minima and elements
  std::map<std::string, IndexRelation> relations_;  // every one that was written
  int bound_ = 0;                              // of binders in texts
};

}  // namespace rewright::verifier
