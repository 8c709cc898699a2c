#include "tests/backends/host_calls_util.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "backends/cuda/codegen/half.h"
#include "core/base/check.h"

namespace rewright {
namespace {

// HostElements as a precision stores them.
class HostElements {
 public:
  HostElements(void* data, cuda::Precision precision) : data_(data), precision_(precision) {}
  double operator[](int64_t i) const {
    if (!cuda::IsHalf(precision_)) return static_cast<const float*>(data_)[i];
    const uint16_t bits = static_cast<const uint16_t*>(data_)[i];
    return precision_ == cuda::Precision::kFp16 ? cuda::FromFp16Bits(bits) : cuda::FromBf16Bits(bits);
  }
  void Set(int64_t i, double value) {
    const float real = static_cast<float>(value);
    if (!cuda::IsHalf(precision_)) {
      static_cast<float*>(data_)[i] = real;
    } else {
      static_cast<uint16_t*>(data_)[i] =
          precision_ == cuda::Precision::kFp16 ? cuda::Fp16Bits(real) : cuda::Bf16Bits(real);
    }
  }

 private:
  void* data_;
  cuda::Precision precision_;
};

cuda::Activation ActivationOf(const cuda::MatmulProblem& problem) { return problem.activation; }
cuda::Activation ActivationOf(const cuda::ConvProblem& problem) {
  return problem.relu ? cuda::Activation::kRelu : cuda::Activation::kNone;
}
double MostOf(const cuda::MatmulProblem&) { return INFINITY; }
double MostOf(const cuda::ConvProblem& problem) { return problem.most; }
cuda::Precision PrecisionOfResult(const cuda::MatmulProblem& problem) {
  return problem.wide ? cuda::Precision::kFp32 : problem.precision;
}
cuda::Precision PrecisionOfResult(const cuda::ConvProblem& problem) { return problem.precision; }

double Activated(cuda::Activation activation, double x) {
  switch (activation) {
    case cuda::Activation::kNone: return x;
    case cuda::Activation::kRelu: return x < 0 ? 0 : x;
    case cuda::Activation::kGeluErf: return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
    case cuda::Activation::kGeluTanh: return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  return x;
}

// The epilogue of a product: bias and residual are added, an activation is taken. Buffers: see gpu.h.
class Epilogue {
 public:
  template <typename Problem>
  Epilogue(const Problem& problem, void* const* buffers)
      : out_(buffers[2], PrecisionOfResult(problem)),
        bias_(problem.bias ? buffers[3] : nullptr, PrecisionOfResult(problem)),
        residual_(problem.residual ? buffers[problem.bias ? 4 : 3] : nullptr, problem.precision),
        has_bias_(problem.bias),
        has_residual_(problem.residual),
        activation_(ActivationOf(problem)),
        most_(MostOf(problem)) {}
  void Finish(double sum, int64_t channel, int64_t at) {
    if (has_bias_) sum += bias_[channel];
    if (has_residual_) sum += residual_[at];
    const double result = Activated(activation_, sum);
    out_.Set(at, result > most_ ? most_ : result);
  }

 private:
  HostElements out_, bias_, residual_;
  const bool has_bias_, has_residual_;
  const cuda::Activation activation_;
  const double most_;
};

void ExpectAligned(void* const* buffers, int first, int count, uintptr_t alignment) {
  for (int i = first; i < first + count; ++i) {
    CHECK(reinterpret_cast<uintptr_t>(buffers[i]) % alignment == 0) << "buffer " << i << " of a call";
  }
}

// The place of an element of a tensor of rank 4.
int64_t At(const int64_t* strides, int64_t a, int64_t b, int64_t c, int64_t d) {
  return a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3];
}

class HostMatmul : public cuda::LibraryCall {
 public:
  HostMatmul(const cuda::MatmulProblem& problem, HostGpuCounts& counts) : p_(problem), counts_(counts) {}
  size_t workspace_bytes() const override { return 24; }  // so that scratch memory is exercised
  cuda::Fault Run(void* const* buffers) const override {
    ++counts_.calls;
    const int extra = (p_.bias ? 1 : 0) + (p_.residual ? 1 : 0);
    ExpectAligned(buffers, 0, 2, static_cast<uintptr_t>(p_.alignment));
    ExpectAligned(buffers, 2, 1 + extra, 16);
    ExpectAligned(buffers, 3 + extra, 1, 256);
    counts_.factors.insert(buffers[1]);
    const HostElements left(buffers[0], p_.precision);
    const HostElements right(buffers[1], p_.precision);
    Epilogue epilogue(p_, buffers);
    std::memset(buffers[3 + extra], 0xff, workspace_bytes());
    const auto start = [&](const cuda::MatrixLayout& layout, int64_t b) {
      return b / p_.batch * layout.outer + b % p_.batch * layout.batch;
    };
    for (int64_t b = 0; b < p_.outer * p_.batch; ++b) {
      for (int64_t m = 0; m < p_.m; ++m) {
        for (int64_t n = 0; n < p_.n; ++n) {
          double sum = 0;
          for (int64_t k = 0; k < p_.k; ++k) {
            sum += left[start(p_.left, b) + m * p_.left.row + k * p_.left.column] *
                   right[start(p_.right, b) + k * p_.right.row + n * p_.right.column];
          }
          epilogue.Finish(sum, n, start(p_.out, b) + m * p_.out.row + n * p_.out.column);
        }
      }
    }
    return {};
  }

 private:
  const cuda::MatmulProblem p_;
  HostGpuCounts& counts_;
};

class HostConv : public cuda::LibraryCall {
 public:
  HostConv(const cuda::ConvProblem& problem, HostGpuCounts& counts) : p_(problem), counts_(counts) {}
  size_t workspace_bytes() const override { return 0; }
  cuda::Fault Run(void* const* buffers) const override {
    ++counts_.calls;
    ExpectAligned(buffers, 0, 3 + (p_.bias ? 1 : 0) + (p_.residual ? 1 : 0), 16);
    const HostElements x(buffers[0], p_.precision), w(buffers[1], p_.precision);
    Epilogue epilogue(p_, buffers);
    const int64_t group_out = p_.w[0] / p_.groups;
    for (int64_t n = 0; n < p_.out[0]; ++n) {
      for (int64_t o = 0; o < p_.out[1]; ++o) {
        for (int64_t y = 0; y < p_.out[2]; ++y) {
          for (int64_t z = 0; z < p_.out[3]; ++z) {
            double sum = 0;
            for (int64_t c = 0; c < p_.w[1]; ++c) {
              for (int64_t r = 0; r < p_.w[2]; ++r) {
                for (int64_t s = 0; s < p_.w[3]; ++s) {
                  const int64_t h = y * p_.strides[0] - p_.pads[0] + r * p_.dilations[0];
                  const int64_t v = z * p_.strides[1] - p_.pads[1] + s * p_.dilations[1];
                  if (h < 0 || h >= p_.x[2] || v < 0 || v >= p_.x[3]) continue;
                  sum += x[At(p_.x_strides, n, o / group_out * p_.w[1] + c, h, v)] * w[At(p_.w_strides, o, c, r, s)];
                }
              }
            }
            epilogue.Finish(sum, o, At(p_.out_strides, n, o, y, z));
          }
        }
      }
    }
    return {};
  }

 private:
  const cuda::ConvProblem p_;
  HostGpuCounts& counts_;
};

class HostAttention : public cuda::LibraryCall {
 public:
  HostAttention(const cuda::AttentionProblem& problem, HostGpuCounts& counts) : p_(problem), counts_(counts) {}
  size_t workspace_bytes() const override { return 0; }
  cuda::Fault Run(void* const* buffers) const override {
    ++counts_.attentions;
    ExpectAligned(buffers, 0, p_.mask ? 5 : 4, 16);
    for (int64_t b = 0; b < p_.batch; ++b) {
      for (int64_t h = 0; h < p_.heads; ++h) {
        for (int64_t q = 0; q < p_.queries; ++q) Row(buffers, b, h, q);
      }
    }
    return {};
  }

 private:
  void Row(void* const* buffers, int64_t b, int64_t h, int64_t q) const {
    const HostElements query(buffers[0], p_.precision), key(buffers[1], p_.precision), value(buffers[2], p_.precision);
    HostElements out(buffers[3], p_.precision);
    const HostElements mask(p_.mask ? buffers[4] : nullptr, p_.precision);
    std::vector<double> scores(static_cast<size_t>(p_.keys), 0);
    double largest = -INFINITY, sum = 0;
    for (int64_t k = 0; k < p_.keys; ++k) {
      double& score = scores[k];
      for (int64_t d = 0; d < p_.depth; ++d) {
        score += query[At(p_.query_strides, b, h, q, d)] * key[At(p_.key_strides, b, h, d, k)];
      }
      score *= p_.scale;
      const auto at = [&](int axis, int64_t i) { return p_.mask_sizes[axis] == 1 ? 0 : i; };
      if (p_.mask) score += mask[At(p_.mask_strides, at(0, b), at(1, h), at(2, q), at(3, k))];
      largest = std::max(largest, score);
    }
    for (double& score : scores) sum += score = std::exp(score - largest);
    for (int64_t e = 0; e < p_.value_depth; ++e) {
      double total = 0;
      for (int64_t k = 0; k < p_.keys; ++k) {
        total += scores[k] / sum * value[At(p_.value_strides, b, h, k, e)];
      }
      out.Set(At(p_.out_strides, b, h, q, e), total);
    }
  }

  const cuda::AttentionProblem p_;
  HostGpuCounts& counts_;
};

class HostPool : public cuda::LibraryCall {
 public:
  HostPool(const cuda::PoolProblem& problem, HostGpuCounts& counts) : p_(problem), counts_(counts) {
    // The library's own condition on sizes.
    for (int k = 0; k < 2; ++k) {
      const int64_t whole = p_.x[k + 2] + p_.pads[k] + p_.pads[k + 2];
      CHECK(p_.out[k + 2] == (whole - p_.kernel[k]) / p_.strides[k] + 1) << p_.out[k + 2];
      CHECK(p_.pads[k] < p_.kernel[k] && p_.pads[k + 2] < p_.kernel[k]);
    }
  }
  size_t workspace_bytes() const override { return 24; }
  cuda::Fault Run(void* const* buffers) const override {
    ++counts_.pools;
    ExpectAligned(buffers, 0, 2, 16);
    ExpectAligned(buffers, 2, 1, 256);
    std::memset(buffers[2], 0xff, workspace_bytes());
    const HostElements x(buffers[0], p_.precision);
    HostElements out(buffers[1], p_.precision);
    for (int64_t n = 0; n < p_.out[0]; ++n) {
      for (int64_t c = 0; c < p_.out[1]; ++c) {
        for (int64_t y = 0; y < p_.out[2]; ++y) {
          for (int64_t z = 0; z < p_.out[3]; ++z) out.Set(At(p_.out_strides, n, c, y, z), Window(x, n, c, y, z));
        }
      }
    }
    return {};
  }

 private:
  double Window(const HostElements& x, int64_t n, int64_t c, int64_t y, int64_t z) const {
    double largest = -INFINITY, sum = 0;
    int64_t inside = 0;
    for (int64_t r = 0; r < p_.kernel[0]; ++r) {
      for (int64_t s = 0; s < p_.kernel[1]; ++s) {
        const int64_t h = y * p_.strides[0] - p_.pads[0] + r, w = z * p_.strides[1] - p_.pads[1] + s;
        if (h < 0 || h >= p_.x[2] || w < 0 || w >= p_.x[3]) continue;
        const double element = x[At(p_.x_strides, n, c, h, w)];
        largest = std::max(largest, element);
        sum += element;
        ++inside;
      }
    }
    if (p_.mode == cuda::PoolMode::kMax) return largest;
    return sum / static_cast<double>(p_.mode == cuda::PoolMode::kMean ? inside : p_.kernel[0] * p_.kernel[1]);
  }

  const cuda::PoolProblem p_;
  HostGpuCounts& counts_;
};

class HostLayerNorm : public cuda::LibraryCall {
 public:
  HostLayerNorm(const cuda::LayerNormProblem& problem, HostGpuCounts& counts) : p_(problem), counts_(counts) {}
  size_t workspace_bytes() const override { return 0; }
  cuda::Fault Run(void* const* buffers) const override {
    ++counts_.norms;
    ExpectAligned(buffers, 0, 4, 16);
    const HostElements x(buffers[0], p_.precision), scale(buffers[1], cuda::Precision::kFp32),
        bias(buffers[2], cuda::Precision::kFp32);
    HostElements out(buffers[3], p_.precision);
    const double count = static_cast<double>(p_.columns);
    for (int64_t i = 0; i < p_.rows; ++i) {
      const int64_t row = i * p_.columns;
      double mean = 0, variance = 0;
      for (int64_t j = 0; j < p_.columns; ++j) mean += x[row + j] / count;
      for (int64_t j = 0; j < p_.columns; ++j) variance += (x[row + j] - mean) * (x[row + j] - mean) / count;
      for (int64_t j = 0; j < p_.columns; ++j) {
        out.Set(row + j, (x[row + j] - mean) / std::sqrt(variance + p_.epsilon) * scale[j] + bias[j]);
      }
    }
    return {};
  }

 private:
  const cuda::LayerNormProblem p_;
  HostGpuCounts& counts_;
};

std::unique_ptr<cuda::LibraryCall> MakeHostCall(const cuda::MatmulProblem& problem, HostGpuCounts& counts) {
  return std::make_unique<HostMatmul>(problem, counts);
}
std::unique_ptr<cuda::LibraryCall> MakeHostCall(const cuda::ConvProblem& problem, HostGpuCounts& counts) {
  return std::make_unique<HostConv>(problem, counts);
}
std::unique_ptr<cuda::LibraryCall> MakeHostCall(const cuda::AttentionProblem& problem, HostGpuCounts& counts) {
  return std::make_unique<HostAttention>(problem, counts);
}
std::unique_ptr<cuda::LibraryCall> MakeHostCall(const cuda::PoolProblem& problem, HostGpuCounts& counts) {
  return std::make_unique<HostPool>(problem, counts);
}
std::unique_ptr<cuda::LibraryCall> MakeHostCall(const cuda::LayerNormProblem& problem, HostGpuCounts& counts) {
  return std::make_unique<HostLayerNorm>(problem, counts);
}

}  // namespace

std::unique_ptr<cuda::LibraryCall> MakeHostCall(const cuda::Problem& problem, HostGpuCounts& counts) {
  return std::visit([&](const auto& p) { return MakeHostCall(p, counts); }, problem);
}

}  // namespace rewright
