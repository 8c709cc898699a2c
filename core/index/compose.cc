#include "core/index/compose.h"

#include <algorithm>
#include <utility>

#include "core/index/divide.h"
#include "core/index/form_builder.h"
#include "core/index/range.h"

namespace rewright::index {
namespace {

class Composer {
 public:
  explicit Composer(const Substitution& substitution) : substitution_(substitution) {}

  Form Of(const Form& form) {
    if (!form.IsKnown()) return form;
    Form result = form.constant();
    for (const Form::Term& term : form.terms()) result = result + OfTerm(term);
    return result;
  }

 private:
  Form OfTerm(const Form::Term& term) {
    const auto factors = FactorsOf(term.atom);
    for (const Atom* factor : factors) {
      const auto found = substitution_.find(factor);
      if (found == substitution_.end() || found->second.scale.Is(1)) continue;
      Form others, times, rest;
      DivideMonomial(term.atom, factor, &others);
      Divide(others * term.factor, found->second.scale, &times, &rest);
      if (rest.Is(0)) return Of(times) * found->second.value;
    }
    Form product = term.factor;
    for (const Atom* factor : factors) product = product * OfAtom(factor);
    return product;
  }

  // Substitutes in an atom that is no product.
  Form OfAtom(const Atom* atom) {
    if (const auto found = substitution_.find(atom); found != substitution_.end()) {
      return FloorDiv(found->second.value, found->second.scale);
    }
    if (atom->IsLeaf()) return Form::OfAtom(atom);
    if (const auto found = memo_.find(atom); found != memo_.end()) return found->second;
    const Form a = Of(atom->a), b = Of(atom->b);
    Form result;
    switch (atom->kind) {
      case Atom::Kind::kFloorDiv: result = FloorDiv(a, b); break;
      case Atom::Kind::kMod: result = Mod(a, b); break;
      case Atom::Kind::kMin: result = Min(a, b); break;
      default: result = Max(a, b); break;
    }
    return memo_[atom] = result;
  }

  const Substitution& substitution_;
  absl::flat_hash_map<const Atom*, Form> memo_;
};

}  // namespace

Form Compose(const Form& form, const Substitution& substitution) {
  return substitution.empty() ? form : Composer(substitution).Of(form);
}

bool SplitAt(const Form& form, const Atom* leaf, Form* factor, Form* rest) {
  if (!form.IsKnown()) return false;
  *factor = 0;
  *rest = form.constant();
  for (const Form::Term& term : form.terms()) {
    Form others;
    if (DivideMonomial(term.atom, leaf, &others)) {
      *factor = FormBuilder::Combine(*factor, others, term.factor);
    } else {
      *rest = FormBuilder::Combine(*rest, Form::OfAtom(term.atom), term.factor);
    }
  }
  return factor->IsKnown() && !Contains(*factor, leaf) && !Contains(*rest, leaf);
}

std::optional<Affine> AffineIn(const Form& form, absl::Span<const Atom* const> leaves) {
  if (!form.IsKnown()) return std::nullopt;
  Affine affine;
  Form rest = form;
  for (const Atom* leaf : leaves) {
    Form factor, without;
    if (!SplitAt(rest, leaf, &factor, &without)) return std::nullopt;
    for (const Atom* other : leaves) {
      if (Contains(factor, other)) return std::nullopt;
    }
    affine.factors.push_back(std::move(factor));
    rest = std::move(without);
  }
  affine.constant = std::move(rest);
  return affine;
}

std::vector<Form> Unflatten(const Form& flat, const std::vector<int64_t>& sizes) {
  std::vector<Form> position(sizes.size());
  Form rest = flat;
  for (size_t k = sizes.size(); k-- > 0;) {
    const int64_t size = std::max<int64_t>(sizes[k], 1);
    position[k] = k == 0 ? rest : Mod(rest, size);
    rest = FloorDiv(rest, size);
  }
  return position;
}

}  // namespace rewright::index
