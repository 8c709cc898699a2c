#include "runtime/training/loss.h"

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/ops/ops.h"
#include "runtime/training/term.h"

namespace rewright {
namespace {

// 1 at the label's class, along a last axis: truth values.
Term OneHot(const Term& labels, const Shape& shape) {
  const auto classes = labels.arena().Add(
      *ops::Iota(), {}, {{"shape", Shape{shape.back()}}, {"axis", int64_t{0}}, {"dtype", DType::kInt64}});
  CHECK(classes.ok()) << classes.status();
  Shape column = labels.type().shape;
  column.push_back(1);
  return Equal(labels.Reshape(column), Term(labels.arena(), Value{*classes, 0}));
}

}  // namespace

absl::StatusOr<TensorType> TargetType(LossKind kind, const TensorType& prediction) {
  if (!IsFloating(prediction.dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("found an output ", prediction.ToString(), ", expected floating-point elements"));
  }
  const int rank = kind == LossKind::kCrossEntropy ? 2 : 1;
  if (prediction.rank() < rank) {
    return absl::InvalidArgumentError(
        absl::StrCat("found an output ", prediction.ToString(), ", expected ",
                     rank == 2 ? "an axis of samples and one of classes" : "an axis of samples"));
  }
  if (kind == LossKind::kMeanSquaredError) return prediction;
  return TensorType{DType::kInt64, Shape(prediction.shape.begin(), prediction.shape.end() - 1)};
}

LossGraph AddLoss(Arena& arena, LossKind kind, Value prediction, Value target) {
  const Term predicted(arena, prediction), wanted(arena, target);
  LossGraph loss;
  Term elements = predicted;
  if (kind == LossKind::kCrossEntropy) {
    const int64_t last = predicted.type().rank() - 1;
    const Term logs = Apply(ops::LogSoftmax(), {predicted}, {{"axis", last}});
    elements = -Sum(Where(OneHot(wanted, predicted.type().shape), logs, logs.Like(0)), {last});
    const Term guess = Apply(ops::Argmax(), {predicted}, {{"axis", last}, {"keepdims", int64_t{0}}});
    const Term right = Equal(guess, wanted).Cast(predicted.type().dtype);
    loss.correct = Mean(right, AxesFrom(right, 1)).value();
  } else {
    const Term error = predicted - wanted;
    elements = error * error;
  }
  const Term samples = Mean(elements, AxesFrom(elements, 1));
  loss.samples = samples.value();
  loss.mean = Mean(samples, {0}).value();
  return loss;
}

}  // namespace rewright
