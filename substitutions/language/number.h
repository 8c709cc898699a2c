// A number as an element of a tensor: integers are exact, never doubles.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "core/tensor/tensor.h"

namespace rewright {

using Number = std::variant<double, int64_t>;

double RealOf(const Number& number);
// -3, 0.5: reads back as the same number.
std::string NumberString(const Number& number);

Number ElementOf(const Tensor& tensor, int64_t i);
// Converts; an integer keeps its lowest bits where the type has fewer.
void SetElement(const Number& number, int64_t i, Tensor* tensor);
void FillWith(const Number& number, Tensor* tensor);

// True if `type` has the number: an integer in range, a truth value 0 or 1. Floating types have every number that
// neither overflows nor vanishes when rounded.
bool HasNumber(DType type, const Number& number);

// The number one, as constants of the type have it.
Number OneOf(DType type);

// The nearest number of a floating type.
double RoundedTo(DType type, const Number& number);

// True if there are elements and all equal `number`, rounded to the type where that is floating. 0 equals -0.
bool AllElementsEqual(const Tensor& tensor, const Number& number);
// True if there are elements and all are one number, the sign of zero included.
bool AllElementsSame(const Tensor& tensor);

}  // namespace rewright
