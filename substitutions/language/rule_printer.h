// Rules as text, which parses back to the same rule.
#pragma once

#include <string>
#include <vector>

#include "substitutions/language/rule.h"

namespace rewright {

std::string PrintArg(const ArgExpr& expr);
std::string PrintTerm(const TensorTerm& term);
// The law alone: name, sides and conditions; no comment, expectation or proof. SpecHash covers this text.
std::string PrintLaw(const Rule& rule);
// All of it, ending in a newline.
std::string PrintRule(const Rule& rule);
// A file of rules. `header`: lines of comment at the top, in place of the headings of the first rule; empty: those
// stay.
std::string PrintRules(const std::vector<std::string>& header, const std::vector<Rule>& rules);

const char* ArgOpName(ArgOp op);
const char* ArgFnName(ArgFn fn);
bool ParseArgFn(const std::string& name, ArgFn* fn);

}  // namespace rewright
