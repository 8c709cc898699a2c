#include "runtime/distributed/described/described_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace rewright::distributed {
namespace {

// A field of the object `transformer`, or of the model.
struct SizeField {
  const char* name;
  int64_t DescribedModel::*size;
  int64_t least;  // 0: may be left out
};
constexpr SizeField kSizes[] = {{"layers", &DescribedModel::layers, 1},
                                {"hidden", &DescribedModel::hidden, 1},
                                {"heads", &DescribedModel::heads, 1},
                                {"mlp", &DescribedModel::mlp, 1},
                                {"vocabulary", &DescribedModel::vocabulary, 1},
                                {"sequence", &DescribedModel::sequence, 1},
                                {"key_value_heads", &DescribedModel::key_value_heads, 0},
                                {"head_size", &DescribedModel::head_size, 0},
                                {"attention_weights", &DescribedModel::attention_weights, 0},
                                {"experts", &DescribedModel::experts, 0},
                                {"experts_per_token", &DescribedModel::experts_per_token, 0},
                                {"expert_mlp", &DescribedModel::expert_mlp, 0},
                                {"shared_experts", &DescribedModel::shared_experts, 0},
                                {"dense_layers", &DescribedModel::dense_layers, 0}};
constexpr SizeField kOfModel[] = {{"batch", &DescribedModel::batch, 1},
                                  {"weight_bytes", &DescribedModel::weight_bytes, 0},
                                  {"gradient_bytes", &DescribedModel::gradient_bytes, 0},
                                  {"state_bytes", &DescribedModel::state_bytes, 0}};
constexpr int64_t kMostSize = int64_t{1} << 32;

using ModelJson = nlohmann::ordered_json;

absl::Status WrongField(const std::string& field, const std::string& found, const std::string& expected) {
  return absl::InvalidArgumentError(absl::StrCat("model: ", field, ": found ", found, ", expected ", expected));
}

absl::Status TakeSize(const ModelJson& from, const std::string& where, const SizeField& field, DescribedModel* model) {
  if (!from.contains(field.name)) {
    if (field.least == 0) return absl::OkStatus();
    return WrongField(absl::StrCat(where, field.name), "nothing", "a number");
  }
  const ModelJson& found = from[field.name];
  if (!found.is_number_integer() || found.get<int64_t>() < field.least || found.get<int64_t>() > kMostSize) {
    return WrongField(absl::StrCat(where, field.name), found.dump(),
                      absl::StrCat("a whole number from ", field.least, " to ", kMostSize));
  }
  model->*field.size = found.get<int64_t>();
  return absl::OkStatus();
}

absl::Status CheckSizes(const DescribedModel& model) {
  if (model.heads % model.key_value_heads != 0) {
    return WrongField("transformer.key_value_heads", absl::StrCat(model.key_value_heads), "a divisor of the heads");
  }
  if (model.experts > 0 && (model.expert_mlp == 0 || model.experts_per_token == 0 ||
                            model.experts_per_token > model.experts || model.dense_layers > model.layers)) {
    return WrongField("transformer.experts", absl::StrCat(model.experts),
                      "expert_mlp, and experts_per_token of them, in some layers");
  }
  const auto is_size = [](int64_t bytes) { return bytes == 2 || bytes == 4; };
  if (!is_size(model.weight_bytes) || !is_size(model.gradient_bytes)) {
    return WrongField("weight_bytes and gradient_bytes", absl::StrCat(model.weight_bytes, ", ", model.gradient_bytes),
                      "2 or 4");
  }
  return absl::OkStatus();
}

}  // namespace

int64_t DescribedModel::AttentionWeights() const {
  if (attention_weights > 0) return attention_weights;
  return hidden * head_size * 2 * (heads + key_value_heads);
}
int64_t DescribedModel::MlpWeights(int64_t layer) const {
  const int64_t products = gated ? 3 : 2;
  if (!HasExperts(layer)) return hidden * mlp * products;
  return hidden * (shared_experts * expert_mlp * products + experts);
}
int64_t DescribedModel::ExpertWeights(int64_t layer) const {
  return HasExperts(layer) ? experts * hidden * expert_mlp * (gated ? 3 : 2) : 0;
}
int64_t DescribedModel::Weights() const {
  int64_t weights = 2 * HeadWeights();
  for (int64_t layer = 0; layer < layers; ++layer) {
    weights += AttentionWeights() + MlpWeights(layer) + ExpertWeights(layer);
  }
  return weights;
}

absl::StatusOr<DescribedModel> ParseDescribedModel(const std::string& json) {
  const ModelJson from = ModelJson::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!from.is_object()) return absl::InvalidArgumentError("model: expected a JSON object");
  DescribedModel model;
  if (!from.contains("transformer") || !from["transformer"].is_object()) {
    return WrongField("transformer", from.contains("transformer") ? from["transformer"].dump() : "nothing",
                      "an object of sizes");
  }
  const ModelJson& sizes = from["transformer"];
  std::vector<std::string> known = {"gated", "fused_attention"};
  for (const SizeField& field : kSizes) {
    RETURN_IF_ERROR(TakeSize(sizes, "transformer.", field, &model));
    known.push_back(field.name);
  }
  for (const auto& [key, value] : sizes.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return WrongField("transformer", key, absl::StrJoin(known, ", "));
    }
  }
  known = {"name", "transformer", "precision", "sources"};
  for (const SizeField& field : kOfModel) {
    RETURN_IF_ERROR(TakeSize(from, "", field, &model));
    known.push_back(field.name);
  }
  for (const auto& [key, value] : from.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end())
      return WrongField("", key, absl::StrJoin(known, ", "));
  }
  for (const auto& [key, is] : {std::pair("gated", &model.gated), {"fused_attention", &model.fused_attention}}) {
    if (!sizes.contains(key)) continue;
    if (!sizes[key].is_boolean()) {
      return WrongField(absl::StrCat("transformer.", key), sizes[key].dump(), "true or false");
    }
    *is = sizes[key].get<bool>();
  }
  for (const auto& [key, text] : {std::pair("name", &model.name), {"precision", &model.precision}}) {
    if (!from.contains(key)) continue;
    if (!from[key].is_string()) return WrongField(key, from[key].dump(), "a text");
    *text = from[key].get<std::string>();
  }
  if (model.key_value_heads == 0) model.key_value_heads = model.heads;
  if (model.head_size == 0) model.head_size = std::max<int64_t>(1, model.hidden / model.heads);
  RETURN_IF_ERROR(CheckSizes(model));
  return model;
}

absl::StatusOr<PartSeconds> PartSeconds::Of(const DescribedModel& model, const ClusterDevice& device, int64_t tokens,
                                            int tp) {
  std::vector<std::string> needed = {model.precision, "attention", "memory"};
  if (model.experts > 0) needed.push_back("experts");
  for (const std::string& kind : needed) {
    if (!device.efficiency.contains(kind)) {
      return absl::InvalidArgumentError(
          absl::StrCat("cluster: device.efficiency: found no ", kind, ", which the model needs"));
    }
  }
  if (!device.flops_per_second.contains(model.precision)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cluster: device.flops_per_second: found no ", model.precision, ", the model's precision"));
  }
  return PartSeconds(model, device, tokens, tp);
}

double PartSeconds::Bytes(double bytes) const {
  return bytes / (device_.bytes_per_second * device_.efficiency.at("memory"));
}

double PartSeconds::Product(double rows, double columns, double sums, const std::string& precision,
                            const std::string& kind, double times) const {
  const double element = precision == "fp8" ? 1 : precision == "f32" ? 4 : 2, result = std::max(2.0, element);
  const double rate = device_.flops_per_second.at(precision) * device_.efficiency.at(kind);
  const double moved = (rows * sums + sums * columns) * element + rows * columns * result;
  // Narrow operands are converted before, with a copy for the other order of their axes.
  const double converted = precision == "fp8" ? rows * sums * 4 : 0;
  return times * (std::max(2 * rows * columns * sums / rate, Bytes(moved)) + Bytes(converted)) + device_.launch_seconds;
}

PartSeconds::Passes PartSeconds::Products(double columns, double sums, const std::string& precision) const {
  return {Product(tokens_, columns, sums, precision, precision), Product(tokens_, sums, columns, precision, precision),
          Product(sums, columns, tokens_, precision, precision)};
}

namespace {

PartSeconds::Passes operator+(PartSeconds::Passes a, const PartSeconds::Passes& b) {
  return {a.forward + b.forward, a.backward + b.backward, a.of_weights + b.of_weights};
}

}  // namespace

double PartSeconds::Boundary() const {
  return Bytes(10.0 * static_cast<double>(model_.hidden) * tokens_ / tp_) + 2 * device_.launch_seconds;
}

PartSeconds::Passes PartSeconds::Scores(double queries) const {
  const double pairs = tokens_ * static_cast<double>(model_.sequence);
  if (!model_.fused_attention) {
    // Products of all pairs. Bytes of a score that these, a fused softmax and dropout with its mask read and write:
    // 2 + 4 + 5 + 2 forwards, 2 + 2 + 5 + 6 + 4 backwards.
    const double scores = pairs * static_cast<double>(model_.heads) / tp_;
    const double rate = device_.flops_per_second.at(model_.precision) * device_.efficiency.at(model_.precision);
    const double products = 4 * pairs * queries / rate;
    return {products + Bytes(13 * scores) + 3 * device_.launch_seconds,
            2 * products + Bytes(19 * scores) + 5 * device_.launch_seconds, 0};
  }
  const auto rate = device_.flops_per_second.find("bf16");
  const double peak =
      rate == device_.flops_per_second.end() ? device_.flops_per_second.at(model_.precision) : rate->second;
  // Causal: half of the scores, and of the sums by them; the backward pass makes five products of these.
  const double core = 2 * pairs * queries / (peak * device_.efficiency.at("attention"));
  return {core, 2.5 * core, 0};
}

PartSeconds::Passes PartSeconds::Attention() const {
  const auto hidden = static_cast<double>(model_.hidden);
  const double queries = static_cast<double>(model_.heads * model_.head_size) / tp_;
  const double keys = static_cast<double>(model_.key_value_heads * model_.head_size) / tp_;
  Passes passes;
  if (model_.attention_weights > 0) {
    passes = Products(static_cast<double>(model_.attention_weights) / hidden / tp_, hidden);
  } else {
    passes = Products(queries + 2 * keys, hidden) + Products(hidden, queries);
  }
  passes = passes + Scores(queries);
  const double turned = Bytes(4 * (queries + keys) * tokens_) + device_.launch_seconds;
  passes.forward += turned + Boundary() + device_.launch_seconds;
  passes.backward += turned + 1.5 * Boundary() + device_.launch_seconds;
  return passes;
}

PartSeconds::Passes PartSeconds::Dense(double mlp) const {
  const auto hidden = static_cast<double>(model_.hidden);
  const double products = model_.gated ? 2 : 1, columns = mlp / tp_;
  Passes passes = Products(products * columns, hidden) + Products(hidden, columns);
  const double activation = 2 * columns * tokens_;
  passes.forward += Bytes((products + 1) * activation) + device_.launch_seconds;
  passes.backward += Bytes((2 * products + 1) * activation) + device_.launch_seconds;
  return passes;
}

PartSeconds::Passes PartSeconds::Mlp(int64_t layer) const {
  Passes passes;
  if (!model_.HasExperts(layer)) {
    passes = Dense(static_cast<double>(model_.mlp));
  } else {
    passes = Products(static_cast<double>(model_.experts) / tp_, static_cast<double>(model_.hidden));
    if (model_.shared_experts > 0) {
      passes = passes + Dense(static_cast<double>(model_.shared_experts * model_.expert_mlp));
    }
  }
  passes.forward += Boundary();
  passes.backward += 1.5 * Boundary();
  return passes;
}

PartSeconds::Passes PartSeconds::Experts(int64_t ranks) const {
  const double rows = tokens_ * static_cast<double>(model_.experts_per_token),
               hidden = static_cast<double>(model_.hidden);
  const double columns = static_cast<double>(model_.expert_mlp) * (model_.gated ? 3 : 2) / tp_;
  const double here = std::max(1.0, static_cast<double>(model_.experts) / static_cast<double>(ranks));
  const double each = rows / here;
  const double permuted = Bytes(8 * rows * hidden / tp_) + 2 * device_.launch_seconds;
  const std::string& precision = model_.precision;
  Passes passes{Product(each, columns, hidden, precision, "experts", here),
                Product(each, hidden, columns, precision, "experts", here),
                Product(hidden, columns, each, precision, "experts", here)};
  const double activation = Bytes(2 * columns * rows) + device_.launch_seconds;
  passes.forward += permuted + activation;
  passes.backward += permuted + 1.5 * activation;
  return passes;
}

PartSeconds::Passes PartSeconds::Head() const {
  const double columns = static_cast<double>(model_.vocabulary) / tp_;
  // Frameworks keep the logits out of fp8.
  const bool narrow =
      model_.precision == "fp8" && device_.flops_per_second.contains("bf16") && device_.efficiency.contains("bf16");
  Passes passes = Products(columns, static_cast<double>(model_.hidden), narrow ? "bf16" : model_.precision);
  passes.forward += Bytes(10 * columns * tokens_) + Boundary();
  passes.backward += Bytes(8 * columns * tokens_) + Boundary();
  return passes;
}

double PartSeconds::Update(double parameters) const {
  // States are read and written, gradients read, weights written.
  return Bytes(parameters * static_cast<double>(2 * model_.state_bytes + model_.gradient_bytes + model_.weight_bytes));
}

}  // namespace rewright::distributed
