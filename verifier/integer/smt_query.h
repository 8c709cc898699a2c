// A question to an SMT solver as text that any solver reads.
#pragma once

#include <string>

#include "core/base/text_hash.h"

namespace rewright {

struct SmtQuery {
  // The purpose of the answer, in a word. The prover uses
  //   legal      a requirement of the right side follows from the facts
  //   shape      two sizes are equal
  //   in bounds  an index of a read lies inside the operand
  //   guards     the coefficients of equal products cancel
  //   elements   the remaining terms of a difference of elements are zero
  //   cover      every point of one maximum has a point of the other with the same value
  //   empty      a maximum has no points
  //   binder     two other binders run over the same points
  //   index      a bound that the algebra of normal forms needs
  //   simplify   likewise, for a shorter form
  //   vacuous    the facts contradict each other
  //   a constant has elements   a size of the right side's constant is at least 1
  // The step checker uses step and lemma.
  std::string purpose;
  std::string logic;
  std::string text;  // SMT-LIB 2, quantifier-free, from set-logic to check-sat; the answer must be unsat
  std::string Name() const { return TextHash::HexOf(text); }
};

}  // namespace rewright
