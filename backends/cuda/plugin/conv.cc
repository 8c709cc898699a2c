// Convolutions by the graph interface of cuDNN 9: one operation graph of convolution, additions and relu, for which the
// library proposes engines and the fastest is taken.
#include <memory>

#include "backends/cuda/plugin/context.h"

namespace rewright::cuda {
namespace {

constexpr int kCandidates = 8;
constexpr int64_t kWorkspaceLimit = int64_t{256} << 20;

enum Uid : int64_t { kX = 1, kW, kOut, kBias, kResidual, kFirstVirtual };

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

cudnnDataType_t TypeOf(Precision precision) {
  switch (precision) {
    case Precision::kFp16: return CUDNN_DATA_HALF;
    case Precision::kBf16: return CUDNN_DATA_BFLOAT16;
    default: return CUDNN_DATA_FLOAT;
  }
}

Descriptor Tensor(cudnnDataType_t type, int64_t uid, const int64_t* sizes, const int64_t* strides, bool is_virtual) {
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
  tensor.Set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, sizes, 4);
  tensor.Set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides, 4);
  tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, uid);
  tensor.Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, int64_t{16});
  tensor.Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual);
  tensor.Finalize();
  return tensor;
}

class Conv : public LibraryCall {
 public:
  Conv(Context& context, const ConvProblem& problem) : context_(context), p_(problem) {}

  Fault Init() {
    BuildGraph();
    for (const Descriptor& part : parts_) REWRIGHT_RETURN_FAULT(part.fault());
    std::vector<cudnnBackendDescriptor_t> operations;
    for (const Descriptor& operation : operations_) {
      REWRIGHT_RETURN_FAULT(operation.fault());
      operations.push_back(operation.raw());
    }
    graph_ = Descriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph_.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations.data(),
               static_cast<int64_t>(operations.size()));
    graph_.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, context_.cudnn);
    graph_.Finalize();
    return graph_.fault();
  }

  Fault Choose() {
    for (cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
      REWRIGHT_RETURN_FAULT(Propose(mode));
      if (!plans_.empty()) break;
    }
    if (plans_.empty()) return "cuDNN has no engine for this convolution";
    int best = 0;
    const std::string key = Key();
    const int count = static_cast<int>(plans_.size());
    if (count > 1 && (!RecallChoice(context_, key, &best) || best < 0 || best >= count)) {
      REWRIGHT_RETURN_FAULT(Try(&best));
      KeepChoice(context_, key, best);
    }
    Plan chosen = std::move(plans_[static_cast<size_t>(best)]);
    plans_.clear();
    plans_.push_back(std::move(chosen));
    return {};
  }

  size_t workspace_bytes() const override { return static_cast<size_t>(plans_[0].workspace); }

  void Run(void* const* buffers) const override {
    const int extra = (p_.bias ? 1 : 0) + (p_.residual ? 1 : 0);
    if (Fault fault = Execute(plans_[0], buffers, buffers[3 + extra]); !fault.empty()) context_.Defer(fault);
  }

 private:
  struct Plan {
    Descriptor engine_config, plan;
    int64_t workspace = 0;
  };

  size_t Add(Descriptor descriptor) {
    parts_.push_back(std::move(descriptor));
    return parts_.size() - 1;
  }

  // conv, then + residual, then + bias, then relu: the order that the library has ready-made engines for.
  void BuildGraph() {
    Descriptor conv(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    const int64_t before[] = {p_.pads[0], p_.pads[1]}, after[] = {p_.pads[2], p_.pads[3]};
    conv.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    conv.Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
    conv.Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, int64_t{2});
    conv.Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, before, 2);
    conv.Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, after, 2);
    conv.Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, p_.dilations, 2);
    conv.Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, p_.strides, 2);
    conv.Finalize();
    const size_t convolution = Add(std::move(conv));
    const size_t x = Add(Tensor(type_, kX, p_.x, p_.x_strides, false));
    const size_t w = Add(Tensor(type_, kW, p_.w, p_.w_strides, false));
    left_ = (p_.residual ? 1 : 0) + (p_.bias ? 1 : 0) + (p_.relu ? 1 : 0);
    size_t value = Next();
    Descriptor operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, parts_[convolution]);
    operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, parts_[x]);
    operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, parts_[w]);
    operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, parts_[value]);
    operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1.0f);
    operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 0.0f);
    operation.Finalize();
    operations_.push_back(std::move(operation));
    if (p_.residual) {
      const size_t other = Add(Tensor(type_, kResidual, p_.out, p_.out_strides, false));
      value = Pointwise(CUDNN_POINTWISE_ADD, value, &other);
    }
    if (p_.bias) {
      const int64_t sizes[] = {1, p_.out[1], 1, 1}, strides[] = {p_.out[1], 1, 1, 1};
      const size_t other = Add(Tensor(type_, kBias, sizes, strides, false));
      value = Pointwise(CUDNN_POINTWISE_ADD, value, &other);
    }
    if (p_.relu) Pointwise(CUDNN_POINTWISE_RELU_FWD, value, nullptr);
  }

  // The next value of the chain; the last one is the result.
  size_t Next() {
    const bool last = left_-- == 0;
    // Values within the graph are not rounded.
    return Add(Tensor(last ? type_ : CUDNN_DATA_FLOAT, last ? int64_t{kOut} : next_virtual_++, p_.out, p_.out_strides,
                      !last));
  }

  size_t Pointwise(cudnnPointwiseMode_t mode, size_t value, const size_t* other) {
    Descriptor function(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    function.Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
    function.Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    function.Finalize();
    const size_t applied = Add(std::move(function));
    const size_t result = Next();
    Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, parts_[applied]);
    operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, parts_[value]);
    if (other != nullptr) operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, parts_[*other]);
    operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, parts_[result]);
    operation.Finalize();
    operations_.push_back(std::move(operation));
    return result;
  }

  // Engines that round the factors are no engines for fp32.
  bool IsExact(const Descriptor& config) const {
    Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendDescriptor_t raw = engine.raw();
    int64_t count = 0;
    if (cudnnBackendGetAttribute(config.raw(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                 &raw) != CUDNN_STATUS_SUCCESS) {
      return false;
    }
    std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
    if (cudnnBackendGetAttribute(raw, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                 static_cast<int64_t>(notes.size()), &count, notes.data()) != CUDNN_STATUS_SUCCESS) {
      return false;
    }
    notes.resize(static_cast<size_t>(count));
    for (cudnnBackendNumericalNote_t note : notes) {
      const bool rounds = note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE || note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
                          note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
      if (rounds) return false;
    }
    return true;
  }

  Fault Propose(cudnnBackendHeurMode_t mode) {
    Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristic.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_);
    heuristic.Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
    if (!heuristic.Finalize()) return {};  // no proposals in this mode
    int64_t count = 0;
    cudnnBackendGetAttribute(heuristic.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count,
                             nullptr);
    std::vector<Descriptor> configs;
    std::vector<cudnnBackendDescriptor_t> raw;
    for (int64_t i = 0; i < count; ++i) {
      configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
      REWRIGHT_RETURN_FAULT(configs.back().fault());
      raw.push_back(configs.back().raw());
    }
    REWRIGHT_RETURN_FAULT(FaultOf(cudnnBackendGetAttribute(heuristic.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                           CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, raw.data()),
                                  "engine proposals"));
    for (int64_t i = 0; i < count && plans_.size() < static_cast<size_t>(kCandidates); ++i) {
      Descriptor& config = configs[static_cast<size_t>(i)];
      if (p_.precision == Precision::kFp32 && !IsExact(config)) continue;
      Plan plan;
      plan.plan = Descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, context_.cudnn);
      plan.plan.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
      if (!plan.plan.Finalize()) continue;  // an engine that does not take this problem
      int64_t one = 0;
      cudnnBackendGetAttribute(plan.plan.raw(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &one,
                               &plan.workspace);
      if (plan.workspace > kWorkspaceLimit) continue;
      plan.engine_config = std::move(config);
      plans_.push_back(std::move(plan));
    }
    return {};
  }

  Fault Execute(const Plan& plan, void* const* buffers, void* workspace) const {
    std::vector<int64_t> uids = {kX, kW, kOut};
    std::vector<void*> data = {buffers[0], buffers[1], buffers[2]};
    int next = 3;
    if (p_.bias) {
      uids.push_back(kBias);
      data.push_back(buffers[next++]);
    }
    if (p_.residual) {
      uids.push_back(kResidual);
      data.push_back(buffers[next++]);
    }
    Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, uids.data(), static_cast<int64_t>(uids.size()));
    pack.Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, data.data(), static_cast<int64_t>(data.size()));
    pack.Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
    if (!pack.Finalize()) return pack.fault();
    return FaultOf(cudnnBackendExecute(context_.cudnn, plan.plan.raw(), pack.raw()), "cudnnBackendExecute");
  }

  // Times the plans on memory of their own.
  Fault Try(int* best) {
    auto span = [&](const int64_t* sizes, const int64_t* strides) {
      int64_t last = 0;
      for (int k = 0; k < 4; ++k) last += (sizes[k] - 1) * strides[k];
      return ElementBytes(p_.precision) * static_cast<size_t>(last + 1);
    };
    int64_t largest = 0;
    for (const Plan& plan : plans_) largest = std::max(largest, plan.workspace);
    Scratch x, w, out, bias, residual, workspace;
    REWRIGHT_RETURN_FAULT(x.Allocate(span(p_.x, p_.x_strides)));
    REWRIGHT_RETURN_FAULT(w.Allocate(span(p_.w, p_.w_strides)));
    REWRIGHT_RETURN_FAULT(out.Allocate(span(p_.out, p_.out_strides)));
    std::vector<void*> buffers = {x.get(), w.get(), out.get()};
    if (p_.bias) {
      REWRIGHT_RETURN_FAULT(bias.Allocate(ElementBytes(p_.precision) * static_cast<size_t>(p_.out[1])));
      buffers.push_back(bias.get());
    }
    if (p_.residual) {
      REWRIGHT_RETURN_FAULT(residual.Allocate(span(p_.out, p_.out_strides)));
      buffers.push_back(residual.get());
    }
    REWRIGHT_RETURN_FAULT(workspace.Allocate(static_cast<size_t>(largest)));
    REWRIGHT_RETURN_FAULT(FastestOf(
        context_, static_cast<int>(plans_.size()),
        [&](int i) { return Execute(plans_[static_cast<size_t>(i)], buffers.data(), workspace.get()).empty(); }, best));
    return *best < 0 ? Fault("no engine of cuDNN runs this convolution") : Fault();
  }

  std::string Key() const {
    std::string key = "conv " + context_.description.name + " " + context_.description.versions;
    auto add = [&](const int64_t* numbers, int count) {
      for (int i = 0; i < count; ++i) key += " " + std::to_string(numbers[i]);
    };
    add(p_.x, 4);
    add(p_.x_strides, 4);
    add(p_.w, 4);
    add(p_.w_strides, 4);
    add(p_.out_strides, 4);
    add(p_.strides, 2);
    add(p_.pads, 4);
    add(p_.dilations, 2);
    const int64_t rest[] = {p_.groups, p_.bias, p_.residual, p_.relu, static_cast<int64_t>(p_.precision)};
    add(rest, 5);
    return key;
  }

  Context& context_;
  const ConvProblem p_;
  const cudnnDataType_t type_ = TypeOf(p_.precision);
  std::vector<Descriptor> parts_, operations_;
  Descriptor graph_;
  int left_ = 0;
  int64_t next_virtual_ = kFirstVirtual;
  std::vector<Plan> plans_;
};

}  // namespace

Fault PlanConv(Context& context, const ConvProblem& problem, std::unique_ptr<LibraryCall>* call) {
  auto conv = std::make_unique<Conv>(context, problem);
  REWRIGHT_RETURN_FAULT(conv->Init());
  REWRIGHT_RETURN_FAULT(conv->Choose());
  *call = std::move(conv);
  return {};
}

}  // namespace rewright::cuda
