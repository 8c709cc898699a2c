// Graphs of cuDNN's operations, computed by definition.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "tests/backends/standin/numbers_util.h"

namespace rewright::standin {

constexpr int64_t kFallbackProposals = 100;  // from here on proposals are those of the second mode

using Dims = std::array<int64_t, 4>;  // tensors of fewer axes have axes of size one in front

struct ProgramTensor {
  int64_t uid = 0;
  Type type = Type::kFp32;
  Dims dims = {}, strides = {};
  bool is_virtual = false, by_value = false;
  int64_t alignment = 16;
};

struct ProgramOperation {
  enum class Kind : uint8_t { kConv, kPointwise, kMatmul, kReduce, kPool, kLayerNorm };
  Kind kind = Kind::kConv;
  std::vector<std::shared_ptr<const ProgramTensor>> inputs;
  std::shared_ptr<const ProgramTensor> out;
  int mode = 0;            // the library's number: of a function, a reduction, a pooling
  double most = INFINITY;  // of relu
  std::vector<int64_t> before, after, strides, dilations, window;
};

struct Program {
  std::vector<ProgramOperation> operations;
};

struct BoundTensors {
  std::map<int64_t, void*> addresses;  // by uid
  std::map<int64_t, float> values;     // of what the host passes
};

// Misuse where an operation reads what none before it gives, or sizes do not fit.
void CheckProgram(const Program& program);
// Misuse where a tensor has no address, or one whose memory does not hold it. Values of the host are taken now.
void BindProgram(const Program& program, BoundTensors* bindings);
void RunProgram(const Program& program, const BoundTensors& bindings);

}  // namespace rewright::standin
