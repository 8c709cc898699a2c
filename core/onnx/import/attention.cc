// Attention and rotary embeddings.
#include <cmath>
#include <limits>

#include "core/base/status_macros.h"
#include "core/onnx/operators.h"

namespace rewright {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Reshapes [b, s, heads * d] to [b, heads, s, d], and back.
Value ToHeads(OnnxNode& node, Value x, int64_t heads) {
  const Shape shape = node.shape(x);
  if (heads < 1 || shape[2] % heads != 0) {
    return node.Fail(InvalidArgument(heads, " heads of ", node.type(x).ToString()));
  }
  return node.Transpose(node.Reshape(x, {shape[0], shape[1], heads, shape[2] / heads}), {0, 2, 1, 3});
}

Value FromHeads(OnnxNode& node, Value x) {
  const Value turned = node.Transpose(x, {0, 2, 1, 3});
  const Shape& shape = node.shape(turned);
  return node.Reshape(turned, {shape[0], shape[1], shape[2] * shape[3]});
}

// A mask that tells which queries [b, h, q, ..] attend to which keys [b, h, k, ..].
class AttentionMask {
 public:
  AttentionMask(OnnxNode& node, int64_t queries, int64_t keys) : node_(node), queries_(queries), keys_(keys) {}

  // Applies a mask of booleans, or numbers that are added to the scores; a shorter one excludes the keys beyond it.
  void AddMask(Value mask) {
    const bool is_bool = node_.type(mask).dtype == DType::kBool;
    const int64_t missing = node_.type(mask).rank() == 0 ? 0 : keys_ - node_.shape(mask).back();
    if (missing > 0 && node_.shape(mask).back() != 1) {
      std::vector<int64_t> before(node_.shape(mask).size(), 0), after = before;
      after.back() = missing;
      mask = node_("pad", {mask}, {{"before", before}, {"after", after}, {"value", is_bool ? 0.0 : -kInfinity}});
    }
    if (is_bool) return Allow(mask);
    bias_ = mask;
  }

  // Allows at most `right` keys after, and at most `left` before, the position of a query. The position is the query's
  // number plus `offset`: an integer for all, or one for each of the batch.
  void AddWindow(Value offset, std::optional<int64_t> left, std::optional<int64_t> right) {
    const Value rows = node_.CountAlong(queries_, 0, 2);
    const Value columns = node_.CountAlong(keys_, 0, 1);
    const Value position = node_("add", {rows, offset});
    if (right) {
      const Value last = node_("add", {position, node_.Number(rows, static_cast<double>(*right))});
      Allow(node_("less_equal", {columns, last}));
    }
    if (left) {
      const Value first = node_("sub", {position, node_.Number(rows, static_cast<double>(*left))});
      Allow(node_("less_equal", {first, columns}));
    }
  }

  // Allows the first `lengths` keys of each batch; lengths i64[b].
  void AddLengths(Value lengths) {
    const Value columns = node_.CountAlong(keys_, 0, 1);
    Allow(node_("less", {columns, node_.Reshape(lengths, {node_.shape(lengths)[0], 1, 1, 1})}));
  }

  Value On(Value scores) const {
    if (bias_) scores = node_("add", {scores, *bias_});
    return allowed_ ? node_("where", {*allowed_, scores, node_.Number(scores, -kInfinity)}) : scores;
  }

  // A query without any allowed key gives zeros: its scores are all infinite.
  Value WithEmptyRows(Value weights) const {
    const auto over = [&](Value x) {
      return Attrs{{"axes", std::vector<int64_t>{node_.type(x).rank() - 1}}, {"keepdims", int64_t{1}}};
    };
    Value rows;  // that have some key
    if (bias_) {
      const Value bias = allowed_ ? node_("where", {*allowed_, *bias_, node_.Number(*bias_, -kInfinity)})
                                  : node_("add", {*bias_, node_.Number(*bias_, 0)});
      if (node_.type(bias).rank() == 0) return weights;
      rows = node_("less", {node_.Number(bias, -kInfinity), node_("reduce_max", {bias}, over(bias))});
    } else if (allowed_ && node_.type(*allowed_).rank() > 0) {
      rows = node_("reduce_or", {*allowed_}, over(*allowed_));
    } else {
      return weights;
    }
    if (const Tensor* known = node_.KnownTensor(rows)) {
      bool all = true;
      for (int64_t i = 0; i < known->num_elements(); ++i) all = all && known->At(i) != 0;
      if (all) return weights;
    }
    return node_("where", {rows, weights, node_.Number(weights, 0)});
  }

 private:
  void Allow(Value condition) { allowed_ = allowed_ ? node_("logical_and", {*allowed_, condition}) : condition; }

  OnnxNode& node_;
  const int64_t queries_, keys_;
  std::optional<Value> bias_, allowed_;
};

struct AttentionOperands {
  Value q, k, v;     // [b, heads, s, d]
  int64_t past = 0;  // keys of earlier calls
  bool joined_heads = false;
};

absl::StatusOr<AttentionOperands> ReadOperands(OnnxNode& node) {
  AttentionOperands x{node.input(0), node.input(1), node.input(2)};
  const int64_t q_heads = node.Int("q_num_heads", 0);
  const int64_t kv_heads = node.Int("kv_num_heads", 0);
  for (int i = 0; i < 3; ++i) {
    if (node.input_rank(i) != node.input_rank(0) || (node.input_rank(i) != 3 && node.input_rank(i) != 4)) {
      return InvalidArgument("operand ", node.input_type(i).ToString(),
                             "; expected [b, s, heads * d] or [b, heads, s, d], for all three alike");
    }
  }
  x.joined_heads = node.input_rank(0) == 3;
  if (x.joined_heads) {
    x.q = ToHeads(node, x.q, q_heads);
    x.k = ToHeads(node, x.k, kv_heads);
    x.v = ToHeads(node, x.v, kv_heads);
  }
  if (node.has_input(4) != node.has_input(5)) return InvalidArgument("past_key and past_value are given together");
  if (node.has_input(4)) {
    if (node.input_rank(4) != 4 || node.input_rank(5) != 4) {
      return InvalidArgument("past_key and past_value have four axes");
    }
    x.past = node.input_type(4).shape[2];
    x.k = node.Concat({node.input(4), x.k}, 2);
    x.v = node.Concat({node.input(5), x.v}, 2);
  }
  return x;
}

absl::Status ReadMask(OnnxNode& node, const AttentionOperands& x, AttentionMask* mask) {
  const bool causal = node.Flag("is_causal");
  const int64_t left = node.Int("left_window_size", -1);
  const int64_t right = node.Int("right_window_size", -1);
  if (node.has_input(3)) mask->AddMask(node.input(3));
  Value offset = node.Number(DType::kInt64, static_cast<double>(x.past));
  if (node.has_input(6)) {
    if (node.has_input(4)) return InvalidArgument("nonpad_kv_seqlen and past_key are not given together");
    const Value lengths = node.input(6);
    if (node.type(lengths).rank() != 1) return InvalidArgument("nonpad_kv_seqlen is ", node.type(lengths).ToString());
    mask->AddLengths(lengths);
    offset = node.Reshape(lengths, {node.shape(lengths)[0], 1, 1, 1});
    offset = node("sub", {offset, node.Number(offset, static_cast<double>(node.shape(x.q)[2]))});
  }
  const auto bound = [](int64_t size) { return size < 0 ? std::nullopt : std::optional<int64_t>(size); };
  if (causal) mask->AddWindow(offset, std::nullopt, 0);
  if (left >= 0 || right >= 0) mask->AddWindow(offset, bound(left), bound(right));
  return absl::OkStatus();
}

Values Attention(OnnxNode& node) {
  ASSIGN_OR_RETURN(AttentionOperands x, ReadOperands(node));
  const int64_t head_size = node.shape(x.q)[3];
  const double scale = node.Float("scale", 1 / std::sqrt(static_cast<double>(head_size)));
  const double softcap = node.Float("softcap", 0);
  const int64_t shown = node.Int("qk_matmul_output_mode", 0);
  node.Ignore({"softmax_precision"});  // of 16-bit types
  const std::vector<Value> present = {x.k, x.v};
  const int64_t heads = node.shape(x.q)[1];
  const int64_t kv_heads = node.shape(x.k)[1];
  if (kv_heads == 0 || heads % kv_heads != 0) {
    return InvalidArgument(heads, " heads of queries for ", kv_heads, " of keys");
  }
  const std::vector<int64_t> repeats = {1, heads / kv_heads, 1, 1};
  x.k = Repeat(node, x.k, repeats, /*inner=*/true);
  x.v = Repeat(node, x.v, repeats, /*inner=*/true);
  AttentionMask mask(node, node.shape(x.q)[2], node.shape(x.k)[2]);
  RETURN_IF_ERROR(ReadMask(node, x, &mask));

  const Value turned = node.Transpose(x.k, {0, 1, 3, 2});
  std::vector<Value> steps = {node("matmul", {node("mul", {x.q, node.Number(x.q, scale)}), turned})};
  const Value cap = node.Number(x.q, softcap);
  steps.push_back(softcap > 0 ? node("mul", {node("tanh", {node("div", {steps[0], cap})}), cap}) : steps[0]);
  steps.push_back(mask.On(steps[1]));
  steps.push_back(mask.WithEmptyRows(node("softmax", {steps[2]}, {{"axis", int64_t{3}}})));
  Value y = node("matmul", {steps[3], x.v});
  if (x.joined_heads) y = FromHeads(node, y);
  if (shown < 0 || shown > 3) return InvalidArgument("attribute qk_matmul_output_mode is ", shown);
  return std::vector<Value>{y, present[0], present[1], steps[static_cast<size_t>(shown)]};
}

// Rotates pairs of elements by angles of the position (Su et al. 2021): halves of a row, or neighbours. `cosines` and
// `sines` are numbers of inputs; without positions these have a batch and a position axis.
Values Rotary(OnnxNode& node, int cosines, int sines, std::optional<Value> positions, int64_t heads) {
  const bool interleaved = node.Flag("interleaved");
  int64_t turned = node.Int("rotary_embedding_dim", 0);
  Value x = node.input(0);
  const int rank = node.type(x).rank();
  if (rank != 3 && rank != 4)
    return InvalidArgument("operand ", node.type(x).ToString(), "; expected [b, s, heads * d] or [b, heads, s, d]");
  if (rank == 3) x = ToHeads(node, x, heads);
  const Shape shape = node.shape(x);  // [b, heads, s, d]
  if (turned == 0) turned = shape[3];
  if (turned < 2 || turned % 2 != 0 || turned > shape[3]) {
    return InvalidArgument("rotary_embedding_dim ", turned, " of ", node.type(x).ToString());
  }
  const int64_t half = turned / 2;
  // [b, 1, s, half]
  const auto angles = [&](int input) {
    Value cache = node.input(input);
    if (positions) cache = node("gather", {cache, *positions}, {{"axis", int64_t{0}}});
    if (node.type(cache).rank() != 3 || node.shape(cache)[2] != half) {
      return node.Fail(InvalidArgument("cache ", node.type(cache).ToString(), "; expected [b, s, ", half, "]"));
    }
    return node.Reshape(cache, {node.shape(cache)[0], 1, node.shape(cache)[1], half});
  };
  const Value cosine = angles(cosines);
  const Value sine = angles(sines);
  const Value part = node.SliceAxis(x, 3, 0, turned);
  std::vector<Value> pair;
  for (int64_t i = 0; i < 2; ++i) {
    if (!interleaved) {
      pair.push_back(node.SliceAxis(part, 3, i * half, (i + 1) * half));
      continue;
    }
    const Value parted = node.Reshape(part, {shape[0], shape[1], shape[2], half, 2});
    pair.push_back(node.Reshape(node.SliceAxis(parted, 4, i, i + 1), {shape[0], shape[1], shape[2], half}));
  }
  const Value real = node("sub", {node("mul", {cosine, pair[0]}), node("mul", {sine, pair[1]})});
  const Value imaginary = node("add", {node("mul", {sine, pair[0]}), node("mul", {cosine, pair[1]})});
  Value joined;
  if (interleaved) {
    const Shape single = {shape[0], shape[1], shape[2], half, 1};
    joined = node.Concat({node.Reshape(real, single), node.Reshape(imaginary, single)}, 4);
    joined = node.Reshape(joined, {shape[0], shape[1], shape[2], turned});
  } else {
    joined = node.Concat({real, imaginary}, 3);
  }
  if (turned < shape[3]) joined = node.Concat({joined, node.SliceAxis(x, 3, turned, shape[3])}, 3);
  return OneOutput(rank == 3 ? FromHeads(node, joined) : joined);
}

Values RotaryEmbedding(OnnxNode& node) { return Rotary(node, 1, 2, node.optional_input(3), node.Int("num_heads", 0)); }

// onnxruntime's operator; inputs: x, positions, cosines, sines. A single position is that of the first row, for all
// batches.
Values MicrosoftRotaryEmbedding(OnnxNode& node) {
  int64_t heads = node.Int("num_heads", 0);
  const bool packed = node.Flag("is_packed_batching");
  const double scale = node.Float("scale", 1);
  if (packed || scale != 1) return Unimplemented("is_packed_batching, or a scale");
  const TensorType x = node.input_type(0), cache = node.input_type(2);
  if (x.rank() < 3) return InvalidArgument("operand ", x.ToString());
  if (cache.rank() != 2 || cache.shape[1] == 0) return InvalidArgument("cache ", cache.ToString());
  if (x.rank() == 3 && heads == 0) heads = x.shape[2] / (2 * cache.shape[1]);
  Value positions = node.input(1);
  if (node.type(positions).rank() == 1) {
    positions = node("add", {node.CountAlong(x.shape[x.rank() - 2], 0, 1), positions});
    positions = node.Reshape(positions, {1, node.shape(positions)[0]});
  }
  return Rotary(node, 2, 3, positions, heads);
}

// ---------------------------------------------------------------- attention of the domain com.microsoft

constexpr double kMaskedScore = -10000;  // added where a mask is not set, if no attribute gives the number

// Returns the bias that is added to the scores to exclude masked keys. The mask i32 is [b, keys], ones and zeros; [b,
// queries, keys], the same for each query; or [b], the number of leading keys that count.
Value MaskBias(OnnxNode& node, Value mask, const AttentionOperands& x, double masked) {
  const Shape shape = node.shape(mask);
  const int64_t batch = node.shape(x.q)[0], queries = node.shape(x.q)[2], keys = node.shape(x.k)[2];
  mask = node.CastTo(mask, DType::kInt32);
  Value there;
  if (shape == Shape{batch}) {
    const Value places = node.CastTo(node.CountAlong(keys, 0, 1), DType::kInt32);
    there = node("less", {places, node.Reshape(mask, {batch, 1, 1, 1})});
  } else {
    if (shape == Shape{batch, keys}) {
      mask = node.Reshape(mask, {batch, 1, 1, keys});
    } else if (shape == Shape{batch, queries, keys}) {
      mask = node.Reshape(mask, {batch, 1, queries, keys});
    } else {
      return node.Fail(Unimplemented("a mask ", node.type(mask).ToString()));
    }
    there = node("less", {node.Number(mask, 0), mask});
  }
  return node("where", {there, node.Number(x.q, 0), node.Number(x.q, masked)});
}

// Returns softmax(scale q k' + bias) v, as [b, queries, heads * d]. The mask is that of MaskBias.
Value Attended(OnnxNode& node, const AttentionOperands& x, std::optional<Value> mask, std::optional<Value> bias) {
  const int64_t queries = node.shape(x.q)[2], keys = node.shape(x.k)[2], size = node.shape(x.q)[3];
  double scale = node.Float("scale", 0);
  const double masked = node.Float("mask_filter_value", kMaskedScore);
  const bool causal = node.Flag("unidirectional");
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(size));
  Value scores = node("matmul", {x.q, node.Transpose(x.k, {0, 1, 3, 2})});
  scores = node("mul", {scores, node.Number(x.q, scale)});
  if (mask) scores = node("add", {scores, MaskBias(node, *mask, x, masked)});
  if (bias) scores = node("add", {scores, *bias});
  if (causal) {
    const Value rows = node.CountAlong(queries, 0, 2);
    const Value columns = node.CountAlong(keys, 0, 1);
    const Value last = node("add", {rows, node.Number(rows, static_cast<double>(keys - queries))});
    const double never = -kInfinity;
    scores = node("where", {node("less_equal", {columns, last}), scores, node.Number(x.q, never)});
  }
  const Value weights = node("softmax", {scores}, {{"axis", int64_t{3}}});
  return FromHeads(node, node("matmul", {weights, x.v}));
}

absl::Status CheckRank(const OnnxNode& node, int i, int rank) {
  if (node.input_rank(i) == rank) return absl::OkStatus();
  return Unimplemented("input ", i, ": ", node.input_type(i).ToString(), "; of ", rank, " axes");
}

// Inputs: x, the weights of all three products, their bias, a mask, earlier keys and values (stacked), an addend of the
// scores. Outputs: the result, keys and values including earlier ones.
Values MicrosoftAttention(OnnxNode& node) {
  const int64_t heads = node.Int("num_heads");
  std::vector<int64_t> sizes = node.Ints("qkv_hidden_sizes");
  const bool rotary = node.Flag("do_rotary"), shared = node.Flag("past_present_share_buffer");
  node.Ignore({"rotary_embedding_dim"});
  if (rotary || shared) return Unimplemented("do_rotary or past_present_share_buffer");
  if (node.has_input(6)) return Unimplemented("input 6 (past_sequence_length)");
  RETURN_IF_ERROR(CheckRank(node, 0, 3));
  RETURN_IF_ERROR(CheckRank(node, 1, 2));
  const int64_t columns = node.input_type(1).shape[1];
  if (sizes.empty()) sizes.assign(3, columns / 3);
  if (sizes.size() != 3 || sizes[0] < 0 || sizes[1] < 0 || sizes[2] != columns - sizes[0] - sizes[1] || sizes[2] < 0) {
    return InvalidArgument("qkv_hidden_sizes do not add up to ", columns);
  }
  Value joined = node("matmul", {node.input(0), node.input(1)});
  if (node.has_input(2)) joined = node("add", {joined, node.input(2)});
  AttentionOperands x;
  int64_t begin = 0;
  for (const auto& [part, size] : {std::pair(&x.q, sizes[0]), {&x.k, sizes[1]}, {&x.v, sizes[2]}}) {
    *part = ToHeads(node, node.SliceAxis(joined, 2, begin, begin + size), heads);
    begin += size;
  }
  if (node.has_input(4)) {
    RETURN_IF_ERROR(CheckRank(node, 4, 5));
    Shape shape = node.input_type(4).shape;
    if (shape[0] != 2) return InvalidArgument("past is ", node.input_type(4).ToString());
    shape.erase(shape.begin());
    for (const auto& [part, i] : {std::pair(&x.k, int64_t{0}), {&x.v, int64_t{1}}}) {
      *part = node.Concat({node.Reshape(node.SliceAxis(node.input(4), 0, i, i + 1), shape), *part}, 2);
    }
  }
  const Value y = Attended(node, x, node.optional_input(3), node.optional_input(5));
  if (!node.wants_output(1)) return std::vector<Value>{y};
  std::vector<Value> stacked;
  for (Value part : {x.k, x.v}) {
    Shape shape = node.shape(part);
    shape.insert(shape.begin(), 1);
    stacked.push_back(node.Reshape(part, shape));
  }
  return std::vector<Value>{y, node.Concat(stacked, 0)};
}

// Inputs: queries, keys, values, a bias of all three, a mask of keys, an addend of the scores, earlier keys and values.
// Outputs: the result, keys, values including earlier ones.
Values MultiHeadAttention(OnnxNode& node) {
  const int64_t heads = node.Int("num_heads");
  for (int i = 8; i < node.num_inputs(); ++i) {
    if (node.has_input(i)) return Unimplemented("input ", i);
  }
  if (!node.has_input(1) || !node.has_input(2)) return Unimplemented("queries, keys and values packed into one");
  if (node.has_input(6) != node.has_input(7)) return InvalidArgument("past_key and past_value are given together");
  RETURN_IF_ERROR(CheckRank(node, 0, 3));
  AttentionOperands x{node.input(0), node.input(1), node.input(2)};
  int64_t begin = 0;
  for (Value* part : {&x.q, &x.k, &x.v}) {
    if (node.type(*part).rank() == 4) {  // by heads already
      if (node.has_input(3)) return Unimplemented("a bias of keys that are by heads");
      continue;
    }
    if (node.type(*part).rank() != 3) return Unimplemented("operand ", node.type(*part).ToString());
    if (node.has_input(3)) {
      RETURN_IF_ERROR(CheckRank(node, 3, 1));
      const int64_t size = node.shape(*part)[2];
      if (begin + size > node.input_type(3).shape[0]) return InvalidArgument("the bias is too short");
      *part = node("add", {*part, node.SliceAxis(node.input(3), 0, begin, begin + size)});
      begin += size;
    }
    *part = ToHeads(node, *part, heads);
  }
  if (node.has_input(6)) {
    RETURN_IF_ERROR(CheckRank(node, 6, 4));
    RETURN_IF_ERROR(CheckRank(node, 7, 4));
    x.k = node.Concat({node.input(6), x.k}, 2);
    x.v = node.Concat({node.input(7), x.v}, 2);
  }
  return std::vector<Value>{Attended(node, x, node.optional_input(4), node.optional_input(5)), x.k, x.v};
}

}  // namespace

OnnxOperatorList AttentionOperators() {
  return {
      {"Attention", {23, 25, 3, 7, Attention}},
      {"RotaryEmbedding", {23, 23, 3, 4, RotaryEmbedding}},
      {"com.microsoft.RotaryEmbedding", {1, 1, 4, 4, MicrosoftRotaryEmbedding}},
      {"com.microsoft.Attention", {1, 1, 2, 7, MicrosoftAttention}},
      {"com.microsoft.MultiHeadAttention", {1, 1, 1, 10, MultiHeadAttention}},
  };
}

}  // namespace rewright
