// Increasing functions of the real numbers: they commute with maxima, and argmax does not see them.
#pragma once

#include <cstdint>
#include <string>

#include "verifier/integer/context.h"
#include "verifier/normal_form/term.h"

namespace rewright::verifier {

// A function that increases on its domain, with its value num / den at `anchor`; den is 0 where no value is known.
struct Increasing {
  enum class Domain : uint8_t { kReals, kNonnegative, kPositive };
  const char* name;
  Domain domain;
  bool strictly;
  int64_t anchor, num, den;
};
const Increasing* FindIncreasing(const std::string& fn);  // null where it is none
bool IsInDomain(Context& ctx, const Increasing& fn, const NormalForm& argument);
// Takes increasing functions out of the families of a maximum; true where all of it is one, of another maximum.
bool PullIncreasing(Context& ctx, Families* families, NormalForm* maximum);
// The family's binder, whose value at a point is `place`: PLACE of the first point that is greatest.
NormalForm PlaceOver(Context& ctx, const std::string& binder, const Family& family, const Poly& place);
// The same for argmax of real numbers. It does not depend on a part that is the same everywhere, on positive factors,
// or on functions that increase strictly.
NormalForm ArgmaxOver(Context& ctx, const Family& family, const Poly& place);

}  // namespace rewright::verifier
