// Sums of products of integer constants, in which the checker of steps words conditions on indices.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace rewright::verifier {

// Products of constants, by their numbers in order, with coefficients that are not zero.
using IndexSum = std::map<std::vector<int>, int64_t>;

// p >= 0, or p = 0.
struct IndexRelation {
  IndexSum p;
  bool equation = false;
};

// Throw GiveUp where a coefficient does not fit 64 bits.
IndexSum PlusTimes(const IndexSum& a, const IndexSum& b, int64_t times);
IndexSum Times(const IndexSum& a, const IndexSum& b);

}  // namespace rewright::verifier
