#include <functional>

#include "core/base/status_macros.h"
#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {
namespace {

// Of one element: `shifted` is x[i] - max j: x[j], `sum` is sum j: exp(x[j] - max k: x[k]).
using Normalize = std::function<Scalar(const Scalar& shifted, const Scalar& sum)>;

OpDef AlongAxis(const std::string& name, const std::string& summary, const Normalize& normalize) {
  return OpDef{
      .name = name,
      .summary = summary,
      .inputs = {"x"},
      .attrs = {AxisAttr("axis", Attr(-1), "axis that is normalized")},
      .meaning = [normalize](OpBuilder& b) -> absl::Status {
        RETURN_IF_ERROR(CheckElements(b, Elements::kFloats));
        const int axis = static_cast<int>(b.Int("axis"));
        const Index size = b.size(0, axis);
        b.Output(b.dtype(0), b.sizes(0), [&](const std::vector<Index>& i) {
          auto x = [&](const std::vector<Index>& j) { return b.Read(0, With(i, axis, j[0])); };
          const Scalar max = b.Shift(b.MaxOver({{"k", size}}, x));
          const Scalar sum = b.Sum({{"j", size}}, [&](const std::vector<Index>& j) { return Exp(x(j) - max); });
          return normalize(b.Read(0, i) - max, sum);
        });
        return absl::OkStatus();
      },
      .sample =
          [](Rng& rng) {
            const TensorType x = RandomTensor(rng, Elements::kFloats, 1, 4);
            return OpSample{.inputs = {x}, .attrs = {{"axis", RandomInt(rng, -x.rank(), x.rank() - 1)}}};
          }};
}

}  // namespace

// out[.., i, ..] = e[i] / sum j: e[j]  with  e[j] = exp(x[.., j, ..] - max k: x[.., k, ..])
OpDef SoftmaxOp() {
  return AlongAxis("softmax", "Exponentials divided by their sum along an axis.",
                   [](const Scalar& shifted, const Scalar& sum) { return Exp(shifted) / sum; });
}

// out[.., i, ..] = d[i] - log(sum j: exp(d[j]))  with  d[j] = x[.., j, ..] - max k: x[.., k, ..]
OpDef LogSoftmaxOp() {
  return AlongAxis("log_softmax", "The logarithm of softmax.",
                   [](const Scalar& shifted, const Scalar& sum) { return shifted - Log(sum); });
}

}  // namespace rewright
