#include "backends/cuda/plugin/graph_call.h"

#include <cmath>
#include <optional>

namespace rewright::cuda {
namespace {

// An engine that is ready takes no time to plan; one that is compiled takes up to some seconds.
constexpr int kReady = 32, kCompiled = 8;
constexpr int kFallback = 1 << 16;  // added to the numbers of proposals in the library's second mode
constexpr int64_t kWorkspaceLimit = int64_t{256} << 20;

}  // namespace

cudnnDataType_t CudnnType(Precision precision) {
  switch (precision) {
    case Precision::kFp16: return CUDNN_DATA_HALF;
    case Precision::kBf16: return CUDNN_DATA_BFLOAT16;
    default: return CUDNN_DATA_FLOAT;
  }
}

// ---------------------------------------------------------------- building

size_t GraphCall::AddTensor(cudnnDataType_t type, const int64_t* sizes, const int64_t* strides, bool is_virtual,
                            bool by_value) {
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
  tensor.Set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, sizes, rank_);
  tensor.Set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides, rank_);
  tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, next_uid_++);
  tensor.Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, int64_t{by_value ? 4 : 16});
  tensor.Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual);
  if (by_value) tensor.Set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, by_value);
  return Add(std::move(tensor));
}

size_t GraphCall::Bound(const int64_t* sizes, const int64_t* strides, cudnnDataType_t type) {
  int64_t last = 0;
  for (int k = 0; k < rank_; ++k) last += (sizes[k] - 1) * strides[k];
  const bool wide = type == CUDNN_DATA_FLOAT;
  const size_t element_bytes = wide ? sizeof(float) : ElementBytes(precision_);
  bindings_.push_back({next_uid_, element_bytes * static_cast<size_t>(last + 1), wide});
  return AddTensor(type, sizes, strides, /*is_virtual=*/false, /*by_value=*/false);
}

size_t GraphCall::Virtual(cudnnDataType_t type, const int64_t* sizes, const int64_t* strides) {
  return AddTensor(type, sizes, strides, /*is_virtual=*/true, /*by_value=*/false);
}

size_t GraphCall::Scalar(float value) {
  const int64_t ones[] = {1, 1, 1, 1};
  scalars_.emplace_back(next_uid_, value);
  return AddTensor(CUDNN_DATA_FLOAT, ones, ones, /*is_virtual=*/false, /*by_value=*/true);
}

void GraphCall::AddOperation(Descriptor operation,
                             const std::vector<std::pair<cudnnBackendAttributeName_t, size_t>>& parts) {
  for (const auto& [name, part] : parts) operation.Set(name, parts_[part]);
  operation.Finalize();
  operations_.push_back(std::move(operation));
}

void GraphCall::Pointwise(cudnnPointwiseMode_t mode, size_t x, const size_t* other, size_t out, double most) {
  Descriptor function(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  function.Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  function.Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  if (std::isfinite(most)) {
    function.Set(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, CUDNN_TYPE_DOUBLE, 0.0);
    function.Set(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_DOUBLE, most);
  }
  std::vector<std::pair<cudnnBackendAttributeName_t, size_t>> parts = {
      {CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, Add(std::move(function))},
      {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x},
      {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, out}};
  if (other != nullptr) parts.emplace_back(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *other);
  AddOperation(Descriptor(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR), parts);
}

void GraphCall::Multiply(size_t left, size_t right, size_t out) {
  Descriptor matmul(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  matmul.Set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  AddOperation(Descriptor(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR),
               {{CUDNN_ATTR_OPERATION_MATMUL_ADESC, left},
                {CUDNN_ATTR_OPERATION_MATMUL_BDESC, right},
                {CUDNN_ATTR_OPERATION_MATMUL_CDESC, out},
                {CUDNN_ATTR_OPERATION_MATMUL_DESC, Add(std::move(matmul))}});
}

// ---------------------------------------------------------------- choosing

Fault GraphCall::Finish(const std::string& key) {
  for (const Descriptor& part : parts_) REWRIGHT_RETURN_FAULT(part.fault());
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const Descriptor& operation : operations_) {
    REWRIGHT_RETURN_FAULT(operation.fault());
    operations.push_back(operation.raw());
  }
  graph_ = Descriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph_.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations.data(),
             static_cast<int64_t>(operations.size()));
  if (context_.cudnn != nullptr) graph_.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, context_.cudnn);
  graph_.Finalize();
  REWRIGHT_RETURN_FAULT(graph_.fault());
  int chosen_before = -1;
  if (RecallChoice(context_, key, &chosen_before)) {
    // The others need not be compiled.
    const bool fallback = chosen_before >= kFallback;
    REWRIGHT_RETURN_FAULT(Propose(fallback, fallback ? chosen_before - kFallback : chosen_before));
    if (!plans_.empty()) return {};
  }
  Fault none = "cuDNN has no engine for " + what_;
  for (const bool fallback : {false, true}) {
    REWRIGHT_RETURN_FAULT(Propose(fallback, -1));
    if (plans_.empty()) continue;
    for (const Plan& plan : plans_) largest_workspace_ = std::max(largest_workspace_, plan.workspace);
    Choice choice{.best = 0};
    // Also a single one: whether it runs and can be recorded shows here, where there is another way.
    if (context_.absent_gpu == nullptr) REWRIGHT_RETURN_FAULT(Try(key, &choice));
    num_plans_ = plans_.size();
    Plan chosen;
    if (choice.best >= 0) chosen = std::move(plans_[choice.best]);
    plans_.clear();
    if (choice.best < 0) {
      none = "no engine of cuDNN runs " + what_;
      continue;
    }
    plans_.push_back(std::move(chosen));
    if (context_.absent_gpu == nullptr) KeepChoice(context_, key, plans_[0].proposal, choice.seconds);
    return {};
  }
  return none;
}

namespace {

// The notes that the library gives to an engine; nothing where it does not say.
template <typename Note>
std::optional<std::vector<Note>> NotesOf(cudnnBackendDescriptor_t engine, cudnnBackendAttributeName_t name,
                                         cudnnBackendAttributeType_t type, int most) {
  std::vector<Note> notes(static_cast<size_t>(most));
  int64_t count = 0;
  const cudnnStatus_t status = cudnnBackendGetAttribute(engine, name, type, most, &count, notes.data());
  if (status != CUDNN_STATUS_SUCCESS) return std::nullopt;
  notes.resize(static_cast<size_t>(count));
  return notes;
}

}  // namespace

GraphCall::Engine GraphCall::EngineOf(const Descriptor& config) {
  const Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.raw();
  int64_t count = 0;
  Engine found;
  if (cudnnBackendGetAttribute(config.raw(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                               &raw) != CUDNN_STATUS_SUCCESS) {
    return found;
  }
  cudnnBackendGetAttribute(raw, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &count, &found.number);
  const auto numerical = NotesOf<cudnnBackendNumericalNote_t>(
      raw, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  found.exact = numerical && std::none_of(numerical->begin(), numerical->end(), [](cudnnBackendNumericalNote_t note) {
                  return note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE || note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
                         note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
                });
  const auto behavior = NotesOf<cudnnBackendBehaviorNote_t>(raw, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE,
                                                            CUDNN_TYPE_BEHAVIOR_NOTE, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT);
  found.compiled = behavior && std::count(behavior->begin(), behavior->end(), CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);
  return found;
}

Fault GraphCall::Propose(bool fallback, int64_t only) {
  const cudnnBackendHeurMode_t mode = fallback ? CUDNN_HEUR_MODE_FALLBACK : CUDNN_HEUR_MODE_A;
  int ready = kReady, compiled = kCompiled;  // that are wanted still
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_);
  heuristic.Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  if (context_.absent_gpu != nullptr) {
    heuristic.Set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, context_.absent_gpu);
  }
  if (!heuristic.Finalize()) return {};  // no proposals in this mode
  int64_t count = 0;
  REWRIGHT_RETURN_FAULT(FaultOf(cudnnBackendGetAttribute(heuristic.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
                                "engine proposals"));
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
  for (int64_t i = 0; i < count && plans_.size() < context_.max_plans; ++i) {
    if (only >= 0 && i != only) continue;
    Descriptor& config = configs[i];
    const Engine engine = EngineOf(config);
    if (precision_ == Precision::kFp32 && !engine.exact) continue;
    int& wanted = engine.compiled ? compiled : ready;
    if (wanted == 0) continue;
    Plan plan;
    plan.engine = engine.number;
    plan.plan = Descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.plan.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    if (context_.absent_gpu == nullptr) {
      plan.plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, context_.cudnn);
    } else {
      plan.plan.Set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, context_.absent_gpu);
    }
    if (!plan.plan.Finalize()) continue;  // an engine that does not take this problem
    int64_t one = 0;
    const cudnnStatus_t sized = cudnnBackendGetAttribute(plan.plan.raw(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                         CUDNN_TYPE_INT64, 1, &one, &plan.workspace);
    if (sized != CUDNN_STATUS_SUCCESS || plan.workspace > kWorkspaceLimit) continue;
    --wanted;
    plan.proposal = static_cast<int>(i) + (fallback ? kFallback : 0);
    plan.engine_config = std::move(config);
    plans_.push_back(std::move(plan));
  }
  return {};
}

// Times the plans on memory of their own.
Fault GraphCall::Try(const std::string& key, Choice* choice) {
  std::vector<TrialOperands::Operand> operands;
  for (const Binding& binding : bindings_) operands.push_back({binding.bytes, binding.wide});
  TrialOperands trial;
  REWRIGHT_RETURN_FAULT(trial.Allocate(context_, precision_, operands, static_cast<size_t>(largest_workspace_)));
  Ways ways;
  ways.count = static_cast<int>(plans_.size());
  ways.sets = trial.sets();
  ways.enqueue = [&](int i, int run) {
    void* const* set = trial.set(run);
    return Execute(plans_[i], set, set[bindings_.size()]);
  };
  ways.name = [&](int i) {
    return "engine " + std::to_string(plans_[i].engine) + " of cuDNN (proposal " + std::to_string(plans_[i].proposal) +
           ") for " + key;
  };
  return FastestOf(context_, ways, choice);
}

// ---------------------------------------------------------------- running

Fault GraphCall::Run(void* const* buffers) const { return Execute(plans_[0], buffers, buffers[bindings_.size()]); }

Fault GraphCall::Execute(const Plan& plan, void* const* buffers, void* workspace) const {
  std::vector<int64_t> uids;
  std::vector<const void*> data;
  for (size_t i = 0; i < bindings_.size(); ++i) {
    uids.push_back(bindings_[i].uid);
    data.push_back(buffers[i]);
  }
  for (const auto& [uid, value] : scalars_) {
    uids.push_back(uid);
    data.push_back(&value);
  }
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, uids.data(), static_cast<int64_t>(uids.size()));
  pack.Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, data.data(), static_cast<int64_t>(data.size()));
  pack.Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  if (!pack.Finalize()) return pack.fault();
  return FaultOf(cudnnBackendExecute(context_.cudnn, plan.plan.raw(), pack.raw()), "cudnnBackendExecute");
}

}  // namespace rewright::cuda
