// Optimizers as graphs: they map weights, gradients and the optimizer's states to the next values of all of them.
//
// An optimizer has states beside the weights: `optimizer.step` (i64[], the updates made so far) and, for a weight `w`,
// `w.momentum`, or `w.adam_m` and `w.adam_v`. The rate of learning is a function of the step, inside the graph, so a
// resumed run needs nothing else. Scalars are computed in f64.
//
// Formulas, with g the gradient (clipped), r the rate and d the weight decay:
//
//   sgd       g += d w;  w -= r g
//   momentum  g += d w;  m = mu m + g;  w -= r m
//   nesterov  g += d w;  m = mu m + g;  w -= r (g + mu m)     (Sutskever et al. 2013, in the form of PyTorch)
//   adam      g += d w;  then as adamw without decay          (Kingma and Ba 2015)
//   adamw     w -= r d w;  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;          (Loshchilov and Hutter 2019)
//             w -= r (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon),  t = step + 1
//
// Clipping by global norm multiplies all gradients by min(1, clip_norm / (|g| + 1e-6)), |g| over all of them together.
// Where the loss, a gradient or a next value is not finite, all states keep their values, `optimizer.step` among them.
// Next values are finite if the gradients and their squares are (LargestGradient), unless a rate, a decay or an epsilon
// is unusual (MayOverflow). In that case, and for values that the model gives its states, next values are checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"

namespace rewright {

// The rate as a function of s, the number of updates made before:
//
//   constant  rate
//   step      rate * gamma^floor(s / every)
//   cosine    final + (rate - final) (1 + cos(pi min(s, steps) / steps)) / 2     (Loshchilov and Hutter 2017)
//
// During a warm-up of so many updates it is rate * (s + 1) / warmup instead, and s counts from its end.
struct RateSchedule {
  enum class Kind : uint8_t { kConstant, kStep, kCosine };
  Kind kind = Kind::kConstant;
  int64_t warmup = 0;
  int64_t every = 1;  // kStep
  double gamma = 0.1;
  int64_t steps = 1;  // kCosine, without the warm-up
  double final_rate = 0;
};

// Weights that differ from the others: the first group whose pattern fits a name counts.
struct WeightGroup {
  std::string match;  // * stands for any text, ? for any character
  std::optional<double> weight_decay;
  double rate_scale = 1;
};

struct OptimizerOptions {
  enum class Kind : uint8_t { kSgd, kMomentum, kNesterov, kAdam, kAdamW };
  Kind kind = Kind::kAdamW;
  double learning_rate = 1e-3;
  RateSchedule schedule;
  double momentum = 0.9;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0;
  double clip_norm = 0;  // 0: no clipping
  std::vector<WeightGroup> groups;
};

// Returns whether the whole name fits a pattern with * and ?.
bool MatchesPattern(const std::string& pattern, const std::string& name);

// f64[]: the rate of learning after `step` (i64[]) updates.
Value AddSchedule(Arena& arena, double rate, const RateSchedule& schedule, Value step);

// Suffixes that make the names of a weight's states from its name: those of the weight itself, and of the optimizer.
inline constexpr const char* kKeptSuffixes[] = {"", ".momentum", ".adam_m", ".adam_v"};

// The axis of a weight along which its gradient's norm is added up last, and along which ranks that share the
// optimizer's states have their blocks (layout.h): a rank's part of the norm is then the same number wherever it is
// computed. It is the first of the axes whose size most numbers of ranks up to 8 divide. REQUIRES: no scalar.
int SharedAxis(const Shape& shape);

// Gradients of that type are too large from here on: the root of its largest number; infinity for 16-bit types, whose
// next values are looked at.
double LargestGradient(DType dtype);
// Returns whether a next value may be no finite number although the gradients are below LargestGradient and the
// optimizer's states are finite: a rate that 1e9 updates may add up to the largest number, a decay that makes weights
// grow, an epsilon of 0.
bool MayOverflow(const OptimizerOptions& options, DType dtype);

struct OptimizerGraph {
  // Next values: of the weights in their order, of the optimizer state, then those that the model gives.
  std::vector<Output> updates;
  Value learning_rate;  // f64[]: of this update
  // f64[1 + weights]: the magnitude of the loss and the largest one of each gradient before clipping. Not finite
  // exactly where an element is not (in f32, gradients in f64 may be larger).
  Value magnitudes;
  // f64[checked]: the largest magnitude of next values, of these states (and, of a weight, of what is kept for it); no
  // node where none are looked at.
  Value next_magnitudes;
  std::vector<std::string> checked;
  Value gradient_norm;  // f64[]: before clipping; no node without it
  Value finite;         // bool[]: whether all magnitudes are, those of gradients in bounds: states get next values
};

// `gradients[i]` is of the type of weights[i], a state; `model_next` are the next values that the model gives its own
// states. Errors: a group that fits no weight, a state of the model that has the name of an optimizer state.
absl::StatusOr<OptimizerGraph> AddOptimizer(Arena& arena, const OptimizerOptions& options,
                                            const std::vector<Value>& weights, const std::vector<Value>& gradients,
                                            Value loss, const std::vector<std::string>& names_taken,
                                            const std::vector<Output>& model_next = {});

// A step at values of the optimizer state where next values hardly depend on how gradients are rounded: what it is
// checked at. Adam divides by the root of adam_v, which is zero before the first update, as gradients may nearly be.
absl::StatusOr<Graph> AtSmoothStates(const Graph& step);

}  // namespace rewright
