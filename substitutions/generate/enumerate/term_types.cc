// The types of terms: the shapes and programs of an application of an operator of the space, under every assignment.
#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/ir/rewrite.h"
#include "core/ops/ops.h"
#include "substitutions/generate/enumerate/field.h"
#include "substitutions/generate/enumerate/terms.h"

namespace rewright::generate {
namespace {

int64_t At(const Size& size, const std::vector<int64_t>& assignment) {
  return size.variable < 0 ? size.number : assignment[size.variable];
}

// The axis of operand `input` that the axis `v` of the output is throughout: every read of the operand has the plain
// index there. -1 if there is none.
int CarriedAxis(const ExprPtr& e, int v, int input) {
  int found = -2;  // no read yet
  Visit(e, [&](const ExprPtr& node) {
    if (!node->IsRead(input)) return;
    int axis = -1;
    for (size_t k = 0; k < node->args().size(); ++k) {
      if (node->arg(k)->IsVariable(v)) axis = static_cast<int>(k);
    }
    found = found == -2 || found == axis ? axis : -1;
  });
  return std::max(found, -1);
}

}  // namespace

TypeId Terms::Intern(Type type) {
  uint64_t hash = 0x7e57;
  for (const Shape& shape : type.shapes) {
    hash = KeyedHash(hash, shape.size());
    for (int64_t size : shape) hash = KeyedHash(hash, static_cast<uint64_t>(size));
  }
  type.hash = hash;
  std::vector<TypeId>& same = types_by_hash_[hash];
  for (TypeId id : same) {
    if (types_[id] == type) return id;
  }
  type.begin = {0};
  for (const Shape& shape : type.shapes) {
    type.begin.push_back(type.begin.back() + static_cast<int32_t>(NumElements(shape)));
  }
  if (with_values_) type.begin.pop_back();  // the last assignment is the nominal one
  same.push_back(static_cast<TypeId>(types_.size()));
  types_.push_back(std::move(type));
  return same.back();
}

Type Terms::TypeOf(const std::vector<Size>& shape) const {
  Type type;
  for (const std::vector<int64_t>& assignment : assignments_) {
    Shape& sizes = type.shapes.emplace_back();
    for (const Size& size : shape) sizes.push_back(At(size, assignment));
  }
  type.cuts.resize(shape.size());
  return type;
}

Type Terms::InputType(const InputGroup& group) const {
  Type type = TypeOf(group.shape);
  for (const Size& cut : group.cuts) {
    std::vector<int64_t>& at = type.cuts[group.cut_axis].emplace_back();
    for (const std::vector<int64_t>& assignment : assignments_) at.push_back(At(cut, assignment));
  }
  return type;
}

TypedApplication* Terms::Apply(int op, const TypeId* operands) {
  // This runs for every choice of operands: known types take one look into a table.
  const int arity = space_.operators[op].arity;
  TypedApplication** known = nullptr;
  if (arity == 1 || arity == 2) {
    if (known_.empty()) known_.resize(space_.operators.size());
    std::vector<std::vector<TypedApplication*>>& rows = known_[op];
    const size_t a = static_cast<size_t>(operands[0]), b = arity == 2 ? static_cast<size_t>(operands[1]) : 0;
    if (rows.size() <= a) rows.resize(types_.size());
    if (rows[a].size() <= b) rows[a].resize(arity == 2 ? types_.size() : 1, Unknown());
    known = &rows[a][b];
    if (*known != Unknown()) return *known;
  }
  TypedApplication* result = FindOrBuild(op, operands);
  if (known != nullptr) *known = result;  // Build does not ask for applications, so the table has not moved
  return result;
}

TypedApplication* Terms::FindOrBuild(int op, const TypeId* operands) {
  const Key key = KeyOf(op, operands);
  const auto [at, fresh] = applications_.try_emplace(key);
  if (fresh) {
    std::vector<const Type*> types;
    for (int k = 0; k < space_.operators[op].arity; ++k) types.push_back(&type(operands[k]));
    std::unique_ptr<TypedApplication> built = Build(op, types);  // may add types, not applications
    at->second = std::move(built);
  }
  return at->second.get();
}

bool Terms::AttrsAt(const OperatorChoice& choice, const std::vector<const Type*>& operands, size_t assignment,
                    Attrs* attrs) const {
  *attrs = choice.attrs;
  switch (choice.derived) {
    case Derived::kNone: return true;
    case Derived::kGroups: {
      const int64_t channels = operands[0]->shapes[assignment][1], group = operands[1]->shapes[assignment][1];
      if (channels % group != 0 || operands[1]->shapes[assignment][0] % (channels / group) != 0) return false;
      (*attrs)["groups"] = channels / group;
      return true;
    }
    case Derived::kParts: {
      const size_t axis = std::get<int64_t>(choice.attrs.at("axis"));
      const size_t cuts = static_cast<size_t>(choice.parts) - 1;
      if (axis >= operands[0]->cuts.size() || operands[0]->cuts[axis].size() < cuts) return false;
      std::vector<int64_t> sizes;
      int64_t begin = 0;
      for (auto cut = operands[0]->cuts[axis].end() - static_cast<std::ptrdiff_t>(cuts);
           cut != operands[0]->cuts[axis].end(); ++cut) {
        if ((*cut)[assignment] <= begin) return false;
        sizes.push_back((*cut)[assignment] - begin);
        begin = (*cut)[assignment];
      }
      sizes.push_back(operands[0]->shapes[assignment][axis] - begin);
      (*attrs)["sizes"] = sizes;
      return true;
    }
    case Derived::kFirst: {
      const size_t axis = choice.axis;
      if (axis >= operands[0]->cuts.size() || operands[0]->cuts[axis].empty()) return false;
      Shape stops = operands[0]->shapes[assignment];
      (*attrs)["starts"] = std::vector<int64_t>(stops.size(), 0);
      stops[axis] = operands[0]->cuts[axis].back()[assignment];
      (*attrs)["stops"] = stops;
      return true;
    }
    case Derived::kShape: {
      Shape shape;
      for (const Size& size : choice.shape) shape.push_back(At(size, assignments_[assignment]));
      if (shape == operands[0]->shapes[assignment]) return false;
      (*attrs)["shape"] = shape;
      return true;
    }
    case Derived::kMerge: {
      Shape shape;
      for (const std::vector<int>& axes : choice.merged) {
        shape.push_back(1);
        for (int axis : axes) shape.back() *= operands[0]->shapes[assignment][axis];
      }
      (*attrs)["shape"] = shape;
      return true;
    }
    case Derived::kEnlarge: {
      std::vector<int64_t> before = {0, 0}, after = {0, 0};
      for (size_t k = 0; k < 2; ++k) {
        const int64_t more = choice.extent[k] - operands[0]->shapes[assignment][2 + k];
        if (more < 0) return false;
        before.push_back(more / 2);
        after.push_back(more - more / 2);
      }
      if (before == after && before == std::vector<int64_t>(4, 0)) return false;
      (*attrs)["before"] = before;
      (*attrs)["after"] = after;
      return true;
    }
  }
  return false;
}

std::unique_ptr<TypedApplication> Terms::Build(int op, const std::vector<const Type*>& operands) {
  const OperatorChoice& choice = space_.operators[op];
  auto result = std::make_unique<TypedApplication>();
  if (choice.constant != OperatorChoice::Constant::kNone) {
    result->outputs = {Intern(TypeOf(choice.shape))};
    return result;
  }
  for (size_t k = 0; k < operands.size(); ++k) {
    if (!choice.ranks.empty() && operands[k]->rank() != choice.ranks[k]) return nullptr;
  }
  if (choice.same_shape &&
      (operands[0]->shapes != operands[1]->shapes || operands[0]->transposed != operands[1]->transposed)) {
    return nullptr;
  }
  if (choice.scalar_second && operands[1]->rank() != 0) return nullptr;
  for (const Type* operand : operands) {
    const Shape& shape = operand->shapes.back();
    if (choice.no_units && std::find(shape.begin(), shape.end(), 1) != shape.end()) return nullptr;
  }
  const OpDef* def = FindOp(choice.op);
  CHECK(def != nullptr) << choice.op;
  std::vector<Type> outputs;
  for (size_t a = 0; a < assignments_.size(); ++a) {
    if (!choice.kernel.empty()) {
      const Shape& shape = operands[1]->shapes[a];
      if (shape[2] != choice.kernel[0] || shape[3] != choice.kernel[1]) return nullptr;
    }
    if (choice.forbidden_inner >= 0 && operands[1]->shapes[a][0] == assignments_[a][choice.forbidden_inner]) {
      return nullptr;
    }
    Attrs attrs;
    if (!AttrsAt(choice, operands, a, &attrs)) return nullptr;
    std::vector<TensorType> types;
    for (const Type* operand : operands) types.push_back({DType::kFloat32, operand->shapes[a]});
    absl::StatusOr<Application> application = rewright::Apply(*def, types, attrs, meanings_);
    if (!application.ok() || application->outputs.size() > static_cast<size_t>(kMaxOutputs)) return nullptr;
    outputs.resize(application->outputs.size());
    for (size_t k = 0; k < outputs.size(); ++k) {
      const TensorType& type = application->outputs[k];
      if (std::any_of(type.shape.begin(), type.shape.end(), [](int64_t size) { return size < 1; })) return nullptr;
      if (a + 1 == assignments_.size() && type.num_elements() > space_.max_elements) return nullptr;
      outputs[k].shapes.push_back(type.shape);
    }
    if (choice.stretched &&
        (operands[0]->shapes[a] == operands[1]->shapes[a] || outputs[0].shapes[a] != operands[0]->shapes[a])) {
      return nullptr;
    }
    result->attrs.push_back({application->attrs});
  }
  for (size_t k = 0; k < outputs.size(); ++k) {
    outputs[k].cuts = CutsOf(choice, operands, static_cast<int>(k), outputs[k].rank());
    if (choice.op == "transpose") {
      outputs[k].transposed = choice.view && !operands[0]->transposed;
    } else if (choice.same_shape || choice.scalar_second || choice.op == "relu") {
      outputs[k].transposed = operands[0]->transposed;
    }
  }
  for (Type& type : outputs) result->outputs.push_back(Intern(std::move(type)));
  return result;
}

// An axis that is carried over keeps its cuts where all operands that carry it agree. Concat adds one; split shares
// them out.
std::vector<Cuts> Terms::CutsOf(const OperatorChoice& choice, const std::vector<const Type*>& operands, int output,
                                int rank) const {
  std::vector<Cuts> cuts(static_cast<size_t>(rank));
  const auto combine = [&](size_t axis) {
    cuts[axis] = operands[0]->cuts[axis];
    for (const Type* operand : operands) {
      if (operand->cuts[axis] != cuts[axis]) cuts[axis].clear();
    }
  };
  if (choice.op == "concat" || choice.op == "split") {
    const size_t at = std::get<int64_t>(choice.attrs.at("axis"));
    for (size_t axis = 0; axis < cuts.size(); ++axis) {
      if (axis != at) {
        combine(axis);
        continue;
      }
      cuts[axis] = operands[0]->cuts[axis];
      if (choice.op == "concat") {
        std::vector<int64_t> end(operands[0]->shapes.size());
        Cuts ends;
        for (size_t k = 1; k < operands.size(); ++k) {
          for (size_t a = 0; a < end.size(); ++a) end[a] += operands[k - 1]->shapes[a][axis];
          ends.push_back(end);
          for (std::vector<int64_t> cut : operands[k]->cuts[axis]) {
            for (size_t a = 0; a < cut.size(); ++a) cut[a] += end[a];
            cuts[axis].push_back(cut);
          }
        }
        cuts[axis].insert(cuts[axis].end(), ends.begin(), ends.end());
        continue;
      }
      if (choice.parts > 2) {
        cuts[axis].clear();
        continue;
      }
      const std::vector<int64_t> middle = cuts[axis].back();
      cuts[axis].clear();
      for (std::vector<int64_t> cut : operands[0]->cuts[axis]) {
        if ((output == 0) != (cut[0] < middle[0]) || cut == middle) continue;
        for (size_t a = 0; a < cut.size() && output == 1; ++a) cut[a] -= middle[a];
        cuts[axis].push_back(cut);
      }
    }
    return cuts;
  }
  Attrs attrs;
  AttrsAt(choice, operands, 0, &attrs);
  std::vector<TensorType> types;
  for (const Type* operand : operands) types.push_back({DType::kFloat32, operand->shapes[0]});
  MeaningCache meanings;
  const absl::StatusOr<Application> application = rewright::Apply(*FindOp(choice.op), types, attrs, meanings);
  CHECK(application.ok()) << application.status().message();
  const OutputMeaning& meaning = application->meaning->outputs[output];
  for (size_t axis = 0; axis < cuts.size(); ++axis) {
    bool first = true;
    for (size_t k = 0; k < operands.size(); ++k) {
      const int from = CarriedAxis(meaning.element, meaning.index_vars[axis], static_cast<int>(k));
      if (from < 0) continue;
      const Cuts& carried = operands[k]->cuts[from];
      if (first) cuts[axis] = carried;
      if (cuts[axis] != carried) cuts[axis].clear();
      first = false;
    }
  }
  return cuts;
}

}  // namespace rewright::generate
