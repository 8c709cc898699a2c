// One application at fixed sizes as a straight line of arithmetic in the prime field of
// substitutions/generate/enumerate/field.h.
//
// The operator's index expression is evaluated as far as its indices go. The operations on elements remain, each
// written once however often the expression repeats it. Small integers are exact in the field, so maximum and
// comparison are the true ones on them. Immutable once compiled.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/ir/op.h"
#include "core/tensor/tensor.h"

namespace rewright::generate {

class Tape {
 public:
  // Errors: the meaning is opaque, reads an index from data, or converts element types.
  static absl::StatusOr<Tape> Compile(const Meaning& meaning, const Bindings& bindings,
                                      const std::vector<TensorType>& inputs, const std::vector<TensorType>& outputs);

  // `inputs` are the elements of each operand, `outputs` those of each output. False where a value does not exist
  // (a division by zero). `scratch` is working memory, to be kept between runs.
  bool Run(const uint64_t* const* inputs, uint64_t* const* outputs, std::vector<uint64_t>* scratch) const;

  // The same with sets of variables for elements: which variables each element of the outputs may depend on.
  void RunDependencies(const uint64_t* const* inputs, uint64_t* const* outputs, std::vector<uint64_t>* scratch) const;

  // True if some output leaves out an element of an operand.
  bool drops() const { return drops_; }

 private:
  friend class TapeCompiler;

  // A scalar function by its number, or
  enum Code : uint8_t {
    kSelect = kNumFns,  // pairs_[a].first ? pairs_[a].second : b
    kDot,               // sum of products of pairs_[a .. b)
  };
  struct Instruction {
    uint8_t code;
    int32_t a = 0, b = 0;
  };

  // Registers: elements of the inputs, constants, one per instruction.
  std::vector<int32_t> input_sizes_;
  std::vector<uint64_t> constants_;
  std::vector<Instruction> code_;
  std::vector<std::pair<int32_t, int32_t>> pairs_;
  std::vector<std::vector<int32_t>> results_;  // registers, by output
  int32_t num_inputs_ = 0;                     // elements
  bool drops_ = false;
};

// Tapes that are compiled once for all who need them. Thread-safe.
class TapeCache {
 public:
  // `application` is that of `op` to elements of float32 in the shapes of `inputs`. Null where Tape::Compile fails.
  std::shared_ptr<const Tape> Get(const OpDef& op, const std::vector<TensorType>& inputs,
                                  const Application& application);

 private:
  std::mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<const Tape>> tapes_;  // by operator, attributes and shapes
};

}  // namespace rewright::generate
