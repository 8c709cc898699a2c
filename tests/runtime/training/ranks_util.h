// Training runs on ranks of this process.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/device_factory.h"
#include "core/base/status_macros.h"
#include "runtime/comm/in_process.h"
#include "runtime/executor.h"
#include "runtime/training/trainer.h"
#include "tests/tools/program/program_util.h"

namespace rewright {

// Returns the data folder of the example that is shipped.
std::string DigitsFolder();

using Json = nlohmann::ordered_json;

struct Trained {
  absl::Status status;
  std::vector<double> losses;               // by step
  std::optional<ValidationScore> measured;  // the last one
  std::string sha256;                       // of the weights
  NamedTensors weights;
  int64_t position = 0;
  int64_t bytes_sent = 0;
};

// Changes the configuration or options of one rank.
using Told = std::function<void(int rank, Json* config, TrainerOptions* options)>;

class RanksTest : public ::testing::Test {
 protected:
  RanksTest() {
    json_ = Json::parse(R"({"model": {"mlp": {"sizes": [64, 24, 10]}},
      "data": {"inputs": {"x": {"file": "train_x.npy", "scale": 0.0625}}, "target": "train_y.npy", "batch": 24,
               "micro_batches": 4},
      "loss": "cross_entropy",
      "optimizer": {"kind": "adamw", "learning_rate": 0.02, "weight_decay": 0.01, "clip_norm": 2,
                    "schedule": {"kind": "cosine", "warmup": 5, "steps": 45}},
      "steps": 50})");
    validation_ = Json::parse(R"({"validation": {"inputs": {"x": {"file": "test_x.npy", "scale": 0.0625}},
                                                 "target": "test_y.npy", "every_steps": 25}})");
  }

  // Trains on `size` ranks, one thread each, up to the end or until `stop_at` steps are made.
  std::vector<Trained> Train(const Json& json, int size, const std::string& checkpoints = "", bool resume = false,
                             int64_t stop_at = 0, const Told& told = nullptr, double limit = 60) {
    std::vector<Trained> outcomes(static_cast<size_t>(size));
    const auto statuses = OnRanks(size, [&](Communicator& ranks) {
      omp_set_num_threads(1);
      ranks.set_timeout(limit);
      Trained& outcome = outcomes[static_cast<size_t>(ranks.rank())];
      Json own = json;
      TrainerOptions options;
      options.data_folder = DigitsFolder();
      options.checkpoint_folder = checkpoints.empty() ? "" : folder_ / checkpoints;
      options.resume = resume;
      options.ranks = &ranks;
      if (told != nullptr) told(ranks.rank(), &own, &options);
      // Only the last rank stops.
      const absl::Status status = TrainOne(own, options, ranks.rank() + 1 == size ? stop_at : 0, &outcome);
      outcome.bytes_sent = ranks.bytes_sent();
      return status;
    });
    for (size_t i = 0; i < outcomes.size(); ++i) outcomes[i].status = statuses[i];
    return outcomes;
  }
  // Expects that all ranks agree, and returns their common result.
  Trained Common(const std::vector<Trained>& outcomes) {
    for (const Trained& outcome : outcomes) {
      EXPECT_TRUE(outcome.status.ok()) << outcome.status;
      EXPECT_EQ(outcome.sha256, outcomes[0].sha256);
      EXPECT_EQ(outcome.losses, outcomes[0].losses);
      EXPECT_EQ(outcome.position, outcomes[0].position);
    }
    return outcomes[0];
  }
  Json With(const std::string& patch) const {
    Json json = json_;
    json.merge_patch(Json::parse(patch));
    return json;
  }

  TemporaryFolder folder_;
  Json json_, validation_;
  // Changes the options of all ranks; `look_` examines the trainers at the end.
  std::function<void(TrainerOptions* options)> with_;
  std::function<void(int rank, Trainer& trainer)> look_;
  // Replaces the model that the configuration describes, unless null.
  std::function<TrainableModel(const TrainConfig& config)> model_;

 private:
  absl::Status TrainOne(const Json& json, TrainerOptions options, int64_t stop_at, Trained* outcome) {
    ASSIGN_OR_RETURN(const TrainConfig config, ParseTrainConfig(json.dump()));
    ASSIGN_OR_RETURN(const auto device, MakeDevice("cpu"));
    const auto runner = MakeGraphRunner(*device);
    options.sharing.device.groups = [&](const Graph& graph) { return device->Partition(graph); };
    if (with_ != nullptr) with_(&options);
    const TrainableModel model =
        model_ != nullptr ? model_(config) : MakeModel(*config.built_in, config.micro_batch(), config.seed);
    ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(config, model, *runner, options));
    const auto observe = [&](const StepReport& report) {
      outcome->losses.push_back(report.loss);
      if (report.measurement) outcome->measured = report.measurement;
    };
    const absl::Status status = trainer->Run(observe, [&] { return stop_at > 0 && trainer->position() >= stop_at; });
    outcome->position = trainer->position();
    if (look_ != nullptr) look_(options.ranks->rank(), *trainer);
    ASSIGN_OR_RETURN(outcome->sha256, trainer->WeightsSha256());
    ASSIGN_OR_RETURN(outcome->weights, trainer->Weights());
    return status;
  }
};

}  // namespace rewright
