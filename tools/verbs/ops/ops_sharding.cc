#include "tools/verbs/ops/ops_sharding.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/adjoint/operators.h"
#include "core/base/counted.h"
#include "core/base/status_macros.h"
#include "core/base/suggest.h"
#include "core/base/threads.h"
#include "core/ops/ops.h"
#include "search/resources.h"
#include "substitutions/language/rule_printer.h"
#include "tools/program/outputs.h"
#include "tools/program/progress.h"
#include "tools/verbs/verify/certificate_folder.h"
#include "verifier/certificate/certificate.h"
#include "verifier/claims/sharding_laws.h"

namespace rewright {
namespace {

absl::StatusOr<std::vector<const OpDef*>> Chosen(const std::vector<std::string>& names) {
  std::vector<const OpDef*> ops;
  for (const std::string& name : names) {
    ops.push_back(FindOp(name));
    if (ops.back() != nullptr) continue;
    std::vector<std::string> known;
    for (const OpDef* op : AllOps()) known.push_back(op->name);
    return absl::NotFoundError(absl::StrCat("no operator is called `", name, "`", DidYouMean(name, known)));
  }
  if (!names.empty()) return ops;
  for (const OpDef* op : AllOps()) {
    ops.push_back(op);
    for (size_t k = 0; k < op->inputs.size(); ++k) {
      if (const auto gradient = GradientOp(*op, static_cast<int>(k)); gradient.ok()) ops.push_back(*gradient);
    }
  }
  return ops;
}

std::string Entry(const sharding::Conjecture& law) {
  const std::string effect = sharding::EffectName(law.effect);
  return law.detail.empty() ? effect : absl::StrCat(effect, " (", law.detail, ")");
}

// "cut", "halo (1 before, 1 after)", "partial (sum)", or why not.
std::string Entry(const FactorLaws& laws) {
  if (laws.laws.empty()) return absl::StrCat("-- ", ObstacleText(laws.factor.obstacle));
  std::vector<std::string> entries;
  for (const ShardingLaw& law : laws.laws) entries.push_back(Entry(laws.factor.conjectures[law.conjecture]));
  return absl::StrJoin(entries, "; ");
}

Json ToJson(const ShardingLaw& law, const sharding::Conjecture& conjecture) {
  return {{"effect", sharding::EffectName(conjecture.effect)},
          {"detail", conjecture.detail},
          {"law", conjecture.rule},
          {"class", RuleClassName(law.verdict.rule_class)},
          {"cpu_ms", law.verdict.cpu_ms}};
}

Json ToJson(const OpDef& op, const FactorLaws& laws) {
  Json json = {{"operator", op.name}, {"structure", laws.structure}, {"axes", laws.factor.axes}};
  for (const ShardingLaw& law : laws.laws) {
    Json of_law = ToJson(law, laws.factor.conjectures[law.conjecture]);
    if (&law == &laws.laws.front()) {
      json.update(of_law);
    } else {
      json["others"].push_back(std::move(of_law));
    }
  }
  if (laws.laws.empty()) json["obstacle"] = ObstacleText(laws.factor.obstacle);
  for (const ShardingLaw& failed : laws.failed) {
    json["failed"].push_back({{"law", PrintRule(failed.rule)},
                              {"verdict", VerdictName(failed.verdict.verdict)},
                              {"reason", failed.verdict.reason},
                              {"witness", failed.verdict.witness},
                              {"cpu_ms", failed.verdict.cpu_ms}});
  }
  return json;
}

struct Counts {
  int factors = 0, proved = 0, laws = 0, refuted = 0, unknown = 0;
  double proof_ms = 0;
};

void Show(const OpDef& op, const std::vector<FactorLaws>& all, bool in_full, Session& session, Counts* counts) {
  std::string structure = " ";
  for (const FactorLaws& laws : all) {
    if (laws.structure != structure) session.console.Result(absl::StrCat(op.name, "  ", laws.structure));
    structure = laws.structure;
    session.console.Result(absl::StrFormat("  %-28s %s", absl::StrJoin(laws.factor.axes, " "), Entry(laws)));
    for (const ShardingLaw& law : laws.laws) {
      counts->proof_ms += law.verdict.cpu_ms;
      if (in_full) session.console.Result("    " + laws.factor.conjectures[law.conjecture].rule);
    }
    ++counts->factors;
    counts->proved += !laws.laws.empty();
    counts->laws += static_cast<int>(laws.laws.size());
    for (const ShardingLaw& failed : laws.failed) {
      counts->proof_ms += failed.verdict.cpu_ms;
      const bool refuted = failed.verdict.verdict == Verdict::kRefuted;
      ++(refuted ? counts->refuted : counts->unknown);
      if (!in_full || !laws.laws.empty()) continue;
      session.console.Result(absl::StrCat("    ", VerdictName(failed.verdict.verdict), ": ",
                                          PrintRule(failed.rule).substr(failed.rule.name.size() + 6)));
      session.console.Result(absl::StrCat("      ", failed.verdict.reason));
    }
    session.console.json()["factors"].push_back(ToJson(op, laws));
  }
}

absl::Status WriteLaws(const std::vector<std::vector<FactorLaws>>& all, const ShardingFlags& flags) {
  std::vector<Rule> rules;
  for (const std::vector<FactorLaws>& of_op : all) {
    for (const FactorLaws& laws : of_op) {
      for (const ShardingLaw& law : laws.laws) {
        const std::string certificate =
            flags.certificates.empty() ? "" : CertificateFrom(flags.output, flags.certificates, law.rule.name);
        absl::StatusOr<ProofRecord> record = RecordOf(law.rule, law.verdict, certificate);
        if (!record.ok()) return record.status();
        rules.push_back(law.rule);
        rules.back().proof = *std::move(record);
      }
    }
  }
  const std::vector<std::string> header = {
      "How operators are applied to blocks of their operands on any number of devices: derived from their declarations",
      "and proved (rewright ops --sharding -o FILE)."};
  return WriteOutput(flags.output, PrintRules(header, rules));
}

// Writes the certificates of the laws, and the index that names them.
absl::Status WriteCertificates(std::vector<std::vector<FactorLaws>>& all, const std::string& folder, Json* json) {
  CertificateIndex index;
  for (std::vector<FactorLaws>& of_op : all) {
    for (FactorLaws& laws : of_op) {
      for (ShardingLaw& law : laws.laws) {
        ASSIGN_OR_RETURN(index[CertificateFileName(law.rule.name)],
                         WriteCertificate(folder, law.rule.name, &law.verdict));
      }
    }
  }
  (*json)["certificates"] = index.size();
  return WriteCertificateIndex(folder, index);
}

}  // namespace

absl::StatusOr<Answer> ShardingTable(const ShardingFlags& flags, Session& session) {
  const absl::StatusOr<std::vector<const OpDef*>> ops = Chosen(flags.operators);
  if (!ops.ok()) return ops.status();
  const bool certify = !flags.certificates.empty();
  if (certify) RETURN_IF_ERROR(MakeCertificateFolder(flags.certificates));
  const double cpu_before = ProcessCpuSeconds();
  std::vector<std::vector<FactorLaws>> all(ops->size());
  std::vector<absl::Status> errors(ops->size());
  Progress progress(session.console, "ops");
  std::atomic<size_t> done{0};
  ForEachIndex(ops->size(), NumThreads(session.flags.threads), [&](size_t i) {
    auto laws = ShardingLaws(*(*ops)[i], flags.structures, flags.time_limit, certify);
    errors[i] = laws.status();
    if (laws.ok()) all[i] = *std::move(laws);
    progress.Update(static_cast<double>(++done) / static_cast<double>(ops->size()), (*ops)[i]->name);
  });
  for (const absl::Status& error : errors) {
    if (!error.ok()) return error;
  }
  Counts counts;
  for (size_t i = 0; i < ops->size(); ++i) Show(*(*ops)[i], all[i], !flags.operators.empty(), session, &counts);
  const double cpu_seconds = ProcessCpuSeconds() - cpu_before;
  session.console.Result(
      absl::StrFormat("%s; %d factors, %d with a proved law; %d laws; %d conjectures refuted, %d unknown; "
                      "%.1f s of CPU time, %.1f of them in proofs",
                      Counted(ops->size(), "operator"), counts.factors, counts.proved, counts.laws, counts.refuted,
                      counts.unknown, cpu_seconds, counts.proof_ms / 1e3));
  Json& json = session.console.json();
  json["proved"] = counts.proved;
  json["laws"] = counts.laws;
  json["refuted"] = counts.refuted;
  json["unknown"] = counts.unknown;
  json["cpu_seconds"] = cpu_seconds;
  json["proof_seconds"] = counts.proof_ms / 1e3;
  if (certify) RETURN_IF_ERROR(WriteCertificates(all, flags.certificates, &json));
  if (!flags.output.empty()) {
    RETURN_IF_ERROR(WriteLaws(all, flags));
  }
  return Answer::kYes;
}

}  // namespace rewright
