// Relations between the named sizes of a model, such as total = past + 1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/index/fit.h"

namespace rewright {

// A name that is a sum of multiples of others.
struct SizeRelation {
  std::string name;
  std::vector<std::pair<std::string, int64_t>> terms;  // a name and its factor
  int64_t constant = 0;

  // Returns its value at these sizes of the other names; nothing if one is missing, or the sum is less than 1 or too
  // large.
  std::optional<int64_t> At(const index::NamedSizes& sizes) const;
  std::string ToString() const;  // "total = past + 1"
};

// Parses a name that exporters write as a sum: "past + 1", "2*s0 + s1". Nothing if it is no sum, or a name alone.
std::optional<SizeRelation> RelationOf(const std::string& name);

// Sets the names that relations give, in their order.
void Complete(const std::vector<SizeRelation>& relations, index::NamedSizes* sizes);

// Returns index::SampleSizes of the names; names that a relation gives follow it.
std::vector<index::NamedSizes> RelatedSamples(const std::vector<std::string>& names, const index::NamedSizes& fixed,
                                              const std::vector<SizeRelation>& relations);

// A fit at such samples, which expresses sizes that relations give by their names.
class RelatedFit : public index::SizeFit {
 public:
  RelatedFit(const std::vector<std::string>& names, const std::vector<index::NamedSizes>& samples,
             const std::vector<SizeRelation>& relations);

  // Returns the name of a symbol, or of a form that a relation gives; empty for other forms.
  std::string NameOfSize(const index::Form& form) const;

 private:
  std::vector<std::pair<std::string, index::Form>> related_;
};

}  // namespace rewright
