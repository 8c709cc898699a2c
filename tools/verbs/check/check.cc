// rewright check DIR: certificates checked again.
//
// First every certificate is derived anew from the rule, the operators' declarations and the recorded queries, and must
// come out the same. Then every query is put, as text, to Z3 and to cvc5. Then the rule is derived a second time, at
// small sizes and without any of the prover's code (verifier/check/bounded/bounded_check.h). The steps that the
// certificate tells must prove the rule (verifier/check/certificate_steps.h). Without certificates proofs are found
// once more, and their steps are checked.

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
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/cpu_time.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/base/stop.h"
#include "core/base/threads.h"
#include "core/ops/ops.h"
#include "substitutions/language/operator_variables.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/rule_set.h"
#include "tools/program/flags.h"
#include "tools/program/interrupt.h"
#include "tools/program/progress.h"
#include "tools/program/verb.h"
#include "tools/verbs/check/step_proof.h"
#include "tools/verbs/rules/rules.h"
#include "tools/verbs/verify/certificate_folder.h"
#include "verifier/check/bounded/bounded_check.h"
#include "verifier/check/certificate_steps.h"
#include "verifier/check/cvc5_query_solver.h"
#include "verifier/check/query_solver.h"
#include "verifier/check/rule_instances.h"
#include "verifier/check/step_checker.h"
#include "verifier/derivation/certificate_check.h"
#include "verifier/prove_rule.h"

namespace rewright {
namespace {

struct CheckFlags {
  std::string folder;
  std::string rules;
  std::string solver = "both";
  double time_limit = 20;
  bool second = true;
  bool steps = true;
};

// The outcome of one certificate.
struct Outcome {
  std::string rule;
  std::vector<std::string> refusals;  // empty: it holds
  size_t instances = 0;
  size_t queries = 0;
  double derive_s = 0, z3_s = 0, cvc5_s = 0, second_s = 0;
  std::optional<BoundedCheck> second;
  std::optional<CheckedSteps> steps;
  double steps_s = 0;
  int64_t open_to_cvc5 = 0;  // questions of the steps that Z3 settles and cvc5 does not
};

// Beside a rule with an operator variable: that the operators for which it holds have the property that it asks for.
std::vector<Rule> LawsOfOperators(const Rule& rule) {
  std::vector<Rule> laws;
  if (OperatorProperty(rule).empty()) return laws;
  const std::vector<std::string> names = rule.proof ? rule.proof->operators : OperatorsOf(rule);
  for (const std::string& name : names) {
    for (Rule& law : PropertyRules(rule, *FindOp(name))) laws.push_back(std::move(law));
  }
  return laws;
}

// Every step of the law's proof, which is found here.
void ProveSteps(const Rule& law, const std::string& place, StepChecker* checker, Outcome* outcome) {
  RuleProofOptions options;
  options.classify = false;
  options.observer = checker;
  if (law.proof) options.limits = law.proof->domain;
  const RuleVerdict verdict = ProveRule(law, options);
  if (verdict.verdict == Verdict::kProved) return;
  outcome->refusals.push_back(absl::StrCat(place, ": rule ", law.name, ": found ", VerdictName(verdict.verdict),
                                           ", expected a proof: ", verdict.reason));
}

// The same of a law that stands in no rule file, at the instances that are read from its text.
void ProveStepsOfText(const Rule& law, const std::string& place, StepChecker* checker, Outcome* outcome) {
  ProofOptions options;
  options.observer = checker;
  const auto prove = [&](const RuleInstance& instance) {
    const ProofResult proof = Prove(instance, options);
    if (proof.verdict == Verdict::kProved) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("found ", VerdictName(proof.verdict), ", expected a proof: ", proof.reason));
  };
  const absl::Status proved = check::ForEachInstance(PrintLaw(law), DomainLimits{}, prove);
  if (proved.ok()) return;
  outcome->refusals.push_back(absl::StrCat(place, ": rule ", law.name, ": ", std::string(proved.message())));
}

// Takes the checker's report on the steps that it was told; a wrong step refuses the rule. `start`: of CPU time.
void TakeSteps(const Rule& rule, const std::string& place, bool cvc5, const StepChecker& checker, double start,
               Outcome* outcome) {
  outcome->steps = checker.report();
  for (const std::string& step : checker.report().refused) {
    outcome->refusals.push_back(absl::StrCat(place, ": rule ", rule.name, ": found a step that does not hold: ", step));
  }
  outcome->steps_s = verifier::ThreadCpuSeconds() - start;
  if (!cvc5 || checker.report().questions.empty()) return;
  constexpr double kQuestionSeconds = 2;
  const absl::StatusOr<std::vector<SmtAnswer>> answers = AskCvc5(checker.report().questions, kQuestionSeconds);
  if (!answers.ok()) {
    outcome->refusals.push_back(absl::StrCat(place, ": ", std::string(answers.status().message())));
    return;
  }
  for (size_t i = 0; i < answers->size(); ++i) {
    outcome->open_to_cvc5 += (*answers)[i] == SmtAnswer::kUnknown;
    if ((*answers)[i] != SmtAnswer::kSat) continue;
    outcome->refusals.push_back(absl::StrCat(place, ": rule ", rule.name, ": found sat by cvc5, expected unsat:\n",
                                             checker.report().questions[i].text));
  }
}

// The bounded check of the rule; one that is denied is refused.
void DeriveSecond(const Rule& rule, const std::string& place, Outcome* outcome) {
  const double start = verifier::ThreadCpuSeconds();
  const auto derive = [](const Rule& law) {
    const auto compiled = CompileRule(law);
    const absl::StatusOr<BoundedCheck> derived =
        compiled.ok() ? CheckAtSmallSizes(**compiled) : absl::StatusOr<BoundedCheck>(compiled.status());
    if (derived.ok()) return *derived;
    BoundedCheck none;
    none.reason = std::string(derived.status().message());
    return none;
  };
  const BoundedCheck derivation = derive(rule);
  // The law that exp increases is an axiom, which no derivation finds: of these laws only denials count.
  for (const Rule& law : LawsOfOperators(rule)) {
    const BoundedCheck derived = derive(law);
    if (derived.verdict != BoundedVerdict::kDenied) continue;
    outcome->refusals.push_back(absl::StrCat(place, ": rule ", law.name, ": found by the bounded check that ",
                                             derived.reason, ", expected equal sides"));
  }
  outcome->second_s = verifier::ThreadCpuSeconds() - start;
  if (derivation.verdict == BoundedVerdict::kDenied) {
    outcome->refusals.push_back(absl::StrCat(place, ": rule ", rule.name, ": found by the bounded check that ",
                                             derivation.reason, ", expected equal sides"));
  }
  outcome->second = derivation;
}

class Checker {
 public:
  Checker(const CheckFlags& flags, const std::map<std::string, Rule>* rules) : flags_(flags), rules_(rules) {}

  Outcome Check(const std::string& file, const std::string& seal) {
    Outcome outcome;
    const std::string path = (std::filesystem::path(flags_.folder) / file).string();
    const absl::StatusOr<std::string> text = ReadText(path);
    if (!text.ok()) {
      outcome.refusals.emplace_back(text.status().message());
      return outcome;
    }
    double start = verifier::ThreadCpuSeconds();
    const absl::StatusOr<CheckedCertificate> checked = CheckCertificate(*text, path);
    outcome.derive_s = verifier::ThreadCpuSeconds() - start;
    if (!checked.ok()) {
      outcome.refusals.emplace_back(checked.status().message());
      return outcome;
    }
    outcome.rule = checked->rule.name;
    outcome.instances = checked->certificate.instances.size();
    outcome.queries = checked->queries.size();
    CompareNames(*checked, file, seal, SealAtEnd(*text), path, &outcome);
    if (rules_ != nullptr) CompareRule(*checked, path, &outcome);
    if (!outcome.refusals.empty()) return outcome;
    if (flags_.solver != "cvc5") WithZ3(*checked, path, &outcome);
    if (flags_.solver != "z3") WithCvc5(*checked, path, &outcome);
    if (flags_.second) DeriveSecond(checked->rule, absl::StrCat(path, ":9"), &outcome);
    if (!flags_.steps) return outcome;
    start = verifier::ThreadCpuSeconds();
    StepChecker steps;
    const absl::StatusOr<ToldCertificate> told = CheckToldSteps(*text, path, &steps);
    if (!told.ok()) {
      outcome.refusals.emplace_back(told.status().message());
      return outcome;
    }
    outcome.refusals.insert(outcome.refusals.end(), told->missing.begin(), told->missing.end());
    for (const Rule& law : LawsOfOperators(checked->rule)) {
      ProveStepsOfText(law, absl::StrCat(path, ":9"), &steps, &outcome);
    }
    TakeSteps(checked->rule, absl::StrCat(path, ":9"), flags_.solver != "z3", steps, start, &outcome);
    return outcome;
  }

 private:
  static void CompareNames(const CheckedCertificate& checked, const std::string& file, const std::string& seal,
                           const std::string& found_seal, const std::string& path, Outcome* outcome) {
    const std::string name = CertificateFileName(checked.rule.name);
    if (name != file) {
      outcome->refusals.push_back(
          absl::StrCat(path, ":9: found rule ", checked.rule.name, ", expected the rule that the file is named after"));
    }
    if (seal != found_seal) {
      outcome->refusals.push_back(
          absl::StrCat(path, ": found seal ", found_seal, ", expected ", seal, " as the index has it"));
    }
  }

  // The certificate is about the rule as the rule file has it, and about all of the domain that is claimed there.
  void CompareRule(const CheckedCertificate& checked, const std::string& path, Outcome* outcome) const {
    const auto found = rules_->find(checked.rule.name);
    if (found == rules_->end()) {
      outcome->refusals.push_back(
          absl::StrCat(path, ":9: found rule ", checked.rule.name, ", expected a rule of ", flags_.rules));
      return;
    }
    const Rule& rule = found->second;
    if (PrintLaw(rule) != checked.certificate.law) {
      outcome->refusals.push_back(
          absl::StrCat(path, ":9: found another law than ", rule.file, ":", rule.line, ", expected\n", PrintLaw(rule)));
    }
    if (rule.proof && rule.proof->rule_class != checked.certificate.rule_class) {
      outcome->refusals.push_back(absl::StrCat(path, ":5: found class ", RuleClassName(checked.certificate.rule_class),
                                               ", expected ", RuleClassName(rule.proof->rule_class),
                                               ", as in the record at ", rule.file, ":", rule.line));
    }
    if (rule.proof && !(rule.proof->domain == checked.certificate.domain)) {
      outcome->refusals.push_back(absl::StrCat(path, ":4: found another domain than the record at ", rule.file, ":",
                                               rule.line, ", expected the same"));
    }
  }

  void WithZ3(const CheckedCertificate& checked, const std::string& path, Outcome* outcome) {
    const double start = verifier::ThreadCpuSeconds();
    for (size_t i = 0; i < checked.queries.size(); ++i) {
      const absl::StatusOr<SmtAnswer> answer = AskZ3(checked.queries[i]);
      Judge(checked, i, "z3", answer.ok() ? SmtAnswerName(*answer) : std::string(answer.status().message()), path,
            outcome);
    }
    outcome->z3_s = verifier::ThreadCpuSeconds() - start;
  }

  void WithCvc5(const CheckedCertificate& checked, const std::string& path, Outcome* outcome) {
    if (checked.queries.empty()) return;
    const absl::Time start = absl::Now();
    const absl::StatusOr<std::vector<SmtAnswer>> answers = AskCvc5(checked.queries, flags_.time_limit);
    outcome->cvc5_s = absl::ToDoubleSeconds(absl::Now() - start);
    if (!answers.ok()) {
      outcome->refusals.push_back(absl::StrCat(path, ": ", std::string(answers.status().message())));
      return;
    }
    for (size_t i = 0; i < answers->size(); ++i) {
      Judge(checked, i, "cvc5", SmtAnswerName((*answers)[i]), path, outcome);
    }
  }

  static void Judge(const CheckedCertificate& checked, size_t query, const char* solver, const std::string& answer,
                    const std::string& path, Outcome* outcome) {
    if (answer == "unsat") return;
    outcome->refusals.push_back(absl::StrCat(path, ":", checked.query_lines[query], ": query ",
                                             checked.queries[query].Name(), ": found ", answer, " by ", solver,
                                             ", expected unsat"));
  }

  const CheckFlags& flags_;
  const std::map<std::string, Rule>* rules_;
};

// Proved rules of the file whose certificates are missing.
std::vector<std::string> Uncertified(const std::map<std::string, Rule>& rules, const CertificateIndex& index) {
  std::vector<std::string> missing;
  for (const auto& [name, rule] : rules) {
    if (rule.proof && index.count(CertificateFileName(name)) == 0) {
      missing.push_back(absl::StrCat(rule.file, ":", rule.line, ": found no certificate of the proved rule ", name,
                                     ", expected ", CertificateFileName(name)));
    }
  }
  return missing;
}

std::vector<Outcome> CheckAll(const CheckFlags& flags, const CertificateIndex& index,
                              const std::map<std::string, Rule>* rules, Session& session) {
  const std::vector<std::pair<std::string, std::string>> files(index.begin(), index.end());
  std::vector<Outcome> outcomes(files.size());
  Checker checker(flags, rules);
  Progress progress(session.console, "check");
  std::atomic<size_t> done{0};
  ForEachIndex(files.size(), NumThreads(session.flags.threads), [&](size_t i) {
    if (InterruptGuard::interrupted()) return;
    outcomes[i] = checker.Check(files[i].first, files[i].second);
    progress.Update(static_cast<double>(++done) / static_cast<double>(files.size()), files[i].first);
  });
  return outcomes;
}

// Rules of a file, without certificates.
std::vector<Outcome> DeriveAll(const CheckFlags& flags, const std::map<std::string, Rule>& rules, Session& session) {
  std::vector<const Rule*> list;
  for (const auto& [name, rule] : rules) list.push_back(&rule);
  std::vector<Outcome> outcomes(list.size());
  Progress progress(session.console, "check");
  std::atomic<size_t> done{0};
  ForEachIndex(list.size(), NumThreads(session.flags.threads), [&](size_t i) {
    if (InterruptGuard::interrupted()) return;
    outcomes[i].rule = list[i]->name;
    const std::string place = absl::StrCat(list[i]->file, ":", list[i]->line);
    if (flags.second) DeriveSecond(*list[i], place, &outcomes[i]);
    if (flags.steps) {
      const double start = verifier::ThreadCpuSeconds();
      StepChecker steps;
      ProveSteps(*list[i], place, &steps, &outcomes[i]);
      for (const Rule& law : LawsOfOperators(*list[i])) ProveStepsOfText(law, place, &steps, &outcomes[i]);
      TakeSteps(*list[i], place, flags.solver != "z3", steps, start, &outcomes[i]);
    }
    progress.Update(static_cast<double>(++done) / static_cast<double>(list.size()), list[i]->name);
  });
  return outcomes;
}

const char* SecondName(BoundedVerdict verdict) {
  switch (verdict) {
    case BoundedVerdict::kConfirmed: return "confirmed";
    case BoundedVerdict::kDenied: return "denied";
    case BoundedVerdict::kGivenUp: return "given up";
  }
  return "";
}

// Reports the bounded checks: one line, and those that were given up by name.
void ReportSecond(const std::vector<Outcome>& outcomes, Console& console) {
  std::map<BoundedVerdict, int> counts;
  double seconds = 0;
  Json given_up = Json::object();
  std::vector<std::string> names;
  for (const Outcome& outcome : outcomes) {
    if (!outcome.second) continue;
    seconds += outcome.second_s;
    ++counts[outcome.second->verdict];
    if (outcome.second->verdict != BoundedVerdict::kGivenUp) continue;
    names.push_back(outcome.rule);
    given_up[outcome.rule] = outcome.second->reason;
    console.Detail(absl::StrCat("given up  ", outcome.rule, ": ", outcome.second->reason));
  }
  console.Result(absl::StrFormat("bounded check: %d confirmed, %d denied, %d given up%s; %.1f s",
                                 counts[BoundedVerdict::kConfirmed], counts[BoundedVerdict::kDenied], names.size(),
                                 names.empty() ? "" : absl::StrCat(" (", absl::StrJoin(names, ", "), ")"), seconds));
  console.json()["second"] = {{"confirmed", counts[BoundedVerdict::kConfirmed]},
                              {"denied", counts[BoundedVerdict::kDenied]},
                              {"given_up", std::move(given_up)},
                              {"seconds", seconds}};
}

// Reports the checked steps of all proofs.
void ReportSteps(const std::vector<Outcome>& outcomes, Console& console) {
  CheckedSteps all;
  double seconds = 0;
  size_t rules = 0;
  int64_t open_to_cvc5 = 0;
  for (const Outcome& outcome : outcomes) {
    if (!outcome.steps) continue;
    ++rules;
    all.Add(*outcome.steps);
    seconds += outcome.steps_s;
    open_to_cvc5 += outcome.open_to_cvc5;
    for (const auto& [law, count] : outcome.steps->open) {
      console.Detail(absl::StrCat("open  ", outcome.rule, ": ", law, " ", count));
    }
  }
  Json laws = Json::object();
  for (const auto& [law, steps] : all.by_law) {
    laws[verifier::LawName(law)] = {
        {"steps", steps.steps},       {"alike", steps.by_text},    {"by_question", steps.by_question},
        {"by_value", steps.by_value}, {"open", steps.open},        {"excused", steps.excused},
        {"refused", steps.refused},   {"repeated", steps.repeated}};
    console.Detail(
        absl::StrFormat("law  %s: %d steps: %d alike, %d by questions, %d by values, %d open, of which %d about "
                        "elements, %d refused; %d repeated",
                        verifier::LawName(law), steps.steps, steps.by_text, steps.by_question, steps.by_value,
                        steps.open, steps.excused, steps.refused, steps.repeated));
  }
  console.Result(
      absl::StrFormat("steps: %d rules, %d steps: %s; %.1f s", rules, all.steps, all.Summary(open_to_cvc5), seconds));
  console.json()["steps"] = {{"steps", all.steps},
                             {"alike", all.by_text},
                             {"by_question", all.by_question},
                             {"questions", all.questions.size()},
                             {"open_to_cvc5", open_to_cvc5},
                             {"by_value", all.by_value},
                             {"refused", all.refused.size()},
                             {"open", all.open},
                             {"laws", std::move(laws)},
                             {"joint", all.joint},
                             {"seconds", seconds}};
}

// The bounded check and the steps alone.
Answer AnswerWithoutCertificates(const CheckFlags& flags, const std::map<std::string, Rule>& rules, Session& session) {
  const std::vector<Outcome> outcomes = DeriveAll(flags, rules, session);
  std::vector<std::string> refusals;
  Json list = Json::array();
  for (const Outcome& outcome : outcomes) {
    refusals.insert(refusals.end(), outcome.refusals.begin(), outcome.refusals.end());
    list.push_back({{"rule", outcome.rule}});
    if (outcome.second) list.back()["second"] = SecondName(outcome.second->verdict);
  }
  for (const std::string& refusal : refusals) session.console.Result(absl::StrCat("refused  ", refusal));
  if (flags.second) ReportSecond(outcomes, session.console);
  if (flags.steps) ReportSteps(outcomes, session.console);
  session.console.json()["refused"] = refusals;
  session.console.json()["rules"] = std::move(list);
  return refusals.empty() ? Answer::kYes : Answer::kNo;
}

absl::StatusOr<Answer> Check(const CheckFlags& given, Session& session) {
  CheckFlags flags = given;
  const bool of_step = IsStepProof(flags.folder);
  if (of_step && !flags.rules.empty()) {
    return absl::InvalidArgumentError("--rules: found the proof of a step, expected DIR");
  }
  Console& console = session.console;
  std::map<std::string, Rule> rules;
  if (!flags.rules.empty()) {
    absl::StatusOr<std::vector<Rule>> read = ReadRules(flags.rules);
    if (!read.ok()) return read.status();
    for (Rule& rule : *read) rules.emplace(rule.name, rule);
  }
  bool cvc5 = flags.solver != "z3";
  if (cvc5) {
    const absl::Status present = AskCvc5({}, 1).status();
    if (absl::IsNotFound(present) && flags.solver == "cvc5") return present;
    if (absl::IsNotFound(present)) {
      console.Warning("cvc5 is not installed: queries are settled by Z3 alone (Debian: apt-get install cvc5)");
      flags.solver = "z3";
      cvc5 = false;
    }
  }
  if (of_step) {
    ASSIGN_OR_RETURN(const Answer answer, CheckStepProof(flags.folder, flags.time_limit, session, &rules));
    if (answer == Answer::kNo || rules.empty()) return answer;
  }
  if (flags.folder.empty() || of_step) {
    if (!of_step && flags.rules.empty())
      return absl::InvalidArgumentError("found neither DIR nor --rules, expected one of them");
    const InterruptGuard interrupt;
    const StopScope scope(&InterruptGuard::flag());
    const Answer answer = AnswerWithoutCertificates(flags, rules, session);
    if (InterruptGuard::interrupted()) return absl::CancelledError("interrupted");
    return answer;
  }
  const InterruptGuard interrupt;
  const StopScope scope(&InterruptGuard::flag());
  std::vector<std::string> refusals;
  const absl::StatusOr<CertificateIndex> index = ReadCertificateIndex(flags.folder);
  std::vector<Outcome> outcomes;
  if (index.ok()) {
    if (!rules.empty()) refusals = Uncertified(rules, *index);
    outcomes = CheckAll(flags, *index, flags.rules.empty() ? nullptr : &rules, session);
  } else if (absl::IsInvalidArgument(index.status()) && std::filesystem::is_directory(flags.folder) &&
             std::filesystem::exists(std::filesystem::path(flags.folder) / kCertificateIndex)) {
    refusals.emplace_back(index.status().message());
  } else {
    return index.status();
  }
  if (InterruptGuard::interrupted()) return absl::CancelledError("interrupted");

  size_t instances = 0, queries = 0, held = 0;
  double derive_s = 0, z3_s = 0, cvc5_s = 0;
  Json list = Json::array();
  for (const Outcome& outcome : outcomes) {
    refusals.insert(refusals.end(), outcome.refusals.begin(), outcome.refusals.end());
    held += outcome.refusals.empty();
    instances += outcome.instances;
    queries += outcome.queries;
    derive_s += outcome.derive_s;
    z3_s += outcome.z3_s;
    cvc5_s += outcome.cvc5_s;
    list.push_back({{"rule", outcome.rule},
                    {"holds", outcome.refusals.empty()},
                    {"instances", outcome.instances},
                    {"queries", outcome.queries}});
    if (outcome.second) list.back()["second"] = SecondName(outcome.second->verdict);
  }
  for (const std::string& refusal : refusals) console.Result(absl::StrCat("refused  ", refusal));
  console.Result(
      absl::StrFormat("%d certificates: %d hold, %d refused; %d instances derived again in %.1f s; %d queries%s%s",
                      outcomes.size(), held, refusals.size(), instances, derive_s, queries,
                      flags.solver != "cvc5" ? absl::StrFormat("; z3 %.1f s", z3_s) : "",
                      cvc5 ? absl::StrFormat("; cvc5 %.1f s", cvc5_s) : ""));
  if (outcomes.empty()) console.Warning("there are no certificates: nothing was checked");
  if (flags.second) ReportSecond(outcomes, console);
  if (flags.steps) ReportSteps(outcomes, console);
  Json& json = console.json();
  json["certificates"] = outcomes.size();
  json["hold"] = held;
  json["refused"] = refusals;
  json["instances"] = instances;
  json["queries"] = queries;
  json["solvers"] =
      flags.solver == "both" ? std::vector<std::string>{"z3", "cvc5"} : std::vector<std::string>{flags.solver};
  json["derive_seconds"] = derive_s;
  if (flags.solver != "cvc5") json["z3_seconds"] = z3_s;
  if (cvc5) json["cvc5_seconds"] = cvc5_s;
  json["rules"] = std::move(list);
  return refusals.empty() ? Answer::kYes : Answer::kNo;
}

}  // namespace

Action DeclareCheck(CommandLine& line) {
  auto flags = std::make_shared<CheckFlags>();
  line.Add("folder", &flags->folder,
           "Certificates, as `rewright verify --certificates` writes them, or the proof of a step on several ranks "
           "(train --prove, shard --prove); without them the rules of --rules are derived a second time")
      .Type("DIR|F.proof");
  RuleFile(line.Add("--rules", &flags->rules, "The rules that they must be about, all that are proved there"))
      .Type("FILE.rules");
  line.AddSwitch("--second,--no-second{false}", &flags->second,
                 "Derive each rule a second time, at small sizes and without the prover (default on)");
  line.AddSwitch("--steps,--no-steps{false}", &flags->steps,
                 "Check each step of each proof by laws of its own, not the prover's (default on)");
  line.AddChoice("--solver", &flags->solver, {"z3", "cvc5", "both"},
                 "Who settles the queries (default both; Z3 alone where cvc5 is not installed)");
  line.AddSeconds(
          "--query-limit", &flags->time_limit, kLeastSeconds,
          "Seconds of work that cvc5 gets for one query, counted in its resource units, and the prover for a law "
          "of a step (default 20)")
      .Formerly("--time-limit");
  return [flags](Session& session) { return Check(*flags, session); };
}

}  // namespace rewright
