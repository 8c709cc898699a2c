#include "tools/verbs/generate/without_search.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"
#include "core/base/threads.h"
#include "search/resources.h"
#include "substitutions/generate/definitions/definitions.h"
#include "substitutions/generate/enumerate/ranks.h"
#include "substitutions/generate/enumerate/space.h"
#include "substitutions/generate/select/combine_rules.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/rule_set.h"
#include "tools/program/interrupt.h"
#include "tools/program/outputs.h"
#include "tools/program/progress.h"

namespace rewright {

absl::StatusOr<Answer> Combine(const GenerateFlags& flags, Session& session) {
  if (flags.output.empty()) return absl::InvalidArgumentError("-o: the file for the rules is missing");
  RETURN_IF_ERROR(CheckRulesOutput(flags, session));
  LoadOptions all;
  all.allow_risky = all.allow_finite_only = true;
  // Proofs that are stale are an error.
  std::vector<std::string> paths = flags.base;
  paths.insert(paths.end(), flags.combine.begin(), flags.combine.end());
  if (const auto proved = RuleSet::FromFiles(paths, all); !proved.ok()) return proved.status();
  std::vector<std::vector<Rule>> files;
  for (size_t i = 0; i < paths.size(); ++i) {
    absl::StatusOr<std::vector<Rule>> rules = ReadRules(paths[i]);
    if (!rules.ok()) return rules.status();
    if (i == 0 || i >= flags.base.size()) files.emplace_back();
    files.back().insert(files.back().end(), rules->begin(), rules->end());
  }
  Progress progress(session.console, "combine");
  std::atomic<bool> stop{false};
  generate::CombineOptions options;
  options.threads = NumThreads(session.flags.threads);
  options.seed = session.flags.seed;
  options.stop = &stop;
  options.progress = [&](size_t done, size_t rules) {
    if (InterruptGuard::flag()) stop = true;
    progress.Update(static_cast<double>(done) / static_cast<double>(std::max<size_t>(rules, 1)),
                    absl::StrFormat("%d of %s", done, Counted(rules, "rule")));
  };
  const double before = ProcessCpuSeconds();
  const absl::StatusOr<generate::Combination> found = generate::CombineRules(files, options);
  if (!found.ok()) return found.status();
  const double cpu_seconds = ProcessCpuSeconds() - before;
  if (flags.explain) {
    for (const std::string& line : found->explanations) session.console.Result(line);
  }
  session.console.Result(absl::StrFormat(
      "rules:      %d, of them %d added that gain and %d that enable; %d of the base replaced; left out: %d derivable, "
      "%d that exchange inputs, %d whose outputs meet in a number alone, %d without gain; %.2f s of CPU time",
      found->rules.size(), found->gaining, found->enabling, found->replaced, found->derivable, found->exchanging,
      found->unrelated, found->without_gain, cpu_seconds));
  Json& json = session.console.json();
  json["kept"] = found->rules.size();
  json["gaining"] = found->gaining;
  json["enabling"] = found->enabling;
  json["replaced"] = found->replaced;
  json["derivable"] = found->derivable;
  json["exchanging"] = found->exchanging;
  json["unrelated"] = found->unrelated;
  json["without_gain"] = found->without_gain;
  json["cpu_seconds"] = cpu_seconds;
  json["peak_rss_bytes"] = PeakResidentBytes();
  if (!found->complete) {  // a part would say nothing of the rest
    session.console.Warning("stopped before the end; nothing is written");
    return Answer::kNo;
  }
  RETURN_IF_ERROR(WriteOutput(flags.output, PrintRules({CommandOf(flags, session)}, found->rules)));
  return Answer::kYes;
}

absl::StatusOr<Answer> Definitions(const GenerateFlags& flags, Session& session) {
  if (flags.output.empty()) return absl::InvalidArgumentError("-o: the file for the rules is missing");
  if (!flags.space.empty() || flags.count_only || flags.count_raw || flags.sample != 1 || flags.max_ops > 0 ||
      flags.inputs > 0 || flags.memory_limit > 0 || !flags.resume.empty()) {
    return absl::InvalidArgumentError(
        "--preset: definitions searches no space, of which --space, --count-only, --count-raw, --sample, --max-ops, "
        "--inputs, --memory-limit and --resume are");
  }
  if (generate::Ranks::World().rank() != 0) return Answer::kYes;  // too little work to share
  RETURN_IF_ERROR(CheckRulesOutput(flags, session));
  std::vector<const OpDef*> operators = AllOps();
  if (!flags.ops.empty()) {
    operators.clear();
    for (const std::string& name : flags.ops) {
      const OpDef* op = FindOp(name);
      if (op == nullptr) {
        return absl::InvalidArgumentError(absl::StrCat("--ops: found `", name, "`, expected an operator"));
      }
      if (std::find(operators.begin(), operators.end(), op) == operators.end()) operators.push_back(op);
    }
  }
  const double before = ProcessCpuSeconds();
  generate::DefinitionOptions options;
  options.seed = session.flags.seed;
  options.rule_limit_s = flags.rule_limit;
  const auto start = std::chrono::steady_clock::now();
  options.stop = [&] {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    return InterruptGuard::flag() || (flags.time_limit > 0 && elapsed.count() > flags.time_limit);
  };
  const absl::StatusOr<generate::DefinitionRules> found = generate::RulesOfDefinitions(operators, options);
  if (!found.ok()) return found.status();
  if (flags.explain) {
    for (const std::string& line : found->explanations) session.console.Result(line);
  }
  const generate::DefinitionCounts& counts = found->counts;
  session.console.Result(absl::StrFormat("operators:  %d, of them %d elementary and %d not read", counts.operators,
                                         counts.elementary, counts.unread));
  session.console.Result(
      absl::StrFormat("rules:      %d proved; %d derivable, %d refuted, %d unknown; %.2f s of CPU time", counts.proved,
                      counts.derivable, counts.refuted, counts.unknown, ProcessCpuSeconds() - before));
  Json& json = session.console.json();
  json["operators"] = counts.operators;
  json["elementary"] = counts.elementary;
  json["unread"] = counts.unread;
  json["candidates"] = counts.stated;
  json["kept"] = counts.proved;
  json["derivable"] = counts.derivable;
  json["refuted"] = counts.refuted;
  json["unknown"] = counts.unknown;
  json["complete"] = found->complete;
  if (!found->complete) {  // a part would say nothing of the rest
    session.console.Warning("stopped before the end; nothing is written");
    return Answer::kNo;
  }
  RETURN_IF_ERROR(WriteOutput(flags.output, PrintRules({CommandOf(flags, session)}, found->rules)));
  return Answer::kYes;
}

}  // namespace rewright
