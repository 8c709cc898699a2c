// Einsum; contracts operands from left to right.
#include <algorithm>
#include <cctype>
#include <map>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"
#include "core/onnx/operators.h"

namespace rewright {
namespace {

// An equation such as "ij,jk->ik" as the letters of the operands and of the result. The axes of an ellipsis have the
// letters 1, 2, .. by their distance from its end, so that they are aligned as in broadcasting.
struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

constexpr char kEllipsis = '.';
bool IsOfEllipsis(char letter) { return letter >= 1 && letter <= kMaxRank; }

std::string WithEllipsis(const std::string& letters, int axes) {
  std::string named;
  for (int k = axes; k >= 1; --k) named += static_cast<char>(k);
  return absl::StrReplaceAll(letters, {{std::string(1, kEllipsis), named}});
}

absl::StatusOr<Equation> ParseEquation(OnnxNode& node) {
  std::string text = node.String("equation", "");
  text.erase(std::remove_if(text.begin(), text.end(), [](unsigned char c) { return std::isspace(c); }), text.end());
  const auto invalid = [&] { return InvalidArgument("equation " + text); };
  const std::vector<std::string> sides = absl::StrSplit(text, "->");
  if (sides.size() > 2) return invalid();
  // Replaces an ellipsis by one character.
  const auto parse = [](const std::string& term, std::string* letters) {
    *letters = absl::StrReplaceAll(term, {{"...", "."}});
    return std::count(letters->begin(), letters->end(), kEllipsis) <= 1 &&
           std::all_of(letters->begin(), letters->end(),
                       [](char c) { return c == kEllipsis || std::isalpha(static_cast<unsigned char>(c)); }) &&
           absl::StrReplaceAll(*letters, {{".", "..."}}) == term;
  };
  Equation equation;
  for (const auto& term : absl::StrSplit(sides[0], ',')) {
    if (!parse(std::string(term), &equation.operands.emplace_back())) return invalid();
  }
  if (static_cast<int>(equation.operands.size()) != node.num_inputs()) {
    return InvalidArgument("the equation has ", equation.operands.size(), " operands");
  }
  int most = 0;  // axes of an ellipsis
  std::map<char, int> counts;
  for (int i = 0; i < node.num_inputs(); ++i) {
    std::string& letters = equation.operands[static_cast<size_t>(i)];
    const bool open = letters.find(kEllipsis) != std::string::npos;
    const int axes = node.input_rank(i) - static_cast<int>(letters.size()) + (open ? 1 : 0);
    if (axes < 0 || (!open && axes > 0)) {
      return InvalidArgument("the letters ", letters, " for ", node.input_type(i).ToString());
    }
    most = std::max(most, open ? axes : 0);
    for (char letter : letters) counts[letter] += letter == kEllipsis ? 0 : 1;
    letters = WithEllipsis(letters, axes);
  }
  if (sides.size() == 2) {
    if (!parse(sides[1], &equation.result)) return invalid();
  } else {  // the ellipsis, then the letters that occur once, in alphabetical order
    equation.result = std::string(1, kEllipsis);
    for (const auto& [letter, count] : counts) {
      if (count == 1) equation.result += letter;
    }
  }
  for (char letter : equation.result) {
    const bool once = std::count(equation.result.begin(), equation.result.end(), letter) == 1;
    if (!once || (letter != kEllipsis && counts[letter] == 0)) return invalid();
  }
  equation.result = WithEllipsis(equation.result, most);
  return equation;
}

bool Has(const std::string& letters, char letter) { return letters.find(letter) != std::string::npos; }

// A tensor with a letter for each axis.
struct Lettered {
  Value value;
  std::string letters;
};

// Takes diagonals: a letter that occurs twice in an operand then occurs once, at the positions where both indices are
// equal.
absl::StatusOr<Lettered> Diagonal(OnnxNode& node, Lettered x) {
  for (size_t k = 0; k < x.letters.size(); ++k) {
    const size_t other = x.letters.find(x.letters[k], k + 1);
    if (other == std::string::npos) continue;
    Shape shape = node.shape(x.value);
    const int64_t size = shape[k];
    if (shape[other] != size) {
      return InvalidArgument("sizes ", size, " and ", shape[other], " of the letter ", x.letters.substr(k, 1));
    }
    // Joins both axes at the end; the diagonal is every (size + 1)-th element.
    std::vector<int64_t> perm = AxesFrom(0, static_cast<int64_t>(shape.size()));
    const auto to_end = [&](size_t axis) {
      std::rotate(perm.begin() + static_cast<int64_t>(axis), perm.begin() + static_cast<int64_t>(axis) + 1, perm.end());
    };
    to_end(other);
    to_end(k);
    x.letters += x.letters[k];
    x.letters.erase(other, 1);
    x.letters.erase(k, 1);
    x.value = node.Transpose(x.value, perm);
    shape = node.shape(x.value);
    shape.pop_back();
    shape.back() = size * size;
    x.value = node.Reshape(x.value, shape);
    std::vector<int64_t> steps(shape.size(), 1);
    steps.back() = size + 1;
    x.value = node("slice", {x.value},
                   {{"starts", std::vector<int64_t>(shape.size(), 0)}, {"stops", shape}, {"steps", steps}});
    return Diagonal(node, std::move(x));
  }
  return x;
}

// Drops the axes of an ellipsis that have size 1 here and another one in `other`: they broadcast.
Lettered WithoutStretched(OnnxNode& node, Lettered x, const Lettered& other) {
  const Shape sizes = node.shape(x.value), other_sizes = node.shape(other.value);
  Shape shape;
  std::string letters;
  for (size_t k = 0; k < x.letters.size(); ++k) {
    const size_t at = other.letters.find(x.letters[k]);
    if (IsOfEllipsis(x.letters[k]) && sizes[k] == 1 && at != std::string::npos && other_sizes[at] != 1) continue;
    shape.push_back(sizes[k]);
    letters += x.letters[k];
  }
  return letters == x.letters ? x : Lettered{node.Reshape(x.value, shape), letters};
}

// Sums over the axes whose letters are not in `kept`.
Lettered SumOthers(OnnxNode& node, const Lettered& x, const std::string& kept) {
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
  return {node("reduce_sum", {x.value}, {{"axes", axes}, {"keepdims", int64_t{0}}}), left};
}

// Letters in both operands are batch axes if the result has them, else they are contracted.
Lettered Dot(OnnxNode& node, const Lettered& a, const Lettered& b, const std::string& result) {
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
  const Value product = node("dot_general", {a.value, b.value},
                             {{"lhs_batch", lhs_batch},
                              {"rhs_batch", rhs_batch},
                              {"lhs_contracting", lhs_contracting},
                              {"rhs_contracting", rhs_contracting}});
  return {product, batch + free};
}

Values Einsum(OnnxNode& node) {
  ASSIGN_OR_RETURN(const Equation equation, ParseEquation(node));
  Lettered found;
  for (int i = 0; i < node.num_inputs(); ++i) {
    ASSIGN_OR_RETURN(const Lettered operand,
                     Diagonal(node, {node.input(i), equation.operands[static_cast<size_t>(i)]}));
    std::string kept = equation.result;  // by what follows
    for (size_t k = static_cast<size_t>(i) + 1; k < equation.operands.size(); ++k) kept += equation.operands[k];
    if (i == 0) {
      found = SumOthers(node, operand, kept);
      continue;
    }
    const Lettered left = WithoutStretched(node, found, operand);
    const Lettered right = WithoutStretched(node, operand, found);
    found = SumOthers(node, Dot(node, left, SumOthers(node, right, kept + left.letters), kept), kept);
  }
  std::vector<int64_t> perm;
  for (char letter : equation.result) perm.push_back(static_cast<int64_t>(found.letters.find(letter)));
  return OneOutput(node.Transpose(found.value, perm));
}

}  // namespace

OnnxOperatorList EinsumOperators() { return {{"Einsum", {12, 28, 1, -1, Einsum}}}; }

}  // namespace rewright
