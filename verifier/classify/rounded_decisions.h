// Decisions about rounded numbers.
//
// A comparison, an argmax, floor and ceil, and a cast to integers or truth values jump where their operands tie. Two
// sides of a rule that round an operand differently may decide differently there: the result then differs by the jump
// and not by a rounding. Ties up to rounding are too rare to be met by measurement, so they are read off the instance.
#pragma once

#include "substitutions/instance/instance.h"

namespace rewright {

// True if one side decides about rounded floating-point numbers that the other does not compute by the same operations
// on the same leaves. Also true if that is unclear: results of sums count as the same only if the whole applications
// that make them are the same.
bool MayDecideDifferently(const RuleInstance& instance);

}  // namespace rewright
