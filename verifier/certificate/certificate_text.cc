#include "verifier/certificate/certificate_text.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/status_macros.h"
#include "core/base/text_hash.h"

namespace rewright {
namespace {

constexpr char kFirstLine[] = "rewright certificate 3";
constexpr size_t kMaxShown = 160;

void AppendIndented(const std::string& lines, const char* indent, std::string* text) {
  for (absl::string_view line : absl::StrSplit(absl::StripSuffix(lines, "\n"), '\n')) {
    absl::StrAppend(text, indent, line, "\n");
  }
}

std::string QueryLine(const SmtQuery& query) {
  return absl::StrCat("query ", query.Name(), " purpose ", query.purpose, " logic ", query.logic,
                      " expected unsat lines ", std::count(query.text.begin(), query.text.end(), '\n'));
}

std::string DomainLine(const DomainLimits& domain) {
  return absl::StrCat("domain max_rank=", domain.max_rank, " max_perm_rank=", domain.max_perm_rank,
                      " max_broadcast_rank=", domain.max_broadcast_rank);
}

std::string ClassLine(RuleClass rule_class) { return absl::StrCat("class ", RuleClassName(rule_class)); }

std::string Shown(absl::string_view line) {
  std::string text(line.substr(0, kMaxShown));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || static_cast<unsigned char>(c) > '~') c = '?';
  }
  return absl::StrCat("`", text, line.size() > kMaxShown ? "..`" : "`");
}

}  // namespace

CertificateReader::CertificateReader(const std::string& text, std::string file) : file_(std::move(file)) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) lines_.push_back(line);
  if (!lines_.empty() && lines_.back().empty()) lines_.pop_back();  // the empty text after the last newline
}

absl::Status CertificateReader::Run() {
  RETURN_IF_ERROR(Header());
  RETURN_IF_ERROR(Law());
  while (at_ < lines_.size() && absl::StartsWith(lines_[at_], "instance ")) RETURN_IF_ERROR(Instance());
  while (at_ < lines_.size() && absl::StartsWith(lines_[at_], "query ")) RETURN_IF_ERROR(Query());
  while (at_ < lines_.size() && absl::StartsWith(lines_[at_], "steps ")) RETURN_IF_ERROR(ReadSteps());
  if (at_ + 1 != lines_.size() || !absl::StartsWith(lines_[at_], "seal ")) {
    return Found("an instance, a query, the steps of an instance, or a seal at the end");
  }
  for (const auto& [line, name] : named_) {
    if (known_.count(name)) continue;
    return ErrorAt(line, absl::StrCat("found a step settled by query ", name,
                                      ", expected that query among those of the certificate"));
  }
  return absl::OkStatus();
}

absl::Status CertificateReader::ErrorAt(size_t line, const std::string& message) const {
  return absl::InvalidArgumentError(absl::StrCat(file_, ":", line + 1, ": ", message));
}

absl::Status CertificateReader::Compare(const std::string& derived) const {
  const std::vector<absl::string_view> expected = absl::StrSplit(derived, '\n');
  for (size_t i = 0; i + 1 < expected.size() || i < lines_.size(); ++i) {
    if (i >= lines_.size()) return ErrorAt(i, absl::StrCat("found the end, expected ", Shown(expected[i])));
    if (i + 1 >= expected.size()) return ErrorAt(i, absl::StrCat("found ", Shown(lines_[i]), ", expected the end"));
    if (lines_[i] == expected[i]) continue;
    // Long lines are shown from where they differ.
    size_t same = 0;
    while (same < lines_[i].size() && same < expected[i].size() && lines_[i][same] == expected[i][same]) ++same;
    const size_t from = same > kMaxShown / 2 ? same - 20 : 0;
    return ErrorAt(i, absl::StrCat("found ", Shown(lines_[i].substr(from)), ", expected ",
                                   Shown(expected[i].substr(from)), ", at column ", same + 1));
  }
  return absl::OkStatus();
}

absl::Status CertificateReader::Found(const std::string& expected) const {
  const std::string found = at_ < lines_.size() ? Shown(lines_[at_]) : "the end";
  return ErrorAt(at_, absl::StrCat("found ", found, ", expected ", expected));
}

absl::StatusOr<absl::string_view> CertificateReader::Field(const char* key) {
  if (at_ >= lines_.size() || !absl::StartsWith(lines_[at_], key)) return Found(absl::StrCat("`", key, "..`"));
  return lines_[at_++].substr(std::string(key).size());
}

absl::Status CertificateReader::Header() {
  if (lines_.empty() || lines_[0] != kFirstLine) return Found(absl::StrCat("`", kFirstLine, "`"));
  ++at_;
  for (const char* key : {"prover ", "spec "}) {
    if (auto field = Field(key); !field.ok()) return field.status();
  }
  const auto domain = Field("domain ");
  if (!domain.ok()) return domain.status();
  std::vector<int> values;
  for (absl::string_view part : absl::StrSplit(*domain, ' ')) {
    const std::vector<absl::string_view> pair = absl::StrSplit(part, '=');
    int value = 0;
    // A domain beyond the largest that proofs run to would only cost time.
    if (pair.size() == 2 && absl::SimpleAtoi(pair[1], &value) && value >= 0 && value <= DomainLimits().max_rank) {
      values.push_back(value);
    }
  }
  if (values.size() == 3) {
    domain_.max_rank = values[0];
    domain_.max_perm_rank = values[1];
    domain_.max_broadcast_rank = values[2];
  }
  if (values.size() != 3 || lines_[at_ - 1] != DomainLine(domain_)) {
    --at_;
    return Found(absl::StrCat("`", DomainLine(DomainLimits()), "` or a smaller domain"));
  }
  for (const char* key : {"class ", "instances ", "queries "}) {
    if (auto field = Field(key); !field.ok()) return field.status();
  }
  return absl::OkStatus();
}

absl::Status CertificateReader::Law() {
  if (at_ >= lines_.size() || lines_[at_] != "law") return Found("`law`");
  ++at_;
  law_line_ = static_cast<int>(at_);
  while (at_ < lines_.size() && absl::StartsWith(lines_[at_], "  ")) {
    absl::StrAppend(&law_, lines_[at_++].substr(2), "\n");
  }
  return law_.empty() ? Found("a rule, indented") : absl::OkStatus();
}

absl::Status CertificateReader::Instance() {
  const std::vector<absl::string_view> words = absl::StrSplit(lines_[at_], ' ');
  int strategy = -1;
  if (words.size() != 6 || words[2] != "strategy" || !absl::SimpleAtoi(words[3], &strategy)) {
    return Found("`instance N strategy N laws real|finite`");
  }
  strategies_.push_back(strategy);
  instance_lines_.push_back(static_cast<int>(at_++));
  while (at_ < lines_.size() && absl::StartsWith(lines_[at_], "  ")) {
    absl::string_view step = lines_[at_];
    if (absl::ConsumePrefix(&step, "  query ")) named_.emplace_back(at_, step.substr(0, step.find(':')));
    ++at_;
  }
  return absl::OkStatus();
}

absl::Status CertificateReader::Query() {
  const size_t line = at_;
  const absl::string_view head = lines_[at_++];
  size_t count = 0;
  if (!absl::SimpleAtoi(head.substr(head.rfind(' ') + 1), &count)) {
    --at_;
    return Found("`query NAME purpose .. lines N`");
  }
  std::string text;
  for (size_t i = 0; i < count && at_ < lines_.size(); ++i) absl::StrAppend(&text, lines_[at_++], "\n");
  const std::string name = TextHash::HexOf(text);
  const std::vector<absl::string_view> words = absl::StrSplit(head, ' ');
  if (words[1] != name) {
    return ErrorAt(
        line, absl::StrCat("found query ", Shown(words[1]), ", expected ", name, ", which is the hash of its text"));
  }
  known_.insert(name);
  if (words.size() > 5) queries_.emplace_back(line + 1, SmtQuery{"", std::string(words[words.size() - 5]), text});
  texts_.insert(std::move(text));
  return absl::OkStatus();
}

absl::Status CertificateReader::ReadSteps() {
  const std::vector<absl::string_view> words = absl::StrSplit(lines_[at_], ' ');
  size_t number = 0, count = 0;
  const bool plain = words.size() == 4 && words[2] == "lines" && absl::SimpleAtoi(words[1], &number) &&
                     absl::SimpleAtoi(words[3], &count);
  if (!plain || number != steps_.size() + 1 || count >= lines_.size() - at_) {
    return Found(absl::StrCat("`steps ", steps_.size() + 1, " lines N`, and as many lines"));
  }
  const auto first = lines_.begin() + static_cast<int64_t>(at_) + 1;
  steps_.push_back({at_ + 2, {first, first + static_cast<int64_t>(count)}});
  at_ += count + 1;
  return absl::OkStatus();
}

// The queries of all instances, each once, in the order of first use.
std::vector<SmtQuery> DistinctQueries(const Certificate& certificate) {
  std::vector<SmtQuery> distinct;
  std::set<std::pair<std::string, std::string>> seen;
  for (const InstanceCertificate& instance : certificate.instances) {
    for (const SmtQuery& query : instance.queries) {
      if (seen.emplace(query.purpose, query.text).second) distinct.push_back(query);
    }
  }
  return distinct;
}

std::string CertificateFileName(const std::string& rule_name) { return rule_name + ".cert"; }

std::string SealOf(const std::string& text) { return TextHash::HexOf(text); }

std::string SealAtEnd(const std::string& certificate) {
  const size_t at = certificate.rfind("\nseal ");
  if (at == std::string::npos || certificate.size() != at + 6 + 16 + 1) return "";
  return certificate.substr(at + 6, 16);
}

std::string PrintCertificate(const Certificate& certificate) {
  const std::vector<SmtQuery> queries = DistinctQueries(certificate);
  std::string text = absl::StrCat(kFirstLine, "\nprover ", TextHash::Hex(certificate.prover), "\nspec ",
                                  TextHash::Hex(certificate.spec_hash), "\n", DomainLine(certificate.domain), "\n",
                                  ClassLine(certificate.rule_class), "\ninstances ", certificate.instances.size(),
                                  "\nqueries ", queries.size(), "\nlaw\n");
  AppendIndented(certificate.law, "  ", &text);
  int number = 0;
  for (const InstanceCertificate& instance : certificate.instances) {
    absl::StrAppend(&text, "instance ", ++number, " strategy ", instance.strategy, " laws ",
                    instance.finite_laws ? "finite" : "real", "\n");
    AppendIndented(instance.instance, "  | ", &text);
    for (const std::string& step : instance.steps) absl::StrAppend(&text, "  ", step, "\n");
  }
  for (const SmtQuery& query : queries) absl::StrAppend(&text, QueryLine(query), "\n", query.text);
  number = 0;
  for (const InstanceCertificate& instance : certificate.instances) {
    absl::StrAppend(&text, "steps ", ++number, " lines ", std::count(instance.told.begin(), instance.told.end(), '\n'),
                    "\n", instance.told);
  }
  return absl::StrCat(text, "seal ", SealOf(text), "\n");
}

}  // namespace rewright
