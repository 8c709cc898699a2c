// TASO's rule files as checked data.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "substitutions/taso/operators.h"

namespace rewright::taso {

// An output of an earlier operator of the same side, or an input of the rule.
struct TensorRef {
  int op = -1;  // -1: an input
  int output = 0;
  int input = 0;  // its number, from 1, where op is -1
};

struct Operator {
  OpType type = OpType::kRelu;
  std::vector<TensorRef> inputs;
  std::map<Key, int> parameters;

  int Get(Key key) const { return parameters.at(key); }
  // The permutation of a transpose; empty if the parameters tell none.
  std::vector<int> Permutation() const;
  int num_outputs() const { return type == OpType::kSplit ? Get(Key::kNumOutputs) : 1; }
};

using Side = std::vector<Operator>;

struct OutputPair {
  TensorRef source, target;
};

struct RuleGraph {
  Side source, target;
  std::vector<OutputPair> outputs;
};

// The rules of a file whose bytes are `data`. Each is consistent: known operators with as many inputs and the
// parameters that they need, within range; operands come before their users; the target has no inputs of its own.
// An operator that cannot be converted (FindOperator) may occur, with anything.
// Errors: FILE: rule 3: source operator 1 (conv2d): parameter stride_h is 0, expected 1 to 1024
absl::StatusOr<std::vector<RuleGraph>> Decode(const std::string& data, const std::string& file);

}  // namespace rewright::taso
