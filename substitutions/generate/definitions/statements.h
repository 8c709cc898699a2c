// A definition as the text of a rule for tensors of every size.
#pragma once

#include <string>
#include <vector>

#include "substitutions/generate/definitions/forms.h"
#include "substitutions/generate/definitions/parts.h"

namespace rewright::generate {

// The statement as text, without `rule` and a name, for each choice of the axes that may be any number: the most first;
// in the last each axis stands by itself.
std::vector<std::string> StatePartsAsOperator(const Definition& definition, const PartPtr& form);
std::vector<std::string> StateScaleAndShift(const Definition& definition, const ScaleAndShift& parts);

}  // namespace rewright::generate
