// TASO's operators and the parameters that its rules give them, by the numbers of its files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rewright::taso {

enum class OpType : uint8_t {
  kInput,
  kWeight,
  kAny,
  kConv2d,
  kDropout,
  kLinear,
  kMaxPool2d,
  kAvgPool2d,
  kRelu,
  kSigmoid,
  kTanh,
  kBatchNorm,
  kConcat,
  kSplit,
  kReshape,
  kTranspose,
  kAdd,
  kMul,
  kMatmul,
  kScale,  // a tensor times a scalar
  kEnlarge,
  kMergeGroups,
  kConstIdentity,
  kConstIdentityConv,
  kConstOne,
  kConstPool,
};

enum class Key : uint8_t {
  kOpType,
  kNumInputs,
  kNumOutputs,
  kGroup,
  kKernelHeight,
  kKernelWidth,
  kStrideHeight,
  kStrideWidth,
  kPadding,     // 0: "same", 1: "valid"
  kActivation,  // 0: none, 1: sigmoid, 2: relu, 3: tanh
  kRank,
  kAxis,
  kPermutation,  // digits in base `rank`, the first axis the most significant
  kShuffle,
  kMergeCount,
};

// The properties of an operator: the parameters that a rule file needs, and if it can be converted to rules.
struct OpInfo {
  const char* name;            // TASO's
  int min_inputs, max_inputs;  // of an operator that can be converted
  std::vector<Key> required;
  bool convertible;
};

// Null where there is no operator of that number.
const OpInfo* FindOperator(int64_t number);

struct KeyInfo {
  const char* name;  // TASO's
  int64_t min, max;
};

// Null where there is no parameter of that number.
const KeyInfo* FindKey(int64_t number);

}  // namespace rewright::taso
