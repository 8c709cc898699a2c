// Sharding laws, read off an operator's declaration.
//
// A *factor* is a symbol of the declaration (a size, a number of groups) with all axes whose sizes are multiples of it:
// cut into as many blocks as there are devices, they are cut alike. For each factor of one application there are rules
// that say how the operator is applied to the blocks, with the number of devices and all sizes symbolic:
//
//   matmul(combine(x[d, m, k], axis=1), combine(y[d, k, n], axis=0)) => reduce_sum(each_matmul(x, y), axes=[0], ..)
//
// If it matters which block a device has, the law is one of block_f (core/lift/lift.h), `by position`.
//
// The laws are conjectures that the declaration suggests. The verifier decides which of them hold; if none does, there
// is a named obstacle.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/op.h"

namespace rewright::sharding {

// How the blocks of the result stand for the whole.
enum class Effect : uint8_t {
  kCut,      // they are its blocks
  kHalo,     // the same, once every device has the edges of its neighbours' blocks
  kPartial,  // the whole is their sum, maximum, product..
  kMade,     // the axis is made by the operator: every device makes its block
};
const char* EffectName(Effect effect);  // "cut", "halo", "partial", "made"

struct Conjecture {
  Effect effect = Effect::kCut;
  std::string detail;  // the reduction of a partial result; else values that attributes must have, "groups=1"; or empty
  std::string rule;    // "left => right when condition", as in a file of rules, without its name
  std::vector<int> operands;  // by operand: the axis that is cut; -1: every device has all of it
  bool special = false;       // only where some attributes have neutral values
};

// Why an axis is not cut, in the terms of the field.
enum class Obstacle : uint8_t {
  kNone,       // no axis has the symbol
  kOpaque,     // the operator has a reference function and no declaration of its elements
  kData,       // elements are the indices along the axis
  kPosition,   // the position along the axis is itself an element, or counted
  kInside,     // reduced inside of the element: the operator must be taken apart
  kSeam,       // pieces of several sizes meet on the axis
  kStrided,    // blocks would lie scattered over the axis
  kElsewhere,  // a block of the result reads other blocks
  kUnread,     // of the operand only the shape counts
  kAddend,     // something that is no part of the sum would be added once by every device
  kRefuted,    // nothing of these is seen; the laws are false or not proved
};
const char* ObstacleText(Obstacle obstacle);

struct Factor {
  std::string symbol;             // "|x|0"
  std::vector<std::string> axes;  // "x.0", "out.1": the axes that are cut
  // The first that is proved is the law; where that is special, the first after it that is not is one, too.
  std::vector<Conjecture> conjectures;
  Obstacle obstacle = Obstacle::kNone;  // where none is
};

// The factors of one application; `attrs` are canonical. Errors: those of the application.
absl::StatusOr<std::vector<Factor>> FactorsOf(const OpDef& op, const std::vector<TensorType>& inputs,
                                              const Attrs& attrs);

}  // namespace rewright::sharding
