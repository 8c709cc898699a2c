// What search and runtime know of a device: two small interfaces.
//
// A Device (backends/) says which operators it supports, partitions a graph into groups that it runs as one (fusion),
// gives the cost of a group, and compiles a whole graph into a Schedule: kernels over numbered buffers. The runtime
// gives the buffers addresses (one memory plan) and runs the kernels in order. A GraphRunner (runtime/) runs and times
// whole graphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ir/graph.h"

namespace rewright {

// Applications that the device runs as one. Values read from outside and values that escape are named.
struct Group {
  std::vector<NodeId> nodes;  // operands before users
  std::vector<Value> inputs;
  std::vector<Value> outputs;
};

// Runs one step. Addresses are in the order of Step::buffers. Kernels are immutable after compilation and allocate
// nothing when they run.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void Run(void* const* buffers) const = 0;
};

// A region of memory that steps read and write. Lifetimes follow from the steps.
struct Buffer {
  enum class Kind : uint8_t {
    kActivation,  // planned by the runtime into one arena
    kInput,       // given by the caller: elements in row-major order
    kOutput,      // read by the caller after the run: row-major
    kConstant,    // `data`, filled at compile time (weights, packed weights, folded constants)
  };
  Kind kind = Kind::kActivation;
  size_t bytes = 0;
  // A view: this buffer is the bytes [offset, offset + bytes) of another one; -1: it has its own.
  int alias_of = -1;
  size_t offset = 0;
  std::shared_ptr<void> data;  // kConstant
};

struct Step {
  std::unique_ptr<Kernel> kernel;
  std::vector<int> buffers;  // ids, in the order that the kernel expects; scratch space among them
  std::vector<int> writes;   // the ids among `buffers` that it writes (scratch included)
  int group = -1;            // of the partition, -1 for a reorder or other glue
  std::string label;         // for traces: "conv2d+add+relu"
};

struct Schedule {
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  std::vector<int> inputs;   // buffer of every graph input, in order; -1 for an unused one
  std::vector<int> outputs;  // buffer of every graph output, in order
  std::vector<Group> groups;
};

// Memory that is not this machine's own, and the queue of work on it. Kernels over it only enqueue; what goes wrong in
// them shows at the next Synchronize or CopyOut. Not thread-safe.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  // Aligned to 256 bytes. Errors: out of memory, with the bytes asked for.
  virtual absl::StatusOr<std::shared_ptr<void>> Allocate(size_t bytes) = 0;
  virtual absl::Status CopyIn(void* to, const void* from, size_t bytes) = 0;
  virtual absl::Status CopyOut(void* to, const void* from, size_t bytes) = 0;
  virtual absl::Status Synchronize() = 0;
  // Enqueues what `work` enqueues, again and again, at less cost for each kernel.
  virtual absl::StatusOr<std::function<void()>> Record(const std::function<void()>& work) = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  // The key of the profile database: name, library versions, threads.
  virtual std::string name() const = 0;
  // False with the reason in `why` where the node cannot run.
  virtual bool Supports(const Graph& graph, NodeId node, std::string* why) const = 0;
  // Every application that is not weight-only is in exactly one group (views may form groups of cost 0).
  virtual std::vector<Group> Partition(const Graph& graph) const = 0;
  // Seconds to run the group on typical data, measured once per signature (or computed, for analytic devices).
  virtual absl::StatusOr<double> Cost(const Graph& graph, const Group& group) = 0;
  // What the cost of a group depends on besides the group itself: a hash of the layouts in which its operands arrive.
  // Groups that look alike and have equal contexts cost the same.
  virtual uint64_t CostContext(const Graph& graph, const Group& group) {
    (void)graph, (void)group;
    return 0;
  }
  // False for a device that is known by its costs alone: Compile fails.
  virtual bool runs() const { return true; }
  // Where the buffers of its schedules live; null: in the memory of this machine.
  virtual DeviceMemory* memory() { return nullptr; }
  // Kernels for the whole graph; weight-only nodes are computed here, once.
  virtual absl::StatusOr<Schedule> Compile(const Graph& graph) = 0;
};

// A compiled graph that can be run many times.
class Executable {
 public:
  virtual ~Executable() = default;
  // Inputs in the order of Graph::inputs(); outputs in the order of Graph::outputs(). Types are checked.
  virtual absl::Status Run(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs) = 0;
  // Run without moving inputs and outputs: on a device with memory of its own, computes once more on the inputs of the
  // last Run and waits for the end. What latency is measured by.
  virtual absl::Status RunAgain(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs) {
    return Run(inputs, outputs);
  }
  // Bytes of the activation arena, and the largest sum of live tensors over the schedule: the floor of any plan.
  virtual int64_t arena_bytes() const = 0;
  virtual int64_t peak_live_bytes() const = 0;
};

class GraphRunner {
 public:
  virtual ~GraphRunner() = default;
  virtual absl::StatusOr<std::unique_ptr<Executable>> Prepare(const Graph& graph) = 0;
};

}  // namespace rewright
