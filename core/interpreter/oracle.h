// The oracle: it evaluates a Meaning in the plainest way.
//
// For every element of an output it walks over the expression, node by node, and computes each kind of node. It has no
// blocks, no lanes, no sharing and no simplification; oracle.cc defines the meaning of an expression. It is slow, and
// no program calls it. The interpreter (interpreter.h), which is fast and of general use, is tested against it, and so
// are the generator's tapes, over another arithmetic. Both take single functions from core/ir/functions.def, whose
// definitions have tests of their own. It is part of the library because tests of several folders need it.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/op.h"
#include "core/tensor/tensor.h"

namespace rewright {

// An element: `real` of floating types (rounded to float where they are computed in f32), `integer` of the others, in
// the range of the type that they are computed in (of u64: the same bits); truth values are 0 and 1.
struct OracleElement {
  DType dtype = DType::kFloat32;
  double real = 0;
  int64_t integer = 0;
};

// The arithmetic of the oracle: that of processors. Tests replace it.
class OracleArithmetic {
 public:
  virtual ~OracleArithmetic() = default;
  // Returns a number as an element of any type.
  virtual OracleElement Number(DType dtype, double value) const;
  virtual OracleElement FromInteger(DType dtype, int64_t value) const;
  virtual OracleElement Read(DType dtype, const Tensor& tensor, int64_t at) const;
  virtual void Write(const OracleElement& element, Tensor* tensor, int64_t at) const;
  // False if the function has no value. `b` is ignored if the function has one argument.
  virtual bool Call(Fn fn, const OracleElement& a, const OracleElement& b, OracleElement* value) const;
};

// Returns the outputs of one application. Errors: a read outside its operand is an InternalError that names operand and
// index; a value that does not exist is an OutOfRangeError.
absl::StatusOr<std::vector<Tensor>> RunOracle(const Meaning& meaning, const Bindings& bindings,
                                              const std::vector<TensorType>& outputs, const std::vector<Tensor>& inputs,
                                              const OracleArithmetic& arithmetic = OracleArithmetic());

}  // namespace rewright
