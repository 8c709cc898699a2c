#include "substitutions/sharding/declared.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/index/compose.h"
#include "core/index/form_builder.h"
#include "core/index/print.h"
#include "core/index/range.h"
#include "core/ir/rewrite.h"

namespace rewright::sharding {

using index::Atom;
using index::Form;
using index::Substitution;

namespace {

constexpr size_t kMaxFixed = 5;  // attributes that are tried at neutral values

}  // namespace

Declared::Declared(const OpDef& op, const Application& application, const std::vector<TensorType>& inputs,
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
      const bool unit = spec->is_shape && op.broadcasts && (UnitsOf(key, *spec) >> var.axis & 1) != 0;
      const Form value = unit ? Form(1) : scope_.FormOf(expr);
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

// Behind those of operands stand those of attributes that are shapes.
uint32_t Declared::UnitsOf(const StructuralKey& key, const AttrSpec& shape) const {
  size_t number = key.ranks.size();
  for (const AttrSpec* spec = op_.attrs.data(); spec != &shape; ++spec) number += spec->is_shape;
  return key.units[number];
}

void Declared::Tie(const Bindings& here) {
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

bool Declared::SymbolsOf(const Form& form, std::vector<const Atom*>* symbols) {
  const Atom* atom = form.AsAtom();
  if (atom == nullptr) return false;
  for (const Atom* factor : index::FactorsOf(atom)) {
    if (factor->kind != Atom::Kind::kSymbol || factor->tag < 0) return false;
    symbols->push_back(factor);
  }
  return true;
}

void Declared::Note(const ExprPtr& node) {
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

std::vector<const Atom*> Declared::Symbols() const {
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

void Declared::ForEachSize(const std::function<void(const Form&)>& visit) const {
  for (const std::vector<Sizes>* shapes : {&whole_.operands, &whole_.results}) {
    for (const Sizes& shape : *shapes) std::for_each(shape.begin(), shape.end(), visit);
  }
}

bool Declared::IsAttribute(const Atom* leaf) const {
  return std::find(attributes_.begin(), attributes_.end(), leaf) != attributes_.end();
}

bool Declared::Meets(const Form& form, const Atom* symbol) const {
  if (!form.IsKnown()) return true;
  const std::vector<const Atom*> leaves = LeavesOf(form);
  return std::any_of(leaves.begin(), leaves.end(), [&](const Atom* leaf) {
    return leaf == symbol ||
           (leaf->kind == Atom::Kind::kVariable && leaf->extent.IsKnown() && Contains(leaf->extent, symbol));
  });
}

std::vector<const Atom*> Declared::Involved(const Atom* symbol) {
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

std::vector<Form> Declared::NeutralValues(const Atom* attribute, const Atom* symbol,
                                          const std::vector<Form>& steps) const {
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

std::vector<Form> Declared::Steps(const Atom* symbol) {
  std::vector<Form> steps;
  ForEachWindow(symbol, [&](const Reading&, int, const Form& step, const Form&) {
    const bool is_attribute = step.AsAtom() != nullptr && IsAttribute(step.AsAtom());
    if (is_attribute && std::find(steps.begin(), steps.end(), step) == steps.end()) steps.push_back(step);
  });
  return steps;
}

void Declared::ForEachWindow(
    const Atom* symbol,
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

bool Declared::IsReduced(const Atom* symbol) {
  return std::any_of(reductions_.begin(), reductions_.end(), [&](const ExprPtr& reduction) {
    return std::any_of(reduction->bound().begin(), reduction->bound().end(),
                       [&](const BoundVar& var) { return Meets(scope_.FormOf(var.extent), symbol); });
  });
}

Obstacle Declared::ObstacleOf(const Atom* symbol) {
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
  const auto has_it = [&](const Sizes& shape) {
    return std::any_of(shape.begin(), shape.end(), [&](const Form& size) { return Contains(size, symbol); });
  };
  bool unread = std::any_of(whole_.operands.begin(), whole_.operands.end(), has_it), elsewhere = false;
  for (const Reading& reading : readings_) {
    if (!Contains(whole_.operands[reading.operand][reading.axis], symbol)) continue;
    unread = false;
    const Atom* leaf = scope_.FormOf(reading.at).AsAtom();
    elsewhere |= leaf == nullptr || leaf->kind != Atom::Kind::kVariable;
  }
  if (unread) return Obstacle::kUnread;
  if (elsewhere) return Obstacle::kElsewhere;
  return IsReduced(symbol) ? Obstacle::kAddend : Obstacle::kRefuted;
}

}  // namespace rewright::sharding
