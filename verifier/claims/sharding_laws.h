// The sharding laws of an operator, proved: for every factor of a few of its applications (substitutions/sharding) the
// first conjecture that holds for all sizes and every number of devices, and where it holds at neutral values of some
// attributes alone, the first that holds at all.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/op.h"
#include "substitutions/sharding/factors.h"
#include "substitutions/sharding/shard.h"
#include "verifier/prove_rule.h"

namespace rewright {

struct ShardingLaw {
  Rule rule;  // named operator-structure-axes
  RuleVerdict verdict;
  int conjecture = 0;  // number in the factor's conjectures
};

struct FactorLaws {
  std::string structure;  // "ranks 2 2; groups=1"
  sharding::Factor factor;
  std::vector<ShardingLaw> laws;
  // The conjectures that are not proved, with counterexample or reason.
  std::vector<ShardingLaw> failed;
};

// Laws for sharding::Shard, each proved once, when it is first asked for. Applications are analysed once. It outlives
// the conjectures that it gives.
class ProvedLaws {
 public:
  explicit ProvedLaws(double work_limit_s) : time_limit_s_(work_limit_s) {}
  absl::StatusOr<std::vector<sharding::ConjecturedLaw>> operator()(const OpDef& op,
                                                                   const std::vector<TensorType>& inputs,
                                                                   const Attrs& attrs);

  int num_proved() const { return num_proved_; }
  // The laws that are proved, each on one line, sorted.
  std::vector<std::string> Texts() const;

 private:
  // Null: it is not proved, or no matcher can find its left side.
  absl::StatusOr<const sharding::ProvedLaw*> Proved(const OpDef& op, const sharding::Conjecture& conjecture);

  // The conjectures about a factor, and the laws of the first ones, which were judged; null: it is none.
  struct JudgedFactor {
    std::vector<sharding::Conjecture> conjectures;
    std::vector<const sharding::ProvedLaw*> laws;
    bool has_some = false, has_general = false;  // laws, and one that is not special
  };
  // The law of a conjecture, as Factor::conjectures says.
  absl::StatusOr<const sharding::ProvedLaw*> LawOf(const OpDef& op, JudgedFactor& factor, size_t conjecture);

  const double time_limit_s_;
  int num_proved_ = 0;
  std::map<std::string, std::optional<sharding::ProvedLaw>> laws_;                // by conjecture
  std::map<std::string, std::vector<sharding::ConjecturedLaw>> of_applications_;  // by operator, types and attributes
};

// Laws of up to `structures` applications that differ in what is structural (ranks, axes, flags; not element types).
// `certify`: verdicts of laws have their certificates. Errors: those of the derivation; a conjecture that is no rule.
absl::StatusOr<std::vector<FactorLaws>> ShardingLaws(const OpDef& op, int structures, double work_limit_s,
                                                     bool certify = false);

}  // namespace rewright
