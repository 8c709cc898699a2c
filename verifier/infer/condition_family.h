// The family of conditions that a refuted rule may be given (infer.h): atoms over the names that the rule binds.
//
// Integers are sizes, integer attributes and the elements of attributes that are lists of one length.
//
//   t == 1, t == 0            integers (groups, strides, pads)
//   l == [1, 1], l == [0, 0]  lists
//   f == 0, f == 1            flags: the count convention
//   t == u, l == m            sizes, attributes, axes, lists
//   a != b                    axes
//   t mod 2 == 1, t mod 2 == 0  odd and even kernels
//   t mod u == 0              divisibility
//   t <= u
//   positive(x)               tensors and real attributes
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "substitutions/instance/compiled_rule.h"
#include "substitutions/instance/instances.h"

namespace rewright::verifier {

// The quantity that an atom speaks about.
struct ConditionTerm {
  enum class Kind : uint8_t { kSize, kAttr, kElement, kList, kTensor, kReal };
  Kind kind = Kind::kSize;
  std::string name;  // without `?`
  int attr = -1;     // number of the attribute
  int element = 0;
  int length = 0;  // kList
  int64_t min = 1;
  bool axis = false, flag = false;  // structural integers
};

struct ConditionAtom {
  enum class Form : uint8_t { kEqualsNumber, kEqual, kNotEqual, kPositive, kOdd, kEven, kDivides, kLessEqual };
  Form form = Form::kEqualsNumber;
  ConditionTerm a, b;
  int64_t number = 0;

  ArgExpr ToExpr() const;
};

// The atoms of the family; among atoms with the same meaning the preferred one comes first.
std::vector<ConditionAtom> ConditionFamily(const CompiledRule& rule, const StructuralAssignment& structure);

// A place at which atoms are true or false: structural values, and the values of symbols by name.
struct ConditionPlace {
  const StructuralAssignment* structure = nullptr;
  std::function<std::optional<int64_t>(const std::string&)> symbol;
};

// kPositive atoms are about elements and count as true here.
bool HoldsAt(const ConditionAtom& atom, const ConditionPlace& place);

}  // namespace rewright::verifier
