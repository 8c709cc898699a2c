// Interfaces through which search and runtime use a device.
//
// A Device (backends/) partitions a graph into groups, each of which it runs as one (fusion), gives the cost of a
// group, and compiles a whole graph into a Schedule: kernels over numbered buffers. The runtime assigns the addresses
// of the buffers (one memory plan) and runs the kernels in an order that their uses of buffers allow. A GraphRunner
// (runtime/) runs and times whole graphs. AllowedKernelRewrites tell which proved laws permit a kernel to compute by
// other operators than those of the graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/queue_step.h"
#include "core/ir/graph.h"

namespace rewright {

struct Fold;  // core/fold/fold.h

// Applications that the device runs as one. Values read from outside and values that escape are named.
struct Group {
  std::vector<NodeId> nodes;  // operands before users
  std::vector<Value> inputs;
  std::vector<Value> outputs;
};

// Objects of a library that a kernel needs when it runs and that no two runs may share at a time.
class KernelHandles {
 public:
  virtual ~KernelHandles() = default;
};

// State that a run gives to a kernel besides the buffers. Concurrent runs have separate contexts.
struct RunContext {
  KernelHandles* handles = nullptr;  // made by MakeHandles of this kernel
};

// Runs one step. Kernels are immutable: several threads may run one kernel at a time, each with buffers and handles of
// its own.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // Called once for every instance of a schedule (runtime/instance.h).
  virtual absl::StatusOr<std::unique_ptr<KernelHandles>> MakeHandles() const { return nullptr; }
  // Runs the kernel. Addresses are in the order of Step::buffers. It reads and writes nothing outside of them, whatever
  // they contain. Errors: of the data (an index outside its axis), of a library, too little memory; the written buffers
  // are undefined then. On a device with queues it only enqueues.
  virtual absl::Status Run(void* const* buffers, RunContext& context) const = 0;
};

// A region of memory that steps read and write.
struct Buffer {
  enum class Kind : uint8_t {
    kActivation,  // results and scratch space: planned by the runtime into one arena
    kInput,       // given by the caller: elements in row-major order
    kOutput,      // read by the caller after the run: row-major
    kConstant,    // `data`, filled at compile time (weights, packed weights, folded constants)
    kState,       // keeps its contents from run to run; steps may replace them
    kStored,      // in the second tier: planned by the runtime into an arena there
  };
  Kind kind = Kind::kActivation;
  size_t bytes = 0;
  // A view: this buffer is the bytes [offset, offset + bytes) of another one; -1: it has its own.
  int alias_of = -1;
  size_t offset = 0;
  // kConstant: in the memory of the device. kState: the contents before the first run, in the memory of this machine;
  // null: zeros.
  std::shared_ptr<void> data;
  size_t alignment = 64;  // a power of two, at most DeviceMemory::kAlignment
  // A view that shares no element with any other part of the same buffer, even if the spans of their bytes interleave:
  // such as the parts of a concatenation.
  bool part = false;
  // kInput: its memory takes its next value (Output::updates).
  bool replaced = false;
};

enum class Access : uint8_t {
  kRead,
  kWrite,    // the old contents are not read
  kUpdate,   // the old contents are read
  kScratch,  // written and read by the step alone
};
inline bool Reads(Access access) { return access == Access::kRead || access == Access::kUpdate; }
inline bool Writes(Access access) { return access != Access::kRead; }

struct BufferUse {
  int buffer = -1;
  Access access = Access::kRead;
};

// One kernel with its buffers. The uses of buffers alone determine the order of steps, the lifetimes of buffers, and
// which steps may overlap.
struct Step {
  std::unique_ptr<Kernel> kernel;
  std::vector<BufferUse> buffers;  // in the order that the kernel expects
  int queue = 0;                   // steps on different queues may run at the same time where their uses allow it
  bool joins = false;              // waits for all steps before it, on every queue
  int group = -1;                  // of the partition, -1 for a reorder or other glue
  std::string label;               // for messages and traces: "conv2d+add+relu"
};

// Immutable once it is compiled.
struct Schedule {
  std::vector<Buffer> buffers;
  std::vector<Step> steps;   // in an order in which they can run one by one
  std::vector<int> inputs;   // buffer of every graph input, in order; -1 for an unused one
  std::vector<int> outputs;  // buffer of every result of the graph (Graph::results), in order
  // Buffer of every state of a graph for training, by name: in row-major order, of kind kState. The steps that write it
  // come after all others, so that a run that ends with an error leaves every state unchanged.
  std::map<std::string, int> states;
  std::vector<Group> groups;
  bool sparing = false;  // pages that a step has read of mapped files are given back (Device::CompileSparing)
};

// The memory in which buffers live, and the queues of work on them. Kernels over a memory that this machine does not
// address only enqueue; later faults show at the next Synchronize or CopyOut. Thread-safe if `turns` is null.
class DeviceMemory {
 public:
  static constexpr size_t kAlignment = 256;

  virtual ~DeviceMemory() = default;
  // Allocates memory aligned to kAlignment. Error: ResourceExhausted, with the number of bytes.
  virtual absl::StatusOr<std::shared_ptr<void>> Allocate(size_t bytes) = 0;
  // Allocates memory in the second tier, which no kernel reads except those that copy. Further error: there is no such
  // tier.
  virtual absl::StatusOr<std::shared_ptr<void>> AllocateStored(size_t bytes) {
    (void)bytes;
    return absl::InternalError("this memory has no second tier");
  }
  virtual absl::Status CopyIn(void* to, const void* from, size_t bytes) = 0;
  virtual absl::Status CopyOut(void* to, const void* from, size_t bytes) = 0;
  virtual absl::Status Synchronize() = 0;
  // Enqueues by `enqueue(i)`, in the order of `steps`, so that queues may overlap. All of it runs after earlier
  // enqueued work, and later enqueued work runs after all of it. Ends at the first error.
  virtual absl::Status RunQueues(const std::vector<QueueStep>& steps,
                                 const std::function<absl::Status(int)>& enqueue) = 0;
  // Records the work that `work` enqueues and repeats it at less cost for each kernel.
  virtual absl::StatusOr<std::function<absl::Status()>> Record(const std::function<absl::Status()>& work) = 0;
  // True if addresses are this program's own: tensors of callers are used in place.
  virtual bool is_host() const { return false; }
  // Must be held by every user of the memory, from the first copy to the end of the work; null: runs may overlap.
  virtual std::mutex* turns() { return nullptr; }
};

// Memory besides that of the device, for data that no kernel reads for a while (docs/decisions/074).
struct SecondTier {
  int64_t bytes = 0;            // that it has
  double seconds_per_byte = 0;  // of a copy there or back, while kernels run
  double lost = 0;              // seconds by which kernels take longer for each second of copies
};

// The name of the law by which one pass over an axis computes a group, for switches, profiles and labels of steps.
inline constexpr char kFoldLaw[] = "fold";

// Tells which kernels may compute an operator by other operators. A kernel whose arithmetic is not that of its operator
// states its computation as a graph of operators, and the law that leads there (docs/decisions/038). Thread-safe.
class AllowedKernelRewrites {
 public:
  virtual ~AllowedKernelRewrites() = default;
  // True if the law of that name is proved, is not switched off, and leads from the application to `meaning`, a value
  // of the graph's arena.
  virtual bool Allow(const std::string& law, const Graph& graph, NodeId application, Value meaning) const = 0;
  // True if folds are not switched off, and the laws are proved by which each number of this one is carried from block
  // to block (docs/folds.md).
  virtual bool AllowFold(const Fold& fold) const {
    (void)fold;
    return false;
  }
};

class Device {
 public:
  virtual ~Device() = default;
  // Returns the key of the profile database: name, library versions, threads.
  virtual std::string name() const = 0;
  // Partitions the applications that a run computes: each is in one group (views may form groups of cost 0), or in
  // several groups that each compute it.
  virtual std::vector<Group> Partition(const Graph& graph) const = 0;
  // Returns the seconds to run the group on typical data, measured once per signature (or computed, for analytic
  // devices).
  virtual absl::StatusOr<double> Cost(const Graph& graph, const Group& group) = 0;
  // Returns the proved law by which the device computes the group, if it computes other operators than the group has
  // (AllowedKernelRewrites); else empty. Errors: those of Cost.
  virtual absl::StatusOr<std::string> LawOf(const Graph& graph, const Group& group) {
    (void)graph, (void)group;
    return std::string();
  }
  // Returns notes on costs for the user: the groups that the device refuses, with its messages.
  virtual std::vector<std::string> faults() const { return {}; }
  // Returns a hash of the layouts in which the operands of a group arrive: the cost of a group depends on these besides
  // the group itself. Groups that look alike and have equal contexts cost the same.
  virtual uint64_t CostContext(const Graph& graph, const Group& group) {
    (void)graph, (void)group;
    return 0;
  }
  // Peak rate of any kernel, measured, in operations per second: multiply-adds of f32 with all operands in registers,
  // an addition and a multiplication each. 0: not known.
  virtual double PeakFlops() const { return 0; }
  // Rate in bytes per second at which a block of `bytes` bytes is loaded when it is loaded over and over.
  virtual double PeakBytesPerSecond(int64_t bytes) const {
    (void)bytes;
    return 0;
  }
  // False for a device that is known by its costs alone: Compile fails.
  virtual bool runs() const { return true; }
  // The memory in which the buffers of its schedules live; null: the memory of this machine.
  virtual DeviceMemory* memory() { return nullptr; }
  // Returns the second tier; none: all is in the memory of the kernels. Its times are measured once, or a guess.
  virtual std::optional<SecondTier> second_tier(bool measured) {
    (void)measured;
    return std::nullopt;
  }
  // Compiles kernels for the whole graph; known values are computed here, once.
  virtual absl::StatusOr<Schedule> Compile(const Graph& graph) = 0;
  // Compiles for a few runs in little memory. If the device can, it reads weights in place, and gives back after each
  // step the pages of mapped files that the step read. Runs take longer.
  virtual absl::StatusOr<Schedule> CompileSparing(const Graph& graph) { return Compile(graph); }
};

// A compiled graph that can be run many times, by several threads at a time. Each concurrent run has its own memory,
// which later runs reuse; compiled data such as packed weights is shared. If all runs share one state (Buffer::kState)
// or one queue of work, they take turns.
class Executable {
 public:
  virtual ~Executable() = default;
  // Inputs in the order of Graph::inputs(); outputs in the order of Graph::results(). Types are checked. At the end
  // states, and inputs that are updated, take their next values. An error ends this run alone: it names the step and
  // its operators, outputs are undefined, and states are as before.
  virtual absl::Status Run(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs) = 0;
  // Runs without moving inputs and outputs. On a device with memory of its own it computes once more on the inputs of
  // the last Run of any thread and waits for the end. Latency is measured by this call.
  virtual absl::Status RunAgain(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs) {
    return Run(inputs, outputs);
  }
  // Returns the current value of a state of a graph for training; WriteState replaces it. Errors: no state of that
  // name; a value of another type.
  virtual absl::StatusOr<Tensor> ReadState(const std::string& name) { return absl::NotFoundError("no state " + name); }
  // Returns the value without a copy if possible. The result is valid until the next run or WriteState, and no longer
  // than the executable lives.
  virtual absl::StatusOr<Tensor> ViewState(const std::string& name) { return ReadState(name); }
  virtual absl::Status WriteState(const std::string& name, const Tensor&) {
    return absl::NotFoundError("no state " + name);
  }
  // Bytes of the activation arena, and the largest sum of live tensors over the schedule: the floor of any plan.
  virtual int64_t arena_bytes() const = 0;
  virtual int64_t peak_live_bytes() const = 0;
  // Bytes of the second tier that a run takes.
  virtual int64_t stored_bytes() const { return 0; }
  // Bytes of weights and other constants, in the forms in which kernels read them.
  virtual int64_t constant_bytes() const { return 0; }
};

class GraphRunner {
 public:
  virtual ~GraphRunner() = default;
  virtual absl::StatusOr<std::unique_ptr<Executable>> Prepare(const Graph& graph) = 0;
  // Prepares for a few runs in little memory, see Device::CompileSparing.
  virtual absl::StatusOr<std::unique_ptr<Executable>> PrepareSparing(const Graph& graph) { return Prepare(graph); }
};

}  // namespace rewright
