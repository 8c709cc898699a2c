// Pooling by cuDNN: a graph of one resampling.
#include "backends/cuda/plugin/graph_call.h"

namespace rewright::cuda {
namespace {

class Pool : public GraphCall {
 public:
  Pool(Context& context, const PoolProblem& problem)
      : GraphCall(context, problem.precision, "this pooling"), p_(problem) {}

  Fault Init() {
    const size_t x = Bound(p_.x, p_.x_strides), out = Bound(p_.out, p_.out_strides);
    Descriptor resample(CUDNN_BACKEND_RESAMPLE_DESCRIPTOR);
    const cudnnFraction_t window[] = {{p_.kernel[0], 1}, {p_.kernel[1], 1}};
    const cudnnFraction_t strides[] = {{p_.strides[0], 1}, {p_.strides[1], 1}};
    const cudnnFraction_t before[] = {{p_.pads[0], 1}, {p_.pads[1], 1}}, after[] = {{p_.pads[2], 1}, {p_.pads[3], 1}};
    const bool max = p_.mode == PoolMode::kMax;
    resample.Set(CUDNN_ATTR_RESAMPLE_MODE, CUDNN_TYPE_RESAMPLE_MODE, Mode());
    resample.Set(CUDNN_ATTR_RESAMPLE_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    resample.Set(CUDNN_ATTR_RESAMPLE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, CUDNN_PROPAGATE_NAN);
    resample.Set(CUDNN_ATTR_RESAMPLE_PADDING_MODE, CUDNN_TYPE_PADDING_MODE, max ? CUDNN_NEG_INF_PAD : CUDNN_ZERO_PAD);
    resample.Set(CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, CUDNN_TYPE_INT64, int64_t{2});
    resample.Set(CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, CUDNN_TYPE_FRACTION, window, 2);
    resample.Set(CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, CUDNN_TYPE_FRACTION, before, 2);
    resample.Set(CUDNN_ATTR_RESAMPLE_POST_PADDINGS, CUDNN_TYPE_FRACTION, after, 2);
    resample.Set(CUDNN_ATTR_RESAMPLE_STRIDES, CUDNN_TYPE_FRACTION, strides, 2);
    AddOperation(Descriptor(CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR),
                 {{CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC, x},
                  {CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, out},
                  {CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC, Add(std::move(resample))}});
    return Finish(KeyOf("pool", p_.x, p_.x_strides, p_.out, p_.out_strides, p_.kernel, p_.strides, p_.pads,
                        static_cast<int64_t>(p_.mode), static_cast<int64_t>(p_.precision)));
  }

 private:
  cudnnResampleMode_t Mode() const {
    switch (p_.mode) {
      case PoolMode::kMax: return CUDNN_RESAMPLE_MAXPOOL;
      case PoolMode::kMean: return CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING;
      case PoolMode::kMeanWithPadding: break;
    }
    return CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING;
  }

  const PoolProblem p_;
};

}  // namespace

Fault PlanCall(Context& context, const PoolProblem& problem, std::unique_ptr<LibraryCall>* call) {
  return PlanGraph<Pool>(context, problem, call);
}

}  // namespace rewright::cuda
