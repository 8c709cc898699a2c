// Measures both sides of the instances of a rule that is proved, for its numerical class (classify_rule.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/interpreter/interpreter.h"
#include "core/tensor/tensor.h"
#include "substitutions/instance/instance.h"
#include "substitutions/language/rule.h"
#include "verifier/classify/value_distribution.h"

namespace rewright {

class CompiledNodes;

inline constexpr size_t kLeastAssignments = 3;

// Findings that are read off an instance.
struct Inspection {
  bool rounds_with_sizes = false;
  bool may_decide_differently = false;
};
Inspection Inspect(const RuleInstance& instance);

// Fed with instances of one rule that are proved.
class RuleClassifier {
 public:
  // Measures each instance at about `assignments` (kLeastAssignments or more) assignments of its symbols. With `half`,
  // measures on elements of that type in place of f32; with `ranged`, ignores overflow of the right side alone.
  explicit RuleClassifier(uint64_t seed, size_t assignments = kLeastAssignments,
                          std::optional<DType> half = std::nullopt, bool ranged = false)
      : random_(seed, half), assignments_(assignments), half_(half), ranged_(ranged) {}

  // Notes what needs no measurement.
  void Note(const Inspection& found);
  void Measure(const RuleInstance& instance);
  void UsedFiniteOnlyStep() { finite_only_ = true; }
  RuleClass Class() const;
  int samples() const { return samples_; }
  // No measurement changes the class.
  bool IsWorst() const { return risky_; }

 private:
  using Symbols = std::vector<int64_t>;

  // Symbols to measure at: the largest of some that are drawn, some others, and some at which a value is empty.
  std::vector<Symbols> Assignments(const RuleInstance& instance);
  // Some that leave something to compare.
  std::vector<Symbols> WithoutEmptyValues(const RuleInstance& instance);
  void MeasureErrors(const RuleInstance& instance, const Symbols& symbols, Leaves kind, CompiledNodes* compiled);
  void CompareBits(const RuleInstance& instance, const std::vector<Symbols>& assignments, Precision precision,
                   CompiledNodes* compiled);
  void MeasureFiniteness(const RuleInstance& instance, const Symbols& symbols, Precision precision,
                         CompiledNodes* compiled);
  // Runs on every combination of some numbers, infinities and NaN, if the rule decides by few floating leaves.
  void MeasureSpecials(const RuleInstance& instance, const Symbols& symbols, CompiledNodes* compiled);
  // Tells if an element is finite on one side alone, or an ordinary one is another number; notes other bits.
  bool DifferInFiniteness(const Tensor& left, const Tensor& right);

  ValueDistribution random_;
  const size_t assignments_;
  const std::optional<DType> half_;
  const bool ranged_;
  int samples_ = 0;
  bool same_bits_ = true;
  bool compared_ = false;        // any instance's bits
  bool enough_compared_ = true;  // of each that was compared
  bool risky_ = false;
  bool finite_only_ = false;
  bool specials_met_ = false;  // by an instance
};

}  // namespace rewright
