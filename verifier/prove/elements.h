// Composes the meanings of the operators into normal forms: the element of any value of a rule instance at symbolic
// positions, and the obligations that the declarations themselves state.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/ir/expr.h"
#include "substitutions/instance/instance.h"
#include "verifier/integer/context.h"
#include "verifier/integer/guard.h"
#include "verifier/integer/polynomial.h"
#include "verifier/normal_form/term.h"

namespace rewright::verifier {

// Thrown where sums are unrolled: an element depends on the remainder of a position (Context::positions).
struct DividedPosition {
  Var position = -1;
  int64_t by = 0;
};

class Elements {
 public:
  // Makes a parameter of `ctx` for each symbol; parameter ids are symbol ids.
  Elements(Context* ctx, const RuleInstance& instance);

  // ---- conditions and shapes over the parameters
  // The instance's conditions and whatever makes the applications [first, last) legal.
  std::vector<Guard> Conditions();
  std::vector<Guard> Requirements(int first_node, int last_node);
  std::vector<Poly> Shape(SymbolicValue value);

  // Uses equations among the facts as changes of variables: a size that equals a polynomial of others is replaced by
  // it, a size that is divisible becomes a product. Returns the facts that remain.
  std::vector<Guard> SolveEquations(std::vector<Guard> facts);
  // The symbols, after that.
  const std::vector<Poly>& symbols() const { return symbols_; }

  // ---- elements
  NormalForm Element(SymbolicValue value, const std::vector<Poly>& at);
  // The name of reads of a leaf, or of a real symbol, in normal forms.
  std::string LeafName(int node) const;

  // A read performed by one output of a node: under `path`, each index lies in [0, size).
  struct ReadObligation {
    Guard path;
    std::vector<Poly> at;
    std::vector<Poly> sizes;
    std::string text;
  };
  // The reads of all outputs of a node, at positions within their shapes. `path` includes the positions' ranges.
  std::vector<ReadObligation> Reads(int node);

 private:
  // The scope in which an expression is evaluated: variables of the node's meaning, and the path for divisors.
  struct Scope {
    int node = -1;
    std::vector<std::optional<Poly>> variables;
    std::vector<ReadObligation>* reads = nullptr;  // when set, reads are recorded and not followed
    std::vector<Guard> path;
  };
  // Adds conditions to the path of a scope, and to the assumptions of the context, while it lives.
  class Under;
  Scope ScopeOf(int node);
  Poly ToPoly(const ExprPtr& e, Scope& scope);
  Poly ToIndex(const NormalForm& conditional, DType dtype);
  Guard ToGuard(const ExprPtr& e, Scope& scope);
  Guard ToComparison(const ExprPtr& e, Scope& scope);
  Guard WithoutDigit(const Guard& condition);
  // The 0/1 element of a condition that depends on boolean elements.
  NormalForm ToIndicator(const ExprPtr& e, Scope& scope);
  NormalForm ToForm(const ExprPtr& e, Scope& scope);
  NormalForm ToCall(const ExprPtr& e, Scope& scope);
  NormalForm ToReduce(const ExprPtr& e, Scope& scope);
  NormalForm Unrolled(const ExprPtr& e, size_t first, Scope& scope, std::vector<bool>* literal);
  std::optional<NormalForm> UnrolledOther(const ExprPtr& e, Scope& scope);
  // Over the bound variables that are not `literal`: those have values already.
  NormalForm ReduceOthers(const ExprPtr& e, Scope& scope, const std::vector<bool>& literal);
  void CheckRemainder(const Poly& num, const Poly& den) const;
  NormalForm ToCast(const NormalForm& x, DType from, DType to);
  NormalForm ToRead(const ExprPtr& e, Scope& scope);
  std::optional<Guard> LiteralOfPlace(const std::vector<Poly>& at) const;
  NormalForm ReadByCases(const ExprPtr& e, Scope& scope, const Guard& literal);
  // The value that a read of a node's result gives, from the computed one.
  NormalForm Stored(NormalForm form, const ExprPtr& element, SymbolicValue value);
  bool IsMoved(const ExprPtr& e, const SymbolicNode& n, DType type) const;
  bool IsLeafOf(const NormalForm& form, DType type) const;
  static bool IsWithin(const Rational& number, DType type);
  NormalForm ToOpaque(const ExprPtr& e, Scope& scope);
  Atom WholeValue(SymbolicValue value);
  void AddFamily(Family family, std::vector<Family>* families);
  NormalForm ToConstant(const Number& number, DType dtype);
  NormalForm Truncated(const NormalForm& value, DType to);
  Poly FromSymbols(const ExprPtr& e);
  Guard CondFromSymbols(const ExprPtr& e);
  // Splits the ranges that are products where the strategy or a division below asks for it.
  void ExpandRanges(std::vector<Var>* bound, const NormalForm& body, Substitution* s, std::vector<Guard>* ranges);
  bool SplitDivided(Var v, const std::vector<Poly>& polys, std::vector<Var>* digits, Poly* value);

  Context& ctx_;
  const RuleInstance& instance_;
  std::vector<Poly> symbols_;
  // Case analysis of comparisons with elements that are themselves conditional (an element of a concatenation): the
  // condition of the present case, with its negation.
  std::vector<std::pair<Guard, Guard>> cases_;
  // By node, output, position and the assumptions and cases in force.
  std::map<std::tuple<int, int, std::vector<Poly>, std::string>, NormalForm> cache_;
};

// v in [0, hi) as v0 * f1 * f2 + v1 * f2 + ...: the digits, most significant first, when hi is a product of two or more
// parameters; false otherwise.
bool SplitProduct(Context& ctx, std::string name, const Poly& hi, std::vector<Var>* digits, Poly* value);

}  // namespace rewright::verifier
