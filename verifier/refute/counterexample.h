// Search for a counterexample of a rule instance at small concrete sizes.
//
// Works on the declarations themselves, not on normal forms: an independent check of the prover. Elements are doubles,
// drawn from small integers, so ring operations are exact; other functions are compared with a tolerance. Points where
// the left or right side is undefined (division by zero, root of a negative number) are left out.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "substitutions/instance/instance.h"
#include "verifier/refute/witness.h"

namespace rewright::verifier {

// True if the values differ by more than 1e-6 of the larger. The margin allows for the rounding of doubles.
bool Differ(double a, double b);

class ConcreteInstance;

class CounterexampleSearch {
 public:
  CounterexampleSearch(const RuleInstance& instance, uint64_t seed);

  // Compares the sides at up to `trials` further assignments; stops after `work_limit_s` seconds (work.h). Keeps
  // the smallest counterexample.
  std::optional<Counterexample> Run(int trials, double work_limit_s);
  // Compares the sides at these assignments, up to the first counterexample.
  std::optional<Counterexample> RunAt(const std::vector<std::vector<int64_t>>& assignments);

  // Assignments of the symbols that satisfy the instance's conditions and the left side's requirements.
  const std::vector<std::vector<int64_t>>& assignments() const { return assignments_; }
  int trials() const { return trials_; }
  // Draws up to `count` such assignments, without comparing anything.
  std::vector<std::vector<int64_t>> Draw(int count);
  // One such assignment, each symbol among the `width` least values that it may have. Nothing where none is found.
  std::optional<std::vector<int64_t>> DrawWithin(int width);
  // One such assignment in which the symbol has that value, and others are small where conditions do not tie them to
  // it. Nothing where none is found.
  std::optional<std::vector<int64_t>> DrawAt(int symbol, int64_t value);

 private:
  struct Constraint {
    ExprPtr condition;  // Cond over the symbols; null for a size
    ExprPtr size;       // Index that must be at least `min`
    int64_t min = 0;
    std::vector<int> symbols;  // that occur
    std::string text;
  };
  static void AddConstraints(const RuleInstance& instance, int first, int last, std::vector<Constraint>* out);
  void PlanSearch();
  bool FindAssignment(int width, std::vector<int64_t>* values);
  // With `blame`, which notes the levels that are to blame for a failure, levels that are not are jumped over.
  bool Extend(size_t level, int width, std::vector<int64_t>* values, int* budget, std::vector<bool>* blame);
  // Notes the levels of the symbols that come before this level.
  void Blame(const std::vector<int>& symbols, size_t level, std::vector<bool>* blame) const;
  bool Holds(const Constraint& c, const std::vector<int64_t>& values) const;
  Counterexample::Input InputAt(const ConcreteInstance& concrete, size_t leaf) const;
  std::optional<Counterexample> CheckAt(const std::vector<int64_t>& values);

  const RuleInstance& instance_;
  const bool fractions_;
  std::mt19937_64 rng_;
  std::vector<Constraint> left_, right_;
  // Symbols in the order in which the search gives them values.
  struct Level {
    int symbol = 0;
    ExprPtr forced;              // the value, where an equation determines it
    std::vector<int> completed;  // constraints of the left side that can then be checked
  };
  std::vector<Level> levels_;
  std::vector<size_t> level_of_;  // of each symbol
  std::vector<std::vector<int64_t>> assignments_;
  int trials_ = 0;
  int round_ = 0;
  std::optional<std::pair<int, int64_t>> given_;  // a symbol and its value, in DrawAt
};

}  // namespace rewright::verifier
