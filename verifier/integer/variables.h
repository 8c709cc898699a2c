// The variables of a proof: their definitions and ranges, and the facts about them. It is data: a Context (context.h)
// is one that computes and decides, and a checker reads one.
//
// Kinds of variables:
//   parameters   the symbols of the rule (sizes, attributes) and integers introduced for exact divisions;
//   locals       output positions, bound variables, anchors; some have a range [lo, hi) that may simplify expressions
//                under the guard that carries it, and never that guard itself;
//   definitions  floor(num / den) with den proved positive, min(a, b), and integer elements used as indices.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "verifier/integer/guard.h"
#include "verifier/integer/polynomial.h"

namespace rewright::verifier {

inline bool Has(const std::vector<Var>& vars, Var v) { return std::find(vars.begin(), vars.end(), v) != vars.end(); }

class Context;
class Variables;

// Names of variables in place of their own, for printing.
using VarNames = absl::flat_hash_map<Var, std::string>;

// An element of a tensor that serves as an index. This folder knows no elements; normal_form/ derives it.
class IndexElement {
 public:
  virtual ~IndexElement() = default;
  // Equal elements have equal texts.
  virtual std::string Print(const Variables& ctx, const VarNames& names) const = 0;
  // The element after a substitution, as an index.
  virtual Poly Subst(Context& ctx, const Substitution& s) const = 0;
};

struct VarInfo {
  enum class Kind : uint8_t { kParam, kLocal, kDiv, kMin, kValue };
  Kind kind = Kind::kLocal;
  std::string name;
  std::optional<int64_t> min;                    // kParam
  std::optional<std::pair<Poly, Poly>> defined;  // kParam: first / second, exactly (for numeric samples)
  std::optional<std::pair<Poly, Poly>> range;    // kLocal: lo, hi
  Poly a, b;                                     // kDiv: a / b; kMin: min(a, b)
  std::shared_ptr<const IndexElement> value;     // kValue: the element
  std::vector<Var> inner;                        // definitions: the variables below them, sorted
};

// Numeric values of variables.
using Assignment = absl::flat_hash_map<Var, int64_t>;

class Variables {
 public:
  int NumVariables() const { return static_cast<int>(vars_.size()); }
  const VarInfo& Info(Var v) const { return vars_[v]; }
  bool IsDefinition(Var v) const { return vars_[v].kind > VarInfo::Kind::kLocal; }
  bool IsParam(Var v) const { return vars_[v].kind == VarInfo::Kind::kParam; }

  // Variables of p; those under definitions instead of the definitions.
  std::vector<Var> BaseVars(const Poly& p) const;
  std::vector<Var> BaseVars(const Guard& g) const;
  bool Mentions(const Poly& p, const std::vector<Var>& vars) const;
  bool Mentions(const Guard& g, const std::vector<Var>& vars) const;
  bool HasDefinition(const Poly& p) const;

  // ---- printing; `names` overrides the names of variables.
  using Names = VarNames;
  std::string Print(const Poly& p, const Names& names = {}) const;
  std::string Print(const Guard& g, const Names& names = {}) const;
  std::string Print(const Poly::Item& item, const Names& names) const;

  // The rule's conditions and the left side's requirements.
  const std::vector<Guard>& facts() const { return facts_; }
  // Conditions under which the expression at hand is evaluated: divisions may simplify under them, because the result
  // is used only under the same conditions.
  std::vector<Guard> assumptions;
  std::vector<Assignment> samples;  // of the parameters, satisfying the facts

 protected:
  std::vector<Guard> facts_;
  std::vector<VarInfo> vars_;

 private:
  std::string Print(Var v, const Names& names) const;
};

}  // namespace rewright::verifier
