// Rules as egglog's text, over the lists and tensors of egglog_rules.egg.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
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

// Unary and binary operators on elements carry their name, so that ?f is a variable.
bool IsElementwise(const OpDef* op) {
  if (IsStandIn(op)) return true;
  if (op->inputs.size() > 2 || op->variadic) return false;
  const std::vector<const OpDef*>& ops = ElementwiseOps(static_cast<int>(op->inputs.size()));
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

// Conv2d
std::string ConstructorName(const OpDef* op) {
  std::string name;
  bool upper = true;
  for (const char c : op->name) {
    if (c != '_') name += upper ? static_cast<char>(toupper(c)) : c;
    upper = c == '_';
  }
  return name;
}

std::string SortOf(const AttrSpec& spec) {
  switch (spec.kind) {
    case AttrKind::kAxes:
    case AttrKind::kInts: return "Ints";
    case AttrKind::kReal: return "f64";
    case AttrKind::kDType: return "String";
    default: return "i64";
  }
}

// An operator with attributes: its constructor, and that it is a weight where its operands are.
std::string Declaration(const OpDef* op) {
  std::vector<std::string> sorts, names, facts;
  for (size_t k = 0; k < op->inputs.size(); ++k) {
    sorts.emplace_back(op->variadic ? "Tensors" : "Tensor");
    names.push_back(absl::StrCat("x", k));
    facts.push_back(absl::StrCat(op->variadic ? "(weights x" : "(weight x", k, ")"));
  }
  for (size_t k = 0; k < op->attrs.size(); ++k) {
    sorts.push_back(SortOf(op->attrs[k]));
    names.push_back(absl::StrCat("a", k));
  }
  const std::string name = ConstructorName(op);
  return absl::StrCat("(constructor ", name, " (", absl::StrJoin(sorts, " "), ") Tensor)\n(rule ((= t (", name, " ",
                      absl::StrJoin(names, " "), ")) ", absl::StrJoin(facts, " "), ") ((weight t)))\n");
}

// Writes one rule: facts that bind names, facts about lists that have to be made first, and what they say.
class RuleText {
 public:
  explicit RuleText(const PortableRule& rule)
      : rule_(rule),
        names_(rule, {"len", "prod", "get", "drop", "shape", "weight", "broadcasts", "commutes", "function"}) {}

  absl::StatusOr<std::string> Run() {
    RETURN_IF_ERROR(Leaves());
    for (int id = 0; id < num_lhs(); ++id) {
      if (node(id).op != nullptr) Fact(absl::StrCat("(= ", Node(id), " ", Application(id, true), ")"));
    }
    for (const RuleEquation& equation : rule_.compiled->binding_order()) Equation(equation);
    Limits();
    for (const ArgExpr& condition : rule_.compiled->conditions()) Condition(condition);
    const std::string actions = Actions();
    RETURN_IF_ERROR(fault_);
    return Assembled(actions);
  }

  const std::set<const OpDef*>& constructors() const { return constructors_; }

 private:
  const RuleNode& node(int id) const { return rule_.node(static_cast<size_t>(id)); }
  int num_nodes() const { return static_cast<int>(rule_.compiled->nodes().size()); }
  int num_lhs() const { return rule_.compiled->num_lhs_nodes(); }

  std::string Fail(const std::string& reason) {
    if (fault_.ok()) fault_ = absl::UnimplementedError(reason);
    return "";
  }

  void Fact(const std::string& fact) { facts_.push_back(fact); }
  // A fact about a list that the demand rule makes.
  void Late(const std::string& list, const std::string& fact) {
    Demand(list);
    late_.push_back(fact);
  }
  // A name stands for a list that the graph has.
  void Demand(const std::string& list) {
    if (list[0] == '(') demands_.push_back(list);
  }

  bool Bound(Ref ref, int id) const { return bound_.count({ref, id}) > 0; }
  bool Bound(const ArgExpr& expr) const {
    return AllBound(expr, [this](Ref ref, int id) { return Bound(ref, id); });
  }
  void Bind(const ArgExpr& name) { bound_.insert({name.ref, name.id}); }

  // ---------------------------------------------------------------- expressions

  bool IsList(const ArgExpr& expr) const {
    switch (expr.kind) {
      case Kind::kList: return true;
      case Kind::kName: return expr.ref == Ref::kPack;
      case Kind::kAttr: {
        const RuleAttr::Class kind = rule_.compiled->attrs()[static_cast<size_t>(expr.id)].kind;
        return kind == RuleAttr::Class::kList || kind == RuleAttr::Class::kFixedList;
      }
      case Kind::kOp: return IsList(expr.args[0]) || (expr.args.size() > 1 && IsList(expr.args[1]));
      case Kind::kCall:
        return expr.fn == ArgFn::kShape || expr.fn == ArgFn::kCompose || expr.fn == ArgFn::kIota ||
               expr.fn == ArgFn::kRepeat;
      default: return false;
    }
  }

  bool IsReal(const ArgExpr& expr) const {
    if (expr.kind == Kind::kReal) return true;
    if (expr.kind == Kind::kAttr) {
      return rule_.compiled->attrs()[static_cast<size_t>(expr.id)].kind == RuleAttr::Class::kReal;
    }
    return std::any_of(expr.args.begin(), expr.args.end(), [this](const ArgExpr& arg) { return IsReal(arg); });
  }

  // A number with its point; integers of an expression become reals.
  std::string Real(const ArgExpr& expr) {
    if (expr.kind == Kind::kInt) return absl::StrCat(expr.integer, ".0");
    if (!IsReal(expr)) return absl::StrCat("(to-f64 ", Text(expr), ")");
    if (expr.kind != Kind::kReal) return Text(expr);
    const std::string text = PrintArg(expr);
    return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
  }

  std::string ShapeName(const std::string& leaf) const { return "s_" + leaf; }

  std::string Call(const ArgExpr& expr) {
    switch (expr.fn) {
      case ArgFn::kLen: return absl::StrCat("(len ", Text(expr.args[0]), ")");
      case ArgFn::kProd: return absl::StrCat("(prod ", Text(expr.args[0]), ")");
      case ArgFn::kShape: return ShapeName(expr.args[0].name);
      case ArgFn::kRank: return absl::StrCat("(len ", ShapeName(expr.args[0].name), ")");
      case ArgFn::kDim: return Element(ShapeName(expr.args[0].name), expr.args[1]);
      case ArgFn::kIota: return absl::StrCat("(Iota ", Text(expr.args[0]), ")");
      case ArgFn::kRepeat: return absl::StrCat("(Repeat ", Text(expr.args[0]), " ", Text(expr.args[1]), ")");
      case ArgFn::kCompose: return absl::StrCat("(Compose ", Text(expr.args[0]), " ", Text(expr.args[1]), ")");
      case ArgFn::kWeight: return absl::StrCat("(weight ", expr.args[0].name, ")");
      default: return Fail(absl::StrCat("it uses ", ArgFnName(expr.fn), "()"));
    }
  }

  std::string Element(const std::string& list, const ArgExpr& at) {
    if (at.kind != Kind::kInt || at.integer >= 0) return absl::StrCat("(get ", list, " ", Text(at), ")");
    return absl::StrCat("(get ", list, " (- (len ", list, ") ", -at.integer, "))");
  }

  std::string List(const std::vector<ArgExpr>& items) {
    std::string text = "(Nil)";
    for (size_t k = 0; k < items.size(); ++k) {
      if (items[k].kind != Kind::kSplice) {
        text = absl::StrCat("(Snoc ", text, " ", Text(items[k]), ")");
      } else if (k == 0) {
        text = Text(items[k].args[0]);
      } else {
        text = absl::StrCat("(Append ", text, " ", Text(items[k].args[0]), ")");
      }
    }
    return text;
  }

  std::string Text(const ArgExpr& expr) {
    switch (expr.kind) {
      case Kind::kInt: return absl::StrCat(expr.integer);
      case Kind::kReal: return Real(expr);
      case Kind::kDType: return absl::StrCat("\"", PrintArg(expr), "\"");
      case Kind::kName:
      case Kind::kAttr: return expr.ref == Ref::kTensor ? expr.name : names_.Of(expr);
      case Kind::kList: return List(expr.args);
      case Kind::kElement: return Element(Text(expr.args[0]), expr.args[1]);
      case Kind::kCall: return Call(expr);
      case Kind::kOp: return Operation(expr);
      case Kind::kSplice: break;
    }
    return Fail("it splices a list");
  }

  std::string Operation(const ArgExpr& expr) {
    static const std::map<ArgOp, std::string> signs = {
        {ArgOp::kAdd, "+"},        {ArgOp::kSub, "-"},     {ArgOp::kMul, "*"},           {ArgOp::kLess, "<"},
        {ArgOp::kLessEqual, "<="}, {ArgOp::kGreater, ">"}, {ArgOp::kGreaterEqual, ">="}, {ArgOp::kEqual, "="},
        {ArgOp::kNotEqual, "!="},  {ArgOp::kQuotient, "/"}};
    const auto sign = signs.find(expr.op);
    if (sign == signs.end()) return Fail(absl::StrCat("it uses `", ArgOpName(expr.op), "`"));
    if (IsList(expr.args[0]) && IsList(expr.args[1]) && (expr.op == ArgOp::kAdd || expr.op == ArgOp::kSub)) {
      return absl::StrCat(expr.op == ArgOp::kAdd ? "(Plus " : "(Minus ", Text(expr.args[0]), " ", Text(expr.args[1]),
                          ")");
    }
    const bool lists = IsList(expr.args[0]) || IsList(expr.args[1]);
    if (lists && expr.op != ArgOp::kEqual) return Fail("it compares or combines a list with a number");
    return absl::StrCat("(", sign->second, " ", Text(expr.args[0]), " ", Text(expr.args[1]), ")");
  }

  // ---------------------------------------------------------------- the left side

  std::string Node(int id) const { return ValueName(rule_, id, 0, 1); }

  std::string Value(const RuleValue& value) {
    if (value.all) return Fail("it splices the parts of a split");
    const absl::StatusOr<int> count = NumOutputs(node(value.node));
    if (!count.ok()) return Fail(std::string(count.status().message()));
    const std::string name = rule_.on_left(value.node) ? Node(value.node) : absl::StrCat("w", value.node);
    return *count > 1 ? absl::StrCat("(Part ", name, " ", value.output, ")") : name;
  }

  absl::Status Leaves() {
    for (int id = 0; id < num_lhs(); ++id) {
      const RuleNode& leaf = node(id);
      if (leaf.op != nullptr) continue;
      if (!leaf.floating) return absl::UnimplementedError("it names an element type");
      if (leaf.value) {
        Fact(absl::StrCat("(= ", Node(id), " (Full ", Real(*leaf.value), " ", ShapeName(Node(id)), "))"));
        if (leaf.value->ref == Ref::kAttr) Bind(*leaf.value);
      } else {
        Fact(absl::StrCat("(= ", ShapeName(Node(id)), " (shape ", Node(id), "))"));
      }
      if (leaf.any_shape) KeepShape(id);
    }
    return absl::OkStatus();
  }

  // The constant broadcasts to the other operand.
  void KeepShape(int constant) {
    for (int user = 0; user < num_lhs(); ++user) {
      const std::vector<RuleValue>& operands = node(user).operands;
      if (operands.size() != 2) continue;
      for (size_t k = 0; k < 2; ++k) {
        if (operands[k].node != constant) continue;
        Fact(absl::StrCat("(broadcasts ", ShapeName(Node(constant)), " (shape ", Value(operands[1 - k]), "))"));
      }
    }
  }

  std::string AttrName(int id, size_t k) const { return absl::StrCat("a", id, "_", k); }

  std::string Application(int id, bool left) {
    const RuleNode& found = node(id);
    std::vector<std::string> parts;
    for (const RuleValue& operand : found.operands) parts.push_back(Value(operand));
    if (IsElementwise(found.op)) {
      if (!found.attrs.empty()) return Fail("an elementwise operator has attributes");
      const std::string name = IsStandIn(found.op) ? "function" : absl::StrCat("\"", found.op->name, "\"");
      return absl::StrCat(parts.size() == 1 ? "(Unary " : "(Binary ", name, " ", absl::StrJoin(parts, " "), ")");
    }
    constructors_.insert(found.op);
    if (found.op->variadic) {
      std::string list = "(NoTensors)";
      for (const std::string& part : parts) list = absl::StrCat("(More ", list, " ", part, ")");
      parts = {list};
    }
    for (size_t k = 0; k < found.attrs.size(); ++k) {
      const bool real = found.op->attrs[k].kind == AttrKind::kReal;
      parts.push_back(left ? AttrName(id, k) : real ? Real(found.attrs[k]) : Hoisted(found.attrs[k]));
    }
    return absl::StrCat("(", ConstructorName(found.op), " ", absl::StrJoin(parts, " "), ")");
  }

  // ---------------------------------------------------------------- equations and conditions

  void Equation(const RuleEquation& equation) {
    const RuleNode& found = node(equation.node);
    const std::string shape = ShapeName(Node(equation.node));
    if (equation.attr < 0 && found.shape.broadcasts) return Broadcast(found.shape.dims, shape);
    if (equation.attr < 0) return Match(ArgExpr::List(found.shape.dims), shape);
    const size_t at = static_cast<size_t>(equation.attr);
    const ArgExpr& expr = found.attrs[at];
    if (found.op->attrs[at].kind == AttrKind::kAxis && expr.kind == Kind::kInt && expr.integer < 0) {
      Fail("an axis counts from the end");
      return;
    }
    if (found.op->attrs[at].kind == AttrKind::kReal && Bound(expr)) {
      return Fact(absl::StrCat("(= ", AttrName(equation.node, at), " ", Real(expr), ")"));
    }
    Match(expr, AttrName(equation.node, at));
  }

  void Broadcast(const std::vector<ArgExpr>& dims, const std::string& shape) {
    const std::string target = HoistedList(dims);
    const int most = rule_.rule.proof->domain.max_broadcast_rank;
    const std::string fact = absl::StrCat("(broadcasts ", shape, " ", target, ")");
    Late(target, fact);
    Late(target, absl::StrCat("(<= (len ", target, ") ", most, ")"));
  }

  // The value is what the expression says: binds what is free in it.
  void Match(const ArgExpr& expr, const std::string& value) {
    if (Bound(expr)) {
      if (!IsList(expr)) return Fact(absl::StrCat("(= ", value, " ", Text(expr), ")"));
      const std::string list = Hoisted(expr);
      return Late(list, absl::StrCat("(= ", value, " ", list, ")"));
    }
    const bool front = expr.kind == Kind::kList && expr.args.size() > 1 && expr.args.back().kind == Kind::kSplice;
    if (front) return MatchFromFront(expr.args, value);
    if (expr.kind == Kind::kList) return Fact(absl::StrCat("(= ", value, " ", ListPattern(expr.args), ")"));
    Solve(expr, value);
  }

  // A list whose last axes are a pack.
  void MatchFromFront(const std::vector<ArgExpr>& items, const std::string& list) {
    for (size_t k = 0; k + 1 < items.size(); ++k) {
      if (items[k].kind == Kind::kSplice) Fail("a shape has two packs of axes");
      Match(items[k], absl::StrCat("(get ", list, " ", k, ")"));
    }
    Match(items.back().args[0], absl::StrCat("(drop ", list, " ", items.size() - 1, ")"));
  }

  // Elements that are more than a name get one, and are matched by it.
  std::string ListPattern(const std::vector<ArgExpr>& items) {
    std::string text = "(Nil)";
    std::vector<std::pair<const ArgExpr*, std::string>> later;
    for (size_t k = 0; k < items.size(); ++k) {
      const ArgExpr& item = items[k];
      if (item.kind == Kind::kSplice) {
        if (k > 0 || !IsPlainName(item.args[0])) return Fail("a pack of axes is in the middle");
        Bind(item.args[0]);
        text = Text(item.args[0]);
        continue;
      }
      std::string element;
      if (item.kind == Kind::kInt || IsPlainName(item)) {
        element = Text(item);
        if (IsPlainName(item)) Bind(item);
      } else {
        element = absl::StrCat("e", temporaries_++);
        later.emplace_back(&item, element);
      }
      text = absl::StrCat("(Snoc ", text, " ", element, ")");
    }
    for (const auto& [item, element] : later) Match(*item, element);
    return text;
  }

  void Solve(const ArgExpr& expr, const std::string& value) {
    if (IsPlainName(expr)) {
      Bind(expr);
      return Fact(absl::StrCat("(= ", Text(expr), " ", value, ")"));
    }
    const auto spell = [](ArgOp op, bool first_known, const std::string& of, const std::string& known) {
      if (op == ArgOp::kAdd) return absl::StrCat("(- ", of, " ", known, ")");
      if (op == ArgOp::kMul) return absl::StrCat("(/ ", of, " ", known, ")");
      return first_known ? absl::StrCat("(- ", known, " ", of, ")") : absl::StrCat("(+ ", of, " ", known, ")");
    };
    const auto bound = [this](Ref ref, int id) { return Bound(ref, id); };
    const ArgExpr* name = SolvableName(expr, bound);
    if (name == nullptr || IsLength(*name)) return;  // it comes up again
    Fact(absl::StrCat("(= ", Text(*name), " ",
                      SolvedText(
                          expr, *name, bound, value, [this](const ArgExpr& known) { return Text(known); }, spell),
                      ")"));
    Bind(*name);
    Fact(absl::StrCat("(= ", value, " ", Text(expr), ")"));  // a product divides
  }

  // Ranks within the domain of the proof.
  void Limits() {
    const DomainLimits& domain = rule_.rule.proof->domain;
    for (int id = 0; id < num_lhs(); ++id) {
      if (node(id).op != nullptr) continue;
      Fact(absl::StrCat("(<= (len ", ShapeName(Node(id)), ") ", domain.max_rank, ")"));
    }
    for (size_t id = 0; id < rule_.compiled->attrs().size(); ++id) {
      if (rule_.compiled->attrs()[id].kind != RuleAttr::Class::kFixedList) continue;
      Fact(absl::StrCat("(<= (len ", names_.Of(Ref::kAttr, static_cast<int>(id)), ") ", domain.max_perm_rank, ")"));
    }
    if (!rule_.operators().empty()) Fact(absl::StrCat("(holds-for \"", rule_.name(), "\" function)"));
  }

  void Condition(const ArgExpr& condition) {
    if (IsOperatorProperty(condition)) return;  // the operators of the record have it
    if (condition.kind == Kind::kOp && condition.op == ArgOp::kAnd) {
      for (const ArgExpr& part : condition.args) Condition(part);
      return;
    }
    const bool lists = condition.kind == Kind::kOp && condition.op == ArgOp::kEqual && IsList(condition.args[0]);
    if (!lists) return Fact(Text(condition));
    const std::string left = Hoisted(condition.args[0]), right = Hoisted(condition.args[1]);
    Demand(left);
    Late(right, absl::StrCat("(= ", left, " ", right, ")"));
  }

  // ---------------------------------------------------------------- the right side

  // Functions are looked up among the facts: actions have none.
  std::string Hoisted(const ArgExpr& expr) {
    const bool function = expr.kind == Kind::kElement ||
                          (expr.kind == Kind::kCall && (expr.fn == ArgFn::kLen || expr.fn == ArgFn::kProd ||
                                                        expr.fn == ArgFn::kRank || expr.fn == ArgFn::kDim));
    if (function) {
      const std::string name = absl::StrCat("h", temporaries_++);
      Fact(absl::StrCat("(= ", name, " ", Text(expr), ")"));
      return name;
    }
    if (expr.args.empty() || expr.kind == Kind::kList) {
      return expr.kind == Kind::kList ? HoistedList(expr.args) : Text(expr);
    }
    ArgExpr copy = expr;
    for (ArgExpr& arg : copy.args) arg = Named(arg);
    return Text(copy);
  }

  std::string HoistedList(std::vector<ArgExpr> items) {
    for (ArgExpr& item : items) {
      ArgExpr& inner = item.kind == Kind::kSplice ? item.args[0] : item;
      inner = Named(inner);
    }
    return List(items);
  }

  // The expression with its text in the place of a tensor's name, which Text() gives back as it is.
  ArgExpr Named(const ArgExpr& expr) {
    if (expr.args.empty()) return expr;
    ArgExpr name;
    name.kind = Kind::kName;
    name.ref = Ref::kTensor;
    name.name = Hoisted(expr);
    return name;
  }

  std::string Actions() {
    std::string text;
    for (int id = num_lhs(); id < num_nodes(); ++id) {
      const RuleNode& found = node(id);
      const std::string built =
          found.op != nullptr ? Application(id, false)
                              : absl::StrCat("(Full ", Real(*found.value), " ", HoistedList(found.shape.dims), ")");
      absl::StrAppend(&text, "(let w", id, " ", built, ") ");
    }
    const absl::StatusOr<std::vector<RuleValue>> left = Outputs(rule_, rule_.compiled->lhs());
    const absl::StatusOr<std::vector<RuleValue>> right = Outputs(rule_, rule_.compiled->rhs());
    if (!left.ok() || !right.ok() || left->size() != right->size()) return Fail("its numbers of outputs are open");
    for (size_t k = 0; k < left->size(); ++k) {
      absl::StrAppend(&text, k == 0 ? "" : " ", "(union ", Value((*left)[k]), " ", Value((*right)[k]), ")");
    }
    return text;
  }

  std::string Assembled(const std::string& actions) const {
    const std::string facts = absl::StrJoin(facts_, "\n       ");
    std::string text =
        absl::StrCat("; ", rule_.comment(), "\n; ", rule_.law(), "\n; class ",
                     RuleClassName(rule_.rule.proof->rule_class), ", record ", RecordDigest(rule_), "\n");
    for (const std::string& name : rule_.operators()) {
      absl::StrAppend(&text, "(holds-for \"", rule_.name(), "\" \"", name, "\")\n");
    }
    if (!demands_.empty()) {
      absl::StrAppend(&text, "(rule (", facts, ")\n      (", absl::StrJoin(demands_, " "), ")\n      :name \"",
                      rule_.name(), "-demand\")\n");
    }
    std::vector<std::string> all = facts_;
    all.insert(all.end(), late_.begin(), late_.end());
    return absl::StrCat(text, "(rule (", absl::StrJoin(all, "\n       "), ")\n      (", actions, ")\n      :name \"",
                        rule_.name(), "\")\n");
  }

  const PortableRule& rule_;
  const PortableNames names_;
  std::set<std::pair<Ref, int>> bound_;
  std::set<const OpDef*> constructors_;
  std::vector<std::string> facts_, late_, demands_;
  absl::Status fault_;
  int temporaries_ = 0;
};

std::string Commuting() {
  std::string text;
  for (const OpDef* op : AllOps()) {
    if (op->commutative && IsElementwise(op)) absl::StrAppend(&text, "(commutes \"", op->name, "\")\n");
  }
  return text;
}

}  // namespace

RuleExport WriteRulesForEgglog(const std::vector<PortableRule>& rules) {
  RuleExport result;
  std::string texts, declarations;
  std::set<std::string> declared;
  for (const PortableRule& rule : rules) {
    RuleText writer(rule);
    const absl::StatusOr<std::string> text = writer.Run();
    if (!text.ok()) {
      result.left_out[rule.name()] = std::string(text.status().message());
      continue;
    }
    for (const OpDef* op : writer.constructors()) declared.insert(op->name);
    absl::StrAppend(&texts, "\n", *text);
    ++result.written;
  }
  for (const std::string& name : declared) absl::StrAppend(&declarations, Declaration(FindOp(name)));
  result.text = absl::StrCat(ExportHeader(";", "egglog", result), kEgglogRules, Commuting(), "\n", declarations, texts);
  return result;
}

}  // namespace rewright
