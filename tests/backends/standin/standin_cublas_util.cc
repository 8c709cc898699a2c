// cuBLASLt: products by definition, by columns as the library has them, from descriptors each attribute of which is
// checked.
#include <cublasLt.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "tests/backends/standin/numbers_util.h"
#include "tests/backends/standin/standin_util.h"

using rewright::standin::CheckRange;
using rewright::standin::Fails;
using rewright::standin::Misuse;
using rewright::standin::observed;
using rewright::standin::settings;

namespace rewright::standin {
namespace {

struct Matrix {
  cudaDataType_t type = CUDA_R_32F;
  int64_t rows = 0, columns = 0, leading = 0, stride = 0;
  int32_t batch = 1;
  uint32_t mode = CUBLASLT_BATCH_MODE_STRIDED;
};
struct Product {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};
struct Preference {
  uint64_t workspace = 0;
  uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t alignment[4] = {256, 256, 256, 256};
};
// The contents of an algorithm.
struct Algorithm {
  int64_t number = 0;
  uint32_t alignment[4] = {};
  uint64_t workspace = 0;
  int32_t parts = 1;  // of the sum
  uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_NONE;

  uint64_t WorkspaceOfParts() const { return workspace * static_cast<uint64_t>(parts); }
};
Algorithm& AlgorithmOf(cublasLtMatmulAlgo_t* algo) { return *reinterpret_cast<Algorithm*>(algo); }

Type TypeOf(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_16F: return Type::kFp16;
    case CUDA_R_16BF: return Type::kBf16;
    default: return Type::kFp32;
  }
}

// An attribute of exactly this size.
template <typename T>
void Read(const void* value, size_t bytes, T* to) {
  if (bytes != sizeof(T)) return Misuse(absl::StrCat("an attribute of ", bytes, " bytes; expected ", sizeof(T)));
  std::memcpy(to, value, sizeof(T));
}

bool HasAddresses(const Matrix& m) { return m.mode == CUBLASLT_BATCH_MODE_POINTER_ARRAY; }
size_t SpanOfOne(const Matrix& m) {
  return static_cast<size_t>((m.columns - 1) * m.leading + m.rows) * BytesOf(TypeOf(m.type));
}
// Bytes of all matrices, or of their addresses.
size_t Span(const Matrix& m) {
  if (HasAddresses(m)) return static_cast<size_t>(m.batch) * sizeof(void*);
  return static_cast<size_t>((m.batch - 1) * m.stride) * BytesOf(TypeOf(m.type)) + SpanOfOne(m);
}
// The address of matrix `z`. Addresses are read when the product runs, and must lead to memory that is aligned as was
// promised.
void* Start(const Matrix& m, const void* data, int64_t z, uint32_t alignment) {
  if (!HasAddresses(m)) {
    const size_t bytes = static_cast<size_t>(z * m.stride) * BytesOf(TypeOf(m.type));
    return static_cast<char*>(const_cast<void*>(data)) + bytes;
  }
  void* const at = static_cast<void* const*>(data)[z];
  CheckRange(at, SpanOfOne(m), alignment, "a matrix of an array of addresses");
  return at;
}

bool HasBias(cublasLtEpilogue_t e) {
  return e == CUBLASLT_EPILOGUE_BIAS || e == CUBLASLT_EPILOGUE_RELU_BIAS || e == CUBLASLT_EPILOGUE_GELU_BIAS;
}
double Activated(cublasLtEpilogue_t e, double x) {
  if (e == CUBLASLT_EPILOGUE_RELU || e == CUBLASLT_EPILOGUE_RELU_BIAS) return x < 0 ? 0 : x;
  if (e == CUBLASLT_EPILOGUE_GELU || e == CUBLASLT_EPILOGUE_GELU_BIAS) return GeluTanh(x);
  return x;
}

struct Call {
  Product product;
  Matrix a, b, c, d;
  const void *a_data, *b_data, *c_data;
  void* d_data;
  double alpha, beta;
  uint32_t alignment[4];

  void Run() const {
    const Type type = TypeOf(d.type);
    const int64_t k_size = product.a == CUBLAS_OP_N ? a.columns : a.rows;
    bool empty[2] = {true, true};  // the factors
    const auto load = [&](int i, const void* data, int64_t at, const Matrix& matrix) {
      const double factor = Load(data, at, TypeOf(matrix.type));
      empty[i] = empty[i] && (factor == 0 || std::isnan(factor));
      return factor;
    };
    for (int64_t z = 0; z < d.batch; ++z) {
      const void* const left = Start(a, a_data, z, alignment[0]);
      const void* const right = Start(b, b_data, z, alignment[1]);
      const void* const summand = beta != 0 ? Start(c, c_data, z, alignment[2]) : nullptr;
      void* const out = Start(d, d_data, z, alignment[3]);
      for (int64_t j = 0; j < d.columns; ++j) {
        for (int64_t i = 0; i < d.rows; ++i) {
          double sum = 0;
          for (int64_t k = 0; k < k_size; ++k) {
            const int64_t at_a = product.a == CUBLAS_OP_N ? i + k * a.leading : k + i * a.leading;
            const int64_t at_b = product.b == CUBLAS_OP_N ? k + j * b.leading : j + k * b.leading;
            sum += load(0, left, at_a, a) * load(1, right, at_b, b);
          }
          sum *= alpha;
          // With a factor of zero nothing is read: it may be anything.
          if (beta != 0) sum += beta * Load(summand, i + j * c.leading, TypeOf(c.type));
          if (HasBias(product.epilogue)) sum += Load(product.bias, i, type);
          Store(out, i + j * d.leading, type, Activated(product.epilogue, sum));
        }
      }
    }
    observed().empty_factors += empty[0] || empty[1] ? 1 : 0;
  }
};

void CheckSizes(const Call& call) {
  const Matrix &a = call.a, &b = call.b, &d = call.d;
  const bool plain_a = call.product.a == CUBLAS_OP_N, plain_b = call.product.b == CUBLAS_OP_N;
  const int64_t k = plain_a ? a.columns : a.rows;
  if ((plain_a ? a.rows : a.columns) != d.rows || (plain_b ? b.columns : b.rows) != d.columns ||
      (plain_b ? b.rows : b.columns) != k) {
    Misuse("sizes of a product do not fit");
  }
  for (const Matrix* m : {&call.a, &call.b, &call.c, &call.d}) {
    if (m->batch != d.batch || m->mode != d.mode) Misuse("batches of a product do not fit");
    if (m->leading < m->rows) Misuse("a leading dimension below the number of rows");
  }
}

}  // namespace
}  // namespace rewright::standin

using namespace rewright::standin;  // NOLINT

struct cublasLtContext {};

namespace {

Matrix& Of(cublasLtMatrixLayout_t layout) { return **reinterpret_cast<Matrix**>(&layout); }
template <typename T, typename Handle>
cublasStatus_t Make(Handle* handle, const char* kind, T value, const char* function = __builtin_FUNCTION()) {
  if (Fails(function)) return CUBLAS_STATUS_ALLOC_FAILED;
  ++observed().live[kind];
  *reinterpret_cast<T**>(handle) = new T(value);
  return CUBLAS_STATUS_SUCCESS;
}
template <typename T, typename Handle>
cublasStatus_t Destroy(Handle handle, const char* kind) {
  --observed().live[kind];
  delete *reinterpret_cast<T**>(&handle);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

size_t cublasLtGetVersion() { return 130100; }
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_ALLOC_FAILED ? "out of memory" : "an error of cuBLASLt";
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) { return Make(handle, "cuBLASLt", cublasLtContext()); }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return Destroy<cublasLtContext>(handle, "cuBLASLt"); }

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  return Make(layout, "matrices",
              Matrix{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), leading, 0, 1,
                     CUBLASLT_BATCH_MODE_STRIDED});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return Destroy<Matrix>(layout, "matrices");
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t name,
                                                const void* value, size_t bytes) {
  if (Fails()) return CUBLAS_STATUS_INVALID_VALUE;
  switch (name) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: Read(value, bytes, &Of(layout).batch); break;
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: Read(value, bytes, &Of(layout).stride); break;
    case CUBLASLT_MATRIX_LAYOUT_BATCH_MODE: Read(value, bytes, &Of(layout).mode); break;
    default: return CUBLAS_STATUS_INVALID_VALUE;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* product, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (scale != CUDA_R_32F) Misuse("factors alpha and beta that are not of 32 bits");
  return Make(product, "products", Product{compute, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, nullptr});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) { return Destroy<Product>(product, "products"); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name,
                                              const void* value, size_t bytes) {
  if (Fails()) return CUBLAS_STATUS_INVALID_VALUE;
  Product& product = **reinterpret_cast<Product**>(&desc);
  switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA: Read(value, bytes, &product.a); break;
    case CUBLASLT_MATMUL_DESC_TRANSB: Read(value, bytes, &product.b); break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE: Read(value, bytes, &product.epilogue); break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: Read(value, bytes, &product.bias); break;
    default: return CUBLAS_STATUS_INVALID_VALUE;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return Make(preference, "preferences", Preference());
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return Destroy<Preference>(preference, "preferences");
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t name, const void* value,
                                                    size_t bytes) {
  if (Fails()) return CUBLAS_STATUS_INVALID_VALUE;
  Preference& preference = **reinterpret_cast<Preference**>(&handle);
  switch (name) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: Read(value, bytes, &preference.workspace); break;
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: Read(value, bytes, &preference.schemes); break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: Read(value, bytes, &preference.alignment[0]); break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: Read(value, bytes, &preference.alignment[1]); break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: Read(value, bytes, &preference.alignment[2]); break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: Read(value, bytes, &preference.alignment[3]); break;
    default: return CUBLAS_STATUS_INVALID_VALUE;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t handle, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  *found = 0;
  if (Fails()) return CUBLAS_STATUS_NOT_SUPPORTED;
  const Product& product = **reinterpret_cast<Product**>(&desc);
  const Preference& preference = **reinterpret_cast<Preference**>(&handle);
  if (HasBias(product.epilogue) && product.bias == nullptr) Misuse("proposals for a bias without an address");
  if ((preference.schemes & CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE) != 0) {
    Misuse("partial sums may be rounded to the type of the result");
  }
  if (settings().plans == 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (int number = 0; number < settings().plans && *found < wanted; ++number) {
    cublasLtMatmulHeuristicResult_t& result = results[(*found)++];
    std::memset(static_cast<void*>(&result), 0, sizeof result);
    result.state = CUBLAS_STATUS_SUCCESS;
    Algorithm algorithm;
    algorithm.number = number;
    std::copy(preference.alignment, preference.alignment + 4, algorithm.alignment);
    result.workspaceSize = algorithm.workspace = std::min<uint64_t>(preference.workspace, 64 * (number + 1));
    static_assert(sizeof algorithm <= sizeof result.algo);
    std::memcpy(static_cast<void*>(&result.algo), &algorithm, sizeof algorithm);
    if (number > 0 || *found == wanted) continue;
    // The second says that it is none, and the rest of it is not filled in.
    cublasLtMatmulHeuristicResult_t& none = results[(*found)++];
    std::memset(static_cast<void*>(&none), 0xff, sizeof none);
    none.state = CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t* algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t name, const void* value,
                                                    size_t bytes) {
  if (Fails()) return CUBLAS_STATUS_INVALID_VALUE;
  switch (name) {
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM: Read(value, bytes, &AlgorithmOf(algo).parts); break;
    case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME: Read(value, bytes, &AlgorithmOf(algo).scheme); break;
    default: return CUBLAS_STATUS_INVALID_VALUE;
  }
  return CUBLAS_STATUS_SUCCESS;
}
// Checks an algorithm. Every other one splits sums, with a workspace for their parts.
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       const cublasLtMatmulAlgo_t* algo, cublasLtMatmulHeuristicResult_t* result) {
  if (Fails()) return CUBLAS_STATUS_NOT_SUPPORTED;
  Algorithm algorithm;
  std::memcpy(static_cast<void*>(&algorithm), algo, sizeof algorithm);
  if (algorithm.parts > 1 && algorithm.scheme != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) {
    Misuse("partial sums that are added in place or rounded");
  }
  if (algorithm.number % 2 == 1) return CUBLAS_STATUS_NOT_SUPPORTED;
  result->workspaceSize = algorithm.WorkspaceOfParts();
  result->state = CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo, void* workspace,
                              size_t bytes, cudaStream_t stream) {
  if (Fails()) return CUBLAS_STATUS_EXECUTION_FAILED;
  Algorithm algorithm;
  std::memcpy(static_cast<void*>(&algorithm), algo, sizeof algorithm);
  Call call;
  call.product = **reinterpret_cast<Product**>(&desc);
  call.a = Of(a_layout), call.b = Of(b_layout), call.c = Of(c_layout), call.d = Of(d_layout);
  call.a_data = a, call.b_data = b, call.c_data = c, call.d_data = d;
  call.alpha = *static_cast<const float*>(alpha), call.beta = *static_cast<const float*>(beta);
  std::copy(algorithm.alignment, algorithm.alignment + 4, call.alignment);
  CheckSizes(call);
  const auto alignment = [&](const Matrix& m, int i) {
    return HasAddresses(m) ? uint32_t{sizeof(void*)} : algorithm.alignment[i];
  };
  CheckRange(a, Span(call.a), alignment(call.a, 0), "the first factor");
  CheckRange(b, Span(call.b), alignment(call.b, 1), "the second factor");
  if (call.beta != 0) CheckRange(c, Span(call.c), alignment(call.c, 2), "a summand");
  CheckRange(d, Span(call.d), alignment(call.d, 3), "a product");
  const size_t element = BytesOf(TypeOf(call.d.type));
  if (HasBias(call.product.epilogue)) {
    CheckRange(call.product.bias, static_cast<size_t>(call.d.rows) * element, 16, "a bias");
  }
  if (bytes < algorithm.WorkspaceOfParts()) Misuse("a workspace that is too small");
  CheckRange(workspace, bytes, 256, "a workspace");
  cudaError_t queued;
  if (!Propose(stream, static_cast<int>(algorithm.number), &queued)) return CUBLAS_STATUS_EXECUTION_FAILED;
  ++observed().products;
  if (algorithm.parts > 1) observed().split_parts.insert(algorithm.parts);
  observed().last_parts = algorithm.parts;
  observed().last_row = call.d.leading;
  observed().factors.insert(a);
  // Split sums are faster, and rows that begin at no multiples of 16 bytes slower.
  const bool broken = call.d.columns > 1 && static_cast<size_t>(call.d.leading) * element % 16 != 0;
  const double seconds = SecondsOf(static_cast<int>(algorithm.number)) / algorithm.parts * (broken ? 16 : 1);
  Queue(stream, seconds, [=] {
    std::memset(workspace, 0xff, bytes);
    call.Run();
  });
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
