// Attention and rotary embeddings.
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/onnx/operators.h"

namespace rewright {

absl::StatusOr<Value> ToHeads(OnnxNode& node, Value x, int64_t heads) {
  const Shape& shape = node.shape(x);
  if (heads < 1 || shape[2] % heads != 0) {
    return node.Invalid(absl::StrCat(heads, " heads of ", node.type(x).ToString()));
  }
  ASSIGN_OR_RETURN(const Value parted, node.Reshape(x, {shape[0], shape[1], heads, shape[2] / heads}));
  return node.Transpose(parted, {0, 2, 1, 3});
}

absl::StatusOr<Value> FromHeads(OnnxNode& node, Value x) {
  ASSIGN_OR_RETURN(const Value turned, node.Transpose(x, {0, 2, 1, 3}));
  const Shape& shape = node.shape(turned);
  return node.Reshape(turned, {shape[0], shape[1], shape[2] * shape[3]});
}

namespace {

using Values = absl::StatusOr<std::vector<Value>>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Who attends whom: of queries [b, h, q, ..] and keys [b, h, k, ..].
class AttentionMask {
 public:
  AttentionMask(OnnxNode& node, int64_t queries, int64_t keys) : node_(node), queries_(queries), keys_(keys) {}

  // Booleans, or numbers that are added to the scores; a shorter one ends where nothing is attended.
  absl::Status AddMask(Value mask) {
    const bool is_bool = node_.type(mask).dtype == DType::kBool;
    const int64_t missing = node_.type(mask).rank() == 0 ? 0 : keys_ - node_.shape(mask).back();
    if (missing > 0 && node_.shape(mask).back() != 1) {
      std::vector<int64_t> before(node_.shape(mask).size(), 0), after = before;
      after.back() = missing;
      ASSIGN_OR_RETURN(
          mask,
          node_.Apply("pad", {mask}, {{"before", before}, {"after", after}, {"value", is_bool ? 0.0 : -kInfinity}}));
    }
    if (is_bool) {
      Formula f(node_);
      return Allow(f, mask);
    }
    bias_ = mask;
    return absl::OkStatus();
  }

  // At most `right` keys after, at least `left` before the position of a query, which is its number plus `offset`:
  // an integer for all, or one for each of the batch.
  absl::Status AddWindow(Value offset, std::optional<int64_t> left, std::optional<int64_t> right) {
    ASSIGN_OR_RETURN(const Value rows, node_.CountAlong(queries_, 0, 2));
    ASSIGN_OR_RETURN(const Value columns, node_.CountAlong(keys_, 0, 1));
    Formula f(node_);
    const Value position = f("add", {rows, offset});
    if (right) {
      const Value last = f("add", {position, f.Number(rows, static_cast<double>(*right))});
      RETURN_IF_ERROR(Allow(f, f("less_equal", {columns, last})));
    }
    if (left) {
      const Value first = f("sub", {position, f.Number(rows, static_cast<double>(*left))});
      RETURN_IF_ERROR(Allow(f, f("less_equal", {first, columns})));
    }
    return absl::OkStatus();
  }

  // The first so many keys, by batch: i64[b].
  absl::Status AddLengths(Value lengths) {
    ASSIGN_OR_RETURN(const Value columns, node_.CountAlong(keys_, 0, 1));
    ASSIGN_OR_RETURN(const Value column, node_.Reshape(lengths, {node_.shape(lengths)[0], 1, 1, 1}));
    Formula f(node_);
    return Allow(f, f("less", {columns, column}));
  }

  Value On(Formula& f, Value scores) const {
    if (bias_) scores = f("add", {scores, *bias_});
    return allowed_ ? f("where", {*allowed_, scores, f.Number(scores, -kInfinity)}) : scores;
  }

  // A query without any key gets zeros: its scores are all infinite.
  absl::StatusOr<Value> WithEmptyRows(Formula& f, Value weights) const {
    const Attrs last = {{"axes", std::vector<int64_t>{-1}}, {"keepdims", int64_t{1}}};
    const auto over = [&](Value x) {
      Attrs attrs = last;
      attrs["axes"] = std::vector<int64_t>{node_.type(x).rank() - 1};
      return attrs;
    };
    std::optional<Value> some;
    if (bias_) {
      const Value zero = f.Number(*bias_, 0);
      const Value bias =
          allowed_ ? f("where", {*allowed_, *bias_, f.Number(*bias_, -kInfinity)}) : f("add", {*bias_, zero});
      RETURN_IF_ERROR(f.Done(bias).status());
      if (node_.type(bias).rank() == 0) return weights;
      some = f("less", {f.Number(bias, -kInfinity), f("reduce_max", {bias}, over(bias))});
    } else if (allowed_ && node_.type(*allowed_).rank() > 0) {
      some = f("reduce_or", {*allowed_}, over(*allowed_));
    }
    ASSIGN_OR_RETURN(weights, f.Done(weights));
    if (!some) return weights;
    ASSIGN_OR_RETURN(const Value rows, f.Done(*some));
    if (const Tensor* known = node_.KnownTensor(rows)) {
      bool all = true;
      for (int64_t i = 0; i < known->num_elements(); ++i) all = all && known->At(i) != 0;
      if (all) return weights;
    }
    return f.Done(f("where", {rows, weights, f.Number(weights, 0)}));
  }

 private:
  absl::Status Allow(Formula& f, Value condition) {
    if (allowed_) condition = f("logical_and", {*allowed_, condition});
    ASSIGN_OR_RETURN(allowed_, f.Done(condition));
    return absl::OkStatus();
  }

  OnnxNode& node_;
  const int64_t queries_, keys_;
  std::optional<Value> bias_, allowed_;
};

struct AttentionOperands {
  Value q, k, v;     // [b, heads, s, d]
  int64_t past = 0;  // keys that were there before
  bool joined_heads = false;
};

absl::StatusOr<AttentionOperands> ReadOperands(OnnxNode& node) {
  AttentionOperands x{node.input(0), node.input(1), node.input(2)};
  ASSIGN_OR_RETURN(const int64_t q_heads, node.Int("q_num_heads", 0));
  ASSIGN_OR_RETURN(const int64_t kv_heads, node.Int("kv_num_heads", 0));
  for (int i = 0; i < 3; ++i) {
    if (node.input_rank(i) != node.input_rank(0) || (node.input_rank(i) != 3 && node.input_rank(i) != 4)) {
      return node.Invalid(absl::StrCat("operand ", node.input_type(i).ToString(),
                                       "; expected [b, s, heads * d] or [b, heads, s, d], for all three alike"));
    }
  }
  x.joined_heads = node.input_rank(0) == 3;
  if (x.joined_heads) {
    ASSIGN_OR_RETURN(x.q, ToHeads(node, x.q, q_heads));
    ASSIGN_OR_RETURN(x.k, ToHeads(node, x.k, kv_heads));
    ASSIGN_OR_RETURN(x.v, ToHeads(node, x.v, kv_heads));
  }
  if (node.has_input(4) != node.has_input(5)) return node.Invalid("past_key and past_value are given together");
  if (node.has_input(4)) {
    if (node.input_rank(4) != 4 || node.input_rank(5) != 4) {
      return node.Invalid("past_key and past_value have four axes");
    }
    x.past = node.input_type(4).shape[2];
    ASSIGN_OR_RETURN(x.k, node.Concat({node.input(4), x.k}, 2));
    ASSIGN_OR_RETURN(x.v, node.Concat({node.input(5), x.v}, 2));
  }
  return x;
}

absl::Status ReadMask(OnnxNode& node, const AttentionOperands& x, AttentionMask* mask) {
  ASSIGN_OR_RETURN(const int64_t causal, node.Int("is_causal", 0));
  ASSIGN_OR_RETURN(const int64_t left, node.Int("left_window_size", -1));
  ASSIGN_OR_RETURN(const int64_t right, node.Int("right_window_size", -1));
  if (node.has_input(3)) RETURN_IF_ERROR(mask->AddMask(node.input(3)));
  Value offset = node.Number(DType::kInt64, static_cast<double>(x.past));
  if (node.has_input(6)) {
    if (node.has_input(4)) return node.Invalid("nonpad_kv_seqlen and past_key are not given together");
    const Value lengths = node.input(6);
    if (node.type(lengths).rank() != 1) {
      return node.Invalid(absl::StrCat("nonpad_kv_seqlen is ", node.type(lengths).ToString()));
    }
    RETURN_IF_ERROR(mask->AddLengths(lengths));
    ASSIGN_OR_RETURN(offset, node.Reshape(lengths, {node.shape(lengths)[0], 1, 1, 1}));
    Formula f(node);
    ASSIGN_OR_RETURN(offset, f.Done(f("sub", {offset, f.Number(offset, static_cast<double>(node.shape(x.q)[2]))})));
  }
  const auto bound = [](int64_t size) { return size < 0 ? std::nullopt : std::optional<int64_t>(size); };
  if (causal != 0) RETURN_IF_ERROR(mask->AddWindow(offset, std::nullopt, 0));
  return left < 0 && right < 0 ? absl::OkStatus() : mask->AddWindow(offset, bound(left), bound(right));
}

Values Attention(OnnxNode& node) {
  ASSIGN_OR_RETURN(AttentionOperands x, ReadOperands(node));
  const int64_t head_size = node.shape(x.q)[3];
  ASSIGN_OR_RETURN(const double scale, node.Float("scale", 1 / std::sqrt(static_cast<double>(head_size))));
  ASSIGN_OR_RETURN(const double softcap, node.Float("softcap", 0));
  ASSIGN_OR_RETURN(const int64_t shown, node.Int("qk_matmul_output_mode", 0));
  node.Ignore({"softmax_precision"});  // of 16-bit types
  const std::vector<Value> present = {x.k, x.v};
  const int64_t heads = node.shape(x.q)[1];
  const int64_t kv_heads = node.shape(x.k)[1];
  if (kv_heads == 0 || heads % kv_heads != 0) {
    return node.Invalid(absl::StrCat(heads, " heads of queries for ", kv_heads, " of keys"));
  }
  const std::vector<int64_t> repeats = {1, heads / kv_heads, 1, 1};
  ASSIGN_OR_RETURN(x.k, Repeat(node, x.k, repeats, /*inner=*/true));
  ASSIGN_OR_RETURN(x.v, Repeat(node, x.v, repeats, /*inner=*/true));
  AttentionMask mask(node, node.shape(x.q)[2], node.shape(x.k)[2]);
  RETURN_IF_ERROR(ReadMask(node, x, &mask));

  Formula f(node);
  ASSIGN_OR_RETURN(const Value turned, node.Transpose(x.k, {0, 1, 3, 2}));
  std::vector<Value> steps = {f("matmul", {f("mul", {x.q, f.Number(x.q, scale)}), turned})};
  const Value cap = f.Number(x.q, softcap);
  steps.push_back(softcap > 0 ? f("mul", {f("tanh", {f("div", {steps[0], cap})}), cap}) : steps[0]);
  steps.push_back(mask.On(f, steps[1]));
  ASSIGN_OR_RETURN(steps.emplace_back(), mask.WithEmptyRows(f, f("softmax", {steps[2]}, {{"axis", int64_t{3}}})));
  ASSIGN_OR_RETURN(Value y, f.Done(f("matmul", {steps[3], x.v})));
  if (x.joined_heads) {
    ASSIGN_OR_RETURN(y, FromHeads(node, y));
  }
  if (shown < 0 || shown > 3) return node.Invalid(absl::StrCat("attribute qk_matmul_output_mode is ", shown));
  return std::vector<Value>{y, present[0], present[1], steps[static_cast<size_t>(shown)]};
}

// Pairs of elements turned by angles that belong to the position (Su et al. 2021): halves of a row, or neighbours.
// `cosines` and `sines`: inputs by number; without positions they are given by batch and position.
Values Rotary(OnnxNode& node, int cosines, int sines, std::optional<Value> positions, int64_t heads) {
  ASSIGN_OR_RETURN(const int64_t interleaved, node.Int("interleaved", 0));
  ASSIGN_OR_RETURN(int64_t turned, node.Int("rotary_embedding_dim", 0));
  Value x = node.input(0);
  const int rank = node.type(x).rank();
  if (rank != 3 && rank != 4)
    return node.Invalid(
        absl::StrCat("operand ", node.type(x).ToString(), "; expected [b, s, heads * d] or [b, heads, s, d]"));
  if (rank == 3) {
    ASSIGN_OR_RETURN(x, ToHeads(node, x, heads));
  }
  const Shape shape = node.shape(x);  // [b, heads, s, d]
  if (turned == 0) turned = shape[3];
  if (turned < 2 || turned % 2 != 0 || turned > shape[3]) {
    return node.Invalid(absl::StrCat("rotary_embedding_dim ", turned, " of ", node.type(x).ToString()));
  }
  const int64_t half = turned / 2;
  // [b, 1, s, half]
  const auto angles = [&](int input) -> absl::StatusOr<Value> {
    Value cache = node.input(input);
    if (positions) {
      ASSIGN_OR_RETURN(cache, node.Apply("gather", {cache, *positions}, {{"axis", int64_t{0}}}));
    }
    if (node.type(cache).rank() != 3 || node.shape(cache)[2] != half) {
      return node.Invalid(absl::StrCat("cache ", node.type(cache).ToString(), "; expected [b, s, ", half, "]"));
    }
    return node.Reshape(cache, {node.shape(cache)[0], 1, node.shape(cache)[1], half});
  };
  ASSIGN_OR_RETURN(const Value cosine, angles(cosines));
  ASSIGN_OR_RETURN(const Value sine, angles(sines));
  ASSIGN_OR_RETURN(const Value part, node.SliceAxis(x, 3, 0, turned));
  std::vector<Value> pair;
  for (int64_t i = 0; i < 2; ++i) {
    if (interleaved == 0) {
      ASSIGN_OR_RETURN(pair.emplace_back(), node.SliceAxis(part, 3, i * half, (i + 1) * half));
      continue;
    }
    ASSIGN_OR_RETURN(const Value parted, node.Reshape(part, {shape[0], shape[1], shape[2], half, 2}));
    ASSIGN_OR_RETURN(const Value one, node.SliceAxis(parted, 4, i, i + 1));
    ASSIGN_OR_RETURN(pair.emplace_back(), node.Reshape(one, {shape[0], shape[1], shape[2], half}));
  }
  Formula f(node);
  const Value real = f("sub", {f("mul", {cosine, pair[0]}), f("mul", {sine, pair[1]})});
  const Value imaginary = f("add", {f("mul", {sine, pair[0]}), f("mul", {cosine, pair[1]})});
  RETURN_IF_ERROR(f.Done(imaginary).status());
  Value joined;
  if (interleaved == 0) {
    ASSIGN_OR_RETURN(joined, node.Concat({real, imaginary}, 3));
  } else {
    const Shape single = {shape[0], shape[1], shape[2], half, 1};
    ASSIGN_OR_RETURN(const Value a, node.Reshape(real, single));
    ASSIGN_OR_RETURN(const Value b, node.Reshape(imaginary, single));
    ASSIGN_OR_RETURN(joined, node.Concat({a, b}, 4));
    ASSIGN_OR_RETURN(joined, node.Reshape(joined, {shape[0], shape[1], shape[2], turned}));
  }
  if (turned < shape[3]) {
    ASSIGN_OR_RETURN(const Value rest, node.SliceAxis(x, 3, turned, shape[3]));
    ASSIGN_OR_RETURN(joined, node.Concat({joined, rest}, 3));
  }
  return rank == 3 ? OneOutput(FromHeads(node, joined)) : OneOutput(joined);
}

Values RotaryEmbedding(OnnxNode& node) {
  ASSIGN_OR_RETURN(const int64_t heads, node.Int("num_heads", 0));
  return Rotary(node, 1, 2, node.has_input(3) ? std::optional(node.input(3)) : std::nullopt, heads);
}

// onnxruntime's: x, positions, cosines, sines. One position alone is that of the first row, of all batches.
Values MicrosoftRotaryEmbedding(OnnxNode& node) {
  ASSIGN_OR_RETURN(int64_t heads, node.Int("num_heads", 0));
  ASSIGN_OR_RETURN(const int64_t packed, node.Int("is_packed_batching", 0));
  ASSIGN_OR_RETURN(const double scale, node.Float("scale", 1));
  if (packed != 0 || scale != 1) return node.Unsupported("is_packed_batching, or a scale");
  const TensorType x = node.input_type(0), cache = node.input_type(2);
  if (x.rank() < 3) return node.Invalid(absl::StrCat("operand ", x.ToString()));
  if (cache.rank() != 2 || cache.shape[1] == 0) return node.Invalid(absl::StrCat("cache ", cache.ToString()));
  if (x.rank() == 3 && heads == 0) heads = x.shape[2] / (2 * cache.shape[1]);
  Value positions = node.input(1);
  if (node.type(positions).rank() == 1) {
    ASSIGN_OR_RETURN(const Value rows, node.CountAlong(x.shape[x.rank() - 2], 0, 1));
    Formula f(node);
    ASSIGN_OR_RETURN(positions, f.Done(f("add", {rows, positions})));
    ASSIGN_OR_RETURN(positions, node.Reshape(positions, {1, node.shape(positions)[0]}));
  }
  return Rotary(node, 2, 3, positions, heads);
}

}  // namespace

OnnxOperatorList AttentionOperators() {
  return {
      {"Attention", {23, 25, 3, 7, Attention}},
      {"RotaryEmbedding", {23, 23, 3, 4, RotaryEmbedding}},
      {"com.microsoft.RotaryEmbedding", {1, 1, 4, 4, MicrosoftRotaryEmbedding}},
  };
}

}  // namespace rewright
