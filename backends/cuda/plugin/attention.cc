// Attention by cuDNN: one graph of product, scale, mask, softmax and product, for which the library has fused engines
// that never store the scores. It knows them by this very sequence (the softmax in its five steps), so nothing is left
// out of it.
#include "backends/cuda/plugin/graph_call.h"

namespace rewright::cuda {
namespace {

class Attention : public GraphCall {
 public:
  Attention(Context& context, const AttentionProblem& problem)
      : GraphCall(context, problem.precision, "this attention"), p_(problem) {}

  Fault Init() {
    const int64_t query[] = {p_.batch, p_.heads, p_.queries, p_.depth};
    const int64_t key[] = {p_.batch, p_.heads, p_.depth, p_.keys};
    const int64_t value[] = {p_.batch, p_.heads, p_.keys, p_.value_depth};
    const int64_t result[] = {p_.batch, p_.heads, p_.queries, p_.value_depth};
    // In the order of the call's buffers.
    const size_t q = Bound(query, p_.query_strides), k = Bound(key, p_.key_strides), v = Bound(value, p_.value_strides),
                 out = Bound(result, p_.out_strides);
    const size_t mask = p_.mask ? Bound(p_.mask_sizes, p_.mask_strides) : 0;
    size_t x = Scores(CUDNN_DATA_FLOAT);
    Multiply(q, k, x);
    const size_t scale = Scalar(static_cast<float>(p_.scale));
    x = Next(CUDNN_POINTWISE_MUL, x, &scale);
    if (p_.mask) x = Next(CUDNN_POINTWISE_ADD, x, &mask);
    const size_t largest = Reduce(CUDNN_REDUCE_TENSOR_MAX, x);
    x = Next(CUDNN_POINTWISE_SUB, x, &largest);
    x = Next(CUDNN_POINTWISE_EXP, x, nullptr);
    const size_t sum = Reduce(CUDNN_REDUCE_TENSOR_ADD, x);
    // The statistics that training keeps of a softmax, max + log(sum). Nothing reads them, but where scores are scaled
    // the library finds its engines only with them.
    const size_t logarithm = Rows(), statistics = Rows();
    Pointwise(CUDNN_POINTWISE_LOG, sum, nullptr, logarithm);
    Pointwise(CUDNN_POINTWISE_ADD, largest, &logarithm, statistics);
    // The second product takes factors of 16 bits.
    const size_t probabilities = Scores(CudnnType(precision_));
    Pointwise(CUDNN_POINTWISE_DIV, x, &sum, probabilities);
    Multiply(probabilities, v, out);
    // The scale is passed with every call and belongs to no choice.
    return Finish(KeyOf("attention", p_.batch, p_.heads, p_.queries, p_.keys, p_.depth, p_.value_depth, p_.mask,
                        static_cast<int64_t>(p_.precision), p_.query_strides, p_.key_strides, p_.value_strides,
                        p_.out_strides, p_.mask_sizes, p_.mask_strides));
  }

 private:
  size_t Scores(cudnnDataType_t type) {
    const int64_t sizes[] = {p_.batch, p_.heads, p_.queries, p_.keys};
    const int64_t strides[] = {p_.heads * p_.queries * p_.keys, p_.queries * p_.keys, p_.keys, 1};
    return Virtual(type, sizes, strides);
  }
  // One number for each row of scores.
  size_t Rows() {
    const int64_t sizes[] = {p_.batch, p_.heads, p_.queries, 1};
    const int64_t strides[] = {p_.heads * p_.queries, p_.queries, 1, 1};
    return Virtual(CUDNN_DATA_FLOAT, sizes, strides);
  }
  size_t Next(cudnnPointwiseMode_t mode, size_t x, const size_t* other) {
    const size_t result = Scores(CUDNN_DATA_FLOAT);
    Pointwise(mode, x, other, result);
    return result;
  }

  // Over the keys.
  size_t Reduce(cudnnReduceTensorOp_t reduction, size_t x) {
    Descriptor reduce(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    reduce.Set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    reduce.Set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, reduction);
    const size_t result = Rows();
    AddOperation(Descriptor(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR),
                 {{CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x},
                  {CUDNN_ATTR_OPERATION_REDUCTION_YDESC, result},
                  {CUDNN_ATTR_OPERATION_REDUCTION_DESC, Add(std::move(reduce))}});
    return result;
  }

  const AttentionProblem p_;
};

}  // namespace

Fault PlanCall(Context& context, const AttentionProblem& problem, std::unique_ptr<LibraryCall>* call) {
  return PlanGraph<Attention>(context, problem, call);
}

}  // namespace rewright::cuda
