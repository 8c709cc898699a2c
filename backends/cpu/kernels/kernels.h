// Kernels that several entries of kernel_list.h plan with. Each head says which buffers its kernel expects, in order.
// They use up to `threads` OpenMP threads. Run needs no memory besides its buffers (oneDNN itself takes a few hundred
// bytes for its arguments).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/cpu/activation.h"
#include "backends/cpu/pointwise.h"
#include "backends/layout.h"
#include "core/ir/device.h"

namespace rewright::cpu {

using KernelPtr = std::unique_ptr<Kernel>;

// ---------------------------------------------------------------- pointwise.cc

// Buffers: the program's operands, the result. `operands[i]` is the layout of program.operands[i]; blocked ones must
// have the block of every other blocked layout and no padding. `out` is dense. The result may lie in the memory of an
// operand with an equal layout that is read at the very position.
absl::StatusOr<KernelPtr> MakePointwiseKernel(const PointwiseProgram& program, const std::vector<Layout>& operands,
                                              const Layout& out, int threads);

// ---------------------------------------------------------------- copy.cc

// Buffers: from, to. Copies every element between two layouts with equal dims. `from_offset` and `to_offset` count
// elements; negative strides of `from` are allowed. Neither layout is padded.
KernelPtr MakeCopyKernel(const Layout& from, int64_t from_offset, const Layout& to, int64_t to_offset,
                         size_t element_bytes, int threads);

// ---------------------------------------------------------------- epilogue.cc

// What follows a product or convolution, element by element: bias, scale and shift per channel, then the residual is
// added, then the functions apply.
struct PostOps {
  bool bias = false;
  bool scale = false;
  bool shift = false;
  bool residual = false;
  std::vector<ActivationFunction> activations;
};

}  // namespace rewright::cpu
