// The ways to write down an operator's definition, and the parts of it that do not depend on operand 0.
#pragma once

#include <optional>
#include <vector>

#include "substitutions/generate/definitions/parts.h"

namespace rewright::generate {

inline constexpr size_t kMaxForms = 12;

// Graphs that equal the definition, which comes first; kMaxForms at most. They differ in
//   the order of a product's factors: (x g) / s, (x / s) g and x (g / s) are three;
//   squares: x x or pow(x, 2);
//   smaller operators: with rsqrt of `smaller` in place of what defines it, and products with it in place of quotients.
// Graphs that differ only in the order of a commutative operator's operands count as one.
std::vector<PartPtr> Forms(const Definition& definition, const std::vector<Definition>& smaller);

// The definition as x * factor + summand, x being operand 0.
struct ScaleAndShift {
  PartPtr factor, summand;
};
// Nothing if it is not of that form, or if factor or summand are single numbers or operands.
std::optional<ScaleAndShift> AsScaleAndShift(const Definition& definition);

}  // namespace rewright::generate
