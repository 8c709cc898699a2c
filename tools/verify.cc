// rewright verify FILE.rules: a verdict for every rule of a file.

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "search/resources.h"
#include "substitutions/rule_set.h"
#include "substitutions/taso/taso.h"
#include "tools/files.h"
#include "tools/flags.h"
#include "tools/interrupt.h"
#include "tools/progress.h"
#include "tools/suggest.h"
#include "tools/verb.h"
#include "verifier/prove_rule.h"

namespace rewright {
namespace {

struct VerifyFlags {
  std::string file;
  std::string format = "rewright";
  std::string output;
  std::vector<std::string> only;
  double time_limit = 60;
};

// A rule of the file, or why it is none of ours.
struct Entry {
  std::string name;
  Rule rule;
  std::string trouble;
};

// Proves all rules, several at a time.
std::vector<RuleVerdict> ProveAll(const std::vector<Entry>& rules, const VerifyFlags& flags, Session& session) {
  std::vector<RuleVerdict> verdicts(rules.size());
  Progress progress(session.console, "verify");
  std::atomic<size_t> next{0};
  std::atomic<size_t> done{0};
  const auto work = [&] {
    for (size_t i = next++; i < rules.size(); i = next++) {
      RuleProofOptions options;
      options.time_limit_s = flags.time_limit;
      options.seed = session.flags.seed;
      options.stop = &InterruptGuard::flag();
      if (flags.format == "taso") options.use = RuleUse::kProof;
      if (rules[i].trouble.empty()) {
        verdicts[i] = ProveRule(rules[i].rule, options);
      } else {
        verdicts[i].reason = rules[i].trouble;
      }
      session.console.Detail(absl::StrFormat("%s: %s, %d instances, %.0f ms", rules[i].name,
                                             VerdictName(verdicts[i].verdict), verdicts[i].instances,
                                             verdicts[i].cpu_ms));
      progress.Update(static_cast<double>(++done) / static_cast<double>(rules.size()), rules[i].name);
    }
  };
  const unsigned wanted = session.flags.threads > 0 ? static_cast<unsigned>(session.flags.threads)
                                                    : std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (unsigned t = 1; t < std::min<size_t>(wanted, rules.size()); ++t) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return verdicts;
}

// What a rule's verdict ought to be: what the file says, else proved.
bool AsExpected(const Rule& rule, const RuleVerdict& verdict) {
  return VerdictName(verdict.verdict) == (rule.expect.empty() ? std::string("proved") : rule.expect);
}

Json ToJson(const Entry& entry, const RuleVerdict& verdict) {
  const Rule& rule = entry.rule;
  Json json = {{"name", entry.name},
               {"verdict", VerdictName(verdict.verdict)},
               {"conditions", ConditionsText(rule)},
               {"domain", verdict.domain}};
  if (verdict.verdict == Verdict::kProved) json["class"] = RuleClassName(verdict.rule_class);
  json["cpu_ms"] = verdict.cpu_ms;
  json["instances"] = verdict.instances;
  if (!rule.expect.empty()) json["expected"] = rule.expect;
  if (!verdict.reason.empty()) json["reason"] = verdict.reason;
  if (!verdict.witness.empty()) json["witness"] = verdict.witness;
  return json;
}

std::string Shortened(const std::string& text) {
  constexpr size_t kShown = 300;
  return text.size() <= kShown ? text : text.substr(0, kShown) + "...";
}

void Report(const Entry& entry, const RuleVerdict& verdict, Console& console) {
  const Rule& rule = entry.rule;
  std::string line = absl::StrFormat("%-8s %s", VerdictName(verdict.verdict), entry.name);
  if (verdict.verdict == Verdict::kProved) {
    absl::StrAppend(&line, absl::StrFormat("  (%s; %s; %.0f ms)", RuleClassName(verdict.rule_class), verdict.domain,
                                           verdict.cpu_ms));
  }
  if (!AsExpected(rule, verdict) && !rule.expect.empty()) absl::StrAppend(&line, "  EXPECTED ", rule.expect);
  if (!verdict.reason.empty()) {
    const bool smaller = verdict.verdict == Verdict::kProved;
    absl::StrAppend(&line, "\n         ", smaller ? "no further: " : "", Shortened(verdict.reason));
  }
  console.Result(line);
}

// All rules, those that are proved with their new record, the others without any: what loads them refuses those. Of
// imported rules only those that are proved and that a matcher can find.
absl::Status WriteProved(const VerifyFlags& flags, const std::vector<Entry>& entries,
                         const std::vector<RuleVerdict>& verdicts, Console& console) {
  int unproved = 0, unmatched = 0;
  std::vector<Rule> rules;
  for (size_t i = 0; i < entries.size(); ++i) {
    Rule rule = entries[i].rule;
    rule.proof.reset();
    const bool imported = flags.format != "rewright";
    const bool proved = verdicts[i].verdict == Verdict::kProved;
    unproved += !proved;
    if (imported && !proved) continue;
    if (imported && !CompileRule(rule).ok()) {
      ++unmatched;
      continue;
    }
    if (proved) {
      absl::StatusOr<ProofRecord> record = RecordOf(rule, verdicts[i]);
      if (!record.ok()) return record.status();
      rule.proof = *std::move(record);
    }
    rules.push_back(std::move(rule));
  }
  if (unproved > 0) console.Warning(absl::StrFormat("%s: %d rules have no proof", flags.output, unproved));
  if (unmatched > 0) {
    console.Warning(absl::StrFormat("%s: %d proved rules are left out, since their outputs share nothing",
                                    flags.output, unmatched));
  }
  return WriteRules(flags.output, {}, rules);
}

absl::StatusOr<std::vector<Entry>> ReadEntries(const VerifyFlags& flags) {
  std::vector<Entry> entries;
  if (flags.format == "rewright") {
    absl::StatusOr<std::vector<Rule>> rules = ReadRules(flags.file);
    if (!rules.ok()) return rules.status();
    for (Rule& rule : *rules) entries.push_back({rule.name, std::move(rule), ""});
    return entries;
  }
  const absl::StatusOr<std::string> data = ReadText(flags.file);
  if (!data.ok()) return data.status();
  absl::StatusOr<std::vector<TasoRule>> rules =
      ReadTasoRules(*data, std::filesystem::path(flags.file).filename().string());
  if (!rules.ok()) return rules.status();
  for (TasoRule& rule : *rules) {
    if (rule.rule.ok()) {
      entries.push_back({rule.name, *std::move(rule.rule), ""});
    } else {
      entries.push_back({rule.name, Rule(), std::string(rule.rule.status().message())});
    }
  }
  return entries;
}

absl::StatusOr<std::vector<Entry>> LoadEntries(const VerifyFlags& flags) {
  absl::StatusOr<std::vector<Entry>> entries = ReadEntries(flags);
  if (!entries.ok() || flags.only.empty()) return entries;
  std::vector<Entry> chosen;
  std::vector<std::string> names;
  for (const Entry& entry : *entries) names.push_back(entry.name);
  for (const std::string& name : flags.only) {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--rule: ", flags.file, " has no rule `", name, "`", DidYouMean(name, names)));
    }
    chosen.push_back((*entries)[static_cast<size_t>(at - names.begin())]);
  }
  return chosen;
}

absl::StatusOr<Answer> Verify(const VerifyFlags& flags, Session& session) {
  Console& console = session.console;
  if (!flags.output.empty()) {
    absl::Status status = CheckWritable(flags.output);
    if (!status.ok()) return status;
  }
  const absl::StatusOr<std::vector<Entry>> rules = LoadEntries(flags);
  if (!rules.ok()) return rules.status();
  const double cpu_before = ProcessCpuSeconds();
  const InterruptGuard interrupt;
  const std::vector<RuleVerdict> verdicts = ProveAll(*rules, flags, session);

  std::map<Verdict, int> counts;
  int unexpected = 0;
  Json list = Json::array();
  for (size_t i = 0; i < rules->size(); ++i) {
    ++counts[verdicts[i].verdict];
    unexpected += !AsExpected((*rules)[i].rule, verdicts[i]);
    list.push_back(ToJson((*rules)[i], verdicts[i]));
    Report((*rules)[i], verdicts[i], console);
  }
  const double cpu_seconds = ProcessCpuSeconds() - cpu_before;
  console.Result(absl::StrFormat("%d rules: %d proved, %d refuted, %d unknown; %d not as expected; %.1f s of CPU time",
                                 rules->size(), counts[Verdict::kProved], counts[Verdict::kRefuted],
                                 counts[Verdict::kUnknown], unexpected, cpu_seconds));
  Json& json = console.json();
  json["rules"] = std::move(list);
  json["proved"] = counts[Verdict::kProved];
  json["refuted"] = counts[Verdict::kRefuted];
  json["unknown"] = counts[Verdict::kUnknown];
  json["unexpected"] = unexpected;
  json["cpu_seconds"] = cpu_seconds;
  if (!flags.output.empty()) {
    absl::Status status = WriteProved(flags, *rules, verdicts, console);
    if (!status.ok()) return status;
  }
  return unexpected == 0 ? Answer::kYes : Answer::kNo;
}

}  // namespace

Action DeclareVerify(CLI::App& app) {
  auto flags = std::make_shared<VerifyFlags>();
  app.add_option("file", flags->file, "Rules to prove")->required()->type_name("FILE.rules");
  app.add_option("-o,--output", flags->output, "Write the rules with the records of their proofs")
      ->type_name("PROVED.rules");
  AddChoice(app, "--format", &flags->format, {"rewright", "taso"},
            "taso: the file is a protobuf rule file of TASO; its rules are called by their index");
  app.add_option("--rule", flags->only, "Only this rule (repeatable)")->type_name("NAME")->allow_extra_args(false);
  AddReal(app, "--time-limit", &flags->time_limit, 0.001, 1e9,
          "Seconds of CPU time for one rule, then it is unknown (default 60)");
  return [flags](Session& session) { return Verify(*flags, session); };
}

}  // namespace rewright
