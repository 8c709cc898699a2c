#include <functional>

#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {
namespace {

// Computes one element: `shifted` is x[i] - max j: x[j], `sum` is sum j: exp(x[j] - max k: x[k]).
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
        return OnlyOutput(b, b.dtype(0), b.sizes(0), [&](const std::vector<Index>& i) {
          auto x = [&](const std::vector<Index>& j) { return b.Read(0, With(i, axis, j[0])); };
          const Scalar max = b.Shift(b.MaxOver({{"k", size}}, x));
          const Scalar sum = b.Sum({{"j", size}}, [&](const std::vector<Index>& j) { return Exp(x(j) - max); });
          return normalize(b.Read(0, i) - max, sum);
        });
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

// labels[a.., c..]: out[a.., c..] = log(sum j: exp(d[j])) - d[labels[a.., c..] mod n]  with
// d[j] = x[a.., j, c..] - max k < n: x[a.., k, c..]
static absl::Status CrossEntropyMeaning(OpBuilder& b) {
  RETURN_IF_ERROR(CheckElements(b, 0, Elements::kFloats));
  RETURN_IF_ERROR(CheckElements(b, 1, Elements::kIntegers));
  const int axis = static_cast<int>(b.Int("axis"));
  RETURN_IF_ERROR(CheckRank(b, 1, b.rank(0) - 1));
  const Index classes = b.size(0, axis);
  std::vector<Index> shape = b.sizes(0);
  shape.erase(shape.begin() + axis);
  b.Require(classes >= 1, "there must be a class");
  for (size_t k = 0; k < shape.size(); ++k) {
    b.Require(b.size(1, static_cast<int>(k)) == shape[k], "labels must have the shape of x without its axis");
  }
  return OnlyOutput(b, b.dtype(0), shape, [&](const std::vector<Index>& i) {
    const auto x = [&](const std::vector<Index>& j) {
      std::vector<Index> at = i;
      at.insert(at.begin() + axis, j[0]);
      return b.Read(0, at);
    };
    const Scalar max = b.Shift(b.MaxOver({{"k", classes}}, x));
    const Scalar sum = b.Sum({{"j", classes}}, [&](const std::vector<Index>& j) { return Exp(x(j) - max); });
    return Log(sum) - (x({Mod(ToIndex(b.Read(1, i)), classes)}) - max);
  });
}

static OpSample CrossEntropySample(Rng& rng) {
  const TensorType x = RandomTensor(rng, Elements::kFloats, 1, 3);
  const int64_t axis = RandomInt(rng, 0, x.rank() - 1);
  TensorType labels{RandomDType(rng, Elements::kIntegers), x.shape};
  labels.shape.erase(labels.shape.begin() + axis);
  return IndexSample({x, labels}, axis);
}

OpDef CrossEntropyOp() {
  return OpDef{.name = "cross_entropy",
               .summary = "The negative logarithm of softmax at a label; an overflow of exponentials cannot occur.",
               .inputs = {"x", "labels"},
               .attrs = {AxisAttr("axis", Attr(-1), "axis of the classes")},
               .meaning = CrossEntropyMeaning,
               .sample = CrossEntropySample};
}

}  // namespace rewright
