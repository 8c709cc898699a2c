// The presets: each a few spaces, small enough that one goes through all their graphs.
#pragma once

#include <vector>

#include "substitutions/generate/enumerate/space.h"

namespace rewright::generate {

// Products of matrices, with batches and biases.
std::vector<Space> LinearSpaces();
// Convolutions of several kernels and strides, batch normalization, pooling.
std::vector<Space> ConvSpaces();
// Reductions, softmax and its parts, layer normalization; operators that commute with products of matrices.
std::vector<Space> ReduceSoftmaxSpaces();
// Functions of elements.
std::vector<Space> ElementwiseSpaces();
// Operators that move data, and those that commute with them.
std::vector<Space> ShapeSpaces();

}  // namespace rewright::generate
