// The pages of --help.
#pragma once

#include <string>
#include <vector>

#include "tools/program/verb.h"

namespace CLI {
class App;
}

namespace rewright {

// Text in lines of at most `width` columns, broken at spaces; lines behind the first begin with `indent` spaces. A line
// break of the text stays. A word that is longer than a line stands alone on one.
std::string Wrap(const std::string& text, int width, int indent);

// The page of the program: its verbs by what they are for.
std::string ProgramHelp(const CLI::App& app, const std::vector<Verb>& verbs, int width);

// The page of a verb: operands, flags, those that all verbs have, examples, the environment.
std::string VerbHelp(const CLI::App& app, const Verb& verb, int width);

}  // namespace rewright
