#include "search/memory/free_recomputation.h"

#include <algorithm>

#include "core/ir/pointwise.h"
#include "search/min_cut.h"

namespace rewright {
namespace {

using InMemory = ActivationLifetimes::Tensor;

// A minimum cut at the end: a tensor that is kept is cut between the vertex where it is known and the one where late
// readers have it.
class KeptCut {
 public:
  KeptCut(const ActivationLifetimes& waiting, const Residencies& kept)
      : waiting_(waiting), kept_(kept), cut_(2 * waiting.tensors().size()) {
    for (int i = 0; i < static_cast<int>(waiting.tensors().size()); ++i) {
      if (IsHere(i)) Add(i);
    }
  }

  // The tensors that late readers are given otherwise. The cut lies next to the sink: as little as can be is computed
  // again.
  std::vector<int> Dropped() {
    const std::vector<bool> behind = cut_.SinkSide();
    std::vector<int> dropped;
    for (int i = 0; i < static_cast<int>(waiting_.tensors().size()); ++i) {
      if (IsHere(i) && IsFree(i) && behind[Known(i)]) dropped.push_back(i);
    }
    return dropped;
  }

 private:
  const InMemory& tensor(int i) const { return waiting_.tensors()[i]; }
  // Computed before late uses, and not there in any case.
  bool IsHere(int i) const {
    return tensor(i).root == i && tensor(i).may_drop && tensor(i).written >= 0 && tensor(i).written <= waiting_.end();
  }
  bool IsFree(int i) const { return IsPointwise(*waiting_.node(i).meaning); }

  size_t Known(int i) const { return 2 * static_cast<size_t>(i); }
  size_t Late(int i) const { return 2 * static_cast<size_t>(i) + 1; }

  void Add(int i) {
    // The cut may keep only tensors that are kept now: others have no memory of their own.
    const bool keeps = kept_[i] != Residency::kRecomputed;
    cut_.Connect(Known(i), Late(i), keeps ? std::max<int64_t>(1, tensor(i).bytes) : MinCut::kNever);
    if (tensor(i).late >= 0) cut_.Connect(Late(i), cut_.sink(), MinCut::kNever);
    if (!IsFree(i)) {
      cut_.Connect(cut_.source(), Known(i), MinCut::kNever);
      return;
    }
    for (int operand : waiting_.OperandsOf(i)) {
      if (IsHere(operand)) cut_.Connect(Late(operand), Known(i), MinCut::kNever);
    }
  }

  const ActivationLifetimes& waiting_;
  const Residencies& kept_;
  MinCut cut_;
};

}  // namespace

Residencies KeptWithoutFree(const ActivationLifetimes& waiting, const Residencies& kept) {
  Residencies left = kept;
  for (int i : KeptCut(waiting, kept).Dropped()) left[i] = Residency::kRecomputed;
  return left;
}

}  // namespace rewright
