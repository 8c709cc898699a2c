#include "substitutions/generate/definitions/statements.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "substitutions/language/rule_printer.h"

namespace rewright::generate {
namespace {

// Neighbouring axes of the result that are treated alike.
struct Run {
  int begin = 0, end = 0;
  bool reduced = false;
  bool pack = false;
  std::vector<std::string> names;  // of its sizes; of the pack
};

// One statement: a choice of the runs of axes that are packs, with names for everything.
class Statement {
 public:
  Statement(const Definition& definition, std::vector<Run> runs) : definition_(definition), runs_(std::move(runs)) {
    for (const std::string& input : definition.op->inputs) taken_.insert(input);
    for (Run& run : runs_) {
      if (run.pack) {
        run.names = {Fresh("abcdefgh")};
      } else {
        for (int axis = run.begin; axis < run.end; ++axis) run.names.push_back(Fresh("klmnopqr"));
      }
    }
  }

  std::string PartsAsOperator(const PartPtr& form) {
    left_ = true;
    const std::string left = Side(form);
    left_ = false;
    return absl::StrCat(left, "\n=> ", Operator());
  }

  std::string AsScaleAndShift(const ScaleAndShift& parts) {
    left_ = own_shapes_ = true;
    const std::string left = Operator();
    left_ = false;
    const PartPtr x = MakeOperand(0);
    const std::vector<int>& axes = ParameterAxes();
    // Lets first: they name parts of both.
    const std::string lets = Lets({parts.factor, parts.summand});
    const std::string right =
        absl::StrCat(OperatorOf(Fn::kAdd)->name, "(", OperatorOf(Fn::kMul)->name, "(", Print(x), ", ",
                     Aligned(Print(parts.factor), axes), "), ", Aligned(Print(parts.summand), axes), ")");
    std::vector<std::string> weights;
    for (size_t k = 1; k < definition_.op->inputs.size(); ++k) {
      weights.push_back(absl::StrCat("weight(", definition_.op->inputs[k], ")"));
    }
    return absl::StrCat(left, "\n=> ", lets, right, "\nwhen ", absl::StrJoin(weights, " and "));
  }

  // True if an attribute names an axis inside a run of any length: then the statement cannot be made.
  bool CutsPack() const {
    for (const AttrSpec& attr : definition_.op->attrs) {
      if (attr.kind != AttrKind::kAxis) continue;
      const int64_t axis = std::get<int64_t>(definition_.attrs.at(attr.name));
      for (const Run& run : runs_) {
        if (run.pack && run.begin < axis && axis < run.end) return true;
      }
    }
    return false;
  }

 private:
  std::string Fresh(const std::string& letters) {
    for (char letter : letters) {
      if (taken_.insert(std::string(1, letter)).second) return std::string(1, letter);
    }
    return "none";  // more axes than letters: the statement does not compile
  }

  // ---- axes

  // The number of axes before this one: "len(b) + 1".
  std::string Before(int axis) const {
    std::string text;
    int fixed = 0;
    for (const Run& run : runs_) {
      if (run.pack && run.end <= axis) {
        absl::StrAppend(&text, text.empty() ? "" : " + ", "len(", run.names[0], ")");
      } else {
        fixed += std::clamp(axis - run.begin, 0, run.end - run.begin);
      }
    }
    if (text.empty()) return std::to_string(fixed);
    return fixed == 0 ? text : absl::StrCat(text, " + ", fixed);
  }

  std::string AxesText(const std::vector<int>& axes) const {
    std::vector<std::string> items;
    for (int axis : axes) items.push_back(Before(axis));
    return absl::StrCat("[", absl::StrJoin(items, ", "), "]");
  }

  // Sizes of a tensor along these axes, and 1 along the others from `from` on.
  std::string SizesText(const std::vector<int>& axes, int from) const {
    std::vector<std::string> items;
    for (const Run& run : runs_) {
      const bool has = std::find(axes.begin(), axes.end(), run.begin) != axes.end();
      if (!has && run.begin < from) continue;
      if (run.pack) {
        items.push_back(has ? run.names[0] + ".." : absl::StrCat("repeat(1, len(", run.names[0], ")).."));
      } else {
        for (const std::string& name : run.names) items.push_back(has ? name : "1");
      }
    }
    return absl::StrCat("[", absl::StrJoin(items, ", "), "]");
  }

  const std::vector<int>& AxesOf(int operand) const { return definition_.operand_axes[operand]; }
  // All axes but the first ones: as the operand is, it broadcasts.
  bool IsTrailing(const std::vector<int>& axes) const {
    return axes.empty() || axes[0] + static_cast<int>(axes.size()) == definition_.rank;
  }
  // The axes of the operands beyond 0, which are the same (StateScaleAndShift).
  const std::vector<int>& ParameterAxes() const { return AxesOf(1); }

  // The tensor in the shape in which it broadcasts.
  std::string Aligned(const std::string& tensor, const std::vector<int>& axes) const {
    if (IsTrailing(axes)) return tensor;
    return absl::StrCat("reshape(", tensor, ", shape=", SizesText(axes, 0), ")");
  }

  // ---- terms

  std::string Operand(int operand) {
    const std::string& name = definition_.op->inputs[operand];
    if (!left_ || !shaped_.insert(operand).second) return name;
    const std::vector<int>& axes = AxesOf(operand);
    const bool own = own_shapes_ || IsTrailing(axes);
    return name + SizesText(axes, own ? definition_.rank : axes[0]);
  }

  // The operator with its operands in their own shapes.
  std::string Operator() {
    std::vector<std::string> items;
    for (size_t k = 0; k < definition_.op->inputs.size(); ++k) {
      const std::vector<int>& axes = AxesOf(static_cast<int>(k));
      std::string operand = Operand(static_cast<int>(k));
      if (!left_ && !IsTrailing(axes)) {
        operand = absl::StrCat("reshape(", operand, ", shape=", SizesText(axes, definition_.rank), ")");
      }
      items.push_back(std::move(operand));
    }
    for (const AttrSpec& attr : definition_.op->attrs) {
      const auto found = definition_.attrs.find(attr.name);
      if (found == definition_.attrs.end()) continue;
      if (attr.kind == AttrKind::kAxis) {
        items.push_back(absl::StrCat(attr.name, "=", Before(static_cast<int>(std::get<int64_t>(found->second)))));
      } else if (attr.kind == AttrKind::kReal) {
        items.push_back(absl::StrCat(attr.name, "=?", attr.name));
      } else if (!attr.fallback || *attr.fallback != found->second) {
        items.push_back(absl::StrCat(attr.name, "=", AttrString(found->second)));
      }
    }
    return absl::StrCat(definition_.op->name, "(", absl::StrJoin(items, ", "), ")");
  }

  std::string Print(const PartPtr& part) {
    switch (part->kind) {
      case Part::Kind::kOperand: return Operand(part->operand);
      case Part::Kind::kNumber:
        return PrintArg(part->number == static_cast<double>(static_cast<int64_t>(part->number))
                            ? ArgExpr::Int(static_cast<int64_t>(part->number))
                            : ArgExpr::Real(part->number));
      case Part::Kind::kReal: return "?" + part->name;
      case Part::Kind::kApply: break;
    }
    const auto let = lets_.find(part->key);
    return let != lets_.end() ? let->second : Application(*part);
  }

  std::string Application(const Part& part) {
    std::vector<std::string> items;
    for (const PartPtr& operand : part.operands) items.push_back(Print(operand));
    if (!part.reduced.empty()) items.push_back(absl::StrCat(part.op->attrs[0].name, "=", AxesText(part.reduced)));
    return absl::StrCat(part.op->name, "(", absl::StrJoin(items, ", "), ")");
  }

  // Names parts that are used more than once: "let d = .. in ".
  std::string Lets(const std::vector<PartPtr>& roots) {
    std::map<std::string, int> uses;
    std::vector<const Part*> parts;  // operands before users
    std::set<std::string> seen;
    for (const PartPtr& root : roots) {
      ++uses[root->key];
      std::vector<const Part*> found = Applications(root);
      std::reverse(found.begin(), found.end());
      for (const Part* part : found) {
        if (!seen.insert(part->key).second) continue;
        parts.push_back(part);
        for (const PartPtr& operand : part->operands) ++uses[operand->key];
      }
    }
    std::string text;
    for (const Part* part : parts) {
      if (uses[part->key] < 2) continue;
      const std::string definition = Application(*part);
      const std::string name = Fresh("tuvwz");
      lets_[part->key] = name;
      absl::StrAppend(&text, "let ", name, " = ", definition, " in\n");
    }
    return text;
  }

  std::string Side(const PartPtr& whole) {
    std::string text = Lets({whole});
    return text + Print(whole);
  }

  const Definition& definition_;
  std::vector<Run> runs_;
  std::set<std::string> taken_;
  bool left_ = false;
  bool own_shapes_ = false;  // operands are written as the operator takes them
  std::set<int> shaped_;     // operands whose shape is said
  std::map<std::string, std::string> lets_;
};

// The runs, none of them a pack.
std::vector<Run> RunsOf(const Definition& definition) {
  std::vector<Run> runs;
  const auto operands_with = [&](int axis) {
    std::vector<bool> with;
    for (const std::vector<int>& axes : definition.operand_axes) {
      with.push_back(std::find(axes.begin(), axes.end(), axis) != axes.end());
    }
    return with;
  };
  for (int axis = 0; axis < definition.rank; ++axis) {
    const bool reduced = definition.reduced[axis];
    if (!runs.empty() && runs.back().reduced == reduced && operands_with(axis - 1) == operands_with(axis)) {
      runs.back().end = axis + 1;
    } else {
      runs.push_back({.begin = axis, .end = axis + 1, .reduced = reduced, .pack = false, .names = {}});
    }
  }
  return runs;
}

// Makes a statement for each choice of packs, the ones with more first. Reduced axes are written out one by one: proofs
// about any number of them take long.
template <typename State>
std::vector<std::string> Statements(const Definition& definition, const State& state) {
  const std::vector<Run> runs = RunsOf(definition);
  std::vector<unsigned> choices;
  for (unsigned packs = 0; packs < 1u << runs.size(); ++packs) {
    bool counted = true;
    for (size_t k = 0; k < runs.size(); ++k) counted = counted && !(runs[k].reduced && (packs >> k & 1) != 0);
    if (counted) choices.push_back(packs);
  }
  std::stable_sort(choices.begin(), choices.end(),
                   [](unsigned a, unsigned b) { return std::popcount(a) > std::popcount(b); });
  std::vector<std::string> statements;
  for (unsigned packs : choices) {
    std::vector<Run> chosen = runs;
    for (size_t k = 0; k < chosen.size(); ++k) chosen[k].pack = (packs >> k & 1) != 0;
    Statement statement(definition, std::move(chosen));
    if (!statement.CutsPack()) statements.push_back(state(statement));
  }
  return statements;
}

}  // namespace

std::vector<std::string> StatePartsAsOperator(const Definition& definition, const PartPtr& form) {
  return Statements(definition, [&](Statement& statement) { return statement.PartsAsOperator(form); });
}

std::vector<std::string> StateScaleAndShift(const Definition& definition, const ScaleAndShift& parts) {
  // Factor and summand are computed in the parameters' own shape.
  const std::vector<std::vector<int>>& axes = definition.operand_axes;
  if (axes.size() < 2 || std::any_of(axes.begin() + 1, axes.end(), [&](const auto& of) { return of != axes[1]; })) {
    return {};
  }
  return Statements(definition, [&](Statement& statement) { return statement.AsScaleAndShift(parts); });
}

}  // namespace rewright::generate
