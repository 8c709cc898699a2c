// Statements about tensors of the ranks' program, and the claims that prove them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/stop.h"
#include "substitutions/language/rule.h"
#include "verifier/equal/region.h"
#include "verifier/prove_rule.h"
#include "verifier/ranks/legal_indices.h"
#include "verifier/ranks/rank_program.h"

namespace rewright {

// A tensor of the ranks is a value of the model, held in these ways along the axes of the mesh.
struct Statement {
  Value value;
  MeshPlacement placement;

  bool HasShares() const;
  friend bool operator==(const Statement& a, const Statement& b) = default;
};

// The input or constant of that name. Error: the model has no such input.
absl::StatusOr<Value> InputOf(const Graph& model, const std::string& name);

class RankClaims {
 public:
  // All outlive this. `limit_s`: seconds of work of the prover for a claim.
  RankClaims(const Graph& model, const RankPlan& plan, const RankProgram& program, double limit_s, StopFlag stop)
      : model_(model),
        plan_(plan),
        program_(program),
        limit_s_(limit_s),
        stop_(stop),
        legal_indices_(LegalIndices(model)) {}

  // A statement that holds by the plan, or by the elements of constants.
  void Assume(const StepValue& at, const Statement& statement) { statements_[at] = {statement, {}}; }
  // Tries to prove a statement from those about values above; from then on it is the one about this value. A claim
  // begins at the nearest statements, or `depth` statements further up.
  absl::StatusOr<bool> Prove(const StepValue& at, const Statement& statement, int depth);
  const Statement* Find(const StepValue& at) const;

  int immediate() const { return immediate_; }
  // Proved claims that hold for any sizes and any number of ranks along each axis of the mesh.
  int at_any_size() const { return at_any_size_; }
  // Values of the model that a proved claim took for positions of what the model reads at them.
  const std::map<Value, LegalIndex>& assumed() const { return assumed_; }
  std::vector<Rule> TakeRules() { return std::move(rules_); }
  // The first claim about each value that was neither proved nor refuted.
  const std::map<StepValue, Rule>& undecided() const { return undecided_; }

 private:
  struct Known {
    Statement statement;
    // With shares: axes of the mesh along which each rank has all of the sum, but perhaps in other shares.
    std::set<int> differ;
  };
  struct Piece;  // of the program, between statements

  Piece PieceOf(const StepValue& at, int depth) const;
  std::vector<int> AxesOf(const Statement& statement, const Piece& piece) const;
  // With `legal`, for elements that are positions of what the model reads at them.
  absl::StatusOr<bool> Holds(const StepValue& at, const Statement& statement, const Piece& piece,
                             const std::vector<int>& axes, bool legal);
  std::vector<Value> IndicesOf(const Piece& piece) const;
  absl::StatusOr<Rule> NamedRule(const Region& region, const SizeNames& of_whole, const SizeNames& of_rank) const;
  Verdict Judge(const Rule& rule, bool named);

  const Graph& model_;
  const RankPlan& plan_;
  const RankProgram& program_;
  const double limit_s_;
  const StopFlag stop_;
  const std::map<Value, LegalIndex> legal_indices_;
  std::map<Value, LegalIndex> assumed_;
  std::map<StepValue, Known> statements_;
  std::map<std::string, Verdict> judged_;  // by the text of the rule
  std::vector<Rule> rules_;                // that are proved
  std::map<StepValue, Rule> undecided_;
  int immediate_ = 0;
  int at_any_size_ = 0;
};

}  // namespace rewright
