// The Meaning of a derived operator: a gradient or a tangent of another one.
#pragma once

#include "absl/status/status.h"
#include "core/adjoint/layout.h"
#include "core/ir/op.h"

namespace rewright {

// The meaning function of the derived operator.
absl::Status DeriveMeaning(const DerivedLayout& layout, OpBuilder& b);

}  // namespace rewright
