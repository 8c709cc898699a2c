// rewright rules --export FORMAT: proved rules for other programs.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/counted.h"
#include "core/base/status_macros.h"
#include "substitutions/rule_set.h"
#include "tools/program/flags.h"
#include "tools/program/outputs.h"
#include "tools/program/verb.h"
#include "tools/verbs/rules/portable_rule.h"
#include "tools/verbs/rules/rules.h"

namespace rewright {
namespace {

struct ExportFlags {
  std::vector<std::string> rules;
  std::string format;
  std::string output;
};

struct Format {
  std::string name;
  RuleWriter write;
};

const std::vector<Format>& Formats() {
  static const auto* const formats = new std::vector<Format>{{"json", WriteRulesAsJson},
                                                             {"onnxscript", WriteRulesForOnnxscript},
                                                             {"egglog", WriteRulesForEgglog},
                                                             {"taso", WriteRulesForTaso}};
  return *formats;
}

std::vector<std::string> FormatNames() {
  std::vector<std::string> names;
  for (const Format& format : Formats()) names.push_back(format.name);
  return names;
}

absl::StatusOr<Answer> ExportRules(ExportFlags flags, Session& session) {
  if (flags.rules.empty()) {
    ASSIGN_OR_RETURN(flags.rules.emplace_back(), FindRuleFile("core.rules"));
  }
  RETURN_IF_ERROR(CheckOutputs({{"-o", flags.output, OutputFlag::Use::kReplace}}, flags.rules, session));
  ASSIGN_OR_RETURN(const std::vector<PortableRule> rules, ReadPortableRules(flags.rules));
  const auto format =
      std::find_if(Formats().begin(), Formats().end(), [&](const Format& one) { return one.name == flags.format; });
  const RuleExport result = format->write(rules);
  RETURN_IF_ERROR(WriteOutput(flags.output, result.text));
  Json left_out = Json::object();
  for (const auto& [name, reason] : result.left_out) {
    session.console.Detail(absl::StrCat("left out ", name, ": ", reason));
    left_out[name] = reason;
  }
  session.console.Result(absl::StrCat(flags.output, ": ", result.written, " of ", Counted(rules.size(), "rule"), ", ",
                                      left_out.size(), " left out"));
  session.console.json() = {{"format", flags.format},
                            {"rules", rules.size()},
                            {"written", result.written},
                            {"left_out", std::move(left_out)}};
  return Answer::kYes;
}

}  // namespace

Action DeclareRules(CommandLine& line) {
  auto flags = std::make_shared<ExportFlags>();
  RuleFiles(line.Add("--rules", &flags->rules,
                     "Rules with records of their proofs, a file or the name of one that comes with the program "
                     "(repeatable; default core.rules)"))
      .Type("FILE");
  line.AddChoice("--export", &flags->format, FormatNames(),
                 "The format: json; a module of Python for onnxscript's rewriter; egglog's text; TASO's protobuf")
      .Required();
  line.AddOutputPath("-o,--output", &flags->output, "Where the rules are written; - is standard output")
      .Type("FILE")
      .Required();
  return [flags](Session& session) { return ExportRules(*flags, session); };
}

}  // namespace rewright
