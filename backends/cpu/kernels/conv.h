// Convolutions by oneDNN.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/cpu/fuse/fusion.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/onednn/dnnl_util.h"

namespace rewright::cpu {

// The way of a convolution whose images lie in blocks to run with channels last, which needs no law. Conversions there
// and back are part of it.
inline constexpr char kChannelsLastWay[] = "channels last";
inline constexpr double kMinOperations = 1 << 23;  // of a convolution that is worth a choice between ways

struct ConvProblem {
  DType dtype = DType::kFloat32;  // of images, weights and operands with their shape; or bf16, summed in f32
  Shape src;                      // n, c, h, w
  Shape weights;                  // o, c / groups, r, s
  Shape dst;                      // n, o, y, z
  std::vector<int64_t> strides, pads, dilations;
  int64_t groups = 1;
  PostOps post_ops;
  bool residual_in_place = false;  // it lies where the result is written, and is none of post_ops; not with a scale
  bool channels_last = false;      // images lie so; else as is best in general
};

// Buffers: src, weights, [bias], [scale], [shift], [residual unless in place], dst, [scratch]. Scale and shift are
// filled up with zeros to whole blocks of dst.
struct ConvPlan {
  Layout src, dst;  // the residual lies like dst
  dnnl::memory::desc weights;
  size_t scratch_bytes = 0;
  std::string implementation;  // oneDNN's name: "jit:avx512_core"
  int slowness = 0;            // 0: made for the problem; above: the larger, the slower
  KernelPtr kernel;
};

// The same convolution by oneDNN, for a kernel that computes it in another way and cannot trust what came out. Buffers
// of such a kernel: src, [its own weights], [bias], [scale], [shift], [residual], the weights as they are, dst,
// scratch.
class ConvInstead {
 public:
  // `weights`: in row-major order, of that problem.
  static absl::StatusOr<ConvInstead> Make(const std::shared_ptr<const DnnlContext>& context, const ConvProblem& problem,
                                          ConvPlan plan);

  absl::StatusOr<std::unique_ptr<KernelHandles>> MakeHandles() const;
  // Bytes of the kernel's scratch memory that it takes.
  size_t scratch_bytes() const { return WeightsBytes() + plan_.scratch_bytes; }
  absl::Status Run(void* const* buffers, bool has_own_weights, KernelHandles& handles) const;

 private:
  ConvInstead(ConvPlan plan, KernelPtr reorder, size_t operands)
      : plan_(std::move(plan)), reorder_(std::move(reorder)), operands_(operands) {}
  size_t WeightsBytes() const;

  ConvPlan plan_;
  KernelPtr reorder_;
  size_t operands_;  // of the epilogue
};

// Returns whether the function maps 0 to 0, so that channels that fill a block stay zero.
bool KeepsZero(const ActivationFunction& f);

// The problem of a group of kind kConv, computed in f32, whatever it is of.
ConvProblem ConvProblemOf(const Graph& graph, const FusedGroup& group);
absl::StatusOr<ConvPlan> MakeConv(const std::shared_ptr<const DnnlContext>& context, const ConvProblem& problem);
// Returns whether the group, of kind kConv, is computed on bf16 as it lies in memory: the processor multiplies such
// numbers, and oneDNN does so in layouts without gaps. Where it multiplies them one after another, these have to be the
// layouts that it would take for f32, in which the group may be computed by a law. Where it multiplies tiles of them
// (AMX), channels lie last, and no law is faster.
bool ConvRunsInBf16(const DnnlContext& context, const Graph& graph, const FusedGroup& group);
// Weights as oneDNN reads them from row-major memory.
dnnl::memory::desc PlainConvWeights(const ConvProblem& problem);

}  // namespace rewright::cpu
