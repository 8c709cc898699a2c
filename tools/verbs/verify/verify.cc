// rewright verify FILE.rules: a verdict for every rule of a file. rewright verify --gradients: for the derived
// gradients.

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/base/suggest.h"
#include "core/base/threads.h"
#include "search/resources.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/rule_set.h"
#include "substitutions/taso/taso.h"
#include "tools/program/flags.h"
#include "tools/program/interrupt.h"
#include "tools/program/outputs.h"
#include "tools/program/progress.h"
#include "tools/program/verb.h"
#include "tools/verbs/rules/rules.h"
#include "tools/verbs/verify/certificate_folder.h"
#include "tools/verbs/verify/counterexample_models.h"
#include "tools/verbs/verify/verify_gradients.h"
#include "tools/verbs/verify/verify_journal.h"
#include "verifier/certificate/certificate.h"
#include "verifier/infer/infer.h"
#include "verifier/prove_rule.h"

namespace rewright {
namespace {

struct VerifyFlags {
  std::string file;
  std::string format = "rewright";
  std::string output;
  std::string certificates;
  std::string counterexamples;
  std::string journal;
  std::vector<std::string> only;
  double time_limit = 60;
  bool infer = false;
  bool renew = false;
};

// A rule of the file, or why it is none of ours.
struct Entry {
  std::string name;
  Rule rule;
  std::string trouble;
  bool ill_formed = false;  // an error of the file; else a rule of a foreign format that cannot be stated here
};

struct RuleOutcome {
  RuleVerdict verdict;
  Json counterexample;
  std::string seal;                    // of the certificate that was written
  bool reused = false;                 // from the journal
  bool kept = false;                   // its record is good, and renewal was asked for
  std::optional<Inference> inference;  // where one was asked for and the rule is refuted
};

// Makes the folder. Error: the certificate of a rule, or the index, has no place in it.
absl::Status CheckCertificates(const VerifyFlags& flags, const std::vector<Entry>& rules) {
  RETURN_IF_ERROR(MakeCertificateFolder(flags.certificates));
  for (const Entry& entry : rules) {
    RETURN_IF_ERROR(OutputTarget(CertificatePath(flags.certificates, entry.rule.name)).status());
  }
  return absl::OkStatus();
}

// Proves all rules, several at a time. Each verdict goes to the journal and the folder of certificates at once, so that
// an interrupted run keeps it.
class Verification {
 public:
  Verification(const std::vector<Entry>& rules, const VerifyFlags& flags, Session& session)
      : rules_(rules), flags_(flags), session_(session), outcomes_(rules.size()) {}

  absl::Status Run() {
    if (!flags_.journal.empty()) {
      RETURN_IF_ERROR(journal_.Open(flags_.journal));
    }
    if (!flags_.only.empty() && !flags_.certificates.empty()) {
      // Certificates of the other rules stay.
      absl::StatusOr<CertificateIndex> known = ReadCertificateIndex(flags_.certificates);
      if (known.ok()) index_ = *std::move(known);
    }
    Progress progress(session_.console, "verify");
    std::atomic<size_t> done{0};
    ForEachIndex(rules_.size(), NumThreads(session_.flags.threads), [&](size_t i) {
      Visit(i);
      progress.Update(static_cast<double>(++done) / static_cast<double>(rules_.size()),
                      absl::StrFormat("%d of %d  %s", done.load(), rules_.size(), rules_[i].name));
    });
    if (fault_.ok() && !flags_.certificates.empty()) return WriteIndex();
    return fault_;
  }

  const std::vector<RuleOutcome>& outcomes() const { return outcomes_; }

 private:
  RuleProofOptions Options() const {
    RuleProofOptions options;
    options.work_limit_s = flags_.time_limit;
    options.instance_limit_s = std::max(options.instance_limit_s, flags_.time_limit / 3);
    options.seed = session_.flags.seed;
    options.stop = &InterruptGuard::flag();
    options.certify = !flags_.certificates.empty();
    if (flags_.format == "taso") options.use = RuleUse::kProof;
    return options;
  }

  void Visit(size_t i) {
    Judge(i);
    if (!flags_.infer || outcomes_[i].verdict.verdict != Verdict::kRefuted) return;
    RuleProofOptions options = Options();
    options.certify = false;
    outcomes_[i].inference = InferConditions(rules_[i].rule, options);
  }

  void Judge(size_t i) {
    if (!rules_[i].trouble.empty()) {
      outcomes_[i].verdict.reason = rules_[i].trouble;
      return;
    }
    const Rule& rule = rules_[i].rule;
    if (flags_.renew && Keep(rule, &outcomes_[i])) return;
    const RuleProofOptions options = Options();
    const std::optional<std::string> key = journal_.is_open() ? JournalKey(rule, options) : std::nullopt;
    if (key && Reuse(rule, *key, &outcomes_[i])) return;
    RuleOutcome& outcome = outcomes_[i];
    RuleVerdict& verdict = outcome.verdict;
    verdict = ProveRule(rule, options);
    if (verdict.counterexample) outcome.counterexample = ToJson(*verdict.counterexample, verdict.instance);
    if (verdict.counterexample && !flags_.counterexamples.empty()) {
      const absl::Status written = WriteCounterexample(flags_.counterexamples, rule, verdict);
      if (!written.ok()) {
        session_.console.Warning(absl::StrCat("rule ", rule.name, ": no models of its counterexample: ",
                                              std::string(written.message())));
      }
    }
    session_.console.Detail(absl::StrFormat("%s: %s, %d instances, %.0f ms", rule.name, VerdictName(verdict.verdict),
                                            verdict.instances, verdict.cpu_ms));
    if (!verdict.trouble.empty()) {
      session_.console.Warning(absl::StrCat("rule ", rule.name, ": proved, but without its ", verdict.trouble));
    }
    if (verdict.verdict == Verdict::kProved && options.certify && verdict.certificate.empty()) {
      Note(absl::InternalError(absl::StrCat("rule ", rule.name, ": no certificate: ", verdict.trouble)));
    }
    const absl::StatusOr<std::string> seal = WriteCertificate(flags_.certificates, rule.name, &verdict);
    if (seal.ok()) outcome.seal = *seal;
    Note(seal.status());
    if (key && !verdict.interrupted && verdict.trouble.empty())
      Note(journal_.Add(*key, rule, {verdict, outcome.counterexample, outcome.seal}));
  }

  static bool Keep(const Rule& rule, RuleOutcome* outcome) {
    const auto compiled = CompileRule(rule);
    if (!compiled.ok() || !CheckRecord(**compiled).ok()) return false;
    outcome->kept = true;
    outcome->verdict.verdict = Verdict::kProved;
    outcome->verdict.rule_class = rule.proof->rule_class;
    outcome->verdict.limits = rule.proof->domain;
    outcome->verdict.instances = rule.proof->instances;
    outcome->verdict.domain = "as its record says";
    return true;
  }

  bool Reuse(const Rule& rule, const std::string& key, RuleOutcome* outcome) const {
    const JournalEntry* entry = journal_.Find(key);
    if (entry == nullptr) return false;
    if (!flags_.certificates.empty() && entry->verdict.verdict == Verdict::kProved) {
      const absl::StatusOr<std::string> text = ReadText(CertificatePath(flags_.certificates, rule.name));
      if (!text.ok() || entry->seal.empty() || SealAtEnd(*text) != entry->seal) return false;
    }
    outcome->verdict = entry->verdict;
    outcome->counterexample = entry->counterexample;
    outcome->seal = entry->seal;
    outcome->reused = true;
    return true;
  }

  absl::Status WriteIndex() {
    for (size_t i = 0; i < rules_.size(); ++i) {
      const std::string file = CertificateFileName(rules_[i].rule.name);
      index_.erase(file);
      if (!outcomes_[i].seal.empty()) index_[file] = outcomes_[i].seal;
    }
    return WriteCertificateIndex(flags_.certificates, index_);
  }

  // Keeps the first thing that went wrong with a file.
  void Note(const absl::Status& status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (fault_.ok()) fault_ = status;
  }

  const std::vector<Entry>& rules_;
  const VerifyFlags& flags_;
  Session& session_;
  std::vector<RuleOutcome> outcomes_;
  VerifyJournal journal_;
  CertificateIndex index_;
  std::mutex mutex_;
  absl::Status fault_;
};

std::string VerdictText(const Entry& entry, const RuleVerdict& verdict) {
  return entry.ill_formed ? "error" : VerdictName(verdict.verdict);
}

// Returns whether the verdict is the expected one: that of the file, else proved.
bool AsExpected(const Rule& rule, const RuleVerdict& verdict) {
  return VerdictName(verdict.verdict) == (rule.expect.empty() ? std::string("proved") : rule.expect);
}

Json ToJson(const Inference& inference) {
  Json answers = Json::array();
  for (const InferredCondition& answer : inference.answers) {
    Json refuted = Json::array();
    for (const WeakerCondition& weaker : answer.refuted) {
      refuted.push_back({{"when", weaker.when}, {"witness", weaker.witness}});
    }
    answers.push_back({{"when", answer.when},
                       {"class", RuleClassName(answer.verdict.rule_class)},
                       {"domain", answer.verdict.domain},
                       {"refuted_weaker", std::move(refuted)},
                       {"unknown_weaker", answer.unknown}});
  }
  return {{"answers", std::move(answers)},
          {"family", inference.family},
          {"attempts", inference.attempts},
          {"complete", inference.complete},
          {"cpu_ms", inference.cpu_ms}};
}

Json ToJson(const Entry& entry, const RuleOutcome& outcome) {
  const Rule& rule = entry.rule;
  const RuleVerdict& verdict = outcome.verdict;
  Json json = {{"name", entry.name},
               {"verdict", VerdictText(entry, verdict)},
               {"conditions", ConditionsText(rule)},
               {"domain", verdict.domain}};
  if (verdict.verdict == Verdict::kProved) json["class"] = RuleClassName(verdict.rule_class);
  json["cpu_ms"] = verdict.cpu_ms;
  json["instances"] = verdict.instances;
  json["proofs"] = verdict.proofs;
  json["trials"] = verdict.trials;
  if (verdict.vacuous > 0) json["vacuous"] = verdict.vacuous;
  if (verdict.verdict == Verdict::kProved && !outcome.kept) json["ranks"] = verdict.every_rank ? "any" : "each";
  if (!rule.expect.empty()) json["expected"] = rule.expect;
  if (!verdict.reason.empty()) json["reason"] = verdict.reason;
  if (!verdict.witness.empty()) json["witness"] = verdict.witness;
  if (outcome.counterexample.is_object()) json["counterexample"] = outcome.counterexample;
  if (!outcome.seal.empty()) json["certificate"] = CertificateFileName(rule.name);
  if (outcome.reused) json["reused"] = true;
  if (outcome.kept) json["kept"] = true;
  if (outcome.inference) json["inferred"] = ToJson(*outcome.inference);
  return json;
}

std::string Shortened(const std::string& text) {
  constexpr size_t kShown = 300;
  return text.size() <= kShown ? text : text.substr(0, kShown) + "...";
}

void Report(const Inference& inference, Console& console) {
  if (inference.answers.empty()) {
    console.Result(absl::StrFormat("         no condition of the family is proved%s; %d tried",
                                   inference.complete ? "" : " in time", inference.attempts));
  }
  const char* before = "proved   ";
  for (const InferredCondition& answer : inference.answers) {
    console.Result(absl::StrCat("         ", before, "when ", answer.when));
    before = "and also ";
    std::vector<std::string> weaker;
    for (const WeakerCondition& refuted : answer.refuted) weaker.push_back(refuted.when);
    if (!weaker.empty()) {
      console.Result(absl::StrCat("           weaker and refuted: ", Shortened(absl::StrJoin(weaker, "; "))));
    }
    if (!answer.unknown.empty()) {
      console.Result(absl::StrCat("           weaker and unknown: ", Shortened(absl::StrJoin(answer.unknown, "; "))));
    }
  }
}

void Report(const Entry& entry, const RuleOutcome& outcome, Console& console) {
  const RuleVerdict& verdict = outcome.verdict;
  const Rule& rule = entry.rule;
  std::string line = absl::StrFormat("%-8s %s", outcome.kept ? "kept" : VerdictText(entry, verdict), entry.name);
  if (verdict.verdict == Verdict::kProved) {
    absl::StrAppend(&line, absl::StrFormat("  (%s; %s; %.0f ms)", RuleClassName(verdict.rule_class), verdict.domain,
                                           verdict.cpu_ms));
  }
  if (!AsExpected(rule, verdict) && !rule.expect.empty()) absl::StrAppend(&line, "  EXPECTED ", rule.expect);
  if (!verdict.reason.empty()) {
    const bool smaller = verdict.verdict == Verdict::kProved;
    absl::StrAppend(&line, "\n         ", smaller ? "no further: " : "", Shortened(verdict.reason));
  }
  // The first line of a witness is the reason; then come the inputs.
  const std::vector<std::string> witness = absl::StrSplit(verdict.witness, '\n');
  for (size_t k = 1; k < witness.size(); ++k) absl::StrAppend(&line, "\n         ", Shortened(witness[k]));
  console.Result(line);
  if (outcome.inference) Report(*outcome.inference, console);
}

// Writes all rules: proved ones with their new record, those that an interrupt left out with the record they had, the
// others without any: the loader refuses those. Imported rules are written only if they are proved and a matcher can
// find them. A rule for which a condition was found counts as proved under it.
absl::Status WriteProved(const VerifyFlags& flags, const std::vector<Entry>& entries,
                         const std::vector<RuleOutcome>& outcomes, Console& console) {
  int unproved = 0, unmatched = 0;
  std::vector<Rule> rules;
  for (size_t i = 0; i < entries.size(); ++i) {
    const std::optional<Inference>& inference = outcomes[i].inference;
    const InferredCondition* inferred = inference && !inference->answers.empty() ? &inference->answers[0] : nullptr;
    Rule rule = inferred != nullptr ? inferred->rule : entries[i].rule;
    const RuleVerdict& verdict = inferred != nullptr ? inferred->verdict : outcomes[i].verdict;
    const bool imported = flags.format != "rewright";
    const bool proved = verdict.verdict == Verdict::kProved;
    if (outcomes[i].kept) {
      rules.push_back(std::move(rule));
      continue;
    }
    if (!verdict.interrupted) rule.proof.reset();
    unproved += !proved && !rule.proof;
    if (imported && !proved) continue;
    if (imported && !CompileRule(rule).ok()) {
      ++unmatched;
      continue;
    }
    if (proved) {
      // A renewed record has the same contents as before, made anew.
      const bool halves = !flags.renew || !entries[i].rule.proof || entries[i].rule.proof->halves;
      absl::StatusOr<ProofRecord> record = RecordOf(
          rule, verdict, outcomes[i].seal.empty() ? "" : CertificateFrom(flags.output, flags.certificates, rule.name),
          halves);
      if (!record.ok()) return record.status();
      rule.proof = *std::move(record);
    }
    rules.push_back(std::move(rule));
  }
  if (unproved > 0) {
    const std::string rules_text = Counted(static_cast<size_t>(unproved), "rule");
    console.Warning(absl::StrCat(flags.output, ": ", rules_text, " without a proof"));
  }
  if (unmatched > 0) {
    console.Warning(absl::StrFormat("%s: %d proved rules are left out, since their outputs share nothing", flags.output,
                                    unmatched));
  }
  return WriteOutput(flags.output, PrintRules({}, rules));
}

// A rule of a file of ours. One that parses and does not compile stays, so that it can be written again.
Entry EntryOf(const std::string& name, absl::StatusOr<Rule> rule) {
  Entry entry{name};
  absl::Status wrong = rule.status();
  if (rule.ok()) {
    wrong = CompileRule(*rule).status();
    entry.rule = *std::move(rule);
  }
  entry.ill_formed = !wrong.ok();
  entry.trouble = std::string(wrong.message());
  return entry;
}

absl::StatusOr<std::vector<Entry>> ReadEntries(const VerifyFlags& flags) {
  std::vector<Entry> entries;
  if (flags.format == "rewright") {
    absl::StatusOr<std::vector<Rule>> rules = ReadRules(flags.file);
    if (!rules.ok()) {
      // One bad rule leaves the others their verdicts. Rules that cannot be read cannot be written again.
      const absl::StatusOr<std::string> text = ReadText(flags.file);
      if (!text.ok() || !flags.output.empty()) return rules.status();
      for (ParsedRule& parsed : ParseEachRule(*text, flags.file)) {
        entries.push_back(EntryOf(parsed.name, std::move(parsed.rule)));
      }
      const bool none =
          std::none_of(entries.begin(), entries.end(), [](const Entry& entry) { return entry.trouble.empty(); });
      if (none) return rules.status();
      return entries;
    }
    for (Rule& rule : *rules) entries.push_back(EntryOf(rule.name, rule));
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
    chosen.push_back((*entries)[at - names.begin()]);
  }
  return chosen;
}

absl::StatusOr<Answer> Verify(const VerifyFlags& flags, Session& session) {
  Console& console = session.console;
  RETURN_IF_ERROR(CheckOutputs(
      {{"-o", flags.output, OutputFlag::Use::kReplaceInPlace}, {"--resume", flags.journal, OutputFlag::Use::kKeep}},
      {flags.file}, session));
  const absl::StatusOr<std::vector<Entry>> rules = LoadEntries(flags);
  if (!rules.ok()) return rules.status();
  if (!flags.certificates.empty()) RETURN_IF_ERROR(CheckCertificates(flags, *rules));
  const double cpu_before = ProcessCpuSeconds();
  const InterruptGuard interrupt;
  Verification verification(*rules, flags, session);
  RETURN_IF_ERROR(verification.Run());
  const std::vector<RuleOutcome>& outcomes = verification.outcomes();

  std::map<Verdict, int> counts;
  int ill_formed = 0, unexpected = 0, reused = 0, kept = 0, interrupted = 0;
  Json list = Json::array();
  for (size_t i = 0; i < rules->size(); ++i) {
    const RuleVerdict& verdict = outcomes[i].verdict;
    if ((*rules)[i].ill_formed) {
      ++ill_formed;
    } else {
      ++counts[verdict.verdict];
      unexpected += !AsExpected((*rules)[i].rule, verdict);
    }
    reused += outcomes[i].reused;
    kept += outcomes[i].kept;
    interrupted += verdict.interrupted;
    list.push_back(ToJson((*rules)[i], outcomes[i]));
    Report((*rules)[i], outcomes[i], console);
  }
  const double cpu_seconds = ProcessCpuSeconds() - cpu_before;
  console.Result(absl::StrFormat(
      "%s: %d proved, %d refuted, %d unknown%s; %d not as expected; %.1f s of CPU time", Counted(rules->size(), "rule"),
      counts[Verdict::kProved], counts[Verdict::kRefuted], counts[Verdict::kUnknown],
      ill_formed > 0 ? absl::StrCat(", ", ill_formed, " ill-formed") : "", unexpected, cpu_seconds));
  if (reused > 0) console.Result(absl::StrFormat("%d verdicts taken from %s", reused, flags.journal));
  if (kept > 0) console.Result(absl::StrFormat("%d kept, whose records are good", kept));
  if (interrupted > 0) {
    console.Result(absl::StrFormat("interrupted: %d rules are left%s", interrupted,
                                   flags.journal.empty() ? "" : "; the same command goes on with them"));
  }
  Json& json = console.json();
  json["rules"] = std::move(list);
  json["proved"] = counts[Verdict::kProved];
  json["refuted"] = counts[Verdict::kRefuted];
  json["unknown"] = counts[Verdict::kUnknown];
  json["ill_formed"] = ill_formed;
  json["unexpected"] = unexpected;
  if (!flags.journal.empty()) json["reused"] = reused;
  if (flags.renew) json["kept"] = kept;
  if (interrupted > 0) json["interrupted"] = interrupted;
  json["cpu_seconds"] = cpu_seconds;
  json["peak_rss_bytes"] = PeakResidentBytes();
  if (!flags.output.empty()) {
    absl::Status status = WriteProved(flags, *rules, outcomes, console);
    if (!status.ok()) return status;
  }
  if (ill_formed > 0) return Answer::kIllFormed;
  return unexpected == 0 ? Answer::kYes : Answer::kNo;
}

}  // namespace

Action DeclareVerify(CommandLine& line) {
  auto flags = std::make_shared<VerifyFlags>();
  const Flag file =
      RuleFile(line.Add("file", &flags->file, "Rules to prove, a file or the name of one that comes with the program"))
          .Type("FILE.rules");
  auto gradients = std::make_shared<GradientFlags>();
  const Flag derived = line.Add("--gradients", &gradients->operators,
                                "Prove the gradients that are derived of these operators, of all where none is "
                                "named: inversion, duality, shifts")
                           .Type("OP")
                           .AnyNumber()
                           .Excludes(file);
  line.AddInt("--structures", &gradients->structures, 1, 1000, "Of how many structures of an operator (default 2)")
      .Needs(derived);
  line.AddOutputPath("-o,--output", &flags->output,
                     "Write the rules with the records of their proofs; - is standard output")
      .Type("PROVED.rules");
  line.AddChoice("--format", &flags->format, {"rewright", "taso"},
                 "taso: the file is a protobuf rule file of TASO; its rules are called by their index");
  const Flag renew = line.AddSwitch("--renew", &flags->renew,
                                    "Prove only what has no good record: rules without one, altered ones, those that "
                                    "another prover proved");
  line.AddOutputPath("--certificates", &flags->certificates,
                     "Write a certificate of every proof into this folder, for `rewright check`")
      .Type("DIR")
      .Excludes(renew);
  const Flag counterexamples =
      line.AddOutputPath("--counterexamples", &flags->counterexamples,
                         "Write both sides of each refuted rule as models, and the inputs that tell them apart, into "
                         "this folder")
          .Type("DIR");
  line.AddOutputPath("--resume", &flags->journal,
                     "Keep verdicts in this file as they are found, and take from it those of unchanged rules")
      .Type("JOURNAL")
      .Excludes(counterexamples);
  line.Add("--rule", &flags->only, "Only this rule (repeatable)").Type("NAME").OneAtATime();
  line.AddSwitch("--infer", &flags->infer, "Give refuted rules the weakest condition of a family that makes them true");
  line.AddSeconds(
          "--rule-limit", &flags->time_limit, kLeastSeconds,
          "Seconds of work for one rule, counted in steps, then it is unknown (default 60; see docs/verifier.md)")
      .Formerly("--time-limit");
  return [flags, gradients, derived](Session& session) -> absl::StatusOr<Answer> {
    if (derived.given()) {
      std::erase(gradients->operators, "");  // what the parser makes of the option alone
      gradients->time_limit = flags->time_limit;
      gradients->certificates = flags->certificates;
      return VerifyGradients(*gradients, session);
    }
    if (flags->file.empty()) {
      return absl::InvalidArgumentError("verify: found neither a file nor --gradients, expected one: FILE.rules");
    }
    return Verify(*flags, session);
  };
}

}  // namespace rewright
