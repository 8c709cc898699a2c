#include "forms_util.h"

#include <algorithm>
#include <cmath>

#include "core/index/range.h"
#include "gtest/gtest.h"

namespace rewright::index {
namespace {

int64_t EvaluateAtom(const Atom& atom, const Values& values) {
  if (atom.IsLeaf()) {
    EXPECT_TRUE(values.contains(&atom)) << atom.name;
    return values.at(&atom);
  }
  if (atom.kind == Atom::Kind::kProduct) {
    int64_t product = 1;
    for (const Atom* factor : atom.factors) product *= EvaluateAtom(*factor, values);
    return product;
  }
  const int64_t a = Evaluate(atom.a, values), b = Evaluate(atom.b, values);
  const int64_t quotient =
      b == 0 ? 0 : static_cast<int64_t>(std::floor(static_cast<double>(a) / static_cast<double>(b)));
  switch (atom.kind) {
    case Atom::Kind::kFloorDiv: return quotient;
    case Atom::Kind::kMod: return a - b * quotient;
    case Atom::Kind::kMin: return std::min(a, b);
    default: return std::max(a, b);
  }
}

void Loop(const std::vector<const Atom*>& variables, size_t next, Values* values,
          const std::function<void(const Values&)>& f) {
  if (next == variables.size()) return f(*values);
  const int64_t extent = Evaluate(ExtentOf(variables[next]), *values);
  for (int64_t value = 0; value < extent; ++value) {
    (*values)[variables[next]] = value;
    Loop(variables, next + 1, values, f);
  }
}

}  // namespace

int64_t Evaluate(const Form& form, const Values& values) {
  EXPECT_TRUE(form.IsKnown());
  int64_t sum = form.constant();
  for (const Form::Term& term : form.terms()) sum += term.factor * EvaluateAtom(*term.atom, values);
  return sum;
}

void ForAll(const std::vector<const Atom*>& variables, const Values& values,
            const std::function<void(const Values&)>& f) {
  Values all = values;
  Loop(variables, 0, &all, f);
}

}  // namespace rewright::index
