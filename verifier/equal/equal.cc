#include "verifier/equal/equal.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/status_macros.h"
#include "core/interpreter/interpreter.h"
#include "core/interpreter/known_values.h"
#include "core/ir/graph_numbers.h"
#include "core/ir/random_tensors.h"
#include "core/tensor/compare.h"
#include "substitutions/language/rule_printer.h"
#include "verifier/equal/custom_op_cut.h"
#include "verifier/equal/equal_result.h"
#include "verifier/equal/equal_rounding.h"
#include "verifier/equal/known_equal.h"
#include "verifier/equal/prove_region.h"
#include "verifier/equal/region.h"
#include "verifier/equal/signatures.h"

namespace rewright {
namespace {

constexpr double kNoise = 1e-9;  // of the largest magnitude: rounding of f64
// A difference behind a choice counts if at least kMostDraws of kDraws draws have it.
constexpr int kDraws = 5;
constexpr int kMostDraws = 3;
// The kind of inputs around numbers of the models; ordinary ones are of kind 0.
constexpr int kAround = 6;

class ModelComparison {
 public:
  ModelComparison(JointModels joint, const EqualOptions& options)
      : joint_(std::move(joint)),
        options_(options),
        arena_(joint_.a.arena()),
        numbers_(NumbersOf({&joint_.a, &joint_.b}, kSetsAround)) {}

  absl::StatusOr<EqualResult> Run() {
    const StopScope scope(options_.stop);
    ASSIGN_OR_RETURN(NamedTensors inputs, Draw(0));
    absl::StatusOr<Observed> seen = Observe(joint_.a, joint_.b, inputs, options_.threads);
    if (absl::IsOutOfRange(seen.status())) {  // an integer was divided by 0
      least_integer_ = 1;
      ASSIGN_OR_RETURN(inputs, Draw(0));
      seen = Observe(joint_.a, joint_.b, inputs, options_.threads);
    }
    ASSIGN_OR_RETURN(Observed observed, std::move(seen));
    signatures_ = std::move(observed.signatures);
    for (NodeId id : joint_.a.nodes()) {
      for (int32_t k = 0; k < static_cast<int32_t>(joint_.a.node(id).outputs.size()); ++k) {
        if (signatures_.contains(Value{id, k})) by_type_[KeyOf({id, k})].push_back({id, k});
      }
    }
    RETURN_IF_ERROR(MatchKnown());
    RETURN_IF_ERROR(Judge(0, inputs, observed.a, observed.b, joint_.b));
    if (result_.difference) return std::move(result_);
    RETURN_IF_ERROR(Within(options_.time_limit_s, [this] { return Sweep(); }));
    bool proved = true;
    for (size_t o = 0; o < joint_.b.outputs().size(); ++o) proved = proved && IsProved(o);
    if (proved) {
      result_.equality = result_.constants.empty() ? Equality::kProved : Equality::kUpToConstants;
      if (result_.constants.empty()) result_.within_rounding.reset();
    } else {
      RETURN_IF_ERROR(Within(options_.time_limit_s / 2, [this] { return Attack(); }));
      if (!result_.difference) NoteOpen();
    }
    if (options_.own_precision && !result_.difference) {
      RunInOwnPrecision(joint_.a, joint_.b, numbers_, options_, least_integer_, &result_);
    }
    return std::move(result_);
  }

 private:
  using TypeKey = std::pair<DType, Shape>;
  TypeKey KeyOf(Value value) const { return {arena_->type(value).dtype, arena_->type(value).shape}; }

  // ---------------------------------------------------------------- inputs

  // Number 0 and odd ones are drawn as inputs of a model are; the others are large, sparse, small, or of one sign.
  // Those behind the trials lie around the numbers of the models, one group after the other.
  int KindOf(int number) const {
    if (number > options_.trials) return kAround;
    return number == 0 || number % 2 == 1 ? 0 : 1 + (number / 2 - 1) % 5;
  }
  absl::StatusOr<std::vector<Tensor>> DrawTensors(int number) const {
    const uint64_t seed = options_.seed + static_cast<uint64_t>(number);
    if (KindOf(number) != kAround) return RandomInputs(joint_.a, seed, least_integer_);
    return InputsAround(joint_.a, seed, numbers_[static_cast<size_t>(number - options_.trials - 1) % numbers_.size()]);
  }
  absl::StatusOr<NamedTensors> Draw(int number) const {
    ASSIGN_OR_RETURN(std::vector<Tensor> tensors, DrawTensors(number));
    NamedTensors inputs;
    std::mt19937_64 rng(options_.seed + static_cast<uint64_t>(number));
    for (size_t i = 0; i < tensors.size(); ++i) {
      Tensor& tensor = tensors[i];
      for (int64_t at = 0; IsFloating(tensor.dtype()) && at < tensor.num_elements(); ++at) {
        const double x = tensor.At(at);
        switch (KindOf(number)) {
          case 1: tensor.Set(at, 100 * x); break;
          case 2: tensor.Set(at, rng() % 16 == 0 ? x : 0); break;
          case 3: tensor.Set(at, 1e-3 * x); break;
          case 4: tensor.Set(at, std::abs(x)); break;
          case 5: tensor.Set(at, -std::abs(x)); break;
          default: break;
        }
      }
      inputs.emplace(joint_.a.node(joint_.a.inputs()[i].node).name, tensor);
    }
    return inputs;
  }

  // ---------------------------------------------------------------- differences

  // An element of an output by which the models may be told apart.
  struct Apart {
    size_t output;
    int64_t at;
    double allowed;  // explained by values known before a run
  };

  // Finds the elements of each output that differ by more than the known weights explain: the one that differs most,
  // and those that differ most in relation to the allowed difference and to their own size, as which a run rounds
  // them. Infinities of large inputs are not counted: f64 overflows as well.
  absl::StatusOr<std::vector<Apart>> FindApart(const NamedTensors& inputs, const std::vector<Tensor>& a,
                                               const std::vector<Tensor>& b, const Graph& graph_a, const Graph& graph_b,
                                               bool large) {
    const auto by = [&](size_t o, int64_t i) {
      if (!IsFloating(a[o].dtype()))
        return a[o].AtInt(i) == b[o].AtInt(i) ? 0.0 : std::max(1.0, Distance(a[o], b[o], i));
      return Distance(a[o], b[o], i);
    };
    const auto counts = [&](size_t o, int64_t i, double apart) {
      return !large || !IsFloating(a[o].dtype()) ||
             (std::isfinite(a[o].At(i)) && std::isfinite(b[o].At(i)) && apart > 0);
    };
    std::vector<double> noise;
    bool any = false;
    for (size_t o = 0; o < a.size(); ++o) {
      noise.push_back(IsFloating(a[o].dtype()) ? kNoise * LargestMagnitude(a[o]) : 0);
      for (int64_t i = 0; i < a[o].num_elements() && !any; ++i) {
        const double apart = by(o, i);
        any = apart > noise[o] && counts(o, i, apart);
      }
    }
    std::vector<Apart> found;
    if (!any) return found;
    const KnownRounding rounding(graph_a, graph_b, options_.seed, options_.threads);
    ASSIGN_OR_RETURN(const std::vector<Tensor> allowed, rounding.Allowed(inputs, a, b, Chooses()));
    for (size_t o = 0; o < a.size(); ++o) {
      std::optional<Apart> most, clearest, sharpest;
      const auto size = [&](int64_t at) { return std::abs(a[o].At(at)) + std::abs(b[o].At(at)); };
      for (int64_t i = 0; i < a[o].num_elements(); ++i) {
        const double apart = by(o, i), limit = noise[o] + allowed[o].At(i);
        if (!(apart > limit) || !counts(o, i, apart)) continue;
        if (!most || apart > by(o, most->at)) most = Apart{o, i, limit};
        if (!clearest || apart * clearest->allowed > by(o, clearest->at) * limit) clearest = Apart{o, i, limit};
        if (!sharpest || apart * size(sharpest->at) > by(o, sharpest->at) * size(i)) sharpest = Apart{o, i, limit};
      }
      if (!most) continue;
      found.push_back(*most);
      if (clearest->at != most->at) found.push_back(*clearest);
      if (sharpest->at != most->at && sharpest->at != clearest->at) found.push_back(*sharpest);
    }
    return found;
  }

  // Infinite where one is a number and the other is none.
  static double Distance(const Tensor& a, const Tensor& b, int64_t i) {
    const double x = a.At(i), y = b.At(i);
    if (x == y || (std::isnan(x) && std::isnan(y))) return 0;
    const double apart = std::abs(x - y);
    return std::isnan(apart) ? std::numeric_limits<double>::infinity() : apart;
  }

  // True if rounding may turn a choice in one of the models.
  bool Chooses() {
    if (!chooses_) chooses_ = Decides(joint_.a, joint_.b);
    return *chooses_;
  }

  // True if the output differs on most of a few inputs, ordinary ones or such as that number's, which lie around
  // numbers of the models: a choice that rounding turns does so on few.
  absl::StatusOr<bool> DiffersMostly(size_t output, int like) {
    const bool around = KindOf(like) == kAround;
    const int step = around ? static_cast<int>(numbers_.size()) : 2;
    int differs = 0, draws = 0;
    for (int number = around ? like : 1; draws < kDraws; number += step, ++draws) {
      ASSIGN_OR_RETURN(const NamedTensors inputs, Draw(number));
      const auto a = InF64(joint_.a, inputs), b = InF64(joint_.b, inputs);
      if (!a.ok() || !b.ok()) continue;
      ASSIGN_OR_RETURN(const std::vector<Apart> apart, FindApart(inputs, *a, *b, joint_.a, joint_.b, /*large=*/false));
      differs += std::any_of(apart.begin(), apart.end(), [&](const Apart& one) { return one.output == output; });
    }
    return differs >= kMostDraws;
  }

  absl::StatusOr<std::vector<Tensor>> InF64(const Graph& graph, const NamedTensors& inputs) const {
    return InterpretGraph(graph, inputs, {.precision = Precision::kFloat64, .threads = options_.threads});
  }

  // Calls the models different if an output differs by more than the known weights explain, and by more than both round
  // when they run. `b` are the outputs of `graph_b`, which computes the same as B, on the inputs of that number.
  absl::Status Judge(int number, const NamedTensors& inputs, const std::vector<Tensor>& a, const std::vector<Tensor>& b,
                     const Graph& graph_b) {
    ++result_.trials;
    const bool large = KindOf(number) == 1 || KindOf(number) == kAround;
    ASSIGN_OR_RETURN(const std::vector<Apart> found, FindApart(inputs, a, b, joint_.a, graph_b, large));
    for (const Apart& apart : found) {
      const Output& output = joint_.a.outputs()[apart.output];
      ModelDifference difference;
      difference.output = output.name;
      difference.at = PositionOf(a[apart.output].shape(), apart.at);
      difference.a = a[apart.output].At(apart.at);
      difference.b = b[apart.output].At(apart.at);
      difference.tolerance = apart.allowed;
      const double by = Distance(a[apart.output], b[apart.output], apart.at);
      bool within = false;
      if (options_.estimate_rounding && std::isfinite(by) && IsFloating(a[apart.output].dtype())) {
        if (const auto both = RoundingOfBoth(joint_.a, joint_.b, inputs, output.name, apart.at, options_.threads)) {
          difference.tolerance = std::max(difference.tolerance, both->Most());
          within = !(by > both->Most());
        }
      }
      if (!within && Chooses()) {
        ASSIGN_OR_RETURN(const bool mostly, DiffersMostly(apart.output, number));
        within = !mostly;
      }
      if (within) {
        const auto& other = result_.within_rounding;
        if (!other || by > std::abs(other->a - other->b)) result_.within_rounding = std::move(difference);
        continue;
      }
      for (Value input : joint_.a.inputs()) {
        const std::string& name = joint_.a.node(input.node).name;
        difference.inputs.emplace_back(name, inputs.at(name));
      }
      ASSIGN_OR_RETURN(difference.first, FirstApart(inputs, large));
      result_.difference = std::move(difference);
      result_.equality = Equality::kDifferent;
      return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  std::string Describe(const Graph& graph, NodeId id, const absl::flat_hash_map<Value, std::string>& names) const {
    const Node& node = graph.node(id);
    std::vector<std::string> operands;
    for (Value operand : node.operands) {
      const auto name = names.find(operand);
      operands.push_back(name == names.end() ? graph.type(operand).ToString() : name->second);
    }
    const auto name = names.find(Value{id, 0});
    const std::string attrs = AttrsString(node.attrs);
    return absl::StrCat(name == names.end() ? "" : name->second + " = ", node.op->name, "(",
                        absl::StrJoin(operands, ", "), attrs.empty() ? "" : ", ", attrs, ")");
  }

  // The value of A that a value of B ought to be: the one of its name and type, unless another one alone looks like it.
  std::optional<Value> CounterpartOf(Value value, const std::map<std::string, Value>& named) const {
    if (joint_.a.contains(value.node)) return value;
    const std::optional<Value> candidate = CandidateOf(value);
    const auto name = joint_.names_b.find(value);
    const auto other = name == joint_.names_b.end() ? named.end() : named.find(name->second);
    if (other == named.end() || KeyOf(other->second) != KeyOf(value)) return candidate;
    return candidate && !LookAlike(other->second, value) ? candidate : other->second;
  }

  bool LookAlike(Value a, Value b) const {
    const auto in_a = signatures_.find(a), in_b = signatures_.find(b);
    return in_a != signatures_.end() && in_b != signatures_.end() && Close(in_a->second, in_b->second);
  }

  // Values of B with their counterparts in A, in the order of B.
  using Counterparts = std::vector<std::pair<Value, Value>>;
  Counterparts FindCounterparts() const {
    std::map<std::string, Value> named;
    for (const auto& [value, name] : joint_.names_a) {
      if (joint_.a.contains(value.node)) named.emplace(name, value);
    }
    Counterparts pairs;
    for (NodeId id : joint_.b.nodes()) {
      const Node& node = joint_.b.node(id);
      for (int32_t k = 0; joint_.b.IsRun(node) && k < static_cast<int32_t>(node.outputs.size()); ++k) {
        if (const std::optional<Value> other = CounterpartOf({id, k}, named)) pairs.push_back({{id, k}, *other});
      }
    }
    return pairs;
  }

  // By number of a pair that rounding of known values does not explain: an element, "at [0,3] 1.5 in A, 2 in B".
  absl::StatusOr<std::map<size_t, std::string>> ComparePairs(const Counterparts& pairs, const NamedTensors& inputs,
                                                             bool large) {
    std::vector<Output> of_a, of_b;
    for (const auto& [value, other] : pairs) {
      of_a.push_back({other, ""});
      of_b.push_back({value, ""});
    }
    const Graph graph_a(arena_, joint_.a.inputs(), of_a), graph_b(arena_, joint_.a.inputs(), of_b);
    ASSIGN_OR_RETURN(const std::vector<Tensor> a, InF64(graph_a, inputs));
    ASSIGN_OR_RETURN(const std::vector<Tensor> b, InF64(graph_b, inputs));
    ASSIGN_OR_RETURN(const std::vector<Apart> found, FindApart(inputs, a, b, graph_a, graph_b, large));
    std::map<size_t, std::string> apart;
    for (const Apart& one : found) {
      const Tensor& x = a[one.output];
      apart.try_emplace(one.output, absl::StrFormat("at [%s] %.9g in A, %.9g in B",
                                                    absl::StrJoin(PositionOf(x.shape(), one.at), ","), x.At(one.at),
                                                    b[one.output].At(one.at)));
    }
    return apart;
  }

  // Names the first application of B whose operands A has and whose result A has not, with an element that differs. One
  // without a counterpart in A is named if there is no other: B may compute in another way. Pairs are compared a few at
  // a time, then twice as many.
  absl::StatusOr<std::string> FirstApart(const NamedTensors& inputs, bool large) {
    const Counterparts pairs = FindCounterparts();
    absl::flat_hash_set<Value> alike;
    const auto begins = [&](NodeId id) {
      const std::vector<Value>& operands = joint_.b.node(id).operands;
      return std::all_of(operands.begin(), operands.end(), [&](Value operand) {
        return arena_->node(operand.node).op == nullptr || arena_->IsKnown(operand) || alike.contains(operand);
      });
    };
    size_t done = 0;
    for (size_t size = 8; done < pairs.size(); size *= 2) {
      const size_t end = std::min(pairs.size(), done + size);
      const Counterparts some(pairs.begin() + static_cast<int64_t>(done), pairs.begin() + static_cast<int64_t>(end));
      ASSIGN_OR_RETURN(const auto apart, ComparePairs(some, inputs, large));
      for (size_t k = 0; k < some.size(); ++k) {
        const Value value = some[k].first;
        const auto element = apart.find(k);
        if (element == apart.end()) {
          alike.insert(value);
        } else if (begins(value.node)) {
          return absl::StrCat(Describe(joint_.b, value.node, joint_.names_b), ": ", element->second);
        }
      }
      done = end;
    }
    for (NodeId id : joint_.b.nodes()) {
      if (!joint_.b.IsRun(joint_.b.node(id)) || alike.contains(Value{id, 0}) || !begins(id)) continue;
      return Describe(joint_.b, id, joint_.names_b);
    }
    return "";
  }

  // Attacks the open outputs with B over the values of A to which values of B are proved equal: only open values may
  // differ now, and only the rounding of their weights is in the way.
  absl::Status Attack() {
    std::vector<Output> outputs;
    for (const Output& output : joint_.b.outputs()) outputs.push_back({Rebuilt(output.value), output.name});
    const Graph rebuilt(arena_, joint_.a.inputs(), std::move(outputs));
    const int last = options_.trials + static_cast<int>(numbers_.size());
    for (int number = 0; number <= last && !result_.difference && !StopScope::Stopped(); ++number) {
      ASSIGN_OR_RETURN(const NamedTensors inputs, Draw(number));
      const auto a = InF64(joint_.a, inputs), b = InF64(rebuilt, inputs);
      if (!a.ok() || !b.ok()) continue;  // inputs that a model does not admit
      RETURN_IF_ERROR(Judge(number, inputs, *a, *b, rebuilt));
    }
    return absl::OkStatus();
  }

  // ---------------------------------------------------------------- known values

  std::vector<Value> KnownFrontier(const Graph& graph) const {
    std::vector<Value> frontier = FoldedValues(graph);
    for (NodeId id : graph.nodes()) {
      if (graph.node(id).op == nullptr && arena_->IsKnown(Value{id, 0})) frontier.push_back({id, 0});
    }
    return frontier;
  }

  // Known values of B that are the same numbers as one of A, or one of A but for rounding where no other is that near.
  absl::Status MatchKnown() {
    KnownValues known(arena_, options_.threads);
    std::map<TypeKey, std::vector<Value>> of_a;
    for (Value value : KnownFrontier(joint_.a)) of_a[KeyOf(value)].push_back(value);
    for (Value value : KnownFrontier(joint_.b)) {
      if (joint_.a.contains(value.node)) {
        equal_[value] = value;
        continue;
      }
      std::optional<std::pair<Value, KnownPair>> match;
      int rounded = 0;
      for (Value other : of_a[KeyOf(value)]) {
        ASSIGN_OR_RETURN(const std::optional<KnownPair> pair, known.Relate(other, value, /*near=*/true));
        if (!pair) continue;
        if (pair->relation == KnownRelation::kSame) {
          match = {other, *pair};
          rounded = 0;
          break;
        }
        ++rounded;
        if (pair->relation == KnownRelation::kFolded) match = {other, *pair};
      }
      if (!match || rounded > 1) continue;
      const auto& [other, pair] = *match;
      equal_[value] = other;
      if (pair.error > 0) {
        result_.foldings.push_back(
            {NameOf(other, joint_.names_a), NameOf(value, joint_.names_b), arena_->type(value), pair.error});
      }
    }
    return absl::OkStatus();
  }

  std::string NameOf(Value value, const absl::flat_hash_map<Value, std::string>& names) const {
    const auto name = names.find(value);
    if (name != names.end()) return name->second;
    const Node& node = arena_->node(value.node);
    return node.op == nullptr ? node.name : absl::StrCat(node.op->name, " ", arena_->type(value).ToString());
  }

  // ---------------------------------------------------------------- sweeping

  struct Pending {
    Value a, b;  // b as it was rebuilt over values of A
    Value original;
    absl::flat_hash_set<NodeId> cone = {};  // Cone(b) when `shared` values were known of A; a later cone lies within
    size_t shared = 0;
  };

  bool Stopped() {
    if (!StopScope::Stopped()) return false;
    result_.time_out = !IsStopped(options_.stop);
    return true;
  }

  // Does work for so many seconds on the clock; what they cut short is no error, an interrupt is one.
  absl::Status Within(double seconds, absl::FunctionRef<absl::Status()> work) {
    const StopScope scope(nullptr, absl::Now() + absl::Seconds(seconds));
    const absl::Status status = work();
    if (absl::IsCancelled(status)) Stopped();
    return absl::IsCancelled(status) && !IsStopped(options_.stop) ? absl::OkStatus() : status;
  }

  // The value of B in terms of values of A.
  Value Rebuilt(Value value) const {
    const auto equal = equal_.find(value);
    if (equal != equal_.end()) return equal->second;
    const auto rebuilt = rebuilt_.find(value.node);
    return rebuilt == rebuilt_.end() ? value : Value{rebuilt->second, value.output};
  }

  bool IsProved(size_t output) const {
    const Value wanted = joint_.a.outputs()[output].value, now = Rebuilt(joint_.b.outputs()[output].value);
    return now == wanted || proved_pairs_.contains({wanted, now});
  }

  // The first value of A with the same signature as a value of B.
  std::optional<Value> CandidateOf(Value value) const {
    const auto alike = by_type_.find(KeyOf(value));
    if (alike == by_type_.end()) return std::nullopt;
    for (Value other : alike->second) {
      if (LookAlike(other, value)) return other;
    }
    return std::nullopt;
  }

  void MarkEqual(Value original, Value a) {
    equal_[original] = a;
    shared_.insert(a);
  }

  absl::Status Sweep() {
    for (Value input : joint_.a.inputs()) shared_.insert(input);
    for (NodeId id : joint_.b.nodes()) {
      const Node& node = joint_.b.node(id);
      if (node.op == nullptr) continue;
      std::vector<Value> operands;
      for (Value operand : node.operands) operands.push_back(Rebuilt(operand));
      const NodeId rebuilt = operands == node.operands ? id : arena_->AddLike(node, std::move(operands));
      rebuilt_[id] = rebuilt;
      if (!joint_.b.IsRun(node)) continue;
      ++result_.values;
      if (joint_.a.contains(rebuilt)) {
        ++result_.shared;
        for (int32_t k = 0; k < static_cast<int32_t>(node.outputs.size()); ++k) MarkEqual({id, k}, {rebuilt, k});
        continue;
      }
      for (int32_t k = 0; k < static_cast<int32_t>(node.outputs.size()) && !Stopped(); ++k) {
        RETURN_IF_ERROR(ProveValue({id, k}));
      }
    }
    for (size_t o = 0; o < joint_.b.outputs().size(); ++o) RETURN_IF_ERROR(ProveOutput(o));
    return absl::OkStatus();
  }

  absl::Status ProveValue(Value original) {
    const Value now = Rebuilt(original);
    const std::optional<Value> candidate = CandidateOf(original);
    if (!candidate) return absl::OkStatus();
    const Pending pending{*candidate, now, original};
    ASSIGN_OR_RETURN(const bool proved, ProvePending({pending}));
    if (proved) return absl::OkStatus();
    // Together with those that were left open and are computed from the same: siblings that were merged.
    std::vector<Pending> siblings = {pending};
    const absl::flat_hash_set<NodeId> cone = Cone(now);
    const auto meets = [&](const absl::flat_hash_set<NodeId>& others) {
      return std::any_of(cone.begin(), cone.end(), [&](NodeId id) { return others.contains(id); });
    };
    for (Pending& other : pending_) {
      if (equal_.contains(other.original) || !meets(other.cone)) continue;
      if (other.shared < shared_.size()) {
        other.cone = Cone(other.b);
        other.shared = shared_.size();
        if (!meets(other.cone)) continue;
      }
      siblings.push_back(other);
    }
    if (siblings.size() > 1) {
      ASSIGN_OR_RETURN(const bool together, ProvePending(siblings));
      if (together) return absl::OkStatus();
    }
    pending_.push_back(pending);
    pending_.back().cone = cone;
    pending_.back().shared = shared_.size();
    return absl::OkStatus();
  }

  Pending PendingOutput(size_t output) const {
    const Value original = joint_.b.outputs()[output].value;
    return {joint_.a.outputs()[output].value, Rebuilt(original), original, {}};
  }

  // Proves an output for which the signatures gave no hint.
  absl::Status ProveOutput(size_t output) {
    if (IsProved(output) || Stopped()) return absl::OkStatus();
    return ProvePending({PendingOutput(output)}).status();
  }

  // Nodes of a rebuilt value that are not known to be values of A.
  absl::flat_hash_set<NodeId> Cone(Value value) const {
    absl::flat_hash_set<NodeId> cone;
    std::vector<Value> stack = {value};
    while (!stack.empty()) {
      const Value next = stack.back();
      stack.pop_back();
      if (shared_.contains(next) || arena_->IsKnown(next) || !cone.insert(next.node).second) continue;
      for (Value operand : arena_->node(next.node).operands) stack.push_back(operand);
    }
    return cone;
  }

  absl::StatusOr<bool> ProvePending(const std::vector<Pending>& list) {
    std::vector<std::pair<Value, Value>> pairs;
    for (const Pending& pending : list) pairs.emplace_back(pending.a, pending.b);
    ASSIGN_OR_RETURN(RegionOutcome outcome,
                     ProvePairs(*arena_, pairs, shared_, absl::StrCat("region-", result_.regions.size() + 1), options_,
                                [this] { return Stopped(); }));
    if (!outcome.proved) return false;
    for (const Pending& pending : list) {
      MarkEqual(pending.original, pending.a);
      proved_pairs_.insert({pending.a, pending.b});
    }
    AddProved(std::move(outcome), &result_);
    return true;
  }

  // The smallest regions that are left.
  void NoteOpen() {
    std::vector<Pending> left = pending_;
    for (size_t o = 0; o < joint_.b.outputs().size(); ++o) {
      if (!IsProved(o)) left.push_back(PendingOutput(o));
    }
    std::set<std::pair<Value, Value>> seen;
    for (const Pending& pending : left) {
      if (equal_.contains(pending.original) || !seen.emplace(pending.a, pending.b).second) continue;
      const std::vector<std::pair<Value, Value>> pairs = {{pending.a, pending.b}};
      AddOpen(*arena_, pairs, shared_, NameOf(pending.a, joint_.names_a), NameOf(pending.original, joint_.names_b),
              &result_);
    }
    KeepSmallest(&result_);
  }

  JointModels joint_;
  const EqualOptions& options_;
  std::shared_ptr<Arena> arena_;
  const std::vector<std::vector<double>> numbers_;  // of the models, in groups
  int64_t least_integer_ = 0;  // that is drawn where it indexes nothing: 1 where a model divides by it
  std::optional<bool> chooses_;
  EqualResult result_;
  absl::flat_hash_map<Value, ValueSignature> signatures_;
  std::map<TypeKey, std::vector<Value>> by_type_;  // of A, in order
  absl::flat_hash_map<Value, Value> equal_;        // of values of B: the value of A
  absl::flat_hash_map<NodeId, NodeId> rebuilt_;    // of nodes of B: over values of A
  absl::flat_hash_set<Value> shared_;              // of A: those that are equal to a value of B
  std::set<std::pair<Value, Value>> proved_pairs_;
  std::vector<Pending> pending_;
};

}  // namespace

const char* EqualityName(Equality equality) {
  switch (equality) {
    case Equality::kProved: return "proved";
    case Equality::kDifferent: return "different";
    case Equality::kOpen: return "open";
    case Equality::kUpToConstants: return "equal up to constants";
  }
  return "";
}

// True if one of the models has floating numbers that the other one does not have.
static bool HaveOwnNumbers(const JointModels& joint) {
  const auto has = [](const Graph& one, const Graph& other) {
    return std::any_of(one.nodes().begin(), one.nodes().end(), [&](NodeId id) {
      const Tensor* elements = one.arena()->Elements(id);
      return elements != nullptr && IsFloating(elements->dtype()) && !other.contains(id);
    });
  };
  return has(joint.a, joint.b) || has(joint.b, joint.a);
}

absl::StatusOr<EqualResult> ProveEqual(const Graph& a, const Graph& b, const EqualOptions& options) {
  ASSIGN_OR_RETURN(const ForeignCut cut_a, CutAtForeign(a));
  ASSIGN_OR_RETURN(const ForeignCut cut_b, CutAtForeign(b));
  std::vector<std::string> alone;
  std::set_symmetric_difference(cut_a.names.begin(), cut_a.names.end(), cut_b.names.begin(), cut_b.names.end(),
                                std::back_inserter(alone));
  if (!alone.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("only one of the models has the ", absl::StrJoin(alone, ", the "),
                                                   ": nodes that are not read have to be the same"));
  }
  ASSIGN_OR_RETURN(JointModels joint, JoinModels(cut_a.graph, cut_b.graph));
  ASSIGN_OR_RETURN(EqualResult result, ModelComparison(joint, options).Run());
  if (result.equality == Equality::kOpen && !result.time_out && !options.near_constants && HaveOwnNumbers(joint)) {
    EqualOptions near = options;
    near.near_constants = true;
    near.own_precision = false;  // these were run
    ASSIGN_OR_RETURN(EqualResult other, ModelComparison(joint, near).Run());
    if (other.equality == Equality::kUpToConstants) {
      other.within_rounding = std::move(result.within_rounding);
      other.run = std::move(result.run);
      other.infinite = std::move(result.infinite);
      other.trials += result.trials;
      result = std::move(other);
    }
  }
  if (!result.difference) return result;
  const std::string output = result.difference->output;
  if (!cut_a.Concerns(output) && !cut_b.Concerns(output)) return result;
  result.equality = Equality::kOpen;
  result.open.push_back({output, output, "# they differ where the results of nodes that are not read are drawn", 0});
  result.difference.reset();
  return result;
}

}  // namespace rewright
