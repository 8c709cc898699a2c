// Attention of the domain com.microsoft, composed of products and a softmax.
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/onnx/operators.h"

namespace rewright {
namespace {

using Values = absl::StatusOr<std::vector<Value>>;

constexpr double kMaskedScore = -10000;  // what is added where a mask is not set, if no attribute says otherwise

struct Heads {
  Value q, k, v;  // [b, heads, s, d], keys and values with those that were there before
};

// What is added to the scores for keys that are not there: mask i32 [b, keys], ones and zeros; [b, queries, keys], the
// same for each query; or [b], how many of the first are.
absl::StatusOr<Value> MaskBias(OnnxNode& node, Value mask, const Heads& x, double masked) {
  const Shape shape = node.shape(mask);
  const int64_t batch = node.shape(x.q)[0], queries = node.shape(x.q)[2], keys = node.shape(x.k)[2];
  Formula f(node);
  ASSIGN_OR_RETURN(mask, node.CastTo(mask, DType::kInt32));
  Value there;
  if (shape == Shape{batch}) {
    ASSIGN_OR_RETURN(Value places, node.CountAlong(keys, 0, 1));
    ASSIGN_OR_RETURN(places, node.CastTo(places, DType::kInt32));
    ASSIGN_OR_RETURN(const Value lengths, node.Reshape(mask, {batch, 1, 1, 1}));
    there = f("less", {places, lengths});
  } else {
    if (shape == Shape{batch, keys}) {
      ASSIGN_OR_RETURN(mask, node.Reshape(mask, {batch, 1, 1, keys}));
    } else if (shape == Shape{batch, queries, keys}) {
      ASSIGN_OR_RETURN(mask, node.Reshape(mask, {batch, 1, queries, keys}));
    } else {
      return node.Unsupported(absl::StrCat("a mask ", node.type(mask).ToString()));
    }
    there = f("less", {f.Number(mask, 0), mask});
  }
  const DType type = node.type(x.q).dtype;
  return f.Done(f("where", {there, node.Number(type, 0), node.Number(type, masked)}));
}

struct Masks {
  std::optional<Value> mask;  // see MaskBias
  std::optional<Value> bias;  // is added to the scores
};

// softmax(scale q k' + bias) v, as [b, queries, heads * d].
absl::StatusOr<Value> Attended(OnnxNode& node, const Heads& x, const Masks& masks) {
  const int64_t queries = node.shape(x.q)[2], keys = node.shape(x.k)[2], size = node.shape(x.q)[3];
  ASSIGN_OR_RETURN(double scale, node.Float("scale", 0));
  ASSIGN_OR_RETURN(const double masked, node.Float("mask_filter_value", kMaskedScore));
  ASSIGN_OR_RETURN(const int64_t causal, node.Int("unidirectional", 0));
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(size));
  Formula f(node);
  ASSIGN_OR_RETURN(const Value turned, node.Transpose(x.k, {0, 1, 3, 2}));
  Value scores = f("matmul", {x.q, turned});
  scores = f("mul", {scores, f.Number(x.q, scale)});
  if (masks.mask) {
    ASSIGN_OR_RETURN(const Value bias, MaskBias(node, *masks.mask, x, masked));
    scores = f("add", {scores, bias});
  }
  if (masks.bias) scores = f("add", {scores, *masks.bias});
  if (causal != 0) {
    ASSIGN_OR_RETURN(const Value rows, node.CountAlong(queries, 0, 2));
    ASSIGN_OR_RETURN(const Value columns, node.CountAlong(keys, 0, 1));
    const Value last = f("add", {rows, f.Number(rows, static_cast<double>(keys - queries))});
    const double never = -std::numeric_limits<double>::infinity();
    scores = f("where", {f("less_equal", {columns, last}), scores, f.Number(x.q, never)});
  }
  const Value weights = f("softmax", {scores}, {{"axis", int64_t{3}}});
  ASSIGN_OR_RETURN(const Value y, f.Done(f("matmul", {weights, x.v})));
  return FromHeads(node, y);
}

absl::Status CheckRank(const OnnxNode& node, int i, int rank) {
  if (node.type(node.input(i)).rank() == rank) return absl::OkStatus();
  return node.Unsupported(absl::StrCat("input ", i, ": ", node.type(node.input(i)).ToString(), "; of ", rank, " axes"));
}

// Inputs: x, the weights of all three products, their bias, a mask, keys and values that were there before (on top of
// each other), what is added to the scores. Outputs: the result, keys and values with those before.
Values Attention(OnnxNode& node) {
  ASSIGN_OR_RETURN(const int64_t heads, node.Int("num_heads", std::nullopt));
  ASSIGN_OR_RETURN(std::vector<int64_t> sizes, node.Ints("qkv_hidden_sizes", {}));
  ASSIGN_OR_RETURN(const int64_t rotary, node.Int("do_rotary", 0));
  ASSIGN_OR_RETURN(const int64_t shared, node.Int("past_present_share_buffer", 0));
  node.Ignore({"rotary_embedding_dim"});
  if (rotary != 0 || shared != 0) return node.Unsupported("do_rotary or past_present_share_buffer");
  if (node.has_input(6)) return node.Unsupported("input 6 (past_sequence_length)");
  RETURN_IF_ERROR(CheckRank(node, 0, 3));
  RETURN_IF_ERROR(CheckRank(node, 1, 2));
  const int64_t columns = node.input_type(1).shape[1];
  if (sizes.empty()) sizes.assign(3, columns / 3);
  if (sizes.size() != 3 || sizes[0] < 0 || sizes[1] < 0 || sizes[2] != columns - sizes[0] - sizes[1] || sizes[2] < 0) {
    return node.Invalid(absl::StrCat("qkv_hidden_sizes do not add up to ", columns));
  }
  Formula f(node);
  Value joined = f("matmul", {node.input(0), node.input(1)});
  if (node.has_input(2)) joined = f("add", {joined, node.input(2)});
  ASSIGN_OR_RETURN(joined, f.Done(joined));
  Heads x;
  int64_t begin = 0;
  for (const auto& [part, size] : {std::pair(&x.q, sizes[0]), {&x.k, sizes[1]}, {&x.v, sizes[2]}}) {
    ASSIGN_OR_RETURN(*part, node.SliceAxis(joined, 2, begin, begin + size));
    ASSIGN_OR_RETURN(*part, ToHeads(node, *part, heads));
    begin += size;
  }
  if (node.has_input(4)) {
    RETURN_IF_ERROR(CheckRank(node, 4, 5));
    Shape shape = node.input_type(4).shape;
    if (shape[0] != 2) return node.Invalid(absl::StrCat("past is ", node.input_type(4).ToString()));
    shape.erase(shape.begin());
    for (const auto& [part, i] : {std::pair(&x.k, int64_t{0}), {&x.v, int64_t{1}}}) {
      ASSIGN_OR_RETURN(const Value slice, node.SliceAxis(node.input(4), 0, i, i + 1));
      ASSIGN_OR_RETURN(const Value before, node.Reshape(slice, shape));
      ASSIGN_OR_RETURN(*part, node.Concat({before, *part}, 2));
    }
  }
  Masks masks;
  if (node.has_input(3)) masks.mask = node.input(3);
  if (node.has_input(5)) masks.bias = node.input(5);
  ASSIGN_OR_RETURN(const Value y, Attended(node, x, masks));
  if (!node.wants_output(1)) return std::vector<Value>{y};
  std::vector<Value> stacked;
  for (Value part : {x.k, x.v}) {
    Shape shape = node.shape(part);
    shape.insert(shape.begin(), 1);
    ASSIGN_OR_RETURN(stacked.emplace_back(), node.Reshape(part, shape));
  }
  ASSIGN_OR_RETURN(const Value present, node.Concat(stacked, 0));
  return std::vector<Value>{y, present};
}

// Inputs: queries, keys, values, a bias of all three, a mask of keys, what is added to the scores, keys and values that
// were there before. Outputs: the result, keys, values with those before.
Values MultiHeadAttention(OnnxNode& node) {
  ASSIGN_OR_RETURN(const int64_t heads, node.Int("num_heads", std::nullopt));
  for (int i = 8; i < node.num_inputs(); ++i) {
    if (node.has_input(i)) return node.Unsupported(absl::StrCat("input ", i));
  }
  if (!node.has_input(1) || !node.has_input(2)) return node.Unsupported("queries, keys and values packed into one");
  if (node.has_input(6) != node.has_input(7)) return node.Invalid("past_key and past_value are given together");
  RETURN_IF_ERROR(CheckRank(node, 0, 3));
  Heads x{node.input(0), node.input(1), node.input(2)};
  int64_t begin = 0;
  for (Value* part : {&x.q, &x.k, &x.v}) {
    if (node.type(*part).rank() == 4) {  // by heads already
      if (node.has_input(3)) return node.Unsupported("a bias of keys that are by heads");
      continue;
    }
    if (node.type(*part).rank() != 3) return node.Unsupported(absl::StrCat("operand ", node.type(*part).ToString()));
    if (node.has_input(3)) {
      RETURN_IF_ERROR(CheckRank(node, 3, 1));
      const int64_t size = node.shape(*part)[2];
      if (begin + size > node.input_type(3).shape[0]) return node.Invalid("the bias is too short");
      ASSIGN_OR_RETURN(const Value bias, node.SliceAxis(node.input(3), 0, begin, begin + size));
      begin += size;
      ASSIGN_OR_RETURN(*part, node.Apply("add", {*part, bias}));
    }
    ASSIGN_OR_RETURN(*part, ToHeads(node, *part, heads));
  }
  if (node.has_input(6)) {
    RETURN_IF_ERROR(CheckRank(node, 6, 4));
    RETURN_IF_ERROR(CheckRank(node, 7, 4));
    ASSIGN_OR_RETURN(x.k, node.Concat({node.input(6), x.k}, 2));
    ASSIGN_OR_RETURN(x.v, node.Concat({node.input(7), x.v}, 2));
  }
  Masks masks;
  if (node.has_input(4)) masks.mask = node.input(4);
  if (node.has_input(5)) masks.bias = node.input(5);
  ASSIGN_OR_RETURN(const Value y, Attended(node, x, masks));
  return std::vector<Value>{y, x.k, x.v};
}

}  // namespace

OnnxOperatorList MicrosoftAttentionOperators() {
  return {
      {"com.microsoft.Attention", {1, 1, 2, 7, Attention}},
      {"com.microsoft.MultiHeadAttention", {1, 1, 1, 10, MultiHeadAttention}},
  };
}

}  // namespace rewright
