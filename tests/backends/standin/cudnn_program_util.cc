#include "tests/backends/standin/cudnn_program_util.h"

#include <cudnn.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/backends/standin/standin_util.h"

namespace rewright::standin {
namespace {

using Kind = ProgramOperation::Kind;

int64_t Count(const Dims& dims) {
  int64_t count = 1;
  for (int64_t d : dims) count *= d;
  return count;
}

// Elements in row-major order, whatever the tensor's strides are.
struct Values {
  Dims dims = {};
  std::vector<double> elements;

  // Axes of size one are repeated.
  double At(const Dims& index) const {
    int64_t at = 0;
    for (size_t k = 0; k < dims.size(); ++k) at = at * dims[k] + (dims[k] == 1 ? 0 : index[k]);
    return elements[static_cast<size_t>(at)];
  }
};

template <typename Visit>
void ForEach(const Dims& dims, const Visit& visit) {
  Dims index = {};
  for (int64_t i = 0; i < Count(dims); ++i) {
    visit(index, i);
    for (size_t k = dims.size(); k-- > 0;) {
      if (++index[k] < dims[k]) break;
      index[k] = 0;
    }
  }
}

int64_t Offset(const ProgramTensor& tensor, const Dims& index) {
  int64_t at = 0;
  for (size_t k = 0; k < index.size(); ++k) at += index[k] * tensor.strides[k];
  return at;
}

double Function(const ProgramOperation& op, double x, double y) {
  switch (op.mode) {
    case CUDNN_POINTWISE_ADD: return x + y;
    case CUDNN_POINTWISE_SUB: return x - y;
    case CUDNN_POINTWISE_MUL: return x * y;
    case CUDNN_POINTWISE_DIV: return x / y;
    case CUDNN_POINTWISE_EXP: return std::exp(x);
    case CUDNN_POINTWISE_LOG: return std::log(x);
    case CUDNN_POINTWISE_RELU_FWD: return x < 0 ? 0 : x > op.most ? op.most : x;
    case CUDNN_POINTWISE_GELU_FWD: return GeluErf(x);
    default: return Misuse(absl::StrCat("nobody has function ", op.mode)), 0;
  }
}

double Convolved(const ProgramOperation& op, const Values& x, const Values& w, const Dims& o) {
  const int64_t group = o[1] / (w.dims[0] / (x.dims[1] / w.dims[1]));
  double sum = 0;
  ForEach({1, w.dims[1], w.dims[2], w.dims[3]}, [&](const Dims& i, int64_t) {
    const int64_t h = o[2] * op.strides[0] - op.before[0] + i[2] * op.dilations[0];
    const int64_t v = o[3] * op.strides[1] - op.before[1] + i[3] * op.dilations[1];
    if (h < 0 || h >= x.dims[2] || v < 0 || v >= x.dims[3]) return;
    sum += x.At({o[0], group * w.dims[1] + i[1], h, v}) * w.At({o[1], i[1], i[2], i[3]});
  });
  return sum;
}

double Pooled(const ProgramOperation& op, const Values& x, const Dims& o) {
  double largest = -INFINITY, sum = 0;
  int64_t inside = 0;
  ForEach({1, 1, op.window[0], op.window[1]}, [&](const Dims& i, int64_t) {
    const int64_t h = o[2] * op.strides[0] - op.before[0] + i[2], v = o[3] * op.strides[1] - op.before[1] + i[3];
    if (h < 0 || h >= x.dims[2] || v < 0 || v >= x.dims[3]) return;
    const double element = x.At({o[0], o[1], h, v});
    largest = std::max(largest, element);
    sum += element;
    ++inside;
  });
  if (op.mode == CUDNN_RESAMPLE_MAXPOOL) return largest;
  return sum /
         static_cast<double>(op.mode == CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING ? inside : op.window[0] * op.window[1]);
}

double Reduced(int mode, const Values& x, const Dims& out_dims, const Dims& o) {
  Dims inner;
  for (size_t k = 0; k < inner.size(); ++k) inner[k] = out_dims[k] == x.dims[k] ? 1 : x.dims[k];
  double result = mode == CUDNN_REDUCE_TENSOR_MAX ? -INFINITY : 0;
  ForEach(inner, [&](const Dims& i, int64_t) {
    Dims at = o;
    for (size_t k = 0; k < at.size(); ++k) at[k] += i[k];
    result = mode == CUDNN_REDUCE_TENSOR_MAX ? std::max(result, x.At(at)) : result + x.At(at);
  });
  return result;
}

double Normalized(const Values& x, const Values& scale, const Values& bias, double epsilon, const Dims& o) {
  Dims row = x.dims;
  row[0] = 1;
  const double count = static_cast<double>(Count(row));
  double mean = 0, variance = 0;
  const auto each = [&](const auto& visit) {
    ForEach(row, [&](Dims i, int64_t) {
      i[0] = o[0];
      visit(x.At(i));
    });
  };
  each([&](double e) { mean += e / count; });
  each([&](double e) { variance += (e - mean) * (e - mean) / count; });
  return (x.At(o) - mean) / std::sqrt(variance + epsilon) * scale.At(o) + bias.At(o);
}

double Element(const ProgramOperation& op, const std::vector<Values>& in, const Dims& o) {
  switch (op.kind) {
    case Kind::kConv: return Convolved(op, in[0], in[1], o);
    case Kind::kPointwise: return Function(op, in[0].At(o), in.size() > 1 ? in[1].At(o) : 0);
    case Kind::kMatmul: {
      double sum = 0;
      Dims a = o, b = o;
      for (int64_t k = 0; k < in[0].dims.back(); ++k) {
        a.back() = b[b.size() - 2] = k;
        sum += in[0].At(a) * in[1].At(b);
      }
      return sum;
    }
    case Kind::kReduce: return Reduced(op.mode, in[0], op.out->dims, o);
    case Kind::kPool: return Pooled(op, in[0], o);
    case Kind::kLayerNorm: return Normalized(in[0], in[1], in[2], in[3].elements[0], o);
  }
  return 0;
}

bool Fit(const ProgramOperation& op) {
  const Dims& out = op.out->dims;
  const Dims& x = op.inputs[0]->dims;
  switch (op.kind) {
    case Kind::kConv:
    case Kind::kPool: {
      if (op.before.size() != 2 || op.after.size() != 2 || op.strides.size() != 2) return false;
      const bool conv = op.kind == Kind::kConv;
      for (size_t k = 0; k < 2; ++k) {
        const int64_t reach = conv ? (op.inputs[1]->dims[k + 2] - 1) * op.dilations[k] + 1 : op.window[k];
        if (out[k + 2] != (x[k + 2] + op.before[k] + op.after[k] - reach) / op.strides[k] + 1) return false;
      }
      if (!conv) return x[1] == out[1];
      const Dims& w = op.inputs[1]->dims;
      return w[0] == out[1] && x[1] % w[1] == 0 && out[1] % (x[1] / w[1]) == 0;
    }
    case Kind::kMatmul: {
      const Dims& b = op.inputs[1]->dims;
      const size_t r = out.size();
      return x[r - 1] == b[r - 2] && out[r - 2] == x[r - 2] && out[r - 1] == b[r - 1];
    }
    default: break;
  }
  for (const auto& input : op.inputs) {
    for (size_t k = 0; k < out.size(); ++k) {
      const bool fits = input->dims[k] == out[k] || input->dims[k] == 1 || (op.kind == Kind::kReduce && out[k] == 1);
      if (!fits) return false;
    }
  }
  return true;
}

template <typename Visit>
void ForEachTensor(const Program& program, const Visit& visit) {
  for (const ProgramOperation& op : program.operations) {
    for (const auto& input : op.inputs) visit(*input);
    visit(*op.out);
  }
}

}  // namespace

void CheckProgram(const Program& program) {
  std::set<int64_t> given;
  for (const ProgramOperation& op : program.operations) {
    if (op.out == nullptr || std::count(op.inputs.begin(), op.inputs.end(), nullptr) > 0) {
      return Misuse("an operation without a tensor");
    }
    for (const auto& input : op.inputs) {
      if (input->is_virtual && given.count(input->uid) == 0) Misuse("a value is read before it is given");
    }
    if (!given.insert(op.out->uid).second) Misuse("a value is given twice");
    if (!Fit(op)) Misuse(absl::StrCat("sizes of operation ", static_cast<int>(op.kind), " do not fit"));
  }
}

void BindProgram(const Program& program, BoundTensors* bindings) {
  std::set<int64_t> known;
  ForEachTensor(program, [&](const ProgramTensor& tensor) {
    known.insert(tensor.uid);
    if (tensor.is_virtual) return;
    const auto found = bindings->addresses.find(tensor.uid);
    if (found == bindings->addresses.end()) return Misuse(absl::StrCat("tensor ", tensor.uid, " has no address"));
    if (tensor.by_value) {
      bindings->values[tensor.uid] = *static_cast<const float*>(found->second);
      return;
    }
    Dims last = tensor.dims;
    for (int64_t& i : last) --i;
    CheckRange(found->second, static_cast<size_t>(Offset(tensor, last) + 1) * BytesOf(tensor.type),
               static_cast<size_t>(tensor.alignment), absl::StrCat("tensor ", tensor.uid));
  });
  for (const auto& [uid, address] : bindings->addresses) {
    if (known.count(uid) == 0) Misuse(absl::StrCat("an address for ", uid, ", which is no tensor of the graph"));
  }
}

void RunProgram(const Program& program, const BoundTensors& bindings) {
  std::map<int64_t, Values> values;
  const auto value_of = [&](const ProgramTensor& tensor) {
    const auto known = values.find(tensor.uid);
    if (known != values.end()) return known->second;
    Values read{tensor.dims, std::vector<double>(static_cast<size_t>(Count(tensor.dims)))};
    if (tensor.by_value) {
      read.elements[0] = bindings.values.at(tensor.uid);
    } else {
      const void* data = bindings.addresses.at(tensor.uid);
      ForEach(tensor.dims,
              [&](const Dims& i, int64_t k) { read.elements[k] = Load(data, Offset(tensor, i), tensor.type); });
    }
    return read;
  };
  for (const ProgramOperation& op : program.operations) {
    std::vector<Values> in;
    for (const auto& input : op.inputs) in.push_back(value_of(*input));
    Values out{op.out->dims, std::vector<double>(static_cast<size_t>(Count(op.out->dims)))};
    ForEach(op.out->dims, [&](const Dims& o, int64_t k) {
      out.elements[k] = Rounded(op.out->type, Element(op, in, o));
      if (!op.out->is_virtual)
        Store(bindings.addresses.at(op.out->uid), Offset(*op.out, o), op.out->type, out.elements[k]);
    });
    values[op.out->uid] = std::move(out);
  }
}

}  // namespace rewright::standin
