// Devices by name, partition, costs and the profile database.
#include <sqlite3.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "backends/device_factory.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "runtime/measure/profile_db.h"
#include "tests/backends/cpu/runner_util.h"
#include "tests/support/temporary_folder.h"

namespace rewright {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string TemporaryPath(const std::string& name) {
  const std::string path = TemporaryFile(name + ".db");
  std::remove(path.c_str());
  return path;
}

std::unique_ptr<Device> Make(const std::string& spec, const std::string& path = "") {
  auto device = MakeDevice(spec, {1, *ProfileDb::Open(path)});
  EXPECT_TRUE(device.ok()) << device.status().ToString();
  return *std::move(device);
}

// The operators of every group, joined.
std::vector<std::string> Groups(const Device& device, const std::string& text) {
  const Graph graph = GraphWithWeights(text, -1, 1, 1);
  std::vector<std::string> labels;
  std::set<NodeId> seen;
  for (const Group& group : device.Partition(graph)) {
    std::string label;
    for (NodeId id : group.nodes) {
      EXPECT_TRUE(seen.insert(id).second) << "a node in two groups";
      absl::StrAppend(&label, label.empty() ? "" : "+", graph.node(id).op->name);
    }
    labels.push_back(label);
  }
  for (NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    EXPECT_EQ(seen.count(id) > 0, graph.IsRun(node)) << id;
  }
  return labels;
}

TEST(MakeDevice, UnknownNames) {
  EXPECT_THAT(MakeDevice("tpu").status().ToString(), HasSubstr("device tpu: expected cpu"));
  EXPECT_THAT(MakeDevice("analytic:a100").status().ToString(), HasSubstr("analytic device a100: expected v100"));
}

TEST(CpuPartition, FusesTheEpilogueOfAConvolution) {
  EXPECT_THAT(Groups(*Make("cpu"), R"(
input x: f32[1,16,8,8]
state w: f32[16,16,3,3]
state s: f32[16]
%1 = conv2d(x, w, pads=[1,1,1,1])
%2 = batch_norm(%1, s, s, s, s)
%3 = add(%2, x)
%4 = relu(%3)
output y = %4
)"),
              ElementsAre("conv2d+batch_norm+add+relu"));
}

// A bias, a scale and a shift, one node each: to make one of two is algebra, and so is a product for a quotient.
TEST(CpuPartition, MakesNoTwoStepsOfAnEpilogueOne) {
  const auto groups = [](const std::string& steps) {
    return Groups(*Make("cpu"),
                  "input x: f32[1,16,8,8]\nstate w: f32[16,16,3,3]\nstate s: f32[16]\n"
                  "state b: f32[16,1,1]\n%1 = conv2d(x, w, pads=[1,1,1,1])\n" +
                      steps + "output y = %9\n");
  };
  EXPECT_THAT(groups("%2 = add(%1, b)\n%3 = mul(%2, b)\n%9 = sub(%3, b)\n"), ElementsAre("conv2d+add+mul+sub"));
  EXPECT_THAT(groups("%2 = add(%1, b)\n%9 = add(%2, b)\n"), ElementsAre("conv2d+add", "add"));
  EXPECT_THAT(groups("%2 = mul(%1, b)\n%9 = mul(%2, b)\n"), ElementsAre("conv2d+mul", "mul"));
  EXPECT_THAT(groups("%2 = add(%1, b)\n%9 = batch_norm(%2, s, s, s, s)\n"), ElementsAre("conv2d+add", "batch_norm"));
  EXPECT_THAT(groups("%9 = div(%1, b)\n"), ElementsAre("conv2d", "div"));
  EXPECT_THAT(groups("%9 = sub(b, %1)\n"), ElementsAre("conv2d", "sub"));
}

// Only rules tell which function a chain of operators computes.
TEST(CpuPartition, KnowsActivationsByTheirOperatorsAlone) {
  const auto groups = [](const std::string& steps) {
    return Groups(*Make("cpu"),
                  "input x: f32[9,20]\nstate w: f32[20,37]\n%1 = matmul(x, w)\n" + steps + "output y = %9\n");
  };
  for (const char* op : {"relu", "sigmoid", "tanh", "gelu", "gelu_tanh", "swish", "hard_swish", "leaky_relu"}) {
    EXPECT_THAT(groups(absl::StrCat("%9 = ", op, "(%1)\n")), ElementsAre(absl::StrCat("matmul+", op)));
  }
  EXPECT_THAT(groups("%2 = sigmoid(%1)\n%9 = mul(%1, %2)\n"), ElementsAre("matmul", "sigmoid+mul"));
}

TEST(CpuPartition, ValuesReadElsewhereEndAGroup) {
  EXPECT_THAT(Groups(*Make("cpu"), R"(
input x: f32[1,16,8,8]
state w: f32[16,16,3,3]
%1 = conv2d(x, w, pads=[1,1,1,1])
%2 = relu(%1)
output y = %2
output z = %1
)"),
              ElementsAre("conv2d", "relu"));
}

TEST(CpuPartition, WeightsAreComputedAhead) {
  EXPECT_THAT(Groups(*Make("cpu"), R"(
input x: f32[5,4]
state a: f32[6,4]
%1 = transpose(a, perm=[1,0])
%2 = exp(%1)
%3 = matmul(x, %2)
output y = %3
)"),
              ElementsAre("matmul"));
}

TEST(CpuPartition, GathersPointwiseNodes) {
  EXPECT_THAT(Groups(*Make("cpu"), R"(
input x: f32[5,4]
input y: f32[4]
%1 = exp(x)
%2 = add(%1, y)
%3 = mul(%2, %1)
%4 = reduce_sum(%3, axes=[1])
%5 = sub(%3, %4)
output y = %5
)"),
              ElementsAre("exp+add+mul", "reduce_sum", "sub"));
}

TEST(CpuCost, IsMeasuredOnceAndKept) {
  const std::string path = TemporaryPath("cost");
  const Graph graph = GraphWithWeights(R"(
input x: f32[64,256]
state w: f32[256,256]
%1 = matmul(x, w)
%2 = relu(%1)
%3 = reshape(%2, shape=[8,8,256])
output y = %3
)",
                                       -1, 1, 1);
  double first = 0;
  {
    const auto device = Make("cpu", path);
    const std::vector<Group> groups = device->Partition(graph);
    ASSERT_EQ(groups.size(), 2u);
    const auto cost = device->Cost(graph, groups[0]);
    ASSERT_TRUE(cost.ok()) << cost.status().ToString();
    first = *cost;
    EXPECT_GT(first, 1e-6);
    EXPECT_LT(first, 1.0);
    EXPECT_EQ(0.0, *device->Cost(graph, groups[1])) << "a view costs nothing";
  }
  const auto device = Make("cpu", path);
  EXPECT_EQ(first, *device->Cost(graph, device->Partition(graph)[0]));
}

TEST(CpuCost, SameWorkHasOneSignature) {
  const std::string text = R"(
input x: f32[64,256]
state w: f32[256,256]
state v: f32[256,256]
%1 = matmul(x, w)
%2 = matmul(x, v)
%3 = add(%1, %2)
output y = %3
)";
  const Graph graph = GraphWithWeights(text, -1, 1, 1);
  const auto device = Make("cpu");
  std::set<double> costs;
  for (const Group& group : device->Partition(graph)) costs.insert(*device->Cost(graph, group));
  EXPECT_EQ(costs.size(), 2u) << "matmul, and matmul with the addition";
}

TEST(CpuCost, ContextTellsLayoutsApart) {
  const Graph graph = GraphWithWeights(R"(
input x: f32[1,16,8,8]
state w: f32[16,16,3,3]
%1 = conv2d(x, w, pads=[1,1,1,1])
%2 = max_pool2d(x, kernel=[2,2])
%3 = max_pool2d(%1, kernel=[2,2])
%4 = max_pool2d(%1, kernel=[2,2], strides=[2,2])
output a = %2
output b = %3
output c = %4
)",
                                       -1, 1, 1);
  const auto device = Make("cpu");
  std::vector<uint64_t> contexts;
  for (const Group& group : device->Partition(graph)) contexts.push_back(device->CostContext(graph, group));
  std::sort(contexts.begin(), contexts.end());
  ASSERT_EQ(contexts.size(), 4u);
  EXPECT_EQ(contexts[0], 0u) << "of the convolution and the pooling of the input";
  EXPECT_EQ(contexts[1], 0u);
  EXPECT_NE(contexts[2], 0u);
  EXPECT_EQ(contexts[2], contexts[3]);
}

TEST(ProfileDb, KeepsEntries) {
  const std::string path = TemporaryPath("entries");
  {
    auto db = ProfileDb::Open(path);
    ASSERT_TRUE(db.ok()) << db.status().ToString();
    EXPECT_FALSE((*db)->Find("d", "s")->has_value());
    ASSERT_TRUE((*db)->Put("d", "s", {1, 2, 3, 4}).ok());
    ASSERT_TRUE((*db)->Put("d", "s", {5, 6, 7, 8}).ok());
    ASSERT_TRUE((*db)->Put("e", "s", {9, 9, 9, 9}).ok());
  }
  auto db = ProfileDb::Open(path);
  const auto entry = (*db)->Find("d", "s");
  ASSERT_TRUE(entry.ok() && entry->has_value());
  EXPECT_EQ((*entry)->fastest, 5);
  EXPECT_EQ((*entry)->median, 6);
  EXPECT_EQ((*entry)->spread, 7);
  EXPECT_EQ((*entry)->count, 8);
}

TEST(ProfileDb, KeepsComparisons) {
  const std::string path = TemporaryPath("comparisons");
  auto db = ProfileDb::Open(path);
  ASSERT_TRUE(db.ok()) << db.status();
  EXPECT_FALSE((*db)->FindComparison("d", "a", "b")->has_value());
  ASSERT_TRUE((*db)->PutComparison("d", "a", "b", {2, 1, 2.5, std::numeric_limits<double>::infinity(), 20, 3}).ok());
  EXPECT_FALSE((*db)->FindComparison("d", "b", "a")->has_value());
  EXPECT_FALSE((*db)->FindComparison("e", "a", "b")->has_value());
  const auto found = (*ProfileDb::Open(path))->FindComparison("d", "a", "b");
  ASSERT_TRUE(found.ok() && found->has_value()) << found.status();
  EXPECT_EQ((*found)->first, 2);
  EXPECT_EQ((*found)->second, 1);
  EXPECT_EQ((*found)->ratio, 2.5);
  EXPECT_TRUE(std::isinf((*found)->ratio_at_most));
  EXPECT_EQ((*found)->wins, 20);
  EXPECT_EQ((*found)->losses, 3);
  ASSERT_TRUE((*db)->PutComparison("d", "a", "b", {2, -1, 2.5, 3, 20, 3}).ok());
  EXPECT_THAT((*db)->FindComparison("d", "a", "b").status().ToString(),
              HasSubstr(path + ": device `d`, signature `a against b`: found 2 s, -1 s, ratio 2.5, 20 wins"));
}

TEST(ProfileDb, KeepsTheLongestLimitThatEndedASearch) {
  const std::string path = TemporaryPath("limits");
  auto db = ProfileDb::Open(path);
  ASSERT_TRUE(db.ok()) << db.status();
  EXPECT_EQ(*(*db)->FindLimit("d", "g", "s"), 0);
  for (double seconds : {20.0, 5.0}) ASSERT_TRUE((*db)->PutLimit("d", "g", "s", seconds).ok());
  EXPECT_EQ(*(*ProfileDb::Open(path))->FindLimit("d", "g", "s"), 20);
  EXPECT_EQ(*(*db)->FindLimit("d", "g", "other"), 0);
}

// A profile that does not grow has the costs that it has, and no others.
TEST(Costs, OfAProfileThatDoesNotGrow) {
  const std::shared_ptr<ProfileDb> profile = *ProfileDb::Open("");
  const auto device = MakeDevice("cpu", {1, profile});
  ASSERT_TRUE(device.ok()) << device.status();
  const Graph known = GraphWithWeights("input x: f32[8]\n%0 = relu(x)\noutput y = %0\n", -1, 1, 1);
  const Graph other = GraphWithWeights("input x: f32[9]\n%0 = relu(x)\noutput y = %0\n", -1, 1, 1);
  const auto cost = [&](const Graph& graph) { return (*device)->Cost(graph, (*device)->Partition(graph)[0]); };
  ASSERT_TRUE(cost(known).ok());
  profile->set_grows(false);
  EXPECT_TRUE(cost(known).ok());
  EXPECT_EQ(cost(other).status().code(), absl::StatusCode::kNotFound);
  profile->set_grows(true);
  EXPECT_TRUE(cost(other).ok());
}

TEST(ProfileDb, EntriesThatAreNoneAreAnError) {
  const std::string path = TemporaryPath("altered");
  auto db = ProfileDb::Open(path);
  ASSERT_TRUE(db.ok()) << db.status().ToString();
  const auto error = [&](const std::string& change) {
    EXPECT_TRUE((*db)->Put("d", "s", {1, 2, 3, 4}).ok());
    EXPECT_TRUE((*db)->Find("d", "s").ok());
    sqlite3* file = nullptr;
    EXPECT_EQ(sqlite3_open(path.c_str(), &file), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(file, ("UPDATE profile SET " + change).c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << change;
    sqlite3_close(file);
    const std::string found((*db)->Find("d", "s").status().message());
    EXPECT_EQ(std::string((*db)->List().status().message()), found);
    EXPECT_THAT(found, HasSubstr(path + ": device `d`, signature `s`: "));
    return found;
  };
  EXPECT_THAT(error("fastest = -5"), HasSubstr("fastest: found -5, expected seconds from 0 to 1e+06"));
  EXPECT_THAT(error("median = 9e999"), HasSubstr("median: found inf, expected seconds from 0"));
  EXPECT_THAT(error("median = 'x'"), HasSubstr("median: found the text `x`, expected seconds from 0"));
  EXPECT_THAT(error("spread = x'00ff'"), HasSubstr("spread: found a blob, expected seconds from 0"));
  EXPECT_THAT(error("fastest = 3"), HasSubstr("fastest: found 3, expected at most the median, 2"));
  EXPECT_THAT(error("count = 0"), HasSubstr("count: found 0, expected an integer of at least 1"));
  EXPECT_THAT(error("count = 'many'"), HasSubstr("count: found the text `many`, expected an integer of at least 1"));
}

TEST(ProfileDb, DamagedFilesAreAnError) {
  const std::string path = TemporaryPath("damaged");
  std::ofstream(path) << std::string(5000, 'x');
  EXPECT_THAT(ProfileDb::Open(path).status().ToString(), testing::AllOf(HasSubstr(path), HasSubstr("not a database")));
  EXPECT_THAT(ProfileDb::Open("/nowhere/at/all.db").status().ToString(), HasSubstr("cannot be opened"));
}

// A run ends with an error at an index outside its axis, the run that is measured too.
TEST(Costs, IndicesOfASmallTableLieWithinIt) {
  const Graph graph = GraphWithWeights(R"(
input i: i64[1,16]
state w: f32[2,8]
%1 = gather(w, i, axis=0)
output y = %1
)",
                                       -1, 1, 1);
  const auto device = Make("cpu");
  const std::vector<Group> groups = device->Partition(graph);
  ASSERT_EQ(groups.size(), 1u);
  const absl::StatusOr<double> cost = device->Cost(graph, groups[0]);
  ASSERT_TRUE(cost.ok()) << cost.status();
  EXPECT_GT(*cost, 0);
}

double AnalyticCost(const std::string& spec, const std::string& text, int group) {
  const auto device = Make(spec);
  const Graph graph = GraphWithWeights(text, -1, 1, 1);
  return *device->Cost(graph, device->Partition(graph)[group]);
}

TEST(Analytic, ConvolutionTakesItsActivation) {
  const std::string text = R"(
input x: f32[1,64,56,56]
state w: f32[64,64,3,3]
%1 = conv2d(x, w, pads=[1,1,1,1])
%2 = relu(%1)
output y = %2
)";
  EXPECT_THAT(Groups(*Make("analytic:v100"), text), ElementsAre("conv2d+relu"));
  const double out = 64 * 56 * 56, flops = out * 2 * 64 * 9, bytes = 4 * (2 * out + 64 * 64 * 9);
  EXPECT_DOUBLE_EQ(AnalyticCost("analytic:v100", text, 0), 5e-6 + std::max(flops / 9e12, bytes / 0.7e12));
}

TEST(Analytic, RowsOfATableAreReadAndNotTheTable) {
  const auto cost = [](int rows) {
    return AnalyticCost("analytic:zen3",
                        "input i: i64[32]\nstate t: f32[" + std::to_string(rows) +
                            ",768]\n%0 = gather(t, i, axis=0)\n%1 = relu(%0)\noutput y = %1\n",
                        0);
  };
  EXPECT_GT(cost(1000), 0);
  EXPECT_EQ(cost(1000), cost(30522));
}

TEST(Analytic, MovementIsFreeUnlessStrict) {
  const std::string text = R"(
input x: f32[6,8]
%1 = transpose(x, perm=[1,0])
%2.0, %2.1 = split(%1, axis=1, sizes=[2,4])
%3.0, %3.1 = split(%1, axis=0, sizes=[2,6])
output a = %2.0
output b = %3.0
)";
  const double kernel = 5e-6 + 4.0 * 2 * 48 / 0.7e12;
  EXPECT_EQ(AnalyticCost("analytic:v100", text, 0), 0);
  EXPECT_EQ(AnalyticCost("analytic:v100", text, 1), 0);
  EXPECT_DOUBLE_EQ(AnalyticCost("analytic:v100-strict", text, 0), kernel);
  EXPECT_DOUBLE_EQ(AnalyticCost("analytic:v100-strict", text, 1), kernel);
  EXPECT_EQ(AnalyticCost("analytic:v100-strict", text, 2), 0) << "a split of the leading axis is a view";
}

TEST(Analytic, ConcatMovesItsOutputTwice) {
  EXPECT_DOUBLE_EQ(AnalyticCost("analytic:v100", "input x: f32[6,8]\n%1 = concat(x, x, axis=0)\noutput y = %1\n", 0),
                   5e-6 + 4.0 * 2 * 96 / 0.7e12);
}

TEST(Roofline, ShippedDescriptionsAreDevices) {
  for (const char* name : {"k80", "v100-roofline", "h100", "h200", "zen3"}) {
    const auto device = MakeDevice(absl::StrCat("analytic:", name));
    ASSERT_TRUE(device.ok()) << device.status();
    EXPECT_EQ((*device)->name(), absl::StrCat("analytic:", name));
  }
}

// 2 processors with tiles of 6 elements, 100 FLOP/s, 1000 byte/s from memory, 4000 from a cache of 400 bytes.
constexpr char kSmallDevice[] = R"({"name": "small", "source": "none", "flops_per_second": 100,
  "bytes_per_second": 1000, "launch_seconds": 2, "processors": 2, "tile_elements": 6, "cache_bytes": 400,
  "cache_bytes_per_second": 4000})";

std::string WriteDevice(const std::string& text) {
  const std::string path = TemporaryFile("device.json");
  std::ofstream(path) << text;
  return path;
}

TEST(Roofline, ChargesWavesAndTheSlowerOfArithmeticAndMemory) {
  const std::string device = "analytic:" + WriteDevice(kSmallDevice);
  // 3 tiles take two waves, as 4 would: 2 * 18 * 5 FLOP at 3/4 of the peak, and nothing else counts.
  const std::string product = "input x: f32[3,5]\nstate w: f32[5,6]\n%1 = matmul(x, w)\noutput y = %1\n";
  EXPECT_DOUBLE_EQ(AnalyticCost(device, product, 0), 2 + 180.0 / 100 * 4 / 3);
  // 600 elements twice, from memory, are slower than 600 FLOP; 40 elements fit into the cache.
  const std::string large = "input x: f32[600]\n%1 = relu(x)\noutput y = %1\n";
  EXPECT_DOUBLE_EQ(AnalyticCost(device, large, 0), 2 + std::max(600.0 / 100, 4800.0 / 1000));
  EXPECT_EQ(AnalyticCost(device, "input x: f32[2,3]\n%1 = transpose(x, perm=[1,0])\noutput y = %1\n", 0), 0);
}

TEST(Roofline, DamagedDescriptionsAreAnError) {
  const auto message = [](const std::string& text) {
    return MakeDevice("analytic:" + WriteDevice(text)).status().ToString();
  };
  EXPECT_THAT(message("{"), HasSubstr("device.json: expected a JSON object"));
  std::string text = kSmallDevice;
  EXPECT_THAT(message(text.replace(text.find("1000"), 4, "-1")),
              HasSubstr("\"bytes_per_second\": found -1, expected a number above 0"));
  EXPECT_THAT(message("{\"name\": 3}"), HasSubstr("\"name\": found 3, expected a text"));
  EXPECT_THAT(MakeDevice("analytic:/nowhere.json").status().ToString(), HasSubstr("/nowhere.json: cannot be read"));
}

TEST(Analytic, RunsNothing) {
  const Graph graph = GraphWithWeights("input x: f32[2]\n%1 = exp(x)\noutput y = %1\n", -1, 1, 1);
  EXPECT_EQ(Make("analytic:v100")->Compile(graph).status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace rewright
