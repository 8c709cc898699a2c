// An operator's definition by simpler operators, read off its meaning.
//
// The element of layer_norm, an index expression of reads, scalar functions and sums, says with which graph of sub,
// reduce_mean, sqrt, ... the same is computed: a scalar function is the elementwise operator that applies it, a
// reduction over all of an axis the operator that reduces, and a read lies along axes of the result. Which operator
// applies which function is read off meanings, too.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/op.h"

namespace rewright::generate {

struct Part;
using PartPtr = std::shared_ptr<const Part>;

// A tensor that broadcasts to the result. Reductions leave axes of size one.
struct Part {
  enum class Kind : uint8_t {
    kOperand,  // number `operand` of the operator
    kNumber,   // everywhere
    kReal,     // the operator's real attribute `name`, everywhere
    kApply,    // op(operands)
  };
  Kind kind = Kind::kNumber;
  int operand = 0;
  double number = 0;
  std::string name;
  const OpDef* op = nullptr;
  std::vector<PartPtr> operands;
  std::vector<int> reduced;  // of the result's axes those over which a kApply reduces
  std::string key;           // the same for equal parts

  bool IsNumber(double value) const { return kind == Kind::kNumber && number == value; }
  bool IsApply(const OpDef* of) const { return kind == Kind::kApply && op == of; }
};

PartPtr MakeNumber(double number);
PartPtr MakeReal(const std::string& name);
PartPtr MakeOperand(int operand);
// Applies the operator to the operands. A number comes last among the operands of a commutative operator.
PartPtr MakeApply(const OpDef* op, std::vector<PartPtr> operands, std::vector<int> reduced = {});

// The applications of a part, shared ones once, users before operands.
std::vector<const Part*> Applications(const PartPtr& part);
// True if the operand occurs in the part.
bool DependsOn(const PartPtr& part, int operand);

// The operators that do one thing alone. Null where there is none.
const OpDef* OperatorOf(Fn fn);            // to each element of operands of floats
const OpDef* OperatorOf(ReduceKind kind);  // along axes, which stay with size one
const OpDef* MeanOperator();

struct Definition {
  const OpDef* op = nullptr;
  Attrs attrs;                                 // canonical; reals stand for any
  int rank = 0;                                // of the result
  std::vector<std::vector<int>> operand_axes;  // of the result, along which each operand lies; ascending
  std::vector<bool> reduced;                   // by axis of the result: whether a part reduces over it
  PartPtr whole;
};

// Reads the operator's definition for f32 operands of these ranks. Errors name the part of the meaning that is no
// tensor.
absl::StatusOr<Definition> ReadDefinition(const OpDef& op, const std::vector<int>& ranks, const Attrs& attrs);

// The definitions of the operator at one rank of operand 0: by each axis that an attribute may name, those in the
// middle first. Errors: no application could be made, or as above.
absl::StatusOr<std::vector<Definition>> ReadDefinitions(const OpDef& op);

}  // namespace rewright::generate
