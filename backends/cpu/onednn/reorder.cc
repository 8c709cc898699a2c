#include "backends/cpu/onednn/reorder.h"

#include <cstring>
#include <optional>

#include "backends/cpu/kernels/strided.h"
#include "backends/cpu/kernels/transpose.h"

namespace rewright::cpu {
namespace {

// Weights of 1x1 kernels in blocks of `side` inputs, each of `side` outputs: element (a, b) lies at
// a / side * outer_a + b / side * outer_b + b % side * side + a % side.
struct Blocks {
  int64_t side = 0, count_a = 0, count_b = 0;
  int64_t outer_a = 0, outer_b = 0;
  int64_t to_a = 0, to_b = 0;  // strides of the rows, of which one is 1
};

// None where oneDNN is to do it.
std::optional<Blocks> BlocksOf(const dnnl::memory::desc& from, const dnnl::memory::desc& to) {
  const dnnl_memory_desc_t &a = from.data, &b = to.data;
  const dnnl_blocking_desc_t &blocked = a.format_desc.blocking, &rows = b.format_desc.blocking;
  const auto is_simple = [](const dnnl_memory_desc_t& desc) {
    return desc.format_kind == dnnl_blocked && desc.data_type == dnnl_f32 && desc.offset0 == 0 &&
           desc.extra.flags == dnnl_memory_extra_flag_none;
  };
  if (!is_simple(a) || !is_simple(b) || a.ndims != b.ndims || a.ndims < 3 || rows.inner_nblks != 0) {
    return std::nullopt;
  }
  const bool in_blocks = blocked.inner_nblks == 2 && blocked.inner_idxs[0] == 1 && blocked.inner_idxs[1] == 0 &&
                         blocked.inner_blks[0] == blocked.inner_blks[1] && blocked.inner_blks[0] % kTransposed == 0;
  if (!in_blocks) return std::nullopt;
  for (int k = 0; k < a.ndims; ++k) {
    const bool is_whole = a.dims[k] == b.dims[k] && a.dims[k] == a.padded_dims[k] && b.dims[k] == b.padded_dims[k];
    if (!is_whole || (k > 1 && a.dims[k] != 1)) return std::nullopt;
  }
  const int64_t side = blocked.inner_blks[0];
  if (rows.strides[0] != 1 && rows.strides[1] != 1) return std::nullopt;
  return Blocks{
      side,           a.dims[0] / side, a.dims[1] / side, blocked.strides[0], blocked.strides[1], rows.strides[0],
      rows.strides[1]};
}

// oneDNN writes single elements to rows that are far apart, and takes up to five times as long for it.
class Unblock : public Kernel {
 public:
  Unblock(const Blocks& blocks, int threads) : blocks_(blocks), threads_(threads) {}

  absl::Status Run(void* const* buffers, RunContext&) const override {
    const auto* const from = static_cast<const uint32_t*>(buffers[0]);
    auto* const to = static_cast<uint32_t*>(buffers[1]);
    ForEach(blocks_.count_a, threads_, [&](int64_t a) {
      for (int64_t b = 0; b < blocks_.count_b; ++b) {
        Block(from + a * blocks_.outer_a + b * blocks_.outer_b,
              to + blocks_.side * (a * blocks_.to_a + b * blocks_.to_b));
      }
    });
    return absl::OkStatus();
  }

 private:
  void Block(const uint32_t* from, uint32_t* to) const {
    const int64_t side = blocks_.side;
    if (blocks_.to_b == 1) {
      for (int64_t a = 0; a < side; a += kTransposed) {
        for (int64_t b = 0; b < side; b += kTransposed) {
          Transpose4(from + b * side + a, side, to + a * blocks_.to_a + b, blocks_.to_a);
        }
      }
      return;
    }
    for (int64_t b = 0; b < side; ++b) {
      std::memcpy(to + b * blocks_.to_b, from + b * side, static_cast<size_t>(side) * sizeof(uint32_t));
    }
  }

  const Blocks blocks_;
  const int threads_;
};

}  // namespace

absl::StatusOr<KernelPtr> MakeReorder(const std::shared_ptr<const DnnlContext>& context, const dnnl::memory::desc& from,
                                      const dnnl::memory::desc& to) {
  if (const std::optional<Blocks> blocks = BlocksOf(from, to)) {
    return std::make_unique<Unblock>(*blocks, context->threads);
  }
  return CatchDnnl("reorder", [&]() -> KernelPtr {
    const dnnl::reorder::primitive_desc desc(context->engine, from, context->engine, to, AttrOf());
    if (desc.scratchpad_desc().get_size() > 0) throw dnnl::error(dnnl_unimplemented, "reorder needs scratch space");
    return std::make_unique<DnnlKernel>(context, dnnl::reorder(desc),
                                        std::vector<DnnlArg>{{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  });
}

}  // namespace rewright::cpu
