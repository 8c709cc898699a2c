#include "substitutions/generate/enumerate/terms.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/ops/ops.h"
#include "substitutions/generate/enumerate/field.h"

namespace rewright::generate {
namespace {

constexpr size_t kBlock = size_t{1} << 16;  // elements
// Inputs are multiples of this, so that quotients by small window sizes and counts are integers, which maximum and
// comparison need.
constexpr int64_t kMultiple = 36;
constexpr int64_t kLow = -1000;  // of the inputs, before that factor

}  // namespace

Terms::Terms(const Space& space, std::vector<std::vector<int64_t>> assignments, bool with_values, uint64_t seed,
             TapeCache* tapes)
    : space_(space),
      assignments_(std::move(assignments)),
      with_values_(with_values),
      tapes_(tapes != nullptr ? *tapes : own_tapes_) {
  CHECK(space.num_inputs() <= 64) << "inputs are kept as bits";
  num_counterexamples_ = space.counterexamples.size();
  for (const Counterexample& counterexample : space.counterexamples) {
    assignments_.insert(assignments_.end() - 1, counterexample.sizes);
  }
  for (size_t g = 0; g < space.inputs.size(); ++g) {
    first_of_.push_back(num_inputs());
    const TypeId type = Intern(InputType(space.inputs[g]));
    for (int k = 0; k < space.inputs[g].count; ++k) {
      const ValueId id = num_inputs();
      group_of_.push_back(static_cast<int>(g));
      nodes_.push_back({.first = id});
      TermValue value{.node = id, .type = type, .hash = static_cast<uint64_t>(id), .support = uint64_t{1} << id};
      if (with_values) {
        const size_t count = types_[type].begin.back();
        uint64_t* data = Allocate(count);
        Draw(id, type, seed, data);
        value.data = data;
        value.hash = HashOf(type, data);
      }
      values_.push_back(value);
    }
  }
}

// A maximum over a window shows the effect of relu only if the whole window is negative, and maxima of maxima only if
// all of the plane is. Products of such planes are positive, which hides relu, too. So one of every two planes of a
// tensor of four axes is negative, and about one in two of the others is positive. A scalar is negative under one
// assignment and positive under the next.
void Terms::Draw(ValueId input, TypeId type_id, uint64_t seed, uint64_t* data) const {
  const Type& t = type(type_id);
  const uint64_t name = static_cast<uint64_t>(input);
  const size_t drawn = t.begin.size() - 1 - num_counterexamples_;  // assignments
  for (size_t a = drawn; a + 1 < t.begin.size(); ++a) DrawCounterexample(input, t, a, data);
  for (size_t a = 0; a < drawn; ++a) {
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

// Draws elements that may tell graphs apart which agree under the others: all positive, all negative, or mixed. No
// element is zero, since a graph may divide by it.
void Terms::DrawCounterexample(ValueId input, const Type& t, size_t a, uint64_t* data) const {
  const size_t first = t.begin.size() - 1 - num_counterexamples_;
  const uint64_t draw = KeyedHash(0xce, space_.counterexamples[a - first].draw, static_cast<uint64_t>(input));
  const uint64_t sign = draw & 3;
  for (int32_t i = t.begin[a]; i < t.begin[a + 1]; ++i) {
    const uint64_t random = KeyedHash(draw, static_cast<uint64_t>(i - t.begin[a]));
    const int64_t element = 1 + static_cast<int64_t>((random >> 1) % static_cast<uint64_t>(-kLow));
    const bool negative = sign == 0 || (sign > 1 && (random & 1) != 0);
    data[i] = FieldFromInteger((negative ? -element : element) * kMultiple);
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
  return data_bytes_ + nodes_.capacity() * sizeof(TermNode) + values_.capacity() * sizeof(TermValue) +
         node_ids_.capacity() * (sizeof(std::pair<Key, TermNodeId>) + 1) + keys_.capacity() * sizeof(Key);
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
  const OperatorChoice& choice = space_.operators[op];
  Key key{op, {-1, -1, -1}};
  std::copy_n(operands, choice.arity, key.operands);
  if (choice.commutative && key.operands[0] > key.operands[1]) std::swap(key.operands[0], key.operands[1]);
  return key;
}

// ---------------------------------------------------------------- elements

bool Terms::Compile(int op, const std::vector<const Type*>& operands, TypedApplication* application) {
  const OperatorChoice& choice = space_.operators[op];
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
        // A kernel is the identity at its centre.
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
  const OperatorChoice& choice = space_.operators[op];
  if (choice.constant != OperatorChoice::Constant::kNone) {
    FillConstant(choice, type(application.outputs[0]), data->data());
    return true;
  }
  for (size_t a = 0; a < application.tapes.size(); ++a) {
    const uint64_t* inputs[kMaxArity];
    for (int k = 0; k < choice.arity; ++k) {
      const TermValue& operand = value(operands[k]);
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
    middle_.resize(output.begin[a + 1] - output.begin[a]);
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
  const size_t count = t.begin.back();
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
  const TermValue& v = value(id);
  const TermNode& n = node(v.node);
  const Type& t = type(v.type);
  std::vector<uint64_t> result(static_cast<size_t>(t.begin.back()), v.support);
  const OperatorChoice* choice = n.op < 0 ? nullptr : &space_.operators[n.op];
  if (choice != nullptr && choice->constant == OperatorChoice::Constant::kNone) {
    const TypedApplication& applied = application(v.node);
    std::vector<std::vector<uint64_t>> masks;
    for (int k = 0; k < choice->arity; ++k) masks.push_back(Dependencies(n.operands[k]));
    for (size_t a = 0; a < applied.tapes.size(); ++a) {
      const uint64_t* inputs[kMaxArity];
      for (int k = 0; k < choice->arity; ++k) {
        inputs[k] = masks[k].data() + type(value(n.operands[k]).type).begin[a];
      }
      std::vector<std::vector<uint64_t>> outputs;
      uint64_t* pointers[kMaxOutputs];
      for (size_t k = 0; k < applied.outputs.size(); ++k) {
        const Type& output = type(applied.outputs[k]);
        outputs.emplace_back(static_cast<size_t>(output.begin[a + 1] - output.begin[a]));
        pointers[k] = outputs.back().data();
      }
      applied.tapes[a][0]->RunDependencies(inputs, pointers, &scratch_);
      const std::vector<uint64_t>& mine = outputs[id - n.first];
      std::copy(mine.begin(), mine.end(), result.begin() + t.begin[a]);
    }
  }
  return dependencies_[id] = std::move(result);
}

void Terms::Supports(int op, const ValueId* operands, const TypedApplication& application, uint64_t* supports) {
  uint64_t all = 0;
  const int arity = space_.operators[op].arity;
  for (int k = 0; k < arity; ++k) all |= value(operands[k]).support;
  for (size_t k = 0; k < application.outputs.size(); ++k) supports[k] = all;
  if (!application.drops || (all & (all - 1)) == 0) return;
  std::vector<std::vector<uint64_t>> masks;
  for (int k = 0; k < arity; ++k) masks.push_back(Dependencies(operands[k]));
  const uint64_t* inputs[kMaxArity];
  for (int k = 0; k < arity; ++k) inputs[k] = masks[k].data();
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
  const OperatorChoice& choice = space_.operators[op];
  const auto is_input = [&](int k) { return node(value(operands[k]).node).op < 0; };
  if (choice.distinct && operands[0] == operands[1]) return false;
  for (int k = 0; choice.ascending && k < choice.arity; ++k) {
    if (!is_input(k) || (k > 0 && operands[k] <= operands[k - 1])) return false;
  }
  if (choice.leaf_only && !is_input(0)) return false;
  if (choice.no_leaf && is_input(0)) return false;
  const auto is_kernel = [&](int k) { return is_input(k) && space_.inputs[group_of(operands[k])].kernel; };
  if (choice.no_kernel_input && is_kernel(0)) return false;
  if (choice.kernel_second && !is_kernel(1)) return false;
  if (choice.in_order) {
    if (!is_input(0) && is_input(1)) return false;
    if (is_input(0) && is_input(1) && group_of(operands[0]) > group_of(operands[1])) return false;
  }
  return true;
}

TermNodeId Terms::Find(int op, const ValueId* operands) const {
  const auto found = node_ids_.find(KeyOf(op, operands));
  return found == node_ids_.end() ? -1 : found->second;
}

const TypedApplication& Terms::application(TermNodeId id) const {
  const TermNode& n = node(id);
  TypeId types[kMaxArity];
  for (int k = 0; k < space_.operators[n.op].arity; ++k) types[k] = value(n.operands[k]).type;
  return *applications_.find(KeyOf(n.op, types))->second;
}

bool Terms::Evaluate(int op, const ValueId* operands, int* num_outputs, uint64_t* hashes, uint64_t* supports) {
  TypeId types[kMaxArity];
  const int arity = space_.operators[op].arity;
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

TermNodeId Terms::Add(int op, const ValueId* operands) {
  const Key key = KeyOf(op, operands);
  const auto found = node_ids_.find(key);
  if (found != node_ids_.end()) return found->second;
  TypeId types[kMaxArity];
  const int arity = space_.operators[op].arity;
  for (int k = 0; k < arity; ++k) types[k] = value(operands[k]).type;
  const TypedApplication* application = Apply(op, types);
  int num_outputs = 0;
  uint64_t hashes[kMaxOutputs], supports[kMaxOutputs];
  if (application == nullptr || (with_values_ && !Evaluate(op, operands, &num_outputs, hashes, supports))) {
    keys_.push_back(key);
    return node_ids_[key] = -1;
  }
  const TermNodeId id = static_cast<TermNodeId>(nodes_.size());
  TermNode added{.op = static_cast<int16_t>(op),
                 .num_outputs = static_cast<int16_t>(application->outputs.size()),
                 .first = static_cast<ValueId>(values_.size())};
  for (int k = 0; k < arity; ++k) {
    added.operands[k] = key.operands[k];
  }
  nodes_.push_back(added);
  size_t at = 0;
  for (size_t k = 0; k < application->outputs.size(); ++k) {
    TermValue output{.node = id, .type = application->outputs[k], .hash = values_.size()};
    if (with_values_) {
      const size_t count = type(output.type).begin.back();
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
