// The pages of --help.
#pragma once

#include <string>
#include <vector>

#include "tools/program/verb.h"

namespace CLI {
class App;
class Option;
}

namespace rewright {

inline constexpr char kExitStatus[] =
    "Exit status: 0 done; 1 the answer is negative; 2 bad usage or input, or an output that cannot be written; 3 a "
    "fault of the program; 130 interrupted.";

struct EnvironmentVariable {
  const char* name;
  const char* meaning;
};

// The variables that the program reads.
const std::vector<EnvironmentVariable>& Environment();

// The form of an option's value: NAME=N, or the choices a|b. Empty: it takes none.
std::string ValueName(const CLI::Option& option);
// An option with its value, or an operand: "-o, --output OUT.onnx".
std::string OptionLeft(const CLI::Option& option);
// The option's meaning, with the options that it needs or excludes.
std::string OptionText(const CLI::Option& option);
// "rewright optimize [OPTIONS] IN.onnx".
std::string UsageOf(const CLI::App& app);

// Text in lines of at most `width` columns, broken at spaces; lines behind the first begin with `indent` spaces. A line
// break of the text stays. A word that is longer than a line stands alone on one.
std::string Wrap(const std::string& text, int width, int indent);

// The page of the program: its verbs by what they are for.
std::string ProgramHelp(const CLI::App& app, const std::vector<Verb>& verbs, int width);

// The page of a verb: operands, flags, those that all verbs have, examples, the environment.
std::string VerbHelp(const CLI::App& app, const Verb& verb, int width);

}  // namespace rewright
