// Matrix products by cuBLASLt.
//
// cuBLASLt stores matrices by columns, so it is asked for the transposed product out^T = right^T left^T: a row-major
// matrix is the transposed one by columns, and the bias along the columns of `out` is one along the rows of out^T,
// which is what the library's epilogues add.
#include "backends/cuda/plugin/context.h"

namespace rewright::cuda {
namespace {

constexpr size_t kWorkspaceLimit = size_t{64} << 20;
constexpr int kCandidates = 8;

// An operand X^T of the transposed product, as the library describes it.
struct Operand {
  cublasOperation_t operation;
  int64_t rows, columns, leading;  // as stored by columns
};

// `rows` x `columns` is the matrix X as the problem has it.
Operand Transposed(const MatrixLayout& layout, int64_t rows, int64_t columns) {
  if (layout.column == 1) return {CUBLAS_OP_N, columns, rows, std::max(layout.row, columns)};
  return {CUBLAS_OP_T, rows, columns, std::max(layout.column, rows)};
}

cudaDataType_t TypeOf(Precision precision) {
  switch (precision) {
    case Precision::kFp16: return CUDA_R_16F;
    case Precision::kBf16: return CUDA_R_16BF;
    default: return CUDA_R_32F;
  }
}

Fault MakeLayout(cudaDataType_t type, int64_t rows, int64_t columns, int64_t leading, int64_t batch, int64_t stride,
                 cublasLtMatrixLayout_t* layout) {
  REWRIGHT_RETURN_FAULT(FaultOf(cublasLtMatrixLayoutCreate(layout, type, static_cast<uint64_t>(rows),
                                                           static_cast<uint64_t>(columns), leading),
                                "cublasLtMatrixLayoutCreate"));
  const int32_t count = static_cast<int32_t>(batch);
  cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
  cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
  return {};
}

class Matmul : public LibraryCall {
 public:
  Matmul(Context& context, const MatmulProblem& problem) : context_(context), p_(problem) {}
  ~Matmul() override {
    if (operation_ != nullptr) cublasLtMatmulDescDestroy(operation_);
    for (cublasLtMatrixLayout_t layout : {right_, left_, out_}) {
      if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
    }
  }

  Fault Init() {
    const cublasComputeType_t compute =
        p_.precision == Precision::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    REWRIGHT_RETURN_FAULT(
        FaultOf(cublasLtMatmulDescCreate(&operation_, compute, CUDA_R_32F), "cublasLtMatmulDescCreate"));
    const cudaDataType_t type = TypeOf(p_.precision);
    const Operand first = Transposed(p_.right, p_.k, p_.n), second = Transposed(p_.left, p_.m, p_.k);
    Set(CUBLASLT_MATMUL_DESC_TRANSA, first.operation);
    Set(CUBLASLT_MATMUL_DESC_TRANSB, second.operation);
    const cublasLtEpilogue_t epilogue = p_.bias ? (p_.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS)
                                                : (p_.relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT);
    Set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    // Algorithms are proposed for descriptions that are whole: some address, until Execute sets the true one.
    if (p_.bias) Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, reinterpret_cast<const void*>(uintptr_t{256}));
    const auto factor = [&](const Operand& operand, int64_t stride, cublasLtMatrixLayout_t* layout) {
      return MakeLayout(type, operand.rows, operand.columns, operand.leading, p_.batch, stride, layout);
    };
    REWRIGHT_RETURN_FAULT(factor(first, p_.right.batch, &right_));
    REWRIGHT_RETURN_FAULT(factor(second, p_.left.batch, &left_));
    return MakeLayout(type, p_.n, p_.m, p_.out.row, p_.batch, p_.out.batch, &out_);
  }

  Fault Choose() {
    cublasLtMatmulPreference_t preference = nullptr;
    REWRIGHT_RETURN_FAULT(FaultOf(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate"));
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspaceLimit,
                                         sizeof kWorkspaceLimit);
    // The library takes addresses for aligned to 256 bytes unless it is told.
    const uint32_t factors = static_cast<uint32_t>(p_.alignment), rest = 16;
    for (auto [attribute, alignment] : {std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, factors),
                                        std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, factors),
                                        std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, rest),
                                        std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, rest)}) {
      cublasLtMatmulPreferenceSetAttribute(preference, attribute, &alignment, sizeof alignment);
    }
    cublasLtMatmulHeuristicResult_t results[kCandidates];
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(context_.cublas, operation_, right_, left_, out_, out_,
                                                                 preference, kCandidates, results, &found);
    cublasLtMatmulPreferenceDestroy(preference);
    REWRIGHT_RETURN_FAULT(FaultOf(status, "cublasLtMatmulAlgoGetHeuristic"));
    if (found == 0) return "cuBLASLt has no algorithm for this product";
    int best = 0;
    const std::string key = Key();
    if (found > 1 && (!RecallChoice(context_, key, &best) || best < 0 || best >= found)) {
      REWRIGHT_RETURN_FAULT(Try(results, found, &best));
      KeepChoice(context_, key, best);
    }
    algorithm_ = results[best].algo;
    workspace_ = results[best].workspaceSize;
    return {};
  }

  size_t workspace_bytes() const override { return workspace_; }

  Fault Run(void* const* buffers) const override {
    const int extra = (p_.bias ? 1 : 0) + (p_.residual ? 1 : 0);
    return FaultOf(Execute(buffers, buffers[3 + extra], workspace_, algorithm_), "cublasLtMatmul");
  }

 private:
  template <typename T>
  void Set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    cublasLtMatmulDescSetAttribute(operation_, attribute, &value, sizeof value);
  }

  cublasStatus_t Execute(void* const* buffers, void* workspace, size_t bytes,
                         const cublasLtMatmulAlgo_t& algorithm) const {
    int next = 3;
    if (p_.bias) {
      const void* bias = buffers[next++];
      cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    }
    const void* residual = p_.residual ? buffers[next++] : buffers[2];
    const float alpha = 1, beta = p_.residual ? 1 : 0;
    return cublasLtMatmul(context_.cublas, operation_, &alpha, buffers[1], right_, buffers[0], left_, &beta, residual,
                          out_, buffers[2], out_, &algorithm, workspace, bytes, context_.stream);
  }

  // Times the candidates on memory of their own.
  Fault Try(const cublasLtMatmulHeuristicResult_t* results, int count, int* best) {
    auto span = [&](const MatrixLayout& layout, int64_t rows, int64_t columns) {
      const int64_t last = (p_.batch - 1) * layout.batch + (rows - 1) * layout.row + (columns - 1) * layout.column;
      return ElementBytes(p_.precision) * static_cast<size_t>(last + 1);
    };
    Scratch left, right, out, bias, residual, workspace;
    REWRIGHT_RETURN_FAULT(left.Allocate(span(p_.left, p_.m, p_.k)));
    REWRIGHT_RETURN_FAULT(right.Allocate(span(p_.right, p_.k, p_.n)));
    REWRIGHT_RETURN_FAULT(out.Allocate(span(p_.out, p_.m, p_.n)));
    std::vector<void*> buffers = {left.get(), right.get(), out.get()};
    if (p_.bias) {
      REWRIGHT_RETURN_FAULT(bias.Allocate(ElementBytes(p_.precision) * static_cast<size_t>(p_.n)));
      buffers.push_back(bias.get());
    }
    if (p_.residual) {
      REWRIGHT_RETURN_FAULT(residual.Allocate(span(p_.out, p_.m, p_.n)));
      buffers.push_back(residual.get());
    }
    REWRIGHT_RETURN_FAULT(workspace.Allocate(kWorkspaceLimit));
    REWRIGHT_RETURN_FAULT(FastestOf(
        context_, count,
        [&](int i) {
          return FaultOf(Execute(buffers.data(), workspace.get(), results[i].workspaceSize, results[i].algo),
                         "cublasLtMatmul");
        },
        best));
    return *best < 0 ? Fault("no algorithm of cuBLASLt runs this product") : Fault();
  }

  std::string Key() const {
    return KeyOf("matmul", p_.batch, p_.m, p_.n, p_.k, p_.left.row, p_.left.column, p_.left.batch, p_.right.row,
                 p_.right.column, p_.right.batch, p_.out.row, p_.out.batch, p_.bias, p_.residual, p_.relu,
                 p_.alignment, static_cast<int64_t>(p_.precision));
  }

  Context& context_;
  const MatmulProblem p_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t right_ = nullptr, left_ = nullptr, out_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
  size_t workspace_ = 0;
};

}  // namespace

Fault PlanCall(Context& context, const MatmulProblem& problem, std::unique_ptr<LibraryCall>* call) {
  auto matmul = std::make_unique<Matmul>(context, problem);
  REWRIGHT_RETURN_FAULT(matmul->Init());
  REWRIGHT_RETURN_FAULT(matmul->Choose());
  *call = std::move(matmul);
  return {};
}

}  // namespace rewright::cuda
