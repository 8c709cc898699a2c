// Matrix products by cuDNN, for the epilogue that cuBLASLt does not have: GELU by the error function.
#include "backends/cuda/plugin/graph_call.h"

namespace rewright::cuda {
namespace {

class GraphMatmul : public GraphCall {
 public:
  GraphMatmul(Context& context, const MatmulProblem& problem)
      : GraphCall(context, problem.precision, "this product", 3), p_(problem) {}

  Fault Init() {
    if (p_.activation != Activation::kGeluErf) return "products by cuDNN end in GELU";
    if (p_.alignment < 16) return "cuDNN reads factors that are aligned to 16 bytes";
    // In the order of the call's buffers.
    const size_t left = Matrix(p_.left, p_.m, p_.k), right = Matrix(p_.right, p_.k, p_.n);
    const int64_t sizes[] = {p_.batch, p_.m, p_.n}, strides[] = {BatchStride(p_.out, p_.m, p_.n), p_.out.row, 1};
    const size_t out = Bound(sizes, strides);
    const int64_t row[] = {1, 1, p_.n}, row_strides[] = {p_.n, p_.n, 1};
    const size_t bias = p_.bias ? Bound(row, row_strides) : 0;
    const size_t residual = p_.residual ? Bound(sizes, strides) : 0;
    size_t value = Virtual(CUDNN_DATA_FLOAT, sizes, strides);
    Multiply(left, right, value);
    for (const auto& [there, summand] : {std::pair(p_.bias, bias), std::pair(p_.residual, residual)}) {
      if (!there) continue;
      const size_t sum = Virtual(CUDNN_DATA_FLOAT, sizes, strides);
      Pointwise(CUDNN_POINTWISE_ADD, value, &summand, sum);
      value = sum;
    }
    Pointwise(CUDNN_POINTWISE_GELU_FWD, value, nullptr, out);
    return Finish(KeyOf("product with gelu", p_.batch, p_.m, p_.n, p_.k, p_.left.row, p_.left.column, p_.left.batch,
                        p_.right.row, p_.right.column, p_.right.batch, p_.out.row, p_.out.batch, p_.bias, p_.residual,
                        static_cast<int64_t>(p_.precision)));
  }

 private:
  // The stride of the batches. The library wants one even for a single matrix.
  int64_t BatchStride(const MatrixLayout& layout, int64_t rows, int64_t columns) const {
    return p_.batch == 1 ? std::max(rows * layout.row, columns * layout.column) : layout.batch;
  }
  size_t Matrix(const MatrixLayout& layout, int64_t rows, int64_t columns) {
    const int64_t sizes[] = {p_.batch, rows, columns};
    const int64_t strides[] = {BatchStride(layout, rows, columns), layout.row, layout.column};
    return Bound(sizes, strides);
  }

  const MatmulProblem p_;
};

}  // namespace

Fault PlanGraphMatmul(Context& context, const MatmulProblem& problem, std::unique_ptr<LibraryCall>* call) {
  return PlanGraph<GraphMatmul>(context, problem, call);
}

}  // namespace rewright::cuda
