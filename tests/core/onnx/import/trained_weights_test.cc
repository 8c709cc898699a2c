// Tests which initializers of a file are weights that training changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "tests/core/onnx/import/training_util.h"
#include "tests/core/onnx/model_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

Tensor Filled(const Shape& shape, double value) {
  Tensor tensor({DType::kFloat32, shape});
  for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.Set(i, value);
  return tensor;
}

// Initializers that are weights, others that are not, and a Constant; all of them read.
TEST(TrainedWeightsTest, WeightsAreTrainedAndConstantsAreNot) {
  Rng rng(3);
  const auto random = [&](const Shape& shape) { return RandomTensor({DType::kFloat32, shape}, rng, -1, 1); };
  Tensor mask = Filled({4, 4}, 0);
  mask.Set(1, -std::numeric_limits<double>::infinity());
  Tensor lowest = Filled({4, 4}, 0);
  lowest.Set(2, std::numeric_limits<float>::lowest());
  const TestModel model = TestModel(17)
                              .Input("x", {2, 4})
                              .Initializer("w", random({4, 4}))
                              .Initializer("val_7", random({4, 4}))  // a folded transpose
                              .Initializer("val_8", random({4}))     // a table
                              .Initializer("cat", random({4}))
                              .Initializer("scale", Tensor::Scalar(DType::kFloat32, 0.5))
                              .Initializer("val_9", Tensor::Scalar(DType::kFloat32, 2))
                              .Initializer("two", Tensor::Scalar(DType::kFloat32, 2))
                              .Initializer("mask", mask)
                              .Initializer("attention.bias", lowest)
                              .Initializer("mean", random({4}))
                              .Initializer("var", Filled({4}, 1))
                              .Initializer("bn.weight", random({4}))
                              .Initializer("bn.bias", random({4}))
                              .Node("Constant", {}, {"table"}, {{"value", random({5, 4})}})
                              .Node("MatMul", {"x", "w"}, {"a"})
                              .Node("MatMul", {"a", "val_7"}, {"b"})
                              .Node("Add", {"b", "val_8"}, {"c"})
                              .Node("Mul", {"c", "cat"}, {"d"})
                              .Node("Mul", {"d", "scale"}, {"e"})
                              .Node("Div", {"e", "val_9"}, {"f"})
                              .Node("Pow", {"f", "two"}, {"g"})
                              .Node("BatchNormalization", {"g", "bn.weight", "bn.bias", "mean", "var"}, {"h"})
                              .Node("MatMul", {"h", "mask"}, {"i"})
                              .Node("MatMul", {"i", "attention.bias"}, {"j"})
                              .Node("Gemm", {"j", "table"}, {"y"}, {{"transB", int64_t{1}}})
                              .Output("y");
  for (const OnnxTraining training : {OnnxTraining::kOff, OnnxTraining::kStep}) {
    const auto imported = model.Import(Training(training));
    ASSERT_TRUE(imported.ok()) << imported.status();
    std::vector<std::string> trained, left;
    for (Value state : imported->graph.states()) {
      const std::string& name = imported->graph.node(state.node).name;
      (imported->left.contains(name) ? left : trained).push_back(name);
    }
    EXPECT_THAT(trained, ::testing::UnorderedElementsAre("w", "val_7", "scale", "bn.weight", "bn.bias"));
    EXPECT_THAT(left,
                ::testing::UnorderedElementsAre("val_8", "cat", "mask", "attention.bias", "mean", "var", "table"));
    EXPECT_THAT(imported->left.at("mask"), HasSubstr("a mask"));
    EXPECT_THAT(imported->left.at("mean"), HasSubstr("running averages"));
    EXPECT_THAT(imported->left.at("table"), HasSubstr("a constant of the graph"));
    EXPECT_EQ(imported->undecided.size(), 2u);
    EXPECT_TRUE(imported->undecided.contains("val_8") && imported->undecided.contains("cat"));
  }
  ImportOptions all = Training(OnnxTraining::kStep);
  all.trains = [](const std::string& name) { return name == "val_8" || name == "val_9"; };
  const auto imported = model.Import(all);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_FALSE(imported->left.contains("val_8"));
  const std::vector<Value> states = imported->graph.states();
  EXPECT_TRUE(std::any_of(states.begin(), states.end(),
                          [&](Value state) { return imported->graph.node(state.node).name == "val_9"; }));
}

// Exporters write equal initializers once: ones and zeros of layers before any training.
TEST(TrainedWeightsTest, InitializersOfOneNumberAreAsManyWeightsAsReadThem) {
  const TestModel model = TestModel(17)
                              .Input("x", {2, 4})
                              .Initializer("first.weight", Filled({4}, 1))
                              .Initializer("first.bias", Filled({4}, 0))
                              .Node("Identity", {"first.weight"}, {"second.weight"})
                              .Node("LayerNormalization", {"x", "first.weight", "first.bias"}, {"a"})
                              .Node("LayerNormalization", {"a", "second.weight", "first.bias"}, {"y"})
                              .Output("y");
  const auto states = [&](const ImportOptions& options) {
    const auto imported = model.Import(options);
    EXPECT_TRUE(imported.ok()) << imported.status();
    std::vector<std::string> names;
    for (Value state : imported->graph.states()) names.push_back(imported->graph.node(state.node).name);
    if (options.training != OnnxTraining::kAsWritten && !options.shares) {
      EXPECT_THAT(imported->weight_notes, ::testing::ElementsAre(HasSubstr("first.weight"), HasSubstr("first.bias")));
    }
    return names;
  };
  ImportOptions options;
  EXPECT_THAT(states(options), ::testing::UnorderedElementsAre("first.weight", "first.bias"));
  options.training = OnnxTraining::kStep;
  EXPECT_THAT(states(options),
              ::testing::UnorderedElementsAre("first.weight", "second.weight", "first.bias", "first.bias.2"));
  options.shares = [](const std::string&) { return true; };
  EXPECT_THAT(states(options), ::testing::UnorderedElementsAre("first.weight", "first.bias"));
}

// A file that has equal ones twice shares others by intent.
TEST(TrainedWeightsTest, InitializersOfOneNumberStayOneWhereEqualOnesAreWrittenTwice) {
  const auto imported = TestModel(17)
                            .Input("x", {2, 4})
                            .Initializer("weight", Filled({4}, 1))
                            .Initializer("bias", Filled({4}, 0))
                            .Initializer("last.bias", Filled({4}, 0))
                            .Node("LayerNormalization", {"x", "weight", "bias"}, {"a"})
                            .Node("LayerNormalization", {"a", "weight", "bias"}, {"b"})
                            .Node("Add", {"b", "last.bias"}, {"y"})
                            .Output("y")
                            .Import(Training(OnnxTraining::kStep));
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->graph.states().size(), 3u);
  EXPECT_THAT(imported->weight_notes, ::testing::IsEmpty());
}

std::vector<std::string> TrainedStates(const ImportedModel& model) {
  std::vector<std::string> names;
  for (Value state : model.graph.states()) {
    const std::string& name = model.graph.node(state.node).name;
    if (!model.left.contains(name)) names.push_back(name);
  }
  return names;
}

Tensor Transposed(const Tensor& tensor) {
  const int64_t rows = tensor.shape()[0], columns = tensor.shape()[1];
  Tensor turned({tensor.dtype(), {columns, rows}});
  for (int64_t i = 0; i < rows * columns; ++i) turned.Set(i % columns * rows + i / columns, tensor.At(i));
  return turned;
}

// The results of a model do not depend on joining.
void ExpectSameResults(const TestModel& model, const ImportOptions& options, const std::map<std::string, Tensor>& x) {
  const auto written = model.Import(), trained = model.Import(options);
  ASSERT_TRUE(written.ok()) << written.status();
  ASSERT_TRUE(trained.ok()) << trained.status();
  absl::flat_hash_map<std::string, Tensor> inputs(x.begin(), x.end());
  EXPECT_TRUE(Compute(written->graph, inputs).at("y").BitEqual(Compute(trained->graph, inputs).at("y")));
}

TEST(TrainedWeightsTest, TiedWeightsThatWereWrittenTwiceAreOne) {
  Rng rng(4);
  const Tensor table = RandomTensor({DType::kFloat32, {5, 4}}, rng, -1, 1);
  const std::map<std::string, Tensor> x = {{"x", Tensor::Int64s({1, 3})}};
  // Transposed, under another name; and as it is, read in another way.
  for (const auto& [name, copy, transposed] :
       {std::tuple("onnx::MatMul_9", Transposed(table), int64_t{0}), {"head.weight", table, int64_t{1}}}) {
    const TestModel model = TestModel(17)
                                .Input("x", {2}, DType::kInt64)
                                .Initializer("emb.weight", table)
                                .Initializer(name, copy)
                                .Node("Gather", {"emb.weight", "x"}, {"a"})
                                .Node("Gemm", {"a", name}, {"y"}, {{"transB", transposed}})
                                .Output("y");
    ImportOptions options = Training(OnnxTraining::kStep);
    ExpectSameResults(model, options, x);
    const auto imported = model.Import(options);
    EXPECT_THAT(TrainedStates(*imported), ::testing::ElementsAre("emb.weight"));
    EXPECT_THAT(imported->weight_notes, ::testing::ElementsAre(HasSubstr("one weight, trained as emb.weight")));
    options.parts = [](const std::string& one) { return one == "emb.weight"; };
    EXPECT_THAT(TrainedStates(*model.Import(options)), ::testing::UnorderedElementsAre("emb.weight", name));
  }
}

// Layers that start alike and tensors of few numbers are equal, too, but not joined.
TEST(TrainedWeightsTest, WeightsThatAreEqualByChanceAreNotTied) {
  Rng rng(5);
  const Tensor w = RandomTensor({DType::kFloat32, {5, 5}}, rng, -1, 1),
               few = RandomTensor({DType::kFloat32, {5}}, rng, -1, 1);
  const TestModel model = TestModel(17)
                              .Input("x", {2, 5})
                              .Initializer("a.weight", w)
                              .Initializer("b.weight", w)
                              .Initializer("a.bias", few)
                              .Initializer("b.bias", few)
                              .Initializer("a.scale", Filled({25}, 0))
                              .Initializer("b.scale", Filled({25}, 0))
                              .Node("Gemm", {"x", "a.weight", "a.bias"}, {"a"})
                              .Node("Gemm", {"a", "b.weight", "b.bias"}, {"b"})
                              .Node("MatMul", {"a.scale", "b.scale"}, {"c"})
                              .Node("Add", {"b", "c"}, {"y"})
                              .Output("y");
  ImportOptions options = Training(OnnxTraining::kStep);
  const auto apart = model.Import(options);
  ASSERT_TRUE(apart.ok()) << apart.status();
  EXPECT_THAT(TrainedStates(*apart),
              ::testing::UnorderedElementsAre("a.weight", "b.weight", "a.bias", "b.bias", "a.scale", "b.scale"));
  EXPECT_THAT(apart->weight_notes, ::testing::ElementsAre(HasSubstr("two weights that start alike")));
  options.shares = [](const std::string& name) { return name == "b.weight"; };
  EXPECT_THAT(TrainedStates(*model.Import(options)),
              ::testing::UnorderedElementsAre("a.weight", "a.bias", "b.bias", "a.scale", "b.scale"));
}

// The user tells that two layers were written once.
TEST(TrainedWeightsTest, AnInitializerIsPartedWhereTheUserSaysSo) {
  Rng rng(6);
  const TestModel model = TestModel(17)
                              .Input("x", {2, 5})
                              .Initializer("w", RandomTensor({DType::kFloat32, {5, 5}}, rng, -1, 1))
                              .Node("MatMul", {"x", "w"}, {"a"})
                              .Node("MatMul", {"a", "w"}, {"y"})
                              .Output("y");
  ImportOptions options = Training(OnnxTraining::kStep);
  EXPECT_THAT(TrainedStates(*model.Import(options)), ::testing::ElementsAre("w"));
  options.parts = [](const std::string&) { return true; };
  const auto parted = model.Import(options);
  EXPECT_THAT(TrainedStates(*parted), ::testing::UnorderedElementsAre("w", "w.2"));
  EXPECT_THAT(parted->weight_notes, ::testing::ElementsAre(HasSubstr("(model.parted) is read 2 times")));
}

// The scale and the bias of a norm in groups are written as [C,1,1], under names of the exporter.
TEST(TrainedWeightsTest, OneNumberForEachChannelBehindANormIsAWeight) {
  Rng rng(7);
  const auto random = [&](const Shape& shape) { return RandomTensor({DType::kFloat32, shape}, rng, -1, 1); };
  const auto imported = TestModel(17)
                            .Input("x", {2, 4, 3, 3})
                            .Ints("grouped", {2, 2, 18})
                            .Ints("whole", {2, 4, 3, 3})
                            .Initializer("onnx::Inst_1", Filled({2}, 1))
                            .Initializer("onnx::Inst_2", Filled({2}, 0))
                            .Initializer("onnx::Mul_3", random({4, 1, 1}))
                            .Initializer("onnx::Add_4", random({4, 1, 1}))
                            .Initializer("onnx::Mul_5", random({4, 1, 1}))
                            .Initializer("onnx::Mul_6", random({4, 3, 3}))  // a table
                            .Node("Reshape", {"x", "grouped"}, {"a"})
                            .Node("InstanceNormalization", {"a", "onnx::Inst_1", "onnx::Inst_2"}, {"b"})
                            .Node("Reshape", {"b", "whole"}, {"c"})
                            .Node("Mul", {"c", "onnx::Mul_3"}, {"d"})
                            .Node("Add", {"d", "onnx::Add_4"}, {"e"})
                            .Node("ReduceMean", {"e"}, {"f"}, {{"axes", std::vector<int64_t>{1}}})
                            .Node("Sqrt", {"f"}, {"g"})
                            .Node("Div", {"e", "g"}, {"h"})
                            .Node("Mul", {"onnx::Mul_5", "h"}, {"i"})
                            .Node("Mul", {"i", "onnx::Mul_6"}, {"y"})
                            .Output("y")
                            .Import(Training(OnnxTraining::kStep));
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(TrainedStates(*imported), ::testing::UnorderedElementsAre("onnx::Mul_3", "onnx::Add_4", "onnx::Mul_5"));
  ASSERT_EQ(imported->undecided.size(), 1u);
  EXPECT_THAT(imported->undecided.at("onnx::Mul_6"), HasSubstr("f32[4,3,3] was computed by the exporter"));
}

// ---------------------------------------------------------------- metadata of exporters

// Adds metadata in the fields that newer messages have.
template <typename Message>
void Say(const std::string& key, const std::string& value, int field, Message* message) {
  onnx::StringStringEntryProto entry;
  entry.set_key(key);
  entry.set_value(value);
  message->GetReflection()->MutableUnknownFields(message)->AddLengthDelimited(field)->assign(entry.SerializeAsString());
  std::string bytes = message->SerializeAsString();  // in a newer message it is a field that is known
  message->ParseFromString(bytes);
}
void SayParameters(const std::string& signature, TestModel* model) {
  Say("pkg.torch.export.ExportedProgram.graph_signature", signature, 16, model->proto().mutable_graph());
}
void SayFoldedFrom(const std::string& name, const std::string& sources, TestModel* model) {
  onnx::ValueInfoProto& info = *model->proto().mutable_graph()->add_value_info();
  info.set_name(name);
  Say("pkg.onnxscript.optimizer.folded_from", sources, 4, &info);
}

TEST(TrainedWeightsTest, WhatAnExporterSaysOfInitializersCounts) {
  Rng rng(8);
  const auto random = [&](const Shape& shape) { return RandomTensor({DType::kFloat32, shape}, rng, -1, 1); };
  TestModel model = TestModel(17)
                        .Input("x", {3, 4})
                        .Initializer("w", random({4, 4}))
                        .Initializer("table", random({3, 4}))        // a buffer
                        .Initializer("embedding_1", random({3, 4}))  // of a parameter
                        .Initializer("basis", random({4, 4}))        // a buffer that a product reads
                        .Initializer("val_7", random({4, 4}))        // of a buffer, and read as a weight
                        .Initializer("exponent", random({1}))        // a parameter where no weight is, mostly
                        .Node("MatMul", {"x", "w"}, {"a"})
                        .Node("Mul", {"a", "table"}, {"b"})
                        .Node("Add", {"b", "embedding_1"}, {"c"})
                        .Node("MatMul", {"c", "basis"}, {"d"})
                        .Node("MatMul", {"d", "val_7"}, {"e"})
                        .Node("Pow", {"e", "exponent"}, {"y"})
                        .Output("y");
  SayParameters(
      "\n# inputs\np_w: PARAMETER target='w'\np_position: PARAMETER target=\"position.weight\"\n"
      "p_exponent: PARAMETER target='exponent'\nb_table: BUFFER target='table' persistent=True\n"
      "b_basis: BUFFER target='basis' persistent=False\nb_mask: BUFFER target='mask' persistent=True\nx: USER_INPUT\n",
      &model);
  SayFoldedFrom("embedding_1", "['arange', 'position.weight', 'val_0']", &model);
  SayFoldedFrom("val_7", "['mask', 'val_1']", &model);
  const auto imported = model.Import(Training(OnnxTraining::kStep));
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(TrainedStates(*imported), ::testing::UnorderedElementsAre("w", "embedding_1", "exponent"));
  EXPECT_THAT(imported->left.at("table"), HasSubstr("a buffer, as the file says"));
  EXPECT_THAT(imported->left.at("val_7"), HasSubstr("computed without a parameter"));
  EXPECT_TRUE(imported->undecided.empty());
}

// A token for each sample, and a table that is read for each pair of positions.
TEST(TrainedWeightsTest, RepeatedElementsOfAParameterAreOneEach) {
  Rng rng(9);
  const Tensor token = RandomTensor({DType::kFloat32, {3}}, rng, -1, 1),
               table = RandomTensor({DType::kFloat32, {4}}, rng, -1, 1);
  Tensor tokens({DType::kFloat32, {4, 1, 3}}), biases({DType::kFloat32, {3, 3}});
  for (int64_t i = 0; i < 12; ++i) tokens.Set(i, token.At(i % 3));
  for (int64_t i = 0; i < 9; ++i) biases.Set(i, table.At(std::min<int64_t>(3, std::abs(i / 3 - i % 3))));
  const auto make = [&](const Tensor& first) {
    TestModel model = TestModel(17)
                          .Input("x", {4, 2, 3})
                          .Initializer("expand", first)
                          .Initializer("permute", biases)
                          .Node("Concat", {"expand", "x"}, {"a"}, {{"axis", int64_t{1}}})
                          .Node("Add", {"a", "permute"}, {"y"})
                          .Output("y");
    SayParameters("p_s: PARAMETER target='start'\np_t: PARAMETER target='table.weight'\n", &model);
    SayFoldedFrom("expand", "['start', 'val_6']", &model);
    SayFoldedFrom("permute", "['arange', 'embedding', 'table.weight']", &model);
    return model;
  };
  const TestModel model = make(tokens);
  ImportOptions options = Training(OnnxTraining::kStep);
  ExpectSameResults(model, options, {{"x", RandomTensor({DType::kFloat32, {4, 2, 3}}, rng, -1, 1)}});
  const auto imported = model.Import(options);
  EXPECT_THAT(TrainedStates(*imported), ::testing::UnorderedElementsAre("expand.once", "permute.once"));
  for (Value state : imported->graph.states()) {
    const bool is_token = imported->graph.node(state.node).name == "expand.once";
    EXPECT_EQ(imported->graph.type(state).shape, is_token ? (Shape{1, 1, 3}) : Shape{3});
  }
  EXPECT_THAT(imported->weight_notes, ::testing::ElementsAre(HasSubstr("expand was computed from start and repeats"),
                                                             HasSubstr("permute was computed from table.weight")));
  options.parts = [](const std::string& name) { return name == "expand"; };
  EXPECT_THAT(TrainedStates(*model.Import(options)), ::testing::UnorderedElementsAre("expand", "permute.once"));
  // Zeros do not show how often each of them is repeated.
  options.parts = nullptr;
  const auto zeros = make(Filled({4, 1, 3}, 0)).Import(options);
  ASSERT_TRUE(zeros.ok()) << zeros.status();
  EXPECT_THAT(zeros->undecided.at("expand"), HasSubstr("the file does not say which of them are one element"));
}

}  // namespace
}  // namespace rewright
