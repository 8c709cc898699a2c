#include "backends/cuda/codegen/expression_writer.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "backends/common/node_access.h"
#include "backends/cuda/codegen/kernel_text.h"
#include "core/index/compose.h"
#include "core/index/print.h"
#include "core/index/range.h"

namespace rewright::cuda {

// ---------------------------------------------------------------- indices

Form ExpressionWriter::IndexOf(const ExprNode& expr, Frame& frame) {
  switch (expr.kind()) {
    case ExprKind::kInt: return expr.value();
    case ExprKind::kVar: return frame.variables[expr.variable()];
    case ExprKind::kFromValue: {
      const std::string value = ScalarOf(*expr.arg(0), frame);
      const std::string name = NewName("i");
      Line(absl::StrCat("const int64 ", name, " = ", value, ";"));
      return space_.Variable(name, index::Interval(), top());
    }
    default: break;
  }
  const Form a = IndexOf(*expr.arg(0), frame), b = IndexOf(*expr.arg(1), frame);
  if ((expr.kind() == ExprKind::kFloorDiv || expr.kind() == ExprKind::kMod) && (!b.IsConstant() || b.constant() < 1)) {
    Fail("a divisor that is no positive number");
    return 0;
  }
  return index::Apply(expr.kind(), a, b);
}

int64_t ExpressionWriter::StepOf(const Form& form, const std::string& variable) {
  for (const Form::Term& term : form.terms()) {
    if (term.atom->name == variable) return term.factor;
  }
  return 0;
}

std::string ExpressionWriter::Text(const Form& form) {
  if (!form.IsKnown()) Fail("an index does not fit 64 bits");
  large_ = large_ || Magnitude(form) > kLargeIndex;
  return CText(form);
}

ExpressionWriter::Truth ExpressionWriter::Compare(ExprKind kind, const Form& a, const Form& b) {
  const auto [low, high] = RangeOf(b - a);
  const char* sign = "==";
  switch (kind) {
    case ExprKind::kLess:
      if (low > 0) return {true, ""};
      if (high <= 0) return {false, ""};
      sign = "<";
      break;
    case ExprKind::kLessEqual:
      if (low >= 0) return {true, ""};
      if (high < 0) return {false, ""};
      sign = "<=";
      break;
    default:
      if (low == 0 && high == 0) return {true, ""};
      if (low > 0 || high < 0) return {false, ""};
      break;
  }
  return {std::nullopt, absl::StrCat("(", Text(a), sign, Text(b), ")")};
}

ExpressionWriter::Truth ExpressionWriter::Condition(const ExprNode& expr, Frame& frame) {
  switch (expr.kind()) {
    case ExprKind::kBool: return {expr.truth(), ""};
    case ExprKind::kLess:
    case ExprKind::kLessEqual:
    case ExprKind::kEqual: {
      const Form a = IndexOf(*expr.arg(0), frame);
      return Compare(expr.kind(), a, IndexOf(*expr.arg(1), frame));
    }
    case ExprKind::kNot: {
      const Truth a = Condition(*expr.arg(0), frame);
      if (a.known) return {!*a.known, ""};
      return {std::nullopt, absl::StrCat("!", a.text)};
    }
    case ExprKind::kHolds: return {std::nullopt, absl::StrCat("(", ScalarOf(*expr.arg(0), frame), " != 0)")};
    case ExprKind::kAnd:
    case ExprKind::kOr: {
      const bool is_and = expr.kind() == ExprKind::kAnd;
      const Truth a = Condition(*expr.arg(0), frame);
      if (a.known) return *a.known == is_and ? Condition(*expr.arg(1), frame) : Truth{!is_and, ""};
      Push(/*conditional=*/true);
      const Truth b = Condition(*expr.arg(1), frame);
      const std::string body = Pop();
      if (b.known) return *b.known == is_and ? a : Truth{!is_and, ""};
      if (body.empty()) return {std::nullopt, absl::StrCat("(", a.text, is_and ? "&&" : "||", b.text, ")")};
      const std::string name = NewName("c");
      Line(absl::StrCat("bool ", name, " = ", a.text, ";"));
      Line(absl::StrCat("if (", is_and ? "" : "!", name, ") {\n", body, name, " = ", b.text, ";\n}"));
      return {std::nullopt, name};
    }
    default: Fail("not a condition"); return {false, ""};
  }
}

// ---------------------------------------------------------------- elements

void ExpressionWriter::Key(const ExprNode& expr, Frame& frame, int level, std::string* key) {
  if (expr.kind() == ExprKind::kVar) {
    absl::StrAppend(key, CText(frame.variables[expr.variable()]));
    return;
  }
  absl::StrAppend(key, "(", expr.Label(), " ");
  if (expr.kind() == ExprKind::kParam) {
    absl::StrAppend(key, absl::StrFormat("%a", (*frame.params)[expr.param()]));
  }
  if (expr.kind() == ExprKind::kRead) {
    const Value value = frame.node->operands[expr.operand()];
    absl::StrAppend(key, "#", value.node, ".", value.output);
  }
  std::vector<Form> outer;
  for (const BoundVar& bound : expr.bound()) {
    Form& variable = frame.variables[bound.id];
    outer.push_back(variable);
    Key(*bound.extent, frame, level, key);
    const int64_t extent = IndexOf(*bound.extent, frame).constant();
    // A name that no loop has.
    variable = Variable(absl::StrCat("$", level++), 0, std::max<int64_t>(extent - 1, 0), 0);
    absl::StrAppend(key, ";");
  }
  for (const ExprPtr& arg : expr.args()) {
    Key(*arg, frame, level, key);
    absl::StrAppend(key, ",");
  }
  for (size_t i = 0; i < expr.bound().size(); ++i) {
    frame.variables[expr.bound()[i].id] = outer[i];
  }
  absl::StrAppend(key, ")");
}

std::string ExpressionWriter::ScalarOf(const ExprNode& expr, Frame& frame) {
  switch (expr.kind()) {
    case ExprKind::kConst: return Literal(expr.real(), expr.dtype());
    case ExprKind::kParam: return Literal((*frame.params)[expr.param()], expr.dtype());
    case ExprKind::kFromIndex: {
      const Form form = IndexOf(*expr.arg(0), frame);
      if (form.IsConstant()) return Literal(static_cast<double>(form.constant()), expr.dtype());
      return absl::StrCat("(", TypeName(expr.dtype()), ")", Text(form));
    }
    case ExprKind::kRead: return Read(expr, frame);
    default: break;
  }
  std::string key;
  Key(expr, frame, 0, &key);
  if (const std::string* known = Find(key); known != nullptr) return *known;
  int home = top();
  std::string value;
  switch (expr.kind()) {
    case ExprKind::kCall: value = Call(expr, frame); break;
    case ExprKind::kSelect: value = Select(expr, frame); break;
    case ExprKind::kReduce: value = Reduce(expr, frame, &home); break;
    case ExprKind::kCast: {
      const std::string a = ScalarOf(*expr.arg(0), frame);
      const DType from = expr.arg(0)->dtype();
      if (from == expr.dtype()) {
        value = a;
      } else if (expr.dtype() == DType::kBool) {
        value = Define(expr.dtype(), absl::StrCat("(boolean)(", a, " != 0)"));
      } else if (IsFloating(from) && IsFloating(expr.dtype())) {
        value = Define(expr.dtype(), absl::StrCat("(", TypeName(expr.dtype()), ")", a));
      } else {
        value = Define(expr.dtype(), absl::StrCat("(", TypeName(expr.dtype()), ")to_integer(", a, ")"));
      }
      break;
    }
    case ExprKind::kHolds: value = ScalarOf(*expr.arg(0), frame); break;
    case ExprKind::kOpaque:
      if (status_.ok()) {
        status_ = absl::UnimplementedError(
            absl::StrCat(frame.node->op->name, " has no index expression: it runs on the host alone"));
      }
      return "0";
    default: Fail("not an element"); return "0";
  }
  scope(home).memo[key] = value;
  return value;
}

std::string ExpressionWriter::Call(const ExprNode& expr, Frame& frame) {
  std::vector<std::string> args;
  for (const ExprPtr& arg : expr.args()) args.push_back(ScalarOf(*arg, frame));
  // The library's power of reals has hundreds of instructions; infinities and NaN are those of the product.
  if (expr.fn() == Fn::kPow && IsFloating(expr.dtype())) {
    for (int power = 2; power <= 4; ++power) {
      if (args[1] != RealLiteral(power, expr.dtype())) continue;
      const std::string square = Define(expr.dtype(), absl::StrCat(args[0], " * ", args[0]));
      if (power == 2) return square;
      return Define(expr.dtype(), absl::StrCat(square, " * ", power == 3 ? args[0] : square));
    }
  }
  return Define(expr.dtype(), absl::StrCat("op_", InfoOf(expr.fn()).name, "(", absl::StrJoin(args, ", "), ")"));
}

std::string ExpressionWriter::Select(const ExprNode& expr, Frame& frame) {
  return Chosen(
      Condition(*expr.condition(), frame), expr.dtype(), [&] { return ScalarOf(*expr.yes(), frame); },
      [&] { return ScalarOf(*expr.no(), frame); });
}

std::string ExpressionWriter::Chosen(const Truth& condition, DType dtype, const std::function<std::string()>& if_true,
                                     const std::function<std::string()>& if_false) {
  if (condition.known) return *condition.known ? if_true() : if_false();
  Push(/*conditional=*/true);
  const std::string yes = if_true();
  const std::string yes_body = Pop();
  Push(/*conditional=*/true);
  const std::string no = if_false();
  const std::string no_body = Pop();
  if (yes_body.empty() && no_body.empty()) {
    return Define(dtype, absl::StrCat(condition.text, " ? ", yes, " : ", no));
  }
  const std::string name = NewName("v");
  Line(absl::StrCat(TypeName(dtype), " ", name, no_body.empty() ? absl::StrCat(" = ", no) : "", ";"));
  Line(absl::StrCat("if (", condition.text, ") {\n", yes_body, name, " = ", yes, ";\n}"));
  if (!no_body.empty()) Line(absl::StrCat("else {\n", no_body, name, " = ", no, ";\n}"));
  return name;
}

std::string ExpressionWriter::ResultAt(const std::vector<Form>& at) {
  const TensorType& type = graph_.type(request_.result);
  Truth inside{true, ""};
  for (size_t k = 0; k < at.size(); ++k) {
    const Truth before_end = Compare(ExprKind::kLess, at[k], type.shape[k]);
    if (before_end.known == true || inside.known == false) continue;
    inside = before_end.known || inside.known ? before_end
                                              : Truth{std::nullopt, absl::StrCat(inside.text, "&&", before_end.text)};
  }
  return Chosen(
      inside, type.dtype, [&] { return Element(request_.result, at); }, [&] { return Literal(0, type.dtype); });
}

std::string ExpressionWriter::Read(const ExprNode& expr, Frame& frame) {
  const Value value = frame.node->operands[expr.operand()];
  std::vector<Form> at;
  for (const ExprPtr& index : expr.args()) at.push_back(IndexOf(*index, frame));
  return Element(value, at);
}

std::string ExpressionWriter::Element(Value value, const std::vector<Form>& at) {
  if (inside_.contains(value.node)) return Inlined(value, at);
  if (const Tensor* constant = request_.single_constant(value); constant != nullptr) {
    return IsFloating(constant->dtype()) ? RealLiteral(constant->At(0), constant->dtype())
                                         : IntegerLiteral(constant->AtInt(0), constant->dtype());
  }
  const Layout layout = request_.layout_of(value);
  Form address;
  for (size_t k = 0; k < at.size(); ++k) {
    const int64_t size = layout.dims[k];
    Form index = at[k];
    // A place that data chooses must not lead out of the operand.
    if (!RangeOf(index).IsBounded()) index = Min(Max(index, 0), size - 1);
    if (size != 1) address = address + index * layout.strides[k];
  }
  return Load(value, address);
}

std::string ExpressionWriter::Inlined(Value value, const std::vector<Form>& at) {
  std::string key = absl::StrCat("#", value.node, ".", value.output, "[");
  for (const Form& index : at) absl::StrAppend(&key, CText(index), ",");
  if (const std::string* known = Find(key); known != nullptr) return *known;
  const Node& node = graph_.node(value.node);
  auto [params, variables] = Bound(value.node);
  Frame frame{node.meaning.get(), *variables, params, &node};
  const OutputMeaning& output = node.meaning->outputs[value.output];
  for (size_t k = 0; k < at.size(); ++k) frame.variables[output.index_vars[k]] = at[k];
  const std::string result = ScalarOf(*output.element, frame);
  scopes_.back()->memo[key] = result;
  return result;
}

std::pair<const std::vector<double>*, const std::vector<Form>*> ExpressionWriter::Bound(NodeId id) {
  auto& entry = bound_[id];
  if (entry == nullptr) {
    const Bindings bindings = BindingsOf(graph_, graph_.node(id));
    entry = std::make_unique<std::pair<std::vector<double>, std::vector<Form>>>();
    entry->first = bindings.params;
    entry->second.assign(bindings.variables.begin(), bindings.variables.end());
  }
  return {&entry->first, &entry->second};
}

int ExpressionWriter::Argument(Value value) {
  const auto found = std::find(arguments_.begin(), arguments_.end(), value);
  if (found != arguments_.end()) return static_cast<int>(found - arguments_.begin());
  arguments_.push_back(value);
  return static_cast<int>(arguments_.size()) - 1;
}

std::string ExpressionWriter::Load(Value value, const Form& address) {
  const int argument = Argument(value);
  auto key_of = [&](const Form& at) { return absl::StrCat("p", argument, "[", CText(at), "]"); };
  const std::string key = key_of(address);
  if (const std::string* known = Find(key); known != nullptr) return *known;
  const DType dtype = graph_.type(value).dtype;
  const Storage storage = request_.storage_of(value);
  survey_.loads.insert(key);
  if (surveying_ && std::none_of(scopes_.begin(), scopes_.end(), [](const auto& s) { return s->conditional; })) {
    survey_.addresses.push_back(address);
  }
  if (const int64_t bytes = int64_t{kTile} * (kTile + 1) * StorageBytes(dtype, storage); CanStage(address, bytes)) {
    const std::string tile = absl::StrCat("tile", staged_.size());
    staged_bytes_ += bytes;
    staged_.push_back({tile, argument, Text(address)});
    return scopes_.back()->memo[key] = Define(dtype, absl::StrCat("load(", tile, "[threadIdx.x % ", kTile, "][j])"));
  }
  const int width = std::min(lanes_, kVectorBytes / StorageBytes(dtype, storage));
  bool together = vector_scope_ >= 0 && top() == vector_scope_ && width > 1 && request_.aligned(value) &&
                  address.Divisor() % width == 0;
  for (int i = 1; i < width && together; ++i) together = wanted_.contains(key_of(address + i));
  if (together) {
    const std::string name = NewName("q"), vector = VectorName(dtype, storage, width);
    Line(
        absl::StrCat("const ", vector, " ", name, " = *(const ", vector, "*)(p", argument, " + ", Text(address), ");"));
    for (int i = 0; i < width; ++i) {
      scopes_.back()->memo[key_of(address + i)] = Define(dtype, absl::StrCat("load(", name, ".at[", i, "])"));
    }
    vectorized_ = true;
    return *Find(key);
  }
  const std::string name = Define(dtype, absl::StrCat("load(p", argument, "[", Text(address), "])"));
  scopes_.back()->memo[key] = name;
  return name;
}

bool ExpressionWriter::CanStage(const Form& address, int64_t bytes) const {
  constexpr int64_t kSharedBytes = 48 << 10;  // that a kernel has of the memory of its block without asking for more
  if (tile_scope_ < 0 || top() != tile_scope_ || staged_bytes_ + bytes > kSharedBytes) return false;
  if (StepOf(address, "a") != 1 || std::abs(StepOf(address, "b")) <= 1) return false;
  const std::vector<const index::Atom*> leaves = LeavesOf(address);
  return std::all_of(leaves.begin(), leaves.end(), [](const index::Atom* leaf) {
    return leaf->name == "a" || leaf->name == "b" ||
           leaf->name == "tile";  // others are not known when tiles are filled
  });
}

// ---------------------------------------------------------------- reductions

int ExpressionWriter::DepthOf(const ExprNode& expr, Frame& frame) {
  int depth = -1;
  if (expr.kind() == ExprKind::kVar) {
    for (const index::Atom* leaf : LeavesOf(frame.variables[expr.variable()])) depth = std::max(depth, leaf->tag);
    return depth;
  }
  std::vector<Form> outer;
  for (const BoundVar& bound : expr.bound()) {
    Form& variable = frame.variables[bound.id];
    outer.push_back(variable);
    variable = 0;
  }
  for (const ExprPtr& arg : expr.args()) depth = std::max(depth, DepthOf(*arg, frame));
  for (size_t i = 0; i < expr.bound().size(); ++i) {
    frame.variables[expr.bound()[i].id] = outer[i];
  }
  return depth;
}

void ExpressionWriter::AxesOf(const ExprNode& expr, Frame& frame, std::set<int>* axes) {
  if (expr.kind() == ExprKind::kVar) {
    for (const index::Atom* leaf : LeavesOf(frame.variables[expr.variable()])) {
      const auto at = std::find(axis_names_.begin(), axis_names_.end(), leaf->name);
      if (at != axis_names_.end()) axes->insert(static_cast<int>(at - axis_names_.begin()));
    }
  }
  for (const ExprPtr& arg : expr.args()) AxesOf(*arg, frame, axes);
}

std::string ExpressionWriter::Reduce(const ExprNode& expr, Frame& frame, int* home) {
  std::vector<int64_t> extents;
  int64_t terms = 1;
  for (const BoundVar& bound : expr.bound()) {
    const Form extent = IndexOf(*bound.extent, frame);
    if (!extent.IsConstant()) Fail("a reduction over an unknown range");
    extents.push_back(extent.constant());
    terms *= std::max<int64_t>(extent.constant(), 0);
  }
  if (surveying_ && !in_reduction_) {
    std::vector<Form> outer;
    for (const BoundVar& bound : expr.bound()) {
      outer.push_back(frame.variables[bound.id]);
      frame.variables[bound.id] = 0;
    }
    std::set<int> axes;
    AxesOf(expr, frame, &axes);
    for (size_t i = 0; i < expr.bound().size(); ++i) {
      frame.variables[expr.bound()[i].id] = outer[i];
    }
    survey_.reductions.emplace_back(axes, terms);
    for (const auto& s : scopes_) survey_.under_condition = survey_.under_condition || s->conditional;
  }
  // The outermost scope in which the value can be computed. A hoisted value is computed even if it is not needed, so a
  // condition holds it back.
  *home = top();
  const int depth = std::max(DepthOf(expr, frame), 0);
  while (*home > depth && !scope(*home).conditional) --*home;
  survey_.repeated = survey_.repeated || (surveying_ && in_reduction_ && *home > 0);
  std::vector<std::unique_ptr<Scope>> deeper;
  while (top() > *home) {
    deeper.push_back(std::move(scopes_.back()));
    scopes_.pop_back();
  }
  const bool was_in = in_reduction_;
  in_reduction_ = true;
  const bool together = team_.has_value() && *home == 0 && terms > 1;
  const std::string result =
      together ? ReduceTogether(expr, frame, extents, terms) : ReduceInThread(expr, frame, extents);
  in_reduction_ = was_in;
  while (!deeper.empty()) {
    scopes_.push_back(std::move(deeper.back()));
    deeper.pop_back();
  }
  return result;
}

void ExpressionWriter::Term(const ExprNode& expr, Frame& frame, const std::string& result,
                            const std::vector<Form>& at) {
  std::vector<Form> outer;
  for (size_t i = 0; i < expr.bound().size(); ++i) {
    Form& variable = frame.variables[expr.bound()[i].id];
    outer.push_back(variable);
    variable = at[i];
  }
  const Truth guard = Condition(*expr.guard(), frame);
  if (!guard.known || *guard.known) {
    if (!guard.known) Push(/*conditional=*/true);
    const std::string value = ScalarOf(*expr.body(), frame);
    if (IsPosition(expr.reduction())) {
      const char* test = expr.reduction() == ReduceKind::kArgMax ? "better" : "worse";
      Line(absl::StrCat("if (", result, ".at < 0 || ", test, "(", value, ", ", result, ".value)) { ", result,
                        ".value = ", value, "; ", result, ".at = ", Text(at[0]), "; }"));
    } else {
      Line(absl::StrCat(result, " = ", ReduceOp(expr.reduction()), "::Of(", result, ", ", value, ");"));
    }
    if (!guard.known) {
      const std::string body = Pop();
      Line(absl::StrCat("if (", guard.text, ") {\n", body, "}"));
    }
  }
  for (size_t i = 0; i < expr.bound().size(); ++i) {
    frame.variables[expr.bound()[i].id] = outer[i];
  }
}

std::string ExpressionWriter::StartAccumulator(const ExprNode& expr) {
  const DType dtype = expr.body()->dtype();
  const std::string result = NewName("r");
  if (IsPosition(expr.reduction())) {
    Line(absl::StrCat("Best<", TypeName(dtype), "> ", result, " = {", Identity(expr.reduction(), dtype), ", -1};"));
  } else {
    Line(absl::StrCat(TypeName(dtype), " ", result, " = ", Identity(expr.reduction(), dtype), ";"));
  }
  return result;
}

std::string ExpressionWriter::FinishAccumulator(const ExprNode& expr, const std::string& result) {
  if (!IsPosition(expr.reduction())) return result;
  return Define(DType::kInt64, absl::StrCat(result, ".at < 0 ? 0 : ", result, ".at"));
}

std::string ExpressionWriter::ReduceInThread(const ExprNode& expr, Frame& frame, const std::vector<int64_t>& extents) {
  const std::string result = StartAccumulator(expr);
  std::string loops, ends;
  Push();
  std::vector<Form> at;
  for (size_t i = 0; i < extents.size(); ++i) {
    const std::string name = NewName("k");
    at.push_back(Variable(name, 0, std::max<int64_t>(extents[i] - 1, 0), top()));
    if (extents[i] == 1) continue;
    absl::StrAppend(&loops, "for (index_t ", name, " = 0; ", name, " < ", extents[i], "; ++", name, ") {\n");
    absl::StrAppend(&ends, "}");
  }
  Term(expr, frame, result, at);
  const std::string body = Pop();
  if (std::find_if(extents.begin(), extents.end(), [](int64_t e) { return e <= 0; }) == extents.end()) {
    Line(absl::StrCat(loops, "{\n", body, "}", ends));
  }
  return FinishAccumulator(expr, result);
}

std::string ExpressionWriter::ReduceTogether(const ExprNode& expr, Frame& frame, const std::vector<int64_t>& extents,
                                             int64_t terms) {
  const std::string result = StartAccumulator(expr);
  const int64_t whole = lanes_ > 1 ? terms / lanes_ : 0;
  if (whole > 0) {
    const std::string name = NewName("k");
    const std::string body = NeighbourScope(/*conditional=*/false, [&] {
      const Form chunk = Variable(name, 0, whole - 1, top());
      for (int lane = 0; lane < lanes_; ++lane) {
        Term(expr, frame, result, Unflatten(chunk * lanes_ + Form(lane), extents));
      }
    });
    Line(absl::StrCat("for (index_t ", name, " = ", team_->member, "; ", name, " < ", whole, "; ", name,
                      " += ", team_->size, ") {\n", body, "}"));
  }
  if (const int64_t first = whole * lanes_; first < terms) {
    const std::string name = NewName("k");
    Push();
    const Form flat = Variable(name, first, terms - 1, top());
    Term(expr, frame, result, Unflatten(flat, extents));
    const std::string body = Pop();
    Line(absl::StrCat("for (index_t ", name, " = ", first, " + ", team_->member, "; ", name, " < ", terms, "; ", name,
                      " += ", team_->size, ") {\n", body, "}"));
  }
  Line(absl::StrCat(result, " = ", team_->reduce, ReduceOp(expr.reduction()), ", kThreads>(", result, ");"));
  return FinishAccumulator(expr, result);
}

}  // namespace rewright::cuda
