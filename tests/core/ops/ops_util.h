// Applications of operators by name, and samples of every operator.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/ir/op.h"
#include "core/ops/ops.h"
#include "gtest/gtest.h"
#include "tests/counts.h"

namespace rewright {

inline constexpr uint64_t kSeed = 20240611;
inline const int kSamples = Cases(2000);

inline TensorType F32(Shape shape) { return {DType::kFloat32, std::move(shape)}; }
inline TensorType I64(Shape shape) { return {DType::kInt64, std::move(shape)}; }
inline TensorType Bool(Shape shape) { return {DType::kBool, std::move(shape)}; }

inline absl::StatusOr<Application> ApplyNamed(const std::string& name, const std::vector<TensorType>& inputs,
                                              const Attrs& attrs) {
  const OpDef* op = FindOp(name);
  EXPECT_NE(op, nullptr) << name;
  MeaningCache cache;
  return Apply(*op, inputs, attrs, cache);
}

// "add f32[2,3] f32[3] (axis=1)"
inline std::string Text(const std::string& name, const std::vector<TensorType>& inputs, const Attrs& attrs) {
  std::string text = name;
  for (const TensorType& input : inputs) text += " " + input.ToString();
  return text + " (" + AttrsString(attrs) + ")";
}

}  // namespace rewright
