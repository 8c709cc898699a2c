// Compares the zoo's models with published numbers of their architectures.
#include "bench/zoo/zoo.h"

#include <cmath>
#include <map>
#include <set>
#include <string>

#include "core/index/cost_features.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

Graph Build(const std::string& name, const ZooOptions& options = {}) {
  absl::StatusOr<Graph> graph = BuildZooModel(name, options);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *graph : Graph();
}

std::map<std::string, int> CountOps(const Graph& graph) {
  std::map<std::string, int> counts;
  for (NodeId id : graph.nodes()) {
    if (graph.IsRun(graph.node(id))) ++counts[graph.node(id).op->name];
  }
  return counts;
}

// Counts trainable parameters as frameworks do: without the running statistics of batch norms.
int64_t Parameters(const Graph& graph) {
  int64_t total = 0;
  for (NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (node.leaf != LeafKind::kState) continue;
    if (node.name.find(".running_") != std::string::npos || node.name.find("running_") == 0) continue;
    total += node.outputs[0].num_elements();
  }
  return total;
}

// Counts multiplications and additions of convolutions and products.
double ProductFlops(const Graph& graph) {
  double total = 0;
  for (NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (!graph.IsRun(node) || (node.op->name != "conv2d" && node.op->name != "matmul")) continue;
    std::vector<TensorType> inputs;
    for (Value operand : node.operands) inputs.push_back(graph.type(operand));
    total += FeaturesOf(*node.meaning, inputs, node.attrs, node.outputs).flops;
  }
  return total;
}

struct Published {
  std::string name;
  int64_t parameters;
  double giga_macs;  // at batch 1 and the default sizes
  std::map<std::string, int> ops;
};

// Parameters and multiply-accumulates: torchvision's model tables (inception_v3 without its auxiliary classifier) and
// Hugging Face's BertModel (bert-base-uncased, with pooler).
const Published kPublished[] = {
    {"resnet50",
     25557032,
     4.09,
     {{"conv2d", 53},
      {"batch_norm", 53},
      {"relu", 49},
      {"add", 17},
      {"max_pool2d", 1},
      {"reduce_mean", 1},
      {"reshape", 1},
      {"matmul", 1}}},
    {"resnext50",
     25028904,
     4.23,
     {{"conv2d", 53},
      {"batch_norm", 53},
      {"relu", 49},
      {"add", 17},
      {"max_pool2d", 1},
      {"reduce_mean", 1},
      {"reshape", 1},
      {"matmul", 1}}},
    {"squeezenet",
     1235496,
     0.35,
     {{"conv2d", 26}, {"add", 26}, {"relu", 26}, {"concat", 8}, {"max_pool2d", 3}, {"reduce_mean", 1}, {"reshape", 1}}},
    {"vgg19",
     143667240,
     19.63,
     {{"conv2d", 16}, {"matmul", 3}, {"add", 19}, {"relu", 18}, {"max_pool2d", 5}, {"reshape", 1}}},
    {"inception_v3",
     23834568,
     5.71,
     {{"conv2d", 94},
      {"batch_norm", 94},
      {"relu", 94},
      {"concat", 15},
      {"avg_pool2d", 9},
      {"max_pool2d", 4},
      {"reduce_mean", 1},
      {"reshape", 1},
      {"matmul", 1},
      {"add", 1}}},
    {"mobilenet_v2",
     3504872,
     0.30,
     {{"conv2d", 52},
      {"batch_norm", 52},
      {"clip", 35},
      {"add", 11},
      {"reduce_mean", 1},
      {"reshape", 1},
      {"matmul", 1}}},
    {"bert_base",
     109482240,
     11.17,
     {{"matmul", 97},
      {"softmax", 12},
      {"layer_norm", 25},
      {"erf", 12},
      {"gather", 2},
      {"div", 24},
      {"mul", 24},
      {"add", 111},
      {"transpose", 48},
      {"reshape", 49},
      {"slice", 1},
      {"tanh", 1}}},
    {"gpt2_small",
     124439808,
     16.11,
     {{"matmul", 73},
      {"softmax", 12},
      {"layer_norm", 25},
      {"gather", 1},
      {"div", 12},
      {"mul", 48},
      {"pow", 12},
      {"tanh", 12},
      {"add", 109},
      {"transpose", 48},
      {"reshape", 144},
      {"slice", 36}}},
    {"convnext_tiny",
     28589128,
     4.456,
     {{"add", 95},
      {"conv2d", 22},
      {"div", 18},
      {"erf", 18},
      {"layer_norm", 23},
      {"matmul", 37},
      {"mul", 54},
      {"reduce_mean", 1},
      {"reshape", 1},
      {"transpose", 46}}},
    // Embeddings and head 2 * 32000 * 768, 12 layers of 4 * 768^2 + 3 * 768 * 2048 + 2 * 768, one norm. Work: products
    // with weights 128 * (12 * (4 * 768^2 + 3 * 768 * 2048) + 32000 * 768), and 2 * 12 * 12 * 128^2 * 64 of attention.
    {"llama_small",
     134105856,
     14.32,
     {{"add", 85},
      {"concat", 24},
      {"div", 25},
      {"gather", 1},
      {"matmul", 109},
      {"mul", 134},
      {"neg", 24},
      {"pow", 25},
      {"reduce_mean", 25},
      {"reshape", 48},
      {"sigmoid", 12},
      {"slice", 48},
      {"softmax", 12},
      {"sqrt", 25},
      {"transpose", 60}}},
};

TEST(ZooTest, ParametersWorkAndOperatorsAreAsPublished) {
  for (const Published& expected : kPublished) {
    SCOPED_TRACE(expected.name);
    const Graph graph = Build(expected.name);
    EXPECT_EQ(Parameters(graph), expected.parameters);
    EXPECT_NEAR(ProductFlops(graph) / 2e9, expected.giga_macs, 0.015 * expected.giga_macs);
    EXPECT_EQ(CountOps(graph), expected.ops);
  }
}

// Parameters and work of NASNetMobile in the model tables of Keras and PyTorch. Cells: two convolutions for each of two
// layers of five separable branches, one for the squeeze and one to fit the previous cell, or two where it is larger.
TEST(ZooTest, NasNetHasItsCells) {
  const Graph graph = Build("nasnet_a");
  EXPECT_EQ(Parameters(graph), 5289978);
  EXPECT_NEAR(ProductFlops(graph) / 2e9, 0.564, 0.03);
  std::map<std::string, int> counts = CountOps(graph);
  const int cells = 2 + 3 * 4 + 2;
  const int larger_before = 1 + 3;  // the second stem cell, and the first normal cell of each stage
  // The first stem cell has no previous cell to fit, which saves as much work as the convolution of the image takes.
  EXPECT_EQ(counts["conv2d"], cells * (5 * 4 + 1 + 1) + larger_before);
  EXPECT_EQ(counts["batch_norm"], cells * (5 * 2 + 1 + 1));
  EXPECT_EQ(counts["concat"], cells + larger_before);
}

TEST(ZooTest, NasRnnHasItsProducts) {
  const Graph graph = Build("nasrnn");
  EXPECT_EQ(Parameters(graph), 16 * 512 * 512 + 8 * 512);
  std::map<std::string, int> counts = CountOps(graph);
  EXPECT_EQ(counts["matmul"], 5 * 16);
  EXPECT_EQ(counts["sigmoid"], 5 * 5);
  EXPECT_EQ(counts["relu"], 5 * 2);
  // Two of the first layer, six of the later ones.
  EXPECT_EQ(counts["tanh"], 5 * 8);
}

TEST(ZooTest, TasoGraphsHaveTheirCounts) {
  std::map<std::string, int> counts = CountOps(Build("taso_resnet50"));
  EXPECT_EQ(counts["conv2d"], 52);
  EXPECT_EQ(counts["add"], 16);
  EXPECT_EQ(counts["relu"], 16 + 32 + 4);  // after sums, after inner convolutions, after shortcuts

  counts = CountOps(Build("taso_resnext50"));
  EXPECT_EQ(counts["conv2d"], 53);
  EXPECT_EQ(counts["add"], 16);

  counts = CountOps(Build("taso_nasnet_a"));
  EXPECT_EQ(counts["conv2d"], 217);
  EXPECT_EQ(counts["add"], 90);
  EXPECT_EQ(counts["concat"], 18);
  // 51 and 7 before equal nodes are shared: each normal cell averages `prev` twice, each reduction cell takes the
  // maximum of `cur` twice.
  EXPECT_EQ(counts["avg_pool2d"], 51 - 15);
  EXPECT_EQ(counts["max_pool2d"], 7 - 3);

  const Graph rnn = Build("taso_nasrnn");
  counts = CountOps(rnn);
  int matmuls = 0;
  for (NodeId id : rnn.nodes()) matmuls += rnn.node(id).op != nullptr && rnn.node(id).op->name == "matmul";
  EXPECT_EQ(matmuls, 80);
  EXPECT_EQ(counts["matmul"], 72);  // the first state is a weight
  EXPECT_EQ(counts["add"], 55);
  EXPECT_EQ(counts["mul"], 20);
  EXPECT_EQ(counts["relu"], 10);
  EXPECT_EQ(counts["sigmoid"], 25);
  EXPECT_EQ(counts["tanh"], 40);

  counts = CountOps(Build("taso_bert"));
  EXPECT_EQ(counts, (std::map<std::string, int>{{"matmul", 48}, {"reshape", 32}, {"transpose", 32}, {"relu", 1}}));
}

TEST(ZooTest, RandomLayersAreTenThousandOperatorsOfManyKinds) {
  const Graph graph = Build("random_layered");
  EXPECT_GE(graph.num_runtime_nodes(), 10000);
  EXPECT_LE(graph.num_runtime_nodes(), 11000);
  EXPECT_GE(CountOps(graph).size(), 18u);
  EXPECT_NE(graph.CanonicalHash(), Build("random_layered", {.seed = 2}).CanonicalHash());
}

TEST(ZooTest, OptionsSetSizes) {
  ZooOptions options;
  options.batch = 4;
  options.image_size = 64;
  Graph graph = Build("resnet50", options);
  ASSERT_EQ(graph.inputs().size(), 1u);
  EXPECT_EQ(graph.type(graph.inputs()[0]).ToString(), "f32[4,3,64,64]");
  EXPECT_EQ(graph.type(graph.outputs()[0].value).ToString(), "f32[4,1000]");

  options = {};
  options.batch = 2;
  options.sequence_length = 16;
  options.layers = 1;
  options.attention_mask = true;
  graph = Build("bert_base", options);
  ASSERT_EQ(graph.inputs().size(), 3u);
  EXPECT_EQ(graph.type(graph.inputs()[2]).ToString(), "i64[2,16]");
  EXPECT_EQ(graph.type(graph.outputs()[0].value).ToString(), "f32[2,16,768]");
  EXPECT_EQ(graph.type(graph.outputs()[1].value).ToString(), "f32[2,768]");
  EXPECT_EQ(CountOps(graph)["softmax"], 1);

  options = {};
  options.layers = 2;
  EXPECT_EQ(CountOps(Build("mlp", options))["matmul"], 3);
  EXPECT_EQ(CountOps(Build("taso_nasrnn", options))["tanh"], 16);
  options.width = 128;
  EXPECT_EQ(Build("gpt2_small", options).type(Build("gpt2_small", options).outputs()[0].value).ToString(),
            "f32[1,128,50257]");
  options.width = 100;
  EXPECT_FALSE(BuildZooModel("gpt2_small", options).ok());
  options = {};
  options.width = 100;
  EXPECT_THAT(std::string(BuildZooModel("mirage_lora", options).status().message()), HasSubstr("a multiple of 16"));
  options = {};
  options.batch = 8;
  const Graph gqa = Build("mirage_gqa", options);
  EXPECT_EQ(gqa.type(gqa.inputs()[1]).ToString(), "f32[16,4096,64]");
  EXPECT_EQ(gqa.type(gqa.outputs()[0].value).ToString(), "f32[16,256,64]");
}

// The rows of a normalized transformer lie on the unit sphere; a sequence of one key makes attention copy its value.
TEST(ZooTest, NormsAndAttentionOfMirage) {
  const auto run = [](const std::string& name, const ZooOptions& options,
                      absl::flat_hash_map<std::string, Tensor>* in) {
    const Graph graph = Build(name, options);
    const std::vector<Tensor> inputs = *RandomInputs(graph, 1);
    for (size_t i = 0; i < inputs.size(); ++i) (*in)[graph.node(graph.inputs()[i].node).name] = inputs[i];
    return InterpretGraph(graph, *in)->at(0);
  };
  absl::flat_hash_map<std::string, Tensor> inputs;
  const Tensor unit = run("mirage_ntrans", {.batch = 1, .width = 33}, &inputs);
  ASSERT_EQ(unit.shape(), (Shape{8, 33}));
  for (int64_t row = 0; row < 8; ++row) {
    double squares = 0;
    for (int64_t i = 0; i < 33; ++i) squares += unit.At(row * 33 + i) * unit.At(row * 33 + i);
    EXPECT_NEAR(squares, 1, 1e-5);
  }
  inputs.clear();
  const Tensor context = run("mirage_qk_norm", {.batch = 1, .sequence_length = 1}, &inputs);
  ASSERT_EQ(context.shape(), (Shape{2, 256, 64}));
  for (int64_t i = 0; i < context.num_elements(); ++i) {
    EXPECT_NEAR(context.At(i), inputs["v"].At(i / (256 * 64) * 64 + i % 64), 1e-6);
  }
}

TEST(ZooTest, TheSeedAloneDecidesTheWeights) {
  const auto weight = [](const Graph& graph, const std::string& name) {
    for (NodeId id : graph.nodes()) {
      if (graph.node(id).name == name) return *graph.arena()->Elements(id);
    }
    ADD_FAILURE() << "no weight " << name;
    return Tensor();
  };
  ZooOptions other;
  other.seed = 2;
  const std::string name = "layers.1.weight";
  const Tensor first = weight(Build("mlp"), name);
  EXPECT_TRUE(first.BitEqual(weight(Build("mlp"), name)));
  EXPECT_FALSE(first.BitEqual(weight(Build("mlp", other), name)));
  // Compares known bits, so that a change of the generator is noticed.
  EXPECT_EQ(first.num_elements(), 512 * 512);
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < first.num_elements(); ++i) {
    sum += first.At(i);
    squares += first.At(i) * first.At(i);
  }
  EXPECT_NEAR(sum / 512 / 512, 0, 1e-3);
  EXPECT_NEAR(squares / 512, 2, 0.02);  // He: variance 2 / 512
}

TEST(ZooTest, VariancesArePositive) {
  const Graph graph = Build("mobilenet_v2");
  for (NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (node.name.find("running_var") == std::string::npos) continue;
    const Tensor& variance = *graph.arena()->Elements(id);
    for (int64_t i = 0; i < variance.num_elements(); ++i) ASSERT_GT(variance.At(i), 0.5) << node.name;
  }
}

// Values neither explode nor vanish with depth. (Without vgg19, which is too large for the interpreter.)
TEST(ZooTest, OutputsAreOfOrdinarySize) {
  struct Small {
    std::string name;
    ZooOptions options;
  };
  const Small models[] = {{"resnet50", {.image_size = 64}},
                          {"resnext50", {.image_size = 64}},
                          {"residual_block", {.image_size = 7, .width = 16}},
                          {"squeezenet", {.image_size = 64}},
                          {"inception_v3", {.image_size = 75}},
                          {"mobilenet_v2", {.image_size = 64}},
                          {"bert_base", {.sequence_length = 8, .layers = 3}},
                          {"convnext_tiny", {.image_size = 64}},
                          {"gpt2_small", {.sequence_length = 8, .layers = 2}},
                          {"llama_small", {.sequence_length = 8, .layers = 2}},
                          {"nasnet_a", {.image_size = 64, .layers = 1}},
                          {"nasrnn", {.width = 64}},
                          {"random_layered", {}},
                          {"mlp", {}},
                          {"taso_resnet50", {.image_size = 8}},
                          {"taso_resnext50", {.image_size = 64}},
                          {"taso_nasnet_a", {.image_size = 32}},
                          {"taso_nasrnn", {}},
                          {"taso_bert", {.layers = 1}},
                          {"mirage_gqa", {.sequence_length = 33}},
                          {"mirage_qk_norm", {.sequence_length = 33}},
                          {"mirage_rms_norm", {.width = 50}},
                          {"mirage_lora", {.width = 48}},
                          {"mirage_gated_mlp", {.batch = 3, .width = 50}}};
  for (const Small& model : models) {
    SCOPED_TRACE(model.name);
    const Graph graph = Build(model.name, model.options);
    const std::vector<Tensor> inputs = *RandomInputs(graph, 1);
    absl::flat_hash_map<std::string, Tensor> by_name;
    for (size_t i = 0; i < inputs.size(); ++i) by_name[graph.node(graph.inputs()[i].node).name] = inputs[i];
    const auto outputs = InterpretGraph(graph, by_name);
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    for (const Tensor& output : *outputs) {
      double squares = 0;
      for (int64_t i = 0; i < output.num_elements(); ++i) squares += output.At(i) * output.At(i);
      const double size = std::sqrt(squares / static_cast<double>(output.num_elements()));
      EXPECT_GT(size, 0.05);
      EXPECT_LT(size, 50);
    }
  }
}

TEST(ZooTest, EveryModelIsListedOnceAndBuilds) {
  std::set<std::string> names;
  for (const ZooModel& model : ZooModels()) {
    EXPECT_TRUE(names.insert(model.name).second) << model.name;
    EXPECT_EQ(model.description.find('\n'), std::string::npos);
    EXPECT_FALSE(model.description.empty());
    const Graph graph = Build(model.name);
    EXPECT_EQ(graph.CanonicalHash(), Build(model.name).CanonicalHash()) << model.name;
    EXPECT_GT(graph.num_runtime_nodes(), 0);
  }
}

TEST(ZooTest, PrintedModelsParseBack) {
  for (const char* name : {"mlp", "squeezenet", "taso_nasrnn"}) {
    const Graph graph = Build(name);
    const std::string text = PrintGraph(graph);
    absl::StatusOr<Graph> parsed = ParseGraph(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(PrintGraph(*parsed), text);
  }
}

TEST(ZooTest, ErrorsSayWhatIsWrong) {
  EXPECT_THAT(std::string(BuildZooModel("resnet5").status().message()), HasSubstr("no model called 'resnet5'"));
  EXPECT_THAT(std::string(BuildZooModel("resnet5").status().message()), HasSubstr("resnet50, resnext50"));
  ZooOptions options;
  options.batch = -1;
  EXPECT_THAT(std::string(BuildZooModel("mlp", options).status().message()), HasSubstr("batch is -1"));
  options = {};
  options.image_size = 100;
  EXPECT_THAT(std::string(BuildZooModel("vgg19", options).status().message()), HasSubstr("must be 224"));
  options.image_size = 8;
  EXPECT_THAT(std::string(BuildZooModel("inception_v3", options).status().message()), HasSubstr("inception_v3: "));
  options = {};
  options.sequence_length = 513;
  EXPECT_THAT(std::string(BuildZooModel("bert_base", options).status().message()), HasSubstr("at most 512"));
  options = {};
  options.image_size = 64;
  EXPECT_EQ(BuildZooModel("bert_base", options).status().message(),
            "bert_base takes no --image-size, only --seed, --batch, --sequence-length, --layers, --attention-mask");
}

// Every model takes its listed options: they change the graph.
TEST(ZooTest, ListedOptionsMatter) {
  for (const ZooModel& model : ZooModels()) {
    const uint64_t plain = Build(model.name).CanonicalHash();
    EXPECT_FALSE(model.options.empty()) << model.name;
    for (const std::string& option : model.options) {
      ZooOptions options;
      if (option == "batch") options.batch = 2;
      if (option == "image-size") options.image_size = 160;
      if (option == "sequence-length") options.sequence_length = 16;
      if (option == "layers") options.layers = 2;
      if (option == "width") options.width = 192;
      if (option == "attention-mask") options.attention_mask = true;
      const absl::StatusOr<Graph> graph = BuildZooModel(model.name, options);
      if (model.name == "vgg19" && option == "image-size") {  // takes its one size
        EXPECT_FALSE(graph.ok());
        continue;
      }
      ASSERT_TRUE(graph.ok()) << graph.status();
      EXPECT_NE(graph->CanonicalHash(), plain) << model.name << " --" << option;
    }
  }
}

}  // namespace
}  // namespace rewright
