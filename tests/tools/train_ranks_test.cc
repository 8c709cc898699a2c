// Training by several processes, as a user starts them: what comes out, what is sent, what is said when one is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <random>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/core/onnx/model_util.h"
#include "tests/support/mpirun.h"
#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

const std::string kDigitsFolder = std::string(REWRIGHT_SOURCE_DIR) + "/tools/examples/digits/";
constexpr int kSteps = 50;
constexpr double kLastWords = 1000;  // bytes that a rank sends behind its count of them: how the run ended
constexpr double kGradients = 4 * (64 * 24 + 24 + 24 * 10 + 10);  // bytes

// By the file that Open MPI's monitoring writes for a rank; 0 where there is none.
double BytesSent(const std::string& file) {
  std::istringstream lines(FileContents(file));
  double sent = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind, from, to;
    double bytes = 0;
    if (words >> kind >> from >> to >> bytes && kind == "E") sent += bytes;  // messages of the program, not MPI's own
  }
  return sent;
}

// A function of the shell: the process of that rank of the job $mpirun.
const std::string kRankOf = R"(
      rank_of() {
        for child in $(pgrep -P $mpirun); do
          tr '\0' '\n' </proc/$child/environ 2>/dev/null | grep -qx OMPI_COMM_WORLD_RANK=$1 && echo $child
        done
      })";

class TrainRanksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasMpirun()) GTEST_SKIP() << "there is no mpirun";
  }
  // A small run on the digits; the patch is a JSON merge patch.
  std::string Config(const std::string& name, const std::string& patch = "{}") {
    Json json = {{"model", {{"mlp", {{"sizes", {64, 24, 10}}}}}},
                 {"data",
                  {{"inputs", {{"x", {{"file", kDigitsFolder + "train_x.npy"}, {"scale", 0.0625}}}}},
                   {"target", kDigitsFolder + "train_y.npy"},
                   {"batch", 32},
                   {"micro_batches", 4}}},
                 {"loss", "cross_entropy"},
                 {"optimizer", {{"kind", "adamw"}, {"learning_rate", 0.01}, {"clip_norm", 1}}},
                 {"steps", kSteps}};
    json.merge_patch(Json::parse(patch));
    WriteContents(folder_ / name, json.dump());
    return folder_ / name;
  }
  // The last line of a run that ends well, on `processes` processes.
  static Json Trained(int processes, const std::string& arguments, const std::string& flags = "") {
    const Outcome outcome = RewrightScript(Mpirun(processes, flags) + "$program train --threads 1 --json --quiet " +
                                           arguments + " >$out 2>$err");
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::istringstream lines(outcome.out);
    std::string line, last;
    int count = 0;
    for (; std::getline(lines, line); ++count) last = line;
    EXPECT_GT(count, 10) << "one line a step";
    const Json json = Json::parse(last, nullptr, /*allow_exceptions=*/false);
    EXPECT_TRUE(json.is_object() && json.contains("weights_sha256")) << outcome.out;
    return json;
  }
  // A long run of four processes, of which rank 2 gets a signal once it trains.
  Outcome Signalled(const std::string& signal, const std::string& arguments) {
    const std::string config = Config("long.json", R"({"steps": 100000000})");
    return RewrightScript(Mpirun(4) + "$program train --threads 1 --json --quiet " + config + " " + arguments +
                          " >$out 2>$err & mpirun=$!;" + kRankOf + R"(
      while ! grep -q '"step":9,' $out && kill -0 $mpirun; do sleep 0.1; done
      children=$(pgrep -P $mpirun); kill -)" +
                          signal + R"( $(rank_of 2); wait $mpirun; status=$?
      for try in $(seq 50); do
        left=; for child in $children; do grep -qs '^State:.[^Z]' /proc/$child/status && left="$left $child"; done
        [ -z "$left" ] && break; sleep 0.1
      done
      [ -z "$left" ] || echo "left over:$left" >>$err
      exit $status)");
  }

  TemporaryFolder folder_;
};

TEST_F(TrainRanksTest, AnyNumberOfProcessesGivesTheSameWeightsAtTheBytesOfARing) {
  const std::string config = Config("config.json");
  const Outcome alone = Rewright("train --threads 1 --json --quiet " + config);
  ASSERT_EQ(alone.status, 0) << alone.err;
  for (int processes : {2, 3, 4}) {
    const std::string counts = folder_ / absl::StrCat("counts", processes);
    const Json last = Trained(
        processes, absl::StrCat(config, " --keep-all --layout dp=", processes),  // no program that rank 0 chooses
        "--mca pml_monitoring_enable 1 --mca pml_monitoring_enable_output 3 --mca pml_monitoring_filename " + counts);
    EXPECT_THAT(alone.out, HasSubstr(last["weights_sha256"].get<std::string>())) << processes;
    EXPECT_EQ(last["ranks"], processes);
    const double formula = kSteps * kGradients * 2 * (processes - 1) / processes;
    for (int rank = 0; rank < processes; ++rank) {
      const double sent = BytesSent(absl::StrCat(counts, ".", rank, ".prof"));
      if (sent == 0) continue;  // this MPI does not count
      EXPECT_GE(sent, formula) << "rank " << rank << " of " << processes;
      EXPECT_LE(sent, 1.02 * formula) << "rank " << rank << " of " << processes;
      if (rank == 0) {
        EXPECT_NEAR(sent, last["bytes_sent"].get<double>(), kLastWords) << "by both counters";
      }
    }
  }
}

// The cluster is a described one: the choice does not depend on this machine.
TEST_F(TrainRanksTest, ALayoutIsChosenPassedBackAndProved) {
  const std::string config = Config("config.json", R"({"steps": 12})");
  const std::string file = folder_ / "chosen.layout", proof = folder_ / "step.proof";
  const Outcome alone = Rewright("train --threads 1 --json --quiet --keep-all " + config);
  ASSERT_EQ(alone.status, 0) << alone.err;
  for (int processes : {2, 4}) {
    const Outcome chosen = RewrightScript(absl::StrCat(
        Mpirun(processes), "$program train --threads 1 --json --quiet --keep-all ", config,
        " --layout auto,tp=1 --cluster many-core --explain --save-layout ", file, " --prove ", proof, " >$out 2>$err"));
    ASSERT_EQ(chosen.status, 0) << chosen.err;
    const Json choice = Json::parse(chosen.out.substr(0, chosen.out.find('\n')), nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(choice.is_object() && choice.contains("next")) << chosen.out;
    const std::string plain = absl::StrCat("dp=", processes, ",micro=4");
    bool has_plain = false;
    for (const Json& other : choice["next"]) {
      EXPECT_GE(other["seconds"], choice["estimated_seconds"]) << other;
      has_plain |= other["layout"] == plain;
    }
    EXPECT_TRUE(has_plain);
    EXPECT_THAT(FileContents(file), HasSubstr(absl::StrCat("\nlayout ", choice["layout"].get<std::string>(), "\n")));
    const Json back = Trained(processes, absl::StrCat(config, " --keep-all --layout ", file));
    for (const std::string& out : {alone.out, chosen.out}) {
      EXPECT_THAT(out, HasSubstr(back["weights_sha256"].get<std::string>())) << processes;
    }
    const Outcome checked = Rewright("check --no-second --no-steps --json " + proof);
    EXPECT_EQ(checked.status, 0) << checked.err << checked.out;
    EXPECT_EQ(checked.Json()["verdict"], "proved");
  }
}

TEST_F(TrainRanksTest, WhatAUserAsksForIsKeptByTheChoice) {
  const std::string config = Config("config.json", R"({"steps": 12})");
  const auto layout = [&](const std::string& asked) {
    const std::string file = folder_ / "asked.layout";
    Trained(2, absl::StrCat(config, " --layout ", asked, " --cluster many-core --save-layout ", file));
    return FileContents(file);
  };
  EXPECT_THAT(layout("auto,pp=2"), AllOf(HasSubstr("pp=2"), HasSubstr("micro=4")));
  EXPECT_THAT(layout("auto,dp=2,zero=3"), HasSubstr("layout dp=2,zero=3,micro=4"));
  const auto error = [&](const std::string& flags) {
    const Outcome outcome =
        RewrightScript(absl::StrCat(Mpirun(2), "$program train --threads 1 ", config, " ", flags, " >$out 2>$err"));
    EXPECT_NE(outcome.status, 0) << flags;
    return outcome.err;
  };
  EXPECT_THAT(error("--layout auto,dp=3 --cluster many-core"), HasSubstr("expected what 2 ranks"));
  EXPECT_THAT(error("--layout auto,micro=8 --cluster many-core"),
              HasSubstr("--layout micro: found 8, expected data.micro_batches, 4"));
  EXPECT_THAT(error("--layout auto,pp=x --cluster many-core"), HasSubstr("found `pp=x"));
  EXPECT_THAT(error("--layout dp=2 --explain"), HasSubstr("expected --layout auto"));
  WriteContents(folder_ / "small.json", R"({"name": "small", "memory_bytes": 1000,
      "device": {"name": "core", "flops_per_second": {"f32": 1e11}, "bytes_per_second": 1e10, "launch_seconds": 1e-6,
                 "efficiency": {"f32": 0.5, "memory": 0.5}},
      "levels": [{"name": "bus", "devices": 2, "bytes_per_second": 1e9, "seconds": 1e-6}]})");
  EXPECT_THAT(error("--layout auto --cluster " + (folder_ / "small.json")),
              HasSubstr("MB of memory, expected at least"));
}

TEST_F(TrainRanksTest, ALayoutThatDoesNotFitComputesValuesAgain) {
  const std::string config = Config("config.json", R"({"model": {"mlp": {"sizes": [64, 32, 32, 32, 32, 10]}},
      "data": {"batch": 1024, "micro_batches": 2}, "steps": 12})");
  const std::string file = folder_ / "chosen.layout", proof = folder_ / "step.proof";
  const std::string choose = config + " --layout auto,dp=2,zero=1 --cluster many-core --save-layout " + file;
  const auto choice = [&](const std::string& flags) {
    const Outcome outcome = RewrightScript(
        absl::StrCat(Mpirun(2), "$program train --threads 1 --json --quiet ", choose, " ", flags, " >$out 2>$err"));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return Json::parse(outcome.out.substr(0, outcome.out.find('\n')), nullptr, /*allow_exceptions=*/false);
  };
  const auto all = choice("--keep-all")["estimated_bytes"].get<int64_t>(), limit = all * 9 / 10;
  const Json kept = Trained(2, config + " --keep-all --layout dp=2,zero=1");
  const Json less = choice(absl::StrCat("--memory-limit ", limit, " --prove ", proof));
  EXPECT_GT(less["computed_again"], 0);
  EXPECT_EQ(less["bytes_of_all"], all);
  EXPECT_LE(less["estimated_bytes"], limit);
  EXPECT_THAT(FileContents(file), HasSubstr(absl::StrCat("\nmemory ", limit, "\n")));
  const Json back = Trained(2, absl::StrCat(config, " --layout ", file));
  EXPECT_EQ(back["weights_sha256"], kept["weights_sha256"]);
  EXPECT_LT(back["gradients_arena_bytes"], kept["gradients_arena_bytes"]);
  EXPECT_EQ(Rewright("check --no-second --no-steps " + proof).status, 0);
}

TEST_F(TrainRanksTest, AnEditedPlanRunsWhereItIsProved) {
  const std::string config = Config("config.json", R"({"steps": 12})"), plan = folder_ / "step.plan";
  const Json first = Trained(2, absl::StrCat(config, " --keep-all --layout dp=2 --plan ", plan));
  const std::string again = absl::StrCat(config, " --keep-all --layout dp=2 --run-plan ", plan);
  EXPECT_EQ(Trained(2, again)["weights_sha256"], first["weights_sha256"]);
  const auto error = [&](const std::string& from, const std::string& to) {
    std::string text = FileContents(plan);
    const size_t at = text.find(from, text.find("ACCUMULATE"));
    EXPECT_NE(at, std::string::npos) << text;
    WriteContents(plan, text.replace(at, from.size(), to));
    const Outcome run = RewrightScript(absl::StrCat(Mpirun(2), "$program train --threads 1 ", again, " >$out 2>$err"));
    EXPECT_NE(run.status, 0);
    return run.err;
  };
  const std::string sound = FileContents(plan);
  const size_t last = sound.rfind("ACCUMULATE");
  const std::string line = sound.substr(last, sound.find('\n', last) - last);  // of micro-batch 3
  EXPECT_THAT(error(line, line.substr(0, line.rfind(' ')) + " 2"),
              AllOf(HasSubstr("rank 1, action "), HasSubstr("has the leaves [2,2], expected those from 2 to 3")));
  std::string other = sound;
  other.replace(other.find("f32["), 4, "f64[");
  WriteContents(plan, other);
  const Outcome run = RewrightScript(absl::StrCat(Mpirun(2), "$program train --threads 1 ", again, " >$out 2>$err"));
  EXPECT_THAT(run.err, HasSubstr("the plan: found `"));
}

// mpirun closes the pipes of its processes when it is interrupted, and tells them to end.
TEST_F(TrainRanksTest, AnInterruptedLauncherLeavesACheckpoint) {
  const std::string config = Config("long.json", R"({"steps": 100000000, "checkpoint": {"every_steps": 1000000000}})");
  for (const std::string signal : {"INT", "TERM"}) {
    const std::string checkpoints = folder_ / ("ck_" + signal);
    const Outcome outcome = RewrightScript(absl::StrCat(
        Mpirun(2, "--mca odls_base_sigkill_timeout 5"), "$program train --threads 1 --json ", config,
        " --checkpoint-dir ", checkpoints,
        " >$out 2>$err & mpirun=$!; while ! grep -q '\"step\":9,' $out && kill -0 $mpirun; do sleep 0.1; done; kill -",
        signal, " $mpirun; wait $mpirun"));
    EXPECT_TRUE(std::filesystem::exists(checkpoints + "/latest")) << signal << ": " << outcome.err;
  }
}

TEST_F(TrainRanksTest, OptimizersAreCutWithTheSameBits) {
  const std::string config = Config("config.json", R"({"steps": 12, "checkpoint": {"every_steps": 6}})");
  const Outcome alone = Rewright("train --threads 1 --json --quiet " + config);
  ASSERT_EQ(alone.status, 0) << alone.err;
  EXPECT_THAT(alone.out, HasSubstr(Trained(2, config + " --layout dp=2,zero=1")["weights_sha256"].get<std::string>()));
}

// Gradients, weights or the model itself are cut; what is sent is counted by MPI, at every rank.
TEST_F(TrainRanksTest, LayoutsGiveTheSameWeights) {
  const std::string config =
      Config("config.json", R"({"model": {"mlp": {"sizes": [64, 24, 24, 10]}}, "data": {"micro_batches": null},
                                "steps": 12})");
  const Outcome alone = Rewright("train --threads 1 --json --quiet --layout micro=4 " + config);
  ASSERT_EQ(alone.status, 0) << alone.err;
  for (const auto& [layout, processes] :
       {std::pair("dp=2,zero=3", 2), std::pair("dp=2,pp=2", 4), std::pair("dp=2,pp=2,zero=2", 4)}) {
    const std::string counts = absl::StrCat(folder_ / "counts.", layout);
    const Json last = Trained(
        processes, absl::StrCat(config, " --bucket-mb 0.001 --layout ", layout, ",micro=4"),
        "--mca pml_monitoring_enable 1 --mca pml_monitoring_enable_output 3 --mca pml_monitoring_filename " + counts);
    EXPECT_THAT(alone.out, HasSubstr(last["weights_sha256"].get<std::string>())) << layout;
    const double sent = BytesSent(counts + ".0.prof");
    if (sent > 0) {  // this MPI counts
      EXPECT_NEAR(sent, last["bytes_sent"].get<double>(), kLastWords) << layout;
    }
    ASSERT_EQ(last["planned_bytes_of_step"].size(), static_cast<size_t>(processes));
    // The rest is sent once: hashes, questions of all ranks, and the weights that are compared and printed.
    const double planned = 12 * last["planned_bytes_of_step"][0].get<double>();
    EXPECT_GE(last["bytes_sent"].get<double>(), planned) << layout;
    EXPECT_LE(last["bytes_sent"].get<double>(), planned + 90e3) << layout;
  }
}

TEST_F(TrainRanksTest, ProcessesComputeAStepTogether) {
  const std::string config = Config("config.json", R"({"steps": 12, "data": {"micro_batches": 1},
      "model": {"places": {"layer0.weight": 1, "layer0.bias": 0, "layer1.weight": 0}}})");
  const Json alone = Trained(1, config);
  const std::string arguments = config + " --layout tp=2 -o " + (folder_ / "out.onnx");
  const Json last = Trained(2, arguments);
  EXPECT_NEAR(last["final_loss"].get<double>(), alone["final_loss"].get<double>(), 1e-5);
  EXPECT_EQ(Rewright("inspect " + (folder_ / "out.onnx")).status, 0);
  // No more than the sums of what layer 1 gives, and what is sent once.
  EXPECT_LT(last["bytes_sent"].get<double>(), 12 * (32 * 10 * 4 + 200) + 60e3);
  EXPECT_THAT(Rewright("train " + config + " --layout tp=2").err,
              HasSubstr("--layout: found `tp=2`, expected mpirun -n 2 rewright train .., found 1 rank"));
}

TEST_F(TrainRanksTest, ARunGoesOnOnAnotherNumberOfProcesses) {
  const std::string config = Config("config.json");
  const Outcome alone = Rewright("train --threads 1 --json --quiet " + config);
  ASSERT_EQ(alone.status, 0) << alone.err;
  const std::string arguments = " --checkpoint-dir " + (folder_ / "checkpoints");
  Trained(4, Config("first.json", R"({"steps": 20, "checkpoint": {"every_steps": 7}})") + arguments);
  Trained(2, Config("second.json", R"({"steps": 35})") + arguments + " --resume");
  const Outcome rest = Rewright("train --threads 1 --json --quiet --resume " + config + arguments);
  ASSERT_EQ(rest.status, 0) << rest.err;
  const auto last_line = [](const std::string& text) { return text.substr(text.rfind('{')); };
  EXPECT_EQ(last_line(rest.out), last_line(alone.out));
}

// The limit holds for each process, in every kind of layout: the same bits, in less memory.
TEST_F(TrainRanksTest, ALimitOfMemoryHoldsForEveryRank) {
  const std::string text = std::string(REWRIGHT_SOURCE_DIR) + "/tools/examples/characters/train.txt";
  const Json tokens = {{"file", text}, {"scale", nullptr}, {"tokens", {{"stride", 24}}}};
  Json target = {{"file", text}, {"tokens", {{"stride", 24}, {"shift", 1}}}};
  const Json model = {{"gpt", {{"vocabulary", 128}, {"length", 24}, {"width", 24}, {"heads", 2}, {"layers", 4}}},
                      {"mlp", nullptr},
                      {"places", {{"*.expand.weight", 1}, {"*.expand.bias", 0}, {"*.contract.weight", 0}}}};
  const Json patch = {
      {"model", model},
      {"data", {{"inputs", {{"x", tokens}}}, {"target", target}, {"batch", 64}, {"micro_batches", nullptr}}},
      {"steps", 12}};
  const std::string config = Config("gpt.json", patch.dump());
  struct Case {
    const char* layout;
    int ranks;
    double asked, most;  // shares of what it takes where all is kept
  };
  for (const auto& [layout, ranks, asked, most] :
       {Case{"dp=2,micro=2", 2, 0.6, 0.8}, Case{"dp=2,micro=2,zero=3", 2, 0.6, 0.8}, Case{"tp=2,micro=1", 2, 0.9, 0.95},
        Case{"pp=2,micro=2", 2, 0.8, 0.9}, Case{"pp=2,tp=2,micro=2", 4, 0.8, 0.9}}) {
    SCOPED_TRACE(layout);
    const std::string arguments = absl::StrCat(config, " --layout ", layout);
    const Json all = Trained(ranks, arguments + " --keep-all");
    const std::string where = all.contains("gradients_arena_bytes") ? "gradients_arena_bytes" : "arena_bytes";
    const int64_t limit = all["state_bytes"].get<int64_t>() + static_cast<int64_t>(asked * all[where].get<double>());
    const Json less = Trained(ranks, absl::StrCat(arguments, " --memory-limit ", limit));
    EXPECT_EQ(less["weights_sha256"], all["weights_sha256"]);
    EXPECT_EQ(less["final_loss"], all["final_loss"]);
    EXPECT_LE(less[where].get<int64_t>(), limit);
    EXPECT_LT(less[where].get<double>(), most * all[where].get<double>());
  }
}

TEST_F(TrainRanksTest, AKilledRankIsNamed) {
  const Outcome outcome = Signalled("KILL", "");
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("rank 2 "), ::testing::Not(HasSubstr("left over"))));
}

TEST_F(TrainRanksTest, ARankThatHangsIsNamedWithStepAndOperation) {
  const Outcome outcome = Signalled("STOP", "--timeout 2");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err,
              ::testing::ContainsRegex(
                  "step [0-9]+, (sum of gradients|whether to stop|the checkpoint): rank [013] waited 2 s for "
                  "(rank [013], which waits for )*rank 2, which may hang"));
  EXPECT_THAT(outcome.err, ::testing::Not(HasSubstr("left over")));
  EXPECT_THAT(outcome.err, ::testing::Not(HasSubstr("rank 2 waited"))) << "it was stopped, the others were not";
}

// Any rank, at any moment, among them those when a checkpoint is written; then on any number of processes.
TEST_F(TrainRanksTest, ARunThatLosesRanksEndsWithTheSameWeights) {
  const std::string config = Config("config.json", R"({"steps": 300, "checkpoint": {"every_steps": 1, "keep": 2}})");
  const std::string folder = folder_ / "checkpoints";
  const std::string sha256 = Trained(1, config)["weights_sha256"];
  std::mt19937_64 rng(5);
  const int kills = std::getenv("REWRIGHT_FULL") != nullptr ? 50 : 5;
  int killed = 0, resumed = 0;
  for (int trial = 0; killed < kills && trial < 3 * kills; ++trial) {
    const bool resume = std::filesystem::exists(folder + "/latest");
    const int processes = static_cast<int>(2 + rng() % 3);
    const Outcome outcome = RewrightScript(absl::StrFormat(
        "%s $program train --threads 1 --json --quiet %s --checkpoint-dir %s %s >$out 2>$err & mpirun=$!; %s\n"
        "while ! [ -s $out ] && kill -0 $mpirun; do sleep 0.05; done; sleep %.3f; kill -KILL $(rank_of %d); "
        "wait $mpirun",
        Mpirun(processes), config, folder, resume ? "--resume" : "", kRankOf, static_cast<double>(rng() % 1000) / 1000,
        rng() % static_cast<uint64_t>(processes)));
    resumed += resume ? 1 : 0;
    if (outcome.status == 0) {
      EXPECT_THAT(outcome.out, HasSubstr(sha256));
      std::filesystem::remove_all(folder);
    } else {
      EXPECT_THAT(outcome.err, HasSubstr("exited on signal 9")) << "no rank has another reason to end";
      ++killed;
    }
  }
  EXPECT_GT(resumed, 0);
  const bool resume = std::filesystem::exists(folder + "/latest");
  const Outcome last = Rewright(absl::StrCat("train --threads 1 --json --quiet ", config, " --checkpoint-dir ", folder,
                                             resume ? " --resume" : ""));
  EXPECT_EQ(last.status, 0) << last.err;
  EXPECT_THAT(last.out, HasSubstr(sha256));
}

// A file's model is read at the batch of a micro-batch.
TEST_F(TrainRanksTest, AModelOfAFileIsTrained) {
  const std::string model = folder_ / "first.onnx";
  const Outcome first = Rewright("train --threads 1 --json --quiet " + Config("first.json") + " -o " + model);
  ASSERT_EQ(first.status, 0) << first.err;
  const std::string config =
      Config("second.json", R"({"model": {"mlp": null, "onnx": "first.onnx", "frozen": ["layer0.*"]}})");
  const Json alone = Trained(1, config), shared = Trained(2, config + " -o " + (folder_ / "second.onnx"));
  EXPECT_EQ(shared["weights_sha256"], alone["weights_sha256"]);
  EXPECT_EQ(Rewright("run --iterations 1 " + (folder_ / "second.onnx")).status, 0);
  TestModel fixed;
  fixed.Input("x", {8, 64}).Initializer("w", Iota({64, 10})).Node("MatMul", {"x", "w"}, {"y"}).Output("y");
  WriteContents(folder_ / "fixed.onnx", fixed.Bytes());
  EXPECT_THAT(Rewright("train " + Config("third.json", R"({"model": {"mlp": null, "onnx": "fixed.onnx"},
                                                          "data": {"micro_batches": 2}})"))
                  .err,
              HasSubstr("data.batch / data.micro_batches: found 16, expected the size of axis 0 of input x f32[8,64]"));
}

TEST_F(TrainRanksTest, SaysWhatIsWrong) {
  const std::string config = Config("config.json");
  const auto error = [](const std::string& command) {
    const Outcome outcome = RewrightScript(command + " >$out 2>$err");
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_THAT(outcome.out, ::testing::IsEmpty());
    return outcome.err;
  };
  EXPECT_THAT(error("$program train --layout pp=2 " + config),
              HasSubstr("--layout: found `pp=2`, expected mpirun -n 2 rewright train .., found 1 rank"));
  EXPECT_THAT(error("$program train --layout ep=2 " + config),
              HasSubstr("--layout: found `ep=2`, expected dp=N, tp=N, pp=N, cp=N, zero=0..3, micro=M, schedule=1f1b|"));
  EXPECT_THAT(error("$program train --layout dp=2 " + config),
              HasSubstr("--layout: found `dp=2`, expected mpirun -n 2 rewright train .., found 1 rank"));
  EXPECT_THAT(error(Mpirun(2) + "$program train --threads 1 --layout tp=2 " + config),
              HasSubstr("rank 0: " + config + ": model.places: is missing; the layout tp=2 cuts weights as it says"));
  EXPECT_THAT(error(Mpirun(2) + "$program train --threads 1 --layout pp=2,micro=5 " + config),
              HasSubstr("rank 0: --layout micro: found 5, expected data.micro_batches, 4"));
  EXPECT_THAT(error(Mpirun(2) + "$program train --threads 1 --layout dp=4 " + config),
              HasSubstr("rank 0: --layout: found `dp=4`, expected mpirun -n 4 rewright train .., found 2 ranks"));
  EXPECT_THAT(
      error(Mpirun(3) + "$program train --threads 1 " + Config("two.json", R"({"data": {"micro_batches": 2}})")),
      HasSubstr("rank 0: " + (folder_ / "two.json") +
                ": data.micro_batches: found 2, expected at least 3, one for each rank"));
  const std::string other = Config("other.json", R"({"optimizer": {"learning_rate": 0.02}})");
  EXPECT_THAT(error(Mpirun(1) + "$program train --threads 1 " + config + " : -n 1 $program train --threads 1 " + other),
              HasSubstr("the start: rank 1 differs from rank 0: the configuration: found "));
  const auto differing = [&](const std::string& first, const std::string& second) {
    const std::string train = "$program train --threads 1 " + config + " ";
    return error(Mpirun(1) + train + first + " : -n 1 " + train + second);
  };
  EXPECT_THAT(differing("--layout dp=2,zero=1", "--layout dp=2"),
              HasSubstr("the flags: rank 1 differs from rank 0: --layout: found dp=2, rank 0 has dp=2,zero=1"));
  EXPECT_THAT(differing("--checkpoint-dir " + (folder_ / "ck"), ""),
              HasSubstr("--checkpoint-dir: found not given, rank 0 has given"));
}

}  // namespace
}  // namespace rewright
