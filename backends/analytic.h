// Devices that give costs and run nothing: by a formula, the same on every machine, for comparisons with published
// optimizers, or by a description of a machine's rates, for hardware that is not at hand.
//
// v100 follows the convention of TASO's evaluation. A group costs 5 us + max(FLOPs / 9e12, bytes / 0.7e12) seconds.
// FLOPs: convolution 2 * out * (Cin/g) * kh * kw, matrix product 2 * out * k, pooling out * kh * kw, anything else one
// per output element. Bytes: each operand once and the output once, 4 bytes an element; a concat moves its output
// twice. A relu, sigmoid or tanh that alone reads a convolution is part of its group, at no cost. Reshape, transpose
// and split are free, and so is everything that depends on weights alone.
//
// v100-strict charges transposes, and splits that are no views (anything but the leading axis of size above one), as
// kernels.
//
// By a description, a group that runs as one kernel (fused as the CPU device fuses: an anchor with its epilogue, chains
// of pointwise operators) costs launch + max(arithmetic, memory) seconds.
//
//   arithmetic: the FLOPs of the group at the peak rate, spread over the processors in tiles of the result. As many
//     tiles as there are processors run at once; a last wave that is not full takes as long as a full one. So a
//     machine with many processors is slow at small operators, and merging them pays there.
//   memory: each operand read once and each result written once; activations at the rate of the cache where all of the
//     group fits into it, weights always at the rate of memory.
//
// Nodes that only move elements (reshape, transpose, slice, split, expand) are views and free: their readers read
// strided memory. A concatenation is copied.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "runtime/measure/machine_rates.h"

namespace rewright {

struct RooflineSpec {
  std::string name;
  std::string source;           // where the figures are from
  double flops_per_second = 0;  // of fp32, peak
  double bytes_per_second = 0;  // of memory
  double launch_seconds = 0;    // of one kernel
  int64_t processors = 0;       // that run tiles independently
  int64_t tile_elements = 0;    // elements of a result that one processor computes at once
  double cache_bytes = 0;       // of the last level
  double cache_bytes_per_second = 0;
};

// The rates of a description: those of the cache up to its size, those of memory above it.
Rates RatesOf(const RooflineSpec& spec);

// A JSON object with the members of RooflineSpec. Errors name the file, the member, what was found and expected.
absl::StatusOr<RooflineSpec> ReadRooflineSpec(const std::string& path);

// The device of a description. Partition and Cost alone.
std::unique_ptr<Device> MakeRooflineDevice(const RooflineSpec& spec);

// Partition and Cost alone; Compile gives an Unimplemented error. `name` is "v100" or "v100-strict", that of a
// description that comes with the program, or a FILE.json. Errors: another name, a damaged description.
absl::StatusOr<std::unique_ptr<Device>> MakeAnalyticDevice(const std::string& name);

}  // namespace rewright
