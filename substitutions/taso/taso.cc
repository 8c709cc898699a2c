#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/language/rule_terms.h"
#include "substitutions/taso/decode.h"
#include "substitutions/taso/shapes.h"
#include "substitutions/taso/taso.h"

namespace rewright {
namespace taso {
namespace {

ArgExpr Div(const ArgExpr& a, int64_t b) {
  if (a.kind == ArgExpr::Kind::kInt) return ArgExpr::Int(a.integer / b);
  return ArgExpr::Binary(ArgOp::kDiv, a, ArgExpr::Int(b));
}

bool IsInt(const ArgExpr& expr, int64_t value) { return expr.kind == ArgExpr::Kind::kInt && expr.integer == value; }

void AddAttr(const std::string& name, ArgExpr value, TensorTerm* term) {
  term->attrs.push_back({name, std::move(value)});
}

// Unless all items are `fallback`.
void AddList(const std::string& name, std::vector<ArgExpr> items, int64_t fallback, TensorTerm* term) {
  const bool is_default =
      std::all_of(items.begin(), items.end(), [&](const ArgExpr& item) { return IsInt(item, fallback); });
  if (!is_default) AddAttr(name, ArgExpr::List(std::move(items)), term);
}

// Converts one rule. It writes only operators that lead to the rule's outputs; the others still restrict the shapes.
class Converter {
 public:
  explicit Converter(const RuleGraph& rule) : rule_(rule), shapes_(rule) {}

  absl::StatusOr<Rule> Run() {
    RETURN_IF_ERROR(shapes_.Infer());
    WriteSide(rule_.source, true, &out_.lhs);
    WriteSide(rule_.target, false, &out_.rhs);
    for (const auto& [left, right] : sizes().Rest()) AddCondition(ArgOp::kEqual, Print(left), Print(right));
    return std::move(out_);
  }

 private:
  Sizes& sizes() { return shapes_.sizes(); }
  ArgExpr Print(const Size& size) { return sizes().Print(size); }

  void AddCondition(ArgOp op, const ArgExpr& left, const ArgExpr& right) {
    ArgExpr condition = ArgExpr::Binary(op, left, right);
    if (conditions_.insert(PrintArg(condition)).second) out_.conditions.push_back(std::move(condition));
  }

  // ---------------------------------------------------------------- sides

  void WriteSide(const Side& side, bool source, RuleSide* out) {
    source_ = source;
    std::vector<TensorRef> outputs;
    for (const OutputPair& pair : rule_.outputs) outputs.push_back(source ? pair.source : pair.target);
    // An application that is used more than once is named.
    std::vector<int> uses(side.size(), 0);
    for (const TensorRef& output : outputs) ++uses[output.op];
    const bool whole = IsWhole(side, outputs);
    if (whole) uses[outputs[0].op] = 1;
    for (size_t k = side.size(); k-- > 0;) {
      if (uses[k] == 0) continue;
      for (const TensorRef& input : side[k].inputs) {
        if (input.op >= 0) ++uses[input.op];
      }
    }
    names_.assign(side.size(), "");
    for (size_t k = 0; k < side.size(); ++k) {
      const bool selected = side[k].num_outputs() > 1 && !(whole && outputs[0].op == static_cast<int>(k));
      if (uses[k] == 0 || (uses[k] == 1 && !selected)) continue;
      TensorTerm term = Write(static_cast<int>(k));
      names_[k] = absl::StrCat(source ? "u" : "v", k);
      out->lets.push_back({names_[k], std::move(term)});
    }
    if (whole) {
      out->outputs.push_back(Write(outputs[0].op));
      return;
    }
    for (const TensorRef& output : outputs) out->outputs.push_back(Term(output));
  }

  // True if the outputs are those of one operator that has several, in order.
  static bool IsWhole(const Side& side, const std::vector<TensorRef>& outputs) {
    const Operator& op = side[outputs[0].op];
    if (op.num_outputs() < 2 || static_cast<int>(outputs.size()) != op.num_outputs()) return false;
    for (size_t k = 0; k < outputs.size(); ++k) {
      if (outputs[k].op != outputs[0].op || outputs[k].output != static_cast<int>(k)) return false;
    }
    for (const Operator& user : side) {
      for (const TensorRef& input : user.inputs) {
        if (input.op == outputs[0].op) return false;
      }
    }
    return true;
  }

  const Side& side() const { return source_ ? rule_.source : rule_.target; }

  // Terms are written in the order of the text: an input's shape stands where it occurs first.
  TensorTerm Term(const TensorRef& ref) {
    TensorTerm term;
    if (ref.op < 0) {
      term.name = absl::StrCat("x", ref.input);
      if (shown_.insert(ref.input).second) term.shape = Shape(shapes_.Of(ref, source_));
      return term;
    }
    const size_t op = ref.op;
    if (names_[op].empty()) return Write(ref.op);
    term.name = names_[op];
    if (side()[op].num_outputs() > 1) term.output = ref.output;
    return term;
  }

  ShapeSpec Shape(const TensorShape& shape) {
    ShapeSpec spec;
    if (shape.pack >= 0) {
      const std::string fresh = packs_.empty() ? "b" : absl::StrCat("b", packs_.size() + 1);
      spec.dims.push_back(SpliceArg(NameArg(packs_.emplace(shape.pack, fresh).first->second)));
    }
    for (const Size& dim : shape.dims) spec.dims.push_back(Print(dim));
    return spec;
  }

  // ---------------------------------------------------------------- operators

  TensorTerm Write(int number) {
    const Operator& op = side()[number];
    std::vector<TensorTerm> operands;
    std::vector<TensorShape> shapes;
    for (const TensorRef& input : op.inputs) {
      operands.push_back(Term(input));
      shapes.push_back(shapes_.Of(input, source_));
    }
    const TensorShape result = shapes_.Of({number, 0, 0}, source_);
    switch (op.type) {
      case OpType::kConv2d: return Activated(op, Conv2d(op, number, std::move(operands), shapes));
      case OpType::kMaxPool2d: return Pool2d("max_pool2d", op, std::move(operands), shapes[0]);
      case OpType::kAvgPool2d: return Pool2d("avg_pool2d", op, std::move(operands), shapes[0]);
      case OpType::kMatmul: return Activated(op, OperatorTerm("matmul", std::move(operands)));
      case OpType::kAdd: return OperatorTerm("add", std::move(operands));
      case OpType::kMul:
      case OpType::kScale: return OperatorTerm("mul", std::move(operands));
      case OpType::kRelu: return OperatorTerm("relu", std::move(operands));
      case OpType::kSigmoid: return OperatorTerm("sigmoid", std::move(operands));
      case OpType::kTanh: return OperatorTerm("tanh", std::move(operands));
      case OpType::kConcat: {
        TensorTerm term = OperatorTerm("concat", std::move(operands));
        AddAttr("axis", ArgExpr::Int(op.Get(Key::kAxis)), &term);
        return term;
      }
      case OpType::kSplit: return Split(op, number, std::move(operands));
      case OpType::kTranspose: {
        TensorTerm term = OperatorTerm("transpose", std::move(operands));
        std::vector<ArgExpr> perm;
        for (int axis : op.Permutation()) perm.push_back(ArgExpr::Int(axis));
        AddAttr("perm", ArgExpr::List(std::move(perm)), &term);
        return term;
      }
      case OpType::kEnlarge: return Enlarge(std::move(operands), shapes[0], result);
      case OpType::kConstOne: return Constant(ArgExpr::Int(1), result);
      default: {
        CHECK(op.type == OpType::kConstPool) << "an operator without a counterpart came this far";
        const int64_t window = int64_t{op.Get(Key::kKernelHeight)} * op.Get(Key::kKernelWidth);
        return Constant(source_ ? ArgExpr::Real(1.0 / static_cast<double>(window))
                                : ArgExpr::Binary(ArgOp::kQuotient, ArgExpr::Int(1), ArgExpr::Int(window)),
                        result);
      }
    }
  }

  TensorTerm Constant(ArgExpr value, const TensorShape& shape) {
    TensorTerm term;
    term.kind = TensorTerm::Kind::kValue;
    term.value = std::move(value);
    term.shape = Shape(shape);
    return term;
  }

  static TensorTerm Activated(const Operator& op, TensorTerm term) {
    constexpr const char* kActivations[] = {"", "sigmoid", "relu", "tanh"};
    const int activation = op.Get(Key::kActivation);
    return activation == 0 ? term : OperatorTerm(kActivations[activation], {std::move(term)});
  }

  // Before and after a window of extent `kernel` along an axis of extent `size`.
  std::pair<ArgExpr, ArgExpr> Padding(const Operator& op, const Size& size, const Size& kernel, int stride) {
    if (op.Get(Key::kPadding) == 1) {
      if (!source_ && !(size == kernel)) AddCondition(ArgOp::kLessEqual, Print(kernel), Print(size));
      return {ArgExpr::Int(0), ArgExpr::Int(0)};
    }
    if (stride == 1) return {Div(Print(kernel - Size(1)), 2), Div(Print(kernel), 2)};
    const Size last = sizes().Quotient(size + Size(stride - 1), stride) - Size(1);
    const ArgExpr total = CallArg(ArgFn::kMax, {ArgExpr::Int(0), Print(last * Size(stride) + kernel - size)});
    return {Div(total, 2), Div(ArgExpr::Binary(ArgOp::kAdd, total, ArgExpr::Int(1)), 2)};
  }

  void AddWindows(const Operator& op, const TensorShape& image, const Size& height, const Size& width,
                  TensorTerm* term) {
    const int down = op.Get(Key::kStrideHeight), right = op.Get(Key::kStrideWidth);
    const auto rows = Padding(op, image.dims[2], height, down);
    const auto columns = Padding(op, image.dims[3], width, right);
    AddList("strides", {ArgExpr::Int(down), ArgExpr::Int(right)}, 1, term);
    AddList("pads", {rows.first, columns.first, rows.second, columns.second}, 0, term);
  }

  TensorTerm Conv2d(const Operator& op, int number, std::vector<TensorTerm> operands,
                    const std::vector<TensorShape>& shapes) {
    TensorTerm term = OperatorTerm("conv2d", std::move(operands));
    AddWindows(op, shapes[0], shapes[1].dims[2], shapes[1].dims[3], &term);
    const ArgExpr groups = source_ ? Print(shapes_.groups().at(number))
                                   : TargetGroups(shapes[0].dims[1], shapes[1].dims[0], shapes[1].dims[1]);
    if (!IsInt(groups, 1)) AddAttr("groups", groups, &term);
    return term;
  }

  // The groups of a convolution that the rule builds, from its channels. TASO does not build it if they do not fit.
  ArgExpr TargetGroups(const Size& in, const Size& out, const Size& group_in) {
    std::optional<Size> exact = in == group_in ? Size(1) : in.DividedBy(group_in);
    for (const auto& [number, groups] : shapes_.groups()) {
      if (!exact && sizes().Implied(groups * group_in, in)) exact = sizes().Resolve(groups);
    }
    if (!exact) AddCondition(ArgOp::kEqual, ArgExpr::Binary(ArgOp::kMod, Print(in), Print(group_in)), ArgExpr::Int(0));
    const ArgExpr groups = exact ? Print(*exact) : ArgExpr::Binary(ArgOp::kDiv, Print(in), Print(group_in));
    if (!exact || !out.DividedBy(*exact)) {
      AddCondition(ArgOp::kEqual, ArgExpr::Binary(ArgOp::kMod, Print(out), groups), ArgExpr::Int(0));
    }
    return groups;
  }

  TensorTerm Pool2d(const std::string& name, const Operator& op, std::vector<TensorTerm> operands,
                    const TensorShape& image) {
    TensorTerm term = OperatorTerm(name, std::move(operands));
    const int height = op.Get(Key::kKernelHeight), width = op.Get(Key::kKernelWidth);
    AddAttr("kernel", ArgExpr::List({ArgExpr::Int(height), ArgExpr::Int(width)}), &term);
    AddWindows(op, image, Size(height), Size(width), &term);
    return term;
  }

  TensorTerm Split(const Operator& op, int number, std::vector<TensorTerm> operands) {
    TensorTerm term = OperatorTerm("split", std::move(operands));
    const size_t axis = op.Get(Key::kAxis);
    std::vector<ArgExpr> parts;
    for (int k = 0; k < op.num_outputs(); ++k) parts.push_back(Print(shapes_.Of({number, k, 0}, source_).dims[axis]));
    AddAttr("axis", ArgExpr::Int(op.Get(Key::kAxis)), &term);
    AddAttr("sizes", ArgExpr::List(std::move(parts)), &term);
    return term;
  }

  TensorTerm Enlarge(std::vector<TensorTerm> operands, const TensorShape& kernel, const TensorShape& result) {
    operands.resize(1);
    TensorTerm term = OperatorTerm("pad", std::move(operands));
    std::vector<ArgExpr> before = {ArgExpr::Int(0), ArgExpr::Int(0)}, after = before;
    for (size_t axis : {2u, 3u}) {
      const Size more = result.dims[axis] - kernel.dims[axis];
      if (!more.IsZero()) AddCondition(ArgOp::kLessEqual, Print(kernel.dims[axis]), Print(result.dims[axis]));
      before.push_back(Div(Print(more), 2));
      after.push_back(Div(Print(more + Size(1)), 2));
    }
    AddAttr("before", ArgExpr::List(std::move(before)), &term);
    AddAttr("after", ArgExpr::List(std::move(after)), &term);
    return term;
  }

  const RuleGraph& rule_;
  Shapes shapes_;
  Rule out_;
  bool source_ = true;
  std::vector<std::string> names_;  // of the side's applications; empty: written where they are used
  std::set<int> shown_;             // inputs whose shapes have been written
  std::map<int, std::string> packs_;
  std::set<std::string> conditions_;
};

}  // namespace
}  // namespace taso

absl::StatusOr<std::vector<TasoRule>> ReadTasoRules(const std::string& data, const std::string& file) {
  const absl::StatusOr<std::vector<taso::RuleGraph>> graphs = taso::Decode(data, file);
  if (!graphs.ok()) return graphs.status();
  std::vector<TasoRule> rules;
  for (size_t k = 0; k < graphs->size(); ++k) {
    TasoRule rule{absl::StrCat(k), taso::Converter((*graphs)[k]).Run()};
    if (rule.rule.ok()) {
      rule.rule->name = absl::StrCat("taso-", k);
      rule.rule->comment = {absl::StrCat("Rule ", k, " of ", file, ".")};
      rule.rule->file = file;
    }
    rules.push_back(std::move(rule));
  }
  return rules;
}

}  // namespace rewright
