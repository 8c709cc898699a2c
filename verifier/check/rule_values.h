// Evaluates the expressions of a law over symbols: integers, lists, reals, element types, conditions.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/ir/expr.h"
#include "verifier/check/rule_reader.h"

namespace rewright::check {

// An integer that is an element of tensors. It is no size.
struct Element {
  Scalar value;
};
using List = std::vector<Index>;
// Reals are f32: in proofs the type stands for the real numbers.
using Value = std::variant<Index, List, Scalar, Element, DType, Cond>;

// Thrown: there is no such value, so no instance.
struct NoInstance {
  std::string why;
};

// The values of names. Both throw NoInstance if nothing is known of them.
class Scope {
 public:
  virtual ~Scope() = default;
  virtual Value Named(const ParsedExpr& name) const = 0;  // kName, kAttribute
  virtual List ShapeOf(const ParsedExpr& tensor) const = 0;
};

Value Evaluate(const ParsedExpr& phrase, const Scope& scope);
// With the elements of lists that are spliced.
List EvaluateItems(const std::vector<ParsedExpr>& items, const Scope& scope);

// The value as a T.
template <typename T>
T As(Value value, const char* expected) {
  if (T* found = std::get_if<T>(&value)) return std::move(*found);
  throw NoInstance{expected};
}

}  // namespace rewright::check
