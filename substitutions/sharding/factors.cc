#include "substitutions/sharding/factors.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/adjoint/scope.h"
#include "core/base/status_macros.h"
#include "core/index/form_builder.h"
#include "core/ir/rewrite.h"
#include "substitutions/sharding/sides.h"

namespace rewright::sharding {
namespace {

using index::Atom;
using index::Form;
using index::Substitution;
using Sizes = std::vector<Form>;

constexpr size_t kMaxFixed = 5;        // attributes that are tried at neutral values
constexpr size_t kMaxConjectures = 6;  // of one factor

// What a part of an expression says about a factor.
struct Reading {
  int operand = 0;
  int axis = 0;
  ExprPtr at;
};

class Analysis {
 public:
  Analysis(const OpDef& op, const Application& application, const std::vector<TensorType>& inputs,
           const StructuralKey& key)
      : op_(op),
        meaning_(*application.meaning),
        scope_(meaning_, Scope::Uses::kEquations),
        degree_(scope_.NewSymbol("d", 1)),
        block_(scope_.NewSymbol("f", 1)) {
    whole_.op = &op;
    whole_.attrs = application.attrs;
    whole_.variables.resize(op.attrs.size());
    for (const TensorType& input : inputs) {
      whole_.types.push_back(input.dtype);
      whole_.operands.emplace_back();
      for (int axis = 0; axis < input.rank(); ++axis) whole_.operands.back().emplace_back(1);
    }
    for (size_t id = 0; id < meaning_.variables.size(); ++id) {
      const Meaning::Variable& var = meaning_.variables[id];
      const ExprPtr expr = Variable(static_cast<int>(id), var.name).node();
      if (var.kind == Meaning::VarKind::kSize) {
        const bool unit = op.broadcasts && (key.units[var.input] >> var.axis & 1) != 0;
        if (!unit) whole_.operands[var.input][var.axis] = scope_.FormOf(expr);
      } else if (var.kind == Meaning::VarKind::kAttr) {
        const auto is_it = [&](const AttrSpec& spec) { return spec.name == var.attr; };
        const auto spec = std::find_if(op.attrs.begin(), op.attrs.end(), is_it);
        const Form value = scope_.FormOf(expr);
        whole_.variables[spec - op.attrs.begin()].push_back(value);
        const Atom* atom = value.AsAtom();
        const bool is_symbol = atom != nullptr && atom->kind == Atom::Kind::kSymbol;
        if (is_symbol && scope_.LeafExpr(atom) == expr) attributes_.push_back(atom);
      }
    }
    for (const Requirement& requirement : meaning_.requirements) {
      if (requirement.condition->kind() != ExprKind::kLessEqual) continue;
      const Atom* less = scope_.FormOf(requirement.condition->arg(0)).AsAtom();
      const Atom* more = scope_.FormOf(requirement.condition->arg(1)).AsAtom();
      const auto is_size = [&](const Atom* atom) {
        return atom != nullptr && atom->kind == Atom::Kind::kSymbol && !IsAttribute(atom);
      };
      if (is_size(less) && is_size(more)) bounds_.emplace_back(less, more);
    }
    for (const OutputMeaning& output : meaning_.outputs) {
      Sizes shape;
      for (const ExprPtr& size : output.shape) shape.push_back(scope_.FormOf(size));
      whole_.results.push_back(std::move(shape));
      Visit(output.element, [&](const ExprPtr& node) { Note(node); });
    }
    Tie(BindingsOf(meaning_, inputs, application.attrs));
  }

  std::vector<Factor> Run() {
    std::vector<Factor> factors;
    for (const Atom* symbol : Symbols()) factors.push_back(Of(symbol));
    return factors;
  }

 private:
  // A product of sizes is required to be a product of others (a reshape), and nothing says which of them are equal:
  // those that are so here, from the front and from the back, are taken to be. Where one is left on a side, it is the
  // product of what is left on the other.
  void Tie(const Bindings& here) {
    for (const Requirement& requirement : meaning_.requirements) {
      if (!requirement.condition->IsEquation()) continue;
      std::vector<const Atom*> a, b;
      const Form left = scope_.FormOf(requirement.condition->arg(0)),
                 right = scope_.FormOf(requirement.condition->arg(1));
      if (left == right || !SymbolsOf(left, &a) || !SymbolsOf(right, &b)) continue;
      const auto equal = [&](const Atom* x, const Atom* y) { return here.variables[x->tag] == here.variables[y->tag]; };
      Substitution ties;
      const auto tie = [&](const Atom* x, const Form& value) {
        ties[x] = {value};
        ties_.push_back(absl::StrCat(x->name, "=", index::Text(value)));
      };
      size_t first = 0, last = 0;
      const size_t most = std::min(a.size(), b.size()) - 1;
      for (; first < most && equal(a[first], b[first]); ++first) tie(b[first], Form::OfAtom(a[first]));
      while (first + last < most && equal(a[a.size() - 1 - last], b[b.size() - 1 - last])) {
        tie(b[b.size() - 1 - last], Form::OfAtom(a[a.size() - 1 - last]));
        ++last;
      }
      const auto rest = [&](const std::vector<const Atom*>& all) {
        Form product = 1;
        for (size_t k = first; k + last < all.size(); ++k) product = product * Form::OfAtom(all[k]);
        return product;
      };
      if (a.size() - first - last == 1) {
        tie(a[first], rest(b));
      } else if (b.size() - first - last == 1) {
        tie(b[first], rest(a));
      }
      // A size that is a product may stand for an attribute that was tied to it.
      for (auto& entry : ties) entry.second.value = Compose(entry.second.value, ties);
      const auto apply = [&](Sizes& sizes) {
        for (Form& size : sizes) size = Compose(size, ties);
      };
      for (std::vector<Sizes>* all : {&whole_.operands, &whole_.results, &whole_.variables}) {
        std::for_each(all->begin(), all->end(), apply);
      }
    }
  }

  // The factors of a product of two or more symbols, in the order of the axes.
  static bool SymbolsOf(const Form& form, std::vector<const Atom*>* symbols) {
    const Atom* atom = form.AsAtom();
    if (atom == nullptr) return false;
    for (const Atom* factor : index::FactorsOf(atom)) {
      if (factor->kind != Atom::Kind::kSymbol || factor->tag < 0) return false;
      symbols->push_back(factor);
    }
    return true;
  }

  void Note(const ExprPtr& node) {
    if (node->IsRead()) {
      for (size_t axis = 0; axis < node->args().size(); ++axis) {
        readings_.push_back({node->operand(), static_cast<int>(axis), node->arg(axis)});
      }
    } else if (node->kind() == ExprKind::kFromIndex) {
      positions_.push_back(scope_.FormOf(node->arg(0)));
    } else if (node->kind() == ExprKind::kReduce) {
      reductions_.push_back(node);
    } else if (IsCondKind(node->kind()) && node->ReadsData() && !node->args().empty() &&
               IsIndexKind(node->arg(0)->kind())) {
      data_tests_.push_back(node);
    }
  }

  // Of which the size of some operand or result is a multiple, in the order of the axes.
  std::vector<const Atom*> Symbols() const {
    std::vector<const Atom*> symbols;
    const auto add = [&](const Form& size) {
      if (size.terms().size() != 1 || size.constant() != 0) return;
      for (const Atom* atom : index::FactorsOf(size.terms()[0].atom)) {
        const bool is_new = std::find(symbols.begin(), symbols.end(), atom) == symbols.end();
        if (atom->kind == Atom::Kind::kSymbol && is_new) symbols.push_back(atom);
      }
    };
    ForEachSize(add);
    return symbols;
  }

  void ForEachSize(const std::function<void(const Form&)>& visit) const {
    for (const std::vector<Sizes>* shapes : {&whole_.operands, &whole_.results}) {
      for (const Sizes& shape : *shapes) std::for_each(shape.begin(), shape.end(), visit);
    }
  }

  bool IsAttribute(const Atom* leaf) const {
    return std::find(attributes_.begin(), attributes_.end(), leaf) != attributes_.end();
  }

  // The form mentions the symbol, or a variable that runs over a size which does.
  bool Meets(const Form& form, const Atom* symbol) const {
    if (!form.IsKnown()) return true;
    const std::vector<const Atom*> leaves = LeavesOf(form);
    return std::any_of(leaves.begin(), leaves.end(), [&](const Atom* leaf) {
      return leaf == symbol ||
             (leaf->kind == Atom::Kind::kVariable && leaf->extent.IsKnown() && Contains(leaf->extent, symbol));
    });
  }

  // What has to do with the factor and may have a neutral value: attributes that say where its axes are read, and sizes
  // that are at most as long or as short.
  std::vector<const Atom*> Involved(const Atom* symbol) {
    std::vector<const Atom*> found;
    const auto add = [&](const Atom* leaf) {
      if (leaf != symbol && std::find(found.begin(), found.end(), leaf) == found.end()) found.push_back(leaf);
    };
    const std::function<void(const Form&)> add_leaves = [&](const Form& form) {
      if (!form.IsKnown()) return;
      for (const Atom* leaf : LeavesOf(form)) {
        if (IsAttribute(leaf)) add(leaf);
        if (leaf->kind == Atom::Kind::kVariable) add_leaves(leaf->extent);
      }
    };
    ForEachSize([&](const Form& size) {
      if (Contains(size, symbol)) add_leaves(size);
    });
    for (const Reading& reading : readings_) {
      const Form at = scope_.FormOf(reading.at);
      if (Contains(whole_.operands[reading.operand][reading.axis], symbol) || Meets(at, symbol)) add_leaves(at);
    }
    for (const auto& [less, more] : bounds_) {
      if (less == symbol) add(more);
      if (more == symbol) add(less);
    }
    if (found.size() > kMaxFixed) found.resize(kMaxFixed);
    return found;
  }

  // The values at which an attribute may leave the axis as it is: 0 of a padding; the step of windows for their length;
  // 1 of a number of groups, where that is the default; without a default the size of the axis, of a shape.
  std::vector<Form> NeutralValues(const Atom* attribute, const Atom* symbol, const std::vector<Form>& steps) const {
    const Form whole = Form::OfAtom(symbol);
    if (!IsAttribute(attribute)) return {whole};
    std::vector<Form> values;
    if (attribute->range.low <= 0) values.emplace_back(0);
    for (const Form& step : steps) {
      if (attribute->range.low == 1 && step.AsAtom() != attribute) values.push_back(step);
    }
    const AttrSpec* spec = op_.FindAttr(meaning_.variables[attribute->tag].attr);
    if (!spec->fallback) {
      values.push_back(whole);
      return values;
    }
    const auto* one = std::get_if<int64_t>(&*spec->fallback);
    const auto* list = std::get_if<std::vector<int64_t>>(&*spec->fallback);
    if (one != nullptr ? *one == 1 : list != nullptr && !list->empty() && list->front() == 1) values.emplace_back(1);
    return values;
  }

  // The steps of windows: c where a variable of the result reads the factor's axis at c*v + ..
  std::vector<Form> Steps(const Atom* symbol) {
    std::vector<Form> steps;
    ForEachWindow(symbol, [&](const Reading&, int, const Form& step, const Form&) {
      const bool is_attribute = step.AsAtom() != nullptr && IsAttribute(step.AsAtom());
      if (is_attribute && std::find(steps.begin(), steps.end(), step) == steps.end()) steps.push_back(step);
    });
    return steps;
  }

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
        absl::StrCat("each_", op_.name, "(", absl::StrJoin(right, ", "), AttrsText(whole_, names, local), ")");
    if (all_results) {
      factor->conjectures.push_back({Effect::kCut, detail, before + Combined(blocks_of, results), operands});
      return;
    }
    if (results.size() != 1 || !IsReduced(symbol)) return;
    for (const char* reduction : Reductions(meaning_.outputs[0].dtype)) {
      factor->conjectures.push_back(
          {Effect::kPartial, Joined(reduction, detail),
           absl::StrCat(before, "reduce_", reduction, "(", blocks_of, ", axes=[0], keepdims=0)"), operands});
    }
  }

  static std::string Joined(const std::string& a, const std::string& b) { return b.empty() ? a : a + ", " + b; }

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
    std::string there = AttrsText(whole_, names, local);
    if (whole_.operands.empty()) absl::StrAppend(&there, ", degree=?d");
    factor->conjectures.push_back(
        {Effect::kMade, detail,
         absl::StrCat("partition(", application(op_.name, left, AttrsText(whole_, names, whole)), ", axis=", results[0],
                      ", degree=?d) => ", application("each_" + op_.name, right, there)),
         std::vector<int>(whole_.operands.size(), -1)});
  }

  // ---------------------------------------------------------------- windows that overlap

  // An axis of the result whose position v reads an operand at c*v + rest: blocks of c*f elements with as much of their
  // neighbours as `rest` reaches beyond them.
  void ConjectureHalos(const Atom* symbol, Factor* factor) {
    ForEachWindow(symbol, [&](const Reading& reading, int axis, const Form& step, const Form& rest) {
      const Form low = BoundOf(rest, /*upper=*/false), high = BoundOf(rest, /*upper=*/true);
      if (!low.IsKnown() || !high.IsKnown() || (rest.Is(0) && step.Is(1))) return;
      if (factor->conjectures.size() < kMaxConjectures) {
        ConjectureHalo(symbol, reading, axis, step, -low, high + 1 - step, factor);
      }
    });
  }

  // Where an axis of exactly that size is read at step*v + rest for the position v of axis `axis` of the only result.
  void ForEachWindow(const Atom* symbol,
                     const std::function<void(const Reading&, int axis, const Form& step, const Form& rest)>& visit) {
    if (whole_.results.size() != 1) return;
    const OutputMeaning& output = meaning_.outputs[0];
    for (const Reading& reading : readings_) {
      if (!(whole_.operands[reading.operand][reading.axis] == Form::OfAtom(symbol))) continue;
      const Form at = scope_.FormOf(reading.at);
      for (size_t axis = 0; at.IsKnown() && axis < output.shape.size(); ++axis) {
        const Atom* leaf = scope_.FormOf(scope_.VariableOf(output.index_vars[axis])).AsAtom();
        Form step, rest;
        if (leaf == nullptr || !Contains(at, leaf) || !SplitAt(at, leaf, &step, &rest)) continue;
        visit(reading, static_cast<int>(axis), step, rest);
      }
    }
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
        if (IsAttribute(leaf) && !window) padding[leaf] = {0};
      }
    }
    const auto at_blocks = [&](const Form& form) { return Compose(Compose(form, padding), {{symbol, {with_edges}}}); };
    const auto whole = [&](const Form& form) { return Compose(form, {{symbol, {degree_ * step * block_}}}); };
    const Form local_extent = at_blocks(extent), apart = whole(extent) - degree_ * block_;
    const bool crops = !(local_extent == block_);
    if (crops && !(local_extent == with_edges && step.Is(1))) return;
    Names names = NewNames();
    const std::optional<std::string> condition = crops ? std::string() : IsZero(apart, names);
    if (!condition) return;
    std::vector<std::string> left, right;
    std::vector<int> cut(whole_.operands.size(), -1);
    cut[reading.operand] = reading.axis;
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
    std::string blocks_of =
        absl::StrCat("each_", op_.name, "(", absl::StrJoin(right, ", "), AttrsText(whole_, names, at_blocks), ")");
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
    factor->conjectures.push_back({Effect::kHalo,
                                   absl::StrCat(names.Text(before), " before, ", names.Text(after), " after"),
                                   std::move(rule), std::move(cut)});
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

  // ---------------------------------------------------------------- obstacles

  bool IsReduced(const Atom* symbol) {
    return std::any_of(reductions_.begin(), reductions_.end(), [&](const ExprPtr& reduction) {
      return std::any_of(reduction->bound().begin(), reduction->bound().end(),
                         [&](const BoundVar& var) { return Meets(scope_.FormOf(var.extent), symbol); });
    });
  }

  Obstacle ObstacleOf(const Atom* symbol) {
    if (meaning_.IsOpaque()) return Obstacle::kOpaque;
    for (const Reading& reading : readings_) {
      const Form at = scope_.FormOf(reading.at);
      const bool of_it = Contains(whole_.operands[reading.operand][reading.axis], symbol);
      if (of_it && (!at.IsKnown() || !scope_.DataLeaves(at).empty())) return Obstacle::kData;
    }
    const auto asks_data = [&](const ExprPtr& side) {
      const Form form = scope_.FormOf(side);
      return Meets(form, symbol);
    };
    for (const ExprPtr& test : data_tests_) {
      if (std::any_of(test->args().begin(), test->args().end(), asks_data)) return Obstacle::kData;
    }
    for (const ExprPtr& reduction : reductions_) {
      for (const BoundVar& var : reduction->bound()) {
        if (IsPosition(reduction->reduction()) && Meets(scope_.FormOf(var.extent), symbol)) return Obstacle::kPosition;
      }
    }
    const bool counted =
        std::any_of(positions_.begin(), positions_.end(), [&](const Form& at) { return Meets(at, symbol); });
    if (counted) return IsReduced(symbol) ? Obstacle::kInside : Obstacle::kPosition;
    if (IsReduced(symbol)) {
      for (const Sizes& shape : whole_.results) {
        for (const Form& size : shape) {
          if (size == Form::OfAtom(symbol)) return Obstacle::kInside;
        }
      }
    }
    const auto is_sum = [&](const Form& size) {
      return Contains(size, symbol) && (size.terms().size() > 1 || size.constant() != 0);
    };
    for (const std::vector<Sizes>* shapes : {&whole_.operands, &whole_.results}) {
      for (const Sizes& shape : *shapes) {
        if (std::any_of(shape.begin(), shape.end(), is_sum)) return Obstacle::kSeam;
      }
    }
    const auto is_product = [&](const Form& size) {
      return Contains(size, symbol) && size.AsAtom() != nullptr && !size.AsAtom()->IsLeaf();
    };
    for (const std::vector<Sizes>* shapes : {&whole_.operands, &whole_.results}) {
      for (const Sizes& shape : *shapes) {
        if (std::any_of(shape.begin(), shape.end(), is_product)) return Obstacle::kStrided;
      }
    }
    return Obstacle::kRefuted;
  }

  const OpDef& op_;
  const Meaning& meaning_;
  Scope scope_;
  const Form degree_, block_;
  std::vector<std::string> ties_;  // what is taken to be equal, for the reader
  Symbolic whole_;
  std::vector<const Atom*> attributes_;  // symbols that are integer attributes
  std::vector<Reading> readings_;
  std::vector<Form> positions_;  // that are elements
  std::vector<ExprPtr> reductions_;
  std::vector<ExprPtr> data_tests_;                          // comparisons of indices with elements in them
  std::vector<std::pair<const Atom*, const Atom*>> bounds_;  // sizes of which the first is at most the second
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
