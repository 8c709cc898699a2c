#include "verifier/classify/rounded_decisions.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/ir/rewrite.h"

namespace rewright {
namespace {

struct Decision {
  std::string whole;  // the numbers that are decided about, applications and all
  std::string moved;  // the same without movements of data
  // The movements may be left out: no leaf occurs twice, so that equal operations on equal leaves are about the same
  // elements wherever the sides are equal.
  bool movable = true;
};

// The decisions of one side, in all applications that its outputs depend on.
class Side {
 public:
  Side(const RuleInstance& instance, const std::vector<SymbolicValue>& outputs) : instance_(instance) {
    for (SymbolicValue output : outputs) Visit(output.node);
  }

  const std::vector<Decision>& decisions() const { return decisions_; }

 private:
  const SymbolicNode& Node(int node) const { return instance_.nodes[node]; }

  void Visit(int node) {
    const SymbolicNode& n = Node(node);
    if (n.meaning == nullptr || !visited_.insert(node).second) return;
    for (SymbolicValue input : n.inputs) Visit(input.node);
    for (const OutputMeaning& output : n.meaning->outputs) {
      rewright::Visit(output.element, [&](const ExprPtr& e) { Search(e, n); });
    }
  }

  void Search(const ExprPtr& e, const SymbolicNode& n) {
    if (e->IsCall()) {
      const char* name = FnHas(e->fn(), FnTrait::kCompares) ? "compare" : FnName(e->fn());
      if (FnHas(e->fn(), FnTrait::kSteps)) Note(name, e->args(), n);
    } else if (e->kind() == ExprKind::kReduce) {
      if (IsPosition(e->reduction())) Note("extremum", {e->body()}, n);
    } else if (e->kind() == ExprKind::kCast && !IsFloating(e->dtype())) {
      Note(DTypeName(e->dtype()), e->args(), n);
    } else if (e->kind() == ExprKind::kOpaque) {
      NoteOpaque(n);
    }
  }

  // An opaque operator may decide anything by its operands.
  void NoteOpaque(const SymbolicNode& n) {
    const bool rounded =
        std::any_of(n.inputs.begin(), n.inputs.end(), [&](SymbolicValue input) { return IsRounded(input); });
    if (rounded) decisions_.push_back({.whole = Application(n), .moved = "", .movable = false});
  }

  void Note(const std::string& what, const std::vector<ExprPtr>& args, const SymbolicNode& n) {
    const bool rounded = std::any_of(args.begin(), args.end(),
                                     [&](const ExprPtr& arg) { return IsFloating(arg->dtype()) && IsRounded(arg, n); });
    if (!rounded) return;
    Decision decision;
    std::set<std::string> leaves;
    std::vector<std::string> whole, moved;
    for (const ExprPtr& arg : args) {
      whole.push_back(absl::StrCat(PrintExpr(arg, {}), " of ", Application(n)));
      moved.push_back(Moved(arg, n, &leaves, &decision.movable));
    }
    // Either operand may come first: less and not less_equal.
    std::sort(whole.begin(), whole.end());
    std::sort(moved.begin(), moved.end());
    decision.whole = absl::StrCat(what, ":", absl::StrJoin(whole, ","));
    decision.moved = absl::StrCat(what, ":", absl::StrJoin(moved, ","));
    decisions_.push_back(std::move(decision));
  }

  bool IsRounded(SymbolicValue value) {
    const SymbolicNode& n = Node(value.node);
    if (n.meaning == nullptr) return false;
    auto [it, inserted] = rounded_.emplace(std::make_pair(value.node, value.output), false);
    if (inserted) it->second = IsNarrowed(n, value.output) || IsRounded(n.meaning->outputs[value.output].element, n);
    return it->second;
  }

  // Reals of another type are rounded where they are stored in 16 bits.
  bool IsNarrowed(const SymbolicNode& n, int output) const {
    const DType to = n.dtypes[output];
    return IsFloating(to) && IsNarrow(to) && std::any_of(n.inputs.begin(), n.inputs.end(), [&](SymbolicValue input) {
             const DType from = Node(input.node).dtypes[input.output];
             return IsFloating(from) && from != to;
           });
  }

  bool IsRounded(const ExprPtr& e, const SymbolicNode& n) {
    if (!IsFloating(e->dtype())) return false;
    const auto any = [&](size_t first) {
      return std::any_of(e->args().begin() + static_cast<int64_t>(first), e->args().end(),
                         [&](const ExprPtr& arg) { return IsRounded(arg, n); });
    };
    switch (e->kind()) {
      case ExprKind::kConst: return false;
      case ExprKind::kParam: {
        const ExprPtr& param = n.params[e->param()];
        return param->kind() != ExprKind::kConst && param->kind() != ExprKind::kParam;
      }
      case ExprKind::kRead: return IsRounded(n.inputs[e->operand()]);
      case ExprKind::kSelect: return any(1);
      case ExprKind::kCall: return !FnHas(e->fn(), FnTrait::kExact) || any(0);
      case ExprKind::kCast: {
        const DType from = e->arg(0)->dtype();
        if (IsFloating(from)) return e->dtype() == DType::kFloat32 || any(0);
        return from != DType::kBool && !(from == DType::kInt32 && e->dtype() == DType::kFloat64);
      }
      case ExprKind::kReduce:
        return e->reduction() == ReduceKind::kSum || e->reduction() == ReduceKind::kProd || IsRounded(e->body(), n);
      default: return true;
    }
  }

  // The application with everything below it.
  const std::string& Application(const SymbolicNode& n) {
    const int node = static_cast<int>(&n - instance_.nodes.data());
    auto it = applications_.find(node);
    if (it != applications_.end()) return it->second;
    std::string text;  // with the types in which elements are stored: a position is rounded to its own
    for (DType dtype : n.dtypes) absl::StrAppend(&text, DTypeName(dtype), " ");
    if (n.meaning == nullptr) {
      absl::StrAppend(&text, n.splat ? absl::StrCat("constant ", NumberString(*n.splat)) : absl::StrCat("leaf ", node));
    } else {
      absl::StrAppend(&text, n.op->name, "(");
      for (SymbolicValue input : n.inputs) {
        absl::StrAppend(&text, Application(Node(input.node)), ".", input.output, ",");
      }
      for (const ExprPtr& index : n.indices) absl::StrAppend(&text, index ? PrintExpr(index, {}) : "", ";");
      for (const ExprPtr& param : n.params) absl::StrAppend(&text, PrintExpr(param, {}), ";");
      for (const OutputMeaning& output : n.meaning->outputs) {
        absl::StrAppend(&text, PrintExpr(output.element, {}), "|");
      }
      absl::StrAppend(&text, ")");
    }
    return applications_.emplace(node, std::move(text)).first->second;
  }

  std::string Moved(const ExprPtr& e, const SymbolicNode& n, std::set<std::string>* leaves, bool* movable) {
    std::vector<std::string> args;
    switch (e->kind()) {
      case ExprKind::kConst: return absl::StrCat(DTypeName(e->dtype()), " ", e->real());
      case ExprKind::kParam: return PrintExpr(n.params[e->param()], {});
      case ExprKind::kRead: return Moved(n.inputs[e->operand()], leaves, movable);
      case ExprKind::kSelect:
        for (const ExprPtr& side : {e->yes(), e->no()}) args.push_back(Moved(side, n, leaves, movable));
        std::sort(args.begin(), args.end());
        return absl::StrCat("{", absl::StrJoin(args, ","), "}");
      case ExprKind::kCall:
        for (const ExprPtr& arg : e->args()) args.push_back(Moved(arg, n, leaves, movable));
        if (FnHas(e->fn(), FnTrait::kCommutes)) std::sort(args.begin(), args.end());
        return absl::StrCat("fn", static_cast<int>(e->fn()), "(", absl::StrJoin(args, ","), ")");
      case ExprKind::kCast: return absl::StrCat(DTypeName(e->dtype()), "(", Moved(e->arg(0), n, leaves, movable), ")");
      default: *movable = false; return "";
    }
  }

  std::string Moved(SymbolicValue value, std::set<std::string>* leaves, bool* movable) {
    const SymbolicNode& n = Node(value.node);
    if (n.meaning == nullptr && n.splat) return absl::StrCat(DTypeName(n.dtypes[0]), " ", NumberString(*n.splat));
    const ExprPtr element = n.meaning ? n.meaning->outputs[value.output].element : nullptr;
    if (element != nullptr && !element->Reduces() && element->kind() != ExprKind::kOpaque) {
      return Moved(element, n, leaves, movable);
    }
    // A reduction rounds by the order of its terms: it counts as a leaf, by all that is below it.
    std::string unit = absl::StrCat(Application(n), ".", value.output);
    if (!leaves->insert(unit).second) *movable = false;
    return unit;
  }

  const RuleInstance& instance_;
  std::set<int> visited_;
  std::vector<Decision> decisions_;
  std::map<std::pair<int, int>, bool> rounded_;
  std::map<int, std::string> applications_;
};

bool AllAmong(const std::vector<Decision>& some, const std::vector<Decision>& others) {
  return std::all_of(some.begin(), some.end(), [&](const Decision& a) {
    return std::any_of(others.begin(), others.end(), [&](const Decision& b) {
      return a.whole == b.whole || (a.movable && b.movable && a.moved == b.moved);
    });
  });
}

}  // namespace

bool MayDecideDifferently(const RuleInstance& instance) {
  const Side left(instance, instance.lhs), right(instance, instance.rhs);
  return !AllAmong(left.decisions(), right.decisions()) || !AllAmong(right.decisions(), left.decisions());
}

}  // namespace rewright
