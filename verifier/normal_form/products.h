// Products over guarded families.
#pragma once

#include "verifier/integer/context.h"
#include "verifier/normal_form/term.h"

namespace rewright::verifier {

NormalForm ProdOver(Context& ctx, const Family& family);

}  // namespace rewright::verifier
