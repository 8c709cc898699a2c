#include "tests/core/adjoint/derivative_util.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"
#include "gtest/gtest.h"

namespace rewright {
namespace {

constexpr uint64_t kSeed = 20261122;
constexpr double kStep = 1e-6;
// The greatest difference of one-sided slopes at a smooth point; a greater one shows a kink.
constexpr double kSmooth = 1e-3;

const InterpretOptions kDouble = {.precision = Precision::kFloat64};

Tensor Stored(const Tensor& tensor) {
  auto stored = ToPrecision(tensor, Precision::kFloat64);
  EXPECT_TRUE(stored.ok()) << stored.status();
  return *stored;
}

std::vector<Tensor> Run(const OpDef& op, const std::vector<TensorType>& types, const Attrs& attrs,
                        const std::vector<Tensor>& inputs, MeaningCache& cache) {
  const auto application = Apply(op, types, attrs, cache);
  EXPECT_TRUE(application.ok()) << op.name << " " << AttrsString(attrs) << ": " << application.status();
  if (!application.ok()) return {};
  auto outputs = Interpret(*application->meaning, BindingsOf(*application->meaning, types, application->attrs),
                           application->outputs, types, inputs, kDouble);
  EXPECT_TRUE(outputs.ok()) << op.name << " " << AttrsString(attrs) << ": " << outputs.status();
  return outputs.ok() ? *std::move(outputs) : std::vector<Tensor>();
}

double Largest(const Tensor& tensor) {
  double largest = 0;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) largest = std::max(largest, std::fabs(tensor.At(i)));
  return largest;
}

double DotOfSizes(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.num_elements(); ++i) sum += std::fabs(a.At(i) * b.At(i));
  return sum;
}

Tensor Moved(const Tensor& x, const Tensor& direction, double step) {
  Tensor moved(x.type());
  for (int64_t i = 0; i < x.num_elements(); ++i) moved.Set(i, x.At(i) + step * direction.At(i));
  return moved;
}

double Objective(const Point& point, const std::vector<Tensor>& inputs, MeaningCache& cache) {
  double sum = 0;
  const std::vector<Tensor> outputs = Forward(point, inputs, cache);
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (IsFloating(point.application.outputs[o].dtype)) sum += Dot(point.cotangents[o], outputs[o]);
  }
  return sum;
}

bool IsDifferentiable(const Point& point) {
  return std::any_of(point.application.outputs.begin(), point.application.outputs.end(),
                     [](const TensorType& type) { return IsFloating(type.dtype); });
}

// Errors of one application.
void CheckPoint(const Point& point, Rng& rng, MeaningCache& cache, DerivativeErrors* errors) {
  std::vector<Tensor> directions;
  double pulled = 0, pushed = 0, size = 1;
  const double here = Objective(point, point.inputs, cache);
  for (size_t k = 0; k < point.types.size(); ++k) {
    directions.push_back(Stored(RandomTensor(point.types[k], rng, -1, 1)));
    if (!IsFloating(point.types[k].dtype)) continue;
    const Tensor gradient = GradientAt(point, static_cast<int>(k), cache);
    ASSERT_NE(gradient.data(), nullptr) << point.text;
    ++errors->gradients;
    const double along = Dot(gradient, directions[k]);
    const double scale = std::max(1.0, DotOfSizes(gradient, directions[k]));
    pulled += along;
    size += scale;

    const auto scattered_op = ScatteredGradientOp(*point.op, static_cast<int>(k));
    ASSERT_TRUE(scattered_op.ok()) << scattered_op.status();
    const Tensor scattered = GradientAt(point, static_cast<int>(k), cache, *scattered_op);
    ASSERT_NE(scattered.data(), nullptr) << point.text;
    const double unit = std::max(1.0, Largest(scattered));
    for (int64_t i = 0; i < gradient.num_elements(); ++i) {
      errors->gather = std::max(errors->gather, std::fabs(gradient.At(i) - scattered.At(i)) / unit);
    }

    std::vector<Tensor> inputs = point.inputs;
    inputs[k] = Moved(point.inputs[k], directions[k], kStep);
    const double above = Objective(point, inputs, cache);
    inputs[k] = Moved(point.inputs[k], directions[k], -kStep);
    const double below = Objective(point, inputs, cache);
    if (std::fabs(above - 2 * here + below) / kStep > kSmooth * scale || !std::isfinite(above - below)) {
      ++errors->kinks;
      continue;
    }
    // Rounding error of the objective alone.
    const double rounding = (std::fabs(above) + std::fabs(below)) * 1e-15 / kStep;
    const double error = std::fabs((above - below) / (2 * kStep) - along);
    errors->central = std::max(errors->central, std::max(0.0, error - rounding) / scale);
  }
  const auto call = TangentCall(*point.op, point.types, point.application.attrs);
  ASSERT_TRUE(call.ok()) << call.status();
  std::vector<TensorType> types;
  std::vector<Tensor> operands;
  for (const DerivedCall::Operand& operand : call->operands) {
    types.push_back(point.types[operand.number]);
    operands.push_back(operand.is_direction ? directions[operand.number] : point.inputs[operand.number]);
  }
  const std::vector<Tensor> tangents = Run(*call->op, types, call->attrs, operands, cache);
  size_t next = 0;
  for (size_t o = 0; o < point.application.outputs.size(); ++o) {
    if (!IsFloating(point.application.outputs[o].dtype)) continue;
    ASSERT_LT(next, tangents.size()) << point.text;
    pushed += Dot(point.cotangents[o], tangents[next++]);
  }
  errors->dual = std::max(errors->dual, std::fabs(pushed - pulled) / size);
}

}  // namespace

Point RandomPoint(const OpDef& op, Rng& rng, MeaningCache& cache) {
  const OpSample sample = op.sample(rng);
  std::vector<Tensor> inputs;
  for (const TensorType& type : sample.inputs) inputs.push_back(RandomTensor(type, rng, sample.low, sample.high));
  Point point = PointAt(op, sample.inputs, sample.attrs, inputs, cache);
  for (size_t o = 0; o < point.cotangents.size(); ++o) {
    point.cotangents[o] = Stored(RandomTensor(point.application.outputs[o], rng, -1, 1));
  }
  return point;
}

Point PointAt(const OpDef& op, const std::vector<TensorType>& types, const Attrs& attrs,
              const std::vector<Tensor>& inputs, MeaningCache& cache) {
  Point point{.op = &op, .types = types, .text = absl::StrCat(op.name, " (", AttrsString(attrs), ")")};
  for (const TensorType& type : types) absl::StrAppend(&point.text, " ", type.ToString());
  auto application = Apply(op, types, attrs, cache);
  EXPECT_TRUE(application.ok()) << point.text << ": " << application.status();
  if (!application.ok()) return point;
  point.application = *std::move(application);
  for (const Tensor& input : inputs) point.inputs.push_back(Stored(input));
  for (const TensorType& type : point.application.outputs) {
    Tensor cotangent(type);
    for (int64_t i = 0; i < cotangent.num_elements(); ++i) cotangent.Set(i, static_cast<double>(i + 1));
    point.cotangents.push_back(Stored(cotangent));
  }
  return point;
}

std::vector<Tensor> Forward(const Point& point, const std::vector<Tensor>& inputs, MeaningCache& cache) {
  return Run(*point.op, point.types, point.application.attrs, inputs, cache);
}

Tensor GradientAt(const Point& point, int input, MeaningCache& cache, const OpDef* op) {
  const auto call = GradientCall(*point.op, point.types, point.application.attrs, point.application.outputs, input);
  EXPECT_TRUE(call.ok()) << call.status();
  if (!call.ok()) return Tensor();
  std::vector<TensorType> types;
  std::vector<Tensor> operands;
  for (const DerivedCall::Operand& operand : call->operands) {
    types.push_back(operand.is_direction ? point.application.outputs[operand.number] : point.types[operand.number]);
    operands.push_back(operand.is_direction ? point.cotangents[operand.number] : point.inputs[operand.number]);
  }
  const std::vector<Tensor> results = Run(op != nullptr ? *op : *call->op, types, call->attrs, operands, cache);
  return results.empty() ? Tensor() : results[0];
}

double Dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.num_elements(); ++i) sum += a.At(i) * b.At(i);
  return sum;
}

DerivativeErrors CheckDerivatives(const OpDef& op, int points, double tolerance) {
  DerivativeErrors worst;
  MeaningCache cache;
  Rng rng(kSeed);
  for (int tries = 0; worst.points < points && tries < 100 * points; ++tries) {
    const Point point = RandomPoint(op, rng, cache);
    if (testing::Test::HasFailure()) return worst;
    const bool some = std::any_of(point.types.begin(), point.types.end(),
                                  [](const TensorType& type) { return IsFloating(type.dtype); });
    if (!some || !IsDifferentiable(point)) continue;
    ++worst.points;
    CheckPoint(point, rng, cache, &worst);
    EXPECT_LT(worst.central, tolerance) << point.text;
    EXPECT_LT(worst.gather, 1e-12) << point.text;
    EXPECT_LT(worst.dual, 1e-10) << point.text;
    if (testing::Test::HasFailure()) return worst;
  }
  EXPECT_EQ(worst.points, points) << op.name;
  return worst;
}

}  // namespace rewright
