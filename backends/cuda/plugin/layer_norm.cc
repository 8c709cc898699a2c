// Layer normalization by cuDNN: a graph of one operation, the rows of the matrix as images of one point.
#include "backends/cuda/plugin/graph_call.h"

namespace rewright::cuda {
namespace {

class LayerNorm : public GraphCall {
 public:
  LayerNorm(Context& context, const LayerNormProblem& problem)
      : GraphCall(context, problem.precision, "this normalization"), p_(problem) {}

  Fault Init() {
    const int64_t sizes[] = {p_.rows, p_.columns, 1, 1}, row[] = {1, p_.columns, 1, 1};
    const int64_t strides[] = {p_.columns, 1, p_.columns, p_.columns};
    // In the order of the call's buffers.
    const size_t x = Bound(sizes, strides), scale = Bound(row, strides, CUDNN_DATA_FLOAT),
                 bias = Bound(row, strides, CUDNN_DATA_FLOAT), out = Bound(sizes, strides);
    const size_t epsilon = Scalar(static_cast<float>(p_.epsilon));
    Descriptor operation(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
    operation.Set(CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, CUDNN_LAYER_NORM);
    operation.Set(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE, CUDNN_NORM_FWD_INFERENCE);
    AddOperation(std::move(operation), {{CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, x},
                                        {CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, scale},
                                        {CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, bias},
                                        {CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, epsilon},
                                        {CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, out}});
    // Epsilon is passed with every call and belongs to no choice.
    return Finish(KeyOf("layer_norm", p_.rows, p_.columns, static_cast<int64_t>(p_.precision)));
  }

 private:
  const LayerNormProblem p_;
};

}  // namespace

Fault PlanCall(Context& context, const LayerNormProblem& problem, std::unique_ptr<LibraryCall>* call) {
  return PlanGraph<LayerNorm>(context, problem, call);
}

}  // namespace rewright::cuda
