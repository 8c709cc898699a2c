#include "substitutions/generate/select/rule_builder.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "substitutions/language/rule_terms.h"

namespace rewright::generate {
namespace {

// Names of tensors in order of appearance.
const std::string kNames[] = {"x", "y", "z", "u", "v"};

bool IsElementwise(const OperatorChoice& choice) {
  return choice.op == "add" || choice.op == "sub" || choice.op == "mul" || choice.op == "div" || choice.op == "max" ||
         choice.op == "min" || choice.op == "relu" || choice.op == "neg" || choice.op == "exp" || choice.op == "abs" ||
         choice.op == "tanh" || choice.op == "sigmoid" || choice.op == "sqrt" || choice.op == "reciprocal" ||
         choice.op == "rsqrt" || choice.op == "log" || choice.op == "erf" || choice.op == "gelu";
}

class Builder {
 public:
  Builder(const Space& space, const Pair& pair, const std::vector<int>& outputs, Generality generality)
      : space_(space), pair_(pair), outputs_(outputs), generality_(generality) {}

  absl::StatusOr<Rule> Run() {
    RETURN_IF_ERROR(CheckSides());
    RETURN_IF_ERROR(CheckOperators());
    shapes_.emplace(space_, generality_, FirstAxis());
    GeneralShapes::Values left, right;
    RETURN_IF_ERROR(shapes_->Infer(pair_.first, &left));
    RETURN_IF_ERROR(shapes_->Infer(pair_.second, &right));
    const std::vector<Ref> l = OutputsOf(space_, pair_.first), r = OutputsOf(space_, pair_.second);
    for (size_t k = 0; k < l.size(); ++k) {
      const GeneralTensor& a = shapes_->Of(l[k], left);
      const GeneralTensor& b = shapes_->Of(r[outputs_[k]], right);
      if (a.sizes.size() != b.sizes.size()) return Error("outputs of different ranks");
      for (size_t axis = 0; axis < a.sizes.size(); ++axis) {
        if (!sizes().Equate(a.sizes[axis], b.sizes[axis])) return Error("outputs of different shapes");
      }
    }
    if (!sizes().Solve()) return Error("sizes that cannot be equal");
    // Sorts outputs in the order of the right side, so that laws which differ only in the order of outputs read the
    // same. All outputs of one application on the left stay as they are.
    std::vector<size_t> order(l.size());
    std::iota(order.begin(), order.end(), size_t{0});
    if (!AreAllOfOne(pair_.first, l)) {
      std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return outputs_[a] < outputs_[b]; });
    }
    std::vector<Ref> ordered_left, ordered_right;
    for (size_t k : order) {
      ordered_left.push_back(l[k]);
      ordered_right.push_back(r[outputs_[k]]);
    }
    Write(pair_.first, left, ordered_left, true, &rule_.lhs);
    Write(pair_.second, right, ordered_right, false, &rule_.rhs);
    if (!error_.ok()) return error_;
    if (generality_ == Generality::kAnyAxes) {
      RETURN_IF_ERROR(AddConditionsOnAxes());
      return std::move(rule_);
    }
    for (const auto& [a, b] : sizes().Rest()) {
      rule_.conditions.push_back(ArgExpr::Binary(ArgOp::kEqual, sizes().Print(a), sizes().Print(b)));
    }
    return std::move(rule_);
  }

 private:
  using Poly = taso::Size;
  using Tensor = GeneralTensor;

  static absl::Status Error(const std::string& message) { return absl::InvalidArgumentError(message); }

  const OperatorChoice& ChoiceOf(const SmallGraph::Application& application) const {
    return space_.operators[application.op];
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

  taso::Sizes& sizes() { return shapes_->sizes(); }
  size_t FirstAxis() const { return axes_.empty() ? 0 : static_cast<size_t>(*axes_.begin()); }

  // Adds the conditions of a rule about any two axes (kAnyAxes): the axes differ, and sizes along them are equal where
  // the left side does not demand it. `left` has the sizes of the left side alone.
  absl::Status AddConditionsOnAxes() {
    GeneralShapes left(space_, generality_, 0);
    GeneralShapes::Values values;
    RETURN_IF_ERROR(left.Infer(pair_.first, &values));
    if (!left.sizes().Solve()) return Error("sizes that cannot be equal");
    rule_.conditions.push_back(ArgExpr::Binary(ArgOp::kNotEqual, AttrArg("p"), AttrArg("q")));
    for (int64_t axis : axes_) {
      const auto dim = [&](const std::string& name) { return CallArg(ArgFn::kDim, {NameArg(name), Axis(axis, 0)}); };
      const size_t at = axis;
      for (const auto& [x, x_name] : names_) {
        for (const auto& [y, y_name] : names_) {
          if (y <= x || shapes_->Input(x).sizes.empty() || shapes_->Input(y).sizes.empty()) continue;
          const Poly &a = left.Input(x).sizes[at], &b = left.Input(y).sizes[at];
          if (left.sizes().Resolve(a) == left.sizes().Resolve(b)) continue;
          if (!(sizes().Resolve(shapes_->Input(x).sizes[at]) == sizes().Resolve(shapes_->Input(y).sizes[at]))) continue;
          rule_.conditions.push_back(ArgExpr::Binary(ArgOp::kEqual, dim(x_name), dim(y_name)));
          if (!left.sizes().Equate(a, b) || !left.sizes().Solve()) return Error("sizes that cannot be equal");
        }
      }
    }
    return absl::OkStatus();
  }

  // Checks that every operator works on the last two axes of matrices, or of batches of them.
  absl::Status CheckMatrices() {
    const auto see = [&](const std::vector<Size>& shape) { rank_ = std::max(rank_, shape.size()); };
    bool matrices = false, others = false;
    for (const SmallGraph* graph : {&pair_.first, &pair_.second}) {
      ForEachInput(*graph, [&](Ref input) {
        int number = input;
        for (const InputGroup& group : space_.inputs) {
          if (number >= 0 && number < group.count) see(group.shape);
          number -= group.count;
        }
      });
      for (int i = 0; i < graph->size; ++i) {
        const OperatorChoice& choice = ChoiceOf(graph->applications[i]);
        if (choice.constant != OperatorChoice::Constant::kNone) see(choice.shape);
        const bool constant = choice.constant == OperatorChoice::Constant::kSplat;
        const bool reduces = choice.op.starts_with("reduce_") || choice.op == "softmax";
        matrices = matrices || choice.op == "matmul" || choice.op == "transpose" || reduces || choice.stretched;
        others = others || !(constant || IsElementwise(choice) || choice.op == "matmul" || choice.op == "transpose" ||
                             choice.op == "concat" || choice.op == "split" || choice.op == "slice" || reduces);
      }
    }
    if (!matrices || others || rank_ < 2 || rank_ > 3) return Error("operators of other than matrices");
    return absl::OkStatus();
  }

  // Checks that the generality asked for is more than the next one, for the operators of the pair.
  absl::Status CheckOperators() {
    bool elementwise = true, windows = false, convs = false;
    bool splits = false;
    for (const SmallGraph* graph : {&pair_.first, &pair_.second}) {
      for (int i = 0; i < graph->size; ++i) {
        const OperatorChoice& choice = ChoiceOf(graph->applications[i]);
        if (HasWindows(choice)) {
          windows = true;
          convs = convs || choice.derived == Derived::kGroups;
        }
        identity_ = identity_ || choice.constant == OperatorChoice::Constant::kIdentity;
        if (choice.op == "concat" || choice.op == "split") {
          axes_.insert(std::get<int64_t>(choice.attrs.at("axis")));
          splits = splits || choice.op == "split";
        } else {
          elementwise = elementwise && IsElementwise(choice) && !choice.stretched;
        }
      }
    }
    switch (generality_) {
      case Generality::kAnyShape:
        return elementwise && axes_.empty() ? absl::OkStatus() : Error("operators that are not element-wise");
      case Generality::kAnyAxis:
        return elementwise && axes_.size() == 1 ? absl::OkStatus() : Error("no axis that may be any");
      case Generality::kAnyAxes:
        return elementwise && axes_.size() == 2 && !splits ? absl::OkStatus() : Error("no two axes that may be any");
      case Generality::kAnyBatch: return CheckMatrices();
      case Generality::kAnyGroups: return convs ? absl::OkStatus() : Error("no convolution");
      case Generality::kAnyAttrs:
      case Generality::kAnyPools: return windows ? absl::OkStatus() : Error("no operator with windows");
      default: return absl::OkStatus();
    }
  }

  // ---------------------------------------------------------------- text

  TensorTerm Value(ArgExpr value, ShapeSpec shape) const {
    TensorTerm term;
    term.kind = TensorTerm::Kind::kValue;
    term.value = std::move(value);
    term.shape = std::move(shape);
    if (identity_) term.dtype = DTypeArg(DType::kFloat32);
    return term;
  }

  static ArgExpr LengthOf(const std::string& pack) { return CallArg(ArgFn::kLen, {NameArg(pack)}); }
  static ArgExpr Pack(const std::string& name) { return SpliceArg(NameArg(name)); }

  // True if the tensor has a batch before its last two axes, which `kAnyBatch` writes `b..`.
  bool Batched(size_t rank) const { return generality_ == Generality::kAnyBatch && rank == rank_; }

  ShapeSpec ShapeOf(const Tensor& tensor) {
    ShapeSpec shape;
    if (generality_ == Generality::kAnyAxis && !tensor.sizes.empty()) {
      shape.dims = {Pack("a"), sizes().Print(tensor.sizes[FirstAxis()]), Pack("b")};
      return shape;
    }
    shape.dims = Dims(tensor.sizes);
    return shape;
  }

  // The axis in the rule for an axis of a tensor of that rank in the space.
  ArgExpr Axis(int64_t axis, size_t rank) {
    if (generality_ == Generality::kAnyAxis) return LengthOf("a");
    if (generality_ == Generality::kAnyAxes) return AttrArg(axis == *axes_.begin() ? "p" : "q");
    if (!Batched(rank)) return ArgExpr::Int(axis);
    const int64_t of_matrix = axis - static_cast<int64_t>(rank) + 2;
    if (of_matrix < 0) error_ = Error("an axis of the batch");
    return SumArg(LengthOf("b"), of_matrix);
  }

  std::vector<ArgExpr> Dims(const std::vector<Poly>& of) {
    std::vector<ArgExpr> dims;
    size_t first = 0;
    if (Batched(of.size())) {
      dims.push_back(Pack("b"));
      first = of.size() - 2;
    }
    for (size_t axis = first; axis < of.size(); ++axis) dims.push_back(sizes().Print(of[axis]));
    return dims;
  }

  ArgExpr Axes(const std::string& name, const std::vector<int64_t>& axes, size_t rank) {
    std::vector<ArgExpr> items;
    size_t first = 0;
    if (name == "perm" && Batched(rank)) {
      items.push_back(SpliceArg(CallArg(ArgFn::kIota, {LengthOf("b")})));
      first = rank - 2;
      if (first == 1 && axes[0] != 0) error_ = Error("an axis of the batch");
    }
    for (size_t k = first; k < axes.size(); ++k) items.push_back(Axis(axes[k], rank));
    return ArgExpr::List(std::move(items));
  }

  ArgExpr Sizes(const std::vector<Poly>& values) {
    std::vector<ArgExpr> items;
    for (const Poly& value : values) items.push_back(sizes().Print(value));
    return ArgExpr::List(std::move(items));
  }

  // Names each value that is used twice, or is one output of several. Terms are made in the order in which they are
  // printed: an input has its shape where it is read first.
  void Write(const SmallGraph& graph, const GeneralShapes::Values& values, const std::vector<Ref>& outputs, bool left,
             RuleSide* side) {
    std::vector<int> uses(static_cast<size_t>(graph.size), 0);
    const auto count = [&](Ref ref) {
      if (ref >= kOutputs) ++uses[(ref - kOutputs) / kMaxOutputs];
    };
    const bool whole = AreAllOfOne(graph, outputs);
    for (Ref ref : outputs) count(ref);
    for (int i = 0; i < graph.size; ++i) {
      for (int k = 0; k < ChoiceOf(graph.applications[i]).arity; ++k) count(graph.applications[i].operands[k]);
    }
    std::vector<std::string> names(static_cast<size_t>(graph.size));
    const std::function<TensorTerm(int)> term_of = [&](int i) {
      const SmallGraph::Application& application = graph.applications[i];
      const OperatorChoice& choice = ChoiceOf(application);
      std::vector<TensorTerm> operands;
      std::vector<const Tensor*> types;
      for (int k = 0; k < choice.arity; ++k) {
        operands.push_back(Operand(graph, application.operands[k], names, term_of));
        types.push_back(&shapes_->Of(application.operands[k], values));
      }
      return WriteOne(choice, std::move(operands), types, values[i], left);
    };
    for (int i = 0; i < graph.size; ++i) {
      const bool is_output = whole && (outputs[0] - kOutputs) / kMaxOutputs == i;
      const bool several = NumOutputs(ChoiceOf(graph.applications[i])) > 1;
      if (is_output || (uses[i] == 1 && !several)) continue;
      side->lets.push_back({absl::StrCat(left ? "t" : "r", i + 1), term_of(i)});
      names[i] = side->lets.back().name;
    }
    if (whole) {
      side->outputs.push_back(term_of((outputs[0] - kOutputs) / kMaxOutputs));
      return;
    }
    for (Ref ref : outputs) side->outputs.push_back(Operand(graph, ref, names, term_of));
  }

  // True if the outputs are those of one application, in order.
  bool AreAllOfOne(const SmallGraph& graph, const std::vector<Ref>& outputs) const {
    if (outputs.size() < 2 || outputs[0] < kOutputs || (outputs[0] - kOutputs) % kMaxOutputs != 0) return false;
    const int i = (outputs[0] - kOutputs) / kMaxOutputs;
    if (outputs.size() != static_cast<size_t>(NumOutputs(ChoiceOf(graph.applications[i])))) return false;
    for (size_t k = 1; k < outputs.size(); ++k) {
      if (outputs[k] != outputs[0] + k) return false;
    }
    return true;
  }

  TensorTerm Operand(const SmallGraph& graph, Ref ref, const std::vector<std::string>& names,
                     const std::function<TensorTerm(int)>& term_of) {
    TensorTerm term;
    if (ref < kOutputs) {
      const auto [at, fresh] = names_.try_emplace(ref);
      if (fresh) {
        const size_t number = names_.size() - 1;
        at->second = number < std::size(kNames) ? kNames[number] : absl::StrCat("x", number + 1);
        const bool any = generality_ == Generality::kAnyShape || generality_ == Generality::kAnyAxes;
        const bool shaped = !any || shapes_->Input(ref).sizes.empty();
        if (shaped) term.shape = ShapeOf(shapes_->Input(ref));
        // A rule whose operators name element types has to name all.
        if (identity_) term.dtype = DTypeArg(DType::kFloat32);
      }
      term.name = at->second;
      return term;
    }
    const int i = (ref - kOutputs) / kMaxOutputs;
    if (names[i].empty()) return term_of(i);
    term.name = names[i];
    if (NumOutputs(ChoiceOf(graph.applications[i])) > 1) term.output = (ref - kOutputs) % kMaxOutputs;
    return term;
  }

  TensorTerm WriteOne(const OperatorChoice& choice, std::vector<TensorTerm> operands,
                      const std::vector<const Tensor*>& types, const std::vector<Tensor>& outputs, bool left) {
    if (choice.constant == OperatorChoice::Constant::kSplat) {
      const bool whole = choice.denominator == 1;
      const double real = static_cast<double>(choice.numerator) / static_cast<double>(choice.denominator);
      ArgExpr value =
          whole  ? ArgExpr::Int(choice.numerator)
          : left ? ArgExpr::Real(real)
                 : ArgExpr::Binary(ArgOp::kQuotient, ArgExpr::Int(choice.numerator), ArgExpr::Int(choice.denominator));
      return Value(std::move(value), generality_ == Generality::kAnyShape ? ShapeSpec() : ShapeOf(outputs[0]));
    }
    if (choice.constant == OperatorChoice::Constant::kIdentity) return Identity(outputs[0]);
    TensorTerm term = OperatorTerm(choice.op, std::move(operands));
    const size_t rank = types.empty() ? 0 : types[0]->sizes.size();
    if (shapes_->AnyAttrs(choice)) {
      term.bundle = shapes_->BundleOf(choice);
    } else {
      for (const auto& [name, value] : choice.attrs) {
        if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
          if (choice.op == "conv2d" && std::all_of(list->begin(), list->end(), [](int64_t v) { return v == 0; }))
            continue;
          const bool axes = name == "axes" || name == "perm";
          term.attrs.push_back({name, axes ? Axes(name, *list, rank) : NumbersArg(*list)});
        } else if (const auto* number = std::get_if<int64_t>(&value)) {
          term.attrs.push_back({name, name == "axis" ? Axis(*number, rank) : ArgExpr::Int(*number)});
        } else if (const auto* real = std::get_if<double>(&value); real != nullptr && !TakesAny(choice, name)) {
          term.attrs.push_back({name, ArgExpr::Real(*real)});
        }
      }
    }
    if (TakesAny(choice, choice.any_attr)) term.attrs.push_back({choice.any_attr, AttrArg(choice.any_attr)});
    WriteDerived(choice, types, outputs, &term);
    if (!choice.then.empty()) return OperatorTerm(choice.then, {std::move(term)});
    return term;
  }

  bool TakesAny(const OperatorChoice& choice, const std::string& attr) const {
    return !attr.empty() && choice.any_attr == attr && generality_ != Generality::kSpace;
  }

  void WriteDerived(const OperatorChoice& choice, const std::vector<const Tensor*>& types,
                    const std::vector<Tensor>& outputs, TensorTerm* term) {
    switch (choice.derived) {
      case Derived::kNone: break;
      case Derived::kGroups: {
        const std::optional<Poly> groups = shapes_->GroupsOf(*types[0], *types[1]);
        if (!groups) {
          error_ = Error("a number of groups that is no polynomial");
        } else if (!groups->Is(1) || !term->bundle.empty()) {
          term->attrs.push_back({"groups", sizes().Print(*groups)});
        }
        break;
      }
      case Derived::kParts: {
        const size_t axis = std::get<int64_t>(choice.attrs.at("axis"));
        std::vector<Poly> parts;
        for (const Tensor& output : outputs) parts.push_back(output.sizes[axis]);
        term->attrs.push_back({"sizes", Sizes(parts)});
        break;
      }
      case Derived::kFirst: {
        std::vector<Poly> stops = types[0]->sizes;
        stops[choice.axis] = outputs[0].sizes[choice.axis];
        std::vector<ArgExpr> starts(Batched(stops.size()) ? 2 : stops.size(), ArgExpr::Int(0));
        if (Batched(stops.size())) {
          if (choice.axis + 2 < static_cast<int64_t>(stops.size())) error_ = Error("an axis of the batch");
          starts.insert(starts.begin(), SpliceArg(CallArg(ArgFn::kRepeat, {ArgExpr::Int(0), LengthOf("b")})));
        }
        term->attrs.push_back({"starts", ArgExpr::List(std::move(starts))});
        term->attrs.push_back({"stops", ArgExpr::List(Dims(stops))});
        break;
      }
      case Derived::kShape:
      case Derived::kMerge: term->attrs.push_back({"shape", Sizes(outputs[0].sizes)}); break;
      case Derived::kEnlarge: {
        std::vector<int64_t> before = {0, 0}, after = {0, 0};
        for (size_t k = 0; k < 2; ++k) {
          const int64_t more = choice.extent[k] - types[0]->nominal[2 + k];
          before.push_back(more / 2);
          after.push_back(more - more / 2);
        }
        term->attrs.push_back({"before", NumbersArg(before)});
        term->attrs.push_back({"after", NumbersArg(after)});
        break;
      }
    }
  }

  // where(row = column, 1, 0); of a kernel, padded to its extent.
  TensorTerm Identity(const Tensor& tensor) {
    ShapeSpec square;
    for (size_t axis = 0; axis < 2; ++axis) square.dims.push_back(sizes().Print(tensor.sizes[axis]));
    const auto iota = [&](int64_t axis) {
      TensorTerm term = OperatorTerm("iota", {});
      term.attrs = {
          {"shape", ArgExpr::List(square.dims)}, {"axis", ArgExpr::Int(axis)}, {"dtype", DTypeArg(DType::kInt64)}};
      return term;
    };
    TensorTerm term = OperatorTerm("where", {OperatorTerm("equal", {iota(0), iota(1)}), Value(ArgExpr::Int(1), square),
                                             Value(ArgExpr::Int(0), square)});
    if (tensor.sizes.size() == 2) return term;
    std::vector<ArgExpr> shape = square.dims;
    shape.insert(shape.end(), {ArgExpr::Int(1), ArgExpr::Int(1)});
    term = OperatorTerm("reshape", {std::move(term)});
    term.attrs.push_back({"shape", ArgExpr::List(shape)});
    std::vector<int64_t> before = {0, 0}, after = {0, 0};
    for (size_t axis = 2; axis < 4; ++axis) {
      const Poly extent = sizes().Resolve(tensor.sizes[axis]);
      if (!extent.Is(tensor.nominal[axis])) error_ = Error("an identity kernel of any extent");
      before.push_back(tensor.nominal[axis] / 2);
      after.push_back(tensor.nominal[axis] - 1 - before.back());
    }
    TensorTerm padded = OperatorTerm("pad", {std::move(term)});
    padded.attrs = {{"before", NumbersArg(before)}, {"after", NumbersArg(after)}};
    return padded;
  }

  const Space& space_;
  const Pair& pair_;
  const std::vector<int>& outputs_;
  const Generality generality_;
  std::optional<GeneralShapes> shapes_;
  std::map<Ref, std::string> names_;
  bool identity_ = false;
  std::set<int64_t> axes_;  // of concat and split, in the space
  size_t rank_ = 0;         // kAnyBatch: of a batch of matrices, in the space
  Rule rule_;
  absl::Status error_;
};

void AddNames(const TensorTerm& term, const RuleSide& side, std::vector<std::string>* names) {
  if (term.kind == TensorTerm::Kind::kName) {
    for (const LetTerm& let : side.lets) {
      if (let.name == term.name) AddNames(let.term, side, names);
    }
  } else if (term.kind == TensorTerm::Kind::kApply) {
    std::string name = term.name;
    std::replace(name.begin(), name.end(), '_', '-');
    names->push_back(name);
    for (const TensorTerm& operand : term.operands) AddNames(operand, side, names);
  }
}

}  // namespace

absl::StatusOr<Rule> BuildRule(const Space& space, const Pair& pair, const std::vector<int>& outputs,
                               Generality generality) {
  return Builder(space, pair, outputs, generality).Run();
}

std::string LawName(const Rule& rule) {
  std::vector<std::string> outputs;
  for (const TensorTerm& output : rule.lhs.outputs) {
    std::vector<std::string> names;
    AddNames(output, rule.lhs, &names);
    outputs.push_back(absl::StrJoin(names, "-of-"));
  }
  return absl::StrJoin(outputs, "-and-");
}

}  // namespace rewright::generate
