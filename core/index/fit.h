// Numbers that depend on the sizes of named dimensions, found from their values at a few sizes.
//
// The sizes are chosen so that a number which is a sum of multiples of the names, of products of two names and of 1 is
// determined by some of its values, and the others must agree: SampleSizes. A number that is none is told by that.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/index/form.h"

namespace rewright::index {

using NamedSizes = std::map<std::string, int64_t>;

// The samples of `names`: distinct primes from 5 to about ten times the number of names. First one with all names at
// their first size, then each name and each pair of names at a second one, then three in which all names are others.
// Names that are not varied keep what `fixed` says.
std::vector<NamedSizes> SampleSizes(const std::vector<std::string>& names, const NamedSizes& fixed);

class SizeFit {
 public:
  // `samples` as SampleSizes gives them for the names. Each name is a symbol that is at least 1.
  SizeFit(std::vector<std::string> names, std::vector<NamedSizes> samples);

  const std::vector<std::string>& names() const { return names_; }
  // The form with those values, by sample; nothing where there is none.
  std::optional<Form> Fit(const std::vector<int64_t>& values);
  // The name of a symbol of a form that Fit gave.
  const std::string& NameOf(const Atom* symbol) const { return symbol->name; }

 private:
  std::vector<std::string> names_;
  std::vector<NamedSizes> samples_;
  Space space_;
  std::vector<Form> symbols_;
};

}  // namespace rewright::index
