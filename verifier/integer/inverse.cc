#include "verifier/integer/inverse.h"

#include <algorithm>
#include <utility>

#include "verifier/integer/rational.h"

namespace rewright::verifier {
namespace {

using Matrix = std::vector<std::vector<Rational>>;

// Gauss-Jordan elimination on [m | 1]; nothing where m is singular.
std::optional<Matrix> InvertMatrix(Matrix m) {
  const size_t n = m.size();
  for (size_t i = 0; i < n; ++i) {
    m[i].resize(2 * n);
    m[i][n + i] = 1;
  }
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    while (pivot < n && m[pivot][k].IsZero()) ++pivot;
    if (pivot == n) return std::nullopt;
    std::swap(m[pivot], m[k]);
    const Rational scale = m[k][k];
    for (Rational& x : m[k]) x = x / scale;
    for (size_t i = 0; i < n; ++i) {
      if (i == k || m[i][k].IsZero()) continue;
      const Rational factor = m[i][k];
      for (size_t j = 0; j < 2 * n; ++j) m[i][j] = m[i][j] - factor * m[k][j];
    }
  }
  for (std::vector<Rational>& row : m) row.erase(row.begin(), row.begin() + static_cast<int64_t>(n));
  return m;
}

// s takes each variable of `vars`, put through `t`, back to itself.
bool IsIdentity(Context& ctx, const std::vector<Var>& vars, const Substitution& t, const Substitution& s) {
  return std::all_of(vars.begin(), vars.end(), [&](Var v) {
    const Poly* image = t.Find(v);
    return image != nullptr && ctx.Subst(*image, s) == Poly::Of(v);
  });
}

}  // namespace

std::optional<Substitution> Inverse(Context& ctx, const Substitution& s, const std::vector<Var>& from,
                                    const std::vector<Var>& to) {
  if (from.size() != to.size()) return std::nullopt;
  Matrix matrix;
  for (Var v : from) {
    const Poly* image = s.Find(v);
    if (image == nullptr) return std::nullopt;
    std::vector<Rational>& row = matrix.emplace_back();
    for (Var u : to) row.emplace_back(image->Coef(u));
  }
  const std::optional<Matrix> inverted = InvertMatrix(std::move(matrix));
  if (!inverted) return std::nullopt;
  Substitution inverse;
  for (size_t j = 0; j < to.size(); ++j) {
    Poly value;
    for (size_t i = 0; i < from.size(); ++i) {
      const Rational& entry = (*inverted)[j][i];
      if (entry.den() != 1) return std::nullopt;
      Poly rest = *s.Find(from[i]);
      for (Var u : to) rest = rest - Poly::Of(u) * Poly(rest.Coef(u));
      value = value + Poly(entry.num()) * (Poly::Of(from[i]) - rest);
    }
    inverse.Set(to[j], std::move(value));
  }
  if (!IsIdentity(ctx, from, s, inverse) || !IsIdentity(ctx, to, inverse, s)) return std::nullopt;
  return inverse;
}

}  // namespace rewright::verifier
