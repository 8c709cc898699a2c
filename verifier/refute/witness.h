// Sizes, attributes and elements at which a rule is false, and what is false there.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor/tensor.h"
#include "substitutions/instance/instance.h"

namespace rewright {

// The obligations of a proof (prove/prove_instance.h).
enum class Obligation : uint8_t { kWellFormed, kShape, kReads, kElements };
const char* ObligationName(Obligation obligation);

// Enough to be checked again by any interpreter.
struct Counterexample {
  Obligation obligation = Obligation::kElements;
  std::vector<std::pair<std::string, int64_t>> symbols;
  std::vector<std::pair<std::string, Number>> reals;  // those of integer constants are integers
  std::string detail;                                 // the ill-formed part, or the shapes that differ
  int output = 0;                                     // kShape, kElements: number of the output
  std::vector<int64_t> at;                            // kElements: position in that output
  Number lhs, rhs;                                    // kElements: the elements there; exact where they are integers
  struct Input {
    std::string name;
    TensorType type;
    std::vector<double> values;     // row-major
    std::vector<int64_t> integers;  // the same, where they may be too large for doubles; else empty
  };
  std::vector<Input> inputs;
  std::string ToString() const;
};

}  // namespace rewright
