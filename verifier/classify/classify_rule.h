// Determines the numerical class of a rule that is proved over the real numbers: the behaviour of its results in
// floating point.
//
// The class follows from laws that are proved for every size (rounding_laws.h), and measurement attacks it. The
// reference interpreter computes both sides of instances in float32 and in float64. Leaves are of ordinary size, of
// very different sizes, or far from zero with little spread (where cancellation shows); or they have some elements that
// are infinite or NaN, or there is an infinite real attribute. If f32 and f64 both occur, leaves also come from the
// full range of their types, since a value of one may be infinite in the other. The class is the worse of the derived
// one and the measured one.
//
//   numerically-risky   under magnitudes one side is more than kRiskFactor times the other; or somewhere the right
//                       side's error was more than that times the left side's (or the rounding of its result), or it
//                       was not finite where the left side was, on finite leaves; or the sides may decide differently
//                       about rounded numbers (rounded_decisions.h)
//   finite-only         the proof used a law that fails for infinities, or, with an infinite or NaN element among the
//                       leaves, one side was finite somewhere where the other was not (in float64 as well), or, on
//                       finite leaves, the right side was finite where the left side was not and did not have the
//                       number that the left side gives in float64. A rule that compares or selects by at most
//                       kSpecialLeaves leaves meets every combination of infinities, NaN and some numbers
//   exact               both sides are proved to do the same operations, and had the same bits every time, those of
//                       infinities included, in float32 and in float64, in at least kComparedElements elements of every
//                       output of an instance; zeros of both signs, ties, and the largest and smallest numbers of the
//                       type among the leaves
//   reassociating       everything else
//
// A rule about floats holds for f32 and f64, and so must its class. A rule about f64 alone is measured for its errors
// as if it were about f32: there is no wider type to compare it with.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/stop.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/instance/instance.h"
#include "substitutions/language/rule.h"

namespace rewright {

namespace verifier {
class QueryCache;
}

inline constexpr double kRiskFactor = 100;
inline constexpr double kHalfRiskFactor = 16;  // 100 roundings of bf16 would be a fifth of the number
inline constexpr int64_t kComparedElements = 200;
inline constexpr size_t kSpecialLeaves = 4;

// The worst that the laws of rounding say of the instances of a rule.
struct RuleRounding {
  bool same_operations = true;
  double growth = 1;
  double loss = 1;
};

// An operator that may stand for a rule's operator variable, and the classes of its own rule (PutOperator).
struct OperatorClass {
  std::string name;
  RuleClass rule_class = RuleClass::kExact;
  std::optional<RuleClass> halves;
  RuleRounding rounding = {};
};

// Results of a rule's proof that its classification uses.
struct ProofRemains {
  verifier::QueryCache* query_cache = nullptr;  // its queries about indices are asked again by the laws
  std::function<std::string(const RuleInstance&)> merged_axes_key;  // MergedAxesKey of an instance that was proved
};

// The class of a rule that is proved in `domain`, which has `instances` instances: the worst of several measurements
// with seeds of their own, so that it depends on its arguments alone. Errors are those of ForEachInstance. A rule with
// an operator variable gets the worst class of all `operators`; the classes are filled in. `rounding` receives the
// rounding of both sides as their laws tell it. Stops between two instances once `stop` is set. `proof`: what the
// rule's proof has left; null: nothing.
absl::StatusOr<RuleClass> ClassifyRule(const CompiledRule& rule, const DomainLimits& domain, int instances,
                                       bool used_finite_only_step, RuleRounding* rounding,
                                       std::vector<OperatorClass>* operators = nullptr, StopFlag stop = nullptr,
                                       const ProofRemains* proof = nullptr);

// The same for the rule on 16-bit floats, with a rounding after every operator: the worst of the classes on f16, on
// bf16 and `wide`, the class on f32, which is measured at more elements than 16 bits can tell apart. None if the rule
// has no instance on floats of one type. `rounding`: of ClassifyRule. `new_values` gets the nodes of the rule
// (CompiledRule::nodes) whose values may be larger than all that the left side has. Their overflow does not count here:
// the applier checks it. `operators`: with their classes on f32.
absl::StatusOr<std::optional<RuleClass>> ClassifyOnHalves(const CompiledRule& rule, const DomainLimits& domain,
                                                          int instances, RuleClass wide, const RuleRounding& rounding,
                                                          std::set<int>* new_values,
                                                          std::vector<OperatorClass>* operators = nullptr);

}  // namespace rewright
