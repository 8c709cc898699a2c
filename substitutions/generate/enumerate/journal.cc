#include "substitutions/generate/enumerate/journal.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"
#include "core/base/text_hash.h"

namespace rewright::generate {
namespace {

constexpr size_t kFields = 9;

std::string LineOf(const std::string& key, const Outcome& outcome) {
  std::string detail = outcome.detail;
  std::replace_if(
      detail.begin(), detail.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return SealedLine(absl::StrCat(key, "\t", FateName(outcome.fate), "\t", static_cast<int>(outcome.generality), "\t",
                                 RuleClassName(outcome.rule_class), "\t", outcome.limits.max_rank, "\t",
                                 outcome.limits.max_perm_rank, "\t", outcome.limits.max_broadcast_rank, "\t",
                                 outcome.instances, "\t", detail)) +
         "\n";
}

// False where the line is not as it was written.
bool Parse(std::string line, std::string* key, Outcome* outcome) {
  if (!OpenSealedLine(&line)) return false;
  const std::vector<std::string> fields = absl::StrSplit(line, '\t');
  if (fields.size() != kFields) return false;
  *key = fields[0];
  bool known = false;
  for (Fate fate : {Fate::kDerivable, Fate::kProved, Fate::kRefuted, Fate::kUnknown, Fate::kSpecial}) {
    if (fields[1] != FateName(fate)) continue;
    outcome->fate = fate;
    known = true;
  }
  int generality = 0;
  outcome->detail = fields[8];
  if (!known || !absl::SimpleAtoi(fields[2], &generality) || generality < 0 ||
      generality > static_cast<int>(Generality::kSpace)) {
    return false;
  }
  outcome->generality = static_cast<Generality>(generality);
  return ParseRuleClass(fields[3], &outcome->rule_class) && absl::SimpleAtoi(fields[4], &outcome->limits.max_rank) &&
         absl::SimpleAtoi(fields[5], &outcome->limits.max_perm_rank) &&
         absl::SimpleAtoi(fields[6], &outcome->limits.max_broadcast_rank) &&
         absl::SimpleAtoi(fields[7], &outcome->instances);
}

}  // namespace

const char* FateName(Fate fate) {
  constexpr const char* kNames[] = {"derivable", "proved", "refuted", "unknown", "special"};
  return kNames[static_cast<size_t>(fate)];
}

absl::Status SelectionJournal::Open(const std::string& path, const std::string& header) {
  const std::string first = absl::StrCat("rewright generate 4: ", header);
  ASSIGN_OR_RETURN(AppendFile file, AppendFile::Open(path));
  ASSIGN_OR_RETURN(std::string text, ReadText(path));
  // Keeps the text up to the last complete line.
  text.resize(text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1);
  std::istringstream lines(text);
  std::string line;
  if (!text.empty() && (!std::getline(lines, line) || line != first)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ":1: found `", line.substr(0, 200), "`, expected `", first, "`"));
  }
  while (std::getline(lines, line)) {
    std::string key;
    Outcome outcome;
    if (Parse(line, &key, &outcome)) outcomes_[key] = std::move(outcome);
  }
  RETURN_IF_ERROR(file.CutTo(static_cast<int64_t>(text.size())));
  if (text.empty()) RETURN_IF_ERROR(file.Write(first + "\n"));
  file_.emplace(std::move(file));
  return absl::OkStatus();
}

const Outcome* SelectionJournal::Find(const std::string& key) const {
  const auto found = outcomes_.find(key);
  return found == outcomes_.end() ? nullptr : &found->second;
}

absl::Status SelectionJournal::Add(const std::vector<std::pair<std::string, Outcome>>& outcomes) {
  if (!file_) return absl::OkStatus();
  std::string lines;
  for (const auto& [key, outcome] : outcomes) lines += LineOf(key, outcome);
  RETURN_IF_ERROR(file_->Write(lines));
  return file_->Sync();
}

}  // namespace rewright::generate
