// One graph of operations by the graph interface of cuDNN 9: the library proposes engines, the fastest is taken.
#pragma once

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/plugin/context.h"

namespace rewright::cuda {

// A descriptor of the backend that destroys itself. The first fault of any call stays.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    Note(cudnnBackendCreateDescriptor(type, &raw_), "cudnnBackendCreateDescriptor");
  }
  Descriptor(Descriptor&& other) noexcept : raw_(other.raw_), fault_(std::move(other.fault_)) { other.raw_ = nullptr; }
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(raw_, other.raw_);
    std::swap(fault_, other.fault_);
    return *this;
  }
  ~Descriptor() {
    if (raw_ != nullptr) cudnnBackendDestroyDescriptor(raw_);
  }

  cudnnBackendDescriptor_t raw() const { return raw_; }
  const Fault& fault() const { return fault_; }

  template <typename T>
  void Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T* values, int64_t count) {
    if (fault_.empty()) Note(cudnnBackendSetAttribute(raw_, name, type, count, values), "cudnnBackendSetAttribute");
  }
  template <typename T>
  void Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    Set(name, type, &value, 1);
  }
  void Set(cudnnBackendAttributeName_t name, const Descriptor& other) {
    const cudnnBackendDescriptor_t raw = other.raw();
    Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, raw);
  }
  bool Finalize() {
    if (fault_.empty()) Note(cudnnBackendFinalize(raw_), "cudnnBackendFinalize");
    return fault_.empty();
  }

 private:
  void Note(cudnnStatus_t status, const char* what) {
    if (status != CUDNN_STATUS_SUCCESS && fault_.empty()) fault_ = FaultOf(status, what);
  }

  cudnnBackendDescriptor_t raw_ = nullptr;
  Fault fault_;
};

cudnnDataType_t CudnnType(Precision precision);

// A call whose graph a derived class builds: tensors and descriptors by Add, operations by AddOperation, then Finish.
class GraphCall : public LibraryCall {
 public:
  size_t workspace_bytes() const override { return static_cast<size_t>(plans_[0].workspace); }
  // Buffers: those of the bindings, in their order, then the workspace.
  Fault Run(void* const* buffers) const override;
  // Among which the engine was chosen; 0: it was known from before.
  size_t num_plans() const { return num_plans_; }
  // Bytes that any of these asked for.
  int64_t largest_workspace() const { return largest_workspace_; }

 protected:
  // `what` stands in messages: "this convolution". `rank` is that of all tensors: engines for products are found by 3
  // axes, all others by 4.
  GraphCall(Context& context, Precision precision, std::string what, int rank = 4)
      : context_(context), precision_(precision), what_(std::move(what)), rank_(rank) {}

  // Descriptors are called by their number.
  size_t Add(Descriptor descriptor) {
    descriptor.Finalize();
    parts_.push_back(std::move(descriptor));
    return parts_.size() - 1;
  }
  // A tensor in memory, which becomes the next binding. Stored as the precision says, or as `type`.
  size_t Bound(const int64_t* sizes, const int64_t* strides) { return Bound(sizes, strides, CudnnType(precision_)); }
  size_t Bound(const int64_t* sizes, const int64_t* strides, cudnnDataType_t type);
  // A value within the graph, not rounded unless its type says so.
  size_t Virtual(cudnnDataType_t type, const int64_t* sizes, const int64_t* strides);
  // One f32 that the host passes with every call.
  size_t Scalar(float value);
  // With these descriptors as its parts.
  void AddOperation(Descriptor operation, const std::vector<std::pair<cudnnBackendAttributeName_t, size_t>>& parts);
  // out = mode(x) or mode(x, *other). `most`: of relu.
  void Pointwise(cudnnPointwiseMode_t mode, size_t x, const size_t* other, size_t out,
                 double most = std::numeric_limits<double>::infinity());

  // out = left right, the last two axes of each.
  void Multiply(size_t left, size_t right, size_t out);

  // Closes the graph and chooses an engine. `key` tells the problem apart from all others.
  Fault Finish(const std::string& key);

  Context& context_;
  const Precision precision_;

 private:
  struct Plan {
    Descriptor engine_config, plan;
    int64_t workspace = 0;
    int64_t engine = -1;  // the library's number for it
    int proposal = 0;     // its number among those of the library
  };
  // The library's description of the engine of a proposal.
  struct Engine {
    int64_t number = -1;
    bool exact = false;     // it does not round factors: others are no engines for fp32
    bool compiled = false;  // while the program runs
  };
  struct Binding {
    int64_t uid = 0;
    size_t bytes = 0;
    bool wide = false;  // stored in 32 bits, whatever the precision
  };

  size_t AddTensor(cudnnDataType_t type, const int64_t* sizes, const int64_t* strides, bool is_virtual, bool by_value);
  static Engine EngineOf(const Descriptor& config);
  // Plans the library's proposals, or `only` this one where it is not -1.
  Fault Propose(bool fallback, int64_t only);
  Fault Execute(const Plan& plan, void* const* buffers, void* workspace) const;
  Fault Try(const std::string& key, Choice* choice);

  const std::string what_;
  const int rank_;
  std::vector<Descriptor> parts_, operations_;
  std::vector<Binding> bindings_;
  std::vector<std::pair<int64_t, float>> scalars_;  // by uid
  int64_t next_uid_ = 1;
  Descriptor graph_;
  std::vector<Plan> plans_;
  size_t num_plans_ = 0;
  int64_t largest_workspace_ = 0;
};

// `Call` is a GraphCall that Init makes ready.
template <typename Call, typename Problem>
Fault PlanGraph(Context& context, const Problem& problem, std::unique_ptr<LibraryCall>* call) {
  auto planned = std::make_unique<Call>(context, problem);
  REWRIGHT_RETURN_FAULT(planned->Init());
  *call = std::move(planned);
  return {};
}

}  // namespace rewright::cuda
