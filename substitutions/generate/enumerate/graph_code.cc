#include "substitutions/generate/enumerate/graph_code.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "substitutions/generate/enumerate/field.h"

namespace rewright::generate {
namespace {

constexpr int kSizeBits = 3, kCountBits = 2;
static_assert(kMaxOps < 1 << kSizeBits);

// The bits of a graph, first ones lowest.
class Bits {
 public:
  void Put(uint64_t value, int count) {
    bits_ |= static_cast<unsigned __int128>(value) << used_;
    used_ += count;
  }
  uint64_t Take(int count) {
    const uint64_t value = static_cast<uint64_t>(bits_) & ((uint64_t{1} << count) - 1);
    bits_ >>= count;
    return value;
  }

  unsigned __int128 bits_ = 0;
  int used_ = 0;
};

}  // namespace

absl::StatusOr<GraphCode> GraphCode::For(const Space& space) {
  GraphCode code(space);
  code.num_inputs_ = space.num_inputs();
  code.op_bits_ = std::bit_width(space.operators.size() - 1);
  code.ref_bits_ = std::bit_width(static_cast<unsigned>(code.num_inputs_ + space.max_ops * kMaxOutputs - 1));
  int arity = 0;
  for (const OperatorChoice& choice : space.operators) arity = std::max(arity, choice.arity);
  const int bits = kSizeBits + space.max_ops * (code.op_bits_ + arity * code.ref_bits_);
  if (bits > 128 || kSizeBits + kCountBits + 2 * code.ref_bits_ > 128) {
    return absl::InvalidArgumentError(absl::StrCat("graphs of ", space.max_ops, " operators of up to ", arity,
                                                   " operands take ", bits, " bits, expected at most 128"));
  }
  return code;
}

PackedGraph GraphCode::Pack(const SmallGraph& graph) const {
  Bits bits;
  const auto put_ref = [&](Ref ref) {
    bits.Put(static_cast<uint64_t>(ref < kOutputs ? ref : num_inputs_ + ref - kOutputs), ref_bits_);
  };
  bits.Put(static_cast<uint64_t>(graph.size), kSizeBits);
  if (graph.size == 0) {
    bits.Put(static_cast<uint64_t>(graph.num_inputs), kCountBits);
    for (int i = 0; i < graph.num_inputs; ++i) put_ref(graph.inputs[i]);
  }
  for (int i = 0; i < graph.size; ++i) {
    const SmallGraph::Application& application = graph.applications[i];
    bits.Put(static_cast<uint64_t>(application.op), op_bits_);
    const int arity = space_->operators[application.op].arity;
    for (int k = 0; k < arity; ++k) put_ref(application.operands[k]);
  }
  return {static_cast<uint64_t>(bits.bits_ >> 64), static_cast<uint64_t>(bits.bits_)};
}

SmallGraph GraphCode::Unpack(PackedGraph packed) const {
  Bits bits;
  bits.bits_ = static_cast<unsigned __int128>(packed.high) << 64 | packed.low;
  const auto take_ref = [&] {
    const int number = static_cast<int>(bits.Take(ref_bits_));
    return static_cast<Ref>(number < num_inputs_ ? number : kOutputs + number - num_inputs_);
  };
  SmallGraph graph;
  graph.size = static_cast<int8_t>(bits.Take(kSizeBits));
  if (graph.size == 0) {
    graph.num_inputs = static_cast<int8_t>(bits.Take(kCountBits));
    for (int i = 0; i < graph.num_inputs; ++i) graph.inputs[i] = take_ref();
  }
  for (int i = 0; i < graph.size; ++i) {
    SmallGraph::Application& application = graph.applications[i];
    application.op = static_cast<int8_t>(bits.Take(op_bits_));
    const int arity = space_->operators[application.op].arity;
    for (int k = 0; k < arity; ++k) application.operands[k] = take_ref();
  }
  return graph;
}

// ---------------------------------------------------------------- simplicity

// The number of applications, then their operators in order, 7 bits each.
uint64_t RankOf(const SmallGraph& graph, uint64_t mask) {
  std::array<uint8_t, kMaxOps> ops{};
  size_t count = 0;
  for (int i = 0; i < graph.size; ++i) {
    if (((mask >> i) & 1) == 0) continue;
    size_t at = count++;
    const uint8_t op = static_cast<uint8_t>(graph.applications[i].op);
    for (; at > 0 && ops[at - 1] > op; --at) ops[at] = ops[at - 1];
    ops[at] = op;
  }
  uint64_t rank = count;
  for (size_t k = 0; k < count; ++k) rank = rank << 7 | ops[k];
  return rank;
}

uint64_t InputForm(int group) { return KeyedHash(0x1a9, static_cast<uint64_t>(group)); }

uint64_t FormOf(const Space& space, int op, const uint64_t* operands, int output) {
  const OperatorChoice& choice = space.operators[op];
  uint64_t forms[kMaxArity] = {};
  std::copy_n(operands, choice.arity, forms);
  if (choice.commutative && forms[0] > forms[1]) std::swap(forms[0], forms[1]);
  uint64_t hash = KeyedHash(static_cast<uint64_t>(op), static_cast<uint64_t>(output));
  for (int k = 0; k < choice.arity; ++k) hash = KeyedHash(hash, forms[k]);
  return hash;
}

Simplicity SimplicityOf(const Space& space, const SmallGraph& graph, const int* group_of) {
  uint64_t forms[256];
  const auto form_at = [&](Ref ref) { return ref < kOutputs ? InputForm(group_of[ref]) : forms[ref]; };
  for (int i = 0; i < graph.size; ++i) {
    const SmallGraph::Application& application = graph.applications[i];
    const OperatorChoice& choice = space.operators[application.op];
    uint64_t operands[kMaxArity];
    for (int k = 0; k < choice.arity; ++k) operands[k] = form_at(application.operands[k]);
    for (int k = 0; k < NumOutputs(choice); ++k) forms[OutputRef(i, k)] = FormOf(space, application.op, operands, k);
  }
  std::vector<uint64_t> outputs;
  for (Ref ref : OutputsOf(space, graph)) outputs.push_back(form_at(ref));
  std::sort(outputs.begin(), outputs.end());
  uint64_t form = outputs.empty() ? 0 : outputs[0];
  for (size_t k = 1; k < outputs.size(); ++k) form = KeyedHash(form, outputs[k]);
  return {RankOf(graph, (uint64_t{1} << graph.size) - 1), form};
}

}  // namespace rewright::generate
