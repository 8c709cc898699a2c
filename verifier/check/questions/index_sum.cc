#include "verifier/check/questions/index_sum.h"

#include <algorithm>
#include <utility>

#include "verifier/integer/give_up.h"

namespace rewright::verifier {

IndexSum PlusTimes(const IndexSum& a, const IndexSum& b, int64_t times) {
  IndexSum out = a;
  for (const auto& [product, coef] : b) {
    int64_t scaled = 0;
    int64_t& sum = out[product];
    if (__builtin_mul_overflow(coef, times, &scaled) || __builtin_add_overflow(sum, scaled, &sum)) {
      throw GiveUp("a coefficient does not fit 64 bits");
    }
    if (sum == 0) out.erase(product);
  }
  return out;
}

IndexSum Times(const IndexSum& a, const IndexSum& b) {
  IndexSum out;
  for (const auto& [left, left_coef] : a) {
    for (const auto& [right, right_coef] : b) {
      std::vector<int> product = left;
      product.insert(product.end(), right.begin(), right.end());
      std::sort(product.begin(), product.end());
      out = PlusTimes(out, {{std::move(product), left_coef}}, right_coef);
    }
  }
  return out;
}

}  // namespace rewright::verifier
