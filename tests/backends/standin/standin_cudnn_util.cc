// cuDNN's graph interface: descriptors keep what is set, and say what is missing when they are finalized; graphs are
// computed by definition.
#include <cudnn.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/backends/standin/cudnn_program_util.h"
#include "tests/backends/standin/standin_util.h"

using namespace rewright::standin;  // NOLINT

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace {

struct Attribute {
  cudnnBackendAttributeType_t type;
  int64_t count;
  std::vector<char> bytes;
};
struct Descriptor {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<cudnnBackendAttributeName_t, Attribute> attributes;
  int64_t proposal = -1;                   // of configurations and plans
  std::shared_ptr<const Program> program;  // of graphs, and what is made from them
  std::shared_ptr<const ProgramTensor> tensor;
};
// The library's type is a pointer to nothing.
Descriptor& Of(cudnnBackendDescriptor_t handle) { return *static_cast<Descriptor*>(static_cast<void*>(handle)); }

size_t SizeOf(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE: return 8;
    case CUDNN_TYPE_FRACTION: return sizeof(cudnnFraction_t);
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR: return 1;
    default: return 4;
  }
}

template <typename T>
std::vector<T> All(const Descriptor& from, cudnnBackendAttributeName_t name) {
  const auto found = from.attributes.find(name);
  if (found == from.attributes.end()) return {};
  std::vector<T> values(static_cast<size_t>(found->second.count));
  if (found->second.bytes.size() != values.size() * sizeof(T)) {
    Misuse(absl::StrCat("attribute ", name, " has another type"));
    return std::vector<T>(values.size());
  }
  std::memcpy(values.data(), found->second.bytes.data(), found->second.bytes.size());
  return values;
}
template <typename T>
T One(const Descriptor& from, cudnnBackendAttributeName_t name, T otherwise = T()) {
  const std::vector<T> values = All<T>(from, name);
  if (values.size() > 1) Misuse(absl::StrCat("attribute ", name, " has ", values.size(), " values; expected 1"));
  return values.empty() ? otherwise : values[0];
}
Descriptor* Part(const Descriptor& from, cudnnBackendAttributeName_t name) {
  return One<Descriptor*>(from, name, nullptr);
}

using Names = std::vector<cudnnBackendAttributeName_t>;
// The attributes that a descriptor needs.
Names Needed(cudnnBackendDescriptorType_t type) {
  switch (type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      return {CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_ATTR_TENSOR_STRIDES,
              CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT};
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
      return {CUDNN_ATTR_CONVOLUTION_COMP_TYPE,     CUDNN_ATTR_CONVOLUTION_CONV_MODE,
              CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS,  CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS,
              CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_ATTR_CONVOLUTION_DILATIONS,
              CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR: return {CUDNN_ATTR_POINTWISE_MODE, CUDNN_ATTR_POINTWISE_MATH_PREC};
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return {CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
              CUDNN_ATTR_OPERATION_POINTWISE_YDESC};
    case CUDNN_BACKEND_MATMUL_DESCRIPTOR: return {CUDNN_ATTR_MATMUL_COMP_TYPE};
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      return {CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC, CUDNN_ATTR_OPERATION_MATMUL_CDESC,
              CUDNN_ATTR_OPERATION_MATMUL_DESC};
    case CUDNN_BACKEND_REDUCTION_DESCRIPTOR: return {CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_ATTR_REDUCTION_OPERATOR};
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      return {CUDNN_ATTR_OPERATION_REDUCTION_XDESC, CUDNN_ATTR_OPERATION_REDUCTION_YDESC,
              CUDNN_ATTR_OPERATION_REDUCTION_DESC};
    case CUDNN_BACKEND_RESAMPLE_DESCRIPTOR:
      return {CUDNN_ATTR_RESAMPLE_MODE,          CUDNN_ATTR_RESAMPLE_COMP_TYPE,   CUDNN_ATTR_RESAMPLE_PADDING_MODE,
              CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS,  CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, CUDNN_ATTR_RESAMPLE_PRE_PADDINGS,
              CUDNN_ATTR_RESAMPLE_POST_PADDINGS, CUDNN_ATTR_RESAMPLE_STRIDES};
    case CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR:
      return {CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC,
              CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC};
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
      return {CUDNN_ATTR_OPERATION_NORM_FWD_MODE,      CUDNN_ATTR_OPERATION_NORM_FWD_PHASE,
              CUDNN_ATTR_OPERATION_NORM_FWD_XDESC,     CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC,
              CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC,
              CUDNN_ATTR_OPERATION_NORM_FWD_YDESC};
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      return {CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_ATTR_OPERATIONGRAPH_HANDLE};
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      return {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_ATTR_ENGINEHEUR_MODE};
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      return {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_ATTR_EXECUTION_PLAN_HANDLE};
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
      return {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
              CUDNN_ATTR_VARIANT_PACK_WORKSPACE};
    default: return {};
  }
}

Type TypeOf(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_HALF: return Type::kFp16;
    case CUDNN_DATA_BFLOAT16: return Type::kBf16;
    default: return Type::kFp32;
  }
}

std::shared_ptr<const ProgramTensor> TensorOf(const Descriptor& from) {
  auto tensor = std::make_shared<ProgramTensor>();
  tensor->uid = One<int64_t>(from, CUDNN_ATTR_TENSOR_UNIQUE_ID);
  tensor->type = TypeOf(One<cudnnDataType_t>(from, CUDNN_ATTR_TENSOR_DATA_TYPE));
  const auto dims = All<int64_t>(from, CUDNN_ATTR_TENSOR_DIMENSIONS),
             strides = All<int64_t>(from, CUDNN_ATTR_TENSOR_STRIDES);
  if (dims.size() != strides.size() || dims.size() > 4)
    Misuse("a tensor needs as many strides as it has axes, at most 4");
  tensor->dims.fill(1);
  for (size_t k = std::min<size_t>(dims.size(), 4), at = 4; k-- > 0;) {
    tensor->dims[--at] = dims[k];
    tensor->strides[at] = strides[k];
  }
  tensor->is_virtual = One<char>(from, CUDNN_ATTR_TENSOR_IS_VIRTUAL, 0) != 0;
  tensor->by_value = One<char>(from, CUDNN_ATTR_TENSOR_IS_BY_VALUE, 0) != 0;
  tensor->alignment = One<int64_t>(from, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  return tensor;
}

std::vector<int64_t> Whole(const Descriptor& from, cudnnBackendAttributeName_t name) {
  std::vector<int64_t> numbers;
  for (cudnnFraction_t f : All<cudnnFraction_t>(from, name)) {
    if (f.denominator != 1) Misuse("a fraction that is no whole number");
    numbers.push_back(f.numerator);
  }
  return numbers;
}

ProgramOperation OperationOf(const Descriptor& from) {
  ProgramOperation op;
  const auto tensor = [&](cudnnBackendAttributeName_t name) -> std::shared_ptr<const ProgramTensor> {
    const Descriptor* part = Part(from, name);
    return part == nullptr ? nullptr : part->tensor;
  };
  switch (from.type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR: {
      const Descriptor& conv = *Part(from, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
      op.kind = ProgramOperation::Kind::kConv;
      op.inputs = {tensor(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X),
                   tensor(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W)};
      op.out = tensor(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
      op.before = All<int64_t>(conv, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
      op.after = All<int64_t>(conv, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
      op.strides = All<int64_t>(conv, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
      op.dilations = All<int64_t>(conv, CUDNN_ATTR_CONVOLUTION_DILATIONS);
      if (One<cudnnConvolutionMode_t>(conv, CUDNN_ATTR_CONVOLUTION_CONV_MODE) != CUDNN_CROSS_CORRELATION ||
          One<float>(from, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA) != 1 ||
          One<float>(from, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA) != 0) {
        Misuse("a convolution that is flipped or scaled");
      }
      break;
    }
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: {
      const Descriptor& function = *Part(from, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
      op.kind = ProgramOperation::Kind::kPointwise;
      op.mode = One<cudnnPointwiseMode_t>(function, CUDNN_ATTR_POINTWISE_MODE);
      op.most = One<double>(function, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, INFINITY);
      if (One<double>(function, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, 0.0) != 0) Misuse("a relu that begins elsewhere");
      op.inputs = {tensor(CUDNN_ATTR_OPERATION_POINTWISE_XDESC)};
      if (auto other = tensor(CUDNN_ATTR_OPERATION_POINTWISE_BDESC)) op.inputs.push_back(other);
      op.out = tensor(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
      break;
    }
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      op.kind = ProgramOperation::Kind::kMatmul;
      op.inputs = {tensor(CUDNN_ATTR_OPERATION_MATMUL_ADESC), tensor(CUDNN_ATTR_OPERATION_MATMUL_BDESC)};
      op.out = tensor(CUDNN_ATTR_OPERATION_MATMUL_CDESC);
      break;
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      op.kind = ProgramOperation::Kind::kReduce;
      op.mode =
          One<cudnnReduceTensorOp_t>(*Part(from, CUDNN_ATTR_OPERATION_REDUCTION_DESC), CUDNN_ATTR_REDUCTION_OPERATOR);
      op.inputs = {tensor(CUDNN_ATTR_OPERATION_REDUCTION_XDESC)};
      op.out = tensor(CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
      break;
    case CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR: {
      const Descriptor& window = *Part(from, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC);
      op.kind = ProgramOperation::Kind::kPool;
      op.mode = One<cudnnResampleMode_t>(window, CUDNN_ATTR_RESAMPLE_MODE);
      op.inputs = {tensor(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC)};
      op.out = tensor(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC);
      op.window = Whole(window, CUDNN_ATTR_RESAMPLE_WINDOW_DIMS);
      op.before = Whole(window, CUDNN_ATTR_RESAMPLE_PRE_PADDINGS);
      op.after = Whole(window, CUDNN_ATTR_RESAMPLE_POST_PADDINGS);
      op.strides = Whole(window, CUDNN_ATTR_RESAMPLE_STRIDES);
      break;
    }
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
      op.kind = ProgramOperation::Kind::kLayerNorm;
      op.inputs = {tensor(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC), tensor(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC),
                   tensor(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC), tensor(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC)};
      op.out = tensor(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC);
      if (One<cudnnBackendNormMode_t>(from, CUDNN_ATTR_OPERATION_NORM_FWD_MODE) != CUDNN_LAYER_NORM ||
          One<cudnnBackendNormFwdPhase_t>(from, CUDNN_ATTR_OPERATION_NORM_FWD_PHASE) != CUDNN_NORM_FWD_INFERENCE) {
        Misuse("a normalization that is none of layers at inference");
      }
      break;
    default: Misuse("an operation that nobody has"); break;
  }
  return op;
}

}  // namespace

extern "C" {

size_t cudnnGetVersion() { return 91900; }
const char* cudnnGetErrorString(cudnnStatus_t) { return "an error of cuDNN"; }
void cudnnGetLastErrorString(char* message, size_t size) { std::strncpy(message, "no more is known", size); }
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (Fails()) return CUDNN_STATUS_NOT_INITIALIZED;
  ++observed().live["cuDNN"];
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  --observed().live["cuDNN"];
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (Fails()) return CUDNN_STATUS_BAD_PARAM;
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  if (Fails()) return CUDNN_STATUS_NOT_SUPPORTED;
  ++observed().live["descriptors"];
  auto* made = new Descriptor;
  made->type = type;
  *descriptor = static_cast<cudnnBackendDescriptor_t>(static_cast<void*>(made));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  --observed().live["descriptors"];
  delete &Of(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  if (Fails()) return CUDNN_STATUS_BAD_PARAM;
  Descriptor& to = Of(descriptor);
  if (to.finalized) return Misuse("an attribute of what is finalized"), CUDNN_STATUS_NOT_INITIALIZED;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (int64_t i = 0; i < count; ++i) {
      const Descriptor* part = static_cast<Descriptor* const*>(values)[i];
      if (part == nullptr || !part->finalized) return CUDNN_STATUS_BAD_PARAM;
    }
  }
  const char* bytes = static_cast<const char*>(values);
  to.attributes[name] = {type, count, std::vector<char>(bytes, bytes + static_cast<size_t>(count) * SizeOf(type))};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  if (Fails()) return CUDNN_STATUS_NOT_SUPPORTED;
  Descriptor& it = Of(descriptor);
  for (cudnnBackendAttributeName_t name : Needed(it.type)) {
    if (it.attributes.count(name) == 0) {
      Misuse(absl::StrCat("a descriptor of type ", it.type, " without attribute ", name));
      return CUDNN_STATUS_BAD_PARAM;
    }
  }
  switch (it.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: it.tensor = TensorOf(it); break;
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: {
      auto program = std::make_shared<Program>();
      for (Descriptor* op : All<Descriptor*>(it, CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
        program->operations.push_back(OperationOf(*op));
      }
      CheckProgram(*program);
      it.program = program;
      break;
    }
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      it.program = Part(it, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)->program;
      break;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
      const Descriptor& config = *Part(it, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
      it.program = config.program;
      it.proposal = config.proposal;
      break;
    }
    default: break;
  }
  it.finalized = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t wanted, int64_t* count, void* values) {
  if (Fails()) return CUDNN_STATUS_BAD_PARAM;
  const Descriptor& it = Of(descriptor);
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: {
      const bool fallback = One<cudnnBackendHeurMode_t>(it, CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_FALLBACK;
      const int64_t there = fallback ? settings().fallback_plans : settings().plans;
      *count = wanted == 0 ? there : std::min(wanted, there);
      for (int64_t i = 0; i < std::min(wanted, there); ++i) {
        Descriptor& config = *static_cast<Descriptor**>(values)[i];
        config.program = it.program;
        config.proposal = i + (fallback ? kFallbackProposals : 0);
        config.finalized = true;
      }
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      (*static_cast<Descriptor**>(values))->proposal = it.proposal;
      *count = 1;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
      *static_cast<int64_t*>(values) = 40 + it.proposal;
      *count = 1;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE: *count = 0; return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      *static_cast<int64_t*>(values) = 64 * (it.proposal % kFallbackProposals + 1);
      *count = 1;
      return CUDNN_STATUS_SUCCESS;
    default: return Misuse(absl::StrCat("nobody asks for attribute ", name)), CUDNN_STATUS_BAD_PARAM;
  }
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan_handle,
                                  cudnnBackendDescriptor_t pack_handle) {
  if (Fails()) return CUDNN_STATUS_EXECUTION_FAILED;
  const Descriptor &plan = Of(plan_handle), &pack = Of(pack_handle);
  if (!plan.finalized || !pack.finalized) return Misuse("a plan that is not finalized"), CUDNN_STATUS_BAD_PARAM;
  const auto uids = All<int64_t>(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto data = All<void*>(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (uids.size() != data.size()) return Misuse("as many addresses as names are expected"), CUDNN_STATUS_BAD_PARAM;
  BoundTensors bindings;
  for (size_t i = 0; i < uids.size(); ++i) bindings.addresses[uids[i]] = data[i];
  BindProgram(*plan.program, &bindings);
  void* workspace = One<void*>(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  const size_t bytes = static_cast<size_t>(64 * (plan.proposal % kFallbackProposals + 1));
  CheckRange(workspace, bytes, 256, "a workspace");
  cudaError_t queued;
  if (!Propose(handle->stream, static_cast<int>(plan.proposal), &queued)) return CUDNN_STATUS_EXECUTION_FAILED;
  ++observed().graphs;
  const double seconds = SecondsOf(static_cast<int>(plan.proposal));
  Queue(handle->stream, seconds, [program = plan.program, bindings, workspace, bytes] {
    std::memset(workspace, 0xff, bytes);
    RunProgram(*program, bindings);
  });
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
