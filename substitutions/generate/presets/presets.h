// The presets: each a few spaces, small enough that one goes through all their graphs.
#pragma once

#include <vector>

#include "substitutions/generate/enumerate/space.h"

namespace rewright::generate {

// Products of matrices, with batches and biases.
std::vector<Space> LinearSpaces();
// Convolutions of several kernels and strides, batch normalization, pooling.
std::vector<Space> ConvSpaces();
// Reductions, softmax and its parts, layer normalization; what of them commutes with products of matrices.
std::vector<Space> ReduceSoftmaxSpaces();
// Functions of elements.
std::vector<Space> ElementwiseSpaces();
// Moving data, and what commutes with it.
std::vector<Space> ShapeSpaces();

}  // namespace rewright::generate
