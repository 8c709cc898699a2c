// Rules about any number of siblings: several applications that have all but some operands in common.
//
//   rule matmul-merge-shared-lhs
//     { matmul(x[b.., m, k], y[k, n]).. } => split(matmul(x, concat(y.., axis=1)), axis=len(b) + 1, sizes=[n..])
//
// `..` stands behind the only output of the left side: there is one output for each element of the lists y and n. The
// right side splices these lists, y in a concat alone and n as the sizes of the split. Everything else is the same for
// all siblings.
//
// For each number of siblings this is an ordinary rule (ExpandSiblings). The rules for one and for two imply all others
// (docs/decisions/062), as long as the right side is of the form that CheckSiblings asks for.
#pragma once

#include <set>
#include <string>

#include "absl/status/status.h"
#include "substitutions/language/rule.h"

namespace rewright {

// Most siblings that one application merges. tests/verifier/siblings_test.cc proves that an n-way concat (slice) equals
// nested two-way ones up to this number.
inline constexpr int kMostSiblings = 16;

bool IsSiblingRule(const Rule& rule);
// Checks that the rules for one and two siblings imply those for every other number. Errors name the place, the text
// found and the text expected.
absl::Status CheckSiblings(const Rule& rule);
// The rule for `count` siblings, without its proof. CheckSiblings holds.
Rule ExpandSiblings(const Rule& rule, int count);
// The variables that differ from sibling to sibling, and their names in the expansion: y_1, y_2, ..
std::set<std::string> SiblingVariables(const Rule& rule);
std::string SiblingName(const std::string& variable, int sibling);

}  // namespace rewright
