// Pointwise groups, shared by threads.
#include <algorithm>

#include "backends/cpu/codegen/tile_program.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/strided.h"
#include "core/base/status_macros.h"

namespace rewright::cpu {
namespace {

class PointwiseKernel : public Kernel {
 public:
  PointwiseKernel(TileProgram program, int64_t positions, int threads)
      : program_(std::move(program)), positions_(positions), threads_(threads) {
    for (int result : program_.program().results) sizes_.push_back(DTypeSize(program_.program().TypeOf(result)));
  }

  absl::Status Run(void* const* buffers, RunContext&) const override {
    const int64_t tiles = (positions_ + kTile - 1) / kTile;
    const int threads = ThreadsFor(positions_, kSharedElements, tiles, threads_);
    ForParts(tiles, threads,
             [&](int64_t begin, int64_t end) { RunRange(buffers, begin * kTile, std::min(positions_, end * kTile)); });
    return absl::OkStatus();
  }

 private:
  void RunRange(void* const* buffers, int64_t begin, int64_t end) const {
    TileSpace tiles;
    program_.Begin(buffers, tiles);
    void* const* out = buffers + program_.program().operands.size();
    void* results[kMaxProgramTiles];
    program_.RunTiles(buffers, tiles, begin, end, [&](int64_t start) {
      for (size_t r = 0; r < sizes_.size(); ++r) {
        results[r] = static_cast<unsigned char*>(out[r]) + static_cast<size_t>(start) * sizes_[r];
      }
      return results;
    });
  }

  const TileProgram program_;
  const int64_t positions_;
  const int threads_;
  std::vector<size_t> sizes_;  // of an element of each result
};

}  // namespace

absl::StatusOr<KernelPtr> MakePointwiseKernel(const PointwiseProgram& program, const std::vector<Layout>& operands,
                                              const Layout& out, const std::vector<int>& over, int threads) {
  ASSIGN_OR_RETURN(TileProgram tiles, TileProgram::Make(program, operands, out, over));
  return KernelPtr(std::make_unique<PointwiseKernel>(std::move(tiles), out.num_elements(), threads));
}

}  // namespace rewright::cpu
