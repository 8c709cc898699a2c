#include "tools/verbs/verify/verify_journal.h"

#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/text_hash.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/prover_hash.h"
#include "substitutions/rule_set.h"

namespace rewright {
namespace {

constexpr char kJournalFirstLine[] = R"({"journal":"rewright verify 3"})";

bool ParseVerdict(const std::string& name, Verdict* verdict) {
  for (Verdict candidate : {Verdict::kProved, Verdict::kRefuted, Verdict::kUnknown}) {
    if (name != VerdictName(candidate)) continue;
    *verdict = candidate;
    return true;
  }
  return false;
}

// False where the line is not as it was written, as the last one of a run that was killed may not be.
bool ParseEntry(std::string line, std::string* key, JournalEntry* entry) {
  if (!OpenSealedLine(&line)) return false;
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("key")) return false;
  try {
    RuleVerdict& verdict = entry->verdict;
    *key = json.at("key").get<std::string>();
    if (!ParseVerdict(json.at("verdict").get<std::string>(), &verdict.verdict) ||
        !ParseRuleClass(json.at("class").get<std::string>(), &verdict.rule_class)) {
      return false;
    }
    verdict.limits.max_rank = json.at("max_rank").get<int>();
    verdict.limits.max_perm_rank = json.at("max_perm_rank").get<int>();
    verdict.limits.max_broadcast_rank = json.at("max_broadcast_rank").get<int>();
    verdict.instances = json.at("instances").get<int>();
    verdict.proofs = json.at("proofs").get<int>();
    verdict.trials = json.at("trials").get<int>();
    verdict.vacuous = json.at("vacuous").get<int>();
    verdict.every_rank = json.at("every_rank").get<bool>();
    verdict.domain = json.at("domain").get<std::string>();
    verdict.reason = json.at("reason").get<std::string>();
    verdict.witness = json.at("witness").get<std::string>();
    verdict.cpu_ms = json.at("cpu_ms").get<double>();
    for (const auto& [name, rule_class] : json.at("operators").items()) {
      verdict.operators.push_back({name});
      if (!ParseRuleClass(rule_class.get<std::string>(), &verdict.operators.back().rule_class)) return false;
    }
    entry->counterexample = json.at("counterexample");
    if (json.contains("seal")) entry->seal = json.at("seal").get<std::string>();
  } catch (const nlohmann::json::exception&) {
    return false;
  }
  return true;
}

Json ToJson(const Number& number) {
  return std::visit([](auto value) { return Json(value); }, number);
}

}  // namespace

Json ToJson(const Counterexample& found, const std::string& instance) {
  Json sizes = Json::object(), reals = Json::object(), inputs = Json::array();
  for (const auto& [name, value] : found.symbols) sizes[name] = value;
  for (const auto& [name, value] : found.reals) reals[name] = ToJson(value);
  for (const Counterexample::Input& input : found.inputs) {
    const Json values = input.integers.empty() ? Json(input.values) : Json(input.integers);
    inputs.push_back({{"name", input.name}, {"type", input.type.ToString()}, {"values", values}});
  }
  Json json = {{"obligation", ObligationName(found.obligation)}, {"instance", instance}, {"sizes", sizes}};
  if (!reals.empty()) json["reals"] = reals;
  if (!found.detail.empty()) json["detail"] = found.detail;
  if (found.obligation != Obligation::kWellFormed) json["output"] = found.output;
  if (found.obligation == Obligation::kElements) {
    json["at"] = found.at;
    json["lhs"] = ToJson(found.lhs);
    json["rhs"] = ToJson(found.rhs);
  }
  if (!inputs.empty()) json["inputs"] = inputs;
  return json;
}

absl::Status VerifyJournal::Open(const std::string& path) {
  ASSIGN_OR_RETURN(AppendFile out, AppendFile::Open(path));
  ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  std::istringstream lines(text);
  std::string line;
  if (!text.empty() && (!std::getline(lines, line) || line != kJournalFirstLine)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ":1: found another file, expected a journal of `rewright verify --resume`"));
  }
  while (std::getline(lines, line)) {
    std::string key;
    JournalEntry entry;
    if (ParseEntry(line, &key, &entry)) entries_[key] = std::move(entry);
  }
  if (text.empty()) RETURN_IF_ERROR(out.Write(absl::StrCat(kJournalFirstLine, "\n")));
  if (!text.empty() && text.back() != '\n') RETURN_IF_ERROR(out.Write("\n"));
  out_.emplace(std::move(out));
  return absl::OkStatus();
}

const JournalEntry* VerifyJournal::Find(const std::string& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second;
}

absl::Status VerifyJournal::Add(const std::string& key, const Rule& rule, const JournalEntry& entry) {
  const RuleVerdict& verdict = entry.verdict;
  Json operators = Json::object();
  for (const OperatorClass& op : verdict.operators) operators[op.name] = RuleClassName(op.rule_class);
  Json json = {{"key", key},
               {"rule", rule.name},
               {"verdict", VerdictName(verdict.verdict)},
               {"class", RuleClassName(verdict.rule_class)},
               {"max_rank", verdict.limits.max_rank},
               {"max_perm_rank", verdict.limits.max_perm_rank},
               {"max_broadcast_rank", verdict.limits.max_broadcast_rank},
               {"instances", verdict.instances},
               {"proofs", verdict.proofs},
               {"trials", verdict.trials},
               {"vacuous", verdict.vacuous},
               {"every_rank", verdict.every_rank},
               {"domain", verdict.domain},
               {"reason", verdict.reason},
               {"witness", verdict.witness},
               {"cpu_ms", verdict.cpu_ms},
               {"operators", std::move(operators)},
               {"counterexample", entry.counterexample}};
  if (!entry.seal.empty()) json["seal"] = entry.seal;
  const std::string line = SealedLine(json.dump(-1, ' ', false, Json::error_handler_t::replace)) + "\n";
  const std::lock_guard<std::mutex> lock(mutex_);
  return out_->Write(line);
}

std::optional<std::string> JournalKey(const Rule& rule, const RuleProofOptions& options) {
  const auto compiled = CompileRule(rule, options.use);
  if (!compiled.ok()) return std::nullopt;
  const auto hash = SpecHash(**compiled);
  if (!hash.ok()) return std::nullopt;
  TextHash key;
  key.Add(PrintLaw(rule));
  key.Add(absl::StrCat(*hash, " ", TextHash::Hex(ProverHash()), " ", options.limits.max_rank, " ",
                       options.limits.max_perm_rank, " ", options.limits.max_broadcast_rank, " ", options.work_limit_s,
                       " ", options.instance_limit_s, " ", options.seed));
  return key.Hex();
}

}  // namespace rewright
