// Rules as a module of Python: a RewriteRule of onnxscript for each, over helpers that stand in onnxscript_rules.py.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/base/status_macros.h"
#include "core/onnx/functions.h"
#include "core/ops/ops.h"
#include "rule_export_files.h"
#include "substitutions/language/operator_variables.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/language/stand_ins.h"
#include "tools/verbs/rules/portable_rule.h"

namespace rewright {
namespace {

using Kind = ArgExpr::Kind;
using Ref = ArgExpr::Ref;

// How an operator stands in a model of ONNX.
struct Form {
  std::string op_type;       // empty: the builder of the helpers writes it as several nodes
  bool more_inputs = false;  // lists stand in further inputs
  int min_opset = 13;
};

const std::map<std::string, Form>& Forms() {
  static const auto* const forms = [] {
    auto* table = new std::map<std::string, Form>{{"conv2d", {"Conv"}},
                                                  {"max_pool2d", {"MaxPool"}},
                                                  {"avg_pool2d", {"AveragePool"}},
                                                  {"batch_norm", {"BatchNormalization"}},
                                                  {"concat", {"Concat"}},
                                                  {"layer_norm", {"LayerNormalization", false, 17}},
                                                  {"transpose", {"Transpose"}},
                                                  {"split", {"Split", true}},
                                                  {"slice", {"Slice", true}},
                                                  {"reshape", {"Reshape", true}},
                                                  {"relu", {"Relu"}},
                                                  {"reduce_mean", {"ReduceMean", true}},
                                                  {"matmul", {"MatMul"}},
                                                  {"pow", {"Pow"}},
                                                  {"min", {"Min"}},
                                                  {"max", {"Max"}},
                                                  {"identity", {"Identity"}},
                                                  {"rsqrt", {}},
                                                  {"gelu", {"", false, 20}},
                                                  {"gelu_tanh", {"", false, 20}}};
    for (const OnnxFunction& f : OnnxFunctions()) {
      if (f.attrs.empty() && f.operands <= 2) table->insert({f.op, {f.op_type, false, std::max(13, f.first_opset)}});
    }
    return table;
  }();
  return *forms;
}

// Operators that a pattern may name: a node of ONNX each.
const Form* Readable(const OpDef* op) {
  const auto found = Forms().find(op->name);
  return found == Forms().end() || found->second.op_type.empty() ? nullptr : &found->second;
}

std::string ClassName(const std::string& name) {
  std::string text;
  bool upper = true;
  for (const char c : name) {
    if (c != '-') text += upper ? static_cast<char>(toupper(c)) : c;
    upper = c == '-';
  }
  return text;
}

// Writes one rule as a class.
class ClassWriter {
 public:
  explicit ClassWriter(const PortableRule& rule) : rule_(rule), names_(rule, {"self", "op"}) {}

  absl::StatusOr<std::string> Run() {
    RETURN_IF_ERROR(CheckNodes());
    ASSIGN_OR_RETURN(const std::string pattern, Pattern());
    RETURN_IF_ERROR(Bind());
    ASSIGN_OR_RETURN(const std::string build, Build());
    return absl::StrCat("class ", ClassName(rule_.name()), "(ProvedRule):\n", Fields(), "\n", pattern,
                        "\n    def bind(self, n):\n", bind_, "\n", build);
  }

 private:
  const RuleNode& node(int id) const { return rule_.node(static_cast<size_t>(id)); }
  int num_nodes() const { return static_cast<int>(rule_.compiled->nodes().size()); }
  int num_lhs() const { return rule_.compiled->num_lhs_nodes(); }

  // ---------------------------------------------------------------- what can be said

  absl::Status CheckNodes() {
    for (int id = 0; id < num_nodes(); ++id) {
      const RuleNode& found = node(id);
      if (found.op == nullptr) {
        if (!found.floating) return absl::UnimplementedError("it names an element type");
        continue;
      }
      if (IsStandIn(found.op)) continue;
      const auto form = Forms().find(found.op->name);
      if (form == Forms().end() || (rule_.on_left(id) && form->second.op_type.empty())) {
        return absl::UnimplementedError(absl::StrCat("ONNX has no operator ", found.op->name));
      }
      min_opset_ = std::max(min_opset_, form->second.min_opset);
    }
    return SidesDiffer();
  }

  // An operator that ONNX lacks may be written as what the left side has already.
  absl::Status SidesDiffer() const {
    const bool rsqrt = rule_.compiled->rhs().size() == 1 && node(rule_.compiled->rhs()[0].node).op != nullptr &&
                       node(rule_.compiled->rhs()[0].node).op->name == "rsqrt";
    if (rsqrt && num_nodes() == num_lhs() + 1) return absl::UnimplementedError("both sides are the same nodes of ONNX");
    return absl::OkStatus();
  }

  // ---------------------------------------------------------------- names

  std::string NameOf(const ArgExpr& expr) const { return "n." + names_.Of(expr); }
  bool Bound(Ref ref, int id) const { return bound_.count({ref, id}) > 0; }
  bool Bound(const ArgExpr& expr) const {
    return AllBound(expr, [this](Ref ref, int id) { return Bound(ref, id); });
  }

  // ---------------------------------------------------------------- expressions

  std::string Joined(const std::vector<ArgExpr>& args) const {
    return absl::StrJoin(args, ", ", [&](std::string* out, const ArgExpr& arg) { out->append(Text(arg)); });
  }

  std::string Text(const ArgExpr& expr) const {
    switch (expr.kind) {
      case Kind::kInt: return absl::StrCat(expr.integer);
      case Kind::kReal: return PrintArg(expr);
      case Kind::kDType: return absl::StrCat("\"", PrintArg(expr), "\"");
      case Kind::kName:
      case Kind::kAttr: return expr.ref == Ref::kTensor ? "n." + expr.name : NameOf(expr);
      case Kind::kList: return absl::StrCat("Ints([", Joined(expr.args), "])");
      case Kind::kSplice: return absl::StrCat("*", Text(expr.args[0]));
      case Kind::kElement: return absl::StrCat(Text(expr.args[0]), "[", Text(expr.args[1]), "]");
      case Kind::kCall: return absl::StrCat(ArgFnName(expr.fn), "_of(", Joined(expr.args), ")");
      case Kind::kOp: return OpText(expr);
    }
    return "";
  }

  std::string OpText(const ArgExpr& expr) const {
    if (expr.op == ArgOp::kNeg) return absl::StrCat("-", Text(expr.args[0]));
    if (expr.op == ArgOp::kNot) return absl::StrCat("not ", Text(expr.args[0]));
    const std::string sign = expr.op == ArgOp::kDiv ? "//" : expr.op == ArgOp::kMod ? "%" : ArgOpName(expr.op);
    return absl::StrCat("(", Text(expr.args[0]), " ", sign, " ", Text(expr.args[1]), ")");
  }

  // ---------------------------------------------------------------- pattern

  std::vector<std::string> Leaves() const {
    std::vector<std::string> leaves;
    for (int id = 0; id < num_lhs(); ++id) {
      if (node(id).op == nullptr) leaves.push_back(ValueName(rule_, id, 0, 1));
    }
    return leaves;
  }

  absl::StatusOr<std::string> ValueText(const RuleValue& value) const {
    ASSIGN_OR_RETURN(const int count, NumOutputs(node(value.node)));
    if (value.all) return absl::UnimplementedError("it splices the parts of a split");
    return ValueName(rule_, value.node, value.output, count);
  }

  absl::StatusOr<std::vector<std::string>> OutputNames() const {
    ASSIGN_OR_RETURN(const std::vector<RuleValue> outputs, Outputs(rule_, rule_.compiled->lhs()));
    std::vector<std::string> names;
    for (const RuleValue& value : outputs) {
      ASSIGN_OR_RETURN(names.emplace_back(), ValueText(value));
    }
    return names;
  }

  absl::StatusOr<std::string> Pattern() {
    std::string text = absl::StrCat("    def pattern(self, op, ", absl::StrJoin(Leaves(), ", "), "):\n");
    for (int id = 0; id < num_lhs(); ++id) {
      const RuleNode& found = node(id);
      if (found.op == nullptr) continue;
      ASSIGN_OR_RETURN(const int count, NumOutputs(found));
      std::vector<std::string> names, inputs;
      for (int k = 0; k < count; ++k) names.push_back(ValueName(rule_, id, k, count));
      for (const RuleValue& operand : found.operands) {
        ASSIGN_OR_RETURN(inputs.emplace_back(), ValueText(operand));
      }
      const Form* form = IsStandIn(found.op) ? nullptr : Readable(found.op);
      const std::string function = form != nullptr ? "op." + form->op_type : "getattr(op, OPERATORS[self.operator])";
      if (form != nullptr && form->more_inputs) inputs.push_back("_allow_other_inputs=True");
      absl::StrAppend(&text, "        ", absl::StrJoin(names, ", "), " = ", function, "(", absl::StrJoin(inputs, ", "),
                      ", _outputs=[\"", absl::StrJoin(names, "\", \""), "\"])\n");
    }
    ASSIGN_OR_RETURN(outputs_, OutputNames());
    return absl::StrCat(text, "        return ", absl::StrJoin(outputs_, ", "), "\n");
  }

  std::string Fields() const {
    const ProofRecord& proof = *rule_.rule.proof;
    std::vector<std::string> operators;
    for (const std::string& name : rule_.operators()) {
      const OpDef* op = FindOp(name);
      if (op != nullptr && Readable(op) != nullptr) operators.push_back(name);
    }
    const auto list = [](const std::vector<std::string>& names) {
      return names.empty() ? std::string("[]") : absl::StrCat("[\"", absl::StrJoin(names, "\", \""), "\"]");
    };
    std::string text = absl::StrCat("    \"\"\"", rule_.comment(), "\n\n    ", rule_.law(), "\n    \"\"\"\n");
    absl::StrAppend(&text, "    name = \"", rule_.name(), "\"\n    rounding = \"", RuleClassName(proof.rule_class),
                    "\"\n    record = \"", RecordDigest(rule_), "\"\n    leaves = ", list(Leaves()),
                    "\n    outputs = ", list(outputs_), "\n    operators = ", list(operators), "\n");
    absl::StrAppend(&text, "    min_opset = ", min_opset_,
                    "\n    most_rank, most_perm_rank, most_broadcast_rank = ", proof.domain.max_rank, ", ",
                    proof.domain.max_perm_rank, ", ", proof.domain.max_broadcast_rank, "\n");
    return text;
  }

  // ---------------------------------------------------------------- names bound, conditions checked

  void Line(const std::string& text) { absl::StrAppend(&bind_, "        ", text, "\n"); }

  absl::Status Bind() {
    for (int id = 0; id < num_lhs(); ++id) BindConstant(id);
    for (int id = 0; id < num_lhs(); ++id) {
      const RuleNode& found = node(id);
      if (found.op == nullptr || found.attrs.empty()) continue;
      ASSIGN_OR_RETURN(const int count, NumOutputs(found));
      Line(absl::StrCat("a", id, " = attributes(n.", ValueName(rule_, id, 0, count), ", \"", found.op->name, "\")"));
    }
    for (const RuleEquation& equation : rule_.compiled->binding_order()) {
      RETURN_IF_ERROR(Equation(equation));
    }
    for (size_t id = 0; id < rule_.compiled->attrs().size(); ++id) {
      const RuleAttr& attr = rule_.compiled->attrs()[id];
      if (attr.kind != RuleAttr::Class::kFixedList) continue;
      Line(absl::StrCat("need(len(", "n.", names_.Of(Ref::kAttr, static_cast<int>(id)), ") <= self.most_perm_rank)"));
    }
    for (const ArgExpr& condition : rule_.compiled->conditions()) {
      if (IsOperatorProperty(condition)) continue;  // the operators of the record have it
      Line(absl::StrCat("need(", Text(condition), ", \"", absl::StrReplaceAll(PrintArg(condition), {{"\"", "'"}}),
                        "\")"));
    }
    if (bind_.empty()) Line("pass");
    return absl::OkStatus();
  }

  void BindConstant(int id) {
    const RuleNode& found = node(id);
    if (!found.value) return;
    const std::string leaf = "n." + ValueName(rule_, id, 0, 1);
    if (found.value->ref != Ref::kAttr) {
      Line(absl::StrCat("need_number(", leaf, ", ", Text(*found.value), ")"));
    } else if (bound_.insert({Ref::kAttr, found.value->id}).second) {
      Line(absl::StrCat(Text(*found.value), " = finite_splat(", leaf, ")"));
    } else {
      Line(absl::StrCat("need(", Text(*found.value), " == finite_splat(", leaf, "))"));
    }
    if (!found.any_shape) return;
    for (int user = 0; user < num_lhs(); ++user) {
      for (const RuleValue& operand : node(user).operands) {
        if (operand.node == id) Line(absl::StrCat("leaves_shape(n.", ValueName(rule_, user, 0, 1), ", ", leaf, ")"));
      }
    }
  }

  absl::Status Equation(const RuleEquation& equation) {
    const RuleNode& found = node(equation.node);
    if (equation.attr < 0) {
      const std::string leaf = "n." + ValueName(rule_, equation.node, 0, 1);
      if (!found.shape.broadcasts) return Destructure(found.shape.dims, absl::StrCat("shape(", leaf, ")"), "");
      Line(absl::StrCat("broadcasts(", leaf, ", [", Joined(found.shape.dims), "], self.most_broadcast_rank)"));
      return absl::OkStatus();
    }
    const size_t at = static_cast<size_t>(equation.attr);
    const AttrSpec& spec = found.op->attrs[at];
    const std::string given = absl::StrCat("a", equation.node, "[\"", spec.name, "\"]");
    ASSIGN_OR_RETURN(const std::string operand, ValueText(found.operands[0]));
    const bool axis = spec.kind == AttrKind::kAxis || spec.kind == AttrKind::kAxes;
    return Attribute(found.attrs[at], spec, given, axis ? absl::StrCat("rank_of(n.", operand, ")") : "");
  }

  // `rank`: of the tensor whose axis it is; empty where it is none.
  absl::Status Attribute(const ArgExpr& expr, const AttrSpec& spec, const std::string& given, const std::string& rank) {
    if (expr.kind == Kind::kList && !(spec.kind == AttrKind::kAxes && Bound(expr))) {
      return Destructure(expr.args, given, rank);
    }
    if (Bound(expr)) {
      std::string expected = Text(expr);
      if (spec.kind == AttrKind::kAxis) expected = absl::StrCat("axis_of(", expected, ", ", rank, ")");
      if (spec.kind == AttrKind::kAxes) expected = absl::StrCat("axes_of(", expected, ", ", rank, ")");
      if (spec.kind == AttrKind::kReal) expected = absl::StrCat("float32(", expected, ")");
      Line(absl::StrCat("need(", given, " == ", expected, ", \"", spec.name, "\")"));
      return absl::OkStatus();
    }
    return Solve(expr, given);
  }

  // Binds or checks the elements of a list; one splice may take what the others leave.
  absl::Status Destructure(const std::vector<ArgExpr>& items, const std::string& values, const std::string& rank) {
    if (Bound(ArgExpr::List(items)) && rank.empty()) return Whole(items, values);
    std::vector<std::string> places;
    std::vector<std::pair<ArgExpr, std::string>> settled;  // compared, or solved, once the places have values
    int open = 0;
    for (const ArgExpr& item : items) {
      const bool splice = item.kind == Kind::kSplice;
      const ArgExpr& inner = splice ? item.args[0] : item;
      open += splice ? 1 : 0;
      std::string place = absl::StrCat("e", temporaries_++);
      places.push_back(splice ? "*" + place : place);
      settled.emplace_back(inner, splice ? absl::StrCat("Ints(", place, ")") : place);
    }
    if (open > 1) return absl::UnimplementedError("a shape has two packs of axes");
    Line(absl::StrCat(absl::StrJoin(places, ", "), places.size() == 1 ? ", = " : " = ", values));
    for (const auto& [expr, value] : settled) {
      if (!Bound(expr)) {
        RETURN_IF_ERROR(Solve(expr, value));
      } else {
        const std::string expected = rank.empty() ? Text(expr) : absl::StrCat("axis_of(", Text(expr), ", ", rank, ")");
        Line(absl::StrCat("need(", value, " == ", expected, ")"));
      }
    }
    return absl::OkStatus();
  }

  // A list of which all names are bound is compared as a whole.
  absl::Status Whole(const std::vector<ArgExpr>& items, const std::string& values) {
    Line(absl::StrCat("need(", values, " == ", Text(ArgExpr::List(items)), ")"));
    return absl::OkStatus();
  }

  // Binds the one name of the expression that is not bound.
  absl::Status Solve(const ArgExpr& expr, std::string value) {
    const auto bound = [this](Ref ref, int id) { return Bound(ref, id); };
    const ArgExpr* name = SolvableName(expr, bound);
    if (name == nullptr || IsLength(*name)) return absl::OkStatus();  // it comes up again
    const auto spell = [](ArgOp op, bool first_known, const std::string& of, const std::string& known) {
      if (op == ArgOp::kAdd) return absl::StrCat(of, " - ", known);
      if (op == ArgOp::kMul) return absl::StrCat("exact(", of, ", ", known, ")");
      return first_known ? absl::StrCat(known, " - (", of, ")") : absl::StrCat(of, " + ", known);
    };
    value = SolvedText(
        expr, *name, bound, value, [this](const ArgExpr& known) { return Text(known); }, spell);
    Line(absl::StrCat(NameOf(*name), " = ", value));
    bound_.insert({name->ref, name->id});
    return absl::OkStatus();
  }

  // ---------------------------------------------------------------- the right side

  std::string BuiltValue(const RuleValue& value, int outputs) const {
    if (rule_.on_left(value.node)) return "n." + ValueName(rule_, value.node, value.output, outputs);
    const std::string name = absl::StrCat("w", value.node);
    return outputs > 1 ? absl::StrCat(name, "[", value.output, "]") : name;
  }

  absl::StatusOr<std::string> Built(const RuleNode& found) const {
    if (found.op == nullptr) {
      return absl::StrCat("b.full(", Text(*found.value), ", [", Joined(found.shape.dims), "])");
    }
    std::vector<std::string> inputs;
    for (const RuleValue& operand : found.operands) {
      if (operand.all) return absl::UnimplementedError("it splices the parts of a split");
      ASSIGN_OR_RETURN(const int count, NumOutputs(node(operand.node)));
      inputs.push_back(BuiltValue(operand, count));
    }
    if (IsStandIn(found.op)) {
      return absl::StrCat("b.apply(OPERATORS[self.operator], ", absl::StrJoin(inputs, ", "), ")");
    }
    const Form& form = Forms().at(found.op->name);
    const bool plain = found.attrs.empty() && !form.op_type.empty();
    for (size_t k = 0; k < found.attrs.size(); ++k) {
      inputs.push_back(absl::StrCat(found.op->attrs[k].name, "=", Text(found.attrs[k])));
    }
    return plain ? absl::StrCat("b.apply(\"", form.op_type, "\", ", absl::StrJoin(inputs, ", "), ")")
                 : absl::StrCat("b.", found.op->name, "(", absl::StrJoin(inputs, ", "), ")");
  }

  absl::StatusOr<std::string> Build() {
    std::string text = "    def build(self, b, n):\n";
    for (int id = num_lhs(); id < num_nodes(); ++id) {
      ASSIGN_OR_RETURN(const std::string built, Built(node(id)));
      absl::StrAppend(&text, "        w", id, " = ", built, "\n");
    }
    ASSIGN_OR_RETURN(const std::vector<RuleValue> outputs, Outputs(rule_, rule_.compiled->rhs()));
    if (outputs.size() != outputs_.size()) return absl::UnimplementedError("its sides have other numbers of outputs");
    std::vector<std::string> results;
    for (const RuleValue& value : outputs) {
      ASSIGN_OR_RETURN(const int count, NumOutputs(node(value.node)));
      const std::string result = BuiltValue(value, count);
      results.push_back(rule_.on_left(value.node) ? absl::StrCat("b.apply(\"Identity\", ", result, ")") : result);
    }
    return absl::StrCat(text, "        return ", absl::StrJoin(results, ", "), "\n");
  }

  const PortableRule& rule_;
  const PortableNames names_;
  std::set<std::pair<Ref, int>> bound_;
  std::vector<std::string> outputs_;
  std::string bind_;
  int temporaries_ = 0;
  int min_opset_ = 13;
};

// The operators of ONNX that may stand for ?f.
std::string OperatorTable() {
  std::vector<std::string> rows;
  for (const auto& [name, form] : Forms()) {
    const OpDef* op = FindOp(name);
    if (op != nullptr && op->attrs.empty() && !form.op_type.empty()) {
      rows.push_back(absl::StrCat("    \"", name, "\": \"", form.op_type, "\",\n"));
    }
  }
  return absl::StrCat("OPERATORS = {\n", absl::StrJoin(rows, ""), "}\n");
}

}  // namespace

RuleExport WriteRulesForOnnxscript(const std::vector<PortableRule>& rules) {
  RuleExport result;
  std::string classes;
  std::vector<std::string> names;
  for (const PortableRule& rule : rules) {
    const absl::StatusOr<std::string> text = ClassWriter(rule).Run();
    if (!text.ok()) {
      result.left_out[rule.name()] = std::string(text.status().message());
      continue;
    }
    absl::StrAppend(&classes, "\n\n", *text);
    names.push_back(ClassName(rule.name()));
    ++result.written;
  }
  result.text = absl::StrCat(ExportHeader("#", "onnxscript", result), kOnnxscriptRules, "\n\n", OperatorTable(),
                             classes, "\n\nPROVED = [\n    ", absl::StrJoin(names, ",\n    "), ",\n]\n");
  return result;
}

}  // namespace rewright
