#include "substitutions/generate/terms.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/evaluate_field.h"

namespace rewright::generate {
namespace {

constexpr size_t kBlock = size_t{1} << 16;  // elements
// Inputs are multiples of this, so that quotients by small window sizes and counts are integers, which maximum and
// comparison need.
constexpr int64_t kMultiple = 36;
constexpr int64_t kLow = -1000;  // of the inputs, before that factor

int64_t At(const Size& size, const std::vector<int64_t>& assignment) {
  return size.variable < 0 ? size.number : assignment[static_cast<size_t>(size.variable)];
}

// Whether the axis `v` of the output is an axis of operand `input` through and through: every read of that operand has
// the plain index there. Gives the axis, or -1.
int CarriedAxis(const ExprPtr& e, int v, int input) {
  int found = -2;  // no read yet
  const std::function<void(const ExprPtr&)> visit = [&](const ExprPtr& node) {
    if (node->kind == ExprKind::kRead && node->integer == input) {
      int axis = -1;
      for (size_t k = 0; k < node->args.size(); ++k) {
        if (node->args[k]->kind == ExprKind::kVar && node->args[k]->integer == v) axis = static_cast<int>(k);
      }
      found = found == -2 || found == axis ? axis : -1;
      return;
    }
    for (const ExprPtr& arg : node->args) visit(arg);
  };
  visit(e);
  return std::max(found, -1);
}

}  // namespace

Terms::Terms(const Space& space, std::vector<std::vector<int64_t>> assignments, bool with_values, uint64_t seed,
             TapeCache* tapes)
    : space_(space),
      assignments_(std::move(assignments)),
      with_values_(with_values),
      tapes_(tapes != nullptr ? *tapes : own_tapes_) {
  CHECK(space.num_inputs() <= 64) << "inputs are kept as bits";
  for (size_t g = 0; g < space.inputs.size(); ++g) {
    first_of_.push_back(num_inputs());
    const TypeId type = Intern(InputType(space.inputs[g].shape));
    for (int k = 0; k < space.inputs[g].count; ++k) {
      const ValueId id = num_inputs();
      group_of_.push_back(static_cast<int>(g));
      nodes_.push_back({.first = id});
      Value value{.node = id, .type = type, .hash = static_cast<uint64_t>(id), .support = uint64_t{1} << id};
      if (with_values) {
        const size_t count = static_cast<size_t>(types_[static_cast<size_t>(type)].begin.back());
        uint64_t* data = Allocate(count);
        Draw(id, type, seed, data);
        value.data = data;
        value.hash = HashOf(type, data);
      }
      values_.push_back(value);
    }
  }
}

// A maximum over a window shows what relu did to it only where the whole window is negative, and maxima of maxima only
// where all of the plane is; products of such planes are positive, which relu does not show either. So of every two
// planes of a tensor of four axes one is negative, and of the others about one in two is positive. A scalar is negative
// under one assignment and positive under the next.
void Terms::Draw(ValueId input, TypeId type_id, uint64_t seed, uint64_t* data) const {
  const Type& t = type(type_id);
  const uint64_t name = static_cast<uint64_t>(input);
  for (size_t a = 0; a + 1 < t.begin.size(); ++a) {
    const Shape& shape = t.shapes[a];
    const int64_t plane = shape.size() == 4 ? shape[2] * shape[3] : NumElements(shape) + 1;
    for (int32_t i = t.begin[a]; i < t.begin[a + 1]; ++i) {
      const uint64_t random = KeyedHash(seed, name, static_cast<uint64_t>(i));
      int64_t element = static_cast<int64_t>(random % static_cast<uint64_t>(-2 * kLow + 1)) + kLow;
      const uint64_t at = static_cast<uint64_t>((i - t.begin[a]) / plane);
      switch (shape.size() == 4 ? (KeyedHash(seed ^ a, ~name, at & ~uint64_t{1}) + at * 2) & 3 : 3) {
        case 0:
        case 1: element = -std::abs(element) - 1; break;
        case 2: element = std::abs(element) + 1; break;
        default: break;
      }
      if (t.rank() == 0) element = (std::abs(element) + 1) * (a % 2 == 0 ? -1 : 1);
      data[i] = FieldFromInteger(element * kMultiple);
    }
  }
}

uint64_t* Terms::Allocate(size_t count) {
  if (blocks_.empty() || block_used_ + count > kBlock) {
    blocks_.push_back(std::make_unique<uint64_t[]>(std::max(kBlock, count)));
    block_used_ = 0;
    data_bytes_ += std::max(kBlock, count) * sizeof(uint64_t);
  }
  uint64_t* data = blocks_.back().get() + block_used_;
  block_used_ += count;
  return data;
}

TypedApplication* Terms::Unknown() {
  static TypedApplication unknown;
  return &unknown;
}

size_t Terms::num_bytes() const {
  return data_bytes_ + nodes_.capacity() * sizeof(Node) + values_.capacity() * sizeof(Value) +
         node_ids_.capacity() * (sizeof(std::pair<Key, NodeId>) + 1) + keys_.capacity() * sizeof(Key);
}

void Terms::SetInput(int input, size_t assignment, const std::vector<int64_t>& elements) {
  Value& changed = values_[static_cast<size_t>(input)];
  const Type& t = type(changed.type);
  CHECK(nodes_.size() == group_of_.size() && assignment + 1 < t.begin.size() &&
        elements.size() == static_cast<size_t>(t.begin[assignment + 1] - t.begin[assignment]));
  uint64_t* data = const_cast<uint64_t*>(changed.data) + t.begin[assignment];
  for (int64_t element : elements) *data++ = FieldFromInteger(element * kMultiple);
  changed.hash = HashOf(changed.type, changed.data);
}

void Terms::Release(const Mark& mark) {
  nodes_.resize(mark.nodes);
  values_.resize(mark.values);
  for (size_t i = mark.keys; i < keys_.size(); ++i) node_ids_.erase(keys_[i]);
  keys_.resize(mark.keys);
  blocks_.resize(mark.blocks);
  block_used_ = mark.block_used;
  data_bytes_ = mark.data_bytes;
  absl::erase_if(dependencies_, [&](const auto& entry) { return entry.first >= static_cast<ValueId>(mark.values); });
}

Terms::Key Terms::KeyOf(int op, const int32_t* operands) const {
  const OperatorChoice& choice = space_.operators[static_cast<size_t>(op)];
  Key key{op, {-1, -1, -1}};
  std::copy_n(operands, choice.arity, key.operands);
  if (choice.commutative && key.operands[0] > key.operands[1]) std::swap(key.operands[0], key.operands[1]);
  return key;
}

// ---------------------------------------------------------------- types

TypeId Terms::Intern(Type type) {
  uint64_t hash = 0x7e57;
  for (const Shape& shape : type.shapes) {
    hash = KeyedHash(hash, shape.size());
    for (int64_t size : shape) hash = KeyedHash(hash, static_cast<uint64_t>(size));
  }
  type.hash = hash;
  std::vector<TypeId>& same = types_by_hash_[hash];
  for (TypeId id : same) {
    if (types_[static_cast<size_t>(id)] == type) return id;
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

Type Terms::InputType(const std::vector<Size>& shape) const {
  Type type;
  for (const std::vector<int64_t>& assignment : assignments_) {
    Shape& sizes = type.shapes.emplace_back();
    for (const Size& size : shape) sizes.push_back(At(size, assignment));
  }
  type.cuts.resize(shape.size());
  return type;
}

TypedApplication* Terms::Apply(int op, const TypeId* operands) {
  // Asked for every choice of operands: one look into a table for what is known.
  const int arity = space_.operators[static_cast<size_t>(op)].arity;
  TypedApplication** known = nullptr;
  if (arity == 1 || arity == 2) {
    if (known_.empty()) known_.resize(space_.operators.size());
    std::vector<std::vector<TypedApplication*>>& rows = known_[static_cast<size_t>(op)];
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
    for (int k = 0; k < space_.operators[static_cast<size_t>(op)].arity; ++k) types.push_back(&type(operands[k]));
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
      const size_t axis = static_cast<size_t>(std::get<int64_t>(choice.attrs.at("axis")));
      if (axis >= operands[0]->cuts.size() || operands[0]->cuts[axis].empty()) return false;
      const int64_t first = operands[0]->cuts[axis].back()[assignment];
      (*attrs)["sizes"] = std::vector<int64_t>{first, operands[0]->shapes[assignment][axis] - first};
      return true;
    }
    case Derived::kFirst: {
      const size_t axis = static_cast<size_t>(choice.axis);
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
        for (int axis : axes) shape.back() *= operands[0]->shapes[assignment][static_cast<size_t>(axis)];
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
  const OperatorChoice& choice = space_.operators[static_cast<size_t>(op)];
  auto result = std::make_unique<TypedApplication>();
  if (choice.constant != OperatorChoice::Constant::kNone) {
    result->outputs = {Intern(InputType(choice.shape))};
    return result;
  }
  for (size_t k = 0; k < operands.size(); ++k) {
    if (!choice.ranks.empty() && operands[k]->rank() != choice.ranks[k]) return nullptr;
  }
  if (choice.same_shape && (operands[0]->shapes != operands[1]->shapes ||
                            operands[0]->transposed != operands[1]->transposed)) {
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
    if (choice.forbidden_inner >= 0 &&
        operands[1]->shapes[a][0] == assignments_[a][static_cast<size_t>(choice.forbidden_inner)]) {
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
    if (choice.stretched && (operands[0]->shapes[a] == operands[1]->shapes[a] ||
                             outputs[0].shapes[a] != operands[0]->shapes[a])) {
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
    const size_t at = static_cast<size_t>(std::get<int64_t>(choice.attrs.at("axis")));
    for (size_t axis = 0; axis < cuts.size(); ++axis) {
      if (axis != at) {
        combine(axis);
        continue;
      }
      cuts[axis] = operands[0]->cuts[axis];
      if (choice.op == "concat") {
        std::vector<int64_t> end;
        for (const Shape& shape : operands[0]->shapes) end.push_back(shape[axis]);
        for (std::vector<int64_t> cut : operands[1]->cuts[axis]) {
          for (size_t a = 0; a < cut.size(); ++a) cut[a] += end[a];
          cuts[axis].push_back(cut);
        }
        cuts[axis].push_back(end);
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
  const OutputMeaning& meaning = application->meaning->outputs[static_cast<size_t>(output)];
  for (size_t axis = 0; axis < cuts.size(); ++axis) {
    bool first = true;
    for (size_t k = 0; k < operands.size(); ++k) {
      const int from = CarriedAxis(meaning.element, meaning.index_vars[axis], static_cast<int>(k));
      if (from < 0) continue;
      const Cuts& carried = operands[k]->cuts[static_cast<size_t>(from)];
      if (first) cuts[axis] = carried;
      if (cuts[axis] != carried) cuts[axis].clear();
      first = false;
    }
  }
  return cuts;
}

// ---------------------------------------------------------------- elements

bool Terms::Compile(int op, const std::vector<const Type*>& operands, TypedApplication* application) {
  const OperatorChoice& choice = space_.operators[static_cast<size_t>(op)];
  const size_t count = assignments_.size() - 1;
  for (size_t a = 0; a < count; ++a) {
    std::vector<std::shared_ptr<const Tape>>& tapes = application->tapes.emplace_back();
    std::vector<TensorType> types;
    for (const Type* operand : operands) types.push_back({DType::kFloat32, operand->shapes[a]});
    std::string name = choice.op;
    Attrs attrs = application->attrs[a][0];
    while (!name.empty()) {
      const absl::StatusOr<Application> applied = rewright::Apply(*FindOp(name), types, attrs, meanings_);
      if (!applied.ok()) return false;
      std::shared_ptr<const Tape> tape = tapes_.Get(*FindOp(name), types, *applied);
      if (tape == nullptr) return false;
      application->drops = application->drops || tape->drops();
      tapes.push_back(std::move(tape));
      types = applied->outputs;
      name = tapes.size() == 1 ? choice.then : "";
      attrs.clear();
    }
  }
  return true;
}

void Terms::FillConstant(const OperatorChoice& choice, const Type& type, uint64_t* data) const {
  const uint64_t splat =
      FieldMultiply(FieldFromInteger(choice.numerator), FieldInverse(FieldFromInteger(choice.denominator)));
  for (size_t a = 0; a + 1 < type.shapes.size(); ++a) {
    const Shape& shape = type.shapes[a];
    const int64_t count = NumElements(shape);
    for (int64_t i = 0; i < count; ++i) {
      uint64_t element = splat;
      if (choice.constant == OperatorChoice::Constant::kIdentity) {
        // Of a kernel, at its centre.
        int64_t rest = i;
        bool centre = true;
        for (size_t axis = shape.size(); axis-- > 2; rest /= shape[axis]) {
          centre = centre && rest % shape[axis] == shape[axis] / 2;
        }
        element = centre && rest / shape[1] == rest % shape[1];
      }
      data[type.begin[a] + i] = element;
    }
  }
}

bool Terms::Run(int op, const ValueId* operands, const TypedApplication& application, std::vector<uint64_t>* data) {
  size_t total = 0;
  for (TypeId output : application.outputs) total += static_cast<size_t>(type(output).begin.back());
  if (data->size() < total) data->resize(total);
  const OperatorChoice& choice = space_.operators[static_cast<size_t>(op)];
  if (choice.constant != OperatorChoice::Constant::kNone) {
    FillConstant(choice, type(application.outputs[0]), data->data());
    return true;
  }
  for (size_t a = 0; a < application.tapes.size(); ++a) {
    const uint64_t* inputs[kMaxArity];
    for (int k = 0; k < choice.arity; ++k) {
      const Value& operand = value(operands[k]);
      inputs[k] = operand.data + type(operand.type).begin[a];
    }
    uint64_t* outputs[kMaxOutputs];
    uint64_t* begin = data->data();
    for (size_t k = 0; k < application.outputs.size(); ++k) {
      const Type& output = type(application.outputs[k]);
      outputs[k] = begin + output.begin[a];
      begin += output.begin.back();
    }
    const std::vector<std::shared_ptr<const Tape>>& tapes = application.tapes[a];
    if (tapes.size() == 1) {
      if (!tapes[0]->Run(inputs, outputs, &scratch_)) return false;
      continue;
    }
    const Type& output = type(application.outputs[0]);
    middle_.resize(static_cast<size_t>(output.begin[a + 1] - output.begin[a]));
    uint64_t* middle = middle_.data();
    const uint64_t* read = middle;
    if (!tapes[0]->Run(inputs, &middle, &scratch_) || !tapes[1]->Run(&read, outputs, &scratch_)) return false;
  }
  return true;
}

uint64_t Terms::HashOf(TypeId id, const uint64_t* data) const {
  const Type& t = type(id);
  // Two lanes of multiply-and-mix; finished by a full mix.
  uint64_t hash = t.hash;
  const size_t count = static_cast<size_t>(t.begin.back());
  for (size_t i = 0; i < count; ++i) {
    const unsigned __int128 product =
        static_cast<unsigned __int128>(hash ^ (data[i] + 0x9e3779b97f4a7c15u)) * 0xd6e8feb86659fd93u;
    hash = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
    hash += i;
  }
  return KeyedHash(0xfeed, hash);
}

const std::vector<uint64_t>& Terms::Dependencies(ValueId id) {
  const auto found = dependencies_.find(id);
  if (found != dependencies_.end()) return found->second;
  const Value& v = value(id);
  const Node& n = node(v.node);
  const Type& t = type(v.type);
  std::vector<uint64_t> result(static_cast<size_t>(t.begin.back()), v.support);
  const OperatorChoice* choice = n.op < 0 ? nullptr : &space_.operators[static_cast<size_t>(n.op)];
  if (choice != nullptr && choice->constant == OperatorChoice::Constant::kNone) {
    const TypedApplication& applied = application(v.node);
    std::vector<std::vector<uint64_t>> masks;
    for (int k = 0; k < choice->arity; ++k) masks.push_back(Dependencies(n.operands[k]));
    for (size_t a = 0; a < applied.tapes.size(); ++a) {
      const uint64_t* inputs[kMaxArity];
      for (int k = 0; k < choice->arity; ++k) {
        inputs[k] = masks[static_cast<size_t>(k)].data() + type(value(n.operands[k]).type).begin[a];
      }
      std::vector<std::vector<uint64_t>> outputs;
      uint64_t* pointers[kMaxOutputs];
      for (size_t k = 0; k < applied.outputs.size(); ++k) {
        const Type& output = type(applied.outputs[k]);
        outputs.emplace_back(static_cast<size_t>(output.begin[a + 1] - output.begin[a]));
        pointers[k] = outputs.back().data();
      }
      applied.tapes[a][0]->RunDependencies(inputs, pointers, &scratch_);
      const std::vector<uint64_t>& mine = outputs[static_cast<size_t>(id - n.first)];
      std::copy(mine.begin(), mine.end(), result.begin() + t.begin[a]);
    }
  }
  return dependencies_[id] = std::move(result);
}

void Terms::Supports(int op, const ValueId* operands, const TypedApplication& application, uint64_t* supports) {
  uint64_t all = 0;
  const int arity = space_.operators[static_cast<size_t>(op)].arity;
  for (int k = 0; k < arity; ++k) all |= value(operands[k]).support;
  for (size_t k = 0; k < application.outputs.size(); ++k) supports[k] = all;
  if (!application.drops || (all & (all - 1)) == 0) return;
  std::vector<std::vector<uint64_t>> masks;
  for (int k = 0; k < arity; ++k) masks.push_back(Dependencies(operands[k]));
  const uint64_t* inputs[kMaxArity];
  for (int k = 0; k < arity; ++k) inputs[k] = masks[static_cast<size_t>(k)].data();
  std::vector<std::vector<uint64_t>> outputs;
  uint64_t* pointers[kMaxOutputs];
  for (size_t k = 0; k < application.outputs.size(); ++k) {
    outputs.emplace_back(static_cast<size_t>(type(application.outputs[k]).begin[1]));
    pointers[k] = outputs.back().data();
  }
  application.tapes[0][0]->RunDependencies(inputs, pointers, &scratch_);
  for (size_t k = 0; k < application.outputs.size(); ++k) {
    supports[k] = 0;
    for (uint64_t mask : outputs[k]) supports[k] |= mask;
  }
}

// ---------------------------------------------------------------- nodes

bool Terms::Takes(int op, const ValueId* operands) const {
  const OperatorChoice& choice = space_.operators[static_cast<size_t>(op)];
  const auto is_input = [&](int k) { return node(value(operands[k]).node).op < 0; };
  if (choice.distinct && operands[0] == operands[1]) return false;
  if (choice.leaf_only && !is_input(0)) return false;
  if (choice.no_kernel_input && is_input(0) && space_.inputs[static_cast<size_t>(group_of(operands[0]))].kernel) {
    return false;
  }
  if (choice.in_order) {
    if (!is_input(0) && is_input(1)) return false;
    if (is_input(0) && is_input(1) && group_of(operands[0]) > group_of(operands[1])) return false;
  }
  return true;
}

NodeId Terms::Find(int op, const ValueId* operands) const {
  const auto found = node_ids_.find(KeyOf(op, operands));
  return found == node_ids_.end() ? -1 : found->second;
}

const TypedApplication& Terms::application(NodeId id) const {
  const Node& n = node(id);
  TypeId types[kMaxArity];
  for (int k = 0; k < space_.operators[static_cast<size_t>(n.op)].arity; ++k) types[k] = value(n.operands[k]).type;
  return *applications_.find(KeyOf(n.op, types))->second;
}

bool Terms::Evaluate(int op, const ValueId* operands, int* num_outputs, uint64_t* hashes, uint64_t* supports) {
  TypeId types[kMaxArity];
  const int arity = space_.operators[static_cast<size_t>(op)].arity;
  for (int k = 0; k < arity; ++k) types[k] = value(operands[k]).type;
  TypedApplication* application = Apply(op, types);
  if (application == nullptr) return false;
  if (!application->compiled && arity > 0) {
    std::vector<const Type*> described;
    for (int k = 0; k < arity; ++k) described.push_back(&type(types[k]));
    if (!Compile(op, described, application)) application->tapes.clear();
    application->compiled = true;
  }
  if (application->tapes.empty() && arity > 0) return false;
  if (!Run(op, operands, *application, &result_)) return false;
  *num_outputs = static_cast<int>(application->outputs.size());
  const uint64_t* data = result_.data();
  for (size_t k = 0; k < application->outputs.size(); ++k) {
    hashes[k] = HashOf(application->outputs[k], data);
    data += type(application->outputs[k]).begin.back();
  }
  Supports(op, operands, *application, supports);
  return true;
}

NodeId Terms::Add(int op, const ValueId* operands) {
  const Key key = KeyOf(op, operands);
  const auto found = node_ids_.find(key);
  if (found != node_ids_.end()) return found->second;
  TypeId types[kMaxArity];
  const int arity = space_.operators[static_cast<size_t>(op)].arity;
  for (int k = 0; k < arity; ++k) types[k] = value(operands[k]).type;
  const TypedApplication* application = Apply(op, types);
  int num_outputs = 0;
  uint64_t hashes[kMaxOutputs], supports[kMaxOutputs];
  if (application == nullptr || (with_values_ && !Evaluate(op, operands, &num_outputs, hashes, supports))) {
    keys_.push_back(key);
    return node_ids_[key] = -1;
  }
  const NodeId id = static_cast<NodeId>(nodes_.size());
  Node added{.op = static_cast<int16_t>(op),
             .num_outputs = static_cast<int16_t>(application->outputs.size()),
             .first = static_cast<ValueId>(values_.size())};
  for (int k = 0; k < arity; ++k) {
    added.operands[k] = key.operands[k];
  }
  nodes_.push_back(added);
  size_t at = 0;
  for (size_t k = 0; k < application->outputs.size(); ++k) {
    Value output{.node = id, .type = application->outputs[k], .hash = values_.size()};
    if (with_values_) {
      const size_t count = static_cast<size_t>(type(output.type).begin.back());
      uint64_t* data = Allocate(count);
      std::copy_n(result_.begin() + static_cast<std::ptrdiff_t>(at), count, data);
      at += count;
      output.data = data;
      output.hash = hashes[k];
      output.support = supports[k];
    }
    values_.push_back(output);
  }
  keys_.push_back(key);
  return node_ids_[key] = id;
}

}  // namespace rewright::generate
