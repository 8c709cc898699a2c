#include "substitutions/language/rule_lexer.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rewright {
namespace {

constexpr size_t kMaxText = 16 << 20;

bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)); }
bool IsNameStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool IsNameChar(char c) { return IsNameStart(c) || IsDigit(c); }

class Lexer {
 public:
  Lexer(const std::string& text, const std::string& file, RuleErrors* errors)
      : text_(text), file_(file), errors_(*errors) {}

  std::vector<RuleToken> Run() {
    if (text_.size() > kMaxText) {
      errors_.Add(absl::InvalidArgumentError(
          absl::StrCat(file_, ": found ", text_.size(), " bytes, expected at most ", kMaxText)));
      at_ = text_.size();
    }
    while (SkipBlanks()) {
      RuleToken token;
      token.line = line_;
      token.column = Column();
      if (absl::Status error = Next(token); !error.ok()) {
        errors_.Add(error);
        continue;
      }
      if (token.kind == RuleToken::Kind::kName && token.text == "rule") {
        token.comments = std::move(comments_);
        token.comment_touches = comment_end_ == token.line - 1;
      }
      comments_.clear();
      tokens_.push_back(std::move(token));
    }
    RuleToken end;
    end.line = line_;
    end.column = Column();
    tokens_.push_back(std::move(end));
    return std::move(tokens_);
  }

 private:
  int Column() const { return static_cast<int>(at_ - line_start_) + 1; }
  char Peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  // Moves to the next token; false at the end of the text.
  bool SkipBlanks() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        ++at_;
        ++line_;
        line_start_ = at_;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++at_;
      } else if (c == '#') {
        Comment();
      } else {
        return true;
      }
    }
    return false;
  }

  void Comment() {
    const size_t begin = at_ + 1;
    while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    std::string line = text_.substr(begin, at_ - begin);
    if (!line.empty() && line.front() == ' ') line.erase(0, 1);
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.pop_back();
    if (comment_end_ != line_ - 1 || comments_.empty()) comments_.emplace_back();
    comments_.back().push_back(std::move(line));
    comment_end_ = line_;
  }

  absl::Status Next(RuleToken& token) {
    const char c = Peek();
    if (IsNameStart(c)) return Name(token);
    if (IsDigit(c)) return Number(token);
    if (c == '"') return String(token);
    static constexpr const char* kSigns[] = {"=>", "==", "!=", "<=", ">=", "..", "{", "}", "(", ")", "[", "]",
                                             ",",  "=",  "<",  ">",  ".",  "+",  "-", "*", "/", "?", ":", "~"};
    for (const char* sign : kSigns) {
      const std::string text = sign;
      if (text_.compare(at_, text.size(), text) != 0) continue;
      token.kind = RuleToken::Kind::kSign;
      token.text = text;
      at_ += text.size();
      return absl::OkStatus();
    }
    const int column = Column();
    while (at_ < text_.size() && text_[at_] == c) ++at_;
    const std::string shown = c > ' ' && c <= '~' ? absl::StrCat("`", std::string(1, c), "`")
                                                  : absl::StrCat("of code ", static_cast<unsigned char>(c));
    return RuleError(file_, line_, column,
                     absl::StrCat("found character ", shown, ", expected a name, a number, a string or a sign"));
  }

  absl::Status Name(RuleToken& token) {
    const bool rule_name = !tokens_.empty() && tokens_.back().kind == RuleToken::Kind::kName &&
                           tokens_.back().text == "rule" && !after_rule_name_;
    const size_t begin = at_;
    while (IsNameChar(Peek()) || (rule_name && (Peek() == '-' || Peek() == '.'))) ++at_;
    token.kind = RuleToken::Kind::kName;
    token.text = text_.substr(begin, at_ - begin);
    after_rule_name_ = rule_name;
    return absl::OkStatus();
  }

  absl::Status Number(RuleToken& token) {
    const size_t begin = at_;
    while (IsDigit(Peek())) ++at_;
    bool real = false;
    const bool selects_output = !tokens_.empty() && tokens_.back().text == ".";  // the 0 of x.0
    if (!selects_output && Peek() == '.' && IsDigit(Peek(1))) {
      real = true;
      ++at_;
      while (IsDigit(Peek())) ++at_;
    }
    const size_t sign = Peek(1) == '-' || Peek(1) == '+' ? 1 : 0;
    if (Peek() == 'e' && IsDigit(Peek(1 + sign))) {
      real = true;
      at_ += 1 + sign;
      while (IsDigit(Peek())) ++at_;
    }
    const bool runs_on = IsNameStart(Peek());
    while (IsNameChar(Peek())) ++at_;
    token.text = text_.substr(begin, at_ - begin);
    token.kind = real ? RuleToken::Kind::kReal : RuleToken::Kind::kInt;
    errno = 0;
    if (real) {
      token.real = std::strtod(token.text.c_str(), nullptr);
    } else {
      const uint64_t size = std::strtoull(token.text.c_str(), nullptr, 10);
      constexpr uint64_t kSmallest = uint64_t{1} << 63;
      token.integer = static_cast<int64_t>(size);
      token.only_negated = size == kSmallest;
      if (size > kSmallest) errno = ERANGE;
    }
    if (errno == ERANGE || runs_on) {
      errors_.Add(
          RuleError(file_, token.line, token.column, absl::StrCat("found `", token.text, "`, expected a number")));
    }
    return absl::OkStatus();
  }

  absl::Status String(RuleToken& token) {
    const size_t begin = ++at_;
    while (at_ < text_.size() && Peek() != '"' && Peek() != '\n') ++at_;
    if (Peek() != '"') {
      return RuleError(file_, token.line, token.column, "found no closing quote on the line, expected one");
    }
    token.kind = RuleToken::Kind::kString;
    token.text = text_.substr(begin, at_ - begin);
    ++at_;
    return absl::OkStatus();
  }

  const std::string& text_;
  const std::string& file_;
  RuleErrors& errors_;
  size_t at_ = 0;
  size_t line_start_ = 0;
  int line_ = 1;
  bool after_rule_name_ = false;  // the last token was a rule's name, which may itself be `rule`
  std::vector<std::vector<std::string>> comments_;
  int comment_end_ = -1;  // line of the last comment
  std::vector<RuleToken> tokens_;
};

}  // namespace

std::vector<RuleToken> LexRules(const std::string& text, const std::string& file, RuleErrors* errors) {
  return Lexer(text, file, errors).Run();
}

absl::Status RuleErrors::ToStatus() const {
  constexpr size_t kShown = 100;
  if (messages_.empty()) return absl::OkStatus();
  std::string text;
  for (size_t i = 0; i < std::min(messages_.size(), kShown); ++i) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", messages_[i]);
  }
  if (messages_.size() > kShown) absl::StrAppend(&text, "\nand ", messages_.size() - kShown, " more");
  return absl::InvalidArgumentError(text);
}

absl::Status RuleError(const std::string& file, int line, int column, const std::string& message) {
  return absl::InvalidArgumentError(absl::StrCat(file, ":", line, ":", column, ": ", message));
}

}  // namespace rewright
