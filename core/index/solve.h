// Inverses of maps of indices: the solutions of f(v) = p, p known, as a formula in p.
//
// Derivatives turn "element v is added at place f(v)" into "place p is the sum over the v with f(v) = p" by it; the
// interpreter finds the terms of guarded sums, and costs count them. The laws stand in laws.h:
//   solve     v + a = 0                             v = -a
//   digit     v + d*q = e, 0 <= v < d               v = e mod d,  q = e div d
//   scale     c*a = e, c > 0                        c divides e,  a = e div c
//   exact     P mod d = 0,  P div d = e             P = d*e
//   radix     P mod d = r,  P div d = e             P = d*e + r,  where 0 <= r < d
//   quotient  (v + a) div d = e                     v = d*e + t - a  for a new 0 <= t < d
//   split     v under a div or mod by d             v = d*h + t  for new h and 0 <= t < d
//   residue   d divides v + a, 0 <= v < d           v = -a mod d                  (where it is asked for)
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "core/index/compose.h"

namespace rewright::index {

struct Condition {
  enum class Kind : uint8_t { kZero, kNonNegative };
  Kind kind = Kind::kZero;
  Form form;
  friend bool operator==(const Condition& a, const Condition& b) { return a.kind == b.kind && a.form == b.form; }
};

// The solutions for all values of the known leaves. The values of `free`, within their ranges, at which `conditions`
// hold correspond one to one to the solutions, and `values` gives these.
struct Solution {
  std::vector<const Atom*> free;                  // unknowns that the equations do not determine, old ones and new
  absl::flat_hash_map<const Atom*, Form> values;  // of every unknown, over known leaves and `free`
  // The values with exact divisions kept apart: unknown = value / scale wherever the conditions hold.
  Substitution exact;
  std::vector<Condition> conditions;
  std::vector<std::string> steps;  // "digit: v = p mod 4"
};

// Treatment of an unknown v of which only the remainder is known: d divides v + a.
enum class Residues : uint8_t {
  kConditions,  // the divisibility stays a condition: short to read and to prove
  kTakenApart,  // v = d*h + -a mod d for a new h: no v is visited in vain
};

// Returns all values of the unknowns, within their ranges, at which every equation is 0. Unknowns are variables that
// start at 0 and have an end; those in `first` are determined in preference to those in `others`. All other leaves are
// known. Nothing if numbers do not fit 64 bits.
std::optional<Solution> Solve(const std::vector<const Atom*>& first, const std::vector<const Atom*>& others,
                              const std::vector<Form>& equations, Residues residues = Residues::kConditions);

}  // namespace rewright::index
