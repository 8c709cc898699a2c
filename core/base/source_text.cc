#include "core/base/source_text.h"

#include <cctype>
#include <cstddef>

namespace rewright {
namespace {

bool IsWordCharacter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// True if two characters side by side may be read as one token: `int a`, `a + +b`, `x < ::y`.
bool RunTogether(char before, char after) {
  if (IsWordCharacter(before) || IsWordCharacter(after)) {
    // A point or quote belongs to a number or literal beside it.
    const auto binds = [](char c) { return IsWordCharacter(c) || c == '.' || c == '"' || c == '\''; };
    return binds(before) && binds(after);
  }
  const auto lone = [](char c) { return c == '(' || c == ')' || c == '{' || c == '}' || c == ',' || c == ';'; };
  return !lone(before) && !lone(after);
}

// Returns one past the end of the literal that begins at `at` with a quote; the end of the text if it does not end.
size_t EndOfQuoted(const std::string& source, size_t at) {
  const char quote = source[at];
  for (++at; at < source.size() && source[at] != quote; ++at) at += source[at] == '\\';
  return at < source.size() ? at + 1 : source.size();
}

// Likewise for a raw string, R"mark(..)mark", whose quote is at `at`.
size_t EndOfRaw(const std::string& source, size_t at) {
  const size_t open = source.find('(', at);
  if (open == std::string::npos) return source.size();
  const std::string closing = ")" + source.substr(at + 1, open - at - 1) + "\"";
  const size_t end = source.find(closing, open);
  return end == std::string::npos ? source.size() : end + closing.size();
}

size_t EndOfComment(const std::string& source, size_t at) {
  const bool line = source[at + 1] == '/';
  const size_t end = line ? source.find('\n', at) : source.find("*/", at + 2);
  if (end == std::string::npos) return source.size();
  return line ? end : end + 2;
}

}  // namespace

std::string SourceTokens(const std::string& source) {
  std::string tokens;
  bool parted = false;     // white space or a comment came before
  bool directive = false;  // a line of the preprocessor, which ends with its line
  for (size_t at = 0; at < source.size();) {
    const char c = source[at];
    if (c == '/' && at + 1 < source.size() && (source[at + 1] == '/' || source[at + 1] == '*')) {
      at = EndOfComment(source, at);
      parted = true;
      continue;
    }
    if (c == '\n' && directive) {
      tokens += '\n';
      directive = false;
    }
    if (std::isspace(static_cast<unsigned char>(c))) {
      parted = true;
      ++at;
      continue;
    }
    if (c == '\\' && at + 1 < source.size() && source[at + 1] == '\n') {
      at += 2;
      parted = true;
      continue;
    }
    if (parted && !tokens.empty() && tokens.back() != '\n' && RunTogether(tokens.back(), c)) tokens += ' ';
    const size_t begin = at;
    // The quotes of 1'000 begin no character literal.
    const bool digits =
        c == '\'' && !parted && !tokens.empty() && std::isxdigit(static_cast<unsigned char>(tokens.back()));
    if (c == '#') directive = true;
    if (c == '"' && !parted && !tokens.empty() && tokens.back() == 'R') {
      at = EndOfRaw(source, at);
    } else if ((c == '"' || c == '\'') && !digits) {
      at = EndOfQuoted(source, at);
    } else {
      ++at;
    }
    tokens += source.substr(begin, at - begin);
    parted = false;
  }
  return tokens;
}

}  // namespace rewright
