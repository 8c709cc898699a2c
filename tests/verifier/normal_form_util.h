// Normal forms against plain evaluation: bound variables are enumerated over a box of integers, elements are computed
// by walking the declarations.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "substitutions/instance/instance.h"
#include "verifier/integer/context.h"
#include "verifier/normal_form/term.h"
#include "verifier/prove/elements.h"
#include "verifier/smt/solver.h"

namespace rewright::verifier {

struct Counts {
  int compared = 0;
  int skipped = 0;  // the value is undefined or infinite
};

// How many values were skipped, as text; "" where none were.
std::string Skipped(const Counts& counts);

// The elements of an instance under one strategy, as a proof sets them up: its conditions are solved, and positions are
// made for each output.
class ElementScene {
 public:
  // `symbols`: values that satisfy the conditions.
  ElementScene(const RuleInstance& instance, const Strategy& strategy, uint64_t seed,
               const std::vector<int64_t>& symbols);

  const Context& context() const { return context_; }
  const Elements& elements() const { return elements_; }
  // New variables i, j, k, l; of an axis whose size is a product, digits i, i', ...
  std::vector<Poly> Positions(SymbolicValue output);
  NormalForm Form(SymbolicValue output, const std::vector<Poly>& at);
  std::string Print(const NormalForm& form) const;

 private:
  QueryCache query_cache_;
  ProofSession session_;
  Context context_;
  Solver solver_;  // of the context
  Elements elements_;
  Context::Names names_;  // of the positions
};

// Compares both sides of the instance at a few assignments and positions, under one strategy. May throw GiveUp.
void CompareAll(const RuleInstance& instance, const Strategy& strategy, uint64_t seed, Counts* counts);

// A row of the table of normal forms (lists/normal_form_table.txt):
//
//   a variable that an equation determines [quotients]
//     reduce_sum(x[m, n], axes=[1])
//     => 1S1[...]x@0[...]
struct TableRow {
  std::string before;  // the lines above: comments and empty ones
  std::string law;     // and the choices of the attempt in brackets
  std::string term, form;
};
std::string TablePath();
std::vector<TableRow> ReadTable();
// The normal form of the term's element, at its first instance; or why there is none.
std::string PrintedForm(const TableRow& row);

}  // namespace rewright::verifier
