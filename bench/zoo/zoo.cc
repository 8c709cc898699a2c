#include "bench/zoo/zoo.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "bench/zoo/net.h"
#include "core/base/status_macros.h"

namespace rewright {
namespace {

using Build = absl::StatusOr<Graph> (*)(const ZooOptions&);

struct Entry {
  ZooModel model;
  Build build;
};

const std::vector<Entry>& Entries() {
  static const std::vector<std::string> kImage = {"batch", "image-size"};
  static const auto* entries = new std::vector<Entry>{
      {{"resnet50", "image classifier, bottleneck residual blocks with batch norms (torchvision)", kImage},
       zoo::BuildResNet50},
      {{"resnext50", "ResNet-50 with 32 groups of 4 channels, batch norms (torchvision resnext50_32x4d)", kImage},
       zoo::BuildResNeXt50},
      {{"residual_block",
        "two convolutions of 3x3 beside one of 1x1, 256 channels of 14x14",
        {"batch", "image-size", "width"}},
       zoo::BuildResidualBlock},
      {{"squeezenet", "SqueezeNet 1.1, fire modules (torchvision)", kImage}, zoo::BuildSqueezeNet},
      {{"vgg19", "16 convolutions of 3x3 and three large linear layers (torchvision)", kImage}, zoo::BuildVgg19},
      {{"inception_v3", "parallel convolution branches with batch norms, 299x299 (torchvision)", kImage},
       zoo::BuildInceptionV3},
      {{"mobilenet_v2", "inverted residuals with depthwise convolutions, batch norms and relu6 (torchvision)", kImage},
       zoo::BuildMobileNetV2},
      {{"convnext_tiny", "depthwise convolutions of 7x7, layer norms and gelu (torchvision)", kImage},
       zoo::BuildConvNeXtTiny},
      {{"bert_base",
        "BERT-base encoder: 12 layers of 768, 12 heads, 128 tokens",
        {"batch", "sequence-length", "layers", "attention-mask"}},
       zoo::BuildBertBase},
      {{"gpt2_small",
        "GPT-2 with its language-model head: 12 layers of 768, 12 heads, 128 tokens",
        {"batch", "sequence-length", "layers", "width"}},
       zoo::BuildGpt2Small},
      {{"llama_small",
        "Llama of the size of GPT-2 small: RMS norms, rotary positions, gated layers, 12 layers of 768, 128 tokens",
        {"batch", "sequence-length", "layers", "width"}},
       zoo::BuildLlamaSmall},
      {{"nasnet_a",
        "NASNet-A 4 @ 1056 (mobile) with batch norms: 12 normal and 4 reduction cells",
        {"batch", "image-size", "layers", "width"}},
       zoo::BuildNasNetA},
      {{"nasrnn",
        "the recurrent cell found by neural architecture search, 5 steps of 512",
        {"batch", "layers", "width"}},
       zoo::BuildNasRnn},
      {{"random_layered",
        "355 layers of operators of many kinds, 10,000 in all, wired at random by the seed",
        {"layers", "width"}},
       zoo::BuildRandomLayered},
      {{"mlp", "784 inputs, three hidden layers of 512 with relu, 10 outputs", {"batch", "layers"}}, zoo::BuildMlp},
      {{"taso_resnet50", "ResNet-50 as TASO times it: no stem, no batch norms", kImage}, zoo::BuildTasoResNet50},
      {{"taso_resnext50", "ResNeXt-50 as TASO times it: no batch norms", kImage}, zoo::BuildTasoResNeXt50},
      {{"taso_nasnet_a",
        "NasNet-A as TASO times it: 15 normal and 3 reduction cells",
        {"batch", "image-size", "layers"}},
       zoo::BuildTasoNasNetA},
      {{"taso_nasrnn",
        "the recurrent cell found by neural architecture search, 5 steps, as TASO times it",
        {"batch", "layers"}},
       zoo::BuildTasoNasRnn},
      {{"taso_bert",
        "8 attention blocks without softmax or feed-forward part, as TASO times them",
        {"sequence-length", "layers"}},
       zoo::BuildTasoBert},
      {{"mirage_gqa", "grouped-query attention over a cache of 4096, as Mirage times it", {"batch", "sequence-length"}},
       zoo::BuildMirageGqa},
      {{"mirage_qk_norm", "the same with queries and keys normalized", {"batch", "sequence-length"}},
       zoo::BuildMirageQkNorm},
      {{"mirage_rms_norm", "a product behind an RMS norm, as Mirage times it", {"batch", "width"}},
       zoo::BuildMirageRmsNorm},
      {{"mirage_lora", "a product with a low-rank adapter, as Mirage times it", {"batch", "width"}},
       zoo::BuildMirageLora},
      {{"mirage_gated_mlp", "two products, one gating the other by silu, as Mirage times it", {"batch", "width"}},
       zoo::BuildMirageGatedMlp},
      {{"mirage_ntrans", "a residual step of a normalized transformer, as Mirage times it", {"batch", "width"}},
       zoo::BuildMirageNTrans},
  };
  return *entries;
}

// All options but the seed, by the names that models list.
std::vector<std::pair<std::string, int64_t>> Sizes(const ZooOptions& options) {
  return {{"batch", options.batch},   {"image-size", options.image_size}, {"sequence-length", options.sequence_length},
          {"layers", options.layers}, {"width", options.width},           {"attention-mask", options.attention_mask}};
}

absl::Status CheckOptions(const ZooOptions& options) {
  for (const auto& [name, value] : Sizes(options)) {
    if (value < 0) return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, "; expected at least 1"));
  }
  return absl::OkStatus();
}

absl::Status CheckTaken(const ZooModel& model, const ZooOptions& options) {
  for (const auto& [name, value] : Sizes(options)) {
    if (value == 0 || std::find(model.options.begin(), model.options.end(), name) != model.options.end()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(model.name, " takes no --", name, ", only --seed, --", absl::StrJoin(model.options, ", --")));
  }
  return absl::OkStatus();
}

}  // namespace

const std::vector<ZooModel>& ZooModels() {
  static const auto* models = [] {
    auto* list = new std::vector<ZooModel>;
    for (const Entry& entry : Entries()) list->push_back(entry.model);
    return list;
  }();
  return *models;
}

absl::StatusOr<Graph> BuildZooModel(const std::string& name, const ZooOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  for (const Entry& entry : Entries()) {
    if (entry.model.name != name) continue;
    RETURN_IF_ERROR(CheckTaken(entry.model, options));
    absl::StatusOr<Graph> graph = entry.build(options);
    if (!graph.ok()) return ErrorAt(name, graph.status());
    return graph;
  }
  const auto append_name = [](std::string* out, const ZooModel& model) { out->append(model.name); };
  return absl::NotFoundError(absl::StrCat("no model called '", name, "' in the zoo; there are ",
                                          absl::StrJoin(ZooModels(), ", ", append_name)));
}

}  // namespace rewright
