#include "tools/program/help/help.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "tools/program/help/completion.h"

namespace rewright {
namespace {

constexpr int kColumn = 26;  // where the text behind a flag begins

// "  left   text", the text in a column of its own; below it where `left` is too long.
std::string Entry(const std::string& left, const std::string& text, int width) {
  std::string line = "  " + left;
  const int at = static_cast<int>(line.size());
  if (at + 2 > kColumn) {
    line += "\n" + std::string(kColumn, ' ');
  } else {
    line += std::string(static_cast<size_t>(kColumn - at), ' ');
  }
  return line + Wrap(text, width - kColumn, kColumn) + "\n";
}

std::string OptionNames(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return absl::StrJoin(names, ", ");
}

std::string OperandName(const CLI::Option& option) {
  const std::string value = ValueName(option);
  const std::string name = value.empty() ? option.get_name(/*positional=*/true) : value;
  return absl::StrCat(name, option.get_items_expected_max() > 1 ? ".." : "");
}

std::string OptionEntry(const CLI::Option& option, int width) {
  return Entry(OptionLeft(option), OptionText(option), width);
}

}  // namespace

const std::vector<EnvironmentVariable>& Environment() {
  static const std::vector<EnvironmentVariable> variables = {
      {"REWRIGHT_ONNXRUNTIME", "The library of onnxruntime to use (default: that of the Python found)"},
      {"REWRIGHT_OPENVINO", "The library of OpenVINO to use, libopenvino_c.so (default: that of the Python found)"},
      {"REWRIGHT_PYTHON",
       "The Python that runs other programs, and whose packages are used (default: that of the path)"},
      {"REWRIGHT_CACHE", "The folder for compiled kernels (default: $XDG_CACHE_HOME/rewright or ~/.cache/rewright)"},
      {"REWRIGHT_JIT", "0: compile no kernels on the CPU"},
      {"NO_COLOR", "Set: no colours"},
  };
  return variables;
}

std::string ValueName(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return "";
  std::string type = option.get_type_name();
  // Before the description of a check stands the type of the text.
  type = std::string(absl::StripPrefix(type, "TEXT:"));
  if (absl::EndsWith(type, ":")) type.pop_back();
  return type;
}

std::string OptionLeft(const CLI::Option& option) {
  if (option.get_positional()) return OperandName(option);
  const std::string value = ValueName(option);
  return absl::StrCat(OptionNames(option), value.empty() ? "" : " ", value);
}

std::string OptionText(const CLI::Option& option) {
  std::string text = option.get_description();
  const auto add = [&](const char* word, const std::set<CLI::Option*>& others) {
    std::vector<std::string> names;
    for (const CLI::Option* other : others) names.push_back(other->get_name());
    std::sort(names.begin(), names.end());
    if (!names.empty()) absl::StrAppend(&text, " (", word, " ", absl::StrJoin(names, ", "), ")");
  };
  if (!option.get_positional() && option.get_required()) absl::StrAppend(&text, " (required)");
  add("with", option.get_needs());
  add("not with", option.get_excludes());
  return text;
}

std::string UsageOf(const CLI::App& app) {
  std::string line = absl::StrCat("rewright ", app.get_name(), " [OPTIONS]");
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    const std::string name = OperandName(*option);
    absl::StrAppend(&line, " ", option->get_required() ? name : absl::StrCat("[", name, "]"));
  }
  return line;
}

std::string Wrap(const std::string& text, int width, int indent) {
  std::string wrapped;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!wrapped.empty()) absl::StrAppend(&wrapped, "\n", std::string(static_cast<size_t>(indent), ' '));
    std::istringstream words(line);
    int column = 0;
    for (std::string word; words >> word;) {
      const int length = static_cast<int>(word.size());
      if (column > 0 && column + 1 + length > width) {
        absl::StrAppend(&wrapped, "\n", std::string(static_cast<size_t>(indent), ' '));
        column = 0;
      }
      if (column > 0) wrapped += " ";
      column += (column > 0 ? 1 : 0) + length;
      wrapped += word;
    }
  }
  return wrapped;
}

std::string ProgramHelp(const CLI::App& app, const std::vector<Verb>& verbs, int width) {
  std::string page = absl::StrCat(Wrap(app.get_description(), width, 0),
                                  "\n\nUsage: rewright VERB [OPTIONS] ..\n       rewright VERB --help\n");
  std::string group;
  for (const Verb& verb : verbs) {
    if (verb.group != group) absl::StrAppend(&page, "\n", verb.group, ":\n");
    group = verb.group;
    const size_t space = 12 - std::min<size_t>(verb.name.size(), 11);
    absl::StrAppend(&page, "  ", verb.name, std::string(space, ' '), Wrap(verb.summary, width - 14, 14), "\n");
  }
  absl::StrAppend(&page, "\nOptions:\n");
  for (const CLI::Option* option : app.get_options()) page += OptionEntry(*option, width);
  page += Entry("completion " + absl::StrJoin(kShells, "|"), "Print a script that completes commands", width);
  absl::StrAppend(&page, "\nExamples:\n");
  for (const Verb& verb : verbs) {
    if (verb.group == verbs.front().group) absl::StrAppend(&page, "  rewright ", verb.examples.front().command, "\n");
  }
  return absl::StrCat(page, "\n", Wrap(kExitStatus, width, 0), "\n");
}

std::string VerbHelp(const CLI::App& app, const Verb& verb, int width) {
  std::string page =
      absl::StrCat(Wrap(verb.summary, width, 0), "\n\n", Wrap("Usage: " + UsageOf(app), width, 7), "\n\n");
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) page += OptionEntry(*option, width);
  }
  for (const std::string& group : app.get_groups()) {
    absl::StrAppend(&page, "\n", group == "Options" ? group : absl::StrCat(group, " options"), ":\n");
    for (const CLI::Option* option : app.get_options()) {
      if (!option->get_positional() && option->get_group() == group) page += OptionEntry(*option, width);
    }
  }
  absl::StrAppend(&page, "\nExamples:\n");
  for (const Example& example : verb.examples) {
    absl::StrAppend(&page, "  rewright ", example.command, "\n      ", Wrap(example.meaning, width - 6, 6), "\n");
  }
  absl::StrAppend(&page, "\nEnvironment:\n");
  for (const EnvironmentVariable& variable : Environment()) page += Entry(variable.name, variable.meaning, width);
  return absl::StrCat(page, "\n", Wrap(kExitStatus, width, 0), "\n");
}

}  // namespace rewright
