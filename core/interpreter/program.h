// The interpreter's program: a Meaning with its symbols bound to numbers, as a list of stages.
//
// A stage fills one tensor, element by element, from earlier tensors: operands 0..num_inputs-1 are the inputs, operand
// num_inputs + s is the result of stage s. The last stages give the outputs. The others hold sums that are scattered,
// and reductions that occur inside an element but depend on few of its variables (the maximum of a row inside a
// softmax), which are computed once.
//
// A stage's nodes form a directed acyclic graph without repetitions. Index arithmetic has been done by core/index:
// nodes hold linear forms over variables and the few index nodes that are not linear; divisions, bounds and guards that
// ranges decide are gone. The variables of a stage are its axes (bits 0..) and the variables bound by its reductions
// (bits kFirstBound..).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/op.h"

namespace rewright::interp {

// Representation of a node's elements, in lanes and in the tensors that stages read and give.
enum class Rep : uint8_t { kBool, kInt32, kInt64, kUInt64, kFloat, kDouble };
Rep RepOf(Precision precision, DType dtype);
size_t RepSize(Rep rep);
DType DTypeOf(Rep rep);

// An index form over nodes: imm + sum of coefficient * node; ids ascending, coefficients other than 0.
struct Linear {
  int64_t imm = 0;
  std::vector<std::pair<int, int64_t>> terms;

  friend bool operator==(const Linear&, const Linear&) = default;
};

enum class NodeKind : uint8_t {
  // Index atoms and forms; 64-bit integers.
  kVar,        // imm = bit
  kLinear,     // linear
  kFloorDiv,   // args: dividend, divisor
  kMod,        // args: dividend, divisor
  kIndexMin,   // args
  kIndexMax,   // args
  kIndexMul,   // args
  kFromValue,  // args: an integer element
  // Conditions and elements. A condition is an element of representation kBool.
  kConst,        // real; imm for integers and booleans
  kNonNegative,  // linear >= 0
  kIsZero,       // linear == 0
  kAndThen,      // args; the second is evaluated only where the first holds
  kFromIndex,    // linear as an element
  kRead,         // operand at flat offset `linear`, under `mask`; elsewhere node `fill`, or 0
  kCall,         // fn of args, under `mask` where it may have no value
  kSelect,       // args: condition, yes, no
  kReduce,       // args: guard, body; over `bound`
  kCast,         // args
};

// A check that a read makes when it runs: index node `index` lies in [0, size) in every evaluated lane.
struct BoundsCheck {
  int axis = 0;
  int index = 0;
  int64_t size = 0;
  bool from_data = false;  // the index is an element: a wrong one is the caller's fault
  friend bool operator==(const BoundsCheck&, const BoundsCheck&) = default;
};

struct Node {
  NodeKind kind;
  Rep rep = Rep::kInt64;
  Fn fn = Fn::kAdd;
  ReduceKind reduce = ReduceKind::kSum;
  int64_t imm = 0;
  double real = 0;
  Linear linear;
  std::vector<int> args;
  std::vector<int> bound;  // bits, the first varying slowest
  int operand = -1;
  int mask = -1;  // condition under which the node is evaluated; -1: always
  int fill = -1;
  std::vector<BoundsCheck> checks;

  // Derived.
  uint64_t deps = 0;      // variables
  bool fallible = false;  // it, or something it needs, may fail
};

inline constexpr int kFirstBound = 16;
inline constexpr uint32_t kAxisMask = (1u << kFirstBound) - 1;  // the bits before it
inline constexpr int kMaxVariables = 64;

// A reduction whose guard tells which position a term belongs to (scatter_add), computed by terms: the result is filled
// with the value of an empty reduction, and then every term is accumulated at its position. The order of the terms at
// each position is that of the reduction.
struct Scatter {
  struct Loop {
    int64_t extent = 1;
    int64_t out = 0, place = 0, term = 0;  // strides, in elements
    friend bool operator==(const Loop&, const Loop&) = default;
  };
  Rep rep = Rep::kFloat;
  ReduceKind reduce = ReduceKind::kSum;
  int places = -1;          // operand: where a term goes, from where the loops over other axes are; -1: nowhere
  int terms = -1;           // operand
  int64_t term_base = 0;    // of the first term
  std::vector<Loop> loops;  // the first varying slowest
  friend bool operator==(const Scatter&, const Scatter&) = default;
};

// The place of a stage's elements in a tensor that several stages fill (residues.cc).
struct Part {
  int first_stage = 0;  // its result is the tensor
  std::vector<int64_t> shape;
  int64_t offset = 0;            // of the first element
  std::vector<int64_t> strides;  // by axis
};

struct Stage {
  std::vector<int64_t> extents;        // of the axes; also the shape of the result, unless it is a part
  std::vector<int64_t> bound_extents;  // of bits kFirstBound..
  std::vector<Node> nodes;             // arguments before users
  int root = 0;
  double cost = 0;                 // evaluations of nodes, all lanes counted
  std::vector<int64_t> box;        // of the blocks
  std::optional<Scatter> scatter;  // in the place of nodes
  std::optional<Part> part;

  Rep rep() const { return scatter ? scatter->rep : nodes[root].rep; }
};

class RunnerPool;

struct Program {
  Precision precision = Precision::kNative;
  InterpretTuning tuning;
  std::vector<TensorType> inputs;    // as stored
  std::vector<TensorType> outputs;   // as stored
  std::vector<TensorType> computed;  // the inputs as the stages read them
  std::vector<Stage> stages;
  std::vector<int> output_stages;  // by output
  // Reference function of an opaque operator, which has no stages.
  Meaning::Reference reference;
  Bindings bindings;
  std::shared_ptr<RunnerPool> runners;  // of the stages
};

absl::StatusOr<std::unique_ptr<Program>> Lower(const Meaning& meaning, const Bindings& bindings,
                                               const std::vector<TensorType>& inputs,
                                               const std::vector<TensorType>& outputs, Precision precision,
                                               const InterpretTuning& tuning);

// Returns every node id that a node refers to, in evaluation order.
template <typename F>
void ForEachOperand(const Node& node, const F& visit) {
  for (const auto& term : node.linear.terms) visit(term.first);
  for (int arg : node.args) visit(arg);
  for (const BoundsCheck& check : node.checks) visit(check.index);
  if (node.mask >= 0) visit(node.mask);
  if (node.fill >= 0) visit(node.fill);
}

}  // namespace rewright::interp
