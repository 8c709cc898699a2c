// The device's partition of a graph into groups of nodes that run as one.
//
// Groups are made in this order:
//   1. An anchor (conv2d, matmul on f32 or 16-bit floats) takes what follows it as an epilogue, as long as each value
//      in between has no other reader: a bias, a scale and a shift per output channel, of weights or numbers, each one
//      node (or a batch_norm, which is all three); then one residual of the same shape is added; then activation
//      functions follow. Nothing is folded into the weights, no two steps are made one, and nothing is known but by its
//      operator: all that is algebra, and a rule's to prove. A product of 8-bit integers takes the differences to zero
//      points before it and what makes 8 bits of its sums (quantized.h). A product of bf16 numbers that were widened
//      takes the conversions, where the processor multiplies bf16. A convolution of images whose first two axes
//      are exchanged, as the gradient by its weights is, takes the transposes before it and that behind it.
//   2. Reshapes and copies along linear indices (transpose, slice, split, expand) are groups of their own, which are
//      views where the layout allows.
//   3. The remaining pointwise nodes are gathered backwards from a sink: a producer joins when it has the sink's shape
//      and all its readers are in the group. Results that no node reads and that share producers are sinks of one
//      group: the next values of a weight and of what an optimizer keeps of it.
//   4. A reduction of f32 or 16-bit floats (sum, mean, largest, smallest) takes the pointwise nodes that it alone
//      reads, likewise.
//   5. Everything else is alone.
//   6. A reduction along rows joins the pointwise group that alone reads what it gives, once a row, with the pointwise
//      nodes and reshapes in between (row_groups.h), where a loop can be compiled for them: a norm of rows.
//   7. Groups between products of activations, and these, are one where an allowed fold computes them
//      (../folds/folds.h). FuseGraph leaves that to its callers, who know what is allowed.
// But for these every group has one node whose outputs escape, the last; all other nodes are read inside alone. So
// groups, ordered by their last node, never depend on one another in a cycle. Pointwise next values of states come
// behind all other groups, with what is fetched for them from a second tier of memory. A difference that only products
// of 8-bit integers read is in the group of each of them, and so is a transpose that gradients read.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/fuse/quantized.h"
#include "core/device/device.h"
#include "core/ir/graph.h"

namespace rewright::cpu {

// Functions that kernels apply to their results before they store them. Exporters write them as chains of simpler
// operators; proved rules turn such chains into these before a device sees the graph.
enum class Activation : uint8_t { kRelu, kClip, kSigmoid, kTanh, kGelu, kGeluTanh, kSwish, kHardSwish };

// y = max(x, 0) + alpha * min(x, 0) for kRelu, min(max(x, alpha), beta) for kClip; alpha and beta are unused elsewhere.
struct ActivationFunction {
  Activation activation = Activation::kRelu;
  double alpha = 0, beta = 0;
};

struct EpilogueStep {
  // In the order in which they may follow one another. The first four have weights or numbers per channel at `node`.
  enum class Kind : uint8_t {
    kNone,        // the end of an empty epilogue
    kBias,        // added
    kScale,       // multiplied
    kShift,       // added to what is scaled
    kBatchNorm,   // bias, scale and shift
    kResidual,    // adds the value `other`
    kActivation,  // `activation`
  };
  Kind kind = Kind::kNone;
  NodeId node = -1;
  int operand = 0;  // of the node: the accumulated value
  Value other;
  ActivationFunction activation;
};

struct GroupFold;  // ../folds/folds.h

struct FusedGroup {
  enum class Kind : uint8_t {
    kConv,            // a convolution, and what follows it at each element
    kMatmul,          // a product, and what follows it at each element
    kRounded,         // a product of f32 on operands that are widened from bf16, and what follows it at each element
    kQuantized,       // a product or convolution of integers, between conversions
    kWeightGradient,  // the gradient of a convolution by its weights
    kPointwise,       // operators at each element
    kReduce,          // a reduction, and what comes before it at each element
    kRows,            // operators along rows: softmax, norms
    kView,            // other shapes of the same memory
    kFold,            // operators in one pass over an axis (core/fold)
    kOther            // one node
  };
  Kind kind = Kind::kOther;
  Group group;
  std::vector<EpilogueStep> epilogue;                 // kConv, kMatmul, kRounded
  std::shared_ptr<const QuantizedProduct> quantized;  // kQuantized
  NodeId reduction = -1;                              // kRows
  std::shared_ptr<const GroupFold> fold;              // kFold
  std::vector<FusedGroup> parts;                      // kFold: groups as which it may run instead
  bool is_last = false;  // computes a state's next value, or a fetch for one; such groups run after all others
};

// All groups, operands before users.
std::vector<FusedGroup> FuseGraph(const Graph& graph);

}  // namespace rewright::cpu
