// Conditions on indices that follow from others by comparing terms, so that no solver is asked.
//
// Three arguments, each from facts alone:
//   bound     a x + r >= 0 where a has no positive term, x <= u, and a u + r >= 0; likewise from below
//   products  a sum of products with positive coefficients is at least its value at the least values of its constants,
//             if these are not negative
//   equation  p >= 0 where p + e >= 0 and e is a sum of multiples of equations
// A quotient q of n >= 0 by d >= 1 is a constant with d q <= n < d q + d, q >= 0, and q < e where n < d e.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "verifier/check/questions/index_sum.h"

namespace rewright::verifier {

// Facts about integer constants, which are numbered.
class StepBounds {
 public:
  void Add(const IndexRelation& fact);
  // q is num div den where den >= 1, which has to follow from the facts so far to be of use.
  void AddQuotient(int q, const IndexSum& num, const IndexSum& den);
  // True if the relation follows; false says nothing.
  bool Imply(const IndexRelation& goal) const;

 private:
  // x <= bound if `above`, else x >= bound.
  struct Bound {
    IndexSum bound;
    bool above = false;
  };
  void AddEquation(const IndexSum& p);
  // q < e wherever most + 1 = den e, or bounds of constants in `most` make it so; num <= most, within so many trials.
  void AddEnd(int q, const IndexSum& most, const IndexSum& den, int* trials);
  // p >= 0, within so many trials.
  bool IsAtLeastZero(const IndexSum& p, int* trials) const;
  // Without replacing a constant by a bound.
  bool IsCovered(const IndexSum& p) const;
  // Without the leading products of equations.
  IndexSum Reduced(IndexSum p) const;

  std::set<IndexSum> at_least_zero_;
  std::map<int, int64_t> least_;                    // value of a constant
  std::map<int, std::vector<Bound>> bounds_;        // by the constant; no numbers from below
  std::map<std::vector<int>, IndexSum> equations_;  // by the leading product, whose coefficient is 1; the sum is 0
};

}  // namespace rewright::verifier
