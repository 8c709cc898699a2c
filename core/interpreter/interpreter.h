// The reference interpreter: computes operator applications and graphs from the operators' meanings alone. It is the
// oracle of every backend.
//
// A Meaning whose symbols are bound is compiled into a program over blocks of output positions (lanes): every
// expression node is one vector operation on the lanes that it depends on. Each output element is computed on its own
// and reductions accumulate one term after the other in the declared order, so results depend neither on the number
// of threads nor on the size of the blocks.
//
// Floating-point elements are computed with in their own type, or all in double (Precision). Elements of a narrow type
// (core/tensor/dtype.h) are computed with in the wider one, and rounded or wrapped once, where an application's result
// is stored: a graph of 16-bit floats is a graph of f32 with a rounding after every operator (docs/decisions/054).
//
// Errors: a read outside its operand is an InternalError that names operand and index (InvalidArgumentError where the
// index is data). A value that does not exist (an integer division by zero) is an OutOfRangeError, and so is an index
// of gather outside its axis when a whole graph is run (core/ir/index_range.h); a single application takes it as its
// declaration says. A tensor for which there is no memory is a ResourceExhaustedError. A run that is stopped
// (core/base/stop.h) is a CancelledError.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/ir/graph.h"

namespace rewright {

enum class Precision : uint8_t { kNative, kFloat64 };

// Returns the element type in memory of a tensor of type `dtype`: floating types are f64 under kFloat64.
DType StoredDType(Precision precision, DType dtype);
// Returns the tensor with elements of that type; a tensor that already has it is shared.
absl::StatusOr<Tensor> ToPrecision(const Tensor& tensor, Precision precision);

struct InterpretOptions {
  Precision precision = Precision::kNative;
  int threads = 1;
  // Gives elements, as the precision stores them, that a leaf has in place of its own; nothing: it has its own. It is
  // asked for each node that reads the leaf, so that the weights of a large model need not be in memory together.
  std::function<std::optional<Tensor>(NodeId leaf)> elements = nullptr;
};

namespace interp {
struct Program;
}

// Sizes by which work is divided; results do not depend on them. Tests make them small.
struct InterpretTuning {
  int64_t max_lanes = 4096;   // output elements in a block
  double min_hoisted = 4096;  // evaluations that a reduction must take to be computed ahead
  double min_parallel = 2e5;  // evaluations below which one thread is used
  double min_residues = 2e6;  // evaluations that a reduction must take to be computed by residues of positions
};

// Treatment of an integer without a value (a quotient by 0): an OutOfRangeError ends the run, or the element is -1.
enum class Undefined : uint8_t { kError, kMinusOne };

// A Meaning with its symbols bound, ready to be run many times. Immutable; runs may be concurrent.
class CompiledMeaning {
 public:
  // `inputs` and `outputs` are the types in the graph.
  static absl::StatusOr<CompiledMeaning> Compile(const Meaning& meaning, const Bindings& bindings,
                                                 const std::vector<TensorType>& inputs,
                                                 const std::vector<TensorType>& outputs, Precision precision,
                                                 const InterpretTuning& tuning = {});

  // Outputs have the stored type; input tensors have it or the graph's type.
  absl::StatusOr<std::vector<Tensor>> Run(const std::vector<Tensor>& inputs, int threads = 1,
                                          Undefined undefined = Undefined::kError) const;

 private:
  std::shared_ptr<const interp::Program> program_;
};

// Compiles and runs one application. The types of the inputs are those of the tensors, unless `input_types` gives them.
absl::StatusOr<std::vector<Tensor>> Interpret(const Meaning& meaning, const Bindings& bindings,
                                              const std::vector<TensorType>& outputs, const std::vector<Tensor>& inputs,
                                              const InterpretOptions& options = {});
absl::StatusOr<std::vector<Tensor>> Interpret(const Meaning& meaning, const Bindings& bindings,
                                              const std::vector<TensorType>& outputs,
                                              const std::vector<TensorType>& input_types,
                                              const std::vector<Tensor>& inputs, const InterpretOptions& options);

// Runs a whole graph. `inputs` gives inputs and values of states by name; those that are not given come from the arena.
// Outputs are in the order of Graph::outputs(). Intermediate tensors are freed after their last use. Errors name the
// node.
absl::StatusOr<std::vector<Tensor>> InterpretGraph(const Graph& graph,
                                                   const absl::flat_hash_map<std::string, Tensor>& inputs,
                                                   const InterpretOptions& options = {});

}  // namespace rewright
