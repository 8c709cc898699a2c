#include "core/interpreter/scatter.h"

#include "core/interpreter/kernels.h"
#include "core/interpreter/run.h"

namespace rewright::interp {
namespace {

class Scatterer {
 public:
  Scatterer(const Scatter& scatter, const std::vector<const void*>& operands, void* out)
      : scatter_(scatter),
        size_(static_cast<int64_t>(RepSize(scatter.rep))),
        accumulate_(FindAccumulate(scatter.rep, scatter.reduce)),
        places_(static_cast<const int64_t*>(operands[scatter.places])),
        terms_(static_cast<const std::byte*>(operands[scatter.terms]) + scatter.term_base * size_),
        out_(static_cast<std::byte*>(out)) {}

  void Run(size_t depth, int64_t out, int64_t place, int64_t term) const {
    if (depth == scatter_.loops.size()) return Take(out, place, term, 0, 1);
    const Scatter::Loop& loop = scatter_.loops[depth];
    // Accumulates a row of terms into a row of the result.
    if (depth + 1 == scatter_.loops.size() && loop.place == 0 && loop.out == 1 && loop.term <= 1) {
      return Take(out, place, term, loop.term, loop.extent);
    }
    for (int64_t i = 0; i < loop.extent; ++i) {
      Run(depth + 1, out + i * loop.out, place + i * loop.place, term + i * loop.term);
    }
  }

 private:
  void Take(int64_t out, int64_t place, int64_t term, int64_t stride, int64_t n) const {
    if (places_[place] < 0) return;
    accumulate_(out_ + (out + places_[place]) * size_, terms_ + term * size_, stride, nullptr, 0, n);
  }

  const Scatter& scatter_;
  const int64_t size_;
  const AccumulateKernel accumulate_;
  const int64_t* places_;
  const std::byte* terms_;
  std::byte* out_;
};

}  // namespace

void RunScatter(const Stage& stage, const std::vector<const void*>& operands, void* out) {
  const Scatter& scatter = *stage.scatter;
  uint64_t empty = 0;
  StoreIdentity(scatter.rep, scatter.reduce, &empty);
  CopyStrided(RepSize(scatter.rep), out, &empty, 0, NumElements(stage.extents));
  Scatterer(scatter, operands, out).Run(0, 0, 0, 0);
}

}  // namespace rewright::interp
