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
#include "core/index/form.h"
#include "core/ir/expr.h"
#include "core/ir/op.h"

namespace rewright {

class Scope {
 public:
  // Which requirements define symbols: a + s for b where a <= b changes what a size is called.
  enum class Uses : uint8_t { kEquations, kAll };
  // Variables are numbered as in the Meaning, and from its last one on.
  explicit Scope(const Meaning& meaning, Uses uses = Uses::kAll);
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  // A new index variable with 0 <= v < extent; `like` gives its printed name.
  ExprPtr NewVariable(const std::string& name, const ExprPtr& extent, Meaning::VarKind kind);
  Meaning::VarKind KindOf(int variable) const { return variables_[variable].kind; }
  const std::string& NameOf(int variable) const { return variables_[variable].name; }
  const ExprPtr& ExtentOf(int variable) const { return variables_[variable].extent; }
  int num_variables() const { return static_cast<int>(variables_.size()); }
  ExprPtr VariableOf(int id) const { return Variable(id, NameOf(id)).node(); }

  // The index variables that occur free (no sizes, no attributes).
  const std::set<int>& Free(const ExprPtr& expr);

  // The value of an index expression; unknown where numbers do not fit 64 bits.
  index::Form FormOf(const ExprPtr& index);
  ExprPtr ExprOf(const index::Form& form);
  // A symbol of at least `least` that no variable of the Meaning stands for.
  index::Form NewSymbol(const std::string& name, int64_t least) {
    return space_.Symbol(name, least, index::kInfinity, -1);
  }
  // Names a leaf that was made in the space of forms alone.
  void Register(const index::Atom* leaf, const ExprPtr& variable);
  // The expression that a leaf stands for.
  const ExprPtr& LeafExpr(const index::Atom* leaf) const { return leaves_.at(leaf); }
  // Index expressions that read elements and are leaves of the form.
  std::vector<const index::Atom*> DataLeaves(const index::Form& form) const;
  ExprPtr CondOf(const index::Form& form, bool zero);  // form = 0, or 0 <= form

  // `expr` with leaves replaced, of which no reduction in `expr` binds one or is mentioned by what replaces it.
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
  index::Substitution written_;  // what stands for numbers that definitions have brought in
  // Products that are equal.
  std::vector<std::pair<const index::Atom*, const index::Atom*>> products_;
  // Monomials that are written as one symbol.
  std::vector<std::pair<const index::Atom*, ExprPtr>> monomials_;
  absl::flat_hash_map<const index::Atom*, ExprPtr> leaves_;
  absl::flat_hash_map<ExprPtr, index::Form> forms_;
  absl::flat_hash_map<ExprPtr, std::set<int>> free_;
};

}  // namespace rewright
