#include "tools/verbs/verify/verify_gradients.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/base/suggest.h"
#include "core/base/threads.h"
#include "core/ops/ops.h"
#include "search/resources.h"
#include "tools/program/progress.h"
#include "tools/verbs/verify/certificate_folder.h"
#include "verifier/certificate/certificate.h"
#include "verifier/claims/gradient_claims.h"

namespace rewright {
namespace {

struct Judged {
  const OpDef* op;
  GradientClaim claim;
  RuleVerdict verdict;
};

absl::StatusOr<std::vector<const OpDef*>> Chosen(const std::vector<std::string>& names) {
  if (names.empty()) return AllOps();
  std::vector<std::string> known;
  for (const OpDef* op : AllOps()) known.push_back(op->name);
  std::vector<const OpDef*> ops;
  for (const std::string& name : names) {
    ops.push_back(FindOp(name));
    if (ops.back() != nullptr) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--gradients: there is no operator `", name, "`", DidYouMean(name, known)));
  }
  return ops;
}

std::string Title(const Judged& judged) {
  return absl::StrCat(ClaimName(judged.claim.kind), " of ", judged.op->name,
                      judged.claim.input.empty() ? "" : " by " + judged.claim.input);
}

Json ToJson(const Judged& judged) {
  Json json = {{"operator", judged.op->name},
               {"claim", ClaimName(judged.claim.kind)},
               {"structure", judged.claim.structure},
               {"verdict", VerdictName(judged.verdict.verdict)},
               {"cpu_ms", judged.verdict.cpu_ms}};
  if (!judged.claim.input.empty()) json["input"] = judged.claim.input;
  if (!judged.verdict.reason.empty()) json["reason"] = judged.verdict.reason;
  if (!judged.verdict.witness.empty()) json["witness"] = judged.verdict.witness;
  return json;
}

}  // namespace

absl::StatusOr<Answer> VerifyGradients(const GradientFlags& flags, Session& session) {
  Console& console = session.console;
  const absl::StatusOr<std::vector<const OpDef*>> ops = Chosen(flags.operators);
  if (!ops.ok()) return ops.status();
  const double cpu_before = ProcessCpuSeconds();
  std::vector<Judged> all;
  for (const OpDef* op : *ops) {
    absl::StatusOr<std::vector<GradientClaim>> claims = GradientClaims(*op, flags.structures);
    if (!claims.ok()) return claims.status();
    for (GradientClaim& claim : *claims) all.push_back({op, std::move(claim), {}});
  }
  const bool certify = !flags.certificates.empty();
  if (certify) RETURN_IF_ERROR(MakeCertificateFolder(flags.certificates));
  std::vector<absl::StatusOr<std::string>> seals(all.size(), std::string());
  Progress progress(console, "verify");
  std::atomic<size_t> done{0};
  ForEachIndex(all.size(), NumThreads(session.flags.threads), [&](size_t i) {
    all[i].verdict = JudgeClaim(all[i].claim, flags.time_limit, certify);
    seals[i] = WriteCertificate(flags.certificates, all[i].claim.rule.name, &all[i].verdict);
    progress.Update(static_cast<double>(++done) / static_cast<double>(all.size()),
                    absl::StrFormat("%d of %d  %s", done.load(), all.size(), Title(all[i])));
  });

  if (certify) {
    CertificateIndex index;
    for (size_t i = 0; i < all.size(); ++i) {
      if (!seals[i].ok()) return seals[i].status();
      if (!seals[i]->empty()) index[CertificateFileName(all[i].claim.rule.name)] = *seals[i];
    }
    RETURN_IF_ERROR(WriteCertificateIndex(flags.certificates, index));
    console.json()["certificates"] = index.size();
  }

  std::map<Verdict, int> counts;
  std::set<const OpDef*> with_claims, open;
  Json list = Json::array();
  for (const Judged& judged : all) {
    const RuleVerdict& verdict = judged.verdict;
    ++counts[verdict.verdict];
    with_claims.insert(judged.op);
    if (verdict.verdict != Verdict::kProved) open.insert(judged.op);
    std::string line = absl::StrFormat("%-8s %s  (%s; %.0f ms)", VerdictName(verdict.verdict), Title(judged),
                                       judged.claim.structure, verdict.cpu_ms);
    if (verdict.verdict != Verdict::kProved) absl::StrAppend(&line, "\n         ", verdict.reason);
    console.Result(line);
    list.push_back(ToJson(judged));
  }
  const double cpu_seconds = ProcessCpuSeconds() - cpu_before;
  console.Result(absl::StrFormat(
      "%d operators, %d with every claim proved; %d claims: %d proved, %d refuted, %d unknown; %.1f s of CPU time",
      with_claims.size(), with_claims.size() - open.size(), all.size(), counts[Verdict::kProved],
      counts[Verdict::kRefuted], counts[Verdict::kUnknown], cpu_seconds));
  Json& json = console.json();
  json["claims"] = std::move(list);
  json["operators"] = with_claims.size();
  json["operators_proved"] = with_claims.size() - open.size();
  json["proved"] = counts[Verdict::kProved];
  json["refuted"] = counts[Verdict::kRefuted];
  json["unknown"] = counts[Verdict::kUnknown];
  json["cpu_seconds"] = cpu_seconds;
  return open.empty() ? Answer::kYes : Answer::kNo;
}

}  // namespace rewright
