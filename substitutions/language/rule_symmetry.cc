#include "substitutions/language/rule_symmetry.h"

#include <cctype>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/ops/ops.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/language/rule_terms.h"

namespace rewright {
namespace {

// Names in order of first use (kept in `names`), so that texts differ only where rules do.
std::string Renamed(const std::string& text, std::map<std::string, std::string>& names) {
  std::string result;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_')) ++end;
    if (end == i) {
      result += text[i++];
      continue;
    }
    const std::string word = text.substr(i, end - i);
    ArgFn fn;
    const bool keeps = std::isdigit(static_cast<unsigned char>(word[0])) || FindOp(word) || ParseArgFn(word, &fn) ||
                       (end < text.size() && text[end] == '=');
    result += keeps ? word : names.emplace(word, absl::StrCat("v", names.size())).first->second;
    i = end;
  }
  return result;
}

}  // namespace

// Compares texts with shapes put where the variables first occur, so it may miss a symmetry but finds none that is
// not there. Conditions count as a set.
bool OutputsExchange(const Rule& rule, size_t k) {
  if (!rule.lhs.lets.empty()) return false;
  DeclaredVariables variables;
  for (const TensorTerm& term : rule.lhs.outputs) CollectDeclarations(term, variables);
  const auto text = [&](bool swap) {
    std::vector<TensorTerm> outputs = rule.lhs.outputs;
    if (swap) std::swap(outputs[k], outputs[k + 1]);
    std::set<std::string> seen, conditions;
    std::map<std::string, std::string> names;
    std::string result;
    for (TensorTerm& output : outputs) {
      PlaceDeclarations(output, variables, seen);
      absl::StrAppend(&result, Renamed(PrintTerm(output), names), ";");
    }
    for (const ArgExpr& condition : rule.conditions) conditions.insert(Renamed(PrintArg(condition), names));
    for (const std::string& condition : conditions) absl::StrAppend(&result, condition, ";");
    return result;
  };
  return text(false) == text(true);
}

}  // namespace rewright
