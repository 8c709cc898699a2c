// Evaluates normal forms as numbers, at given sizes and positions: sums are summed, maxima are searched, functions are
// computed. It belongs to the checker of steps: it reads the prover's terms as data, and calls none of its algebra.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "verifier/normal_form/term.h"

namespace rewright::verifier {

class ElementValues {
 public:
  // The element of a leaf; NaN if there is none.
  using Leaves = std::function<double(const AtomNode& read, const std::vector<int64_t>& at)>;

  // `of_run`: the leaves have the small numbers of a run, so integers do not wrap around, and random bits are a run's.
  ElementValues(const Variables& ctx, Leaves leaves, bool of_run = false)
      : ctx_(ctx), leaves_(std::move(leaves)), of_run_(of_run) {}

  void Set(Var v, int64_t value) { values_[v] = value; }
  bool Knows(Var v) const { return values_.contains(v); }
  // Nothing if a variable has no value, a divisor is not positive, or the work is too much.
  std::optional<int64_t> Of(const Poly& p);
  std::optional<bool> Of(const Guard& g);
  std::optional<double> Of(const NormalForm& n);
  // True if the last of these was too much work.
  bool TooMuch() const { return work_ > kMostWork; }

 private:
  static constexpr int64_t kMostWork = 1000000;
  struct CannotEvaluate {};
  int64_t Index(const Poly& p);
  int64_t Index(Var v);
  bool Holds(const Guard& g);
  double Value(const NormalForm& n);
  double Value(const Atom& a);
  double Binder(const AtomNode& a);
  // argmax and argmin: the place of the first extremum.
  double Place(const AtomNode& a);
  double Function(const std::string& name, const std::vector<double>& args);
  // Visits the points of the variables at which the guard holds, in the order of the variables.
  void OverPoints(const std::vector<Var>& bound, const Guard& guard, const std::function<void()>& visit);
  bool Bounds(Var v, const std::vector<Guard>& parts, const std::vector<Var>& open, int64_t* low, int64_t* high);
  bool IsKnown(const Poly& p, const std::vector<Var>& open) const;

  const Variables& ctx_;
  Leaves leaves_;
  const bool of_run_;
  absl::flat_hash_map<Var, int64_t> values_;
  int64_t work_ = 0;
};

// A number between -1 and 1 that depends on the text and the numbers, which may be off by rounding.
double HashedValue(const std::string& text, const std::vector<double>& numbers, uint64_t seed);

}  // namespace rewright::verifier
