#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "core/ir/text.h"
#include "core/onnx/onnx.h"
#include "core/onnx/proto.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/counts.h"
#include "tests/tools/library/model_util.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// The message of what `call` throws; "" where it throws nothing.
template <typename F>
std::string ErrorOf(ErrorCode code, const F& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "";
}

Model Small(std::map<std::string, int64_t> dims = {{"n", 2}}) {
  const std::string bytes = SmallModel();
  ModelOptions options;
  options.dims = std::move(dims);
  options.threads = 2;
  return Model::FromBytes(bytes.data(), bytes.size(), options);
}

// Costs are calculated, so that the same rewrites are found on every machine.
OptimizeSettings Calculated() {
  OptimizeSettings settings;
  settings.cost = "analytic:v100";
  return settings;
}

std::vector<float> Relu(const std::vector<float>& x) {
  std::vector<float> y;
  for (float v : x) y.push_back(std::max(v, 0.0f));
  return y;
}

std::vector<float> Values(int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i % 5) - 2);
  return values;
}

std::vector<float> RunSmall(const Model& model, int64_t n) {
  const std::vector<float> x = Values(n * 4);
  const std::vector<OutputArray> outputs = model.Run({InputView::Of("x", {n, 4}, x.data())});
  EXPECT_EQ(outputs.size(), 1u);
  EXPECT_THAT(outputs[0].shape, ElementsAre(n, 4));
  return {outputs[0].data<float>(), outputs[0].data<float>() + outputs[0].size()};
}

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/rewright_library_XXXXXX";
    path_ = mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::string Contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

TEST(Model, TellsWhatItTakesAndGives) {
  const Model model = Small();
  const std::vector<TensorInfo> inputs = model.inputs(), outputs = model.outputs();
  ASSERT_EQ(inputs.size(), 1u);
  EXPECT_EQ(inputs[0].name, "x");
  EXPECT_THAT(inputs[0].shape, ElementsAre(2, 4));
  EXPECT_THAT(inputs[0].dims, ElementsAre("n", ""));
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].name, "y");
  EXPECT_EQ(model.dims().at("n"), 2);
  EXPECT_THAT(model.notes(), IsEmpty());
  EXPECT_THAT(Small({}).notes(), ElementsAre(HasSubstr("dimension n is symbolic and was not given")));
}

TEST(Model, RunsAtEverySizeAndOnTheInterpreter) {
  Model model = Small();
  for (int64_t n : {2, 1, 9, 2}) EXPECT_EQ(RunSmall(model, n), Relu(Values(n * 4))) << n;
  const std::string bytes = SmallModel();
  ModelOptions options;
  options.device = "reference";
  Model reference = Model::FromBytes(bytes.data(), bytes.size(), options);
  EXPECT_EQ(RunSmall(reference, 3), Relu(Values(12)));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidInput, [&] { reference.Optimize(); }), HasSubstr("device reference"));
}

TEST(Model, WritesOutputsWhereTheCallerWantsThem) {
  Model model = Small();
  const std::vector<float> x = Values(12);
  std::vector<float> y(12, -1);
  model.Run({InputView::Of("x", {3, 4}, x.data())}, {OutputView::Of("y", {3, 4}, y.data())});
  EXPECT_EQ(y, Relu(x));
  // In place: the output shares the memory of the input.
  std::vector<float> both = x;
  model.Run({InputView::Of("x", {3, 4}, both.data())}, {OutputView::Of("y", {3, 4}, both.data())});
  EXPECT_EQ(both, Relu(x));
  // Not aligned to its elements.
  std::vector<char> odd(12 * sizeof(float) + 1);
  std::copy_n(reinterpret_cast<const char*>(x.data()), 12 * sizeof(float), odd.data() + 1);
  const InputView view{"x", ElementType::kFloat32, {3, 4}, odd.data() + 1};
  const OutputView place{"y", ElementType::kFloat32, {3, 4}, odd.data() + 1};
  model.Run({view}, {place});
  std::copy_n(odd.data() + 1, 12 * sizeof(float), reinterpret_cast<char*>(y.data()));
  EXPECT_EQ(y, Relu(x));
}

TEST(Model, InputsWithADefaultNeedNotBeGiven) {
  const auto graph = ParseGraph("input x: f32[2]\ninput w: f32[2]\n%0 = add(x, w)\noutput y = %0\n");
  ASSERT_TRUE(graph.ok()) << graph.status();
  ModelMetadata metadata;
  metadata.defaults["w"] = Tensor::FromVector(DType::kFloat32, {2}, std::vector<float>{10, 20});
  const auto bytes = ExportOnnxBytes(*graph, metadata);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  ModelOptions options;
  const Model model = Model::FromBytes(bytes->data(), bytes->size(), options);
  EXPECT_EQ(model.inputs().size(), 2U);
  const std::vector<float> x = {1, 2}, w = {3, 4};
  const InputView given = InputView::Of("x", {2}, x.data());
  const auto numbers = [](const OutputArray& y) {
    return std::vector<float>(y.data<float>(), y.data<float>() + y.size());
  };
  EXPECT_THAT(numbers(model.Run({given}).at(0)), ElementsAre(11, 22));
  EXPECT_THAT(numbers(model.Run({given, InputView::Of("w", {2}, w.data())}).at(0)), ElementsAre(4, 6));
  options.fold_defaults = true;
  const Model folded = Model::FromBytes(bytes->data(), bytes->size(), options);
  EXPECT_EQ(folded.inputs().size(), 1U);
  EXPECT_THAT(numbers(folded.Run({given}).at(0)), ElementsAre(11, 22));
}

TEST(Model, WrongInputsAreErrorsThatSayWhich) {
  Model model = Small();
  const std::vector<float> x = Values(12);
  const std::vector<int64_t> whole(12);
  std::vector<float> y(12);
  const auto error = [&](const std::vector<InputView>& inputs, const std::vector<OutputView>& outputs = {}) {
    return ErrorOf(ErrorCode::kInvalidInput, [&] { model.Run(inputs, outputs); });
  };
  const InputView good = InputView::Of("x", {3, 4}, x.data());
  EXPECT_THAT(error({}), HasSubstr("input x is not given"));
  EXPECT_THAT(error({good, good}), HasSubstr("input x is given twice"));
  EXPECT_THAT(error({InputView::Of("z", {3, 4}, x.data())}), HasSubstr("no input `z`"));
  EXPECT_THAT(error({InputView::Of("x", {3, 4}, whole.data())}), HasSubstr("found i64[3,4], expected f32[2,4]"));
  EXPECT_THAT(error({InputView::Of("x", {12}, x.data())}), HasSubstr("found f32[12]"));
  EXPECT_THAT(error({InputView::Of("x", {4, 3}, x.data())}), HasSubstr("axis 1: found size 3, expected 4"));
  EXPECT_THAT(error({InputView::Of("x", {0, 4}, x.data())}), HasSubstr("dimension n has size 0"));
  EXPECT_THAT(error({InputView::Of("x", {-3, 4}, x.data())}), HasSubstr("x: "));
  EXPECT_THAT(error({InputView{"x", ElementType::kFloat32, {3, 4}, nullptr}}), HasSubstr("input x has no data"));
  EXPECT_THAT(error({good}, {OutputView::Of("z", {3, 4}, y.data())}), HasSubstr("no output `z`"));
  EXPECT_THAT(error({good}, {OutputView::Of("y", {2, 4}, y.data())}), HasSubstr("expected f32[3,4]"));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidInput, [&] { model.Run({good})[0].data<double>(); }),
              HasSubstr("found elements of type f32, asked for f64"));
  EXPECT_EQ(RunSmall(model, 3), Relu(x));  // and the model is as before
}

TEST(Model, WrongFilesAndOptionsAreErrors) {
  const auto load = [](const ModelOptions& options) {
    const std::string bytes = SmallModel();
    return ErrorOf(ErrorCode::kInvalidInput, [&] { Model::FromBytes(bytes.data(), bytes.size(), options); });
  };
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidInput, [] { Model::Load("/nowhere/m.onnx"); }), HasSubstr("/nowhere/m.onnx"));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidInput, [] { Model::FromBytes("junk", 4); }), HasSubstr("not an ONNX model"));
  ModelOptions options;
  options.device = "abacus";
  EXPECT_THAT(load(options), HasSubstr("device abacus: expected"));
  options = {};
  options.dims = {{"m", 3}};
  EXPECT_THAT(load(options), HasSubstr("there is no symbolic dimension m; the inputs have n"));
  Model model = Small();
  OptimizeSettings settings;
  settings.search = "magic";
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidInput, [&] { model.Optimize(settings); }), HasSubstr("found magic"));
}

TEST(Model, OptimizesOnceForAllSizes) {
  Model model = Small();
  const OptimizeSummary summary = model.Optimize(Calculated());
  EXPECT_TRUE(summary.rewritten) << summary.verdict;
  EXPECT_TRUE(summary.checked);
  EXPECT_THAT(summary.rewrites, Not(IsEmpty()));
  for (int64_t n : {2, 1, 9}) {
    EXPECT_EQ(RunSmall(model, n), Relu(Values(n * 4))) << n;
    const SizeSummary size = model.Prepare({InputView{"x", ElementType::kFloat32, {n, 4}, nullptr}});
    EXPECT_EQ(size.dims.at("n"), n);
    EXPECT_EQ(size.operators, 1) << n;
    EXPECT_THAT(size.left_out, IsEmpty()) << n;
  }
}

TEST(Model, StopsWhereItIsAskedTo) {
  Model model = Small();
  std::atomic<bool> stop{true};
  OptimizeSettings settings = Calculated();
  settings.stop = &stop;
  EXPECT_THAT(ErrorOf(ErrorCode::kStopped, [&] { model.Optimize(settings); }), HasSubstr("stopped by the caller"));
  EXPECT_EQ(RunSmall(model, 2), Relu(Values(8)));
  stop = false;
  EXPECT_TRUE(model.Optimize(settings).rewritten);
  stop = true;
  EXPECT_THAT(ErrorOf(ErrorCode::kStopped, [&] { VerifyRules("rule r\n  relu(x[n]) => relu(x)\n", 60, &stop); }),
              HasSubstr("stopped by the caller"));
}

TEST(StopWhen, EndsReadingRunsAndWriting) {
  const Folder folder;
  onnx::ModelProto large;
  ASSERT_TRUE(large.ParseFromString(SmallModel()));
  large.set_doc_string(std::string(size_t{33} << 20, 'x'));  // a file of that size is written in parts
  const std::string bytes = large.SerializeAsString();
  const Model model = Model::FromBytes(bytes.data(), bytes.size());
  model.Save(folder / "model.onnx");
  const std::vector<float> x = Values(4);
  const auto run = [&] { model.Run({InputView::Of("x", {1, 4}, x.data())}); };
  const std::vector<std::pair<std::string, std::function<void()>>> calls = {
      {"load", [&] { Model::Load(folder / "model.onnx"); }},
      {"from bytes", [&] { Model::FromBytes(bytes.data(), bytes.size()); }},
      {"compile", run},
      {"save", [&] { model.Save(folder / "model.onnx"); }},
      {"save elsewhere", [&] { model.Save(folder / "other.onnx"); }},
  };
  const auto all_are_ended = [&] {
    for (const auto& [name, call] : calls) EXPECT_NE(ErrorOf(ErrorCode::kStopped, call), "") << name;
  };
  {
    const StopWhen stopping([] { return true; });
    all_are_ended();
  }
  run();
  {
    const StopWhen stopping([] { return true; });
    all_are_ended();  // the run, compiled now, at its first step
  }
  run();
  EXPECT_EQ(Contents(folder / "model.onnx"), bytes);
  EXPECT_FALSE(std::filesystem::exists(folder / "other.onnx"));
}

TEST(Model, RunsOnSeveralThreadsAtSeveralSizes) {
  const std::string bytes = SmallModel();
  ModelOptions options;
  options.cached_sizes = 2;  // fewer than are asked for: sizes are compiled again while others run
  const Model model = Model::FromBytes(bytes.data(), bytes.size(), options);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 40; ++i) {
        const int64_t n = 1 + (i + t) % 4;
        if (RunSmall(model, n) != Relu(Values(n * 4))) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Model, SavesWhatWasReadOrWhatWasMadeOfIt) {
  const Folder folder;
  const std::string bytes = SmallModel();
  std::ofstream(folder / "in.onnx", std::ios::binary) << bytes;
  ModelOptions options;
  options.dims = {{"n", 5}};
  Model model = Model::Load(folder / "in.onnx", options);
  model.Save(folder / "same.onnx");
  EXPECT_EQ(Contents(folder / "same.onnx"), bytes);
  Small().Save(folder / "bytes.onnx");
  EXPECT_EQ(Contents(folder / "bytes.onnx"), bytes);
  ASSERT_TRUE(model.Optimize(Calculated()).rewritten);
  model.Save(folder / "out.onnx");
  for (int64_t n : {5, 1, 9}) EXPECT_EQ(RunSmall(Model::Load(folder / "out.onnx"), n), Relu(Values(n * 4)));
  model.Save(folder / "in.onnx");  // over what was read: other sizes are run all the same
  EXPECT_EQ(RunSmall(model, 6), Relu(Values(24)));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidInput, [&] { model.Save(folder / "none/out.onnx"); }), HasSubstr("none"));
}

TEST(Model, RulesAreLookedForInTheFolderThatIsSet) {
  const Folder folder;
  SetDataFolder(folder / "");
  Model model = Small();
  const std::string message = ErrorOf(ErrorCode::kInvalidInput, [&] { model.Optimize(Calculated()); });
  SetDataFolder("");
  EXPECT_THAT(message, HasSubstr(folder / ""));
  EXPECT_TRUE(model.Optimize(Calculated()).rewritten);
}

TEST(Model, BertIsOptimizedOnceAndRunsAtAllSizes) {
  const bool full = Cases(2) == 2;
  const std::string bytes = SymbolicBert(full ? 12 : 2);
  ModelOptions options;
  options.dims = {{"batch", 1}, {"sequence", 16}};
  const Model original = Model::FromBytes(bytes.data(), bytes.size(), options);
  Model optimized = Model::FromBytes(bytes.data(), bytes.size(), options);
  const OptimizeSummary summary = optimized.Optimize(Calculated());
  ASSERT_TRUE(summary.rewritten) << summary.verdict;
  const int operators = optimized.Prepare(BertInputs(1, 16).views()).operators;
  std::vector<std::pair<int64_t, int64_t>> sizes = {{1, 16}, {1, 128}, {3, 40}, {8, 64}};
  if (full) sizes.emplace_back(8, 512);
  for (const auto& [batch, sequence] : sizes) {
    const std::string size = std::to_string(batch) + "x" + std::to_string(sequence);
    const BertInputs inputs(batch, sequence);
    const std::vector<OutputArray> outputs = optimized.Run(inputs.views());
    EXPECT_LT(Difference(outputs, original.Run(inputs.views())), 1e-4) << size;
    const SizeSummary summary = optimized.Prepare(inputs.views());
    EXPECT_THAT(summary.left_out, IsEmpty()) << size;
    EXPECT_EQ(summary.operators, operators) << size;
    EXPECT_LT(operators, original.Prepare(inputs.views()).operators) << size;
    // Equality is no accident: another token makes other outputs.
    BertInputs others = inputs;
    others.ids[0] += 1;
    EXPECT_GT(Difference(optimized.Run(others.views()), outputs), 1e-2) << size;
  }
  // The written model keeps both names.
  const Folder folder;
  optimized.Save(folder / "out.onnx");
  const Model written = Model::Load(folder / "out.onnx");
  EXPECT_THAT(written.inputs()[0].dims, ElementsAre("batch", "sequence"));
  for (const auto& [batch, sequence] : sizes) {
    const BertInputs inputs(batch, sequence);
    EXPECT_LT(Difference(written.Run(inputs.views()), optimized.Run(inputs.views())), 1e-5) << batch << "x" << sequence;
  }
}

TEST(VerifyRules, JudgesOneByOne) {
  const std::vector<RuleJudgement> judged = VerifyRules(
      "rule twice\n  relu(relu(x[a..])) => relu(x)\n"
      "rule wrong\n  relu(add(x[n], y[n])) => add(relu(x), relu(y))\n"
      "rule strange\n  frob(x[n]) => x\n");
  ASSERT_EQ(judged.size(), 3u);
  EXPECT_EQ(judged[0].verdict, "proved");
  EXPECT_EQ(judged[0].rule_class, "exact");
  EXPECT_EQ(judged[1].verdict, "refuted");
  EXPECT_THAT(judged[1].explanation, HasSubstr("elements differ n=1"));
  EXPECT_EQ(judged[2].verdict, "error");
  EXPECT_THAT(judged[2].explanation, HasSubstr("text:6:3: found `frob`"));
  EXPECT_THAT(VerifyRules(""), IsEmpty());
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidInput, [] { VerifyRules("nothing"); }), HasSubstr("expected `rule`"));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidSetting, [] { VerifyRules("", 0); }),
              HasSubstr("time_limit_seconds: found 0, expected a number from 0.001 to"));
}

}  // namespace
}  // namespace rewright
