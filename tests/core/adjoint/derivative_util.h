// Compares derived operators with their base operators, in double precision.
#pragma once

#include <string>
#include <vector>

#include "core/adjoint/operators.h"
#include "core/ir/op.h"
#include "core/tensor/tensor.h"

namespace rewright {

// An application with operands and cotangents of its outputs; real numbers are stored as f64.
struct Point {
  const OpDef* op = nullptr;
  std::vector<TensorType> types;
  Application application;
  std::vector<Tensor> inputs, cotangents;
  std::string text;
};

// A random application.
Point RandomPoint(const OpDef& op, Rng& rng, MeaningCache& cache);
// Makes one with given operands; cotangents are 1, 2, 3..
Point PointAt(const OpDef& op, const std::vector<TensorType>& types, const Attrs& attrs,
              const std::vector<Tensor>& inputs, MeaningCache& cache);

std::vector<Tensor> Forward(const Point& point, const std::vector<Tensor>& inputs, MeaningCache& cache);
// Returns the gradient by an input; `op` is GradientOp or ScatteredGradientOp, null for the former.
Tensor GradientAt(const Point& point, int input, MeaningCache& cache, const OpDef* op = nullptr);

double Dot(const Tensor& a, const Tensor& b);

struct DerivativeErrors {
  int points = 0, gradients = 0;
  int kinks = 0;       // directions along which a difference has no meaning
  double central = 0;  // against central differences
  double gather = 0;   // gathered against scattered
  double dual = 0;     // <u, J v> against <J^T u, v>
};

// Returns the greatest errors at random applications, relative to the size of the sums. Reports the first application
// whose errors exceed the bound.
DerivativeErrors CheckDerivatives(const OpDef& op, int points, double tolerance);

}  // namespace rewright
