// What importers of quantized operators share: integers of 8 or 16 bits q that stand for (q - zero point) * scale. For
// the sources of this folder only.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/onnx/node.h"

namespace rewright {

// OK for integers of 8 and 16 bits.
absl::Status CheckQuantized(const OnnxNode& node, DType type);

// A scale or zero point beside x: a number, one for each index of `axis`, or one for each block of them.
absl::StatusOr<Value> Beside(OnnxNode& node, Value x, Value parameter, int64_t axis, int64_t block = 0);

// x - zero point, of i32; input number `zero` of the node, which may be left away.
absl::StatusOr<Value> Centred(OnnxNode& node, Value x, int zero, int64_t axis, int64_t block = 0);

// The reals x, multiples of a scale, as integers of the type: rounded, moved by the zero point, held in its range.
absl::StatusOr<Value> Quantized(OnnxNode& node, Value x, std::optional<Value> zero, DType to);

// x as u8, its scale and its zero point: the scale spreads the elements and 0 over u8.
absl::StatusOr<std::vector<Value>> DynamicallyQuantized(OnnxNode& node, Value x);

}  // namespace rewright
