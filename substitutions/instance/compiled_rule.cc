#include "substitutions/instance/compiled_rule.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "substitutions/instance/binding_order.h"
#include "substitutions/language/number.h"
#include "substitutions/language/operator_variables.h"
#include "substitutions/language/rule_lexer.h"
#include "substitutions/language/rule_names.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/language/rule_symmetry.h"
#include "substitutions/language/siblings.h"
#include "substitutions/match/match_plan.h"

namespace rewright {
namespace {

constexpr int kMaxNodes = 512;

ArgExpr FromAttr(const Attr& attr) {
  if (const auto* integer = std::get_if<int64_t>(&attr)) return ArgExpr::Int(*integer);
  if (const auto* real = std::get_if<double>(&attr)) return ArgExpr::Real(*real);
  if (const auto* list = std::get_if<std::vector<int64_t>>(&attr)) {
    std::vector<ArgExpr> items;
    for (int64_t value : *list) items.push_back(ArgExpr::Int(value));
    return ArgExpr::List(std::move(items));
  }
  ArgExpr expr;
  expr.kind = ArgExpr::Kind::kDType;
  expr.dtype = std::get<DType>(attr);
  return expr;
}

}  // namespace

bool IsPlainName(const ArgExpr& expr) {
  return expr.ref == ArgExpr::Ref::kSize || expr.ref == ArgExpr::Ref::kPack || expr.ref == ArgExpr::Ref::kAttr;
}

class RuleCompiler {
 public:
  RuleCompiler(const Rule& rule, RuleUse use)
      : out_(std::make_shared<CompiledRule>()),
        use_(use),
        names_(out_->rule_, tensors_, &out_->sizes_, &out_->packs_, &out_->attrs_, &errors_) {
    out_->rule_ = rule;
  }

  // Compiles a rule about siblings: its expansion for two siblings, and those for one, three and seven.
  absl::StatusOr<std::shared_ptr<const CompiledRule>> RunForSiblings(const Rule& whole) {
    for (int count : {1, 3, 7}) {
      ASSIGN_OR_RETURN(auto other, RuleCompiler(ExpandSiblings(whole, count), use_).Run());
      out_->other_counts_.push_back(std::move(other));
    }
    RETURN_IF_ERROR(Run().status());
    const std::set<std::string> variables = SiblingVariables(whole);
    for (int id = 0; id < out_->num_lhs_nodes_; ++id) {
      const std::string& name = out_->nodes_[id].name;
      out_->differs_.push_back(std::any_of(variables.begin(), variables.end(), [&](const std::string& variable) {
        return name == SiblingName(variable, 1) || name == SiblingName(variable, 2);
      }));
    }
    out_->rule_ = whole;
    return std::shared_ptr<const CompiledRule>(out_);
  }

  absl::StatusOr<std::shared_ptr<const CompiledRule>> Run() {
    const Rule& rule = out_->rule_;
    left_ = true;
    Side(rule.lhs, out_->lhs_);
    out_->num_lhs_nodes_ = static_cast<int>(out_->nodes_.size());
    if (errors_.empty()) errors_.Add(CheckRoots());
    errors_.Add(names_.Declare(out_->nodes_));
    ResolveNodes(0);
    if (errors_.empty()) FindBindingOrder();
    if (errors_.empty()) errors_.Add(CheckDecisions());

    left_ = false;
    Side(rule.rhs, out_->rhs_);
    ResolveNodes(out_->num_lhs_nodes_);
    // Skips conditions on operators: the stand-in has these properties.
    std::copy_if(rule.conditions.begin(), rule.conditions.end(), std::back_inserter(out_->conditions_),
                 [](const ArgExpr& condition) { return !IsOperatorProperty(condition); });
    for (ArgExpr& condition : out_->conditions_) {
      errors_.Add(names_.Resolve(condition));
      if (errors_.empty()) NoteElements(condition);
    }
    if (errors_.empty()) errors_.Add(CheckTypes());
    if (!errors_.empty()) return errors_.ToStatus();
    if (use_ == RuleUse::kMatching && !PlanMatch(*out_, &out_->match_order_, &out_->entry_paths_)) {
      return Error(rule.line, 1, "the outputs of the left side share nothing, or one of its let terms is not used");
    }
    for (size_t k = 0; k + 1 < rule.lhs.outputs.size(); ++k) out_->symmetric_.push_back(OutputsExchange(rule, k));
    return std::shared_ptr<const CompiledRule>(out_);
  }

 private:
  absl::Status Error(int line, int column, const std::string& message) const {
    return RuleError(out_->rule_.file, line, column, absl::StrCat("rule ", out_->rule_.name, ": ", message));
  }
  absl::Status Error(const TensorTerm& term, const std::string& message) const {
    return Error(term.line, term.column, message);
  }

  // ---------------------------------------------------------------- tensors

  void Side(const RuleSide& side, std::vector<RuleValue>& outputs) {
    for (const LetTerm& let : side.lets) {
      RuleValue value;
      SideTerm(let.term, value);
      if (tensors_.count(let.name)) {
        errors_.Add(Error(let.term, absl::StrCat("found let ", let.name, ", expected a name that is not taken")));
      }
      tensors_[let.name] = value;
      is_let_.insert(let.name);
    }
    for (const TensorTerm& term : side.outputs) {
      if (term.all) {
        errors_.Add(Error(term, "found `..`, expected none: an operator already stands for all of its outputs here"));
      }
      SideTerm(term, outputs.emplace_back());
    }
  }

  // Compiles a term of a side. A leaf stands in for a term that makes no sense.
  void SideTerm(const TensorTerm& term, RuleValue& value) {
    const absl::Status status = Term(term, value);
    errors_.Add(status);
    if (!status.ok()) value = AddNode(RuleNode());
  }

  absl::Status Term(const TensorTerm& term, RuleValue& value) {
    switch (term.kind) {
      case TensorTerm::Kind::kName: RETURN_IF_ERROR(Variable(term, value)); break;
      case TensorTerm::Kind::kValue: RETURN_IF_ERROR(ConstantTerm(term, value)); break;
      case TensorTerm::Kind::kApply: RETURN_IF_ERROR(Application(term, value)); break;
    }
    if (out_->nodes_.size() > kMaxNodes) return Error(term, "the rule is too large");
    if (term.output < 0 && !term.all) return absl::OkStatus();
    if (!value.whole || out_->nodes_[value.node].op == nullptr) {
      return Error(term, "only an application has outputs to select");
    }
    value.whole = false;
    value.all = term.all;
    value.output = std::max(term.output, 0);
    return absl::OkStatus();
  }

  absl::Status Variable(const TensorTerm& term, RuleValue& value) {
    const auto found = tensors_.find(term.name);
    if (found != tensors_.end()) {
      if (term.shape || term.dtype) {
        const char* why = is_let_.count(term.name) ? "names a term: it takes no shape" : "has a shape already";
        return Error(term, absl::StrCat(term.name, " ", why));
      }
      value = found->second;
      return absl::OkStatus();
    }
    RuleNode leaf;
    leaf.name = term.name;
    if (!left_) {
      errors_.Add(
          Error(term, absl::StrCat("found ", term.name, ", expected a variable of the left side: ", Variables())));
      value = AddNode(std::move(leaf));
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(ElementType(term, leaf));
    if (term.shape) {
      leaf.shape = *term.shape;
    } else {
      ArgExpr pack;
      pack.kind = ArgExpr::Kind::kName;
      pack.name = absl::StrCat("shape(", term.name, ")");
      ArgExpr splice;
      splice.kind = ArgExpr::Kind::kSplice;
      splice.args = {pack};
      leaf.shape.dims = {splice};
    }
    value = AddNode(std::move(leaf));
    tensors_[term.name] = value;
    return absl::OkStatus();
  }

  std::string Variables() const {
    std::string names;
    for (const auto& [name, value] : tensors_) absl::StrAppend(&names, names.empty() ? "" : ", ", name);
    return names;
  }

  absl::Status ElementType(const TensorTerm& term, RuleNode& leaf) {
    if (!term.dtype) return absl::OkStatus();
    leaf.floating = false;
    if (term.dtype->kind == ArgExpr::Kind::kDType) {
      leaf.dtype = term.dtype->dtype;
      return absl::OkStatus();
    }
    const std::string& name = term.dtype->name;
    if (!left_ && !names_.HasAttr(name)) {
      return Error(term, absl::StrCat("found ?", name, ", expected a name that the left side binds"));
    }
    leaf.dtype_attr = DeclareAttr(name, RuleAttr::Class::kDType, AttrKind::kDType);
    return absl::OkStatus();
  }

  absl::Status ConstantTerm(const TensorTerm& term, RuleValue& value) {
    const bool number = term.value.kind == ArgExpr::Kind::kInt || term.value.kind == ArgExpr::Kind::kReal;
    const bool name = term.value.kind == ArgExpr::Kind::kAttr;
    if (left_ && !number && !name) return Error(term, "on the left side a constant is a number or ?name");
    if (left_ && name) DeclareAttr(term.value.name, RuleAttr::Class::kReal, AttrKind::kReal);
    RuleNode leaf;
    leaf.value = term.value;
    leaf.name = PrintArg(term.value);
    RETURN_IF_ERROR(ElementType(term, leaf));
    if (number) RETURN_IF_ERROR(CheckLiteral(term, leaf));
    if (term.shape) leaf.shape = *term.shape;
    if (!left_ && leaf.shape.broadcasts) return Error(term, "`~` is for variables of the left side");
    leaf.any_shape = left_ && !term.shape;
    value = AddNode(std::move(leaf));
    return absl::OkStatus();
  }

  // A constant of type ?t has its instances where the type has the number.
  absl::Status CheckLiteral(const TensorTerm& term, const RuleNode& leaf) const {
    const DType type = leaf.floating ? DType::kFloat32 : leaf.dtype;
    const bool integer = term.value.kind == ArgExpr::Kind::kInt;
    const Number number = integer ? Number(term.value.integer) : Number(term.value.real);
    if (leaf.dtype_attr >= 0 || HasNumber(type, number)) return absl::OkStatus();
    return Error(term, absl::StrCat("found ", leaf.name, ", expected a number of type ", DTypeName(type)));
  }

  int DeclareAttr(const std::string& name, RuleAttr::Class kind, AttrKind spec_kind) {
    RuleAttr attr;
    attr.name = name;
    attr.kind = kind;
    attr.spec_kind = spec_kind;
    return names_.Declare(attr).first;
  }

  absl::Status Application(const TensorTerm& term, RuleValue& value) {
    RuleNode node;
    node.op = term.op;
    std::string key = term.name;
    for (const TensorTerm& operand : term.operands) {
      RuleValue& ref = node.operands.emplace_back();
      RETURN_IF_ERROR(Term(operand, ref));
      absl::StrAppend(&key, ",", ref.node, ".", ref.output, ref.whole ? "w" : "", ref.all ? "a" : "");
    }
    const size_t declared = term.op->inputs.size();
    const bool several =
        std::any_of(node.operands.begin(), node.operands.end(), [](const RuleValue& v) { return v.all; });
    const bool fits = several             ? term.op->variadic
                      : term.op->variadic ? node.operands.size() >= declared
                                          : node.operands.size() == declared;
    if (!fits) {
      errors_.Add(Error(term, absl::StrCat("found ", node.operands.size(), " operands of ", term.name, ", expected ",
                                           declared, term.op->variadic ? " or more" : "")));
    }
    for (const RuleValue& operand : node.operands) {
      const RuleNode& leaf = out_->nodes_[operand.node];
      if (leaf.any_shape && !term.op->broadcasts) {
        errors_.Add(Error(term, absl::StrCat("found the constant ", leaf.name,
                                             " without a shape, expected one: ", term.name, " does not broadcast")));
      }
    }
    for (const AttrSpec& spec : term.op->attrs) {
      RETURN_IF_ERROR(Attribute(term, spec, node.attrs.emplace_back()));
      absl::StrAppend(&key, ",", PrintArg(node.attrs.back()));
    }
    // Equal applications are one node of a graph.
    const auto known = applications_.find(key);
    if (known != applications_.end()) {
      value = known->second;
      return absl::OkStatus();
    }
    value = AddNode(std::move(node));
    applications_[key] = value;
    return absl::OkStatus();
  }

  absl::Status Attribute(const TensorTerm& term, const AttrSpec& spec, ArgExpr& expr) {
    for (const NamedArg& given : term.attrs) {
      if (given.name != spec.name) continue;
      expr = given.value;
      return absl::OkStatus();
    }
    if (!term.bundle.empty()) {
      expr.kind = ArgExpr::Kind::kAttr;
      expr.name = absl::StrCat(term.bundle, ".", spec.name);
      expr.line = term.line;
      expr.column = term.column;
      return absl::OkStatus();
    }
    if (spec.fallback) {
      expr = FromAttr(*spec.fallback);
    } else {
      errors_.Add(Error(term, absl::StrCat("found no attribute ", spec.name, " of ", term.name, ", expected it")));
    }
    return absl::OkStatus();
  }

  RuleValue AddNode(RuleNode node) {
    out_->nodes_.push_back(std::move(node));
    return RuleValue{static_cast<int>(out_->nodes_.size()) - 1, 0, true, false};
  }

  absl::Status CheckRoots() const {
    for (size_t k = 0; k < out_->lhs_.size(); ++k) {
      const TensorTerm& term = out_->rule_.lhs.outputs[k];
      if (out_->nodes_[out_->root(k)].op == nullptr) {
        return Error(term, "an output of the left side must be an application");
      }
      for (size_t other = 0; other < k; ++other) {
        if (out_->lhs_[other] == out_->lhs_[k]) return Error(term, "the left side has this output twice");
      }
    }
    return absl::OkStatus();
  }

  void ResolveNodes(int begin) {
    for (size_t i = begin; i < out_->nodes_.size(); ++i) {
      RuleNode& node = out_->nodes_[i];
      for (ArgExpr& dim : node.shape.dims) errors_.Add(names_.Resolve(dim));
      for (ArgExpr& attr : node.attrs) errors_.Add(names_.Resolve(attr));
      if (node.value) errors_.Add(names_.Resolve(*node.value));
    }
  }

  // ---------------------------------------------------------------- order of binding

  void FindBindingOrder() {
    BindingOrder order = OrderBinding(out_->nodes_);
    out_->binding_order_ = std::move(order.equations);
    if (!order.complete) ComplainOfUnbound(order);
  }

  // Each name that cannot be solved for, where it stands first.
  void ComplainOfUnbound(const BindingOrder& order) {
    std::set<std::pair<ArgExpr::Ref, int>> told;
    const std::function<void(const ArgExpr&)> visit = [&](const ArgExpr& expr) {
      if (IsPlainName(expr) && order.bound.count({expr.ref, expr.id}) == 0 && told.insert({expr.ref, expr.id}).second) {
        const char* before = expr.ref == ArgExpr::Ref::kAttr ? "?" : "";
        const char* after = expr.ref == ArgExpr::Ref::kPack ? ".." : "";
        errors_.Add(
            Error(expr.line > 0 ? expr.line : out_->rule_.line, std::max(expr.column, 1),
                  absl::StrCat("found ", before, expr.name, after, ", expected a name that the left side determines")));
      }
      for (const ArgExpr& arg : expr.args) visit(arg);
    };
    for (const RuleNode& node : out_->nodes_) {
      for (const ArgExpr& dim : node.shape.dims) visit(dim);
      for (const ArgExpr& attr : node.attrs) visit(attr);
    }
    if (told.empty()) errors_.Add(Error(out_->rule_.line, 1, "the left side does not determine its names"));
  }

  // Structural attributes are chosen at the node that binds them, operands first: no expression may need one earlier.
  absl::Status CheckDecisions() const {
    for (size_t i = 0; i < out_->nodes_.size(); ++i) {
      for (const ArgExpr& attr : out_->nodes_[i].attrs) RETURN_IF_ERROR(CheckDecided(attr, static_cast<int>(i)));
    }
    return absl::OkStatus();
  }

  absl::Status CheckDecided(const ArgExpr& expr, int node) const {
    if (expr.ref == ArgExpr::Ref::kAttr) {
      const RuleAttr& attr = out_->attrs_[expr.id];
      const bool symbol = attr.kind == RuleAttr::Class::kInt || attr.kind == RuleAttr::Class::kReal;
      if (!symbol && attr.node > node) {
        return Error(expr.line, expr.column,
                     absl::StrCat("?", attr.name, " is bound by an application that comes later"));
      }
    }
    for (const ArgExpr& arg : expr.args) RETURN_IF_ERROR(CheckDecided(arg, node));
    return absl::OkStatus();
  }

  // A proof in f32 stands for f64 too, but not if the rule names types: a tensor that is f32 in one place may then be
  // of another type elsewhere.
  absl::Status CheckTypes() const {
    const auto names_type = [](const RuleNode& node) {
      return node.op != nullptr && std::any_of(node.op->attrs.begin(), node.op->attrs.end(),
                                               [](const AttrSpec& spec) { return spec.kind == AttrKind::kDType; });
    };
    if (std::none_of(out_->nodes_.begin(), out_->nodes_.end(), names_type)) return absl::OkStatus();
    for (const RuleNode& node : out_->nodes_) {
      if (node.op != nullptr || node.value || !node.floating) continue;
      return Error(out_->rule_.line, 1,
                   absl::StrCat("the element type of ", node.name, " must be given, since an operator names types"));
    }
    return absl::OkStatus();
  }

  // ---------------------------------------------------------------- conditions

  // Notes what a top-level condition positive(x) or finite(x) says of the elements of leaf x.
  void NoteElements(const ArgExpr& condition) {
    if (condition.kind != ArgExpr::Kind::kCall) return;
    if (condition.fn != ArgFn::kPositive && condition.fn != ArgFn::kFinite) return;
    const ArgExpr& arg = condition.args[0];
    if (arg.ref == ArgExpr::Ref::kTensor) {
      RuleNode& node = out_->nodes_[arg.id];
      node.finite = true;
      node.positive = node.positive || condition.fn == ArgFn::kPositive;
    }
    if (arg.ref == ArgExpr::Ref::kAttr) out_->attrs_[arg.id].positive = true;
  }

  std::shared_ptr<CompiledRule> out_;
  RuleUse use_;
  RuleErrors errors_;
  bool left_ = true;
  RuleNames::Tensors tensors_;
  RuleNames names_;
  std::set<std::string> is_let_;
  std::map<std::string, RuleValue> applications_;
};

absl::StatusOr<std::shared_ptr<const CompiledRule>> CompileRule(const Rule& rule, RuleUse use) {
  if (!IsSiblingRule(rule)) return RuleCompiler(rule, use).Run();
  RETURN_IF_ERROR(CheckSiblings(rule));
  return RuleCompiler(ExpandSiblings(rule, 2), use).RunForSiblings(rule);
}

absl::Status CheckRules(const std::vector<Rule>& rules) {
  RuleErrors errors;
  for (const Rule& rule : rules) errors.Add(CompileRule(rule).status());
  return errors.ToStatus();
}

}  // namespace rewright
