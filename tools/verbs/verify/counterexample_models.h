// The counterexample of a refuted rule as two models and their inputs, for runtimes and bug reports.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "substitutions/language/rule.h"
#include "verifier/prove_rule.h"

namespace rewright {

// Writes FOLDER/RULE/left.onnx and right.onnx at the counterexample's sizes, and each input as FOLDER/RULE/NAME.npy.
// Error: the rule has no such models (an operator variable, a right side that is not legal there, an operator that ONNX
// lacks), or a file could not be written.
absl::Status WriteCounterexample(const std::string& folder, const Rule& rule, const RuleVerdict& verdict);

}  // namespace rewright
