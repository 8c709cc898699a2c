#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/base/threads.h"
#include "core/onnx/onnx.h"
#include "tools/library/border.h"
#include "tools/library/equal_models.h"
#include "tools/library/rewright/equal.h"

namespace rewright {
namespace {

absl::StatusOr<ImportedModel> Read(const ModelContents& model, const char* name, const EqualSettings& settings) {
  ImportOptions options = {.dims = settings.dims, .fold_defaults = settings.fold_defaults, .keep_unknown = true};
  options.other_dims = true;
  return model.path.empty() ? ImportOnnxBytes(model.bytes, name, "", options) : ImportOnnx(model.path, options);
}

std::string Summary(const EqualResult& result) {
  std::string text = EqualityName(result.equality);
  if (result.difference) {
    absl::StrAppend(&text, "\noutput: ", DifferenceText(*result.difference));
    if (!result.difference->first.empty()) absl::StrAppend(&text, "\nfirst: ", result.difference->first);
    return text;
  }
  absl::StrAppendFormat(&text, "\nshared: %d of %d values\nregions: %d by rules, %d by the prover", result.shared,
                        result.values, result.regions_by_rules, result.regions.size());
  for (const OpenRegion& open : result.open) absl::StrAppend(&text, "\nleft: ", open.a, " and ", open.b);
  if (result.time_out) absl::StrAppend(&text, "\nthe time limit ended the search for a proof");
  return text;
}

EqualJudgement Judgement(const EqualResult& result) {
  EqualJudgement judgement;
  judgement.answer = EqualityName(result.equality);
  judgement.summary = Summary(result);
  for (const OpenRegion& open : result.open) judgement.open.push_back(open.text);
  if (!result.difference) return judgement;
  judgement.output = result.difference->output;
  judgement.at = result.difference->at;
  judgement.a = result.difference->a;
  judgement.b = result.difference->b;
  judgement.tolerance = result.difference->tolerance;
  judgement.first = result.difference->first;
  return judgement;
}

}  // namespace

EqualJudgement JudgeEqual(const ModelContents& a, const ModelContents& b, const EqualSettings& settings) {
  return Call([&] {
    if (!(settings.time_limit_seconds > 0)) Throw(absl::InvalidArgumentError("the time limit must be above zero"));
    const ImportedModel first = Take(Read(a, "A", settings));
    const ImportedModel second = Take(Read(b, "B", settings));
    for (const auto& [name, size] : settings.dims) {
      if (first.dims.contains(name) || second.dims.contains(name)) continue;
      Throw(absl::InvalidArgumentError(absl::StrCat("there is no symbolic dimension ", name)));
    }
    Take(CheckDefaults(first, second));
    const OptimizerRules rules = Take(LoadEqualRules({}));
    EqualOptions options;
    options.rules = RulesForEqual(rules.all.matchers());
    options.time_limit_s = settings.time_limit_seconds;
    options.seed = settings.seed;
    options.threads = NumThreads(settings.threads);
    options.own_precision = false;
    options.stop = settings.stop;
    const EqualResult result = Take(ProveEqual(first.graph, second.graph, options));
    ThrowIfStopped(settings.stop);
    return Judgement(result);
  });
}

}  // namespace rewright
