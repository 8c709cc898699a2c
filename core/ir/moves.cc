#include "core/ir/moves.h"

#include <algorithm>

namespace rewright {
namespace {

bool Moves(const ExprNode& element) {
  switch (element.kind()) {
    case ExprKind::kRead:
    case ExprKind::kConst:
    case ExprKind::kParam: return true;
    case ExprKind::kSelect: return Moves(*element.yes()) && Moves(*element.no());
    default: return false;
  }
}

}  // namespace

bool MovesElements(const Meaning& meaning) {
  return !meaning.IsOpaque() && std::all_of(meaning.outputs.begin(), meaning.outputs.end(),
                                            [](const OutputMeaning& output) { return Moves(*output.element); });
}

}  // namespace rewright
