// The structure of forms: parts, substitution.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "core/index/divide.h"
#include "core/index/laws.h"

namespace rewright::index {

// Splits form = factor * leaf + rest, with `leaf` in neither; false if that is not possible.
bool SplitAt(const Form& form, const Atom* leaf, Form* factor, Form* rest);
// form = constant + sum of factors[k] * leaves[k], with none of the leaves in `constant` and `factors`. AffineIn
// returns nothing if the form is not of that shape.
struct Affine {
  Form constant;
  std::vector<Form> factors;
};
std::optional<Affine> AffineIn(const Form& form, absl::Span<const Atom* const> leaves);
// A replacement of a leaf; all are made at once. `scale` > 1 means scale * leaf = value: multiples of the leaf take the
// value as it is, and elsewhere the leaf is value div scale.
struct Replacement {
  Form value;
  Form scale = 1;
};
using Substitution = absl::flat_hash_map<const Atom*, Replacement>;
Form Compose(const Form& form, const Substitution& substitution);

// Writes every a mod c, c a number, as a - c*(a div c), unless `keep` is true for the atom. The address that digits of
// one number lead to becomes a sum over fewer atoms.
template <typename Keep>
Form ExpandMods(const Form& form, const Keep& keep) {
  Form result = form;
  for (const Form::Term& term : form.terms()) {
    const Atom& mod = *term.atom;
    if (mod.kind != Atom::Kind::kMod || !mod.b.IsConstant() || keep(mod)) continue;
    const Form value = Laws<Forms>::Rest(ExpandMods(mod.a, keep), mod.b, ExpandMods(mod.quotient, keep));
    result = result + (value - Form::OfAtom(&mod)) * term.factor;
  }
  return result;
}

// Returns the position along each axis of element number `flat` in row-major order.
std::vector<Form> Unflatten(const Form& flat, const std::vector<int64_t>& sizes);

}  // namespace rewright::index
