// CUDA source for a group of nodes, generated from the operators' meanings.
//
// A group is one expression: the meaning of its last node, in which a read of another node of the group stands for that
// node's meaning at the place read. Sizes are numbers, so most of the index arithmetic folds away (core/index), and a
// transpose, slice, concatenation, pad or reshape inside a group is only another address. No operator is known by name:
// every operator with a meaning has a kernel.
//
// Four shapes of kernel are written:
//   flat   one thread for an element, or for as many neighbours in memory as have 16 bytes; reductions run in the
//          thread;
//   row    one block for all elements that share their reductions (a row of a softmax or layer norm, one sum): the
//          block reduces together, each reduction once, and then maps over the row, again by neighbours;
//   column one block for neighbouring elements of the result, each a reduction of its own whose terms lie far apart
//          while neighbours read neighbours (means over images with channels innermost): a warp reads 16 or 32
//          neighbours;
//   tile   where an operand runs along another axis than the result (a transpose): 32 x 32 elements pass through shared
//          memory, so that neighbouring threads read neighbours and write neighbours.
// Neighbours are read and written together where their addresses allow; what is left over at the end, one by one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/common/layout.h"
#include "backends/cuda/gpu.h"
#include "core/ir/graph.h"

namespace rewright::cuda {

constexpr int kVectorBytes = 16;  // that one access moves at most

// The form in which the elements of a tensor are stored.
enum class Storage : uint8_t { kNative, kFp16, kBf16 };

struct KernelRequest {
  std::vector<NodeId> nodes;  // operands before users
  Value result;               // an output of the last one
  // A place of its own for every element; not blocked. Axes may be longer than the result's: zeros follow its elements.
  Layout out;
  Storage out_storage = Storage::kNative;
  // Layouts of the values that are read from memory; not blocked.
  std::function<Layout(Value)> layout_of;
  std::function<Storage(Value)> storage_of = [](Value) { return Storage::kNative; };
  // True if the memory of the result, and of a value that is read, starts at a multiple of kVectorBytes.
  bool out_aligned = true;
  std::function<bool(Value)> aligned = [](Value) { return true; };
  // The tensor of a constant with one element, or null.
  std::function<const Tensor*(Value)> single_constant = [](Value) { return nullptr; };
  // Smallest number of elements for which a thread of a flat kernel takes several; in tests small, which makes the
  // other limits small too.
  int64_t min_vectorized = 1 << 17;
};

struct GeneratedKernel {
  std::string name;    // a function; derived from the source
  std::string source;  // the function alone; to be compiled behind KernelPrelude()
  // The kernel's parameters: one pointer for each of these, then one for the result.
  std::vector<Value> arguments;
  int64_t blocks = 0;
  int threads = 0;
  bool vectorized = false;
  bool by_rows = false;
  bool by_columns = false;
  bool tiled = false;
};

// Errors: none for graphs that were checked; an InternalError for an expression that has no source.
absl::StatusOr<GeneratedKernel> GenerateKernel(const Graph& graph, const KernelRequest& request);

// Returns whether one kernel of these nodes, in row-major order, does each of its reductions once: by rows, which are
// the result's last axis, long enough for a block to share and short enough for one block to do.
bool ReducesOncePerRow(const Graph& graph, const std::vector<NodeId>& nodes, Value result);

// The cost of computing a node anew at each place that reads it: reads and functions in its element, reductions counted
// with their extents. For deciding what to fuse.
double ElementWork(const Graph& graph, NodeId node, int output);

}  // namespace rewright::cuda
