#include "tools/program/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>

namespace rewright {
namespace {

constexpr char kGreen[] = "\033[32m", kRed[] = "\033[31m", kYellow[] = "\033[33m", kPlain[] = "\033[0m";

// Null: the word has none.
const char* ColorOf(const std::string& word) {
  static const std::map<std::string, const char*> kColors = {
      {"proved", kGreen}, {"equal", kGreen},         {"refuted", kRed},  {"different", kRed}, {"unknown", kYellow},
      {"open", kYellow},  {"inconclusive", kYellow}, {"rewright", kRed},  // errors begin with the command
      {"stale", kYellow}, {"warning:", kYellow},
  };
  const auto found = kColors.find(word);
  return found == kColors.end() ? nullptr : found->second;
}

}  // namespace

int TerminalWidth(int descriptor) {
  winsize size = {};
  if (isatty(descriptor) != 1 || ioctl(descriptor, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

std::string WholeWords(const std::string& line, size_t columns) {
  if (line.size() <= columns) return line;
  const size_t end = line.rfind(' ', columns);
  return line.substr(0, end == std::string::npos ? columns : end);
}

bool HasColors(int descriptor) {
  if (isatty(descriptor) != 1) return false;
  const char* const refused = std::getenv("NO_COLOR");
  const char* const kind = std::getenv("TERM");
  return (refused == nullptr || *refused == '\0') && kind != nullptr && std::string(kind) != "dumb";
}

std::string Colored(const std::string& text) {
  std::istringstream lines(text);
  std::string colored;
  for (std::string line; std::getline(lines, line);) {
    const size_t end = std::min(line.find_first_of(" ,"), line.size());
    const char* const color = ColorOf(line.substr(0, end));
    if (!colored.empty()) colored += "\n";
    colored += color == nullptr ? line : color + line.substr(0, end) + kPlain + line.substr(end);
  }
  return colored;
}

}  // namespace rewright
