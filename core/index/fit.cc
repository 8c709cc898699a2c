#include "core/index/fit.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/base/integer.h"
#include "core/index/compose.h"

namespace rewright::index {
namespace {

constexpr int kSizesOfName = 5;  // the first, the second, and those of the last three samples

// The first primes from 5 on.
std::vector<int64_t> Primes(size_t count) {
  std::vector<int64_t> primes = {3};
  for (int64_t n = 5; primes.size() <= count; n += 2) {
    if (std::none_of(primes.begin(), primes.end(), [&](int64_t prime) { return n % prime == 0; })) primes.push_back(n);
  }
  primes.erase(primes.begin());
  return primes;
}

}  // namespace

std::vector<NamedSizes> SampleSizes(const std::vector<std::string>& names, const NamedSizes& fixed) {
  const std::vector<int64_t> primes = Primes(kSizesOfName * names.size());
  // The sizes number k of all names are neighbours in the list, so that those of the first samples are small.
  const auto set = [&](NamedSizes* sizes, size_t name, size_t k) {
    (*sizes)[names[name]] = primes[k * names.size() + name];
  };
  NamedSizes base = fixed;
  for (size_t i = 0; i < names.size(); ++i) set(&base, i, 0);
  std::vector<NamedSizes> samples = {base};
  for (size_t i = 0; i < names.size(); ++i) {
    set(&samples.emplace_back(base), i, 1);
    for (size_t j = 0; j < i; ++j) {
      NamedSizes& both = samples.emplace_back(base);
      set(&both, i, 1);
      set(&both, j, 1);
    }
  }
  for (size_t k = 2; k < kSizesOfName; ++k) {
    NamedSizes& all = samples.emplace_back(base);
    for (size_t i = 0; i < names.size(); ++i) set(&all, i, k);
  }
  return samples;
}

SizeFit::SizeFit(std::vector<std::string> names, std::vector<NamedSizes> samples)
    : names_(std::move(names)), samples_(std::move(samples)) {
  for (const std::string& name : names_) symbols_.push_back(space_.Symbol(name, 1));
}

// Differences of values give the factors: first of one name, which alone is at its second size, then of two.
std::optional<Form> SizeFit::Fit(const std::vector<int64_t>& values) {
  CHECK(values.size() == samples_.size());
  if (std::all_of(values.begin(), values.end(), [&](int64_t value) { return value == values[0]; })) {
    return Form(values[0]);
  }
  const size_t count = names_.size();
  const NamedSizes& base = samples_[0];
  Form form = values[0];
  const auto distance = [&](size_t name, size_t sample) {
    return samples_[sample].at(names_[name]) - base.at(names_[name]);
  };
  const auto from_base = [&](size_t name) { return symbols_[name] - base.at(names_[name]); };
  std::vector<int64_t> differences(count);
  size_t sample = 1;
  for (size_t i = 0; i < count; ++i) {
    const size_t alone = sample++;
    if (!CheckedSubtract(values[alone], values[0], &differences[i]) || differences[i] % distance(i, alone) != 0) {
      return std::nullopt;
    }
    form = form + from_base(i) * (differences[i] / distance(i, alone));
    for (size_t j = 0; j < i; ++j, ++sample) {
      int64_t rest;
      if (!CheckedSubtract(values[sample], values[0], &rest) || !CheckedSubtract(rest, differences[i], &rest) ||
          !CheckedSubtract(rest, differences[j], &rest)) {
        return std::nullopt;
      }
      const int64_t area = distance(i, sample) * distance(j, sample);
      if (rest % area != 0) return std::nullopt;
      form = form + from_base(i) * from_base(j) * (rest / area);
    }
  }
  for (size_t k = 0; k < samples_.size(); ++k) {
    Substitution sizes;
    for (size_t i = 0; i < count; ++i) sizes[symbols_[i].AsAtom()] = {samples_[k].at(names_[i])};
    if (!Compose(form, sizes).Is(values[k])) return std::nullopt;
  }
  return form;
}

}  // namespace rewright::index
