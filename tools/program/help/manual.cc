#include "tools/program/help/manual.h"

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tools/program/help/help.h"
#include "tools/program/version.h"

namespace rewright {
namespace {

// Text of a page: a dash is a dash, and no line is a request.
std::string Escaped(const std::string& text) {
  const std::string escaped = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}, {"\n", "\n.br\n"}});
  return absl::StrCat(escaped[0] == '.' || escaped[0] == '\'' ? "\\&" : "", escaped);
}

std::string Tagged(const std::string& left, const std::string& text) {
  return absl::StrCat(".TP\n.B ", Escaped(left), "\n", Escaped(text), "\n");
}

std::string VerbSection(const CLI::App& app, const Verb& verb) {
  std::string page = absl::StrCat(".SS ", Escaped(verb.name), "\n", Escaped(verb.summary), ".\n.PP\n.B ",
                                  Escaped(UsageOf(app)), "\n");
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group() != "Common") page += Tagged(OptionLeft(*option), OptionText(*option));
  }
  for (const Example& example : verb.examples) {
    absl::StrAppend(&page, ".PP\n", Escaped(example.meaning), "\n.RS\n.B ", Escaped("rewright " + example.command),
                    "\n.RE\n");
  }
  return page;
}

}  // namespace

std::string ManualPage(const CLI::App& app, const std::vector<Verb>& verbs) {
  std::string page = absl::StrCat(".TH REWRIGHT 1 \"\" \"", Version(), "\"\n.SH NAME\nrewright \\- ",
                                  "make tensor graphs faster by proved rewrites\n.SH SYNOPSIS\n.B rewright\n",
                                  ".I verb\n[options] ..\n.SH DESCRIPTION\n", Escaped(app.get_description()),
                                  "\n.SH VERBS\n");
  for (const Verb& verb : verbs) page += VerbSection(*app.get_subcommand(verb.name), verb);
  absl::StrAppend(&page, ".SH \"OPTIONS OF ALL VERBS\"\n");
  for (const CLI::Option* option : app.get_subcommand(verbs.front().name)->get_options()) {
    if (option->get_group() == "Common") page += Tagged(OptionLeft(*option), OptionText(*option));
  }
  absl::StrAppend(&page, ".SH ENVIRONMENT\n");
  for (const EnvironmentVariable& variable : Environment()) page += Tagged(variable.name, variable.meaning);
  return absl::StrCat(page, ".SH \"EXIT STATUS\"\n", Escaped(kExitStatus), "\n");
}

}  // namespace rewright
