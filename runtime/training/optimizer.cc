#include "runtime/training/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/ir/text.h"
#include "core/ops/ops.h"
#include "runtime/training/files/safetensors.h"
#include "runtime/training/term.h"

namespace rewright {
namespace {

using Kind = OptimizerOptions::Kind;

constexpr char kStepState[] = "optimizer.step";
constexpr char kSecondMoment[] = ".adam_v";
// Ranks share this many numbers for the norm of a weight, if their number divides it.
constexpr int64_t kNormBlocks = 24;

// The sum of the squares of the elements, f64[]. Ranks that have blocks along SharedAxis add up their elements in the
// same order, and share a number for each of kNormBlocks blocks: rows are added in an order that their length decides,
// float64 one by one.
Term SumOfSquares(const Term& gradient) {
  Term rows = gradient * gradient;
  const Shape& shape = gradient.type().shape;
  if (shape.empty()) return rows.Cast(DType::kFloat64);
  const int axis = SharedAxis(shape);
  const int64_t before = NumElements(Shape(shape.begin(), shape.begin() + axis));
  int64_t size = shape[axis];
  const int64_t blocks = std::gcd(size, kNormBlocks);
  if (axis + 1 < gradient.type().rank()) {
    rows = Sum(rows, AxesFrom(gradient, axis + 1));
  } else if (before > 1) {
    rows = Sum(rows.Reshape({before, blocks, size / blocks}), {2});
    size = blocks;
  }
  rows = rows.Cast(DType::kFloat64);
  // No axis of size 1 in front: there is no law for that.
  const Term in_blocks = before > 1 ? Sum(rows.Reshape({before, blocks, size / blocks}), {0, 2})
                                    : Sum(rows.Reshape({blocks, size / blocks}), {1});
  return Sum(in_blocks, {0});
}

// Settings of one weight.
struct Settings {
  double weight_decay = 0, rate_scale = 1;
};

absl::StatusOr<std::vector<Settings>> SettingsOf(const OptimizerOptions& options,
                                                 const std::vector<std::string>& names) {
  std::vector<Settings> settings(names.size(), {options.weight_decay, 1});
  std::vector<bool> taken(names.size(), false);
  for (const WeightGroup& group : options.groups) {
    bool fits = false;
    for (size_t i = 0; i < names.size(); ++i) {
      if (!MatchesPattern(group.match, names[i])) continue;
      fits = true;
      if (taken[i]) continue;
      taken[i] = true;
      settings[i] = {group.weight_decay.value_or(options.weight_decay), group.rate_scale};
    }
    if (!fits) {
      return absl::InvalidArgumentError(absl::StrCat("the group `", group.match, "` fits none of the ", names.size(),
                                                     " weights that are trained, such as ", names.front()));
    }
  }
  return settings;
}

class OptimizerBuilder {
 public:
  OptimizerBuilder(Arena& arena, const OptimizerOptions& options, const std::vector<std::string>& taken)
      : arena_(arena), options_(options), taken_(taken) {}

  absl::StatusOr<OptimizerGraph> Build(const std::vector<Value>& weights, const std::vector<Value>& gradients,
                                       Value loss, const std::vector<Output>& model_next) {
    CHECK(weights.size() == gradients.size() && !weights.empty()) << weights.size();
    std::vector<std::string> names;
    for (Value weight : weights) names.push_back(arena_.node(weight.node).name);
    ASSIGN_OR_RETURN(const std::vector<Settings> settings, SettingsOf(options_, names));
    ASSIGN_OR_RETURN(const Term step, Keep(kStepState, Tensor({DType::kInt64, {}})));
    const Term rate(arena_, AddSchedule(arena_, options_.learning_rate, options_.schedule, step.value()));
    count_ = (step + 1).Cast(DType::kFloat64).value();
    graph_.learning_rate = rate.value();
    AddMagnitudes(loss, gradients);
    const Value clip = Clip(gradients);
    std::vector<Next> kept, next;
    for (size_t i = 0; i < weights.size(); ++i) {
      const Term weight(arena_, weights[i]);
      Term gradient(arena_, gradients[i]);
      CHECK(gradient.type() == weight.type()) << names[i];
      const DType dtype = weight.type().dtype;
      if (clip.node >= 0) gradient = gradient * Term(arena_, clip).Cast(dtype);
      const Term own_rate = settings[i].rate_scale == 1 ? rate : rate * settings[i].rate_scale;
      const size_t before = kept.size();
      ASSIGN_OR_RETURN(const Term next_weight,
                       AddWeight(names[i], weight, gradient, own_rate, settings[i].weight_decay, &kept));
      next.push_back({names[i], weight, next_weight});
      if (!MayOverflow(options_, dtype)) continue;
      Term largest = Abs(next_weight);
      for (size_t k = before; k < kept.size(); ++k) largest = Max(largest, Abs(kept[k].value));
      Check(names[i], largest);
    }
    kept.push_back({kStepState, step, step + 1});
    next.insert(next.end(), kept.begin(), kept.end());
    for (const Output& output : model_next) {
      next.push_back({output.name, Term(arena_, output.updates), Term(arena_, output.value)});
      if (IsFloating(next.back().value.type().dtype)) Check(output.name, next.back().value);
    }
    graph_.finite = Finite().value();
    for (const Next& one : next) {
      const Term chosen = Where(Term(arena_, graph_.finite), one.value, one.state);
      graph_.updates.push_back({chosen.value(), one.name, one.state.value()});
    }
    return graph_;
  }

 private:
  // A state of the optimizer.
  absl::StatusOr<Term> Keep(const std::string& name, const Tensor& value) {
    if (std::find(taken_.begin(), taken_.end(), name) != taken_.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the model has a tensor named ", name, ", a name that the optimizer needs"));
    }
    ASSIGN_OR_RETURN(const Value state, arena_.AddState(name, value));
    return Term(arena_, state);
  }

  // The next value of a state.
  struct Next {
    std::string name;
    Term state, value;
  };

  void Check(const std::string& name, const Term& next) {
    graph_.checked.push_back(name);
    next_magnitudes_.push_back(LargestMagnitude(next).Cast(DType::kFloat64).Reshape({1}));
  }

  void AddMagnitudes(Value loss, const std::vector<Value>& gradients) {
    std::vector<Term> magnitudes = {Abs(Term(arena_, loss)).Cast(DType::kFloat64).Reshape({1})};
    for (Value gradient : gradients) {
      magnitudes.push_back(LargestMagnitude(Term(arena_, gradient)).Cast(DType::kFloat64).Reshape({1}));
    }
    graph_.magnitudes = Apply(ops::Concat(), magnitudes, {{"axis", int64_t{0}}}).value();
    limits_ = {std::numeric_limits<double>::infinity()};
    for (Value gradient : gradients) limits_.push_back(LargestGradient(arena_.type(gradient).dtype));
  }

  // bool[]: true if all magnitudes are below their limits.
  Term Finite() {
    const auto below = [&](Value magnitudes, const std::vector<double>& limits) {
      const Tensor bounds = Tensor::FromVector(DType::kFloat64, {std::ssize(limits)}, limits);
      return Less(Term(arena_, magnitudes), Term(arena_, arena_.AddConstant(bounds)));
    };
    std::vector<Term> all = {below(graph_.magnitudes, limits_)};
    if (!next_magnitudes_.empty()) {
      graph_.next_magnitudes = Apply(ops::Concat(), next_magnitudes_, {{"axis", int64_t{0}}}).value();
      const double infinity = std::numeric_limits<double>::infinity();
      all.push_back(below(graph_.next_magnitudes, std::vector<double>(next_magnitudes_.size(), infinity)));
      all = {Apply(ops::Concat(), all, {{"axis", int64_t{0}}})};
    }
    return Apply(ops::ReduceAnd(), all, {{"axes", std::vector<int64_t>{0}}, {"keepdims", int64_t{0}}});
  }

  // The factor of all gradients, f64[]; no node without clipping.
  Value Clip(const std::vector<Value>& gradients) {
    if (options_.clip_norm <= 0) return Value{};
    Term squares = Term::Number(arena_, DType::kFloat64, 0);
    for (Value gradient : gradients) squares = squares + SumOfSquares(Term(arena_, gradient));
    const Term norm = Sqrt(squares);
    graph_.gradient_norm = norm.value();
    return Min(norm.Like(1), options_.clip_norm / (norm + 1e-6)).value();
  }

  // Gives the next value of the weight, and adds those of what is kept for it.
  absl::StatusOr<Term> AddWeight(const std::string& name, const Term& weight, Term gradient, const Term& rate,
                                 double decay, std::vector<Next>* kept) {
    const DType dtype = weight.type().dtype;
    const Tensor zeros(weight.type());
    if (options_.kind == Kind::kAdam || options_.kind == Kind::kAdamW) {
      ASSIGN_OR_RETURN(const Term m, Keep(name + ".adam_m", zeros));
      ASSIGN_OR_RETURN(const Term v, Keep(name + kSecondMoment, zeros));
      const bool decoupled = options_.kind == Kind::kAdamW;
      if (decay != 0 && !decoupled) gradient = gradient + decay * weight;
      const double b1 = options_.beta1, b2 = options_.beta2;
      const Term next_m = b1 * m + (1 - b1) * gradient;
      const Term next_v = b2 * v + (1 - b2) * (gradient * gradient);
      const Term count(arena_, count_);
      const Term step = (rate / (1 - Pow(count.Like(b1), count))).Cast(dtype);
      const Term root = (1 / Sqrt(1 - Pow(count.Like(b2), count))).Cast(dtype);
      const Term start = decay != 0 && decoupled ? weight * (1 - rate * decay).Cast(dtype) : weight;
      kept->push_back({name + ".adam_m", m, next_m});
      kept->push_back({name + kSecondMoment, v, next_v});
      return start - step * next_m / (Sqrt(next_v) * root + options_.epsilon);
    }
    if (decay != 0) gradient = gradient + decay * weight;
    Term direction = gradient;
    if (options_.kind != Kind::kSgd) {
      ASSIGN_OR_RETURN(const Term m, Keep(name + ".momentum", zeros));
      const Term next = options_.momentum * m + gradient;
      direction = options_.kind == Kind::kNesterov ? gradient + options_.momentum * next : next;
      kept->push_back({name + ".momentum", m, next});
    }
    return weight - rate.Cast(dtype) * direction;
  }

  Arena& arena_;
  const OptimizerOptions& options_;
  const std::vector<std::string>& taken_;
  OptimizerGraph graph_;
  std::vector<double> limits_;  // of the magnitudes
  std::vector<Term> next_magnitudes_;
  Value count_;  // f64[]: step + 1
};

}  // namespace

double LargestGradient(DType dtype) {
  if (dtype == DType::kFloat64) return std::sqrt(std::numeric_limits<double>::max());
  if (dtype == DType::kFloat32) return std::sqrt(static_cast<double>(std::numeric_limits<float>::max()));
  return std::numeric_limits<double>::infinity();
}

// With gradients below G a weight changes in an update by less than r G c: c is 1 for sgd; 2 / (1 - mu) with momentum;
// with Adam 1 / ((1 - b1) epsilon), since its first moment is below G, too.
bool MayOverflow(const OptimizerOptions& options, DType dtype) {
  constexpr double kUpdates = 1e9;
  const double largest = LargestGradient(dtype);
  if (std::isinf(largest)) return true;
  const RateSchedule& schedule = options.schedule;
  double rate = std::max(options.learning_rate, schedule.final_rate), decay = options.weight_decay, scale = 1;
  for (const WeightGroup& group : options.groups) {
    scale = std::max(scale, group.rate_scale);
    decay = std::max(decay, group.weight_decay.value_or(0));
  }
  rate *= scale;
  const bool grows = schedule.kind == RateSchedule::Kind::kStep && schedule.gamma > 1;
  double factor = 1;
  if (options.kind == Kind::kAdam || options.kind == Kind::kAdamW) {
    factor = 1 / ((1 - options.beta1) * options.epsilon);
  } else if (options.kind != Kind::kSgd) {
    factor = 2 / (1 - options.momentum);
  }
  return grows || !(rate * decay <= 1) || !(rate * factor * kUpdates < largest);
}

bool MatchesPattern(const std::string& pattern, const std::string& name) {
  // The last * and the text that it stands for are what to fall back to.
  size_t p = 0, n = 0, star = std::string::npos, star_end = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_end = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p, ++n;
    } else if (star != std::string::npos) {
      p = star + 1;
      n = ++star_end;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

int SharedAxis(const Shape& shape) {
  const auto divisors = [](int64_t size) {
    int count = 0;
    for (int64_t ranks = 2; ranks <= 8; ++ranks) count += size % ranks == 0 ? 1 : 0;
    return count;
  };
  const auto most =
      std::max_element(shape.begin(), shape.end(), [&](int64_t a, int64_t b) { return divisors(a) < divisors(b); });
  CHECK(most != shape.end());
  return static_cast<int>(most - shape.begin());
}

Value AddSchedule(Arena& arena, double rate, const RateSchedule& schedule, Value step) {
  const Term s = Term(arena, step).Cast(DType::kFloat64);
  const auto warmup = static_cast<double>(schedule.warmup);
  const Term later = schedule.warmup > 0 ? Max(s - warmup, s.Like(0)) : s;
  Term main = s.Like(rate);
  if (schedule.kind == RateSchedule::Kind::kStep) {
    main = rate * Pow(s.Like(schedule.gamma), Floor(later / static_cast<double>(schedule.every)));
  } else if (schedule.kind == RateSchedule::Kind::kCosine) {
    const auto steps = static_cast<double>(schedule.steps);
    const Term angle = Min(later, s.Like(steps)) * (std::numbers::pi / steps);
    main = schedule.final_rate + (rate - schedule.final_rate) / 2 * (1 + Cos(angle));
  }
  if (schedule.warmup <= 0) return main.value();
  return Where(Less(s, s.Like(warmup)), (s + 1) * (rate / warmup), main).value();
}

absl::StatusOr<OptimizerGraph> AddOptimizer(Arena& arena, const OptimizerOptions& options,
                                            const std::vector<Value>& weights, const std::vector<Value>& gradients,
                                            Value loss, const std::vector<std::string>& names_taken,
                                            const std::vector<Output>& model_next) {
  return OptimizerBuilder(arena, options, names_taken).Build(weights, gradients, loss, model_next);
}

absl::StatusOr<Graph> AtSmoothStates(const Graph& step) {
  NamedTensors states = StatesOf(step);
  for (auto& [name, value] : states) {
    if (!absl::EndsWith(name, kSecondMoment)) continue;
    value = Tensor(value.type());
    for (int64_t i = 0; i < value.num_elements(); ++i) value.Set(i, 1);
  }
  return ParseGraph(PrintGraph(step), states);
}

}  // namespace rewright
