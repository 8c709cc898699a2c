// The edge to oneDNN: its exceptions end here and become a Status.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/common/layout.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/lower/packed_weights.h"
#include "core/device/device.h"
#include "oneapi/dnnl/dnnl.hpp"

namespace rewright::ort {
class OpaqueNodes;  // backends/onnxruntime/opaque_nodes.h
}

namespace rewright::cpu {

class GroupFolds;  // folds/folds.h

// Shared by all kernels of a device.
struct DnnlContext {
  dnnl::engine engine;
  int threads = 1;
  int64_t block = 8;  // channels per block of the layouts that oneDNN's convolutions run in
  std::shared_ptr<const AllowedKernelRewrites>
      allowed_rewrites;                            // of kernels that compute by other operators; null: none may
  std::shared_ptr<const ort::OpaqueNodes> opaque;  // which run nodes that are not known here; null: none may
  std::shared_ptr<const GroupFolds> folds;         // groups that one pass computes; null: none is
  bool tiles = true;                               // products of f32 may run on tiles of bf16, if there are some
  const std::shared_ptr<PackedWeights> packed = std::make_shared<PackedWeights>();
};

// Sets the number of OpenMP threads that oneDNN sees, for a scope.
class ThreadScope {
 public:
  explicit ThreadScope(int threads);
  ~ThreadScope();
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int before_;
};

// A descriptor; none where oneDNN has no form for the layout (stride 0, rank 0 or above 12).
std::optional<dnnl::memory::desc> DescOf(const Layout& layout, dnnl_data_type_t dtype = dnnl_f32);
// The inverse, for activations; none where the device has no form for it.
std::optional<Layout> LayoutOf(const dnnl::memory::desc& desc);

// Returns whether oneDNN has no implementation, where it was asked with allow_empty.
inline bool IsEmpty(const dnnl::primitive_desc_base& desc) { return desc.get(/*allow_empty=*/true) == nullptr; }

// The rank of an implementation by slowness, 0 for most, by the name that oneDNN gives it ("jit:avx512_core"): products
// with copied windows (1) and loops over single elements (2) come last.
int Slowness(const std::string& implementation);

// The attributes of a primitive that is given its scratch space, and behind which these steps come. Scale and shift lie
// like `per_channel`, the residual like `dst`; `sums`: what the result's memory holds is added, behind these three.
dnnl::primitive_attr AttrOf(const PostOps& post_ops = {}, const dnnl::memory::desc& per_channel = {},
                            const dnnl::memory::desc& dst = {}, bool sums = false);

// oneDNN's numbers for the arguments of a product: src, weights, [bias], [scale], [shift], [residual], dst.
std::vector<int> ProductArgs(const PostOps& post_ops);

struct DnnlArg {
  int arg;
  dnnl::memory::desc desc;
};
// These arguments of a primitive, then scratch space where it needs some.
std::vector<DnnlArg> ArgsOf(const dnnl::primitive_desc_base& desc, const std::vector<int>& numbers);

// Runs one primitive. Buffers: the arguments in order, then scratch space when `scratch_bytes` is not 0. Its handles
// are the stream and the memory objects, which know the addresses of the last run.
class DnnlKernel : public Kernel {
 public:
  DnnlKernel(std::shared_ptr<const DnnlContext> context, const dnnl::primitive& primitive, std::vector<DnnlArg> args);
  absl::StatusOr<std::unique_ptr<KernelHandles>> MakeHandles() const override;
  absl::Status Run(void* const* buffers, RunContext& context) const override;

 private:
  class Handles;

  const std::shared_ptr<const DnnlContext> context_;
  const dnnl::primitive primitive_;
  const std::vector<DnnlArg> args_;
};

// Runs `make`, which may throw dnnl::error, and gives its result or the error as a Status that starts with `what`.
template <typename F>
auto CatchDnnl(const char* what, F make) -> absl::StatusOr<decltype(make())> {
  try {
    return make();
  } catch (const dnnl::error& error) {
    return absl::InternalError(std::string(what) + ": oneDNN: " + error.what());
  }
}

}  // namespace rewright::cpu
