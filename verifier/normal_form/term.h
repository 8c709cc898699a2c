// Normal forms of elements:
//
//   sum_j  c_j * SUM over all integers v of [guard_j(v)] * product of atoms_j(v)
//
// An atom is a read of a leaf, an index polynomial as an element, a function of normal forms, or a maximum over a union
// of guarded families. Atoms are immutable and shared; they know their free variables and their skeleton, which is
// their shape without index polynomials.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "verifier/integer/guard.h"
#include "verifier/integer/polynomial.h"
#include "verifier/integer/rational.h"
#include "verifier/integer/variables.h"

namespace rewright::verifier {

class Context;
struct AtomNode;
using Atom = std::shared_ptr<const AtomNode>;

struct Term {
  Rational coef = 1;
  std::vector<Var> bound;  // range over all integers; the guard makes the sum finite
  Guard guard;
  std::vector<Atom> atoms;  // a product; sorted by skeleton
};
using NormalForm = std::vector<Term>;

// The points of `bound` at which the guard holds, each with the value `body`.
struct Family {
  std::vector<Var> bound;
  Guard guard;
  NormalForm body;
};
using Families = std::vector<Family>;

// A leaf of the rule, or a real number that stays open (a real attribute, a constant kept as a symbol).
struct Leaf {
  std::string name;
  bool positive = false;
  bool boolean = false;
};

struct AtomNode {
  enum class Kind : uint8_t { kRead, kInt, kFn, kBinder };
  Kind kind = Kind::kRead;
  std::string name;              // kRead: the leaf; kFn: the function; kBinder: "max" or another
  bool positive = false;         // kRead: the leaf's elements are > 0
  bool boolean = false;          // the element is 0 or 1
  std::vector<Poly> at;          // kRead
  Poly value;                    // kInt
  std::vector<NormalForm> args;  // kFn
  std::vector<Family> families;  // kBinder
  // Derived.
  std::string skeleton;
  std::vector<Var> vars;   // free base variables, sorted
  bool has_bound = false;  // binds a variable somewhere inside
};

Atom MakeRead(const Variables& ctx, const Leaf& leaf, std::vector<Poly> at);
Atom MakeIntAtom(const Variables& ctx, const Poly& value);
// Makes it for a proof, and notes where the strategy's choice about elements that count matters.
Atom MakeIntAtom(Context& ctx, const Poly& value);
Atom MakeFnAtom(const Variables& ctx, const std::string& fn, std::vector<NormalForm> args);
// A binder over families: "max", "prod", "argmax"... Only "max" is understood beyond equality.
Atom MakeBinderAtom(const Variables& ctx, const std::string& binder, std::vector<Family> families);
// A value as a whole: the set of its positions, each with its element.
Atom MakeWholeValue(const Variables& ctx, std::vector<Family> positions);
bool IsWholeValue(const AtomNode& atom);

// An element with the place that argmax gives for it, where that is no bound variable of the family.
Atom MakePlaced(const Variables& ctx, NormalForm element, NormalForm place);
// Element and place of a family's body; null where it is an element alone.
const std::vector<NormalForm>* PartsOfPlaced(const NormalForm& body);

// The element as an index; equal elements give equal variables. The others give the value of a variable that is an
// element (VarInfo::Kind::kValue), and its element.
Poly IndexOfElement(Context& ctx, const NormalForm& element);
std::shared_ptr<const IndexElement> AsIndex(NormalForm element);
const NormalForm& ElementOf(const VarInfo& info);

// ---- free variables
std::vector<Var> FreeVars(const Variables& ctx, const Term& t);
std::vector<Var> FreeVars(const Variables& ctx, const NormalForm& n);
bool Intersects(const std::vector<Var>& sorted, const std::vector<Var>& vars);

// ---- canonical texts: equal texts mean equal up to names of bound variables
std::string SkeletonOf(const Term& t);
std::string SkeletonOf(const NormalForm& n);
std::string AtomKey(const Variables& ctx, const Atom& a, const Variables::Names& names = {});
// The atoms of all terms.
std::vector<Atom> AtomsOf(const NormalForm& n);
// Without the coefficient.
std::string TermKey(const Variables& ctx, const Term& t, const Variables::Names& names = {});
std::string FamilyKey(const Variables& ctx, const Family& b, const Variables::Names& names = {});
std::string NormalFormKey(const Variables& ctx, const NormalForm& n, const Variables::Names& names = {});

// Index polynomials of an atom in an order given by skeletons: two atoms of equal skeleton have polynomials that
// correspond.
void WalkPolys(const Atom& a, std::vector<Poly>* out);
void WalkPolys(const NormalForm& n, std::vector<Poly>* out);
// Every index polynomial, guards included.
void AllPolys(const NormalForm& n, std::vector<Poly>* out);
void AllPolys(const Atom& a, std::vector<Poly>* out);
// Variables bound inside the atom.
void InnerBound(const Atom& a, std::vector<Var>* out);

bool operator<(const Family& a, const Family& b) = delete;

}  // namespace rewright::verifier
