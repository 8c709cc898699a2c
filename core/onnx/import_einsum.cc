// Einsum of one or two operands.
#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"
#include "core/onnx/operators.h"

namespace rewright {
namespace {

using Values = absl::StatusOr<std::vector<Value>>;

// "ij,jk->ik" as the letters of the operands and of the result.
struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

absl::StatusOr<Equation> ParseEquation(OnnxNode& node) {
  ASSIGN_OR_RETURN(std::string text, node.String("equation", ""));
  text.erase(std::remove_if(text.begin(), text.end(), [](unsigned char c) { return std::isspace(c); }), text.end());
  const std::vector<std::string> sides = absl::StrSplit(text, "->");
  if (sides.size() > 2) return node.Invalid("equation " + text);
  Equation equation{absl::StrSplit(sides[0], ','), sides.back()};
  std::map<char, int> counts;
  for (const std::string& letters : equation.operands) {
    for (char letter : letters) {
      if (letter == '.') return node.Unsupported("an ellipsis");
      if (!std::isalpha(static_cast<unsigned char>(letter))) return node.Invalid("equation " + text);
      ++counts[letter];
    }
    if (std::set<char>(letters.begin(), letters.end()).size() != letters.size()) {
      return node.Unsupported("a letter that is twice in one operand");
    }
  }
  if (sides.size() == 1) {  // what occurs once, in the order of the alphabet
    equation.result.clear();
    for (const auto& [letter, count] : counts) {
      if (count == 1) equation.result += letter;
    }
  }
  for (char letter : equation.result) {
    if (!counts.contains(letter) || std::count(equation.result.begin(), equation.result.end(), letter) > 1) {
      return node.Invalid("equation " + text);
    }
  }
  return equation;
}

bool Has(const std::string& letters, char letter) { return letters.find(letter) != std::string::npos; }

// A tensor with a letter for each axis.
struct Lettered {
  Value value;
  std::string letters;
};

// Sums over the axes whose letters are not in `kept`.
absl::StatusOr<Lettered> SumOthers(OnnxNode& node, const Lettered& x, const std::string& kept) {
  std::vector<int64_t> axes;
  std::string left;
  for (size_t k = 0; k < x.letters.size(); ++k) {
    if (Has(kept, x.letters[k])) {
      left += x.letters[k];
    } else {
      axes.push_back(static_cast<int64_t>(k));
    }
  }
  if (axes.empty()) return x;
  ASSIGN_OR_RETURN(const Value sum, node.Apply("reduce_sum", {x.value}, {{"axes", axes}, {"keepdims", int64_t{0}}}));
  return Lettered{sum, left};
}

// Letters in both operands are batch axes where the result has them, and contracted elsewhere.
absl::StatusOr<Lettered> Dot(OnnxNode& node, const Lettered& a, const Lettered& b, const std::string& result) {
  std::vector<int64_t> lhs_batch, rhs_batch, lhs_contracting, rhs_contracting;
  std::string batch, free;
  for (size_t k = 0; k < a.letters.size(); ++k) {
    const char letter = a.letters[k];
    const size_t other = b.letters.find(letter);
    if (other == std::string::npos) {
      free += letter;
      continue;
    }
    const bool stays = Has(result, letter);
    (stays ? lhs_batch : lhs_contracting).push_back(static_cast<int64_t>(k));
    (stays ? rhs_batch : rhs_contracting).push_back(static_cast<int64_t>(other));
    if (stays) batch += letter;
  }
  for (char letter : b.letters) {
    if (!Has(a.letters, letter)) free += letter;
  }
  ASSIGN_OR_RETURN(const Value product, node.Apply("dot_general", {a.value, b.value},
                                                   {{"lhs_batch", lhs_batch},
                                                    {"rhs_batch", rhs_batch},
                                                    {"lhs_contracting", lhs_contracting},
                                                    {"rhs_contracting", rhs_contracting}}));
  return Lettered{product, batch + free};
}

Values Einsum(OnnxNode& node) {
  ASSIGN_OR_RETURN(const Equation equation, ParseEquation(node));
  if (static_cast<int>(equation.operands.size()) != node.num_inputs()) {
    return node.Invalid(absl::StrCat("the equation has ", equation.operands.size(), " operands"));
  }
  if (node.num_inputs() > 2) return node.Unsupported(absl::StrCat(node.num_inputs(), " operands"));
  std::vector<Lettered> operands;
  for (int i = 0; i < node.num_inputs(); ++i) {
    const std::string& letters = equation.operands[i];
    if (static_cast<int>(letters.size()) != node.input_rank(i)) {
      return node.Invalid(absl::StrCat("the letters ", letters, " for ", node.input_type(i).ToString()));
    }
    const std::string others = node.num_inputs() == 2 ? equation.operands[1 - i] : "";
    ASSIGN_OR_RETURN(operands.emplace_back(), SumOthers(node, {node.input(i), letters}, equation.result + others));
  }
  Lettered found = operands[0];
  if (operands.size() == 2) {
    ASSIGN_OR_RETURN(found, Dot(node, operands[0], operands[1], equation.result));
  }
  std::vector<int64_t> perm;
  for (char letter : equation.result) perm.push_back(static_cast<int64_t>(found.letters.find(letter)));
  return OneOutput(node.Transpose(found.value, perm));
}

}  // namespace

OnnxOperatorList EinsumOperators() { return {{"Einsum", {12, 28, 1, -1, Einsum}}}; }

}  // namespace rewright
