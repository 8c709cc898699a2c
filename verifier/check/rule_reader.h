// Reads a law for the checker of certificates, from its text (PrintLaw) alone and not from the prover's data.
//
// docs/rules.md describes the language. This reads only printed laws; messages, limits and comments are the business of
// substitutions/language/rule_parser.h, which has read the text before.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace rewright::check {

// An expression.
struct ParsedExpr {
  enum class Kind : uint8_t { kInteger, kReal, kName, kAttribute, kList, kSplice, kCall };
  Kind kind = Kind::kInteger;
  std::string text = {};  // a name; ?name without its mark; of a call the function, or the operator (`[]`: an element)
  int64_t integer = 0;
  double real = 0;
  std::vector<ParsedExpr> args = {};
  friend bool operator==(const ParsedExpr&, const ParsedExpr&) = default;
};

struct Shape {
  bool broadcasts = false;  // ~
  std::vector<ParsedExpr> dims;
};

struct Term {
  enum class Kind : uint8_t { kVariable, kConstant, kApplication };
  Kind kind = Kind::kVariable;
  std::string name = {};  // a variable; an operator, or ?f; of a constant how it is written
  std::vector<Term> operands = {};
  std::vector<std::pair<std::string, ParsedExpr>> attrs = {};  // attrs=?c is one of them
  ParsedExpr value = {};                                       // of a constant
  std::optional<ParsedExpr> type = {};
  std::optional<Shape> shape = {};
  bool all = false;  // `..`
  int output = -1;   // .k; -1: not selected
};

struct Side {
  std::vector<std::pair<std::string, Term>> lets;
  std::vector<Term> outputs;
};

struct ParsedLaw {
  std::string name;
  Side left, right;
  std::vector<ParsedExpr> conditions;  // all must hold; none is a conjunction
};

// Error: found .., expected ..
absl::StatusOr<ParsedLaw> ReadLaw(const std::string& text);

// The law itself. If it is about any number of siblings, `{ matmul(x, y).. }`, its expansions for two, one, three and
// seven of them. The ones for one and two imply all others (docs/decisions/062), as long as the lists that the right
// side splices are used in no other way. Other uses are an error.
absl::StatusOr<std::vector<ParsedLaw>> LawsOfSiblings(const ParsedLaw& law);

}  // namespace rewright::check
