// Conditions over index polynomials: the brackets [.] of a normal form, and the facts of a proof. Immutable values; the
// constructors decide conditions on constants.
#pragma once

#include <memory>
#include <vector>

#include "verifier/integer/polynomial.h"

namespace rewright::verifier {

class Guard {
 public:
  enum class Kind : uint8_t { kTrue, kFalse, kGe, kEq, kAnd, kNot };

  Guard() : Guard(Kind::kTrue) {}
  static Guard True() { return Guard(Kind::kTrue); }
  static Guard False() { return Guard(Kind::kFalse); }
  static Guard Ge(const Poly& p);                   // p >= 0; common divisors of the coefficients are removed
  static Guard Eq(const Poly& p);                   // p == 0
  static Guard And(const std::vector<Guard>& all);  // flattened, without repetition
  static Guard And(const Guard& a, const Guard& b) { return And(std::vector<Guard>{a, b}); }
  static Guard Or(const Guard& a, const Guard& b) { return Not(And(Not(a), Not(b))); }
  static Guard Not(const Guard& a);
  static Guard Le(const Poly& a, const Poly& b) { return Ge(b - a); }
  static Guard Lt(const Poly& a, const Poly& b) { return Ge(b - a - Poly(1)); }
  static Guard InRange(const Poly& x, const Poly& lo, const Poly& hi) { return And(Le(lo, x), Lt(x, hi)); }

  Kind kind() const { return kind_; }
  bool IsTrue() const { return kind_ == Kind::kTrue; }
  bool IsFalse() const { return kind_ == Kind::kFalse; }
  bool IsGe() const { return kind_ == Kind::kGe; }
  bool IsEq() const { return kind_ == Kind::kEq; }
  const Poly& poly() const { return node_->poly; }                // kGe, kEq
  const std::vector<Guard>& args() const { return node_->args; }  // kAnd; kNot has one

  friend bool operator==(const Guard& a, const Guard& b);
  friend bool operator!=(const Guard& a, const Guard& b) { return !(a == b); }

 private:
  struct Node {
    Poly poly;
    std::vector<Guard> args;
  };
  explicit Guard(Kind kind) : kind_(kind) {}

  Kind kind_;
  std::shared_ptr<const Node> node_;
};

// The parts of a conjunction; none for `true`.
std::vector<Guard> Conjuncts(const Guard& g);
// All polynomials that occur.
void CollectPolys(const Guard& g, std::vector<Poly>* out);
// Literals (kGe, kEq, and kNot of kEq) that occur, through `and` and `not`.
void CollectLiterals(const Guard& g, std::vector<Guard>* out);
// g where the literal `holds` is true and `fails` (its negation) is false.
Guard Assume(const Guard& g, const Guard& holds, const Guard& fails);

}  // namespace rewright::verifier
