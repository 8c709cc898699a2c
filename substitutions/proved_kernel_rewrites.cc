#include "substitutions/proved_kernel_rewrites.h"

#include <mutex>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "substitutions/match/applier.h"

namespace rewright {
namespace {

class ProvedKernelRewrites : public AllowedKernelRewrites {
 public:
  ProvedKernelRewrites(RuleSet rules, const std::vector<std::string>& switched_off)
      : rules_(std::move(rules)), switched_off_(switched_off.begin(), switched_off.end()) {}

  // Equal nodes of an arena are one.
  bool Allow(const std::string& law, const Graph& graph, NodeId application, Value meaning) const override {
    const Matcher* const matcher = rules_.Find(law);
    if (matcher == nullptr || switched_off_.contains(law)) return false;
    std::vector<Match> matches;
    matcher->MatchAt(graph, application, &matches);
    for (const Match& match : matches) {
      const absl::StatusOr<ValueMap> replaced = BuildReplacement(graph, match);
      if (!replaced.ok()) continue;
      const auto found = replaced->find({application, 0});
      if (found != replaced->end() && found->second == meaning) return true;
    }
    return false;
  }

 private:
  const RuleSet rules_;
  const std::set<std::string> switched_off_;
};

absl::StatusOr<RuleSet> LoadLaws() {
  ASSIGN_OR_RETURN(const std::string file, FindRuleFile("winograd.rules"));
  LoadOptions options;
  options.allow_finite_only = options.allow_risky = true;
  return RuleSet::FromFiles({file}, options);
}

// Reads the laws when a kernel asks for the first time: most models have no use for them.
class LazyKernelRewrites : public AllowedKernelRewrites {
 public:
  bool Allow(const std::string& law, const Graph& graph, NodeId application, Value meaning) const override {
    std::call_once(once_, [this] {
      if (absl::StatusOr<RuleSet> laws = LoadLaws(); laws.ok())
        allowed_rewrites_ = MakeAllowedKernelRewrites(*std::move(laws));
    });
    return allowed_rewrites_ != nullptr && allowed_rewrites_->Allow(law, graph, application, meaning);
  }

 private:
  mutable std::once_flag once_;
  mutable std::unique_ptr<AllowedKernelRewrites> allowed_rewrites_;
};

}  // namespace

std::unique_ptr<AllowedKernelRewrites> MakeAllowedKernelRewrites(RuleSet rules,
                                                                 const std::vector<std::string>& switched_off) {
  return std::make_unique<ProvedKernelRewrites>(std::move(rules), switched_off);
}

absl::StatusOr<std::unique_ptr<AllowedKernelRewrites>> LoadAllowedKernelRewrites(
    const std::vector<std::string>& switched_off, const std::vector<std::string>& others) {
  if (switched_off.empty()) return std::make_unique<LazyKernelRewrites>();
  ASSIGN_OR_RETURN(RuleSet rules, LoadLaws());
  for (const std::string& name : switched_off) {
    if (rules.Find(name) != nullptr) continue;
    return absl::NotFoundError(absl::StrCat("found ", name, ", expected ", absl::StrJoin(others, ", "),
                                            others.empty() ? "" : " or ",
                                            "a rule of winograd.rules, which allow kernels"));
  }
  return MakeAllowedKernelRewrites(std::move(rules), switched_off);
}

}  // namespace rewright
