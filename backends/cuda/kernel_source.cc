#include "backends/cuda/kernel_source.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "backends/cuda/index_form.h"
#include "core/check.h"

namespace rewright::cuda {
namespace {

constexpr int kLanes = 4;  // elements that a vectorized thread computes
constexpr const char* kParts[] = {".x", ".y", ".z", ".w"};
constexpr int kFlatThreads = 256;
constexpr int64_t kManyRows = 32768;  // reductions so many that threads need not share one
constexpr int64_t kLongReduction = 48;
constexpr int64_t kLargeIndex = int64_t{1} << 30;

const char* TypeName(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return "float";
    case DType::kFloat64: return "double";
    case DType::kInt64: return "int64";
    case DType::kInt32: return "int";
    case DType::kBool: return "boolean";
  }
  return "?";
}

const char* StorageName(DType dtype, Storage storage) {
  switch (storage) {
    case Storage::kNative: break;
    case Storage::kFp16: return "fp16";
    case Storage::kBf16: return "bf16";
  }
  return TypeName(dtype);
}

// The type of four elements that are moved at once, or null.
const char* VectorName(DType dtype, Storage storage) {
  switch (storage) {
    case Storage::kNative: break;
    case Storage::kFp16: return "Four<fp16>";
    case Storage::kBf16: return "Four<bf16>";
  }
  switch (dtype) {
    case DType::kFloat32: return "float4";
    case DType::kInt32: return "int4";
    case DType::kBool: return "uchar4";
    default: return nullptr;
  }
}

const char* FunctionName(Fn fn) {
  switch (fn) {
    case Fn::kAdd: return "op_add";
    case Fn::kSub: return "op_sub";
    case Fn::kMul: return "op_mul";
    case Fn::kDiv: return "op_div";
    case Fn::kNeg: return "op_neg";
    case Fn::kMax: return "op_max";
    case Fn::kMin: return "op_min";
    case Fn::kPow: return "op_pow";
    case Fn::kExp: return "op_exp";
    case Fn::kLog: return "op_log";
    case Fn::kSqrt: return "op_sqrt";
    case Fn::kErf: return "op_erf";
    case Fn::kTanh: return "op_tanh";
    case Fn::kSigmoid: return "op_sigmoid";
    case Fn::kAbs: return "op_abs";
    case Fn::kFloor: return "op_floor";
    case Fn::kCeil: return "op_ceil";
    case Fn::kLess: return "<";
    case Fn::kLessEqual: return "<=";
    case Fn::kEqual: return "==";
    case Fn::kAnd: return "&";
    case Fn::kOr: return "|";
    case Fn::kNot: return "!";
  }
  return "?";
}

std::string RealLiteral(double value, DType dtype) {
  const char* type = dtype == DType::kFloat32 ? "float" : "double";
  if (dtype == DType::kFloat32) value = static_cast<double>(static_cast<float>(value));
  if (std::isnan(value)) return absl::StrCat("(", type, ")__longlong_as_double(0x7ff8000000000000LL)");
  if (std::isinf(value)) {
    return absl::StrCat("(", value < 0 ? "-" : "", "(", type, ")__longlong_as_double(0x7ff0000000000000LL))");
  }
  std::string text = absl::StrFormat("%a", value);
  if (dtype == DType::kFloat32) text += "f";
  return value < 0 || std::signbit(value) ? absl::StrCat("(", text, ")") : text;
}

std::string IntegerLiteral(int64_t value, DType dtype) {
  if (dtype == DType::kBool) return absl::StrCat("(boolean)", value != 0 ? 1 : 0);
  if (dtype == DType::kInt32) {
    const int32_t narrow = static_cast<int32_t>(value);
    return narrow == INT32_MIN ? "(-2147483647-1)" : absl::StrCat("(", narrow, ")");
  }
  if (value == INT64_MIN) return "(int64)(-9223372036854775807LL-1)";
  return absl::StrCat("(int64)(", value, "LL)");
}

int64_t ToInteger(double a) {
  if (std::isnan(a)) return 0;
  if (a >= 9223372036854775808.0) return INT64_MAX;
  if (a < -9223372036854775808.0) return INT64_MIN;
  return static_cast<int64_t>(a);
}

std::string Literal(double value, DType dtype) {
  return IsFloating(dtype) ? RealLiteral(value, dtype)
                           : IntegerLiteral(dtype == DType::kBool ? value != 0 : ToInteger(value), dtype);
}

// What a reduction starts from.
std::string Identity(ReduceKind kind, DType dtype) {
  switch (kind) {
    case ReduceKind::kSum: return Literal(0, dtype);
    case ReduceKind::kProd: return Literal(1, dtype);
    case ReduceKind::kMax:
    case ReduceKind::kArgMax:
      if (dtype == DType::kInt64) return IntegerLiteral(INT64_MIN, dtype);
      if (dtype == DType::kInt32) return IntegerLiteral(INT32_MIN, dtype);
      return dtype == DType::kBool ? Literal(0, dtype) : RealLiteral(-INFINITY, dtype);
    case ReduceKind::kMin:
    case ReduceKind::kArgMin:
      if (dtype == DType::kInt64) return IntegerLiteral(INT64_MAX, dtype);
      if (dtype == DType::kInt32) return IntegerLiteral(INT32_MAX, dtype);
      return dtype == DType::kBool ? Literal(1, dtype) : RealLiteral(INFINITY, dtype);
  }
  return "?";
}

const char* ReduceOp(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum: return "Sum";
    case ReduceKind::kProd: return "Prod";
    case ReduceKind::kMax: return "Max";
    case ReduceKind::kMin: return "Min";
    case ReduceKind::kArgMax: return "ArgMax";
    case ReduceKind::kArgMin: return "ArgMin";
  }
  return "?";
}

bool IsArg(ReduceKind kind) { return kind == ReduceKind::kArgMax || kind == ReduceKind::kArgMin; }

// A truth value in a kernel: known while it is written, or a C expression.
struct Truth {
  std::optional<bool> known;
  std::string text;
};

// A meaning with its symbols bound, at a place.
struct Frame {
  const Meaning* meaning = nullptr;
  std::vector<IndexForm> variables;  // by id: sizes and attributes as constants, positions as forms
  const std::vector<double>* params = nullptr;
  const Node* node = nullptr;
};

// What one walk over the expression found, for choosing the kernel's shape.
struct Survey {
  // By outermost reduction: the axes of the result that it depends on, and the number of its terms.
  std::vector<std::pair<std::set<int>, int64_t>> reductions;
  bool under_condition = false;  // a reduction that is not always needed
  absl::flat_hash_set<std::string> loads;  // argument and address
};

class Writer {
 public:
  Writer(const Graph& graph, const KernelRequest& request) : graph_(graph), request_(request) {
    for (NodeId id : request.nodes) inside_.insert(id);
  }

  absl::StatusOr<GeneratedKernel> Write() {
    const TensorType& type = graph_.type(request_.result);
    const std::vector<int64_t> order = MemoryOrder();
    const int64_t elements = type.num_elements();
    kernel_.threads = kFlatThreads;
    SurveyResult();
    if (elements == 0) {
      kernel_.blocks = 0;
    } else if (std::vector<bool> in_rows; ChooseRows(&in_rows)) {
      WriteRows(in_rows);
    } else {
      WriteFlat(order, elements);
    }
    if (!status_.ok()) return status_;
    Assemble();
    return std::move(kernel_);
  }

 private:
  struct Scope {
    std::string text;
    absl::flat_hash_map<std::string, std::string> memo;
    bool conditional = false;
  };

  // ---- scopes

  int top() const { return static_cast<int>(scopes_.size()) - 1; }
  Scope& scope(int i) { return *scopes_[static_cast<size_t>(i)]; }
  void Push(bool conditional = false) {
    scopes_.push_back(std::make_unique<Scope>());
    scopes_.back()->conditional = conditional;
  }
  std::string Pop() {
    std::string text = std::move(scopes_.back()->text);
    scopes_.pop_back();
    return text;
  }
  void Line(const std::string& line) { absl::StrAppend(&scopes_.back()->text, line, "\n"); }
  std::string NewName(const char* prefix) { return absl::StrCat(prefix, next_name_++); }
  const std::string* Find(const std::string& key) {
    for (size_t i = scopes_.size(); i-- > 0;) {
      const auto found = scopes_[i]->memo.find(key);
      if (found != scopes_[i]->memo.end()) return &found->second;
    }
    return nullptr;
  }
  // A constant of the current scope with this value.
  std::string Define(DType dtype, const std::string& value) {
    const std::string name = NewName("v");
    Line(absl::StrCat("const ", TypeName(dtype), " ", name, " = ", value, ";"));
    return name;
  }
  void Fail(const std::string& message) {
    if (status_.ok()) status_ = absl::InternalError(absl::StrCat("kernel source: ", message));
  }

  // ---- indices

  IndexForm Index(const ExprNode& expr, Frame& frame) {
    switch (expr.kind) {
      case ExprKind::kInt: return expr.integer;
      case ExprKind::kVar: return frame.variables[static_cast<size_t>(expr.integer)];
      case ExprKind::kFromValue: {
        const std::string value = Scalar(*expr.args[0], frame);
        const std::string name = NewName("i");
        Line(absl::StrCat("const int64 ", name, " = ", value, ";"));
        return IndexForm::Unknown(name, top());
      }
      default: break;
    }
    const IndexForm a = Index(*expr.args[0], frame), b = Index(*expr.args[1], frame);
    switch (expr.kind) {
      case ExprKind::kIndexAdd: return a + b;
      case ExprKind::kIndexSub: return a - b;
      case ExprKind::kIndexMul: return a * b;
      case ExprKind::kIndexMin: return Min(a, b);
      case ExprKind::kIndexMax: return Max(a, b);
      case ExprKind::kFloorDiv:
      case ExprKind::kMod:
        if (!b.IsConstant() || b.constant() <= 0) {
          Fail("a divisor that is no positive number");
          return 0;
        }
        return expr.kind == ExprKind::kMod ? Mod(a, b.constant()) : FloorDiv(a, b.constant());
      default: Fail("not an index"); return 0;
    }
  }

  std::string Text(const IndexForm& form) {
    large_ = large_ || form.magnitude() > kLargeIndex;
    return form.text();
  }

  Truth Compare(ExprKind kind, const IndexForm& a, const IndexForm& b) {
    const IndexForm difference = b - a;
    const int64_t low = difference.low(), high = difference.high();
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

  Truth Condition(const ExprNode& expr, Frame& frame) {
    switch (expr.kind) {
      case ExprKind::kBool: return {expr.integer != 0, ""};
      case ExprKind::kLess:
      case ExprKind::kLessEqual:
      case ExprKind::kEqual: {
        const IndexForm a = Index(*expr.args[0], frame);
        return Compare(expr.kind, a, Index(*expr.args[1], frame));
      }
      case ExprKind::kNot: {
        const Truth a = Condition(*expr.args[0], frame);
        if (a.known) return {!*a.known, ""};
        return {std::nullopt, absl::StrCat("!", a.text)};
      }
      case ExprKind::kHolds: return {std::nullopt, absl::StrCat("(", Scalar(*expr.args[0], frame), " != 0)")};
      case ExprKind::kAnd:
      case ExprKind::kOr: {
        const bool is_and = expr.kind == ExprKind::kAnd;
        const Truth a = Condition(*expr.args[0], frame);
        if (a.known) return *a.known == is_and ? Condition(*expr.args[1], frame) : Truth{!is_and, ""};
        Push(/*conditional=*/true);
        const Truth b = Condition(*expr.args[1], frame);
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

  // ---- elements

  // The text that an expression has in every frame in which it has the same value; bound variables count from
  // `level`.
  void Key(const ExprNode& expr, Frame& frame, int level, std::string* key) {
    if (expr.kind == ExprKind::kVar) {
      absl::StrAppend(key, frame.variables[static_cast<size_t>(expr.integer)].text());
      return;
    }
    absl::StrAppend(key, "(", static_cast<int>(expr.kind), ".", static_cast<int>(expr.fn), ".",
                    static_cast<int>(expr.reduce), ".", static_cast<int>(expr.dtype), " ", expr.integer, " ");
    if (expr.kind == ExprKind::kConst) absl::StrAppend(key, absl::StrFormat("%a", expr.real));
    if (expr.kind == ExprKind::kParam) {
      absl::StrAppend(key, absl::StrFormat("%a", (*frame.params)[static_cast<size_t>(expr.integer)]));
    }
    if (expr.kind == ExprKind::kRead) {
      const Value value = frame.node->operands[static_cast<size_t>(expr.integer)];
      absl::StrAppend(key, "#", value.node, ".", value.output);
    }
    std::vector<IndexForm> outer;
    for (const BoundVar& bound : expr.bound) {
      IndexForm& variable = frame.variables[static_cast<size_t>(bound.id)];
      outer.push_back(variable);
      Key(*bound.extent, frame, level, key);
      const int64_t extent = Index(*bound.extent, frame).constant();
      // A name that no loop has.
      variable = IndexForm::Variable(absl::StrCat("$", level++), 0, std::max<int64_t>(extent - 1, 0), 0);
      absl::StrAppend(key, ";");
    }
    for (const ExprPtr& arg : expr.args) {
      Key(*arg, frame, level, key);
      absl::StrAppend(key, ",");
    }
    for (size_t i = 0; i < expr.bound.size(); ++i) {
      frame.variables[static_cast<size_t>(expr.bound[i].id)] = outer[i];
    }
    absl::StrAppend(key, ")");
  }

  std::string Scalar(const ExprNode& expr, Frame& frame) {
    switch (expr.kind) {
      case ExprKind::kConst: return Literal(expr.real, expr.dtype);
      case ExprKind::kParam: return Literal((*frame.params)[static_cast<size_t>(expr.integer)], expr.dtype);
      case ExprKind::kFromIndex: {
        const IndexForm form = Index(*expr.args[0], frame);
        if (form.IsConstant()) return Literal(static_cast<double>(form.constant()), expr.dtype);
        return absl::StrCat("(", TypeName(expr.dtype), ")", Text(form));
      }
      case ExprKind::kRead: return Read(expr, frame);
      default: break;
    }
    std::string key;
    Key(expr, frame, 0, &key);
    if (const std::string* known = Find(key); known != nullptr) return *known;
    int home = top();
    std::string value;
    switch (expr.kind) {
      case ExprKind::kCall: value = Call(expr, frame); break;
      case ExprKind::kSelect: value = Select(expr, frame); break;
      case ExprKind::kReduce: value = Reduce(expr, frame, &home); break;
      case ExprKind::kCast: {
        const std::string a = Scalar(*expr.args[0], frame);
        const DType from = expr.args[0]->dtype;
        if (from == expr.dtype) {
          value = a;
        } else if (expr.dtype == DType::kBool) {
          value = Define(expr.dtype, absl::StrCat("(boolean)(", a, " != 0)"));
        } else if (IsFloating(from) && IsFloating(expr.dtype)) {
          value = Define(expr.dtype, absl::StrCat("(", TypeName(expr.dtype), ")", a));
        } else {
          value = Define(expr.dtype, absl::StrCat("(", TypeName(expr.dtype), ")to_integer(", a, ")"));
        }
        break;
      }
      case ExprKind::kHolds: value = Scalar(*expr.args[0], frame); break;
      default: Fail("not an element"); return "0";
    }
    scope(home).memo[key] = value;
    return value;
  }

  std::string Call(const ExprNode& expr, Frame& frame) {
    std::vector<std::string> args;
    for (const ExprPtr& arg : expr.args) args.push_back(Scalar(*arg, frame));
    const std::string name = FunctionName(expr.fn);
    if (expr.fn == Fn::kNot) return Define(expr.dtype, absl::StrCat("(boolean)(", args[0], " == 0)"));
    if (name.compare(0, 3, "op_") != 0) {
      return Define(expr.dtype, absl::StrCat("(boolean)(", args[0], " ", name, " ", args[1], ")"));
    }
    return Define(expr.dtype, absl::StrCat(name, "(", absl::StrJoin(args, ", "), ")"));
  }

  std::string Select(const ExprNode& expr, Frame& frame) {
    const Truth condition = Condition(*expr.args[0], frame);
    if (condition.known) return Scalar(*expr.args[*condition.known ? 1 : 2], frame);
    Push(/*conditional=*/true);
    const std::string yes = Scalar(*expr.args[1], frame);
    const std::string yes_body = Pop();
    Push(/*conditional=*/true);
    const std::string no = Scalar(*expr.args[2], frame);
    const std::string no_body = Pop();
    if (yes_body.empty() && no_body.empty()) {
      return Define(expr.dtype, absl::StrCat(condition.text, " ? ", yes, " : ", no));
    }
    const std::string name = NewName("v");
    Line(absl::StrCat(TypeName(expr.dtype), " ", name, no_body.empty() ? absl::StrCat(" = ", no) : "", ";"));
    Line(absl::StrCat("if (", condition.text, ") {\n", yes_body, name, " = ", yes, ";\n}"));
    if (!no_body.empty()) Line(absl::StrCat("else {\n", no_body, name, " = ", no, ";\n}"));
    return name;
  }

  std::string Read(const ExprNode& expr, Frame& frame) {
    const Value value = frame.node->operands[static_cast<size_t>(expr.integer)];
    std::vector<IndexForm> at;
    for (const ExprPtr& index : expr.args) at.push_back(Index(*index, frame));
    return Element(value, at);
  }

  // The element of a value at a place.
  std::string Element(Value value, const std::vector<IndexForm>& at) {
    if (inside_.contains(value.node)) return Inlined(value, at);
    if (const Tensor* constant = request_.single_constant(value); constant != nullptr) {
      return IsFloating(constant->dtype()) ? RealLiteral(constant->At(0), constant->dtype())
                                           : IntegerLiteral(constant->AtInt(0), constant->dtype());
    }
    const Layout layout = request_.layout_of(value);
    IndexForm address;
    for (size_t k = 0; k < at.size(); ++k) {
      const int64_t size = layout.dims[k];
      IndexForm index = at[k];
      // A place that data chooses must not lead out of the operand.
      if (!index.IsBounded()) index = Min(Max(index, 0), size - 1);
      if (size != 1) address = address + index * layout.strides[k];
    }
    return Load(value, address);
  }

  std::string Inlined(Value value, const std::vector<IndexForm>& at) {
    std::string key = absl::StrCat("#", value.node, ".", value.output, "[");
    for (const IndexForm& index : at) absl::StrAppend(&key, index.text(), ",");
    if (const std::string* known = Find(key); known != nullptr) return *known;
    const Node& node = graph_.node(value.node);
    auto [params, variables] = Bound(value.node);
    Frame frame{node.meaning.get(), *variables, params, &node};
    const OutputMeaning& output = node.meaning->outputs[static_cast<size_t>(value.output)];
    for (size_t k = 0; k < at.size(); ++k) frame.variables[static_cast<size_t>(output.index_vars[k])] = at[k];
    const std::string result = Scalar(*output.element, frame);
    scopes_.back()->memo[key] = result;
    return result;
  }

  std::pair<const std::vector<double>*, const std::vector<IndexForm>*> Bound(NodeId id) {
    auto& entry = bound_[id];
    if (entry == nullptr) {
      const Node& node = graph_.node(id);
      std::vector<TensorType> inputs;
      for (Value operand : node.operands) inputs.push_back(graph_.type(operand));
      const Bindings bindings = BindingsOf(*node.meaning, inputs, node.attrs);
      entry = std::make_unique<std::pair<std::vector<double>, std::vector<IndexForm>>>();
      entry->first = bindings.params;
      entry->second.assign(bindings.variables.begin(), bindings.variables.end());
    }
    return {&entry->first, &entry->second};
  }

  int Argument(Value value) {
    const auto found = std::find(kernel_.arguments.begin(), kernel_.arguments.end(), value);
    if (found != kernel_.arguments.end()) return static_cast<int>(found - kernel_.arguments.begin());
    kernel_.arguments.push_back(value);
    return static_cast<int>(kernel_.arguments.size()) - 1;
  }

  std::string Load(Value value, const IndexForm& address) {
    const int argument = Argument(value);
    auto key_of = [&](const IndexForm& at) { return absl::StrCat("p", argument, "[", at.text(), "]"); };
    const std::string key = key_of(address);
    if (const std::string* known = Find(key); known != nullptr) return *known;
    const DType dtype = graph_.type(value).dtype;
    const Storage storage = request_.storage_of(value);
    const char* vector = VectorName(dtype, storage);
    survey_.loads.insert(key);
    const bool four = vector_scope_ >= 0 && top() == vector_scope_ && vector != nullptr &&
                      request_.aligned(value) && address.divisor() % kLanes == 0 &&
                      wanted_.contains(key_of(address + 1)) && wanted_.contains(key_of(address + 2)) &&
                      wanted_.contains(key_of(address + 3));
    if (four) {
      const std::string name = NewName("q");
      Line(absl::StrCat("const ", vector, " ", name, " = *(const ", vector, "*)(p", argument, " + ", Text(address),
                        ");"));
      for (int i = 0; i < kLanes; ++i) {
        scopes_.back()->memo[key_of(address + IndexForm(i))] = Define(dtype, absl::StrCat("load(", name, kParts[i], ")"));
      }
      kernel_.vectorized = true;
      return *Find(key);
    }
    const std::string name = Define(dtype, absl::StrCat("load(p", argument, "[", Text(address), "])"));
    scopes_.back()->memo[key] = name;
    return name;
  }

  // ---- reductions

  // The deepest scope whose variables the expression depends on.
  int DepthOf(const ExprNode& expr, Frame& frame) {
    if (expr.kind == ExprKind::kVar) return frame.variables[static_cast<size_t>(expr.integer)].depth();
    int depth = -1;
    std::vector<IndexForm> outer;
    for (const BoundVar& bound : expr.bound) {
      IndexForm& variable = frame.variables[static_cast<size_t>(bound.id)];
      outer.push_back(variable);
      variable = 0;
    }
    for (const ExprPtr& arg : expr.args) depth = std::max(depth, DepthOf(*arg, frame));
    for (size_t i = 0; i < expr.bound.size(); ++i) {
      frame.variables[static_cast<size_t>(expr.bound[i].id)] = outer[i];
    }
    return depth;
  }

  void AxesOf(const ExprNode& expr, Frame& frame, std::set<int>* axes) {
    if (expr.kind == ExprKind::kVar) {
      std::set<std::string> names;
      frame.variables[static_cast<size_t>(expr.integer)].CollectVariables(&names);
      for (size_t k = 0; k < axis_names_.size(); ++k) {
        if (names.count(axis_names_[k]) > 0) axes->insert(static_cast<int>(k));
      }
    }
    for (const ExprPtr& arg : expr.args) AxesOf(*arg, frame, axes);
  }

  std::string Reduce(const ExprNode& expr, Frame& frame, int* home) {
    std::vector<int64_t> extents;
    int64_t terms = 1;
    for (const BoundVar& bound : expr.bound) {
      const IndexForm extent = Index(*bound.extent, frame);
      if (!extent.IsConstant()) Fail("a reduction over an unknown range");
      extents.push_back(extent.constant());
      terms *= std::max<int64_t>(extent.constant(), 0);
    }
    if (surveying_ && !in_reduction_) {
      std::vector<IndexForm> outer;
      for (const BoundVar& bound : expr.bound) {
        outer.push_back(frame.variables[static_cast<size_t>(bound.id)]);
        frame.variables[static_cast<size_t>(bound.id)] = 0;
      }
      std::set<int> axes;
      AxesOf(expr, frame, &axes);
      for (size_t i = 0; i < expr.bound.size(); ++i) {
        frame.variables[static_cast<size_t>(expr.bound[i].id)] = outer[i];
      }
      survey_.reductions.emplace_back(axes, terms);
      for (const auto& s : scopes_) survey_.under_condition = survey_.under_condition || s->conditional;
    }
    // The outermost scope in which it can be computed. What is hoisted is computed whether it is needed or not, so a
    // condition holds it back.
    *home = top();
    const int depth = std::max(DepthOf(expr, frame), 0);
    while (*home > depth && !scope(*home).conditional) --*home;
    std::vector<std::unique_ptr<Scope>> deeper;
    while (top() > *home) {
      deeper.push_back(std::move(scopes_.back()));
      scopes_.pop_back();
    }
    const bool was_in = in_reduction_;
    in_reduction_ = true;
    const bool together = by_rows_ && *home == 0 && terms > 1;
    const std::string result = together ? ReduceTogether(expr, frame, extents, terms) : ReduceInThread(expr, frame, extents);
    in_reduction_ = was_in;
    while (!deeper.empty()) {
      scopes_.push_back(std::move(deeper.back()));
      deeper.pop_back();
    }
    return result;
  }

  // The guard and body of a reduction with its variables set, in a scope of its own; the accumulation goes into `result`.
  void Term(const ExprNode& expr, Frame& frame, const std::string& result, const std::vector<IndexForm>& at) {
    std::vector<IndexForm> outer;
    for (size_t i = 0; i < expr.bound.size(); ++i) {
      IndexForm& variable = frame.variables[static_cast<size_t>(expr.bound[i].id)];
      outer.push_back(variable);
      variable = at[i];
    }
    const Truth guard = Condition(*expr.args[0], frame);
    if (!guard.known || *guard.known) {
      if (!guard.known) Push(/*conditional=*/true);
      const std::string value = Scalar(*expr.args[1], frame);
      if (IsArg(expr.reduce)) {
        const char* test = expr.reduce == ReduceKind::kArgMax ? "better" : "worse";
        Line(absl::StrCat("if (", result, ".at < 0 || ", test, "(", value, ", ", result, ".value)) { ", result,
                          ".value = ", value, "; ", result, ".at = ", Text(at[0]), "; }"));
      } else {
        Line(absl::StrCat(result, " = ", ReduceOp(expr.reduce), "::Of(", result, ", ", value, ");"));
      }
      if (!guard.known) {
        const std::string body = Pop();
        Line(absl::StrCat("if (", guard.text, ") {\n", body, "}"));
      }
    }
    for (size_t i = 0; i < expr.bound.size(); ++i) {
      frame.variables[static_cast<size_t>(expr.bound[i].id)] = outer[i];
    }
  }

  std::string StartAccumulator(const ExprNode& expr) {
    const DType dtype = expr.args[1]->dtype;
    const std::string result = NewName("r");
    if (IsArg(expr.reduce)) {
      Line(absl::StrCat("Best<", TypeName(dtype), "> ", result, " = {", Identity(expr.reduce, dtype), ", -1};"));
    } else {
      Line(absl::StrCat(TypeName(dtype), " ", result, " = ", Identity(expr.reduce, dtype), ";"));
    }
    return result;
  }

  // Where nothing was attained an argmax is 0.
  std::string FinishAccumulator(const ExprNode& expr, const std::string& result) {
    if (!IsArg(expr.reduce)) return result;
    return Define(DType::kInt64, absl::StrCat(result, ".at < 0 ? 0 : ", result, ".at"));
  }

  std::string ReduceInThread(const ExprNode& expr, Frame& frame, const std::vector<int64_t>& extents) {
    const std::string result = StartAccumulator(expr);
    std::string loops, ends;
    Push();
    std::vector<IndexForm> at;
    for (size_t i = 0; i < extents.size(); ++i) {
      const std::string name = NewName("k");
      at.push_back(IndexForm::Variable(name, 0, std::max<int64_t>(extents[i] - 1, 0), top()));
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

  std::string ReduceTogether(const ExprNode& expr, Frame& frame, const std::vector<int64_t>& extents, int64_t terms) {
    const std::string result = StartAccumulator(expr);
    const std::string name = NewName("k");
    Push();
    const IndexForm flat = IndexForm::Variable(name, 0, terms - 1, top());
    Term(expr, frame, result, Unflatten(flat, extents));
    const std::string body = Pop();
    Line(absl::StrCat("for (index_t ", name, " = threadIdx.x; ", name, " < ", terms, "; ", name, " += kThreads) {\n",
                      body, "}"));
    Line(absl::StrCat(result, " = block_reduce<", ReduceOp(expr.reduce), ", kThreads>(", result, ");"));
    return FinishAccumulator(expr, result);
  }

  // ---- kernels

  // The axes of the result, those furthest apart in memory first.
  std::vector<int64_t> MemoryOrder() {
    const Layout& out = request_.out;
    std::vector<int64_t> order(static_cast<size_t>(out.rank()));
    for (size_t k = 0; k < order.size(); ++k) order[k] = static_cast<int64_t>(k);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return out.strides[static_cast<size_t>(a)] > out.strides[static_cast<size_t>(b)];
    });
    return order;
  }

  // Walks over the expression once, with the position's axes as variables.
  void SurveyResult() {
    surveying_ = true;
    const Shape& shape = graph_.type(request_.result).shape;
    std::vector<IndexForm> at;
    Push();
    for (size_t k = 0; k < shape.size(); ++k) {
      axis_names_.push_back(absl::StrCat("o", k));
      at.push_back(IndexForm::Variable(axis_names_.back(), 0, std::max<int64_t>(shape[k] - 1, 0), 0));
    }
    Element(request_.result, at);
    Pop();
    surveying_ = false;
    Reset();
  }

  void Reset() {
    next_name_ = 0;
    kernel_.arguments.clear();
    large_ = false;
  }

  // Whether blocks should reduce together, and which axes tell the rows apart.
  bool ChooseRows(std::vector<bool>* in_rows) const {
    if (survey_.reductions.empty() || survey_.under_condition) return false;
    const Shape& shape = graph_.type(request_.result).shape;
    in_rows->assign(shape.size(), false);
    int64_t terms = 0;
    for (const auto& [axes, count] : survey_.reductions) {
      for (int axis : axes) (*in_rows)[static_cast<size_t>(axis)] = true;
      terms = std::max(terms, count);
    }
    int64_t rows = 1, row = 1;
    for (size_t k = 0; k < shape.size(); ++k) ((*in_rows)[k] ? rows : row) *= shape[k];
    if (row > 1) return terms > 1;
    return terms >= kLongReduction && rows < kManyRows;
  }

  void WriteRows(const std::vector<bool>& in_rows) {
    by_rows_ = kernel_.by_rows = true;
    const Shape& shape = graph_.type(request_.result).shape;
    std::vector<int64_t> outer, inner;
    for (size_t k = 0; k < shape.size(); ++k) (in_rows[k] ? outer : inner).push_back(shape[k]);
    const int64_t rows = NumElements(outer), row = NumElements(inner);
    int64_t longest = row;
    for (const auto& [axes, terms] : survey_.reductions) longest = std::max(longest, terms);
    kernel_.threads = 32;
    while (kernel_.threads < 512 && kernel_.threads * 4 < longest) kernel_.threads *= 2;
    kernel_.blocks = rows;
    Push();
    const IndexForm block = IndexForm::Variable("row", 0, rows - 1, 0);
    Line("const index_t row = blockIdx.x;");
    const std::vector<IndexForm> outer_at = Unflatten(block, outer);
    Push();
    const IndexForm place = IndexForm::Variable("e", 0, row - 1, 1);
    const std::vector<IndexForm> inner_at = Unflatten(place, inner);
    std::vector<IndexForm> at;
    size_t next_outer = 0, next_inner = 0;
    IndexForm address;
    for (size_t k = 0; k < shape.size(); ++k) {
      at.push_back(in_rows[k] ? outer_at[next_outer++] : inner_at[next_inner++]);
      address = address + at.back() * request_.out.strides[k];
    }
    const std::string value = Element(request_.result, at);
    Line(absl::StrCat("store(out + ", Text(address), ", ", value, ");"));
    const std::string body = Pop();
    Line(absl::StrCat("for (index_t e = threadIdx.x; e < ", row, "; e += kThreads) {\n", body, "}"));
    body_ = Pop();
  }

  // The code for the element that `flat` numbers in the order of memory.
  std::string FlatElement(const IndexForm& flat, const std::vector<int64_t>& order) {
    const Shape& shape = graph_.type(request_.result).shape;
    std::vector<int64_t> sizes;
    for (int64_t axis : order) sizes.push_back(shape[static_cast<size_t>(axis)]);
    const std::vector<IndexForm> sorted = Unflatten(flat, sizes);
    std::vector<IndexForm> at(shape.size());
    for (size_t k = 0; k < order.size(); ++k) at[static_cast<size_t>(order[k])] = sorted[k];
    return Element(request_.result, at);
  }

  void WriteFlat(const std::vector<int64_t>& order, int64_t elements) {
    const DType dtype = graph_.type(request_.result).dtype;
    const bool lanes = elements >= request_.min_vectorized && VectorName(dtype, request_.out_storage) != nullptr &&
                       survey_.reductions.empty();
    const int64_t whole = lanes ? elements / kLanes : 0;
    const int64_t single = elements - whole * kLanes;
    const int64_t threads = whole + single;
    kernel_.blocks = (threads + kFlatThreads - 1) / kFlatThreads;
    Push();
    Line("const index_t t = (index_t)blockIdx.x * kThreads + threadIdx.x;");
    std::string four, one;
    if (whole > 0) {
      // Once to see which addresses all lanes want, once to write.
      survey_.loads.clear();
      FourElements(order, whole);
      wanted_ = survey_.loads;
      Reset();
      four = FourElements(order, whole);
    }
    if (single > 0) {
      Push(/*conditional=*/true);
      const IndexForm flat = IndexForm::Variable("t", whole, threads - 1, 0) + IndexForm(whole * (kLanes - 1));
      const std::string value = FlatElement(flat, order);
      Line(absl::StrCat("store(out + ", Text(flat), ", ", value, ");"));
      one = Pop();
    }
    large_ = large_ || threads + kFlatThreads > kLargeIndex;
    if (whole > 0) Line(absl::StrCat("if (t < ", whole, ") {\n", four, "return;\n}"));
    if (single > 0) Line(absl::StrCat("if (t < ", threads, ") {\n", one, "}"));
    body_ = Pop();
  }

  std::string FourElements(const std::vector<int64_t>& order, int64_t whole) {
    const DType dtype = graph_.type(request_.result).dtype;
    Push(/*conditional=*/true);
    vector_scope_ = top();
    const IndexForm thread = IndexForm::Variable("t", 0, whole - 1, 0);
    std::vector<std::string> values;
    for (int lane = 0; lane < kLanes; ++lane) values.push_back(FlatElement(thread * kLanes + IndexForm(lane), order));
    const IndexForm address = thread * kLanes;
    if (request_.aligned(request_.result)) {
      const char* vector = VectorName(dtype, request_.out_storage);
      const std::string name = NewName("q");
      Line(absl::StrCat(vector, " ", name, ";"));
      for (int lane = 0; lane < kLanes; ++lane) {
        Line(absl::StrCat("store(&", name, kParts[lane], ", ", values[static_cast<size_t>(lane)], ");"));
      }
      Line(absl::StrCat("*(", vector, "*)(out + ", Text(address), ") = ", name, ";"));
    } else {
      for (int lane = 0; lane < kLanes; ++lane) {
        Line(absl::StrCat("store(out + ", Text(address + IndexForm(lane)), ", ", values[static_cast<size_t>(lane)], ");"));
      }
    }
    vector_scope_ = -1;
    return Pop();
  }

  void Assemble() {
    std::vector<std::string> parameters;
    for (size_t i = 0; i < kernel_.arguments.size(); ++i) {
      parameters.push_back(
          absl::StrCat("const ",
                       StorageName(graph_.type(kernel_.arguments[i]).dtype, request_.storage_of(kernel_.arguments[i])),
                       "* __restrict__ p", i));
    }
    parameters.push_back(absl::StrCat(StorageName(graph_.type(request_.result).dtype, request_.out_storage),
                                      "* __restrict__ out"));
    const std::string rest = absl::StrCat(
        "(", absl::StrJoin(parameters, ", "), ") {\n", "typedef ", large_ ? "long long" : "int", " index_t;\n",
        "constexpr int kThreads = ", kernel_.threads, ";\n(void)kThreads;\n", body_, "}\n");
    uint64_t hash = 1469598103934665603u;
    for (char c : rest) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    kernel_.name = absl::StrFormat("kernel_%016x", hash);
    kernel_.source = absl::StrCat("extern \"C\" __global__ void __launch_bounds__(", kernel_.threads, ") ", kernel_.name,
                                  rest);
  }

  const Graph& graph_;
  const KernelRequest& request_;
  absl::flat_hash_set<NodeId> inside_;
  absl::flat_hash_map<NodeId, std::unique_ptr<std::pair<std::vector<double>, std::vector<IndexForm>>>> bound_;
  GeneratedKernel kernel_;
  std::string body_;
  std::vector<std::unique_ptr<Scope>> scopes_;
  int next_name_ = 0;
  bool large_ = false;
  bool by_rows_ = false;
  bool in_reduction_ = false;
  bool surveying_ = false;
  int vector_scope_ = -1;  // the scope of a thread's four elements
  absl::flat_hash_set<std::string> wanted_;
  std::vector<std::string> axis_names_;
  Survey survey_;
  absl::Status status_;
};

double WorkOf(const ExprNode& expr, const Bindings& bindings) {
  double work = expr.kind == ExprKind::kRead || expr.kind == ExprKind::kCall ? 1 : 0;
  for (const ExprPtr& arg : expr.args) work += WorkOf(*arg, bindings);
  for (const BoundVar& bound : expr.bound) {
    work *= std::max<double>(1, static_cast<double>(EvalIndex(bound.extent, bindings.variables)));
  }
  return work;
}

}  // namespace

absl::StatusOr<GeneratedKernel> GenerateKernel(const Graph& graph, const KernelRequest& request) {
  return Writer(graph, request).Write();
}

double ElementWork(const Graph& graph, NodeId id, int output) {
  const Node& node = graph.node(id);
  std::vector<TensorType> inputs;
  for (Value operand : node.operands) inputs.push_back(graph.type(operand));
  return WorkOf(*node.meaning->outputs[static_cast<size_t>(output)].element, BindingsOf(*node.meaning, inputs, node.attrs));
}

}  // namespace rewright::cuda
