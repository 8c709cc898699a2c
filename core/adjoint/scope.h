// Facts about the variables of one application, and the simplification of its expressions by them.
//
// Sizes and integer attributes are symbols with their least values; index variables run from 0 to their extents. The
// application's requirements are used if they determine a symbol: a required C = g*d replaces C by g*d; a required O =
// g*(O div g) makes O div g a number q >= 1 with O = g*q; a required a <= b replaces b by a + s for a number s >= 0.
// Equal products of symbols are used in the comparison of bounds.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/index/compose.h"
#include "core/index/form.h"
#include "core/index/range.h"
#include "core/ir/expr.h"
#include "core/ir/op.h"

namespace rewright {

class Scope {
 public:
  // Selects the requirements that define symbols: replacing b by a + s for a <= b changes the names of sizes.
  enum class Uses : uint8_t { kEquations, kAll };
  // Variables are numbered as in the Meaning; new ones follow its last one.
  explicit Scope(const Meaning& meaning, Uses uses = Uses::kAll);
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  // Makes a new index variable with 0 <= v < extent; `like` gives its printed name.
  ExprPtr NewVariable(const std::string& name, const ExprPtr& extent, Meaning::VarKind kind);
  Meaning::VarKind KindOf(int variable) const { return variables_[variable].kind; }
  const std::string& NameOf(int variable) const { return variables_[variable].name; }
  const ExprPtr& ExtentOf(int variable) const { return variables_[variable].extent; }
  int num_variables() const { return static_cast<int>(variables_.size()); }
  ExprPtr VariableOf(int id) const { return Variable(id, NameOf(id)).node(); }

  // Returns the index variables that occur free (no sizes, no attributes).
  const std::set<int>& Free(const ExprPtr& expr);

  // Returns the form of an index expression; unknown if numbers do not fit 64 bits.
  index::Form FormOf(const ExprPtr& index);
  ExprPtr ExprOf(const index::Form& form);
  // Makes a symbol of at least `least` that belongs to no variable of the Meaning.
  index::Form NewSymbol(const std::string& name, int64_t least) {
    return space_.Symbol(name, least, index::kInfinity, -1);
  }
  // Names a leaf that was made in the space of forms.
  void Register(const index::Atom* leaf, const ExprPtr& variable);
  // Returns the expression of a leaf.
  const ExprPtr& LeafExpr(const index::Atom* leaf) const { return leaves_.at(leaf); }
  // Returns the leaves of the form that are index expressions reading elements.
  std::vector<const index::Atom*> DataLeaves(const index::Form& form) const;
  ExprPtr CondOf(const index::Form& form, bool zero);  // form = 0, or 0 <= form

  // Replaces leaves of `expr`. No reduction in `expr` may bind such a leaf, or a variable that a replacement mentions.
  ExprPtr Simplify(const ExprPtr& expr, const index::Substitution& substitution = {});

 private:
  struct Variable_ {
    std::string name;
    Meaning::VarKind kind = Meaning::VarKind::kBound;
    ExprPtr extent;  // of index variables
  };

  void NoteExtents(const OutputMeaning& output);
  void Define(const ExprPtr& a, const ExprPtr& b);
  bool DefineAs(const index::Form& symbol, const index::Form& value);
  void DefineAtMost(const ExprPtr& a, const ExprPtr& b);
  bool IsNonNegative(const index::Form& form);
  index::Form NewForm(const ExprPtr& index);
  Index ProductOf(const index::Atom* atom);

  index::Space space_;
  std::vector<Variable_> variables_;
  std::vector<int64_t> least_;  // of symbols
  index::Substitution definitions_;
  index::Substitution written_;  // expressions of the numbers that definitions introduced
  // Pairs of equal products.
  std::vector<std::pair<const index::Atom*, const index::Atom*>> products_;
  // Monomials that are written as one symbol each.
  std::vector<std::pair<const index::Atom*, ExprPtr>> monomials_;
  absl::flat_hash_map<const index::Atom*, ExprPtr> leaves_;
  absl::flat_hash_map<ExprPtr, index::Form> forms_;
  absl::flat_hash_map<ExprPtr, std::set<int>> free_;
};

}  // namespace rewright
