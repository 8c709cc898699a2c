#include "substitutions/rule_lexer.h"

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
  Lexer(const std::string& text, const std::string& file) : text_(text), file_(file) {}

  absl::StatusOr<std::vector<RuleToken>> Run() {
    if (text_.size() > kMaxText) return absl::InvalidArgumentError(absl::StrCat(file_, ": larger than 16 MB"));
    while (SkipBlanks()) {
      RuleToken token;
      token.line = line_;
      token.column = Column();
      if (absl::Status error = Next(token); !error.ok()) return error;
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
    return RuleError(file_, line_, Column(), absl::StrCat("found character `", std::string(1, c), "`"));
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
    token.text = text_.substr(begin, at_ - begin);
    token.kind = real ? RuleToken::Kind::kReal : RuleToken::Kind::kInt;
    errno = 0;
    token.real = std::strtod(token.text.c_str(), nullptr);
    if (!real) token.integer = std::strtoll(token.text.c_str(), nullptr, 10);
    if (errno == ERANGE || IsNameStart(Peek())) {
      return RuleError(file_, token.line, token.column, absl::StrCat("found `", token.text, "`, expected a number"));
    }
    return absl::OkStatus();
  }

  absl::Status String(RuleToken& token) {
    const size_t begin = ++at_;
    while (at_ < text_.size() && Peek() != '"' && Peek() != '\n') ++at_;
    if (Peek() != '"') return RuleError(file_, token.line, token.column, "found no closing quote on the line");
    token.kind = RuleToken::Kind::kString;
    token.text = text_.substr(begin, at_ - begin);
    ++at_;
    return absl::OkStatus();
  }

  const std::string& text_;
  const std::string& file_;
  size_t at_ = 0;
  size_t line_start_ = 0;
  int line_ = 1;
  bool after_rule_name_ = false;  // the last token was a rule's name, which may itself be `rule`
  std::vector<std::vector<std::string>> comments_;
  int comment_end_ = -1;  // line of the last comment
  std::vector<RuleToken> tokens_;
};

}  // namespace

absl::StatusOr<std::vector<RuleToken>> LexRules(const std::string& text, const std::string& file) {
  return Lexer(text, file).Run();
}

absl::Status RuleError(const std::string& file, int line, int column, const std::string& message) {
  return absl::InvalidArgumentError(absl::StrCat(file, ":", line, ":", column, ": ", message));
}

}  // namespace rewright
