// Plain evaluation of forms, and loops over all values of their leaves.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/index/form.h"

namespace rewright::index {

using Values = absl::flat_hash_map<const Atom*, int64_t>;

// Evaluates a form by the definition of every atom, as written.
int64_t Evaluate(const Form& form, const Values& values);

// Calls f with all values of the variables from 0 to below their extents, which may depend on leaves that `values`
// already holds.
void ForAll(const std::vector<const Atom*>& variables, const Values& values,
            const std::function<void(const Values&)>& f);

}  // namespace rewright::index
