// The space that the generator searches: which operators, with which attributes, over which inputs.
//
// Sizes are variables (m, k, ...), so that a law found for some sizes can be stated for all. Each *assignment* gives
// every variable a number; an application is legal only if it is under all of them, and two tensors are equal only if
// they are under all of them. Assignments therefore keep the sizes of different variables apart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/op.h"

namespace rewright::generate {

// A size of an input: a variable, or a number.
struct Size {
  int variable = -1;  // -1: `number`
  int64_t number = 1;
};

// Inputs that differ only in name: any of them may be exchanged.
struct InputGroup {
  std::string name;  // the first is name1
  std::vector<Size> shape;
  int count = 1;
  bool kernel = false;  // the weight of a convolution: no image
  // Known to be made of parts along this axis, one after the other; where all but the first begin.
  int cut_axis = -1;
  std::vector<Size> cuts;
};

// The source of an attribute that is no fixed number.
enum class Derived : uint8_t {
  kNone,
  kGroups,   // conv2d: groups = channels of the image / channels of the kernel
  kParts,    // split: `parts` parts, where the last concat, or concats, put the tensor together
  kFirst,    // slice: the first of these parts, along `axis`
  kShape,    // reshape, expand: to the shape `shape`
  kMerge,    // reshape: axis k of the result is the product of the operand's axes `merged`[k]
  kEnlarge,  // pad: a kernel centred in one of `extent`
};

// A way to apply a core operator. It counts as one together with the operator that follows it (`then`).
struct OperatorChoice {
  std::string name;
  std::string op;  // of core/ops; empty: a constant
  int arity = 1;
  Attrs attrs;
  std::string any_attr;  // one that may have any value, the same in all of a rule; empty: none
  Derived derived = Derived::kNone;
  std::string then;  // a unary operator applied to the result; empty: none

  // Which operands it takes.
  bool commutative = false;
  bool distinct = false;    // operands are different tensors
  bool ascending = false;   // operands are inputs, in the order in which they are declared
  bool in_order = false;    // of two inputs the one that is declared first comes first
  bool same_shape = false;  // no broadcasting, and the same layout
  bool scalar_second = false;
  bool stretched = false;                // operand 1 is stretched to the shape of operand 0, which is another
  bool leaf_only = false;                // operand 0 is an input
  bool no_leaf = false;                  // operand 0 is no input
  bool no_units = false;                 // no operand has an axis of size one
  bool no_kernel_input = false;          // operand 0 is no input that is a kernel
  bool kernel_second = false;            // operand 1 is an input that is a kernel
  std::vector<int> ranks;                // of each operand; empty: any
  std::vector<int64_t> kernel;           // the last two sizes of operand 1; empty: any
  int forbidden_inner = -1;              // matmul: the variable that may not be the inner size
  std::vector<int64_t> extent;           // kEnlarge
  int64_t axis = 0;                      // kFirst
  int parts = 2;                         // kParts
  std::vector<std::vector<int>> merged;  // kMerge
  bool view = false;                     // a transpose that moves nothing: only counted (SpaceCounts)

  // Constants.
  enum class Constant : uint8_t { kNone, kSplat, kIdentity };
  Constant constant = Constant::kNone;
  std::vector<Size> shape;                 // of the constant; kShape: of the result
  int64_t numerator = 1, denominator = 1;  // of the elements of a kSplat
};

// Sizes and elements under which graphs that were taken for equal differ.
struct Counterexample {
  std::vector<int64_t> sizes;  // by variable of the space
  uint64_t draw = 0;           // the source of the elements
};

struct Space {
  std::string name;
  std::vector<std::string> variables;  // of sizes
  std::vector<InputGroup> inputs;
  std::vector<OperatorChoice> operators;
  int max_ops = 3;
  int max_outputs = 8;       // graphs with more are left out
  bool merges_only = false;  // only pairs of which one side merges work that the other one does separately
  int max_simpler_ops = 8;   // only pairs whose simpler side has no more
  // By assignment, then variable. Tensors are evaluated under all of these.
  std::vector<std::vector<int64_t>> assignments;
  // Tensors are evaluated under these, too.
  std::vector<Counterexample> counterexamples;
  // Assignments under which matches are confirmed, with other elements.
  std::vector<std::vector<int64_t>> confirmation;
  // One more, under which applications are legal too and no tensor has more than max_elements.
  std::vector<int64_t> nominal;
  int64_t max_elements = 512;

  int num_inputs() const;
};

// TASO's (Jia et al., SOSP 2019; src/generator of its sources): its 20 inputs and 26 operators, three of them at most.
Space TasoSpace();

// The preset that has no space: its rules are read off the operators' meanings (definitions.h).
inline constexpr char kDefinitionsPreset[] = "definitions";

// The spaces of a preset, from general to special: rules found in one are known in those after it. Errors name the
// presets there are.
absl::StatusOr<std::vector<Space>> Preset(const std::string& name);
std::vector<std::string> PresetNames();

// Leaves only operators named in `ops` (their own names, or those of core operators; constants stay where `ops` is
// empty), and at most `inputs` inputs of each group; empty and 0 change nothing. Errors name the operators there are.
absl::Status Restrict(const std::vector<std::string>& ops, int inputs, Space* space);

}  // namespace rewright::generate
