// The matrices of Winograd's minimal filtering algorithms F(m, r), exactly: m outputs of a correlation with r taps,
//
//   y[i] = sum k: g[k] d[i + k]  =  (A ((G g) * (B d)))[i],   with a = m + r - 1 products.
//
// From a - 1 points and infinity (Toom and Cook, transposed):
//   A[i][j] = p_j^i, and 1 at the last row of the last column
//   G[j][k] = p_j^k / f_j with f_j = prod l != j: (p_j - p_l); the last row is 1 at its end
//   B[j]    = the coefficients of prod l != j: (x - p_l); the last row those of prod l: (x - p_l)
// substitutions/generate/winograd_rules.py makes the laws that are proved from the same formula and points.
//
// Everything here is done by the compiler: this is included where code is compiled for one instruction set.
#pragma once

namespace rewright::cpu {

struct Ratio {
  long long num = 0, den = 1;  // coprime, den > 0
  constexpr double value() const { return static_cast<double>(num) / static_cast<double>(den); }
};

consteval Ratio Reduced(long long num, long long den) {
  long long a = num < 0 ? -num : num, b = den < 0 ? -den : den;
  while (b != 0) {
    const long long rest = a % b;
    a = b;
    b = rest;
  }
  if (den < 0) a = -a;
  return {num / a, den / a};
}
consteval Ratio operator*(Ratio a, Ratio b) {
  const Ratio x = Reduced(a.num, b.den), y = Reduced(b.num, a.den);
  return {x.num * y.num, x.den * y.den};
}
consteval Ratio operator/(Ratio a, Ratio b) { return a * Reduced(b.den, b.num); }
consteval Ratio operator-(Ratio a, Ratio b) {
  const Ratio step = Reduced(b.den, a.den);
  return Reduced(a.num * step.num - b.num * step.den, a.den * step.num);
}

// Zero, then pairs p, -p: these share half of the work. Magnitudes near one keep rounding errors small.
template <int kCount>
inline constexpr Ratio kWinogradPoints[kCount] = {};
template <>
inline constexpr Ratio kWinogradPoints<3>[3] = {{0}, {1}, {-1}};
template <>
inline constexpr Ratio kWinogradPoints<5>[5] = {{0}, {3, 4}, {-3, 4}, {3, 2}, {-3, 2}};
template <>
inline constexpr Ratio kWinogradPoints<7>[7] = {{0}, {1}, {-1}, {2}, {-2}, {1, 2}, {-1, 2}};
template <>
inline constexpr Ratio kWinogradPoints<9>[9] = {{0}, {1, 2}, {-1, 2}, {7, 8}, {-7, 8}, {9, 8}, {-9, 8}, {2}, {-2}};
template <>
inline constexpr Ratio kWinogradPoints<11>[11] = {{0},  {3, 8}, {-3, 8}, {3, 4}, {-3, 4}, {1},
                                                  {-1}, {3, 2}, {-3, 2}, {9, 4}, {-9, 4}};

template <int kOutputs, int kTaps>
struct WinogradMatrices {
  static constexpr int kProducts = kOutputs + kTaps - 1;
  Ratio out[kOutputs][kProducts];    // A
  Ratio kernel[kProducts][kTaps];    // G
  Ratio data[kProducts][kProducts];  // B
};

template <int kOutputs, int kTaps>
consteval WinogradMatrices<kOutputs, kTaps> MakeWinogradMatrices() {
  constexpr int kLast = kOutputs + kTaps - 2;
  const auto& p = kWinogradPoints<kLast>;
  WinogradMatrices<kOutputs, kTaps> t;
  for (int j = 0; j <= kLast; ++j) {
    Ratio f{1}, power{1};
    Ratio* const c = t.data[j];  // coefficients of the product so far
    c[0] = {1};
    int degree = 0;
    for (int l = 0; l < kLast; ++l) {
      if (l == j) continue;
      if (j < kLast) f = f * (p[j] - p[l]);
      for (int k = ++degree; k > 0; --k) c[k] = c[k - 1] - p[l] * c[k];
      c[0] = Ratio{0} - p[l] * c[0];
    }
    if (j == kLast) continue;
    for (int k = 0; k < kTaps; ++k, power = power * p[j]) t.kernel[j][k] = power / f;
    power = {1};
    for (int i = 0; i < kOutputs; ++i, power = power * p[j]) t.out[i][j] = power;
  }
  t.out[kOutputs - 1][kLast] = {1};
  t.kernel[kLast][kTaps - 1] = {1};
  return t;
}

template <int kOutputs, int kTaps>
inline constexpr WinogradMatrices<kOutputs, kTaps> kWinograd = MakeWinogradMatrices<kOutputs, kTaps>();

}  // namespace rewright::cpu
