#include "verifier/check/rule_instances.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "verifier/check/rule_graph.h"
#include "verifier/check/rule_values.h"

namespace rewright::check {
namespace {

using Class = Attribute::Class;

constexpr int64_t kMostFixedInt = 3;  // that a structural integer runs to
constexpr size_t kMostAxes = 12;      // of which subsets are taken
constexpr int64_t kMostPaths = 2000000;

// Structural values by number, one path through all of them after the other: who builds an instance picks them on the
// way, as many as it comes to, and begins again for the next.
class Choices {
 public:
  size_t Pick(size_t count) {
    if (count == 0) throw NoInstance{"there is no structural value"};
    if (at_ == picks_.size()) picks_.push_back({0, count});
    return picks_[at_++].value;
  }
  void Again() { at_ = 0; }
  // False: that was the last path.
  bool Next() {
    while (!picks_.empty() && ++picks_.back().value == picks_.back().count) picks_.pop_back();
    at_ = 0;
    return !picks_.empty();
  }

 private:
  struct Choice {
    size_t value, count;
  };
  std::vector<Choice> picks_;
  size_t at_ = 0;
};

// Builds one instance of a law.
class Builder : public Scope {
 public:
  Builder(const RuleGraph& law, const DomainLimits& domain, MeaningCache& meanings, Choices& choices)
      : law_(law), domain_(domain), meanings_(meanings), choices_(choices), fixed_(law.attrs.size()) {}

  RuleInstance Build() {
    // How many symbols lists have is known when the left side has been gone through.
    const auto is_list = [](const Attribute& attr) { return attr.kind == Class::kList; };
    if (std::any_of(law_.attrs.begin(), law_.attrs.end(), is_list)) {
      BuildLeft();
      choices_.Again();
    }
    BuildLeft();
    RuleInstance instance;
    instance.lhs = Outputs(law_.left);
    for (const ParsedExpr& condition : law_.conditions) {
      const Cond truth = As<Cond>(Evaluate(condition, *this), "expected a condition");
      if (truth.node()->IsFalse()) throw NoInstance{"a condition fails"};
      if (!truth.node()->IsTrue()) instance.conditions.push_back(truth.node());
    }
    on_left_ = false;
    while (nodes_.size() < law_.nodes.size()) AddNode();
    instance.rhs = Outputs(law_.right);
    instance.rule = law_.name;
    instance.description = Description();
    instance.symbols = Symbols();
    instance.reals = Reals();
    instance.nodes = std::move(nodes_);
    instance.num_lhs_nodes = static_cast<int>(law_.num_left);
    return instance;
  }

  bool on_left() const { return on_left_; }

  // ---------------------------------------------------------------- names

  Value Named(const ParsedExpr& name) const override {
    const auto number = [&](const std::vector<std::string>& names) {
      return static_cast<size_t>(std::find(names.begin(), names.end(), name.text) - names.begin());
    };
    if (name.kind == ParsedExpr::Kind::kAttribute) return NamedAttribute(name.text);
    const size_t size = number(law_.sizes), pack = number(law_.packs);
    if (size < law_.sizes.size()) return Variable(static_cast<int>(size), name.text);
    if (pack == law_.packs.size()) throw NoInstance{absl::StrCat("nothing binds ", name.text)};
    int first = static_cast<int>(law_.sizes.size());
    for (size_t p = 0; p < pack; ++p) first += packs_[p];
    return Elements(first, packs_[pack], name.text);
  }

  List ShapeOf(const ParsedExpr& tensor) const override {
    const auto found = law_.tensors.find(tensor.text);
    if (found == law_.tensors.end() || found->second.node >= static_cast<int>(nodes_.size())) {
      throw NoInstance{absl::StrCat("the shape of ", tensor.text, " is not known")};
    }
    const SymbolicNode& node = nodes_[found->second.node];
    if (node.shapes.size() != 1) throw NoInstance{"the shape of several outputs"};
    List shape;
    for (const ExprPtr& size : node.shapes[0]) shape.emplace_back(size);
    return shape;
  }

 private:
  static List Elements(int first, int count, const std::string& name) {
    List list;
    for (int i = 0; i < count; ++i) list.push_back(Variable(first + i, absl::StrCat(name, i)));
    return list;
  }

  // Sizes come first, then the elements of packs, then integers and the elements of lists.
  int SymbolsOf(size_t attr) const {
    const Class kind = law_.attrs[attr].kind;
    if (kind == Class::kList) return fixed_[attr].empty() ? 0 : static_cast<int>(fixed_[attr][0]);
    return kind == Class::kInt ? 1 : 0;
  }

  Value NamedAttribute(const std::string& name) const {
    const int number = law_.FindAttr(name);
    if (number < 0) throw NoInstance{absl::StrCat("nothing binds ?", name)};
    const Attribute& attr = law_.attrs[number];
    const std::vector<int64_t>& fixed = fixed_[number];
    const std::string printed = absl::StrCat("?", name);
    if (attr.kind == Class::kReal) {
      const auto before = law_.attrs.begin() + number;
      const auto real = static_cast<int>(
          std::count_if(law_.attrs.begin(), before, [](const Attribute& other) { return other.kind == Class::kReal; }));
      if (IsFloating(TypeOfReal(name))) return Parameter(real, printed, DType::kFloat32);
      return Element{Parameter(real, printed, DType::kInt64)};
    }
    if (attr.kind == Class::kFixedList) {
      List list;
      for (int64_t value : fixed) list.emplace_back(value);
      return list;
    }
    int first = static_cast<int>(law_.sizes.size()) + std::accumulate(packs_.begin(), packs_.end(), 0);
    for (int a = 0; a < number; ++a) first += SymbolsOf(static_cast<size_t>(a));
    if (attr.kind == Class::kInt) return Variable(first, printed);
    if (fixed.empty()) throw NoInstance{absl::StrCat(printed, " is bound by an application that comes later")};
    if (attr.kind == Class::kDType) return static_cast<DType>(fixed[0]);
    if (attr.kind == Class::kFixedInt) return Index(fixed[0]);
    return Elements(first, static_cast<int>(fixed[0]), printed);
  }

  // The type of the left side's constants whose value is the attribute; f32 where there are none.
  DType TypeOfReal(const std::string& attr) const {
    for (size_t i = 0; i < law_.num_left; ++i) {
      if (HasValue(law_.nodes[i], attr)) return TypeOf(law_.nodes[i].leaf);
    }
    return DType::kFloat32;
  }
  static bool HasValue(const Node& node, const std::string& attr) {
    return node.op == nullptr && node.leaf.kind == Term::Kind::kConstant &&
           node.leaf.value.kind == ParsedExpr::Kind::kAttribute && node.leaf.value.text == attr;
  }
  // Floating, where none is given: f32, which stands for the real numbers.
  DType TypeOf(const Term& leaf) const {
    return leaf.type ? As<DType>(Evaluate(*leaf.type, *this), "expected an element type") : DType::kFloat32;
  }

  std::vector<Symbol> Symbols() const {
    std::vector<Symbol> symbols;
    for (const std::string& size : law_.sizes) symbols.push_back({size, 1, true});
    for (size_t p = 0; p < packs_.size(); ++p) {
      for (int i = 0; i < packs_[p]; ++i) symbols.push_back({absl::StrCat(law_.packs[p], i), 1, true});
    }
    for (size_t a = 0; a < law_.attrs.size(); ++a) {
      const Attribute& attr = law_.attrs[a];
      for (int i = 0; i < SymbolsOf(a); ++i) {
        const std::string element = attr.kind == Class::kList ? absl::StrCat(i) : "";
        symbols.push_back({absl::StrCat("?", attr.name, element), attr.min, false});
      }
    }
    return symbols;
  }

  std::vector<RealSymbol> Reals() const {
    std::vector<RealSymbol> reals;
    for (const Attribute& attr : law_.attrs) {
      if (attr.kind != Class::kReal) continue;
      const bool constant = std::any_of(law_.nodes.begin(), law_.nodes.end(),
                                        [&](const Node& node) { return HasValue(node, attr.name); });
      reals.push_back({absl::StrCat("?", attr.name), TypeOfReal(attr.name), attr.positive, constant});
    }
    return reals;
  }

  // The structural values, for people.
  std::string Description() const {
    std::vector<std::string> parts;
    for (size_t p = 0; p < packs_.size(); ++p) parts.push_back(absl::StrCat(law_.packs[p], "..=", packs_[p]));
    for (size_t a = 0; a < fixed_.size(); ++a) {
      const std::string name = absl::StrCat("?", law_.attrs[a].name);
      switch (law_.attrs[a].kind) {
        case Class::kFixedInt: parts.push_back(absl::StrCat(name, "=", fixed_[a][0])); break;
        case Class::kFixedList: parts.push_back(absl::StrCat(name, "=[", absl::StrJoin(fixed_[a], ","), "]")); break;
        case Class::kList: parts.push_back(absl::StrCat("len(", name, ")=", fixed_[a][0])); break;
        case Class::kDType:
          parts.push_back(absl::StrCat(name, "=", DTypeName(static_cast<DType>(fixed_[a][0]))));
          break;
        default: break;
      }
    }
    parts.insert(parts.end(), stretched_.begin(), stretched_.end());
    return absl::StrJoin(parts, ", ");
  }

  // ---------------------------------------------------------------- nodes

  void BuildLeft() {
    nodes_.clear();
    stretched_.clear();
    packs_.assign(law_.packs.size(), 0);
    for (int& length : packs_) length = static_cast<int>(choices_.Pick(static_cast<size_t>(domain_.max_rank) + 1));
    ChooseAttributes(-1);
    while (nodes_.size() < law_.num_left) AddNode();
  }

  void AddNode() {
    const Node& node = law_.nodes[nodes_.size()];
    SymbolicNode built;
    if (node.op == nullptr) {
      BuildLeaf(node, &built);
    } else {
      if (on_left_) ChooseAttributes(static_cast<int>(nodes_.size()));
      BuildApplication(node, &built);
    }
    for (const auto& shape : built.shapes) {
      // The values of the left side have at most max_rank axes; the right side may need more on the way.
      if (on_left_ && shape.size() > static_cast<size_t>(domain_.max_rank))
        throw NoInstance{"more axes than the limit"};
    }
    nodes_.push_back(std::move(built));
  }

  // Chooses the structural attributes that node number `node` binds.
  void ChooseAttributes(int node) {
    for (size_t a = 0; a < law_.attrs.size(); ++a) {
      const Attribute& attr = law_.attrs[a];
      if (attr.node != node || attr.kind == Class::kInt || attr.kind == Class::kReal) continue;
      const std::vector<std::vector<int64_t>> values = ValuesOf(attr);
      fixed_[a] = values[choices_.Pick(values.size())];
    }
  }

  std::vector<std::vector<int64_t>> ValuesOf(const Attribute& attr) const {
    std::vector<std::vector<int64_t>> values;
    const auto up_to = [&](int64_t last) {
      for (int64_t value = 0; value <= last; ++value) values.push_back({value});
    };
    // Axes count in the first operand.
    int64_t rank = 0;
    if (attr.node >= 0 && !law_.nodes[attr.node].operands.empty()) {
      const Ref& operand = law_.nodes[attr.node].operands[0];
      const auto& shapes = nodes_[operand.node].shapes;
      if (operand.output < static_cast<int>(shapes.size())) rank = static_cast<int64_t>(shapes[operand.output].size());
    }
    const auto axes = static_cast<size_t>(rank);
    if (attr.kind == Class::kDType) {
      for (DType type : kPlainDTypes) values.push_back({static_cast<int64_t>(type)});
    } else if (attr.kind == Class::kList && attr.length >= 0) {
      if (attr.length <= 2 * domain_.max_rank) values.push_back({attr.length});
    } else if (attr.kind == Class::kList) {
      up_to(2 * domain_.max_rank);
    } else if (attr.kind == Class::kFixedInt) {
      up_to(attr.spec_kind == AttrKind::kFlag ? 1 : attr.spec_kind == AttrKind::kInt ? kMostFixedInt : rank - 1);
    } else if (attr.spec_kind == AttrKind::kAxes && axes <= kMostAxes) {
      for (uint32_t set = 0; set < 1U << axes; ++set) {
        std::vector<int64_t>& members = values.emplace_back();
        for (int64_t axis = 0; axis < rank; ++axis) {
          if (set >> axis & 1) members.push_back(axis);
        }
      }
    } else if (attr.spec_kind != AttrKind::kAxes && rank <= domain_.max_perm_rank) {
      std::vector<int64_t> perm(axes);
      std::iota(perm.begin(), perm.end(), 0);
      do values.push_back(perm);
      while (std::next_permutation(perm.begin(), perm.end()));
    }
    return values;
  }

  // ---------------------------------------------------------------- leaves

  void BuildLeaf(const Node& node, SymbolicNode* built) {
    const Term& leaf = node.leaf;
    built->name = leaf.name;
    built->positive = node.positive;
    built->finite = node.finite;
    built->dtypes = {TypeOf(leaf)};
    List dims = EvaluateItems(leaf.shape->dims, *this);
    if (leaf.shape->broadcasts) Stretch(leaf.name, &dims);
    std::vector<ExprPtr>& shape = built->shapes.emplace_back();
    for (const Index& dim : dims) {
      int64_t size;
      if (dim.IsInt(&size) && size < 1) throw NoInstance{"a size is below one"};
      shape.push_back(dim.node());
    }
    if (leaf.kind == Term::Kind::kConstant) SetValue(leaf, Evaluate(leaf.value, *this), built);
  }

  // Chooses a shape that broadcasts to `dims`: its last axes, each of its size or one.
  void Stretch(const std::string& name, List* dims) {
    if (dims->size() > std::min(static_cast<size_t>(domain_.max_broadcast_rank), kMostAxes)) {
      throw NoInstance{"broadcast to more axes than the limit"};
    }
    std::vector<std::pair<size_t, uint32_t>> values;  // axes, and a bit for each that is one
    for (size_t rank = 0; rank <= dims->size(); ++rank) {
      for (uint32_t units = 0; units < 1U << rank; ++units) {
        bool repeats = false;  // a size that is one anyway needs no choice
        for (size_t axis = 0; axis < rank; ++axis) {
          repeats = repeats || ((units >> axis & 1) != 0 && (*dims)[dims->size() - rank + axis].Is(1));
        }
        if (!repeats) values.emplace_back(rank, units);
      }
    }
    const auto [rank, units] = values[choices_.Pick(values.size())];
    dims->erase(dims->begin(), dims->end() - static_cast<std::ptrdiff_t>(rank));
    std::string axes;
    for (size_t axis = 0; axis < rank; ++axis) {
      const bool unit = (units >> axis & 1) != 0;
      if (unit) (*dims)[axis] = Index(1);
      axes += unit ? '1' : '=';
    }
    stretched_.push_back(absl::StrCat(name, "~[", axes, "]"));
  }

  // Sets the value of a leaf: a number, or an expression of symbols.
  void SetValue(const Term& leaf, const Value& value, SymbolicNode* built) {
    const DType type = built->dtypes[0];
    const auto* index = std::get_if<Index>(&value);
    const auto* real = std::get_if<Scalar>(&value);
    const auto* element = std::get_if<Element>(&value);
    int64_t integer;
    if (index != nullptr && index->IsInt(&integer)) return ThrowUnless(SetNumber(integer, !leaf.type, built));
    if (real != nullptr && real->node()->IsConst())
      return ThrowUnless(SetNumber(real->node()->real(), !leaf.type, built));
    ExprPtr filled;
    if (IsFloating(type)) {
      if (index != nullptr) filled = FromIndex(*index, DType::kFloat32).node();
      if (real != nullptr) filled = real->node();
    } else if (type != DType::kBool || (element != nullptr && element->value.node()->kind() == ExprKind::kParam)) {
      // A truth value is 0 or 1, which sums are not.
      if (index != nullptr) filled = FromIndex(*index, DType::kInt64).node();
      if (element != nullptr) filled = element->value.node();
    }
    if (filled == nullptr) throw NoInstance{absl::StrCat(leaf.name, " is no number of type ", DTypeName(type))};
    ThrowUnless(SetFill(filled, meanings_, built));
  }

  // ---------------------------------------------------------------- applications

  static void ThrowUnless(const absl::Status& ok) {
    if (!ok.ok()) throw NoInstance{std::string(ok.message())};
  }

  void BuildApplication(const Node& node, SymbolicNode* built) {
    const OpDef& op = *node.op;
    built->op = &op;
    StructuralKey key;
    for (const Ref& operand : node.operands) {
      const int count = static_cast<int>(nodes_[operand.node].shapes.size());
      if (operand.whole && count != 1) throw NoInstance{"an operand has several outputs: select one, or `..` for all"};
      if (operand.output >= count) throw NoInstance{absl::StrCat("there is no output ", operand.output)};
      for (int k = operand.all ? 0 : operand.output; k < (operand.all ? count : operand.output + 1); ++k) {
        built->inputs.push_back({operand.node, k});
      }
    }
    for (const SymbolicValue& input : built->inputs) {
      const SymbolicNode& operand = nodes_[input.node];
      key.ranks.push_back(static_cast<int>(operand.shapes[input.output].size()));
      key.dtypes.push_back(operand.dtypes[input.output]);
      NoteUnits(op, operand.shapes[input.output], &key);
    }
    std::vector<std::vector<ExprPtr>> values(op.attrs.size());
    for (size_t i = 0; i < op.attrs.size(); ++i) {
      const AttrSpec& spec = op.attrs[i];
      const Value value = Evaluate(node.attrs[i], *this);
      if (IsStructural(spec)) {
        key.attrs[spec.name] = FixedAttribute(spec, value, key.ranks.empty() ? 0 : key.ranks[0]);
        continue;
      }
      values[i] = OpenAttribute(spec, value);
      if (spec.kind == AttrKind::kInts) key.lengths[spec.name] = static_cast<int>(values[i].size());
      if (spec.is_shape) NoteUnits(op, values[i], &key);
    }
    ThrowUnless(BindMeaning(nodes_, key, values, meanings_, built));
  }

  // As StructuralKeyOf() does for sizes that are known to be one.
  static void NoteUnits(const OpDef& op, const std::vector<ExprPtr>& shape, StructuralKey* key) {
    if (shape.size() > 31) throw NoInstance{"a value has more than 31 axes"};
    uint32_t units = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis) units |= Index(shape[axis]).Is(1) ? 1U << axis : 0U;
    if (op.broadcasts) key->units.push_back(units);
  }

  // The integers of a list, or the one.
  static List Integers(const AttrSpec& spec, const Value& value) {
    const bool list = spec.kind == AttrKind::kInts || spec.kind == AttrKind::kAxes;
    return list ? As<List>(value, "expected a list") : List{As<Index>(value, "expected an integer")};
  }

  static std::vector<ExprPtr> OpenAttribute(const AttrSpec& spec, const Value& value) {
    if (spec.kind == AttrKind::kReal) {
      const auto* index = std::get_if<Index>(&value);
      if (index == nullptr) return {As<Scalar>(value, "expected a real number").node()};
      int64_t integer;
      if (!index->IsInt(&integer)) return {FromIndex(*index, DType::kFloat32).node()};
      return {Constant(static_cast<double>(integer), DType::kFloat32).node()};
    }
    std::vector<ExprPtr> values;
    for (const Index& element : Integers(spec, value)) {
      int64_t integer;
      if (element.IsInt(&integer) && integer < spec.min)
        throw NoInstance{absl::StrCat(spec.name, " is below its minimum")};
      values.push_back(element.node());
    }
    return values;
  }

  static Attr FixedAttribute(const AttrSpec& spec, const Value& value, int rank) {
    if (spec.kind == AttrKind::kDType) return As<DType>(value, "expected an element type");
    absl::StatusOr<Attr> attr = StructuralAttr(spec, Integers(spec, value), rank);
    ThrowUnless(attr.status());
    return *std::move(attr);
  }

  std::vector<SymbolicValue> Outputs(const std::vector<Ref>& refs) const {
    std::vector<SymbolicValue> outputs;
    for (const Ref& ref : refs) {
      const int count = static_cast<int>(nodes_[ref.node].shapes.size());
      if (ref.output >= count) throw NoInstance{absl::StrCat("there is no output ", ref.output)};
      for (int k = ref.whole ? 0 : ref.output; k < (ref.whole ? count : ref.output + 1); ++k) {
        outputs.push_back({ref.node, k});
      }
    }
    return outputs;
  }

  const RuleGraph& law_;
  const DomainLimits& domain_;
  MeaningCache& meanings_;
  Choices& choices_;
  bool on_left_ = true;
  std::vector<int> packs_;                   // lengths
  std::vector<std::vector<int64_t>> fixed_;  // values of structural attributes, lengths of lists, element types
  std::vector<std::string> stretched_;       // of each variable ~, for people
  std::vector<SymbolicNode> nodes_;
};

absl::Status InstancesOf(const ParsedLaw& law, const DomainLimits& domain,
                         const std::function<absl::Status(RuleInstance)>& visit) {
  const RuleGraph graph(law);
  MeaningCache meanings;
  Choices choices;
  int64_t count = 0, paths = 0;
  std::string why;
  do {
    if (++paths > kMostPaths) return absl::InvalidArgumentError("found too many structural values, expected fewer");
    Builder builder(graph, domain, meanings, choices);
    RuleInstance instance;
    try {
      instance = builder.Build();
    } catch (const NoInstance& unfit) {
      // If the left side makes no sense there is nothing to prove; the right side always has to make sense.
      if (!builder.on_left()) return absl::InvalidArgumentError(absl::StrCat("the right side: ", unfit.why));
      why = unfit.why;
      continue;
    }
    ++count;
    RETURN_IF_ERROR(visit(std::move(instance)));
  } while (choices.Next());
  return count > 0 ? absl::OkStatus() : absl::InvalidArgumentError(absl::StrCat("found no instance: ", why));
}

}  // namespace

absl::Status ForEachInstance(const std::string& text, const DomainLimits& domain,
                             const std::function<absl::Status(RuleInstance)>& visit) {
  ASSIGN_OR_RETURN(const ParsedLaw read, ReadLaw(text));
  ASSIGN_OR_RETURN(const std::vector<ParsedLaw> laws, LawsOfSiblings(read));
  try {
    for (const ParsedLaw& law : laws) RETURN_IF_ERROR(InstancesOf(law, domain, visit));
  } catch (const NoInstance& unfit) {
    return absl::InvalidArgumentError(unfit.why);
  } catch (const std::out_of_range&) {
    return absl::InvalidArgumentError("a function of too few arguments");
  } catch (const std::bad_variant_access&) {
    return absl::InvalidArgumentError("a function or a comparison of values of another kind");
  }
  return absl::OkStatus();
}

}  // namespace rewright::check
