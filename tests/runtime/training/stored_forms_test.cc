// Tests weights that are stored joined: the step computes the same numbers, and names and shapes outside are those of
// the parts.
#include "runtime/training/stored_forms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "runtime/training/model.h"
#include "runtime/training/step.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;
using Named = std::map<std::string, Tensor>;

StepGraphs MlpStep(OptimizerOptions::Kind kind) {
  StepOptions options;
  options.optimizer.kind = kind;
  options.optimizer.learning_rate = 0.05;
  options.optimizer.weight_decay = 0.01;
  options.optimizer.clip_norm = 1;
  auto graphs = BuildStep(MakeModel(MlpOptions{{5, 7, 7, 7}, "relu"}, 4, 1).inference, options);
  EXPECT_TRUE(graphs.ok()) << graphs.status();
  return *std::move(graphs);
}

// Joins biases, and the matrices of two layers, which have equal shapes.
std::vector<StoredForm> Forms(int64_t axis) {
  return {{0, {"layer2.bias", "layer0.bias", "layer1.bias"}}, {axis, {"layer1.weight", "layer2.weight"}}};
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && std::memcmp(a.data(), b.data(), static_cast<size_t>(a.type().num_bytes())) == 0;
}

// Makes random states; none of the floating ones is zero before the first step.
Named RandomStates(const Graph& step) {
  Rng rng(3);
  Named states;
  for (Value state : step.states()) {
    const TensorType& type = step.type(state);
    states[step.node(state.node).name] = IsFloating(type.dtype) ? RandomTensor(type, rng, 0.1, 1) : Tensor(type);
  }
  return states;
}

Named Outputs(const Graph& step, const Named& states, const Named& inputs) {
  absl::flat_hash_map<std::string, Tensor> values(inputs.begin(), inputs.end());
  values.insert(states.begin(), states.end());
  const auto results = InterpretGraph(step, values);
  EXPECT_TRUE(results.ok()) << results.status();
  Named named;
  for (size_t i = 0; i < step.outputs().size(); ++i) named[step.outputs()[i].name] = (*results)[i];
  return named;
}

class StoredFormsTest : public ::testing::TestWithParam<std::tuple<OptimizerOptions::Kind, int64_t>> {};

TEST_P(StoredFormsTest, KeepEveryBit) {
  const auto [kind, axis] = GetParam();
  const StepGraphs graphs = MlpStep(kind);
  const std::vector<StoredForm> forms = Forms(axis);
  const auto joined = InStoredForms(graphs.step, forms, graphs.trained);
  ASSERT_TRUE(joined.ok()) << joined.status();
  const Named states = RandomStates(graphs.step);
  const auto joined_states = JoinedStates(states, forms);
  ASSERT_TRUE(joined_states.ok()) << joined_states.status();
  for (Value state : joined->states()) {
    const std::string& name = joined->node(state.node).name;
    ASSERT_TRUE(joined_states->contains(name)) << name;
    EXPECT_EQ(joined_states->at(name).type(), joined->type(state)) << name;
  }
  Rng rng(4);
  Tensor labels({DType::kInt64, {4}});
  for (int64_t i = 0; i < 4; ++i) labels.SetInt(i, i);
  const Named inputs = {{"x", RandomTensor({DType::kFloat32, {4, 5}}, rng, -1, 1)}, {"target", labels}};
  const Named expected = Outputs(graphs.step, states, inputs), found = Outputs(*joined, *joined_states, inputs);
  const std::map<std::string, StoredPart> parts = PartsOf(graphs.step, forms);
  EXPECT_EQ(parts.contains("layer1.weight.adam_m"), kind == OptimizerOptions::Kind::kAdamW);
  EXPECT_EQ(joined->states().size() + parts.size() * 3 / 5, graphs.step.states().size());
  for (const auto& [name, tensor] : expected) {
    const auto part = parts.find(name);
    const Tensor there = part == parts.end() ? found.at(name) : Part(found.at(part->second.state), part->second);
    EXPECT_TRUE(SameBits(there, tensor)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, StoredFormsTest,
                         ::testing::Combine(::testing::Values(OptimizerOptions::Kind::kAdamW,
                                                              OptimizerOptions::Kind::kMomentum,
                                                              OptimizerOptions::Kind::kSgd),
                                            ::testing::Values(0, 1)));

TEST(StoredForms, SayWhatDoesNotFit) {
  const StepGraphs graphs = MlpStep(OptimizerOptions::Kind::kAdamW);
  const auto error = [&](const std::vector<StoredForm>& forms) {
    return std::string(InStoredForms(graphs.step, forms, graphs.trained).status().message());
  };
  EXPECT_THAT(error({{0, {"layer0.bias", "layer9.bias"}}}), HasSubstr("found 1 of 2 parts with next values"));
  EXPECT_THAT(error({{0, {"layer0.bias"}}}), HasSubstr("fewer than two parts"));
  EXPECT_THAT(error({{2, {"layer1.weight", "layer2.weight"}}}), HasSubstr("found axis 2, expected one of f32[7,7]"));
  EXPECT_THAT(error({{1, {"layer0.weight", "layer1.weight"}}}), HasSubstr("found a part f32[7,7], expected f32[5,7]"));
  EXPECT_THAT(error({{0, {"layer0.bias", "layer0.bias"}}}), HasSubstr("layer0.bias is a part of two stored forms"));
}

TEST(StoredForms, AreReadAsTheyAreWritten) {
  const std::vector<StoredForm> forms = Forms(1);
  const auto read = ParseStoredForms(nlohmann::ordered_json::parse(StoredFormsJson(forms).dump()));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, forms);
  for (const char* wrong : {"1", "[1]", R"([{"axis": 0}])", R"([{"axis": "0", "parts": ["a", "b"]}])",
                            R"([{"axis": 0, "parts": ["a"]}])", R"([{"axis": 0, "parts": ["a", 1]}])"}) {
    EXPECT_THAT(std::string(ParseStoredForms(nlohmann::ordered_json::parse(wrong)).status().message()),
                HasSubstr("the checkpoint's stored_forms: found"))
        << wrong;
  }
}

}  // namespace
}  // namespace rewright
