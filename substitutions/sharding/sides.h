// The two sides of a sharding law as text: the application of an operator to whole tensors, and of the same operator,
// lifted, to blocks.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/adjoint/scope.h"
#include "core/ir/op.h"

namespace rewright::sharding {

// Names of the symbols of one application in a rule: sizes are letters, attributes ?name.
class Names {
 public:
  // Letters that no operand has.
  explicit Names(const OpDef& op);
  std::string Of(const index::Atom* leaf);
  void Set(const index::Atom* leaf, std::string name) { names_[leaf] = std::move(name); }
  // The form in the syntax of rules.
  std::string Text(const index::Form& form);
  // a < b, or a <= b, for forms a and b with form = b - a and no minus signs.
  std::string Comparison(const index::Form& form, bool strict);

 private:
  std::string Product(const index::Form::Term& term);

  std::vector<std::string> letters_;
  size_t used_ = 0;
  absl::flat_hash_map<const index::Atom*, std::string> names_;
};

// One application in symbols.
struct Symbolic {
  const OpDef* op = nullptr;
  Attrs attrs;
  std::vector<DType> types;
  std::vector<std::vector<index::Form>> operands;   // sizes
  std::vector<std::vector<index::Form>> results;    // sizes
  std::vector<std::vector<index::Form>> variables;  // by attribute that is symbolic, in the order of op->attrs
};

// The name of operand k in rules and tables.
std::string OperandName(const OpDef& op, size_t k);

// ", strides=[?strides0, ..], axis=1" with symbols replaced.
std::string AttrsText(const Symbolic& application, Names& names,
                      const std::function<index::Form(const index::Form&)>& value);
// "[n, 2 * m]"
std::string ShapeText(const std::vector<index::Form>& shape, Names& names);

}  // namespace rewright::sharding
