// Matrix products by cuBLASLt.
//
// cuBLASLt stores matrices by columns, so it is asked for the transposed product out^T = right^T left^T: a row-major
// matrix is the transposed one by columns, and the bias along the columns of `out` is one along the rows of out^T,
// which is what the library's epilogues add.
//
// Batches of batches, over which no single stride walks, are passed as arrays of addresses, which a kernel in front of
// the product writes.
//
// Timed are the library's proposals; the first of them with the sum split into several, where the product has few
// tiles; and, where rows of the result begin at no multiples of 16 bytes (a vocabulary of 50,257), proposals for a
// result with wider rows in the workspace, which a kernel then copies.
#include <numeric>

#include "backends/cuda/plugin/context.h"
#include "core/base/text_hash.h"

namespace rewright::cuda {
namespace {

constexpr size_t kMatmulWorkspace = size_t{64} << 20;
constexpr int kCandidates = 24;
// Sums are split in this many parts, of kSplitTerms terms at least, where there are fewer tiles than multiprocessors.
constexpr int kSplits[] = {2, 3, 4, 6, 8, 12};
constexpr int kSplitProposals = 4;
constexpr int64_t kSplitTerms = 256, kTile = 128, kFewTiles = 128;
constexpr int64_t kRowBytes = 16;  // at whose multiples rows of a result have to begin for the faster algorithms
// Bytes to which the arrays of addresses are aligned.
constexpr size_t kTableAlignment = 256;
constexpr int kThreads = 128;
constexpr int kCopied = 8;  // elements of a result that a thread copies

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

Fault MakeLayout(cudaDataType_t type, int64_t rows, int64_t columns, int64_t leading, const MatmulProblem& problem,
                 int64_t stride, cublasLtMatrixLayout_t* layout) {
  REWRIGHT_RETURN_FAULT(FaultOf(
      cublasLtMatrixLayoutCreate(layout, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), leading),
      "cublasLtMatrixLayoutCreate"));
  const auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
    return FaultOf(cublasLtMatrixLayoutSetAttribute(*layout, attribute, &value, sizeof value), "batches");
  };
  REWRIGHT_RETURN_FAULT(set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(problem.outer * problem.batch)));
  if (problem.outer == 1) return set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
#if CUBLAS_VERSION >= 130100
  return set(CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, uint32_t{CUBLASLT_BATCH_MODE_POINTER_ARRAY});
#else
  return "this cuBLASLt takes no arrays of addresses";
#endif
}

// GELU is the library's form by tanh.
cublasLtEpilogue_t EpilogueOf(const MatmulProblem& problem) {
  switch (problem.activation) {
    case Activation::kRelu: return problem.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case Activation::kGeluTanh: return problem.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    default: return problem.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  }
}

class Matmul : public LibraryCall {
 public:
  Matmul(Context& context, const MatmulProblem& problem) : context_(context), p_(problem) {}
  ~Matmul() override {
    if (operation_ != nullptr) cublasLtMatmulDescDestroy(operation_);
    for (cublasLtMatrixLayout_t layout : {right_, left_, out_, padded_}) {
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
    REWRIGHT_RETURN_FAULT(Set(CUBLASLT_MATMUL_DESC_TRANSA, first.operation));
    REWRIGHT_RETURN_FAULT(Set(CUBLASLT_MATMUL_DESC_TRANSB, second.operation));
    const cublasLtEpilogue_t epilogue = EpilogueOf(p_);
    REWRIGHT_RETURN_FAULT(Set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue));
    // Algorithms are proposed for descriptions that are whole: some address, until Execute sets the true one.
    if (p_.bias) {
      REWRIGHT_RETURN_FAULT(Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, reinterpret_cast<const void*>(uintptr_t{256})));
    }
    const cudaDataType_t result = p_.wide ? CUDA_R_32F : type;
    const auto factor = [&](const Operand& operand, int64_t stride, cublasLtMatrixLayout_t* layout) {
      return MakeLayout(type, operand.rows, operand.columns, operand.leading, p_, stride, layout);
    };
    REWRIGHT_RETURN_FAULT(factor(first, p_.right.batch, &right_));
    REWRIGHT_RETURN_FAULT(factor(second, p_.left.batch, &left_));
    REWRIGHT_RETURN_FAULT(MakeLayout(result, p_.n, p_.m, p_.out.row, p_, p_.out.batch, &out_));
    if (PaddedRow() != p_.out.row) {
      REWRIGHT_RETURN_FAULT(MakeLayout(result, p_.n, p_.m, PaddedRow(), p_, 0, &padded_));
      REWRIGHT_RETURN_FAULT(CompileCopy());
    }
    return p_.outer == 1 ? Fault() : CompileAddresses();
  }

  Fault Choose() {
    std::vector<Candidate> candidates;
    REWRIGHT_RETURN_FAULT(Propose(/*padded=*/false, &candidates));
    Split(&candidates);
    if (padded_ != nullptr) REWRIGHT_RETURN_FAULT(Propose(/*padded=*/true, &candidates));
    const int found = static_cast<int>(candidates.size());
    if (found == 0) return "cuBLASLt has no algorithm for this product";
    int best = 0;
    const std::string key = Key();
    if (!RecallChoice(context_, key, &best) || best < 0 || best >= found) {
      // Also where there is one alone: whether it runs and can be recorded shows here, where there is another way.
      Choice choice;
      REWRIGHT_RETURN_FAULT(Try(candidates, &choice));
      best = choice.best;
      KeepChoice(context_, key, best, choice.seconds);
    }
    chosen_ = candidates[best];
    return {};
  }

  size_t workspace_bytes() const override { return WorkspaceOf(chosen_); }

  Fault Run(void* const* buffers) const override { return Execute(buffers, chosen_); }

 private:
  // A way to compute the product.
  struct Candidate {
    cublasLtMatmulAlgo_t algorithm{};
    size_t workspace = 0;  // of the algorithm
    bool padded = false;   // into the workspace, with wider rows
  };

  template <typename T>
  Fault Set(cublasLtMatmulDescAttributes_t attribute, const T& value) const {
    return FaultOf(cublasLtMatmulDescSetAttribute(operation_, attribute, &value, sizeof value),
                   "attribute " + std::to_string(attribute) + " of a product");
  }

  // Adds what the library proposes, those first that it takes to be fastest. For the padded result none is no fault.
  Fault Propose(bool padded, std::vector<Candidate>* candidates) {
    cublasLtMatmulPreference_t raw = nullptr;
    REWRIGHT_RETURN_FAULT(FaultOf(cublasLtMatmulPreferenceCreate(&raw), "cublasLtMatmulPreferenceCreate"));
    struct Destroy {
      void operator()(cublasLtMatmulPreference_t preference) const { cublasLtMatmulPreferenceDestroy(preference); }
    };
    const std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>, Destroy> preference(raw);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      return FaultOf(cublasLtMatmulPreferenceSetAttribute(raw, attribute, &value, sizeof value),
                     "preference " + std::to_string(attribute) + " of a product");
    };
    REWRIGHT_RETURN_FAULT(prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMatmulWorkspace));
    // Partial sums are not rounded to the type of the result.
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    REWRIGHT_RETURN_FAULT(prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes));
    // The library takes addresses for aligned to 256 bytes unless it is told.
    const uint32_t rest = AlignmentOf(p_.out, 16);
    for (auto [attribute, alignment] :
         {std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, AlignmentOf(p_.right, p_.alignment)),
          std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, AlignmentOf(p_.left, p_.alignment)),
          std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, rest),
          std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, rest)}) {
      REWRIGHT_RETURN_FAULT(prefer(attribute, alignment));
    }
    std::vector<cublasLtMatmulHeuristicResult_t> results(kCandidates);
    int found = 0;
    cublasLtMatrixLayout_t out = padded ? padded_ : out_;
    const Fault fault = FaultOf(cublasLtMatmulAlgoGetHeuristic(context_.cublas, operation_, right_, left_, out, out,
                                                               raw, kCandidates, results.data(), &found),
                                "cublasLtMatmulAlgoGetHeuristic");
    if (!fault.empty()) return padded ? Fault() : fault;
    for (int i = 0; i < found; ++i) {
      // Failed results have nothing but their state filled in.
      if (results[i].state != CUBLAS_STATUS_SUCCESS) continue;
      candidates->push_back({results[i].algo, results[i].workspaceSize, padded});
    }
    return {};
  }

  // Adds the first candidates with their sums split, as far as the library takes that; partial sums stay 32-bit.
  void Split(std::vector<Candidate>* candidates) const {
    const auto tiles = [](int64_t size) { return (size + kTile - 1) / kTile; };
    if (p_.outer * p_.batch * tiles(p_.m) * tiles(p_.n) >= kFewTiles) return;
    const size_t proposals = std::min<size_t>(candidates->size(), kSplitProposals);
    for (size_t i = 0; i < proposals; ++i) {
      for (const int32_t parts : kSplits) {
        if (p_.k / parts < kSplitTerms) break;
        cublasLtMatmulAlgo_t algorithm = (*candidates)[i].algorithm;
        const uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
        cublasLtMatmulHeuristicResult_t result{};
        if (cublasLtMatmulAlgoConfigSetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &parts, sizeof parts) !=
                CUBLAS_STATUS_SUCCESS ||
            cublasLtMatmulAlgoConfigSetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme,
                                                 sizeof scheme) != CUBLAS_STATUS_SUCCESS ||
            cublasLtMatmulAlgoCheck(context_.cublas, operation_, right_, left_, out_, out_, &algorithm, &result) !=
                CUBLAS_STATUS_SUCCESS ||
            result.workspaceSize > kMatmulWorkspace) {
          continue;
        }
        candidates->push_back({algorithm, result.workspaceSize, false});
      }
    }
  }

  // ---- a result with wider rows

  size_t ResultBytes() const { return p_.wide ? sizeof(float) : ElementBytes(p_.precision); }
  // The distance of rows that begin at multiples of 16 bytes; that of the result where it is one, or nothing is padded.
  int64_t PaddedRow() const {
    const int64_t bytes = static_cast<int64_t>(ResultBytes()), row = p_.out.row;
    if (p_.outer * p_.batch > 1 || p_.m == 1 || p_.residual || row * bytes % kRowBytes == 0) return row;
    const int64_t padded = (row * bytes / kRowBytes + 1) * kRowBytes / bytes;
    return p_.m * padded < int64_t{1} << 31 ? padded : row;
  }
  int64_t CopyBlocks() const { return (p_.m * p_.n + kThreads * kCopied - 1) / (kThreads * kCopied); }
  Fault CompileCopy() {
    const std::string type = ResultBytes() == 4 ? "unsigned int" : "unsigned short", n = std::to_string(p_.n);
    const std::string body = "(const " + type + "* from, " + type + "* out) {\nint i = (int)(blockIdx.x * " +
                             std::to_string(kThreads * kCopied) + " + threadIdx.x);\n" + "for (int step = 0; step < " +
                             std::to_string(kCopied) + "; ++step, i += " + std::to_string(kThreads) + ") {\nif (i < " +
                             std::to_string(p_.m * p_.n) + ") out[i / " + n + " * " + std::to_string(p_.out.row) +
                             " + i % " + n + "] = from[i / " + n + " * " + std::to_string(PaddedRow()) + " + i % " + n +
                             "];\n}\n}\n";
    const std::string name = "rewright_rows_" + TextHash::HexOf(body);
    return context_.compile({name, "extern \"C\" __global__ void " + name + body}, &copy_);
  }

  // ---- addresses

  // The alignment of every matrix, where their addresses are passed one by one; else the library knows the strides.
  uint32_t AlignmentOf(const MatrixLayout& layout, int64_t base) const {
    if (p_.outer == 1) return static_cast<uint32_t>(base);
    const int64_t element = static_cast<int64_t>(ElementBytes(p_.precision));
    return static_cast<uint32_t>(std::gcd(base, std::gcd(layout.batch * element, layout.outer * element)));
  }
  // Where the addresses, or the padded result, lie: behind what an algorithm asks for.
  size_t TableAt(size_t workspace) const {
    return (workspace + kTableAlignment - 1) / kTableAlignment * kTableAlignment;
  }
  size_t TableBytes() const { return static_cast<size_t>(p_.outer * p_.batch) * sizeof(void*); }
  size_t WorkspaceOf(const Candidate& candidate) const {
    if (p_.outer > 1) return TableAt(candidate.workspace) + 3 * TableBytes();
    if (!candidate.padded) return candidate.workspace;
    return TableAt(candidate.workspace) + static_cast<size_t>(p_.m * PaddedRow()) * ResultBytes();
  }
  Fault CompileAddresses() {
    const std::string count = std::to_string(p_.outer * p_.batch), inner = std::to_string(p_.batch);
    std::string body =
        "(const char* left, const char* right, const char* out, const char** table) {\n"
        "const int i = (int)(blockIdx.x * " +
        std::to_string(kThreads) + " + threadIdx.x);\nif (i >= " + count + ") return;\n";
    int place = 0;
    for (const auto& [name, layout] : {std::pair("left", &p_.left), {"right", &p_.right}, {"out", &p_.out}}) {
      const auto bytes = [&](int64_t stride) {
        return std::to_string(stride * static_cast<int64_t>(ElementBytes(p_.precision))) + "LL";
      };
      body += "table[" + std::to_string(place++) + " * " + count + " + i] = " + name + " + i / " + inner + " * " +
              bytes(layout->outer) + " + i % " + inner + " * " + bytes(layout->batch) + ";\n";
    }
    body += "}\n";
    const std::string name = "rewright_addresses_" + TextHash::HexOf(body);
    return context_.compile({name, "extern \"C\" __global__ void " + name + body}, &addresses_);
  }
  // Writes them; buffers as in Run, but `table` in the place of the workspace.
  Fault WriteAddresses(void* const* buffers, void* table) const {
    void* const pointers[] = {buffers[0], buffers[1], buffers[2], table};
    return addresses_->Launch((p_.outer * p_.batch + kThreads - 1) / kThreads, kThreads, pointers, 4);
  }

  // Buffers as in Run.
  Fault Execute(void* const* buffers, const Candidate& candidate) const {
    char* const workspace = static_cast<char*>(buffers[3 + (p_.bias ? 1 : 0) + (p_.residual ? 1 : 0)]);
    char* const behind = workspace + TableAt(candidate.workspace);
    if (p_.outer > 1) {
      REWRIGHT_RETURN_FAULT(WriteAddresses(buffers, behind));
      void* const tables[] = {behind, behind + TableBytes(), behind + 2 * TableBytes(), workspace};
      return Multiply(tables, candidate, tables[2], out_);
    }
    if (!candidate.padded) return Multiply(buffers, candidate, buffers[2], out_);
    REWRIGHT_RETURN_FAULT(Multiply(buffers, candidate, behind, padded_));
    void* const pointers[] = {behind, buffers[2]};
    return copy_->Launch(CopyBlocks(), kThreads, pointers, 2);
  }
  // Buffers as in Run, or tables of the addresses of matrices; the result goes to `result`.
  Fault Multiply(void* const* buffers, const Candidate& candidate, void* result, cublasLtMatrixLayout_t layout) const {
    int next = 3;
    if (p_.bias) {
      const void* bias = buffers[next++];
      REWRIGHT_RETURN_FAULT(Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias));
    }
    const void* residual = p_.residual ? buffers[next++] : result;
    const float alpha = 1, beta = p_.residual ? 1 : 0;
    return FaultOf(cublasLtMatmul(context_.cublas, operation_, &alpha, buffers[1], right_, buffers[0], left_, &beta,
                                  residual, layout, result, layout, &candidate.algorithm, buffers[next],
                                  candidate.workspace, context_.stream),
                   "cublasLtMatmul");
  }

  // Times the candidates on memory of their own.
  Fault Try(const std::vector<Candidate>& candidates, Choice* choice) {
    const auto span = [&](const MatrixLayout& layout, int64_t rows, int64_t columns) {
      const int64_t last = (p_.outer - 1) * layout.outer + (p_.batch - 1) * layout.batch + (rows - 1) * layout.row +
                           (columns - 1) * layout.column;
      return ElementBytes(p_.precision) * static_cast<size_t>(last + 1);
    };
    const auto of_result = [&](size_t bytes) {
      return TrialOperands::Operand{p_.wide ? bytes / ElementBytes(p_.precision) * sizeof(float) : bytes, p_.wide};
    };
    std::vector<TrialOperands::Operand> operands = {
        {span(p_.left, p_.m, p_.k)}, {span(p_.right, p_.k, p_.n)}, of_result(span(p_.out, p_.m, p_.n))};
    if (p_.bias) operands.push_back(of_result(ElementBytes(p_.precision) * static_cast<size_t>(p_.n)));
    if (p_.residual) operands.push_back(operands[2]);
    size_t workspace = 0;
    for (const Candidate& candidate : candidates) workspace = std::max(workspace, WorkspaceOf(candidate));
    TrialOperands trial;
    REWRIGHT_RETURN_FAULT(trial.Allocate(context_, p_.precision, operands, workspace));
    Ways ways;
    ways.count = static_cast<int>(candidates.size());
    ways.sets = trial.sets();
    ways.enqueue = [&](int i, int run) { return Execute(trial.set(run), candidates[i]); };
    ways.name = [&](int i) { return "algorithm " + std::to_string(i) + " of cuBLASLt for " + Key(); };
    REWRIGHT_RETURN_FAULT(FastestOf(context_, ways, choice));
    return choice->best < 0 ? Fault("no algorithm of cuBLASLt runs this product") : Fault();
  }

  std::string Key() const {
    return KeyOf("product", p_.batch, p_.m, p_.n, p_.k, p_.left.row, p_.left.column, p_.left.batch, p_.right.row,
                 p_.right.column, p_.right.batch, p_.out.row, p_.out.batch, p_.bias, p_.residual, p_.wide,
                 static_cast<int64_t>(p_.activation), p_.alignment, static_cast<int64_t>(p_.precision), p_.outer,
                 p_.left.outer, p_.right.outer, p_.out.outer);
  }

  Context& context_;
  const MatmulProblem p_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t right_ = nullptr, left_ = nullptr, out_ = nullptr;
  cublasLtMatrixLayout_t padded_ = nullptr;  // the result with wider rows
  Candidate chosen_;
  std::shared_ptr<const Function> copy_;       // of the padded result to where it belongs
  std::shared_ptr<const Function> addresses_;  // writes those of the matrices, where there are outer batches
};

}  // namespace

Fault PlanCall(Context& context, const MatmulProblem& problem, std::unique_ptr<LibraryCall>* call) {
  if (problem.activation == Activation::kGeluErf) return PlanGraphMatmul(context, problem, call);
  auto matmul = std::make_unique<Matmul>(context, problem);
  REWRIGHT_RETURN_FAULT(matmul->Init());
  REWRIGHT_RETURN_FAULT(matmul->Choose());
  *call = std::move(matmul);
  return {};
}

}  // namespace rewright::cuda
