// Fits numbers that depend on the sizes of named dimensions, from their values at a few sizes.
//
// The sizes are chosen so that some of the values determine a sum of multiples of the names, of products of two names
// and of 1; the other values must agree (SampleSizes). Disagreement shows that a number is no such sum.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/index/form.h"

namespace rewright::index {

using NamedSizes = std::map<std::string, int64_t>;

// Returns the samples of `names`: distinct primes from 5 to about ten times the number of names. The first sample has
// all names at their first size. Then each name and each pair of names are at a second size. The last three have all
// names at other sizes. Names that are not varied keep the sizes in `fixed`.
std::vector<NamedSizes> SampleSizes(const std::vector<std::string>& names, const NamedSizes& fixed);

class SizeFit {
 public:
  // `samples` come from SampleSizes for the names. Each name is a symbol that is at least 1.
  SizeFit(std::vector<std::string> names, std::vector<NamedSizes> samples);

  const std::vector<std::string>& names() const { return names_; }
  // Returns the form with those values, by sample; nothing if there is none.
  std::optional<Form> Fit(const std::vector<int64_t>& values);
  // Returns the name of a symbol of a form that Fit returned.
  const std::string& NameOf(const Atom* symbol) const { return symbol->name; }

 private:
  std::vector<std::string> names_;
  std::vector<NamedSizes> samples_;
  Space space_;
  std::vector<Form> symbols_;
};

}  // namespace rewright::index
