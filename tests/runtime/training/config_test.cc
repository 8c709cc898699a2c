#include "runtime/training/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

constexpr char kConfig[] = R"({
  "model": {"mlp": {"sizes": [64, 32, 10], "activation": "tanh"}, "frozen": ["layer0.*"]},
  "data": {"inputs": {"x": {"file": "x.npy", "scale": 0.5}}, "target": "y.npy", "batch": 16, "prefetch_threads": 2},
  "loss": "cross_entropy",
  "optimizer": {"kind": "adamw", "learning_rate": 0.01, "weight_decay": 0.1, "clip_norm": 1, "beta1": 0.8,
    "schedule": {"kind": "cosine", "warmup": 5},
    "groups": [{"match": "*.bias", "weight_decay": 0}, {"match": "*", "rate_scale": 0.5}]},
  "epochs": 3,
  "non_finite": "skip",
  "seed": 7,
  "validation": {"inputs": {"x": "vx.npy"}, "target": "vy.npy", "every_steps": 10, "patience": 4},
  "checkpoint": {"every_steps": 100, "keep": 2}
})";

TEST(TrainConfigTest, ReadsEveryField) {
  const auto config = ParseTrainConfig(kConfig);
  ASSERT_TRUE(config.ok()) << config.status();
  const auto* mlp = std::get_if<MlpOptions>(&*config->built_in);
  ASSERT_NE(mlp, nullptr);
  EXPECT_EQ(mlp->sizes, (std::vector<int64_t>{64, 32, 10}));
  EXPECT_EQ(mlp->activation, "tanh");
  EXPECT_EQ(config->step.frozen, std::vector<std::string>{"layer0.*"});
  EXPECT_EQ(config->train.inputs.at("x").file, "x.npy");
  EXPECT_EQ(config->train.inputs.at("x").scale, 0.5);
  EXPECT_EQ(config->train.target.file, "y.npy");
  EXPECT_EQ(config->batch, 16);
  EXPECT_EQ(config->prefetch_threads, 2);
  EXPECT_EQ(config->step.loss, LossKind::kCrossEntropy);
  const OptimizerOptions& optimizer = config->step.optimizer;
  EXPECT_EQ(optimizer.kind, OptimizerOptions::Kind::kAdamW);
  EXPECT_EQ(optimizer.learning_rate, 0.01);
  EXPECT_EQ(optimizer.weight_decay, 0.1);
  EXPECT_EQ(optimizer.clip_norm, 1);
  EXPECT_EQ(optimizer.beta1, 0.8);
  EXPECT_EQ(optimizer.schedule.kind, RateSchedule::Kind::kCosine);
  EXPECT_EQ(optimizer.schedule.warmup, 5);
  EXPECT_TRUE(config->cosine_to_end);
  ASSERT_EQ(optimizer.groups.size(), 2u);
  EXPECT_EQ(optimizer.groups[0].weight_decay, 0.0);
  EXPECT_FALSE(optimizer.groups[1].weight_decay.has_value());
  EXPECT_EQ(optimizer.groups[1].rate_scale, 0.5);
  EXPECT_EQ(config->epochs, 3);
  EXPECT_TRUE(config->skip_non_finite);
  EXPECT_EQ(config->seed, 7u);
  EXPECT_EQ(config->validation->target.file, "vy.npy");
  EXPECT_EQ(config->validate_steps, 10);
  EXPECT_EQ(config->patience, 4);
  EXPECT_EQ(config->checkpoint_steps, 100);
  EXPECT_EQ(config->checkpoint_keep, 2);
}

// A change of the configuration above (a JSON merge patch: null removes), and the error.
struct ErrorCase {
  const char* patch;
  const char* message;
};

class TrainConfigErrorTest : public ::testing::TestWithParam<ErrorCase> {};

TEST_P(TrainConfigErrorTest, NamesTheField) {
  Json json = Json::parse(kConfig);
  json.merge_patch(Json::parse(GetParam().patch));
  const auto config = ParseTrainConfig(json.dump());
  EXPECT_EQ(std::string(config.status().message()), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Fields, TrainConfigErrorTest,
    ::testing::Values(
        ErrorCase{R"({"model": null})", "model: is missing"},
        ErrorCase{R"({"model": 3})", "model: found 3, expected an object"},
        ErrorCase{R"({"model": {"onnx": "m.onnx"}})",
                  "model: found mlp and onnx, expected one of mlp, conv_net, lstm, gpt, onnx"},
        ErrorCase{R"({"model": {"mlp": null}})", "model: found none, expected one of mlp, conv_net, lstm, gpt, onnx"},
        ErrorCase{R"({"model": {"mlp": {"sizes": null}}})", "model.mlp.sizes: is missing"},
        ErrorCase{R"({"model": {"mlp": {"sizes": [64, 0]}}})",
                  "model.mlp.sizes: found [64,0], expected a list of 2 to 1000 integers, each from 1 to 16777216"},
        ErrorCase{R"({"model": {"mlp": {"activation": "swish"}}})",
                  "model.mlp.activation: found \"swish\", expected one of relu, tanh, sigmoid, gelu"},
        ErrorCase{R"({"model": {"mlp": null, "conv_net": {"image": [1, 8, 7], "channels": [4, 4, 4], "classes": 10}}})",
                  "model.conv_net.image: found 7, expected at least 8, since each of the 3 blocks halves it"},
        ErrorCase{R"({"model": {"mlp": null, "lstm": {"vocabulary": 128, "length": 2000}}})",
                  "model.lstm.length: found 2000, expected an integer from 1 to 1024"},
        ErrorCase{R"({"model": {"mlp": null, "lstm": {"vocabulary": 128, "length": 8, "dropout": 1}}})",
                  "model.lstm.dropout: found 1, expected a number from 0 to 0.999"},
        ErrorCase{R"({"model": {"mlp": null, "gpt": {"length": 8}}})", "model.gpt.vocabulary: is missing"},
        ErrorCase{R"({"model": {"mlp": null, "gpt": {"vocabulary": 128, "length": 8, "width": 12, "heads": 5}}})",
                  "model.gpt.heads: found 5, expected a divisor of the width, 12"},
        ErrorCase{R"({"data": {"target": {"file": "t.txt", "tokens": {"shift": 2}}}})",
                  "data.target.tokens.shift: found 2, expected an integer from 0 to 1"},
        ErrorCase{R"({"data": {"shuffle": 1}})", "data.shuffle: found 1, expected true or false"},
        ErrorCase{R"({"model": {"frozen": "w"}})", "model.frozen: found \"w\", expected a list of texts"},
        ErrorCase{R"({"data": {"batch": "16"}})", "data.batch: found \"16\", expected an integer from 1 to 16777216"},
        ErrorCase{R"({"data": {"batch": 0}})", "data.batch: found 0, expected an integer from 1 to 16777216"},
        ErrorCase{R"({"data": {"micro_batches": 3}})",
                  "data.micro_batches: found 3, expected a divisor of data.batch, 16"},
        ErrorCase{R"({"data": {"micro_batches": 0}})",
                  "data.micro_batches: found 0, expected an integer from 1 to 16777216"},
        ErrorCase{R"({"data": {"batch": 1.5}})", "data.batch: found 1.5, expected an integer from 1 to 16777216"},
        ErrorCase{R"({"data": {"inputs": {"x": null}}})", "data.inputs: found {}, expected the inputs of the model"},
        ErrorCase{R"({"data": {"inputs": {"x": 3}}})", "data.inputs.x: found 3, expected an object"},
        ErrorCase{R"({"data": {"inputs": {"x": {"scal": 3}}}})",
                  "data.inputs.x.scal: is no field; expected file, scale, tokens; did you mean `scale`?"},
        ErrorCase{R"({"data": {"target": ""}})", "data.target: found \"\", expected a text that is not empty"},
        ErrorCase{R"({"loss": "hinge"})", "loss: found \"hinge\", expected one of cross_entropy, mean_squared_error"},
        ErrorCase{R"({"optimizer": {"kind": "lion"}})",
                  "optimizer.kind: found \"lion\", expected one of sgd, momentum, nesterov, adam, adamw"},
        ErrorCase{R"({"optimizer": {"learning_rate": "fast"}})",
                  "optimizer.learning_rate: found \"fast\", expected a number from 0 to 1e+06"},
        ErrorCase{R"({"optimizer": {"learning_rate": -1}})",
                  "optimizer.learning_rate: found -1, expected a number from 0 to 1e+06"},
        ErrorCase{R"({"optimizer": {"momentum": 0.9}})",
                  "optimizer.momentum: is no field; expected beta1, beta2, clip_norm, epsilon, groups, kind, "
                  "learning_rate, schedule, weight_decay"},
        ErrorCase{R"({"optimizer": {"schedule": {"kind": "constant", "steps": 3}}})",
                  "optimizer.schedule.steps: is no field; expected kind, warmup"},
        ErrorCase{R"({"optimizer": {"groups": [{"weight_decay": 0}]}})", "optimizer.groups[0].match: is missing"},
        ErrorCase{R"({"steps": 10})", "found steps and epochs, expected one of steps, epochs"},
        ErrorCase{R"({"epochs": null})", "found none, expected one of steps, epochs"},
        ErrorCase{R"({"validation": {"every_epochs": 1}})",
                  "validation: found both every_steps and every_epochs, expected one of them"},
        ErrorCase{R"({"checkpoint": {"keep": 0}})", "checkpoint.keep: found 0, expected an integer from 1 to 1000000"},
        ErrorCase{R"({"seed": -1})", "seed: found -1, expected an integer from 0 to 9223372036854775807"},
        ErrorCase{R"({"seed": 18446744073709551615})",
                  "seed: found 18446744073709551615, expected an integer from 0 to 9223372036854775807"},
        ErrorCase{R"({"non_finite": "ignore"})", "non_finite: found \"ignore\", expected one of stop, skip"},
        ErrorCase{R"({"epoch": 3})",
                  "epoch: is no field; expected checkpoint, data, epochs, loss, model, non_finite, optimizer, seed, "
                  "steps, validation; did you mean `epochs`?"},
        ErrorCase{R"({"epochs": null, "step": 120})",
                  "step: is no field; expected checkpoint, data, epochs, loss, model, non_finite, optimizer, seed, "
                  "steps, validation; did you mean `steps`?"}));

TEST(TrainConfigTest, WhatIsNoJsonIsToldWithThePlace) {
  EXPECT_THAT(std::string(ParseTrainConfig("{\n\"a\": }").status().message()), HasSubstr("line 2"));
  EXPECT_EQ(ParseTrainConfig("[]").status().message(), "found [], expected an object");
}

TEST(TrainConfigTest, OnlyWhatARunComputesIsItsIdentity) {
  const Json first = ParseTrainConfig(kConfig)->identity;
  Json json = Json::parse(kConfig);
  json.merge_patch(
      Json::parse(R"({"epochs": 9, "validation": null, "checkpoint": null, "data": {"prefetch_threads": 1}})"));
  EXPECT_EQ(FirstDifference(ParseTrainConfig(json.dump())->identity, first), "");
  json["data"]["batch"] = 8;
  EXPECT_EQ(FirstDifference(ParseTrainConfig(json.dump())->identity, first),
            "data.batch: found 8, the checkpoint has 16");
  json["data"]["batch"] = 16;
  // One micro-batch equals none; four give another sum.
  json["data"]["micro_batches"] = 1;
  EXPECT_EQ(FirstDifference(ParseTrainConfig(json.dump())->identity, first), "");
  json["data"]["micro_batches"] = 4;
  EXPECT_EQ(ParseTrainConfig(json.dump())->micro_batch(), 4);
  EXPECT_EQ(FirstDifference(ParseTrainConfig(json.dump())->identity, first),
            "data.micro_batches: found 4, the checkpoint has nothing");
  json["data"].erase("micro_batches");
  json["optimizer"].erase("clip_norm");
  EXPECT_EQ(FirstDifference(ParseTrainConfig(json.dump())->identity, first),
            "optimizer.clip_norm: found nothing, the checkpoint has 1");
}

TEST(TrainConfigTest, DamagedTextsAreRefusedOrRead) {
  const std::string good = kConfig;
  std::mt19937_64 rng(3);
  const int count = std::getenv("REWRIGHT_FULL") != nullptr ? 10'000 : 1'000;
  int read = 0;
  for (int i = 0; i < count; ++i) {
    std::string text = good;
    for (uint64_t k = rng() % 3; k < 3; ++k) {
      const char common[] = "0123456789[]{}:,\"-e. ";
      const size_t at = rng() % text.size();
      switch (rng() % 3) {
        case 0: text[at] = common[rng() % (sizeof common - 1)]; break;
        case 1: text[at] = static_cast<char>(rng()); break;
        default: text.erase(at, rng() % 20);
      }
    }
    const auto config = ParseTrainConfig(text);
    read += config.ok() ? 1 : 0;
    EXPECT_EQ(config.ok(), config.status().message().empty());
  }
  EXPECT_GT(read, 0);
  EXPECT_LT(read, count);
  EXPECT_FALSE(ParseTrainConfig(std::string(1'000'000, '[')).ok());
}

}  // namespace
}  // namespace rewright
