// Reads one application's declaration: the sizes that each symbol occurs in, its places in reads and conditions, and
// the obstacles to cutting an axis. factors.h draws the conclusions.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/adjoint/scope.h"
#include "core/ir/op.h"
#include "substitutions/sharding/factors.h"
#include "substitutions/sharding/sides.h"

namespace rewright::sharding {

using Sizes = std::vector<index::Form>;

// A read of an operand, along one of its axes.
struct Reading {
  int operand = 0;
  int axis = 0;
  ExprPtr at;
};

class Declared {
 public:
  // The application outlives this.
  Declared(const OpDef& op, const Application& application, const std::vector<TensorType>& inputs,
           const StructuralKey& key);

 protected:
  // The symbols of which the size of some operand or result is a multiple, in the order of the axes.
  std::vector<const index::Atom*> Symbols() const;
  // Visits the sizes of operands and results.
  void ForEachSize(const std::function<void(const index::Form&)>& visit) const;
  bool IsAttribute(const index::Atom* leaf) const;
  // The symbols that affect the factor and may have a neutral value: attributes that say where its axes are read, and
  // sizes that are at most as long or as short.
  std::vector<const index::Atom*> Involved(const index::Atom* symbol);
  // The values at which an attribute may leave the axis as it is: 0 of a padding; the step of windows for their length;
  // 1 of a number of groups, where that is the default; without a default the size of the axis, of a shape.
  std::vector<index::Form> NeutralValues(const index::Atom* attribute, const index::Atom* symbol,
                                         const std::vector<index::Form>& steps) const;
  // The steps of windows: c where a variable of the result reads the factor's axis at c*v + ..
  std::vector<index::Form> Steps(const index::Atom* symbol);
  // Visits the places where an axis of exactly that size is read at step*v + rest, for the position v of axis `axis` of
  // the only result.
  void ForEachWindow(
      const index::Atom* symbol,
      const std::function<void(const Reading&, int axis, const index::Form& step, const index::Form& rest)>& visit);
  // True if a reduction runs over the symbol's axis.
  bool IsReduced(const index::Atom* symbol);
  // The reason why the axis cannot be cut, if no law holds.
  Obstacle ObstacleOf(const index::Atom* symbol);

  const OpDef& op_;
  const Meaning& meaning_;
  Scope scope_;
  const index::Form degree_, block_;
  std::vector<std::string> ties_;  // equalities that are assumed, for the reader
  Symbolic whole_;
  std::vector<const index::Atom*> attributes_;  // symbols that are integer attributes

 private:
  // A product of sizes is required to be a product of others (a reshape), and nothing says which of them are equal.
  // Takes those to be equal that are so here, from the front and from the back. A single size that is left on one side
  // is the product of the rest of the other side.
  void Tie(const Bindings& here);
  // The factors of a product of two or more symbols, in the order of the axes.
  static bool SymbolsOf(const index::Form& form, std::vector<const index::Atom*>* symbols);
  void Note(const ExprPtr& node);
  // Which sizes of an attribute that is a shape are one.
  uint32_t UnitsOf(const StructuralKey& key, const AttrSpec& shape) const;
  // The form mentions the symbol, or a variable that runs over a size which does.
  bool Meets(const index::Form& form, const index::Atom* symbol) const;

  std::vector<Reading> readings_;
  std::vector<index::Form> positions_;  // that are elements
  std::vector<ExprPtr> reductions_;
  std::vector<ExprPtr> data_tests_;  // comparisons of indices with elements in them
  // Pairs of sizes: the first is at most the second.
  std::vector<std::pair<const index::Atom*, const index::Atom*>> bounds_;
};

}  // namespace rewright::sharding
