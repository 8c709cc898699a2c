// Tokens of the rule language.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rewright {

struct RuleToken {
  enum class Kind : uint8_t {
    kName,    // letters, digits, _; the word after `rule` may contain - and . too
    kInt,     // digits
    kReal,    // digits with a point or an exponent
    kString,  // "..."; text is what stands between the quotes
    kSign,    // punctuation
    kEnd,
  };
  Kind kind = Kind::kEnd;
  std::string text;
  int64_t integer = 0;
  double real = 0;
  int line = 0;
  int column = 0;
  // For the word `rule`: the comments since the last token, in paragraphs (lines that follow one another), and whether
  // the last of them ends right above.
  std::vector<std::vector<std::string>> comments;
  bool comment_touches = false;
};

// `file` is a name for errors.
absl::StatusOr<std::vector<RuleToken>> LexRules(const std::string& text, const std::string& file);

// file:line:column: message
absl::Status RuleError(const std::string& file, int line, int column, const std::string& message);

}  // namespace rewright
