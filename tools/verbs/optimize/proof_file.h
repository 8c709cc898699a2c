// The proof of an optimization as a file: every step from the model that was read to the model that is written, told so
// that a program which shares nothing with this one can go through it (tools/check_model.py, docs/proof_files.md).
//
// A line is a JSON object. Values have numbers; each is described before a line names it.
//
//   {"proof": 1, "sizes": {..}, "rewritten": true}   the first line; sizes of the symbolic dimensions
//   {"law": "add-zero", "record": ".."}              a rule that steps apply, and the hash of its record (`spec`)
//   {"value": 3, "tensor": "x"}                      a tensor of the model that was read
//   {"value": 4, "constant": "f32", "shape": [..], "elements": [..]}
//   {"value": 5, "operator": "matmul", "operands": [3, 4], "attributes": {..}}
//   {"value": 6, "output": 1, "of": 5}               one of several outputs
//   {"step": "add-zero", ..}                         the rule with all that it binds; `matched` and `made` are what it
//                                                    replaced, and by what
//   {"weight": "w", "is": 7}                         an initializer of the written model holds the elements of a value
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/onnx/onnx.h"
#include "tools/library/optimize_model.h"
#include "tools/library/optimizer_rules.h"

namespace rewright {

// The proof of the result; of the original where that is the result. It is about the sizes of the run, also where the
// file keeps names of sizes. Errors: a step cannot be told. These are replacements for which no match of a rule was
// found, nodes that a tolerance made narrow, and models whose weights need a file of their own.
absl::StatusOr<std::string> ProofText(const ImportedModel& original, const OptimizedModel& result,
                                      const OptimizerRules& rules);

}  // namespace rewright
