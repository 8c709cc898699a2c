// Tokens of the rule language.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace rewright {

struct RuleToken {
  enum class Kind : uint8_t {
    kName,    // letters, digits, _; the word after `rule` may contain - and . too
    kInt,     // digits
    kReal,    // digits with a point or an exponent
    kString,  // "..."; text is the string between the quotes
    kSign,    // punctuation
    kEnd,
  };
  Kind kind = Kind::kEnd;
  std::string text;
  int64_t integer = 0;
  bool only_negated = false;  // kInt: 2^63, of which `integer` is the negative
  double real = 0;
  int line = 0;
  int column = 0;
  // With the word `rule` come the comments since the last token, in paragraphs (lines that follow one another), and a
  // flag: the last of them ends right above.
  std::vector<std::vector<std::string>> comments;
  bool comment_touches = false;
};

// file:line:column: message
absl::Status RuleError(const std::string& file, int line, int column, const std::string& message);

// Collects the errors of a text, one line each, for as long as they make sense.
class RuleErrors {
 public:
  void Add(const absl::Status& error) {
    if (!error.ok()) messages_.emplace_back(error.message());
  }
  bool empty() const { return messages_.empty(); }
  // All of them in one message, in the order in which they were found; those after the first hundred are counted.
  absl::Status ToStatus() const;

 private:
  std::vector<std::string> messages_;
};

// Splits the text into tokens. `file` is a name for errors. Characters that make no token are reported and left out.
std::vector<RuleToken> LexRules(const std::string& text, const std::string& file, RuleErrors* errors);

}  // namespace rewright
