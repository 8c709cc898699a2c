// The layouts of images on the CPU device, told by the implementations that its convolutions run in. Run with every
// instruction set that oneDNN may be held to (tests/CMakeLists.txt).
#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/substitute.h"
#include "backends/common/group.h"
#include "backends/common/node_access.h"
#include "backends/cpu/kernels/conv.h"
#include "backends/cpu/lower/context_layout.h"
#include "backends/cpu/lower/lowering.h"
#include "backends/cpu/simd/simd.h"
#include "backends/device_factory.h"
#include "bench/zoo/zoo.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "tests/backends/cpu/runner_util.h"
#include "tests/backends/random_graph_util.h"

namespace rewright {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

bool IsConvOrPool(const Node& node) {
  const std::string& name = node.op->name;
  return name == "conv2d" || name == "max_pool2d" || name == "avg_pool2d";
}

// The steps that convolve or pool: by their groups, which say what a step is, and by their labels, which say how it is
// done. Returns how many there are.
int ExpectMadeForTheProblem(const Graph& graph, const Schedule& schedule) {
  int found = 0;
  for (const Step& step : schedule.steps) {
    if (step.group < 0) continue;
    const Node& anchor = graph.node(schedule.groups[step.group].nodes[0]);
    if (!IsConvOrPool(anchor)) continue;
    ++found;
    EXPECT_THAT(step.label, Not(AnyOf(HasSubstr("gemm"), HasSubstr("ref"), HasSubstr("simple"))))
        << GroupText(graph, schedule.groups[step.group]) << " of " << graph.type(anchor.operands[0]).ToString()
        << " by " << graph.type(anchor.operands.back()).ToString() << " to " << anchor.outputs[0].ToString();
    EXPECT_THAT(step.label, HasSubstr("(")) << "it does not say how it is done";
  }
  return found;
}

struct Model {
  const char* name;
  int64_t image_size;  // 0: the architecture has one
  int64_t batch = 1;
};

void PrintTo(const Model& model, std::ostream* out) { *out << model.name; }

class ZooLayouts : public testing::TestWithParam<Model> {};

TEST_P(ZooLayouts, EveryConvolutionAndPoolHasAKernelOfItsOwn) {
  ZooOptions options;
  options.image_size = GetParam().image_size;
  options.batch = GetParam().batch;
  const absl::StatusOr<Graph> graph = BuildZooModel(GetParam().name, options);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto device = MakeDevice("cpu", {1});
  ASSERT_TRUE(device.ok()) << device.status();
  const absl::StatusOr<Schedule> schedule = (*device)->Compile(*graph);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_GT(ExpectMadeForTheProblem(*graph, *schedule), 0);
}

std::shared_ptr<const cpu::DnnlContext> Context() {
  auto context = std::make_shared<cpu::DnnlContext>();
  context->engine = dnnl::engine(dnnl::engine::kind::cpu, 0);
  context->block = cpu::Simd().lanes < 16 ? 8 : 16;
  return context;
}

// Costs are measured with operands laid out as CpuLayouts says: lowering must do as it says.
int ExpectLoweredAsSaid(const Graph& graph) {
  const auto context = Context();
  cpu::CpuLayouts layouts(context);
  cpu::Lowering lowering(context, graph, {});
  const absl::StatusOr<Schedule> schedule = lowering.Run();
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  if (!schedule.ok()) return 0;
  int other = 0;
  for (const Group& group : schedule->groups) {
    for (Value output : group.outputs) {
      const absl::StatusOr<cpu::Place> place = lowering.Find(output);
      EXPECT_TRUE(place.ok()) << place.status();
      const Layout said = layouts.Of(graph, output);
      if (place->layout.IsRowMajor() && said.IsRowMajor()) continue;
      ++other;
      EXPECT_EQ(place->layout, said) << GroupText(graph, group) << ": " << place->layout.ToString() << ", said "
                                     << said.ToString();
    }
  }
  return other;
}

TEST_P(ZooLayouts, AreAsSaid) {
  ZooOptions options;
  options.image_size = GetParam().image_size;
  options.batch = GetParam().batch;
  const absl::StatusOr<Graph> graph = BuildZooModel(GetParam().name, options);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_GT(ExpectLoweredAsSaid(*graph), 0);
}

INSTANTIATE_TEST_SUITE_P(Models, ZooLayouts,
                         testing::Values(Model{"resnet50", 224}, Model{"resnet50", 64, 3}, Model{"resnext50", 96},
                                         Model{"squeezenet", 224}, Model{"squeezenet", 64, 2},
                                         Model{"inception_v3", 96}, Model{"mobilenet_v2", 224},
                                         Model{"mobilenet_v2", 32, 2}, Model{"nasnet_a", 96},
                                         Model{"taso_resnet50", 64}, Model{"taso_resnext50", 64},
                                         Model{"taso_nasnet_a", 128}, Model{"residual_block", 0}, Model{"vgg19", 0}),
                         [](const auto& info) {
                           return absl::StrCat(info.param.name, "_", info.param.image_size, "_", info.param.batch);
                         });

// A convolution with what may follow it.
struct ConvCase {
  int64_t batch, channels, height, width, out, groups;
  std::vector<int64_t> kernel, strides, pads, dilations;
  int residual;  // 0: none, 1: an input, 2: a value that no other node reads
  bool norm, activation;
};

ConvCase RandomCase(Rng& rng) {
  const auto pick = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(rng); };
  ConvCase c;
  c.batch = pick(0, 3) == 0 ? pick(2, 3) : 1;
  const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 11, 12, 15, 16, 17, 24, 31, 32, 33, 40, 48};
  const auto channels = [&] { return sizes[pick(0, 17)]; };
  switch (pick(0, 4)) {
    case 0:  // depthwise
      c.channels = c.out = c.groups = channels();
      break;
    case 1:  // grouped
      c.groups = pick(2, 4);
      c.channels = c.groups * sizes[pick(0, 11)];
      c.out = c.groups * sizes[pick(0, 11)];
      break;
    default: c.groups = 1, c.channels = channels(), c.out = channels();
  }
  const int64_t kernels[] = {1, 1, 1, 3, 3, 3, 5, 7};
  c.kernel = {kernels[pick(0, 7)], kernels[pick(0, 7)]};
  if (pick(0, 2) > 0) c.kernel[1] = c.kernel[0];
  c.strides = {pick(1, 2), pick(1, 2)};
  c.dilations = {pick(0, 3) == 0 ? 2 : 1, pick(0, 3) == 0 ? 2 : 1};
  for (int side = 0; side < 2; ++side) {
    for (size_t k = 0; k < 2; ++k) c.pads.push_back(pick(0, c.kernel[k] / 2));
  }
  const auto extent = [&](size_t k) { return (c.kernel[k] - 1) * c.dilations[k] + 1; };
  c.height = std::max<int64_t>(1, extent(0) - c.pads[0] - c.pads[2]) + (pick(0, 3) == 0 ? 0 : pick(0, 12));
  c.width = std::max<int64_t>(1, extent(1) - c.pads[1] - c.pads[3]) + (pick(0, 3) == 0 ? 0 : pick(0, 12));
  c.residual = static_cast<int>(pick(0, 2));
  c.norm = pick(0, 2) == 0;
  c.activation = pick(0, 1) == 0;
  return c;
}

std::string List(const std::vector<int64_t>& list) { return absl::StrCat("[", absl::StrJoin(list, ","), "]"); }

// The image comes from a convolution every other time, so that its layout is not the graph input's.
std::string TextOf(const ConvCase& c, bool inner) {
  const auto out = [&](size_t k) {
    const int64_t size = k == 0 ? c.height : c.width;
    return (size + c.pads[k] + c.pads[2 + k] - (c.kernel[k] - 1) * c.dilations[k] - 1) / c.strides[k] + 1;
  };
  const std::string dst = absl::StrCat("f32[", c.batch, ",", c.out, ",", out(0), ",", out(1), "]");
  std::string text = absl::StrCat("input x: f32[", c.batch, ",", c.channels, ",", c.height, ",", c.width, "]\n");
  if (c.residual > 0) absl::StrAppend(&text, "input r: ", dst, "\n");
  absl::StrAppend(&text, "state w: f32[", c.out, ",", c.channels / c.groups, ",", c.kernel[0], ",", c.kernel[1], "]\n");
  if (inner) absl::StrAppend(&text, "state v: f32[", c.channels, ",", c.channels, ",1,1]\n");
  for (const char* name : {"s", "b", "m", "q"}) {
    if (c.norm) absl::StrAppend(&text, "state ", name, ": f32[", c.out, "]\n");
  }
  if (inner) absl::StrAppend(&text, "%1 = conv2d(x, v)\n");
  absl::StrAppend(&text, "%2 = conv2d(", inner ? "%1" : "x", ", w, strides=", List(c.strides), ", pads=", List(c.pads),
                  ", dilations=", List(c.dilations), ", groups=", c.groups, ")\n");
  std::string last = "%2";
  if (c.norm) absl::StrAppend(&text, "%3 = batch_norm(", std::exchange(last, "%3"), ", s, b, m, q)\n");
  if (c.residual == 2) absl::StrAppend(&text, "%4 = exp(r)\n");
  if (c.residual > 0) {
    absl::StrAppend(&text, "%5 = add(", std::exchange(last, "%5"), ", ", c.residual == 2 ? "%4" : "r", ")\n");
  }
  if (c.activation) absl::StrAppend(&text, "%6 = sigmoid(", std::exchange(last, "%6"), ")\n");
  return absl::StrCat(text, "output y = ", last, "\n");
}

TEST(CpuConvolutions, OfAnyShapeAgreeWithTheInterpreter) {
  const auto device = MakeDevice("cpu", {2});
  ASSERT_TRUE(device.ok()) << device.status();
  Rng rng(1);
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const std::string text = TextOf(RandomCase(rng), seed % 2 == 1);
    SCOPED_TRACE(absl::StrCat("seed ", seed, "\n", text));
    ExpectAgrees(**device, GraphWithWeights(text, 0.1, 1, seed), -1, 1, seed);
    if (HasFailure()) return;
  }
}

// With channels last wherever there is such a kernel, whatever lies in blocks around it.
TEST(CpuConvolutions, WithChannelsLastAgreeWithTheInterpreter) {
  const auto context = Context();
  Rng rng(2);
  int found = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::string text = TextOf(RandomCase(rng), seed % 2 == 1);
    SCOPED_TRACE(absl::StrCat("seed ", seed, "\n", text));
    const Graph graph = GraphWithWeights(text, 0.1, 1, seed);
    cpu::LoweringOptions options;
    options.law_of = [&](const cpu::FusedGroup& group) -> std::string {
      if (group.kind != cpu::FusedGroup::Kind::kConv) return "";
      cpu::ConvProblem problem = cpu::ConvProblemOf(graph, group);
      problem.channels_last = true;
      if (problem.groups > 1 || !cpu::MakeConv(context, problem).ok()) return "";
      ++found;
      return cpu::kChannelsLastWay;
    };
    absl::StatusOr<Schedule> schedule = cpu::Lowering(context, graph, options).Run();
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    ExpectAgrees(*std::move(schedule), graph, -1, 1, seed);
    if (HasFailure()) return;
  }
  EXPECT_GT(found, 100);
}

// A recurrent cell's products read the same weights at every step.
TEST(CpuLayouts, WeightsArePackedOnceForAllReaders) {
  const absl::StatusOr<Graph> graph = BuildZooModel("nasrnn", {.layers = 3, .width = 64});
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto device = MakeDevice("cpu", {1});
  ASSERT_TRUE(device.ok()) << device.status();
  const auto executable = MakeGraphRunner(**device)->Prepare(*graph);
  ASSERT_TRUE(executable.ok()) << executable.status();
  const size_t weights = (16 * 64 * 64 + 8 * 64) * sizeof(float);
  EXPECT_LE((*executable)->constant_bytes(), weights + 4096);
  ExpectAgrees(**device, *graph, -1, 1, 2);
}

// Costs are measured with operands in these layouts: they are where the schedule puts them.
TEST(CpuLayouts, OfModelsWithoutImagesAreAsSaid) {
  const std::pair<const char*, ZooOptions> models[] = {
      {"bert_base", {.sequence_length = 12, .layers = 2}},
      {"bert_base", {.batch = 2, .sequence_length = 5, .layers = 1, .attention_mask = true}},
      {"gpt2_small", {.sequence_length = 7, .layers = 1}},
      {"taso_bert", {.layers = 2}},
      {"taso_nasrnn", {.layers = 2}},
      {"nasrnn", {.layers = 2}},
      {"mlp", {}},
      {"random_layered", {.layers = 40}}};
  for (const auto& [name, options] : models) {
    SCOPED_TRACE(name);
    const absl::StatusOr<Graph> graph = BuildZooModel(name, options);
    ASSERT_TRUE(graph.ok()) << graph.status();
    ExpectLoweredAsSaid(*graph);
  }
}

TEST(CpuLayouts, OfRandomGraphsAreAsSaid) {
  int other = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const int nodes = static_cast<int>(4 + seed % 17);
    const Graph graph = seed % 2 == 0 ? RandomImageGraph(seed, nodes) : RandomMatrixGraph(seed, nodes);
    SCOPED_TRACE(absl::StrCat("seed ", seed, "\n", PrintGraph(graph)));
    other += ExpectLoweredAsSaid(graph);
    if (HasFailure()) return;
  }
  EXPECT_GT(other, 500);
}

TEST(CpuLayouts, AreBlockedBehindConvolutionsAndPools) {
  const auto context = Context();
  cpu::CpuLayouts layouts(context);
  const Graph graph = GraphWithWeights(R"(
input x: f32[1,3,20,20]
state u: f32[32,3,3,3]
state v: f32[20,32,1,1]
state g: f32[64,8,3,3]
state e: f32[64,32,1,1]
%1 = conv2d(x, u)
%2 = relu(%1)
%3 = conv2d(%2, v)
%4 = max_pool2d(%3, kernel=[2,2])
%5 = conv2d(%2, e)
%6 = conv2d(%5, g, groups=8)
%7 = avg_pool2d(%6, kernel=[2,2])
%8 = max_pool2d(x, kernel=[2,2])
output a = %4
output b = %7
output c = %8
)",
                                       -1, 1, 1);
  const std::vector<Group> groups = layouts.GroupsOf(graph);
  EXPECT_EQ(groups.size(), 7u);
  for (const Group& group : groups) {
    const Node& node = graph.node(group.nodes[0]);
    // Groups of 8 channels have blocks of 8 everywhere.
    const bool grouped = node.op->name == "conv2d" && Int(node, "groups") > 1;
    const Value output = group.outputs[0];
    EXPECT_EQ(layouts.Of(graph, output), Layout::Blocked(graph.type(output).shape, grouped ? 8 : context->block))
        << node.op->name;
  }
  const auto device = MakeDevice("cpu", {1});
  ASSERT_TRUE(device.ok()) << device.status();
  const absl::StatusOr<Schedule> schedule = (*device)->Compile(graph);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(ExpectMadeForTheProblem(graph, *schedule), 7);
}

// Channels that do not fill their blocks are computed with, joined, padded and cut as they lie.
TEST(CpuLayouts, BlocksThatAreNotFullStay) {
  const auto device = MakeDevice("cpu", {2});
  ASSERT_TRUE(device.ok()) << device.status();
  uint64_t seed = 0;
  for (const int64_t a : {5, 20, 44}) {
    for (const int64_t b : {12, 24, 32, 40}) {
      for (const int64_t batch : {1, 2}) {
        const int64_t all = 2 * a + b;
        const Graph graph = GraphWithWeights(
            absl::Substitute(R"(
input x: f32[$3,16,9,7]
input r: f32[$3,$0,9,7]
state u: f32[$0,16,1,1]
state v: f32[$1,16,3,3]
state w: f32[8,$2,1,1]
state p: f32[8,$0,1,1]
state s: f32[$2]
state t: f32[$2]
state m: f32[$2]
state q: f32[$2]
state c: f32[1]
%1 = conv2d(x, u)
%2 = conv2d(x, v, pads=[1,1,1,1])
%3 = add(%1, r)
%4 = mul(%2, c)
%5 = tanh(%4)
%6 = concat(%1, %5, %3, axis=1)
%7 = batch_norm(%6, s, t, m, q)
%8 = neg(%7)
%9 = pad(%8, before=[0,0,0,1], after=[0,0,1,0])
%10 = slice(%9, starts=[0,0,1,1], stops=[$3,$2,10,8])
%11 = add(%6, %10)
%12 = conv2d(%11, w)
%13 = div(%1, %1)
%14 = conv2d(%13, p)
%15 = conv2d(%8, w)
output y = %12
output z = %14
output o = %15
)",
                             a, b, all, batch),
            0.1, 1, ++seed);
        SCOPED_TRACE(PrintGraph(graph));
        ExpectLoweredAsSaid(graph);
        const absl::StatusOr<Schedule> schedule = (*device)->Compile(graph);
        ASSERT_TRUE(schedule.ok()) << schedule.status();
        const auto converts = [](const Step& step) { return step.label == "reorder"; };
        // x, r, y, z, o, a part, and what goes into a division and comes out: 0 / 0 would fill the block.
        EXPECT_LE(std::count_if(schedule->steps.begin(), schedule->steps.end(), converts), 8);
        ExpectAgrees(**device, graph, -1, 1, seed);
        if (HasFailure()) return;
      }
    }
  }
}

// A product lies as its only reader, a transpose, wants it; with another reader it does not, in the same arena.
TEST(CpuLayouts, OfAProductHangOnItsReaders) {
  const Graph both = GraphWithWeights(R"(
input x: f32[2,5,3,4]
input y: f32[2,5,4,7]
%1 = matmul(x, y)
%2 = transpose(%1, perm=[0,2,1,3])
%3 = softmax(%2)
%4 = softmax(%1)
output a = %3
output b = %4
)",
                                      -1, 1, 1);
  const Graph one(both.arena(), both.inputs(), {both.outputs()[0]});
  const Value product = both.node(both.outputs()[1].value.node).operands[0];
  cpu::CpuLayouts layouts(Context());
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_TRUE(layouts.Of(both, product).IsRowMajor());
    EXPECT_EQ(layouts.Of(one, product).strides, (std::vector<int64_t>{105, 7, 35, 1}));
  }
  EXPECT_GT(ExpectLoweredAsSaid(one), 0);
  ExpectLoweredAsSaid(both);
}

}  // namespace
}  // namespace rewright
