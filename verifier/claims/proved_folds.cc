#include "verifier/claims/proved_folds.h"

#include <mutex>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "core/fold/fold.h"
#include "verifier/claims/fold_claims.h"
#include "verifier/prove/prove_instance.h"

namespace rewright {
namespace {

bool IsProved(const Fold& fold) {
  for (size_t k = 0; k < fold.carried.size(); ++k) {
    const absl::StatusOr<FoldLaw> law = LawOfCarried(fold, static_cast<int>(k));
    if (!law.ok() || Prove(law->instance).verdict != Verdict::kProved) return false;
  }
  return true;
}

class ProvedFolds : public AllowedKernelRewrites {
 public:
  explicit ProvedFolds(std::unique_ptr<AllowedKernelRewrites> others) : others_(std::move(others)) {}

  bool Allow(const std::string& law, const Graph& graph, NodeId application, Value meaning) const override {
    return others_->Allow(law, graph, application, meaning);
  }

  bool AllowFold(const Fold& fold) const override {
    const std::string text = fold.ToString({});
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto [known, added] = proved_.try_emplace(text, false);
    if (added) known->second = IsProved(fold);
    return known->second;
  }

 private:
  const std::unique_ptr<AllowedKernelRewrites> others_;
  mutable std::mutex mutex_;
  mutable absl::flat_hash_map<std::string, bool> proved_;  // by the fold's text
};

}  // namespace

std::unique_ptr<AllowedKernelRewrites> WithProvedFolds(std::unique_ptr<AllowedKernelRewrites> others) {
  return std::make_unique<ProvedFolds>(std::move(others));
}

}  // namespace rewright
