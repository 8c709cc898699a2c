// Devices by formula: costs that are the same on every machine, for comparisons with published optimizers.
//
// v100 follows the convention of TASO's evaluation. A group costs 5 us + max(FLOPs / 9e12, bytes / 0.7e12) seconds.
// FLOPs: convolution 2 * out * (Cin/g) * kh * kw, matrix product 2 * out * k, pooling out * kh * kw, anything else one
// per output element. Bytes: each operand once and the output once, 4 bytes an element; a concat moves its output
// twice. A relu, sigmoid or tanh that alone reads a convolution is part of its group, at no cost. Reshape, transpose
// and split are free, and so is everything that depends on weights alone.
//
// v100-strict charges transposes, and splits that are no views (anything but the leading axis of size above one), as
// kernels.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/ir/device.h"

namespace rewright {

// Partition and Cost alone; Compile gives an Unimplemented error. `name` is "v100" or "v100-strict".
absl::StatusOr<std::unique_ptr<Device>> MakeAnalyticDevice(const std::string& name);

}  // namespace rewright
