#include "substitutions/generate/rule_builder.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "substitutions/rule_printer.h"
#include "substitutions/status_macros.h"
#include "substitutions/taso/sizes.h"

namespace rewright::generate {
namespace {

using Poly = taso::Size;

// Names of sizes by rank and axis, and of tensors in order of appearance.
const std::string kHints[5][4] = {{}, {"n"}, {"m", "n"}, {"b", "m", "n"}, {"n", "c", "h", "w"}};
const std::string kNames[] = {"x", "y", "z", "u", "v"};

struct Tensor {
  std::vector<Poly> sizes;
  std::vector<std::vector<Poly>> cuts;  // by axis, as in Type
  Shape nominal;
};

bool IsElementwise(const OperatorChoice& choice) {
  return choice.op == "add" || choice.op == "sub" || choice.op == "mul" || choice.op == "div" || choice.op == "max" ||
         choice.op == "min" || choice.op == "relu" || choice.op == "neg" || choice.op == "exp" || choice.op == "abs" ||
         choice.op == "tanh" || choice.op == "sigmoid" || choice.op == "sqrt" || choice.op == "reciprocal";
}

class Builder {
 public:
  Builder(const Space& space, const Pair& pair, const std::vector<int>& outputs, Generality generality)
      : space_(space), pair_(pair), outputs_(outputs), generality_(generality) {}

  absl::StatusOr<Rule> Run() {
    REWRIGHT_RETURN_IF_ERROR(CheckSides());
    REWRIGHT_RETURN_IF_ERROR(CheckOperators());
    std::vector<std::vector<Tensor>> left, right;
    REWRIGHT_RETURN_IF_ERROR(Infer(pair_.first, &left));
    REWRIGHT_RETURN_IF_ERROR(Infer(pair_.second, &right));
    const std::vector<Ref> l = OutputsOf(space_, pair_.first), r = OutputsOf(space_, pair_.second);
    for (size_t k = 0; k < l.size(); ++k) {
      const Tensor &a = TensorOf(l[k], left), &b = TensorOf(r[static_cast<size_t>(outputs_[k])], right);
      if (a.sizes.size() != b.sizes.size()) return Error("outputs of different ranks");
      for (size_t axis = 0; axis < a.sizes.size(); ++axis) {
        if (!sizes_.Equate(a.sizes[axis], b.sizes[axis])) return Error("outputs of different shapes");
      }
    }
    if (!sizes_.Solve()) return Error("sizes that cannot be equal");
    Write(pair_.first, left, l, true, &rule_.lhs);
    std::vector<Ref> ordered;
    for (int k : outputs_) ordered.push_back(r[static_cast<size_t>(k)]);
    Write(pair_.second, right, ordered, false, &rule_.rhs);
    if (!error_.ok()) return error_;
    for (const auto& [a, b] : sizes_.Rest()) {
      rule_.conditions.push_back(ArgExpr::Binary(ArgOp::kEqual, sizes_.Print(a), sizes_.Print(b)));
    }
    return std::move(rule_);
  }

 private:
  static absl::Status Error(const std::string& message) { return absl::InvalidArgumentError(message); }

  const OperatorChoice& ChoiceOf(const SmallGraph::Application& application) const {
    return space_.operators[static_cast<size_t>(application.op)];
  }

  template <typename F>
  void ForEachInput(const SmallGraph& graph, const F& visit) const {
    for (int i = 0; i < graph.num_inputs && graph.size == 0; ++i) visit(graph.inputs[i]);
    for (int i = 0; i < graph.size; ++i) {
      for (int k = 0; k < ChoiceOf(graph.applications[i]).arity; ++k) {
        if (graph.applications[i].operands[k] < kOutputs) visit(graph.applications[i].operands[k]);
      }
    }
  }

  absl::Status CheckSides() const {
    if (pair_.first.size == 0) return Error("the left side has no operator");
    uint64_t left = 0, right = 0;
    ForEachInput(pair_.first, [&](Ref input) { left |= uint64_t{1} << input; });
    ForEachInput(pair_.second, [&](Ref input) { right |= uint64_t{1} << input; });
    if (left == 0 || (right & ~left) != 0) return Error("the left side lacks an input of the right one");
    return absl::OkStatus();
  }

  // Whether the generality asked for says more than the next.
  absl::Status CheckOperators() {
    bool elementwise = true, windows = false;
    std::map<std::string, const Attrs*> attrs;  // of the operators with windows
    int64_t axis = -1;
    for (const SmallGraph* graph : {&pair_.first, &pair_.second}) {
      for (int i = 0; i < graph->size; ++i) {
        const OperatorChoice& choice = ChoiceOf(graph->applications[i]);
        if (HasWindows(choice)) {
          windows = true;
          const auto [at, fresh] = attrs.try_emplace(choice.op, &choice.attrs);
          if (!fresh && *at->second != choice.attrs && generality_ == Generality::kAnyAttrs) {
            return Error("windows of different attributes");
          }
        }
        identity_ = identity_ || choice.constant == OperatorChoice::Constant::kIdentity;
        if (choice.op == "concat" || choice.op == "split") {
          const int64_t own = std::get<int64_t>(choice.attrs.at("axis"));
          if (axis >= 0 && axis != own) elementwise = false;
          axis = own;
        } else {
          elementwise = elementwise && IsElementwise(choice);
        }
      }
    }
    axis_ = static_cast<size_t>(std::max<int64_t>(axis, 0));
    switch (generality_) {
      case Generality::kAnyShape:
        return elementwise && axis == -1 ? absl::OkStatus() : Error("operators that are not element-wise");
      case Generality::kAnyAxis: return elementwise && axis >= 0 ? absl::OkStatus() : Error("no axis that may be any");
      case Generality::kAnyAttrs: return windows ? absl::OkStatus() : Error("no operator with windows");
      default: return absl::OkStatus();
    }
  }

  // ---------------------------------------------------------------- shapes

  Poly SizeOf(const Size& size, size_t axis, size_t rank) {
    const bool extent = size.variable < 0 && rank == 4 && axis >= 2;  // of a kernel
    const bool any = generality_ == Generality::kAnyAxis || (extent && generality_ != Generality::kSpace);
    if (size.variable < 0 && !any) return Poly(size.number);
    if (generality_ == Generality::kAnyAxis && axis != axis_) {
      const auto [at, fresh] = shared_.try_emplace(static_cast<int>(axis));
      if (fresh) at->second = sizes_.New(kHints[rank][axis]);
      return at->second;
    }
    if (generality_ == Generality::kAnyAxis) return sizes_.New("s");
    if (generality_ != Generality::kSpace) return sizes_.New(kHints[rank][axis]);
    const auto [at, fresh] = shared_.try_emplace(size.variable);
    if (fresh) at->second = sizes_.New(space_.variables[static_cast<size_t>(size.variable)]);
    return at->second;
  }

  Tensor Fresh(const std::vector<Size>& shape) {
    Tensor tensor;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const Size& size = shape[axis];
      tensor.sizes.push_back(SizeOf(size, axis, shape.size()));
      tensor.nominal.push_back(size.variable < 0 ? size.number : space_.nominal[static_cast<size_t>(size.variable)]);
    }
    tensor.cuts.resize(shape.size());
    return tensor;
  }

  const Tensor& InputTensor(Ref input) {
    const auto found = inputs_.find(input);
    if (found != inputs_.end()) return found->second;
    int number = input;
    for (const InputGroup& group : space_.inputs) {
      if (number < group.count) return inputs_[input] = Fresh(group.shape);
      number -= group.count;
    }
    CHECK(false) << "an input without a group";
    return inputs_[input];
  }

  const Tensor& TensorOf(Ref ref, const std::vector<std::vector<Tensor>>& values) {
    if (ref < kOutputs) return InputTensor(ref);
    return values[static_cast<size_t>((ref - kOutputs) / kMaxOutputs)][static_cast<size_t>((ref - kOutputs) % kMaxOutputs)];
  }

  absl::Status Infer(const SmallGraph& graph, std::vector<std::vector<Tensor>>* values) {
    for (int i = 0; i < graph.size; ++i) {
      const OperatorChoice& choice = ChoiceOf(graph.applications[i]);
      std::vector<Tensor> operands;
      for (int k = 0; k < choice.arity; ++k) operands.push_back(TensorOf(graph.applications[i].operands[k], *values));
      if (choice.constant != OperatorChoice::Constant::kNone) {
        values->push_back({Fresh(choice.shape)});
        continue;
      }
      absl::StatusOr<std::vector<Tensor>> outputs = InferOne(choice, operands);
      if (!outputs.ok()) return outputs.status();
      values->push_back(*std::move(outputs));
    }
    return absl::OkStatus();
  }

  // Values of the derived attributes, as polynomials.
  using PolyLists = std::map<std::string, std::vector<Poly>>;

  absl::Status Derive(const OperatorChoice& choice, const std::vector<Tensor>& operands, Attrs* nominal,
                      PolyLists* symbolic) {
    *nominal = choice.attrs;
    switch (choice.derived) {
      case Derived::kNone: return absl::OkStatus();
      case Derived::kGroups: {
        const int64_t ratio = operands[0].nominal[1] / operands[1].nominal[1];
        (*nominal)["groups"] = ratio;
        const Poly &channels = operands[0].sizes[1], &group = operands[1].sizes[1], &out = operands[1].sizes[0];
        Poly groups(ratio);
        if (sizes_.Resolve(group).Is(1) && ratio != 1) {
          groups = channels;
        } else if (!sizes_.Equate(channels, groups * group)) {
          return Error("channels that do not fit");
        }
        groups = sizes_.Resolve(groups);
        if (!groups.Is(1) && !sizes_.Resolve(out).DividedBy(groups) && !sizes_.Equate(out, groups * sizes_.New("o"))) {
          return Error("output channels that do not fit");
        }
        (*symbolic)["groups"] = {groups};
        return absl::OkStatus();
      }
      case Derived::kParts: {
        const size_t axis = static_cast<size_t>(std::get<int64_t>(choice.attrs.at("axis")));
        const std::vector<Poly>& cuts = operands[0].cuts[axis];
        if (cuts.empty()) return Error("a split of what was not put together");
        const Poly first = cuts.back();
        (*symbolic)["sizes"] = {first, operands[0].sizes[axis] - first};
        // The nominal sizes of the parts matter only in that they add up.
        (*nominal)["sizes"] = std::vector<int64_t>{1, operands[0].nominal[axis] - 1};
        return absl::OkStatus();
      }
      case Derived::kEnlarge: {
        std::vector<Poly> before = {Poly(0), Poly(0)}, after = before;
        std::vector<int64_t> nominal_before = {0, 0}, nominal_after = {0, 0};
        for (size_t k = 0; k < 2; ++k) {
          const int64_t more = choice.extent[k] - operands[0].nominal[2 + k];
          nominal_before.push_back(more / 2);
          nominal_after.push_back(more - more / 2);
          before.push_back(Poly(more / 2));
          after.push_back(Poly(more - more / 2));
        }
        (*nominal)["before"] = nominal_before;
        (*nominal)["after"] = nominal_after;
        (*symbolic)["before"] = before;
        (*symbolic)["after"] = after;
        return absl::OkStatus();
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Tensor>> InferOne(const OperatorChoice& choice, const std::vector<Tensor>& operands) {
    Attrs attrs;
    PolyLists symbolic;
    REWRIGHT_RETURN_IF_ERROR(Derive(choice, operands, &attrs, &symbolic));
    std::vector<TensorType> types;
    for (const Tensor& operand : operands) types.push_back({DType::kFloat32, operand.nominal});
    if (choice.same_shape) {
      // An axis that has size one in the space alone is not one that is stretched.
      for (size_t axis = 0; axis < operands[0].sizes.size(); ++axis) {
        if (!sizes_.Equate(operands[0].sizes[axis], operands[1].sizes[axis])) return Error("operands that do not fit");
        const bool unit = sizes_.Resolve(operands[0].sizes[axis]).Is(1);
        for (TensorType& type : types) type.shape[axis] = unit ? 1 : std::max<int64_t>(type.shape[axis], 2);
      }
    }
    absl::StatusOr<Application> applied = rewright::Apply(*FindOp(choice.op), types, attrs, meanings_);
    if (!applied.ok()) return applied.status();
    const Meaning& meaning = *applied->meaning;
    std::vector<std::optional<Poly>> variables(meaning.variables.size());
    for (size_t v = 0; v < meaning.variables.size(); ++v) {
      const Meaning::Variable& variable = meaning.variables[v];
      if (variable.kind == Meaning::VarKind::kSize) {
        variables[v] = operands[static_cast<size_t>(variable.input)].sizes[static_cast<size_t>(variable.axis)];
      } else if (variable.kind == Meaning::VarKind::kAttr) {
        const auto given = symbolic.find(variable.attr);
        const Attr& attr = applied->attrs.at(variable.attr);
        const size_t at = static_cast<size_t>(variable.axis);
        if (given != symbolic.end()) {
          variables[v] = given->second[at];
        } else if (AnyAttrs(choice)) {
          variables[v] = AnyAttr(variable.attr, at);
        } else if (const auto* list = std::get_if<std::vector<int64_t>>(&attr)) {
          variables[v] = Poly((*list)[at]);
        } else if (const auto* number = std::get_if<int64_t>(&attr)) {
          variables[v] = Poly(*number);
        }
      }
    }
    for (const Requirement& requirement : meaning.requirements) {
      if (!Demand(requirement.condition, variables)) return Error("operands that do not fit");
    }
    std::vector<Tensor> outputs;
    for (size_t k = 0; k < meaning.outputs.size(); ++k) {
      Tensor output;
      for (const ExprPtr& size : meaning.outputs[k].shape) {
        std::optional<Poly> value = Evaluate(size, variables);
        if (!value && AnyAttrs(choice)) value = WindowCount(size, variables);
        if (!value) return Error("a size that is no polynomial");
        output.sizes.push_back(*value);
      }
      output.nominal = choice.same_shape ? operands[0].nominal : applied->outputs[k].shape;
      output.cuts = CutsOf(choice, operands, static_cast<int>(k), meaning.outputs[k]);
      outputs.push_back(std::move(output));
    }
    return outputs;
  }

  bool AnyAttrs(const OperatorChoice& choice) const {
    return generality_ == Generality::kAnyAttrs && HasWindows(choice);
  }
  // Attributes of windows are the same wherever they occur.
  Poly AnyAttr(const std::string& attr, size_t element) {
    const auto [at, fresh] = any_attrs_.try_emplace({attr, element});
    if (fresh) at->second = sizes_.New("a");
    return at->second;
  }
  // The number of windows along an axis: the same for the same sizes.
  Poly WindowCount(const ExprPtr& size, const std::vector<std::optional<Poly>>& variables) {
    std::vector<Poly> reads;
    const std::function<void(const ExprPtr&)> visit = [&](const ExprPtr& e) {
      if (e->kind == ExprKind::kVar && variables[static_cast<size_t>(e->integer)]) {
        reads.push_back(sizes_.Resolve(*variables[static_cast<size_t>(e->integer)]));
      }
      for (const ExprPtr& arg : e->args) visit(arg);
    };
    visit(size);
    const auto [at, fresh] = counts_.try_emplace(reads);
    if (fresh) at->second = sizes_.New("z");
    return at->second;
  }

  std::optional<Poly> Evaluate(const ExprPtr& e, const std::vector<std::optional<Poly>>& variables) {
    if (e->kind == ExprKind::kInt) return Poly(e->integer);
    if (e->kind == ExprKind::kVar) {
      const std::optional<Poly>& value = variables[static_cast<size_t>(e->integer)];
      return value ? std::optional<Poly>(sizes_.Resolve(*value)) : std::nullopt;
    }
    if (e->args.size() != 2) return std::nullopt;
    const std::optional<Poly> a = Evaluate(e->args[0], variables), b = Evaluate(e->args[1], variables);
    if (!a || !b) return std::nullopt;
    switch (e->kind) {
      case ExprKind::kIndexAdd: return *a + *b;
      case ExprKind::kIndexSub: return *a - *b;
      case ExprKind::kIndexMul: return *a * *b;
      case ExprKind::kFloorDiv: return a->DividedBy(*b);
      default: return std::nullopt;
    }
  }

  // Equations are demanded; the rest is left to the verifier. False where they cannot hold.
  bool Demand(const ExprPtr& cond, const std::vector<std::optional<Poly>>& variables) {
    if (cond->kind == ExprKind::kAnd) return Demand(cond->args[0], variables) && Demand(cond->args[1], variables);
    if (cond->kind != ExprKind::kEqual) return true;
    const std::optional<Poly> a = Evaluate(cond->args[0], variables), b = Evaluate(cond->args[1], variables);
    return !a || !b || sizes_.Equate(*a, *b);
  }

  // As Terms::CutsOf.
  std::vector<std::vector<Poly>> CutsOf(const OperatorChoice& choice, const std::vector<Tensor>& operands, int output,
                                        const OutputMeaning& meaning) {
    const size_t rank = meaning.shape.size();
    std::vector<std::vector<Poly>> cuts(rank);
    const size_t at = choice.op == "concat" || choice.op == "split"
                          ? static_cast<size_t>(std::get<int64_t>(choice.attrs.at("axis")))
                          : rank;
    for (size_t axis = 0; axis < rank; ++axis) {
      if (axis == at && choice.op == "concat") {
        cuts[axis] = operands[0].cuts[axis];
        for (const Poly& cut : operands[1].cuts[axis]) cuts[axis].push_back(cut + operands[0].sizes[axis]);
        cuts[axis].push_back(operands[0].sizes[axis]);
      } else if (axis == at) {
        cuts[axis] = PartCuts(operands[0].cuts[axis], output);
      } else {
        cuts[axis] = CarriedCuts(operands, meaning, axis);
      }
    }
    return cuts;
  }

  // A cut belongs to the first part where the middle less the cut is a size.
  std::vector<Poly> PartCuts(const std::vector<Poly>& cuts, int output) {
    std::vector<Poly> result;
    const Poly middle = sizes_.Resolve(cuts.back());
    for (size_t k = 0; k + 1 < cuts.size(); ++k) {
      const Poly rest = middle - sizes_.Resolve(cuts[k]);
      const bool before = std::all_of(rest.terms().begin(), rest.terms().end(), [](const auto& t) { return t.second > 0; });
      if (before == (output == 0)) result.push_back(output == 0 ? cuts[k] : cuts[k] - middle);
    }
    return result;
  }

  std::vector<Poly> CarriedCuts(const std::vector<Tensor>& operands, const OutputMeaning& meaning, size_t axis) {
    std::vector<Poly> result;
    bool first = true;
    const std::function<void(const ExprPtr&)> visit = [&](const ExprPtr& e) {
      if (e->kind == ExprKind::kRead) {
        const Tensor& operand = operands[static_cast<size_t>(e->integer)];
        for (size_t k = 0; k < e->args.size(); ++k) {
          if (e->args[k]->kind != ExprKind::kVar || e->args[k]->integer != meaning.index_vars[axis]) continue;
          std::vector<Poly> carried;
          for (const Poly& cut : operand.cuts[k]) carried.push_back(sizes_.Resolve(cut));
          if (first) result = carried;
          if (result.size() != carried.size() || !(result == carried)) result.clear();
          first = false;
        }
        return;
      }
      for (const ExprPtr& arg : e->args) visit(arg);
    };
    visit(meaning.element);
    return result;
  }

  // ---------------------------------------------------------------- text

  static TensorTerm Apply(const std::string& op, std::vector<TensorTerm> operands) {
    TensorTerm term;
    term.kind = TensorTerm::Kind::kApply;
    term.name = op;
    term.op = FindOp(op);
    CHECK(term.op != nullptr) << op;
    term.operands = std::move(operands);
    return term;
  }

  TensorTerm Value(ArgExpr value, ShapeSpec shape) const {
    TensorTerm term;
    term.kind = TensorTerm::Kind::kValue;
    term.value = std::move(value);
    term.shape = std::move(shape);
    if (identity_) term.dtype = Float();
    return term;
  }

  ShapeSpec ShapeOf(const Tensor& tensor) {
    ShapeSpec shape;
    if (generality_ == Generality::kAnyAxis && !tensor.sizes.empty()) {
      shape.dims = {Pack("a"), sizes_.Print(tensor.sizes[axis_]), Pack("b")};
      return shape;
    }
    for (const Poly& size : tensor.sizes) shape.dims.push_back(sizes_.Print(size));
    return shape;
  }

  static ArgExpr Pack(const std::string& name) {
    ArgExpr splice, pack;
    pack.kind = ArgExpr::Kind::kName;
    pack.name = name;
    splice.kind = ArgExpr::Kind::kSplice;
    splice.args = {pack};
    return splice;
  }
  // len(a)
  static ArgExpr AxisOfAny() {
    ArgExpr call;
    call.kind = ArgExpr::Kind::kCall;
    call.fn = ArgFn::kLen;
    call.args = Pack("a").args;
    return call;
  }

  ArgExpr Numbers(const std::vector<int64_t>& values) {
    std::vector<ArgExpr> items;
    for (int64_t value : values) items.push_back(ArgExpr::Int(value));
    return ArgExpr::List(std::move(items));
  }
  ArgExpr Sizes(const std::vector<Poly>& values) {
    std::vector<ArgExpr> items;
    for (const Poly& value : values) items.push_back(sizes_.Print(value));
    return ArgExpr::List(std::move(items));
  }

  // Operands before users; what is used twice, or is one output of several, is named.
  void Write(const SmallGraph& graph, const std::vector<std::vector<Tensor>>& values, const std::vector<Ref>& outputs,
             bool left, RuleSide* side) {
    std::vector<int> uses(static_cast<size_t>(graph.size), 0);
    const auto count = [&](Ref ref) {
      if (ref >= kOutputs) ++uses[static_cast<size_t>((ref - kOutputs) / kMaxOutputs)];
    };
    const bool whole = outputs.size() == 2 && outputs[0] >= kOutputs && outputs[1] == outputs[0] + 1 &&
                       (outputs[0] - kOutputs) % kMaxOutputs == 0;
    for (Ref ref : outputs) count(ref);
    for (int i = 0; i < graph.size; ++i) {
      for (int k = 0; k < ChoiceOf(graph.applications[i]).arity; ++k) count(graph.applications[i].operands[k]);
    }
    std::vector<std::string> names(static_cast<size_t>(graph.size));
    std::map<int, TensorTerm> inlined;
    for (int i = 0; i < graph.size; ++i) {
      const OperatorChoice& choice = ChoiceOf(graph.applications[i]);
      std::vector<TensorTerm> operands;
      std::vector<const Tensor*> types;
      for (int k = 0; k < choice.arity; ++k) {
        const Ref ref = graph.applications[i].operands[k];
        operands.push_back(Operand(ref, names, &inlined));
        types.push_back(&TensorOf(ref, values));
      }
      TensorTerm term = WriteOne(choice, std::move(operands), types, values[static_cast<size_t>(i)], left);
      const bool is_output = whole && (outputs[0] - kOutputs) / kMaxOutputs == i;
      const bool several = NumOutputs(choice) > 1;
      if (is_output || (uses[static_cast<size_t>(i)] == 1 && !several)) {
        inlined[i] = std::move(term);
      } else {
        names[static_cast<size_t>(i)] = absl::StrCat(left ? "t" : "r", i + 1);
        side->lets.push_back({names[static_cast<size_t>(i)], std::move(term)});
      }
    }
    if (whole) {
      side->outputs.push_back(inlined.at((outputs[0] - kOutputs) / kMaxOutputs));
      return;
    }
    for (Ref ref : outputs) side->outputs.push_back(Operand(ref, names, &inlined));
  }

  TensorTerm Operand(Ref ref, const std::vector<std::string>& names, std::map<int, TensorTerm>* inlined) {
    TensorTerm term;
    if (ref < kOutputs) {
      const auto [at, fresh] = names_.try_emplace(ref);
      if (fresh) {
        const size_t number = names_.size() - 1;
        at->second = number < std::size(kNames) ? kNames[number] : absl::StrCat("x", number + 1);
        const bool shaped = generality_ != Generality::kAnyShape || InputTensor(ref).sizes.empty();
        if (shaped) term.shape = ShapeOf(InputTensor(ref));
        // A rule whose operators name element types has to name all.
        if (identity_) term.dtype = Float();
      }
      term.name = at->second;
      return term;
    }
    const int i = (ref - kOutputs) / kMaxOutputs;
    const auto found = inlined->find(i);
    if (found != inlined->end()) return found->second;
    term.name = names[static_cast<size_t>(i)];
    bool several = false;
    for (const SmallGraph* graph : {&pair_.first, &pair_.second}) {
      // Names of the left begin with t, those of the right with r.
      if ((graph == &pair_.first) == (term.name[0] == 't') && i < graph->size) {
        several = NumOutputs(ChoiceOf(graph->applications[i])) > 1;
      }
    }
    if (several) term.output = (ref - kOutputs) % kMaxOutputs;
    return term;
  }

  static ArgExpr Float() {
    ArgExpr dtype;
    dtype.kind = ArgExpr::Kind::kDType;
    dtype.dtype = DType::kFloat32;
    return dtype;
  }

  TensorTerm WriteOne(const OperatorChoice& choice, std::vector<TensorTerm> operands,
                      const std::vector<const Tensor*>& types, const std::vector<Tensor>& outputs, bool left) {
    if (choice.constant == OperatorChoice::Constant::kSplat) {
      const bool whole = choice.denominator == 1;
      const double real = static_cast<double>(choice.numerator) / static_cast<double>(choice.denominator);
      ArgExpr value = whole  ? ArgExpr::Int(choice.numerator)
                      : left ? ArgExpr::Real(real)
                             : ArgExpr::Binary(ArgOp::kQuotient, ArgExpr::Int(choice.numerator),
                                               ArgExpr::Int(choice.denominator));
      return Value(std::move(value), generality_ == Generality::kAnyShape ? ShapeSpec() : ShapeOf(outputs[0]));
    }
    if (choice.constant == OperatorChoice::Constant::kIdentity) return Identity(outputs[0]);
    TensorTerm term = Apply(choice.op, std::move(operands));
    if (AnyAttrs(choice)) {
      term.bundle = std::string(1, choice.op == "conv2d" ? 'c' : 'p');
    } else {
      for (const auto& [name, value] : choice.attrs) {
        if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
          if (choice.op == "conv2d" && std::all_of(list->begin(), list->end(), [](int64_t v) { return v == 0; })) continue;
          term.attrs.push_back({name, Numbers(*list)});
        } else if (const auto* number = std::get_if<int64_t>(&value)) {
          const bool any = generality_ == Generality::kAnyAxis && name == "axis";
          term.attrs.push_back({name, any ? AxisOfAny() : ArgExpr::Int(*number)});
        }
      }
    }
    WriteDerived(choice, types, outputs, &term);
    if (!choice.then.empty()) return Apply(choice.then, {std::move(term)});
    return term;
  }

  void WriteDerived(const OperatorChoice& choice, const std::vector<const Tensor*>& types,
                    const std::vector<Tensor>& outputs, TensorTerm* term) {
    switch (choice.derived) {
      case Derived::kNone: break;
      case Derived::kGroups: {
        const Poly channels = sizes_.Resolve(types[0]->sizes[1]), group = sizes_.Resolve(types[1]->sizes[1]);
        const std::optional<Poly> groups = channels == group ? Poly(1) : channels.DividedBy(group);
        if (!groups) {
          error_ = Error("a number of groups that is no polynomial");
        } else if (!groups->Is(1) || !term->bundle.empty()) {
          term->attrs.push_back({"groups", sizes_.Print(*groups)});
        }
        break;
      }
      case Derived::kParts: {
        const size_t axis = static_cast<size_t>(std::get<int64_t>(choice.attrs.at("axis")));
        term->attrs.push_back({"sizes", Sizes({outputs[0].sizes[axis], outputs[1].sizes[axis]})});
        break;
      }
      case Derived::kEnlarge: {
        std::vector<int64_t> before = {0, 0}, after = {0, 0};
        for (size_t k = 0; k < 2; ++k) {
          const int64_t more = choice.extent[k] - types[0]->nominal[2 + k];
          before.push_back(more / 2);
          after.push_back(more - more / 2);
        }
        term->attrs.push_back({"before", Numbers(before)});
        term->attrs.push_back({"after", Numbers(after)});
        break;
      }
    }
  }

  // where(row = column, 1, 0); of a kernel, padded to its extent.
  TensorTerm Identity(const Tensor& tensor) {
    ShapeSpec square;
    for (size_t axis = 0; axis < 2; ++axis) square.dims.push_back(sizes_.Print(tensor.sizes[axis]));
    const auto iota = [&](int64_t axis) {
      TensorTerm term = Apply("iota", {});
      ArgExpr dtype;
      dtype.kind = ArgExpr::Kind::kDType;
      dtype.dtype = DType::kInt64;
      term.attrs = {{"shape", ArgExpr::List(square.dims)}, {"axis", ArgExpr::Int(axis)}, {"dtype", dtype}};
      return term;
    };
    TensorTerm term = Apply("where", {Apply("equal", {iota(0), iota(1)}), Value(ArgExpr::Int(1), square),
                                      Value(ArgExpr::Int(0), square)});
    if (tensor.sizes.size() == 2) return term;
    std::vector<ArgExpr> shape = square.dims;
    shape.insert(shape.end(), {ArgExpr::Int(1), ArgExpr::Int(1)});
    term = Apply("reshape", {std::move(term)});
    term.attrs.push_back({"shape", ArgExpr::List(shape)});
    std::vector<int64_t> before = {0, 0}, after = {0, 0};
    for (size_t axis = 2; axis < 4; ++axis) {
      const Poly extent = sizes_.Resolve(tensor.sizes[axis]);
      if (!extent.Is(tensor.nominal[axis])) error_ = Error("an identity kernel of any extent");
      before.push_back(tensor.nominal[axis] / 2);
      after.push_back(tensor.nominal[axis] - 1 - before.back());
    }
    TensorTerm padded = Apply("pad", {std::move(term)});
    padded.attrs = {{"before", Numbers(before)}, {"after", Numbers(after)}};
    return padded;
  }

  const Space& space_;
  const Pair& pair_;
  const std::vector<int>& outputs_;
  const Generality generality_;
  taso::Sizes sizes_;
  std::map<int, Poly> shared_;
  std::map<Ref, Tensor> inputs_;
  std::map<std::pair<std::string, size_t>, Poly> any_attrs_;
  std::map<std::vector<Poly>, Poly> counts_;
  std::map<Ref, std::string> names_;
  bool identity_ = false;
  size_t axis_ = 0;  // kAnyAxis: of the space
  MeaningCache meanings_;
  Rule rule_;
  absl::Status error_;
};

}  // namespace

bool HasWindows(const OperatorChoice& choice) {
  return choice.op == "conv2d" || choice.op == "max_pool2d" || choice.op == "avg_pool2d";
}

const char* GeneralityName(Generality generality) {
  constexpr const char* kNames[] = {"any shape", "any axis", "any attributes", "any sizes", "sizes of the space"};
  return kNames[static_cast<size_t>(generality)];
}

absl::StatusOr<Rule> BuildRule(const Space& space, const Pair& pair, const std::vector<int>& outputs,
                               Generality generality) {
  return Builder(space, pair, outputs, generality).Run();
}

}  // namespace rewright::generate
