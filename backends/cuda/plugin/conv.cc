// Convolutions by cuDNN: one graph of convolution, additions and relu.
#include <bit>

#include "backends/cuda/plugin/graph_call.h"

namespace rewright::cuda {
namespace {

class Conv : public GraphCall {
 public:
  Conv(Context& context, const ConvProblem& problem)
      : GraphCall(context, problem.precision, "this convolution"), p_(problem) {}

  // conv, then + residual, then + bias, then relu: the order that the library has ready-made engines for.
  Fault Init() {
    // In the order of the call's buffers.
    const size_t x = Bound(p_.x, p_.x_strides), w = Bound(p_.w, p_.w_strides), out = Bound(p_.out, p_.out_strides);
    // Strides over axes of one element as in an image of this layout: by them the library tells layouts apart.
    const int64_t width = p_.out_strides[1] == 1 ? p_.out[1] : 1;
    const int64_t channels[] = {1, p_.out[1], 1, 1}, channel_strides[] = {p_.out[1], 1, width, width};
    const size_t bias = p_.bias ? Bound(channels, channel_strides) : 0;
    const size_t residual = p_.residual ? Bound(p_.out, p_.out_strides) : 0;
    int left = (p_.residual ? 1 : 0) + (p_.bias ? 1 : 0) + (p_.relu ? 1 : 0);
    // The next value of the chain; the last one is the result.
    const auto next = [&] { return left-- == 0 ? out : Virtual(CUDNN_DATA_FLOAT, p_.out, p_.out_strides); };
    size_t value = next();
    Convolve(x, w, value);
    const auto add = [&](const size_t* other) {
      const size_t result = next();
      Pointwise(CUDNN_POINTWISE_ADD, value, other, result);
      value = result;
    };
    if (p_.residual) add(&residual);
    if (p_.bias) add(&bias);
    if (p_.relu) Pointwise(CUDNN_POINTWISE_RELU_FWD, value, nullptr, next(), p_.most);
    return Finish(KeyOf("conv", p_.x, p_.x_strides, p_.w, p_.w_strides, p_.out_strides, p_.strides, p_.pads,
                        p_.dilations, p_.groups, p_.bias, p_.residual, p_.relu, static_cast<int64_t>(p_.precision),
                        std::bit_cast<int64_t>(p_.most)));
  }

 private:
  void Convolve(size_t x, size_t w, size_t out) {
    Descriptor conv(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    const int64_t before[] = {p_.pads[0], p_.pads[1]}, after[] = {p_.pads[2], p_.pads[3]};
    conv.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    conv.Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
    conv.Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, int64_t{2});
    conv.Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, before, 2);
    conv.Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, after, 2);
    conv.Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, p_.dilations, 2);
    conv.Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, p_.strides, 2);
    Descriptor operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1.0f);
    operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 0.0f);
    AddOperation(std::move(operation), {{CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, Add(std::move(conv))},
                                        {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x},
                                        {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w},
                                        {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, out}});
  }

  const ConvProblem p_;
};

}  // namespace

Fault PlanCall(Context& context, const ConvProblem& problem, std::unique_ptr<LibraryCall>* call) {
  return PlanGraph<Conv>(context, problem, call);
}

}  // namespace rewright::cuda
