#include "substitutions/proved_licences.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace rewright {
namespace {

class ProvedLicences : public Licences {
 public:
  ProvedLicences(RuleSet rules, const std::vector<std::string>& switched_off)
      : rules_(std::move(rules)), switched_off_(switched_off.begin(), switched_off.end()) {}

  // Equal nodes of an arena are one.
  bool Allow(const std::string& law, const Graph& graph, NodeId application, Value meaning) const override {
    const Matcher* const matcher = rules_.Find(law);
    if (matcher == nullptr || switched_off_.contains(law)) return false;
    std::vector<Match> matches;
    matcher->MatchAt(graph, application, &matches);
    for (const Match& match : matches) {
      const absl::StatusOr<ValueMap> replaced = Instantiate(graph, match);
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

}  // namespace

std::unique_ptr<Licences> MakeLicences(RuleSet rules, const std::vector<std::string>& switched_off) {
  return std::make_unique<ProvedLicences>(std::move(rules), switched_off);
}

absl::StatusOr<std::unique_ptr<Licences>> LoadLicences(const std::vector<std::string>& switched_off) {
  ASSIGN_OR_RETURN(const std::string file, FindRuleFile("winograd.rules"));
  ASSIGN_OR_RETURN(RuleSet rules, RuleSet::FromFiles({file}, {.allow_finite_only = true}));
  for (const std::string& name : switched_off) {
    if (rules.Find(name) != nullptr) continue;
    return absl::NotFoundError(
        absl::StrCat("found ", name, ", expected the name of a rule of ", file, ", which license kernels"));
  }
  return MakeLicences(std::move(rules), switched_off);
}

}  // namespace rewright
