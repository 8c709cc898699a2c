// From scatter to gather: "element v adds w(v) at place f(v)" becomes "place p is the sum of w(v) over the v with
// f(v) = p", with as many of the v determined by p as the equations allow (core/index/solve.h).
#pragma once

#include <string>
#include <vector>

#include "core/adjoint/derive.h"

namespace rewright {

struct Gathered {
  Scalar term;                     // over the position
  std::vector<std::string> steps;  // how the equations were solved
  int unsolved = 0;                // equations that stay as conditions of a sum
};

// What a site adds at the position, variables of which there is one per axis of the operand. Without `solve` every
// equation stays a condition: the definition.
Gathered Gather(Scope& scope, Deriver& deriver, const Site& site, const std::vector<ExprPtr>& position, bool solve);

}  // namespace rewright
