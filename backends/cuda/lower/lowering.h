// From a graph to a schedule for the GPU: every value gets a place in memory, every group its kernels.
//
// Layouts are strides (backends/common/layout.h, never blocked). Transposes, slices, splits, expansions and most
// reshapes are views: other strides over the memory of their operand, which generated kernels read as they are, and
// products too where one of the last two axes is contiguous. Convolutions read and write dense images, row-major or
// with channels innermost; other kernels keep the order of axes in memory of what they read.
//
// With a precision of 16 bits, f32 values are stored in 16 bits between kernels; graph inputs and outputs are not.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "backends/common/layout.h"
#include "backends/common/schedule_builder.h"
#include "backends/cuda/codegen/kernel_source.h"
#include "backends/cuda/codegen/kernel_text.h"
#include "backends/cuda/cuda_device.h"
#include "backends/cuda/fuse/fusion.h"
#include "backends/cuda/gpu.h"
#include "backends/cuda/lower/context_layout.h"
#include "backends/cuda/memory/gpu_memory.h"
#include "core/device/device.h"

namespace rewright::cuda {

struct LoweringOptions : CudaOptions {
  // For measuring a group alone: inputs lie like this, inputs and outputs are stored as between kernels.
  std::map<Value, Layout> input_layouts;
  bool inside = false;
};

// The layout of a dense tensor whose axes follow one another in memory as in `like`, of the same rank.
Layout DenseLike(const Layout& like, const Shape& dims);
// The options by which nodes are fused into groups.
inline FusionOptions FusionOptionsOf(const CudaOptions& options) {
  return {IsHalf(options.precision), options.channels_last, IsHalf(options.precision) ? 2 : 4};
}
// The layout of the result of a product (or attention) without an epilogue: in the order of the transpose that reads
// it, where one stride, or two of two axes, walk over the batches; else row-major.
Layout ProductLayout(const Graph& graph, Value result);

class Lowering : private ScheduleBuilder {
 public:
  // `gpu` outlives the schedule.
  Lowering(Gpu& gpu, const Graph& graph, LoweringOptions options);
  absl::StatusOr<Schedule> Run();
  // After Run: how a value lies that a group was to leave in memory; nothing for all others.
  std::optional<Layout> LayoutOf(Value value) const;

 private:
  struct Place {
    int buffer = -1;
    Layout layout;
    bool aligned = true;  // to 16 bytes
    Storage storage = Storage::kNative;
  };
  // A kernel whose function is compiled at the end, together with all others.
  struct PendingKernel {
    size_t step = 0;
    GeneratedKernel kernel;
  };

  absl::Status FoldConstants();
  // A constant buffer with these bytes.
  absl::StatusOr<int> Upload(const void* data, size_t bytes);

  // The form in which values of a type are stored between kernels.
  Storage StorageOf(DType dtype) const;
  int64_t ElementBytes(Value value, Storage storage) const { return StorageBytes(graph_.type(value).dtype, storage); }
  size_t Bytes(Value value, const Layout& layout, Storage storage) const;
  absl::StatusOr<Place> Find(Value value);
  absl::StatusOr<Place> FindAs(Value value, const Layout& layout, Storage storage, bool aligned = false);
  // Makes room for a result; `by_library`: it is stored as between kernels, also where it is a graph output.
  Place Define(Value value, const Layout& layout, bool by_library = false);
  Place MakePlace(Value value, const Layout& layout, Storage storage);
  // A kernel and the buffers that it is passed.
  struct GeneratedWork {
    GeneratedKernel kernel;
    std::vector<int> buffers;
  };
  absl::StatusOr<GeneratedWork> Generate(const std::vector<NodeId>& nodes, Value result, const Place& out);
  void EmitWork(GeneratedWork work, const std::string& label);
  absl::Status EmitGenerated(const std::vector<NodeId>& nodes, Value result, const Place& out,
                             const std::string& label);
  // A call of a library that does the same as a kernel, and its buffers but the workspace.
  struct Alternative {
    std::unique_ptr<LibraryCall> call;  // null: there is none
    std::vector<int> buffers;
  };
  absl::StatusOr<Alternative> AlternativeOf(const FusedGroup& group, const Place& out);
  absl::StatusOr<bool> IsFaster(const Alternative& alternative, const GeneratedWork& generated);
  // Emits the generated kernel, or the call of a library that does the same in less time.
  absl::Status EmitFaster(const FusedGroup& group, Value result, const Place& out, const std::string& label);
  absl::Status EmitCall(std::unique_ptr<LibraryCall> call, std::vector<int> buffers, int result,
                        const std::string& label);
  // Compiles the pending kernels from number `first` on.
  absl::Status CompilePending(size_t first = 0);
  // Runs the steps that depend on constants alone (weights in another layout or precision), once: what they write are
  // constants, and they leave the schedule.
  absl::Status RunConstantSteps();
  // Tells the work of a step from all other work.
  std::string KeyOf(const Step& step) const;
  // As in backends/cpu/lower/lowering.h.
  absl::Status Finish();
  absl::Status CommitStates();
  // In row-major memory that no commit overwrites: a copy, of kind `kind`, of what lies in a state.
  absl::StatusOr<Place> FindBeside(Value value, Buffer::Kind kind);

  absl::Status LowerGroup(const FusedGroup& group);
  absl::Status LowerView(const FusedGroup& group);
  absl::Status LowerKernel(const FusedGroup& group);
  // Lowers in all of these ways, each of which defines the same values, tries them, and keeps the fastest.
  absl::Status LowerFastest(const std::vector<std::function<absl::Status()>>& ways);
  absl::Status LowerConv(const FusedGroup& group);
  // Returns whether the pixels of its image fill no multiples of 16 bytes, as the library's engines read them.
  bool Pads(const Node& node) const;
  // With padded channels where there are such pixels, if that is faster.
  absl::Status LowerPaddedConv(const FusedGroup& group);
  // `padded`: with zeros as further channels, up to a multiple of 16 bytes.
  absl::Status LowerConvCall(const FusedGroup& group, bool padded = false);
  absl::Status LowerMatmul(const FusedGroup& group);
  absl::Status LowerMatmulCall(const FusedGroup& group);
  // A product of two batch axes that have a stride each, between values as they lie.
  struct ProductApart {
    MatmulProblem problem;
    int left = -1, right = -1;  // buffers
    Layout out;
  };
  // Nothing where one stride walks over both axes of all three, or the values lie in no such way.
  absl::StatusOr<std::optional<ProductApart>> FindApart(const FusedGroup& group);
  // The sizes of the product.
  MatmulProblem ProblemOf(const Node& node) const;
  // An attention as the library is asked for it.
  struct AttentionParts {
    Value factors[3];  // queries, keys, values
    Layout layouts[3], mask, out;
    AttentionProblem problem;
  };
  absl::StatusOr<AttentionParts> PartsOfAttention(const FusedGroup& group);
  absl::Status LowerAttentionCall(const FusedGroup& group, const AttentionParts& parts);
  absl::Status LowerAttention(const FusedGroup& group);
  // Computes a product or convolution that the library does not compute, for the reason in `fault`: without its
  // epilogue, if that helps; else a generated kernel does, slowly, and its label says so. A fault for lack of memory
  // stays an error.
  absl::Status LowerWithout(const FusedGroup& group, const Fault& fault);
  // Each of the groups that these nodes become.
  absl::Status LowerParts(const FusedGroup& group, Epilogue epilogue);
  absl::Status LowerConcat(const FusedGroup& group);
  // Makes room for concatenations whose parts are written in place, before any part is.
  void PlaceConcat(const FusedGroup& group);
  // The place of a part, null for other values.
  const ConcatSlot* SlotOf(Value value) const;
  // The value of a call that wrote into its slot, where it has one.
  Place DefineCall(Value value, const Layout& layout);
  // The layout that a factor of an attention needs, with neighbouring elements along `inner`: its present one if that
  // fits.
  absl::StatusOr<Layout> AttentionLayout(Value value, size_t inner);
  // A matrix operand: its place and layout, converted where a product cannot read it.
  absl::StatusOr<MatrixLayout> Matrix(Value value, const Shape& batch, Place* place);
  // The layout in which convolutions read and write images and filters.
  Layout ImageLayout(const Shape& dims) const;
  absl::StatusOr<Place> FindImage(Value value);
  // Channels in 16 bytes, and an image or filters with channels innermost padded with zeros to multiples of this
  // number.
  int64_t ChannelUnit() const;
  absl::StatusOr<Place> FindPaddedImage(Value value);
  // Where it lies, if that is some channels of such an image.
  absl::StatusOr<Place> FindImageOrSlice(Value value);
  // Zeros where there is no such value.
  absl::StatusOr<Place> Bias(Value value, int64_t channels, Storage storage);
  // Appends bias, if the call has one, and residual to the buffers of a call.
  absl::Status AddEpilogue(const FusedGroup& group, bool bias, int64_t channels, const Layout& out, Storage storage,
                           std::vector<int>* buffers);

  Gpu& gpu_;
  GpuMemory memory_;  // on which alternatives are tried
  const Graph& graph_;
  const LoweringOptions options_;
  std::vector<PendingKernel> pending_;
  absl::flat_hash_map<Value, Tensor> folded_;
  absl::flat_hash_map<Value, std::vector<Place>> places_;         // the first is where the value is by nature
  absl::flat_hash_map<Value, std::pair<int, ConcatSlot>> slots_;  // of parts: the whole's buffer and the place in it
  absl::flat_hash_map<Value, Place> wholes_;                      // of concatenations with parts in place
  std::set<Value> results_;                                       // what the caller gets
  std::set<Value> output_taken_;                                  // those that have their buffer
};

}  // namespace rewright::cuda
