#include "core/numerics/error_estimate.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <numeric>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/autodiff/autodiff.h"
#include "core/base/status_macros.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/index_value.h"
#include "core/ir/pointwise.h"
#include "core/numerics/ranges.h"
#include "core/numerics/retype.h"
#include "core/numerics/rounding_op.h"

namespace rewright {
namespace {

// The unit roundoff of tf32, which has 11 bits.
constexpr double kTf32Rounding = 0x1p-11;
// The numbers of columns whose sums the graph returns; they are added up here. As many are computed at once as the
// interpreter takes in a block.
constexpr int64_t kLeastColumns = 64, kMostColumns = 4096;
// Denotes the element of the largest magnitude.
constexpr int64_t kLargestElement = -1;

// Returns the CPU time of all threads of the process.
double CpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

double SmallestSubnormalOf(DType dtype) { return SmallestNormalOf(dtype) * 2 * RoundingOf(dtype); }

// One of the terms that make up the error of a value, with the numbers by which its sums are multiplied.
struct Part {
  ErrorTerm term = ErrorTerm::kOf;
  std::vector<Value> operands;  // besides the derivative
  double worst = 0, square = 0;
};

// The sums for one value are an output of the graph that is run; their terms are multiplied by at most 1 there, and the
// rest here: in f32 they would overflow.
struct Charge {
  Value value;                 // of the original graph
  std::optional<NodeId> sums;  // none: it has no terms
  double worst = 0, square = 0;
};

struct Look {
  std::string output;
  Value at;       // index of the element
  Value element;  // its value
  std::vector<Charge> charges;
};

class Estimator {
 public:
  Estimator(const Graph& graph, const ErrorOptions& options) : graph_(graph), options_(options) {}

  absl::StatusOr<ErrorEstimate> Run(const std::vector<Tensor>& inputs) {
    const double start = CpuSeconds();
    RETURN_IF_ERROR(MakeGraphs());
    NoteDecisions();
    RETURN_IF_ERROR(AddLooks());
    RETURN_IF_ERROR(AddMagnitudes());
    const double prepared = CpuSeconds();
    // A first run finds memory and caches cold: it is none of those whose times are told.
    std::vector<Tensor> exact;
    if (options_.measure) {
      ASSIGN_OR_RETURN(exact, InterpretGraph(graph_, Named(graph_, inputs), {Precision::kFloat64, options_.threads}));
    }
    const double measured = CpuSeconds();
    RETURN_IF_ERROR(Evaluate(inputs));
    estimate_.prepare_seconds = CpuSeconds() - start - (measured - prepared) - estimate_.run_seconds;
    if (options_.measure) RETURN_IF_ERROR(Measure(inputs, exact));
    return std::move(estimate_);
  }

 private:
  // ---- graphs

  absl::Status MakeGraphs() {
    bool has_f64 = false;
    for (const NodeId id : graph_.nodes()) {
      for (const TensorType& type : graph_.node(id).outputs) has_f64 = has_f64 || type.dtype == DType::kFloat64;
    }
    const std::optional<DType>& stored = options_.precision.stored;
    if (stored) {
      ASSIGN_OR_RETURN(run_, Retype(graph_, {.to = *stored}));
    } else {
      run_.graph = graph_;
    }
    const bool wide = has_f64 || stored == DType::kFloat64;
    // The backward passes are added to a growing arena; the graph that runs is made from it.
    ASSIGN_OR_RETURN(reference_,
                     Retype(graph_, {.to = wide ? DType::kFloat64 : DType::kFloat32, .for_derivatives = true}));
    arena_ = reference_.graph.arena().get();
    for (const NodeId id : graph_.nodes()) {
      const Node& node = graph_.node(id);
      if (node.op == nullptr) continue;
      const Node& made = arena_->node(reference_.applications.at(id));
      const bool held = std::any_of(made.operands.begin(), made.operands.end(),
                                    [&](Value operand) { return arena_->node(operand.node).op == &HoldOp(); });
      if (held) estimate_.blocked.push_back(NameOf({id, 0}));
    }
    return absl::OkStatus();
  }

  Value InRun(Value value) const { return options_.precision.stored ? run_.values.at(value) : value; }
  const Facts& FactsInRun(Value value) { return numerics_.Of(*run_.graph.arena(), InRun(value)); }

  std::string NameOf(Value value) const {
    const std::string& name = graph_.arena()->name(value);
    const Node& node = graph_.node(value.node);
    if (!name.empty()) return name;
    return node.op == nullptr ? node.name : absl::StrCat(node.op->name, " (node ", value.node, ")");
  }

  void NoteDecisions() {
    for (const NodeId id : graph_.nodes()) {
      const Node& node = graph_.node(id);
      if (node.op == nullptr) continue;
      bool decides = false;
      for (size_t k = 0; k < node.operands.size() && !decides; ++k) {
        if (!FactsInRun(node.operands[k]).rounded) continue;
        const std::vector<Decisions> none(node.outputs.size());
        decides = numerics_.OfOperand(node, static_cast<int>(k), none).Any();
      }
      if (decides) estimate_.decisions.push_back(NameOf({id, 0}));
    }
  }

  // ---- examined elements

  absl::Status AddLooks() {
    for (size_t o = 0; o < graph_.outputs().size(); ++o) {
      const Output& output = graph_.outputs()[o];
      if (output.updates.node >= 0) continue;
      const TensorType& type = graph_.type(output.value);
      if (!IsFloating(type.dtype)) {
        estimate_.without.push_back(output.name);
        continue;
      }
      if (type.num_elements() == 0) {
        estimate_.empty.push_back(output.name);
        continue;
      }
      if (!options_.at.empty()) {
        const auto given = options_.at.find(output.name);
        if (given == options_.at.end()) continue;
        for (const int64_t element : given->second) {
          if (element < 0 || element >= type.num_elements()) {
            return InvalidArgument("element ", element, " of the output ", output.name, " ", type.ToString());
          }
          RETURN_IF_ERROR(AddLook(output, element));
        }
        continue;
      }
      if (static_cast<int>(looks_.size()) >= options_.most_looks) {
        estimate_.unlooked.push_back(output.name);
        continue;
      }
      Rng rng(options_.seed + o);
      const int64_t count = std::min<int64_t>(options_.elements, type.num_elements());
      for (int64_t e = 0; e < count && static_cast<int>(looks_.size()) < options_.most_looks; ++e) {
        const int64_t element =
            e == 0 ? kLargestElement : static_cast<int64_t>(rng() % static_cast<uint64_t>(type.num_elements()));
        RETURN_IF_ERROR(AddLook(output, element));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Value> Reshaped(Value value, Shape shape) {
    if (arena_->type(value).shape == shape) return value;
    return arena_->Apply("reshape", {value}, {{"shape", std::move(shape)}});
  }

  absl::Status AddLook(const Output& output, int64_t element) {
    const Value y = reference_.values.at(output.value);
    const TensorType type = arena_->type(y);
    const int64_t n = type.num_elements();
    Look look{.output = output.name};
    ASSIGN_OR_RETURN(const Value flat, Reshaped(y, {n}));
    if (element != kLargestElement) {
      look.at = arena_->AddConstant(Tensor::Int64s({element}));
    } else {
      ASSIGN_OR_RETURN(const Value magnitudes, arena_->Apply("abs", {flat}));
      ASSIGN_OR_RETURN(look.at,
                       arena_->Apply("argmax", {magnitudes}, {{"axis", int64_t{0}}, {"keepdims", int64_t{1}}}));
    }
    ASSIGN_OR_RETURN(look.element, arena_->Apply("gather", {flat, look.at}, {{"axis", int64_t{0}}}));
    ASSIGN_OR_RETURN(const Value numbers,
                     arena_->Apply("iota", {}, {{"shape", Shape{n}}, {"axis", int64_t{0}}, {"dtype", DType::kInt64}}));
    ASSIGN_OR_RETURN(const Value here, arena_->Apply("equal", {numbers, look.at}));
    ASSIGN_OR_RETURN(Value seed, arena_->Apply("cast", {here}, {{"to", type.dtype}}));
    ASSIGN_OR_RETURN(seed, Reshaped(seed, type.shape));

    std::vector<Value> charged, by;
    for (const Value value : BelowOf(output.value)) {
      if (!IsCharged(value)) continue;
      charged.push_back(value);
      by.push_back(reference_.values.at(value));
    }
    ASSIGN_OR_RETURN(const std::vector<Value> derivatives, PullBack(*arena_, {y}, {seed}, by));
    for (size_t i = 0; i < charged.size(); ++i) RETURN_IF_ERROR(AddCharge(charged[i], by[i], derivatives[i], &look));
    looks_.push_back(std::move(look));
    return absl::OkStatus();
  }

  // Returns the floating values from which the value is computed, itself included; operators that are held have none.
  std::vector<Value> BelowOf(Value value) const {
    std::vector<Value> below;
    absl::flat_hash_set<NodeId> seen = {value.node};
    std::vector<NodeId> open = {value.node};
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      for (int32_t o = 0; o < static_cast<int32_t>(graph_.node(id).outputs.size()); ++o) {
        if (IsFloating(graph_.node(id).outputs[static_cast<size_t>(o)].dtype)) below.push_back({id, o});
      }
      const Node& node = graph_.node(id);
      const Node* made = node.op == nullptr ? nullptr : &arena_->node(reference_.applications.at(id));
      for (size_t k = 0; k < node.operands.size(); ++k) {
        const Value operand = node.operands[k];
        if (!IsFloating(graph_.type(operand).dtype)) continue;
        if (arena_->node(made->operands[k].node).op == &HoldOp()) continue;
        if (seen.insert(operand.node).second) open.push_back(operand.node);
      }
    }
    std::sort(below.begin(), below.end());
    return below;
  }

  // True if the value's own operation, or storing it, rounds.
  bool IsCharged(Value value) {
    const Node& node = graph_.node(value.node);
    if (node.op == nullptr) {
      const std::optional<DType>& stored = options_.precision.stored;
      return stored && !Holds(FactsOfOriginal(value).held_by, *stored);
    }
    return FactsInRun(value).rounds || (options_.precision.tf32 && MultipliesInTf32(node));
  }

  const Facts& FactsOfOriginal(Value value) {
    return options_.precision.stored ? original_numerics_.Of(*graph_.arena(), value) : FactsInRun(value);
  }

  // ---- local errors

  bool MultipliesInTf32(const Node& node) const {
    ExprPtr terms;
    return node.operands.size() >= 2 && IsSumOfProducts(*node.meaning, &terms);
  }

  // Adds the sum of squares of the terms of a sum of products. A device has kernels for the operator itself, which then
  // reads squares.
  absl::StatusOr<NodeId> SquaresOfTerms(NodeId id) {
    const Node& application = arena_->node(id);
    const OpDef* op = application.op;
    const Attrs attrs = application.attrs;
    std::vector<Value> operands = application.operands;
    if (options_.runner == nullptr && !options_.lower) return arena_->Add(TermSquaresOp(*op), operands, attrs);
    for (Value& operand : operands) {
      if (!IsFloating(arena_->type(operand).dtype)) continue;
      ASSIGN_OR_RETURN(operand, arena_->Apply("mul", {operand, operand}));
    }
    return arena_->Add(*op, operands, attrs);
  }

  // Returns the local errors of a value, whose elements in the reference graph are `made`.
  absl::StatusOr<std::vector<Part>> PartsOf(Value value, Value made) {
    const Node& node = graph_.node(value.node);
    const DType stored = run_.graph.arena()->type(InRun(value)).dtype;
    const double u = RoundingOf(ComputedDType(stored)), u2 = u * u * kMeanSquareOfRounding;
    const double store = IsNarrow(stored) ? RoundingOf(stored) : 0;
    Part of_value{ErrorTerm::kOf, {made}, store, store * store * kMeanSquareOfRounding};
    std::vector<Part> parts;
    if (node.op == nullptr || node.meaning->IsOpaque()) {  // counted as one rounding to the type
      if (store == 0) of_value.worst = u, of_value.square = u2;
    } else if (ExprPtr terms; IsSumOfProducts(*node.meaning, &terms) && terms != nullptr) {
      ASSIGN_OR_RETURN(const NodeId sum, SquaresOfTerms(reference_.applications.at(value.node)));
      const Bindings bindings = BindingsOf(*node.meaning, graph_.types(node.operands), node.attrs);
      const double n = static_cast<double>(EvalIndex(terms, bindings.variables).value_or(1));
      const double products = node.operands.size() >= 2 ? 1 : 0;
      const double tf32 = options_.precision.tf32 ? products * kTf32Rounding : 0;
      // sum |t| <= sqrt(n sum t^2)
      parts.push_back({ErrorTerm::kRoot,
                       {{sum, 0}},
                       ((n - 1 + products) * u + 2 * tf32) * std::sqrt(n),
                       u2 * (products + n / 6) + 2 * tf32 * tf32 * kMeanSquareOfRounding});
      of_value.square += u2 * (n / 3 - 1.0 / 6);
    } else if (const std::optional<Roundings> roundings =
                   RoundingsOfOneCall(*node.meaning->outputs[static_cast<size_t>(value.output)].element)) {
      of_value.worst += roundings->worst * u;
      of_value.square += roundings->square * u2;
      // A conversion to a type that is not narrow rounds as the value is stored.
      if (roundings->worst == 0 && store == 0) of_value.worst = u, of_value.square = u2;
    } else {
      const Node& application = arena_->node(reference_.applications.at(value.node));
      const OpDef& rounding = RoundingOp(*application.op, value.output);
      const std::vector<Value> operands = application.operands;
      const Attrs attrs = application.attrs;
      ASSIGN_OR_RETURN(const NodeId errors, arena_->Add(rounding, operands, attrs));
      if (arena_->node(errors).outputs.size() == 2) {
        parts.push_back({ErrorTerm::kPair, {{errors, 0}, {errors, 1}}, u, u * u});
      } else {
        // For two to four equal roundings the sum of squares is a half to a quarter of the square of the sum; a third
        // is used.
        parts.push_back({ErrorTerm::kOf, {{errors, 0}}, u, u2 / 3});
      }
    }
    if (of_value.worst == 0) of_value.term = ErrorTerm::kSquare;
    if (of_value.worst != 0 || of_value.square != 0) parts.push_back(std::move(of_value));
    if (stored == DType::kFloat16) {  // subnormal numbers of other types are negligible
      const double subnormal = SmallestSubnormalOf(stored) / 2;
      parts.push_back({ErrorTerm::kPlain, {}, subnormal, subnormal * subnormal / 3});
    }
    return parts;
  }

  absl::Status AddCharge(Value value, Value made, Value derivative, Look* look) {
    if (!parts_.contains(value)) {
      ASSIGN_OR_RETURN(parts_[value], PartsOf(value, made));
    }
    const std::vector<Part>& parts = parts_.at(value);
    Charge charge{value, {}};
    std::vector<Value> operands = {derivative};
    std::vector<int64_t> terms;
    for (const Part& part : parts) {
      terms.push_back(static_cast<int64_t>(part.term));
      operands.insert(operands.end(), part.operands.begin(), part.operands.end());
      charge.worst = std::max(charge.worst, part.worst);
      charge.square = std::max(charge.square, part.square);
    }
    if (parts.empty()) {
      look->charges.push_back(charge);
      return absl::OkStatus();
    }
    const Shape& shape = arena_->type(made).shape;
    int64_t columns = 1, kept = 0;
    const auto is_too_few = [&](int64_t more) { return columns < kLeastColumns || columns * more <= kMostColumns; };
    for (size_t axis = shape.size(); axis-- > 0 && is_too_few(shape[axis]); ++kept) columns *= shape[axis];
    Attrs attrs = {{"terms", std::move(terms)}, {"kept", kept}};
    for (size_t term = 0; term < parts.size(); ++term) {
      attrs[absl::StrCat("worst", term)] = charge.worst == 0 ? 0.0 : parts[term].worst / charge.worst;
      attrs[absl::StrCat("square", term)] = charge.square == 0 ? 0.0 : parts[term].square / charge.square;
    }
    ASSIGN_OR_RETURN(charge.sums, arena_->Add(ErrorSumOp(), operands, attrs));
    look->charges.push_back(std::move(charge));
    return absl::OkStatus();
  }

  // Adds the largest magnitude of every f16 result that may exceed the range of f16.
  absl::Status AddMagnitudes() {
    for (const NodeId id : graph_.nodes()) {
      for (int32_t o = 0; o < static_cast<int32_t>(graph_.node(id).outputs.size()); ++o) {
        const Value value{id, o};
        if (run_.graph.arena()->type(InRun(value)).dtype != DType::kFloat16) continue;
        const Value made = reference_.values.at(value);
        const int64_t n = arena_->type(made).num_elements();
        if (n == 0 || FactsInRun(value).range.Magnitude() <= LargestOf(DType::kFloat16)) continue;
        const Shape& shape = arena_->type(made).shape;
        const int64_t columns = !shape.empty() && shape.back() < n ? shape.back() : n;
        ASSIGN_OR_RETURN(const Value matrix, Reshaped(made, {n / columns, columns}));
        ASSIGN_OR_RETURN(const Value magnitudes, arena_->Apply("abs", {matrix}));
        ASSIGN_OR_RETURN(const Value largest,
                         arena_->Apply("reduce_max", {magnitudes}, {{"axes", std::vector<int64_t>{0}}}));
        magnitudes_.emplace_back(value, largest);
      }
    }
    return absl::OkStatus();
  }

  // ---- running

  absl::StatusOr<std::vector<Tensor>> RunGraph(const Graph& graph, const std::vector<Tensor>& inputs) {
    Graph lowered = graph;
    if (options_.lower) {
      ASSIGN_OR_RETURN(lowered, options_.lower(graph));
    }
    if (options_.runner != nullptr) {
      ASSIGN_OR_RETURN(const std::unique_ptr<Executable> executable, options_.runner->Prepare(lowered));
      const double start = CpuSeconds();
      std::vector<Tensor> outputs;
      RETURN_IF_ERROR(executable->Run(inputs, &outputs));
      estimate_.run_seconds = CpuSeconds() - start;
      return outputs;
    }
    const double start = CpuSeconds();
    absl::StatusOr<std::vector<Tensor>> outputs =
        InterpretGraph(lowered, Named(lowered, inputs), {Precision::kNative, options_.threads});
    estimate_.run_seconds = CpuSeconds() - start;
    return outputs;
  }

  static absl::flat_hash_map<std::string, Tensor> Named(const Graph& graph, const std::vector<Tensor>& inputs) {
    absl::flat_hash_map<std::string, Tensor> named;
    for (size_t i = 0; i < inputs.size(); ++i) named[graph.node(graph.inputs()[i].node).name] = inputs[i];
    return named;
  }

  static absl::StatusOr<std::vector<Tensor>> InTypesOf(const Graph& graph, std::vector<Tensor> inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const DType dtype = graph.type(graph.inputs()[i]).dtype;
      if (!IsFloating(dtype)) continue;
      ASSIGN_OR_RETURN(inputs[i], Converted(inputs[i], dtype));
    }
    return inputs;
  }

  // Returns the sum of each half of the elements, of f32 or f64.
  static std::pair<double, double> TotalsOfHalves(const Tensor& tensor) {
    const int64_t half = tensor.num_elements() / 2;
    const auto totals = [&](const auto* elements) {
      return std::pair(std::accumulate(elements, elements + half, 0.0),
                       std::accumulate(elements + half, elements + 2 * half, 0.0));
    };
    return tensor.dtype() == DType::kFloat32 ? totals(tensor.as<float>()) : totals(tensor.as<double>());
  }

  // Returns the graph to run: derivatives are taken, so that values need no longer be held, nor written for their sake.
  absl::StatusOr<Graph> WithoutCopies(const Graph& graph) const {
    ValueMap copies = reference_.plain;
    for (const NodeId id : graph.nodes()) {
      const Node& node = graph.node(id);
      if (node.op == nullptr) continue;
      const std::optional<int> operand = CopiedOperand(*node.meaning, arena_->types(node.operands), node.outputs);
      if (operand) copies[{id, 0}] = node.operands[static_cast<size_t>(*operand)];
    }
    return ReplaceEverywhere(graph, copies);
  }

  absl::Status Evaluate(const std::vector<Tensor>& inputs) {
    std::vector<Output> outputs;
    absl::flat_hash_map<Value, size_t> places;
    const auto ask = [&](Value value) {
      if (places.emplace(value, outputs.size()).second) {
        outputs.push_back({value, absl::StrCat("part", outputs.size())});
      }
    };
    for (const Look& look : looks_) {
      ask(look.at);
      ask(look.element);
      for (const Charge& charge : look.charges) {
        if (charge.sums) ask({*charge.sums, 0});
      }
    }
    for (const auto& [value, largest] : magnitudes_) ask(largest);
    if (outputs.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const Graph graph,
                     WithoutCopies(Graph(reference_.graph.arena(), reference_.graph.inputs(), outputs)));
    ASSIGN_OR_RETURN(const std::vector<Tensor> converted, InTypesOf(graph, inputs));
    ASSIGN_OR_RETURN(const std::vector<Tensor> results, RunGraph(graph, converted));
    const auto result = [&](Value value) -> const Tensor& { return results[places.at(value)]; };
    for (const Look& look : looks_) {
      OutputError error{
          .output = look.output, .element = result(look.at).AtInt(0), .value = result(look.element).At(0)};
      double square = 0;
      for (const Charge& charge : look.charges) {
        ErrorShare share;
        share.value = charge.value;
        share.name = NameOf(charge.value);
        const Node& node = graph_.node(charge.value.node);
        share.op = node.op != nullptr              ? node.op->name
                   : node.leaf == LeafKind::kInput ? "input"
                   : node.leaf == LeafKind::kState ? "weight"
                                                   : "constant";
        if (charge.sums) {
          const auto [worst_sum, square_sum] = TotalsOfHalves(result({*charge.sums, 0}));
          share.worst = worst_sum * charge.worst;
          share.square = square_sum * charge.square;
        }
        error.worst += share.worst;
        square += share.square;
        error.shares.push_back(std::move(share));
      }
      error.typical = std::sqrt(square);
      std::stable_sort(error.shares.begin(), error.shares.end(),
                       [](const ErrorShare& a, const ErrorShare& b) { return a.square > b.square; });
      estimate_.looks.push_back(std::move(error));
    }
    for (const auto& [value, largest] : magnitudes_) {
      const Tensor& tensor = result(largest);
      for (int64_t i = 0; i < tensor.num_elements(); ++i) {
        if (!(tensor.At(i) > LargestOf(DType::kFloat16))) continue;
        estimate_.overflows.push_back(NameOf(value));
        break;
      }
    }
    return absl::OkStatus();
  }

  absl::Status Measure(const std::vector<Tensor>& inputs, const std::vector<Tensor>& exact) {
    ASSIGN_OR_RETURN(const std::vector<Tensor> run_inputs, InTypesOf(run_.graph, inputs));
    const double start = CpuSeconds();
    ASSIGN_OR_RETURN(const std::vector<Tensor> computed,
                     InterpretGraph(run_.graph, Named(run_.graph, run_inputs), {Precision::kNative, options_.threads}));
    estimate_.forward_seconds = CpuSeconds() - start;
    for (OutputError& look : estimate_.looks) {
      for (size_t o = 0; o < graph_.outputs().size(); ++o) {
        if (graph_.outputs()[o].name != look.output) continue;
        look.measured = std::abs(computed[o].At(look.element) - exact[o].At(look.element));
        break;
      }
    }
    return absl::OkStatus();
  }

  const Graph& graph_;
  const ErrorOptions& options_;
  Retyped run_;        // as it is taken to run; values only where it is another graph
  Retyped reference_;  // for values and derivatives
  Arena* arena_ = nullptr;
  Numerics numerics_, original_numerics_;
  absl::flat_hash_map<Value, std::vector<Part>> parts_;
  std::vector<Look> looks_;
  std::vector<std::pair<Value, Value>> magnitudes_;
  ErrorEstimate estimate_;
};

}  // namespace

std::optional<RunPrecision> ParseRunPrecision(const std::string& name) {
  if (name == "tf32") return RunPrecision{DType::kFloat32, true};
  DType dtype;
  if (!ParseDType(name, &dtype) || !IsFloating(dtype)) return std::nullopt;
  return RunPrecision{dtype, false};
}

absl::StatusOr<ErrorEstimate> EstimateErrors(const Graph& graph, const std::vector<Tensor>& inputs,
                                             const ErrorOptions& options) {
  constexpr size_t kMostValues = 300;  // of a node: each has a derivative that tells it from all others
  for (NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    const size_t values = std::max(node.operands.size(), node.outputs.size());
    if (node.op == nullptr || values <= kMostValues) continue;
    return absl::ResourceExhaustedError(
        absl::StrCat("found ", node.op->name, " of ", values, " values, expected at most ", kMostValues));
  }
  return Estimator(graph, options).Run(inputs);
}

std::optional<RelativeError> LargestError(const ErrorEstimate& estimate) {
  std::optional<RelativeError> error;
  for (const OutputError& look : estimate.looks) {
    const auto first = std::find_if(estimate.looks.begin(), estimate.looks.end(),
                                    [&](const OutputError& other) { return other.output == look.output; });
    const double largest = std::abs(first->value);
    if (largest == 0 || !std::isfinite(look.worst / largest)) continue;
    if (!error || look.worst / largest > error->worst) error = {look.worst / largest, look.typical / largest};
  }
  return error;
}

std::string ErrorText(const RelativeError& error) {
  return absl::StrFormat("worst %.2g, typical %.2g of the largest element", error.worst, error.typical);
}

}  // namespace rewright
