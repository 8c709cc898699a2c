// A rule at fixed structural values: enumerated for proofs, looked up for matches.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/instance/instance.h"

namespace rewright {

// The structural values that a rule leaves open.
struct StructuralAssignment {
  std::vector<int> packs;  // lengths
  // By attribute: the value of a kFixedInt, the values of a kFixedList, the length of a kList, the DType of a kDType;
  // nothing for symbols.
  std::vector<std::vector<int64_t>> attrs;
  // By node of the left side: for a variable [~ ..] the rank and, from bit 8 on, the axes that are one instead of the
  // size that they broadcast to. 0 for others.
  std::vector<uint32_t> broadcasts;

  // One vector that identifies the structure.
  std::vector<int64_t> Key() const;
};

// The type of the constants whose value is the attribute ?`attr`; f32 where there are none.
DType ConstantType(const CompiledRule& rule, const StructuralAssignment& structure, int attr);

struct InstanceResult {
  enum class Outcome : uint8_t {
    kBuilt,
    kNone,   // the left side is not well-formed, a condition fails, or the structure lies beyond the limits: nothing
             // to prove, nothing to apply
    kError,  // the right side cannot be built: the rule lacks a condition
  };
  Outcome outcome = Outcome::kNone;
  std::string why;
  RuleInstance instance;
};

// Symbols of the instance are numbered: sizes, elements of packs, integers and list elements of attributes, each in
// the order of CompiledRule. `meanings` only speeds up the building of many.
InstanceResult BuildInstance(const CompiledRule& rule, const StructuralAssignment& structure,
                             const DomainLimits& limits, MeaningCache& meanings);

// Small limits within which a rule that is good at any rank shows all that it does; larger where the shapes that the
// rule spells out, for its operands or in attributes, need more.
DomainLimits SmallLimits(const CompiledRule& rule);
DomainLimits SmallLimits(const CompiledRule& rule, MeaningCache& meanings);

// Calls `visit` for every instance within the limits; for a rule about siblings, for those of one, three and seven as
// well. An error of the rule (a right side that cannot be built, too many instances, none at all) or of `visit` ends
// it.
absl::Status ForEachInstance(const CompiledRule& rule, const DomainLimits& limits,
                             const std::function<absl::Status(RuleInstance)>& visit);
absl::Status ForEachInstance(const CompiledRule& rule, const DomainLimits& limits, MeaningCache& meanings,
                             const std::function<absl::Status(RuleInstance)>& visit);

// The same with the structural values of each; for a rule about siblings, only for those of two.
absl::Status ForEachStructuralAssignment(
    const CompiledRule& rule, const DomainLimits& limits,
    const std::function<absl::Status(const StructuralAssignment&, RuleInstance)>& visit);

// All of them.
absl::StatusOr<std::vector<RuleInstance>> Instances(const CompiledRule& rule, const DomainLimits& limits = {});

// Prints the instance for messages and tests: leaves with their shapes, applications, outputs, conditions.
std::string PrintInstance(const RuleInstance& instance);

}  // namespace rewright
