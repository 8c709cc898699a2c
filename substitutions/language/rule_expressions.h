// Parses the tokens of rules, and the expressions in them, by recursive descent; rule_parser.cc parses terms and rules.
// A method leaves the position right behind the text that it parsed; an error is a Status that names line and column.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "substitutions/language/rule.h"
#include "substitutions/language/rule_lexer.h"

namespace rewright {

class RuleExprParser {
 protected:
  using Kind = RuleToken::Kind;

  static constexpr size_t kMaxItems = 64;  // operands, list elements, outputs, lets

  RuleExprParser(std::vector<RuleToken> tokens, const std::string& file, RuleErrors* errors)
      : tokens_(std::move(tokens)), file_(file), errors_(*errors) {}

  const RuleToken& Peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  bool IsSign(const char* sign, size_t ahead = 0) const {
    return Peek(ahead).kind == Kind::kSign && Peek(ahead).text == sign;
  }
  bool IsWord(const char* word, size_t ahead = 0) const {
    return Peek(ahead).kind == Kind::kName && Peek(ahead).text == word;
  }
  bool Accept(const char* sign) {
    if (!IsSign(sign)) return false;
    ++at_;
    return true;
  }
  bool AcceptWord(const char* word) {
    if (!IsWord(word)) return false;
    ++at_;
    return true;
  }
  absl::Status Expect(const char* sign) {
    return Accept(sign) ? absl::OkStatus() : Found(absl::StrCat("`", sign, "`"));
  }
  absl::Status Found(const std::string& expected) const;
  // An error after which the rule can be read on.
  void Complain(int line, int column, const std::string& message) {
    sound_ = false;
    errors_.Add(RuleError(file_, line, column, message));
  }
  absl::Status Error(const std::string& message) const { return RuleError(file_, Peek().line, Peek().column, message); }
  absl::Status Name(std::string& name, const char* what);

  // Counts the depth of recursion.
  class Nesting {
   public:
    explicit Nesting(int& depth) : depth_(depth) { ++depth_; }
    ~Nesting() { --depth_; }

   private:
    int& depth_;
  };

  absl::Status Arg(ArgExpr& expr) { return BinaryLevel(expr, 0); }
  // Parses an expression that binds tighter than any operator of two operands.
  absl::Status Unary(ArgExpr& expr);
  absl::Status Primary(ArgExpr& expr);
  // Expressions up to the closing sign; one followed by `..` is spliced.
  absl::Status Items(const char* close, std::vector<ArgExpr>& items);

  std::vector<RuleToken> tokens_;
  const std::string& file_;
  RuleErrors& errors_;
  bool sound_ = true;  // nothing is wrong with the rule so far
  size_t at_ = 0;
  int depth_ = 0;
  bool term_value_ = false;  // a number or ?name that stands for a tensor is being parsed

 private:
  // Weakest binding first: or; and; not; comparisons (one at most); + -; * / div mod.
  absl::Status BinaryLevel(ArgExpr& expr, int level);
  bool BinaryOp(int level, ArgOp* op) const;
  absl::Status NotLevel(ArgExpr& expr);
  absl::Status Postfix(ArgExpr& expr);
  ArgExpr At() const;
};

}  // namespace rewright
