#include "substitutions/rule_symmetry.h"

#include <cctype>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "substitutions/rule_printer.h"

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

void CollectShapes(const TensorTerm& term, std::map<std::string, TensorTerm>& shapes) {
  if (term.kind == TensorTerm::Kind::kName && (term.shape || term.dtype)) shapes[term.name] = term;
  for (const TensorTerm& operand : term.operands) CollectShapes(operand, shapes);
}

void PlaceShapes(TensorTerm& term, const std::map<std::string, TensorTerm>& shapes, std::set<std::string>& seen) {
  if (term.kind == TensorTerm::Kind::kName) {
    const auto found = shapes.find(term.name);
    const bool first = seen.insert(term.name).second;
    term.shape.reset();
    term.dtype.reset();
    if (first && found != shapes.end()) term = found->second;
  }
  for (TensorTerm& operand : term.operands) PlaceShapes(operand, shapes, seen);
}

}  // namespace

// Compares texts with shapes put where the variables first occur, so it may miss a symmetry but finds none that is
// not there. Conditions count as a set.
bool OutputsExchange(const Rule& rule, size_t k) {
  if (!rule.lhs.lets.empty()) return false;
  std::map<std::string, TensorTerm> shapes;
  for (const TensorTerm& term : rule.lhs.outputs) CollectShapes(term, shapes);
  const auto text = [&](bool swap) {
    std::vector<TensorTerm> outputs = rule.lhs.outputs;
    if (swap) std::swap(outputs[k], outputs[k + 1]);
    std::set<std::string> seen, conditions;
    std::map<std::string, std::string> names;
    std::string result;
    for (TensorTerm& output : outputs) {
      PlaceShapes(output, shapes, seen);
      absl::StrAppend(&result, Renamed(PrintTerm(output), names), ";");
    }
    for (const ArgExpr& condition : rule.conditions) conditions.insert(Renamed(PrintArg(condition), names));
    for (const std::string& condition : conditions) absl::StrAppend(&result, condition, ";");
    return result;
  };
  return text(false) == text(true);
}

}  // namespace rewright
