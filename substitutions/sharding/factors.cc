#include "substitutions/sharding/factors.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/index/compose.h"
#include "core/index/form_builder.h"
#include "core/index/print.h"
#include "core/index/range.h"
#include "core/lift/lift.h"
#include "substitutions/sharding/declared.h"
#include "substitutions/sharding/sides.h"

namespace rewright::sharding {
namespace {

using index::Atom;
using index::Form;
using index::Substitution;

constexpr size_t kMaxConjectures = 6;  // of one factor

// The factors of one application.
class Analysis : Declared {
 public:
  using Declared::Declared;

  std::vector<Factor> Run() {
    std::vector<Factor> factors;
    for (const Atom* symbol : Symbols()) factors.push_back(Of(symbol));
    return factors;
  }

 private:
  Factor Of(const Atom* symbol) {
    Factor factor;
    factor.symbol = symbol->name;
    for (size_t k = 0; k < whole_.operands.size(); ++k)
      NoteAxes(OperandName(op_, k), whole_.operands[k], symbol, &factor);
    for (size_t k = 0; k < whole_.results.size(); ++k) {
      NoteAxes(whole_.results.size() == 1 ? "out" : absl::StrCat("out", k), whole_.results[k], symbol, &factor);
    }
    if (factor.axes.empty()) return factor;
    factor.obstacle = ObstacleOf(symbol);
    if (meaning_.IsOpaque()) return factor;
    ConjectureCut(symbol, {}, 1, absl::StrJoin(ties_, ", "), &factor);
    ConjectureHalos(symbol, &factor);
    ConjectureFixed(symbol, &factor);
    if (factor.obstacle == Obstacle::kInside) return factor;
    by_position_ = true;
    // Scattered blocks would be read from everywhere.
    const bool scattered = factor.obstacle == Obstacle::kSeam || factor.obstacle == Obstacle::kStrided;
    if (!scattered) ConjectureCut(symbol, {}, 1, absl::StrJoin(ties_, ", "), &factor);
    ConjectureHalos(symbol, &factor);
    by_position_ = false;
    return factor;
  }

  void NoteAxes(const std::string& tensor, const Sizes& shape, const Atom* symbol, Factor* factor) const {
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (Contains(shape[axis], symbol)) factor->axes.push_back(absl::StrCat(tensor, ".", axis));
    }
  }

  // ---------------------------------------------------------------- blocks without communication, partial results

  // The law with some attributes at neutral values, as few as possible.
  void ConjectureFixed(const Atom* symbol, Factor* factor) {
    struct Choice {
      size_t fixed = 0;
      std::vector<size_t> value;  // by attribute: 0 is free
    };
    const std::vector<const Atom*> involved = Involved(symbol);
    const std::vector<Form> steps = Steps(symbol);
    std::vector<std::vector<Form>> values;
    std::vector<Choice> choices = {{}};
    for (const Atom* attribute : involved) {
      values.push_back(NeutralValues(attribute, symbol, steps));
      std::vector<Choice> more;
      for (const Choice& choice : choices) {
        for (size_t value = 0; value <= values.back().size(); ++value) {
          more.push_back(choice);
          more.back().value.push_back(value);
          more.back().fixed += value > 0;
        }
      }
      choices = std::move(more);
    }
    std::stable_sort(choices.begin(), choices.end(),
                     [](const Choice& a, const Choice& b) { return a.fixed < b.fixed; });
    size_t fixed = choices.back().fixed + 1;  // of the first conjecture: with more of them it says less
    for (const Choice& choice : choices) {
      if (choice.fixed == 0) continue;
      if (choice.fixed > fixed || factor->conjectures.size() >= kMaxConjectures) return;
      Substitution at;
      std::vector<std::string> details;
      for (size_t k = 0; k < involved.size(); ++k) {
        if (choice.value[k] == 0) continue;
        const Form& value = values[k][choice.value[k] - 1];
        at[involved[k]] = {value};
        details.push_back(absl::StrCat(involved[k]->name, "=", index::Text(value)));
      }
      const size_t before = factor->conjectures.size();
      ConjectureCut(symbol, at, 1, absl::StrJoin(details, ", "), factor);
      for (const Form& step : steps) ConjectureCut(symbol, at, step, absl::StrJoin(details, ", "), factor);
      for (size_t k = before; k < factor->conjectures.size(); ++k) factor->conjectures[k].special = true;
      if (factor->conjectures.size() > before) fixed = std::min(fixed, choice.fixed);
    }
  }

  // Which axis of the tensor is `degree` times as long where the symbol is; -1: none. False: it is not so.
  bool CutAxis(const Sizes& whole, const Sizes& local, int* axis) const {
    *axis = -1;
    for (size_t k = 0; k < whole.size(); ++k) {
      if (whole[k] == local[k]) continue;
      if (*axis >= 0 || !(whole[k] == degree_ * local[k])) return false;
      *axis = static_cast<int>(k);
    }
    return true;
  }

  // Blocks of `unit` times as many elements as of positions.
  void ConjectureCut(const Atom* symbol, const Substitution& fixed, const Form& unit, const std::string& detail,
                     Factor* factor) {
    const Substitution blocks = {{symbol, {unit * block_}}}, all = {{symbol, {degree_ * unit * block_}}};
    const auto local = [&](const Form& form) { return Compose(Compose(form, fixed), blocks); };
    const auto whole = [&](const Form& form) { return Compose(Compose(form, fixed), all); };
    const auto cut_axes = [&](const std::vector<Sizes>& shapes, std::vector<int>* axes) {
      for (const Sizes& shape : shapes) {
        axes->push_back(-1);
        if (!CutAxis(Each(shape, whole), Each(shape, local), &axes->back())) return false;
      }
      return true;
    };
    std::vector<int> operands, results;
    if (!cut_axes(whole_.operands, &operands) || !cut_axes(whole_.results, &results)) return;
    const auto is_cut = [](int axis) { return axis >= 0; };
    const bool some = std::any_of(operands.begin(), operands.end(), is_cut);
    const bool all_results = std::all_of(results.begin(), results.end(), is_cut);
    const bool no_result = std::none_of(results.begin(), results.end(), is_cut);
    if (!some && all_results) return ConjectureMade(symbol, fixed, results, detail, factor);
    if (!some || (!all_results && !no_result)) return;
    Names names = NewNames();
    std::vector<std::string> left, right;
    for (size_t k = 0; k < operands.size(); ++k) {
      const std::string name = OperandName(op_, k), type = TypeText(k);
      const std::string shape = ShapeText(Each(whole_.operands[k], local), names).substr(1);
      if (operands[k] < 0) {
        left.push_back(absl::StrCat(name, type, "[", shape));
        right.push_back(absl::StrCat("replicate(", name, ", degree=d)"));
      } else {
        const char* comma = shape == "]" ? "" : ", ";
        left.push_back(absl::StrCat("combine(", name, type, "[d", comma, shape, ", axis=", operands[k], ")"));
        right.push_back(name);
      }
    }
    const std::string before =
        absl::StrCat(op_.name, "(", absl::StrJoin(left, ", "), AttrsText(whole_, names, whole), ") => ");
    const std::string blocks_of =
        by_position_
            ? BlocksOf(right, AttrsText(whole_, names, whole), operands, results, "d", names)
            : absl::StrCat("each_", op_.name, "(", absl::StrJoin(right, ", "), AttrsText(whole_, names, local), ")");
    if (all_results) {
      factor->conjectures.push_back(
          {Effect::kCut, Joined(Positional(), detail), before + Combined(blocks_of, results), operands});
      return;
    }
    if (results.size() != 1 || IsReduced(symbol) == by_position_) return;
    for (const char* reduction : Reductions(meaning_.outputs[0].dtype)) {
      factor->conjectures.push_back(
          {Effect::kPartial, Joined(Joined(reduction, Positional()), detail),
           absl::StrCat(before, "reduce_", reduction, "(", blocks_of, ", axes=[0], keepdims=0)"), operands});
    }
  }

  static std::string Joined(const std::string& a, const std::string& b) {
    return b.empty() ? a : a.empty() ? b : a + ", " + b;
  }

  std::string Positional() const { return by_position_ ? "by position" : ""; }

  // Edges of neighbours' blocks that the devices have, by operand.
  struct Edges {
    Sizes before, after;
  };
  // block_f of those operands.
  std::string BlocksOf(const std::vector<std::string>& operands, const std::string& attrs, const std::vector<int>& cut,
                       const std::vector<int>& results, const std::string& degree, Names& names,
                       const Edges& edges = {}) const {
    const BlockNames called(op_);
    std::string all =
        absl::StrCat(absl::StrJoin(operands, ", "), attrs, ", ", called.cut, "=[", absl::StrJoin(cut, ", "), "], ",
                     called.result, "=[", absl::StrJoin(results, ", "), "]");
    if (!edges.before.empty()) {
      absl::StrAppend(&all, ", ", called.before, "=", ShapeText(edges.before, names), ", ", called.after, "=",
                      ShapeText(edges.after, names));
    }
    absl::StrAppend(&all, ", ", called.degree, "=", degree);
    if (operands.empty()) absl::StrAppend(&all, ", ", called.here, "=", degree);
    return absl::StrCat("block_", op_.name, "(", operands.empty() ? all.substr(2) : all, ")");
  }

  // The axis is in no operand.
  void ConjectureMade(const Atom* symbol, const Substitution& fixed, const std::vector<int>& results,
                      const std::string& detail, Factor* factor) {
    if (results.size() != 1) return;
    Names names = NewNames();
    names.Set(block_.AsAtom(), absl::StrCat("(", names.Of(symbol), " div ?d)"));
    const Substitution blocks = {{symbol, {block_}}};
    const auto whole = [&](const Form& form) { return Compose(form, fixed); };
    const auto local = [&](const Form& form) { return Compose(Compose(form, fixed), blocks); };
    std::vector<std::string> left, right;
    for (size_t k = 0; k < whole_.operands.size(); ++k) {
      left.push_back(absl::StrCat(OperandName(op_, k), TypeText(k), ShapeText(Each(whole_.operands[k], whole), names)));
      right.push_back(absl::StrCat("replicate(", OperandName(op_, k), ", degree=?d)"));
    }
    const auto application = [&](const std::string& name, const std::vector<std::string>& operands,
                                 const std::string& attrs) {
      const std::string all = absl::StrJoin(operands, ", ") + attrs;
      return absl::StrCat(name, "(", operands.empty() ? all.substr(std::min<size_t>(2, all.size())) : all, ")");
    };
    const std::string attrs = AttrsText(whole_, names, whole);
    const std::vector<int> none(whole_.operands.size(), -1);
    const std::string blocks_of =
        by_position_ ? BlocksOf(right, attrs, none, results, "?d", names)
                     : application("each_" + op_.name, right,
                                   AttrsText(whole_, names, local) + (whole_.operands.empty() ? ", degree=?d" : ""));
    factor->conjectures.push_back({Effect::kMade, Joined(Positional(), detail),
                                   absl::StrCat("partition(", application(op_.name, left, attrs), ", axis=", results[0],
                                                ", degree=?d) => ", blocks_of),
                                   none});
  }

  // ---------------------------------------------------------------- windows that overlap

  // An axis of the result whose position v reads an operand at c*v + rest: blocks of c*f elements with as much of their
  // neighbours as `rest` reaches beyond them.
  void ConjectureHalos(const Atom* symbol, Factor* factor) {
    ForEachWindow(symbol, [&](const Reading& reading, int axis, const Form& step, const Form& rest) {
      const Form low = BoundOf(rest, /*upper=*/false), high = BoundOf(rest, /*upper=*/true);
      if (!low.IsKnown() || !high.IsKnown() || (rest.Is(0) && step.Is(1))) return;
      if (by_position_ && (!IsPolynomial(low) || !IsPolynomial(high))) return;  // no window
      if (by_position_ || factor->conjectures.size() < kMaxConjectures) {
        ConjectureHalo(symbol, reading, axis, step, -low, high + 1 - step, factor);
      }
    });
  }

  void ConjectureHalo(const Atom* symbol, const Reading& reading, int result, const Form& step, const Form& before,
                      const Form& after, Factor* factor) {
    // No other axis has the symbol, but for the result's where the window keeps the size.
    for (size_t k = 0; k < whole_.operands.size(); ++k) {
      for (size_t axis = 0; axis < whole_.operands[k].size(); ++axis) {
        const bool is_it = static_cast<int>(k) == reading.operand && static_cast<int>(axis) == reading.axis;
        if (!is_it && Contains(whole_.operands[k][axis], symbol)) return;
      }
    }
    const Form& extent = whole_.results[0][result];
    const Form with_edges = step * block_ + before + after;
    // Padding is done by the halo: attributes that move the window, and those that only make the result longer.
    Substitution padding;
    for (const Form& form : {before, extent}) {
      for (const Atom* leaf : LeavesOf(form)) {
        const bool window = Contains(step, leaf) || Contains(before + after + step, leaf);
        if (IsAttribute(leaf) && !window && !by_position_) padding[leaf] = {0};
      }
    }
    const auto at_blocks = [&](const Form& form) { return Compose(Compose(form, padding), {{symbol, {with_edges}}}); };
    const auto whole = [&](const Form& form) { return Compose(form, {{symbol, {degree_ * step * block_}}}); };
    const Form local_extent = at_blocks(extent), apart = whole(extent) - degree_ * block_;
    const bool crops = !by_position_ && !(local_extent == block_);
    if (crops && !(local_extent == with_edges && step.Is(1))) return;
    Names names = NewNames();
    const std::optional<std::string> condition = crops ? std::string() : IsZero(apart, names);
    if (!condition) return;
    std::vector<std::string> left, right;
    std::vector<int> cut(whole_.operands.size(), -1);
    Edges edges{Sizes(cut.size(), 0), Sizes(cut.size(), 0)};
    cut[reading.operand] = reading.axis;
    edges.before[reading.operand] = before;
    edges.after[reading.operand] = after;
    for (size_t k = 0; k < whole_.operands.size(); ++k) {
      const std::string name = OperandName(op_, k);
      Sizes shape = whole_.operands[k];
      if (static_cast<int>(k) != reading.operand) {
        left.push_back(absl::StrCat(name, TypeText(k), ShapeText(shape, names)));
        right.push_back(absl::StrCat("replicate(", name, ", degree=d)"));
        continue;
      }
      shape[reading.axis] = step * block_;
      shape.insert(shape.begin(), degree_);
      left.push_back(
          absl::StrCat("combine(", name, TypeText(k), ShapeText(shape, names), ", axis=", reading.axis, ")"));
      right.push_back(absl::StrCat("halo(", name, ", axis=", reading.axis, ", before=", names.Text(before),
                                   ", after=", names.Text(after), ")"));
    }
    std::string blocks_of = by_position_
                                ? BlocksOf(right, AttrsText(whole_, names, whole), cut, {result}, "d", names, edges)
                                : absl::StrCat("each_", op_.name, "(", absl::StrJoin(right, ", "),
                                               AttrsText(whole_, names, at_blocks), ")");
    if (crops) {
      Sizes starts(whole_.results[0].size(), 0), stops = whole_.results[0];
      starts[result] = before;
      stops[result] = before + block_;
      blocks_of = absl::StrCat("each_slice(", blocks_of, ", starts=", ShapeText(starts, names),
                               ", stops=", ShapeText(stops, names), ")");
    }
    std::string rule = absl::StrCat(op_.name, "(", absl::StrJoin(left, ", "), AttrsText(whole_, names, whole), ") => ",
                                    Combined(blocks_of, {result}));
    if (!condition->empty()) absl::StrAppend(&rule, " when ", *condition);
    const std::string reach = absl::StrCat(names.Text(before), " before, ", names.Text(after), " after");
    factor->conjectures.push_back({Effect::kHalo, Joined(reach, Positional()), std::move(rule), std::move(cut)});
  }

  static bool IsPolynomial(const Form& form) {
    return std::all_of(form.terms().begin(), form.terms().end(), [](const Form::Term& term) {
      const auto factors = index::FactorsOf(term.atom);
      return std::all_of(factors.begin(), factors.end(), [](const Atom* atom) { return atom->IsLeaf(); });
    });
  }

  // When the form is 0, as text: empty where it is, nothing where no rule can say it. 1 + a div b is 0 for -b <= a < 0.
  static std::optional<std::string> IsZero(const Form& form, Names& names) {
    if (form.Is(0)) return "";
    if (form.terms().size() != 1 || form.terms()[0].factor != 1 || form.constant() != 1) return std::nullopt;
    const Atom* atom = form.terms()[0].atom;
    if (atom->kind != Atom::Kind::kFloorDiv) return std::nullopt;
    return absl::StrCat(names.Comparison(-atom->a, /*strict=*/true), " and ",
                        names.Comparison(atom->a + atom->b, /*strict=*/false));
  }

  bool by_position_ = false;  // conjectures are about block_f

  // ---------------------------------------------------------------- text

  Names NewNames() const {
    Names names(op_);
    names.Set(degree_.AsAtom(), "d");
    names.Set(block_.AsAtom(), "f");
    for (const Atom* attribute : attributes_) names.Set(attribute, "?" + attribute->name);
    return names;
  }

  std::string TypeText(size_t k) const {
    const auto names_type = [](const AttrSpec& spec) { return spec.kind == AttrKind::kDType; };
    const bool plain =
        std::none_of(op_.attrs.begin(), op_.attrs.end(), names_type) &&
        std::all_of(whole_.types.begin(), whole_.types.end(), [](DType type) { return type == DType::kFloat32; });
    return plain ? "" : absl::StrCat(": ", DTypeName(whole_.types[k]));
  }

  static std::string Combined(const std::string& blocks, const std::vector<int>& axes) {
    if (axes.size() == 1) return absl::StrCat("combine(", blocks, ", axis=", axes[0], ")");
    std::vector<std::string> results;
    for (size_t k = 0; k < axes.size(); ++k) results.push_back(absl::StrCat("combine(q.", k, ", axis=", axes[k], ")"));
    return absl::StrCat("let q = ", blocks, " in { ", absl::StrJoin(results, ", "), " }");
  }

  static Sizes Each(const Sizes& sizes, const std::function<Form(const Form&)>& value) {
    Sizes results;
    for (const Form& size : sizes) results.push_back(value(size));
    return results;
  }

  static std::vector<const char*> Reductions(DType dtype) {
    if (dtype == DType::kBool) return {"and", "or"};
    if (IsFloating(dtype)) return {"sum", "max", "min", "prod", "mean"};
    return {"sum", "max", "min", "prod"};
  }
};

}  // namespace

const char* EffectName(Effect effect) {
  switch (effect) {
    case Effect::kCut: return "cut";
    case Effect::kHalo: return "halo";
    case Effect::kPartial: return "partial";
    case Effect::kMade: return "made";
  }
  return "";
}

const char* ObstacleText(Obstacle obstacle) {
  switch (obstacle) {
    case Obstacle::kNone: return "none";
    case Obstacle::kOpaque: return "opaque: no declaration of its elements";
    case Obstacle::kData: return "indexed by elements";
    case Obstacle::kPosition: return "the position is an element, or counted";
    case Obstacle::kInside: return "reduced inside";
    case Obstacle::kSeam: return "seam: pieces of several sizes";
    case Obstacle::kStrided: return "strided: blocks lie scattered";
    case Obstacle::kElsewhere: return "elsewhere: a block reads others";
    case Obstacle::kUnread: return "unread: only the shape counts";
    case Obstacle::kAddend: return "addend: it would count once for every device";
    case Obstacle::kRefuted: return "no law holds";
  }
  return "";
}

absl::StatusOr<std::vector<Factor>> FactorsOf(const OpDef& op, const std::vector<TensorType>& inputs,
                                              const Attrs& attrs) {
  MeaningCache cache;
  ASSIGN_OR_RETURN(const Application application, Apply(op, inputs, attrs, cache));
  return Analysis(op, application, inputs, StructuralKeyOf(op, inputs, application.attrs)).Run();
}

}  // namespace rewright::sharding
