// Graphs whose groups the CPU device computes as the reference interpreter does.
#pragma once

#include <ostream>
#include <string>

#include "gtest/gtest.h"

namespace rewright {

struct FusedCase {
  std::string name;
  std::string text;
  double low = -1, high = 1;
};

inline void PrintTo(const FusedCase& c, std::ostream* os) { *os << c.name; }

class Fused : public testing::TestWithParam<FusedCase> {};

}  // namespace rewright
