#include "substitutions/instance/instances.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "substitutions/instance/symbolic_builder.h"
#include "substitutions/language/rule_lexer.h"

namespace rewright {
namespace {

using Class = RuleAttr::Class;

// Integers that a structural integer bound by a rule may take.
constexpr int64_t kMaxFixedInt = 3;

// Beyond these no limits let an enumeration go.
constexpr int kMostBroadcastRank = 12;
constexpr int kMostAxes = 12;

absl::Status Error(const CompiledRule& rule, const std::string& message) {
  return RuleError(rule.rule().file, rule.rule().line, 1, absl::StrCat("rule ", rule.name(), ": ", message));
}

int MaxListLength(const DomainLimits& limits) { return 2 * limits.max_rank; }

// The structural values, for people: "b..=2, ?a=1".
std::string Describe(const CompiledRule& rule, const StructuralAssignment& structure) {
  std::vector<std::string> parts;
  for (size_t p = 0; p < structure.packs.size(); ++p) {
    parts.push_back(absl::StrCat(rule.packs()[p], "..=", structure.packs[p]));
  }
  for (size_t a = 0; a < structure.attrs.size(); ++a) {
    const RuleAttr& attr = rule.attrs()[a];
    const std::vector<int64_t>& values = structure.attrs[a];
    if (attr.kind == Class::kFixedInt) parts.push_back(absl::StrCat("?", attr.name, "=", values[0]));
    if (attr.kind == Class::kFixedList)
      parts.push_back(absl::StrCat("?", attr.name, "=[", absl::StrJoin(values, ","), "]"));
    if (attr.kind == Class::kList) parts.push_back(absl::StrCat("len(?", attr.name, ")=", values[0]));
    if (attr.kind == Class::kDType) {
      parts.push_back(absl::StrCat("?", attr.name, "=", DTypeName(static_cast<DType>(values[0]))));
    }
  }
  for (size_t n = 0; n < structure.broadcasts.size(); ++n) {
    if (!rule.nodes()[n].shape.broadcasts) continue;
    std::string axes;
    for (uint32_t axis = 0; axis < (structure.broadcasts[n] & 0xff); ++axis) {
      axes += (structure.broadcasts[n] >> (8 + axis)) & 1 ? '1' : '=';
    }
    parts.push_back(absl::StrCat(rule.nodes()[n].name, "~[", axes, "]"));
  }
  return absl::StrJoin(parts, ", ");
}

// True if the enumeration below would find the values, which were bound in a graph.
bool WithinLimits(const CompiledRule& rule, const StructuralAssignment& structure, const DomainLimits& limits) {
  const auto below = [](int value, int limit) { return value >= 0 && value <= limit; };
  for (int length : structure.packs) {
    if (!below(length, limits.max_rank)) return false;
  }
  for (size_t a = 0; a < structure.attrs.size(); ++a) {
    const RuleAttr& attr = rule.attrs()[a];
    const std::vector<int64_t>& values = structure.attrs[a];
    if (attr.kind == Class::kList && values[0] > MaxListLength(limits)) return false;
    if (attr.kind == Class::kList && attr.length >= 0 && values[0] != attr.length) return false;
    if (attr.kind == Class::kFixedInt && attr.spec_kind == AttrKind::kInt &&
        (values[0] < 0 || values[0] > kMaxFixedInt)) {
      return false;
    }
    if (attr.kind != Class::kFixedList) continue;
    const int length = static_cast<int>(values.size());
    if (length > (attr.spec_kind == AttrKind::kInts ? limits.max_perm_rank : limits.max_rank)) return false;
  }
  return true;
}

// The instance, from a builder that has its left side.
InstanceResult Complete(const CompiledRule& rule, const StructuralAssignment& structure, SymbolicBuilder builder) {
  using Outcome = InstanceResult::Outcome;
  InstanceResult result;
  const auto ends = [&](Outcome outcome) {
    result.outcome = outcome;
    result.why = builder.why();
    return result;
  };
  RuleInstance& instance = result.instance;
  if (!builder.Outputs(rule.lhs(), &instance.lhs) || !builder.Conditions(&instance.conditions))
    return ends(Outcome::kNone);
  while (builder.next() < static_cast<int>(rule.nodes().size())) {
    if (!builder.BuildNext()) return ends(Outcome::kError);
  }
  if (!builder.Outputs(rule.rhs(), &instance.rhs)) return ends(Outcome::kError);
  if (instance.lhs.size() != instance.rhs.size()) {
    result.outcome = Outcome::kError;
    result.why = absl::StrCat("it has ", instance.rhs.size(), " outputs, the left side has ", instance.lhs.size());
    return result;
  }
  for (size_t k = 0; k < instance.lhs.size(); ++k) {
    const auto type = [&](SymbolicValue value) {
      const SymbolicNode& node = builder.nodes()[value.node];
      const size_t output = value.output;
      return std::pair(node.shapes[output].size(), node.dtypes[output]);
    };
    const auto left = type(instance.lhs[k]), right = type(instance.rhs[k]);
    if (left == right) continue;
    result.outcome = Outcome::kError;
    result.why = absl::StrCat("output ", k, " is of type ", DTypeName(right.second), " with ", right.first,
                              " axes, on the left side ", DTypeName(left.second), " with ", left.first);
    return result;
  }
  instance.rule = rule.name();
  instance.description = Describe(rule, structure);
  instance.symbols = builder.Symbols();
  instance.reals = builder.Reals();
  instance.nodes = builder.TakeNodes();
  instance.num_lhs_nodes = rule.num_lhs_nodes();
  result.outcome = Outcome::kBuilt;
  return result;
}

// Runs through all structures depth first, building the left side on the way so that dead ends show early.
class Enumerator {
 public:
  using Visit = std::function<absl::Status(const StructuralAssignment&, RuleInstance)>;
  Enumerator(const CompiledRule& rule, const DomainLimits& limits, MeaningCache& meanings, const Visit& visit)
      : rule_(rule),
        limits_(limits),
        visit_(visit),
        meanings_(meanings),
        builder_(rule, structure_, limits_, meanings_) {
    structure_.packs.assign(rule.packs().size(), 0);
    structure_.attrs.assign(rule.attrs().size(), {});
    structure_.broadcasts.assign(static_cast<size_t>(rule.num_lhs_nodes()), 0);
    has_lists_ = std::any_of(rule.attrs().begin(), rule.attrs().end(),
                             [](const RuleAttr& attr) { return attr.kind == Class::kList; });
  }

  absl::Status Run() {
    RETURN_IF_ERROR(Packs(0));
    if (count_ > 0) return absl::OkStatus();
    return Error(rule_, builder_.why().empty()
                            ? "no structural values satisfy the conditions"
                            : absl::StrCat("no structural values make the left side well-formed: ", builder_.why()));
  }

 private:
  absl::Status Packs(size_t pack) {
    if (++steps_ > kMaxSteps) return TooManySteps();
    if (pack == structure_.packs.size()) return LeafRanksFit() ? DTypes(0) : absl::OkStatus();
    for (int length = 0; length <= limits_.max_rank; ++length) {
      structure_.packs[pack] = length;
      RETURN_IF_ERROR(Packs(pack + 1));
    }
    return absl::OkStatus();
  }

  bool LeafRanksFit() const {
    for (int i = 0; i < rule_.num_lhs_nodes(); ++i) {
      const RuleNode& node = rule_.nodes()[i];
      if (node.op != nullptr || node.shape.broadcasts) continue;
      int rank = 0;
      for (const ArgExpr& dim : node.shape.dims) {
        const bool pack = dim.kind == ArgExpr::Kind::kSplice && dim.args[0].ref == ArgExpr::Ref::kPack;
        rank += pack ? structure_.packs[dim.args[0].id] : 1;
      }
      if (rank > limits_.max_rank) return false;
    }
    return true;
  }

  absl::Status DTypes(size_t attr) {
    if (attr == rule_.attrs().size()) return Nodes();
    if (rule_.attrs()[attr].kind != Class::kDType || rule_.attrs()[attr].node >= 0) return DTypes(attr + 1);
    for (DType type : kPlainDTypes) {
      structure_.attrs[attr] = {static_cast<int64_t>(type)};
      RETURN_IF_ERROR(DTypes(attr + 1));
    }
    structure_.attrs[attr].clear();
    return absl::OkStatus();
  }

  // Builds the next node of the left side: chooses its open values, builds it, goes on.
  absl::Status Nodes() {
    if (++steps_ > kMaxSteps) return TooManySteps();
    if (builder_.next() == rule_.num_lhs_nodes()) return Finish();
    const RuleNode& node = rule_.nodes()[builder_.next()];
    if (node.shape.broadcasts) return Broadcasts(node);
    if (node.op != nullptr) return Attributes(0);
    return BuildNode();
  }

  absl::Status BuildNode() {
    if (!builder_.BuildNext()) return absl::OkStatus();
    absl::Status status = Nodes();
    builder_.DropLast();
    return status;
  }

  absl::Status Broadcasts(const RuleNode& leaf) {
    std::vector<Index> target;
    if (!builder_.BroadcastTarget(leaf, &target)) return Error(rule_, absl::StrCat(leaf.name, ": ", builder_.why()));
    const size_t most = std::min(limits_.max_broadcast_rank, kMostBroadcastRank);
    if (target.size() > most) return absl::OkStatus();
    uint32_t& choice = structure_.broadcasts[builder_.next()];
    for (uint32_t rank = 0; rank <= target.size(); ++rank) {
      for (uint32_t units = 0; units < 1u << rank; ++units) {
        bool repeats = false;  // a size that is one anyway needs no choice
        for (uint32_t axis = 0; axis < rank; ++axis) {
          repeats |= ((units >> axis) & 1) != 0 && target[target.size() - rank + axis].Is(1);
        }
        if (repeats) continue;
        choice = rank | units << 8;
        RETURN_IF_ERROR(BuildNode());
      }
    }
    choice = 0;
    return absl::OkStatus();
  }

  absl::Status Attributes(size_t attr) {
    if (attr == rule_.attrs().size()) return BuildNode();
    const RuleAttr& open = rule_.attrs()[attr];
    if (open.node != builder_.next() || open.kind == Class::kInt || open.kind == Class::kReal)
      return Attributes(attr + 1);
    for (std::vector<int64_t>& values : Choices(open)) {
      structure_.attrs[attr] = std::move(values);
      RETURN_IF_ERROR(Attributes(attr + 1));
    }
    structure_.attrs[attr].clear();
    return absl::OkStatus();
  }

  // Axes count in the first operand of the node that binds the attribute.
  int FirstRank() const {
    const RuleNode& node = rule_.nodes()[builder_.next()];
    if (node.operands.empty()) return 0;
    const SymbolicNode& operand = builder_.nodes()[node.operands[0].node];
    const size_t output = node.operands[0].output;
    return output < operand.shapes.size() ? static_cast<int>(operand.shapes[output].size()) : 0;
  }

  std::vector<std::vector<int64_t>> Choices(const RuleAttr& attr) const {
    std::vector<std::vector<int64_t>> choices;
    const int rank = FirstRank();
    if (attr.kind == Class::kDType) {
      for (DType type : kPlainDTypes) choices.push_back({static_cast<int64_t>(type)});
    } else if (attr.kind == Class::kList) {
      for (int length = 0; length <= MaxListLength(limits_); ++length) {
        if (attr.length < 0 || length == attr.length) choices.push_back({length});
      }
    } else if (attr.kind == Class::kFixedInt) {
      const int64_t last = attr.spec_kind == AttrKind::kFlag  ? 1
                           : attr.spec_kind == AttrKind::kInt ? kMaxFixedInt
                                                              : rank - 1;
      for (int64_t value = 0; value <= last; ++value) choices.push_back({value});
    } else if (attr.spec_kind == AttrKind::kAxes) {
      for (uint32_t mask = 0; rank <= kMostAxes && mask < 1u << rank; ++mask) {
        std::vector<int64_t>& axes = choices.emplace_back();
        for (int axis = 0; axis < rank; ++axis) {
          if ((mask >> axis) & 1) axes.push_back(axis);
        }
      }
    } else if (rank <= limits_.max_perm_rank) {
      std::vector<int64_t> perm(static_cast<size_t>(rank));
      std::iota(perm.begin(), perm.end(), 0);
      do {
        choices.push_back(perm);
      } while (std::next_permutation(perm.begin(), perm.end()));
    }
    return choices;
  }

  absl::Status Finish() {
    // Symbols behind a list have their numbers when its length is known.
    InstanceResult result =
        has_lists_ ? BuildInstance(rule_, structure_, limits_, meanings_) : Complete(rule_, structure_, builder_);
    if (result.outcome == InstanceResult::Outcome::kNone) return absl::OkStatus();
    if (result.outcome == InstanceResult::Outcome::kError) {
      const std::string at = Describe(rule_, structure_);
      return Error(rule_,
                   absl::StrCat(at.empty() ? "" : absl::StrCat("at ", at, ": "), "the right side: ", result.why));
    }
    if (++count_ > limits_.max_instances) {
      return Error(rule_, absl::StrCat("more than ", limits_.max_instances, " combinations of structural values"));
    }
    return visit_(structure_, std::move(result.instance));
  }

  absl::Status TooManySteps() const { return Error(rule_, "too many structural values to try"); }

  static constexpr int64_t kMaxSteps = 2000000;

  const CompiledRule& rule_;
  const DomainLimits& limits_;
  const Visit& visit_;
  StructuralAssignment structure_;
  MeaningCache& meanings_;
  SymbolicBuilder builder_;
  bool has_lists_ = false;
  int count_ = 0;
  int64_t steps_ = 0;
};

std::string PrintValue(const RuleInstance& instance, SymbolicValue value) {
  const SymbolicNode& node = instance.nodes[value.node];
  if (node.op == nullptr) return node.name;
  const std::string number = absl::StrCat("%", value.node);
  return node.shapes.size() > 1 ? absl::StrCat(number, ".", value.output) : number;
}

std::string PrintNode(const RuleInstance& instance, const SymbolicNode& node) {
  const auto print = [](std::string* out, const ExprPtr& expr) { out->append(PrintExpr(expr, {})); };
  if (node.op == nullptr) return node.name;
  std::string text = absl::StrCat(node.op->name, "(");
  const char* separator = "";
  for (const SymbolicValue& input : node.inputs) {
    absl::StrAppend(&text, separator, PrintValue(instance, input));
    separator = ", ";
  }
  std::map<std::string, std::vector<ExprPtr>> attrs;
  for (size_t v = 0; v < node.meaning->variables.size(); ++v) {
    const Meaning::Variable& variable = node.meaning->variables[v];
    if (variable.kind == Meaning::VarKind::kAttr) attrs[variable.attr].push_back(node.indices[v]);
  }
  for (size_t p = 0; p < node.params.size(); ++p) attrs[node.meaning->params[p]].push_back(node.params[p]);
  for (const auto& [name, values] : attrs)
    absl::StrAppend(&text, ", ", name, "=[", absl::StrJoin(values, ",", print), "]");
  return text + ")";
}

}  // namespace

DType ConstantType(const CompiledRule& rule, const StructuralAssignment& structure, int attr) {
  for (int i = 0; i < rule.num_lhs_nodes(); ++i) {
    const RuleNode& leaf = rule.nodes()[i];
    if (!leaf.value || leaf.value->kind != ArgExpr::Kind::kAttr || leaf.value->id != attr) continue;
    if (leaf.dtype_attr < 0) return leaf.floating ? DType::kFloat32 : leaf.dtype;
    const std::vector<int64_t>& type = structure.attrs[leaf.dtype_attr];
    return type.empty() ? DType::kFloat32 : static_cast<DType>(type[0]);
  }
  return DType::kFloat32;
}

std::vector<int64_t> StructuralAssignment::Key() const {
  std::vector<int64_t> key(packs.begin(), packs.end());
  for (const std::vector<int64_t>& values : attrs) {
    if (values.empty()) {
      key.push_back(0);
      continue;
    }
    key.push_back(static_cast<int64_t>(values.size()));
    key.insert(key.end(), values.begin(), values.end());
  }
  for (uint32_t choice : broadcasts) {
    key.push_back(choice);
  }
  return key;
}

InstanceResult BuildInstance(const CompiledRule& rule, const StructuralAssignment& structure,
                             const DomainLimits& limits, MeaningCache& meanings) {
  InstanceResult result;
  SymbolicBuilder builder(rule, structure, limits, meanings);
  if (!WithinLimits(rule, structure, limits)) return result;
  while (builder.next() < rule.num_lhs_nodes()) {
    if (!builder.BuildNext()) {
      result.why = builder.why();
      return result;
    }
  }
  return Complete(rule, structure, std::move(builder));
}

DomainLimits SmallLimits(const CompiledRule& rule) {
  MeaningCache meanings;
  return SmallLimits(rule, meanings);
}

DomainLimits SmallLimits(const CompiledRule& rule, MeaningCache& meanings) {
  DomainLimits limits;
  limits.max_rank = 4;
  limits.max_perm_rank = 3;
  limits.max_broadcast_rank = 2;
  for (const RuleNode& node : rule.nodes()) {
    const int dims = static_cast<int>(node.shape.dims.size());
    int& limit = node.shape.broadcasts ? limits.max_broadcast_rank : limits.max_rank;
    limit = std::max(limit, std::min(dims, kMostAxes));
  }
  // Shapes that attributes spell out show in instances alone.
  const auto has_instance = [&] {
    return absl::IsCancelled(
        ForEachInstance(rule, limits, meanings, [](const RuleInstance&) { return absl::CancelledError(); }));
  };
  while (limits.max_rank < kMostAxes && !has_instance()) ++limits.max_rank;
  return limits;
}

absl::Status ForEachInstance(const CompiledRule& rule, const DomainLimits& limits,
                             const std::function<absl::Status(RuleInstance)>& visit) {
  MeaningCache meanings;
  return ForEachInstance(rule, limits, meanings, visit);
}

absl::Status ForEachInstance(const CompiledRule& rule, const DomainLimits& limits, MeaningCache& meanings,
                             const std::function<absl::Status(RuleInstance)>& visit) {
  const auto visit_one = [&](const StructuralAssignment&, RuleInstance instance) { return visit(std::move(instance)); };
  RETURN_IF_ERROR(Enumerator(rule, limits, meanings, visit_one).Run());
  for (const auto& other : rule.other_counts()) {
    RETURN_IF_ERROR(Enumerator(*other, limits, meanings, visit_one).Run());
  }
  return absl::OkStatus();
}

absl::Status ForEachStructuralAssignment(
    const CompiledRule& rule, const DomainLimits& limits,
    const std::function<absl::Status(const StructuralAssignment&, RuleInstance)>& visit) {
  MeaningCache meanings;
  return Enumerator(rule, limits, meanings, visit).Run();
}

absl::StatusOr<std::vector<RuleInstance>> Instances(const CompiledRule& rule, const DomainLimits& limits) {
  std::vector<RuleInstance> instances;
  absl::Status status = ForEachInstance(rule, limits, [&](RuleInstance instance) {
    instances.push_back(std::move(instance));
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return instances;
}

std::string PrintInstance(const RuleInstance& instance) {
  const auto print = [](std::string* out, const ExprPtr& expr) { out->append(PrintExpr(expr, {})); };
  std::string text = absl::StrCat(instance.rule, " at ", instance.description, "\n");
  for (size_t n = 0; n < instance.nodes.size(); ++n) {
    const SymbolicNode& node = instance.nodes[n];
    absl::StrAppend(&text, "  ", n < static_cast<size_t>(instance.num_lhs_nodes) ? "L" : "R", " %", n, " = ",
                    PrintNode(instance, node), "  #");
    for (size_t k = 0; k < node.shapes.size(); ++k) {
      absl::StrAppend(&text, " ", DTypeName(node.dtypes[k]), "[", absl::StrJoin(node.shapes[k], ", ", print), "]");
    }
    text += "\n";
  }
  for (size_t k = 0; k < instance.lhs.size(); ++k) {
    absl::StrAppend(&text, "  ", PrintValue(instance, instance.lhs[k]), " => ", PrintValue(instance, instance.rhs[k]),
                    "\n");
  }
  for (const ExprPtr& condition : instance.conditions)
    absl::StrAppend(&text, "  when ", PrintExpr(condition, {}), "\n");
  return text;
}

}  // namespace rewright
