// Damaged and hostile models give an error or a graph, never a crash, for any bytes and numbers. These tests find most
// under the sanitizers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <random>

#include "core/onnx/onnx.h"
#include "tests/core/onnx/model_util.h"
#include "tests/counts.h"

namespace rewright {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A model that exercises most of the reader: weights, shapes that are computed, attributes, several outputs.
TestModel RichModel() {
  return TestModel(13)
      .Input("x", {1, 2, 6, 6})
      .Initializer("w", Iota({4, 2, 3, 3}))
      .Initializer("b", Iota({4}))
      .Ints("rest", {-1})
      .Ints("zero", {0})
      .Node("Conv", {"x", "w", "b"}, {"c"}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}})
      .Node("Relu", {"c"}, {"r"})
      .Node("MaxPool", {"r"}, {"p"}, {{"kernel_shape", std::vector<int64_t>{2, 2}}})
      .Node("Shape", {"p"}, {"s"})
      .Node("Gather", {"s", "zero"}, {"n"})
      .Node("Concat", {"n", "rest"}, {"t"}, {{"axis", int64_t{0}}})
      .Node("Reshape", {"p", "t"}, {"f"})
      .Node("Softmax", {"f"}, {"y"})
      .Node("Split", {"f"}, {"u", "v"}, {{"axis", int64_t{1}}})
      .Output("y")
      .Output("u")
      .Output("v");
}

// Composites that the importer writes out from lists and sizes of the model.
TestModel ComposedModel() {
  TestModel model(23);
  model.Input("x", {1, 2, 4, 4})
      .Initializer("scales", Tensor::FromVector<double>(DType::kFloat32, {4}, {1, 1, 1.5, 2}))
      .Initializer("grid", Iota({1, 3, 3, 2}))
      .Initializer("w", Iota({1, 8, 4}))
      .Initializer("r", Iota({1, 8, 2}))
      .Ints("depth", {3})
      .Ints("tuples", {0, 1})
      .Ints("size", {5, 3})
      .Ints("image", {3, 3})
      .Ints("window", {1, 1})
      .Node("Resize", {"x", "", "scales"}, {"resized"}, {{"mode", "cubic"}})
      .Node("GridSample", {"resized", "grid"}, {"sampled"})
      .Node("LpPool", {"sampled"}, {"pooled"}, {{"kernel_shape", std::vector<int64_t>{1, 1}}})
      .Node("CenterCropPad", {"pooled", "size"}, {"cropped"}, {{"axes", std::vector<int64_t>{2, 3}}})
      .Node("GatherND", {"x", "tuples"}, {"picked"})
      .Node("Attention", {"x", "x", "x"}, {"attended"}, {{"is_causal", int64_t{1}}})
      .Ints("flat", {4, 2, 4})
      .Node("Reshape", {"attended", "flat"}, {"sequence"})
      .Node("LSTM", {"sequence", "w", "r"}, {"states"}, {{"hidden_size", int64_t{2}}})
      .Ints("columns", {1, 2, 9})
      .Node("Reshape", {"sampled", "columns"}, {"laid"})
      .Node("Col2Im", {"laid", "image", "window"}, {"back"})
      .Input("signal", {1, 6, 2})
      .Node("DFT", {"signal"}, {"spectrum"}, {{"onesided", int64_t{1}}})
      .Output("spectrum")
      .Output("cropped")
      .Output("states")
      .Output("back");
  return model;
}

Tensor Numbers(DType dtype, const Shape& shape, int64_t first) {
  Tensor tensor(TensorType{dtype, shape});
  for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.SetInt(i, (first + 5 * i) % 100);
  return tensor;
}

// Quantized operators, also with scales that depend on data, and floats of 16 bits.
TestModel QuantizedModel() {
  TestModel model(21);
  model.Input("x", {1, 2, 6, 6})
      .Initializer("scale", Tensor::FromVector<double>(DType::kFloat32, {}, {0.25}))
      .Initializer("scales", Tensor::FromVector<double>(DType::kFloat32, {4}, {0.5, 0.25, 2, 1}))
      .Initializer("zero", Numbers(DType::kUInt8, {}, 7))
      .Initializer("zeros", Numbers(DType::kInt8, {4}, 0))
      .Initializer("w", Numbers(DType::kInt8, {4, 2, 3, 3}, 3))
      .Initializer("b", Numbers(DType::kInt32, {4}, 1))
      .Initializer("m", Numbers(DType::kUInt8, {6, 3}, 2))
      .Initializer("h", Tensor::FromVector<double>(DType::kFloat16, {3}, {1, 2, 0.5}))
      .Node("QuantizeLinear", {"x", "scale", "zero"}, {"q"})
      .Node("QLinearConv", {"q", "scale", "zero", "w", "scales", "zeros", "scale", "zero", "b"}, {"c"},
            {{"pads", std::vector<int64_t>{1, 1, 1, 1}}})
      .Node("QLinearMatMul", {"c", "scale", "zero", "m", "scale", "zero", "scale", "zero"}, {"p"})
      .Node("DequantizeLinear", {"p", "scale", "zero"}, {"d"})
      .Node("DynamicQuantizeLinear", {"d"}, {"dq", "ds", "dz"})
      .Node("MatMulInteger", {"dq", "m", "dz"}, {"i"}, {})
      .Node("ConvInteger", {"q", "w", "zero"}, {"j"})
      .Node("Cast", {"d"}, {"half"}, {{"to", int64_t{onnx::TensorProto::FLOAT16}}})
      .Node("Mul", {"half", "h"}, {"scaled"})
      .Node("Cast", {"scaled"}, {"brain"}, {{"to", int64_t{onnx::TensorProto::BFLOAT16}}})
      .Output("j")
      .Output("ds")
      .Output("brain");
  // The left operand has three columns, not six.
  model.proto().mutable_graph()->mutable_node(5)->set_input(1, "n");
  model.Initializer("n", Numbers(DType::kUInt8, {3, 5}, 4)).Output("i");
  return model;
}

// Operators that are not supported, with declared results, between others that are.
TestModel OpaqueModel() {
  TestModel model(17);
  model.Input("x", {2, 3})
      .Initializer("w", Iota({3, 4}))
      .Node("MatMul", {"x", "w"}, {"a"})
      .Node("Frob", {"a", "", "w"}, {"t", "u"}, {{"alpha", 0.5}, {"sizes", std::vector<int64_t>{1, 2}}})
      .Node("Relu", {"t"}, {"r"})
      .Node("Frob", {"r", "u"}, {"v"}, {{"name", "other"}})
      .Node("Add", {"v", "r"}, {"y"})
      .Output("y");
  onnx::GraphProto& graph = *model.proto().mutable_graph();
  for (int node : {1, 3}) graph.mutable_node(node)->set_domain("com.acme");
  onnx::OperatorSetIdProto* import = model.proto().add_opset_import();
  import->set_domain("com.acme");
  import->set_version(1);
  model.proto().mutable_opset_import()->SwapElements(0, 1);  // without that one it would be a model still
  for (const char* name : {"t", "u", "v"}) {
    onnx::ValueInfoProto* info = graph.add_value_info();
    *info = graph.input(0);
    info->set_name(name);
    info->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(1)->set_dim_value(4);
  }
  return model;
}

TestModel TheModel(int i) {
  return i == 0 ? RichModel() : i == 1 ? ComposedModel() : i == 2 ? QuantizedModel() : OpaqueModel();
}
const ImportOptions kKeeping = {.keep_source = true, .keep_unknown = true};

// Measures the processor time since its construction, and the peak memory of the process since then.
class Meter {
 public:
  Meter() {
    std::ofstream("/proc/self/clear_refs") << 5;  // the peak begins anew
    bytes_ = PeakBytes();
  }
  double seconds() const { return Seconds() - seconds_; }
  int64_t bytes() const { return PeakBytes() - bytes_; }

 private:
  static double Seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }
  static int64_t PeakBytes() {
    std::ifstream status("/proc/self/status");
    std::string line;
    int64_t kilobytes = -1;
    while (std::getline(status, line) && kilobytes < 0) std::sscanf(line.c_str(), "VmHWM: %" SCNd64, &kilobytes);
    EXPECT_GE(kilobytes, 0);
    return 1024 * kilobytes;
  }

  const double seconds_ = Seconds();
  int64_t bytes_ = 0;
};

// Reads one file of some kilobytes; fails if that takes more than 10 s or 1 GB.
absl::StatusOr<ImportedModel> ReadWithinBounds(const std::string& bytes) {
  const Meter meter;
  auto model = ImportOnnxBytes(bytes, "f", "", kKeeping);
  EXPECT_LT(meter.seconds(), 10) << "to read" << testing::PrintToString(bytes);
  EXPECT_LT(meter.bytes(), int64_t{1} << 30) << "to read" << testing::PrintToString(bytes);
  return model;
}

// Reads the same bytes from several places.
absl::Status ReadInPieces(absl::string_view bytes, std::mt19937& random) {
  absl::Cord pieces;
  while (!bytes.empty()) {
    const absl::string_view piece = bytes.substr(0, 1 + random() % 2000);
    pieces.Append(absl::MakeCordFromExternal(piece, [] {}));
    bytes.remove_prefix(piece.size());
  }
  return ImportSerialized(pieces, "f", kKeeping).status();
}

class DamageTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Models, DamageTest, testing::Values(0, 1, 2, 3));

TEST(ImportDamageTest, TheMeterSeesTimeAndMemory) {
  constexpr size_t kBytes = size_t{256} << 20;
  const Meter meter;
  for (unsigned round = 0; meter.seconds() < 0.05; ++round) {
    const std::vector<char> memory(round == 0 ? kBytes : 1, 'x');
    ASSERT_EQ(memory.back(), 'x');
  }
  EXPECT_GT(meter.bytes(), static_cast<int64_t>(kBytes) * 3 / 4);
  EXPECT_LT(Meter().bytes(), static_cast<int64_t>(kBytes) / 2);  // a new meter ignores earlier memory
}

TEST(ImportDamageTest, TheQuantizedAndTheOpaqueModelAreRead) {
  EXPECT_EQ(QuantizedModel().Error(), "");
  EXPECT_EQ(OpaqueModel().Error(kKeeping), "");
  EXPECT_NE(OpaqueModel().Error(), "");
}

TEST(ImportDamageTest, TheComposedModelIsRead) { EXPECT_EQ(ComposedModel().Error(), ""); }

TEST(ImportDamageTest, TheRichModelRuns) {
  const auto imported = RichModel().Import();
  ASSERT_TRUE(imported.ok()) << imported.status();
  const std::vector<Tensor> outputs = OutputsOf(imported->graph, {{"x", Iota({1, 2, 6, 6})}});
  EXPECT_EQ(outputs[0].shape(), (Shape{1, 100}));
  EXPECT_EQ(outputs[1].shape(), (Shape{1, 50}));
}

TEST(ImportDamageTest, OtherFilesAreNoModels) {
  const auto error = [](const std::string& bytes) {
    return std::string(ImportOnnxBytes(bytes, "f", "").status().message());
  };
  EXPECT_EQ(error(""), "f: holds no graph with outputs; not an ONNX model?");
  EXPECT_EQ(error("this is a text file\n"), "f: not an ONNX model, or damaged");
  EXPECT_EQ(std::string(ImportOnnx("/nonexistent/model.onnx").status().message()),
            "/nonexistent/model.onnx: cannot open: No such file or directory");
  EXPECT_EQ(std::string(ImportOnnx("/dev/zero").status().message()), "/dev/zero: not a regular file");
}

TEST_P(DamageTest, TruncatedModelsAreErrors) {
  const std::string bytes = TheModel(GetParam()).Bytes();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(ImportOnnxBytes(bytes.substr(0, size), "f", "", kKeeping).ok())
        << size << " of " << bytes.size() << " bytes";
  }
}

// Any bytes give an error or a graph, never a crash.
TEST_P(DamageTest, DamagedModelsDoNoHarm) {
  const std::string bytes = TheModel(GetParam()).Bytes();
  std::mt19937 random(1);
  int imported = 0;
  for (int round = 0; round < Cases(20000); ++round) {
    std::string damaged = bytes;
    const int changes = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < changes; ++i) {
      const size_t at = random() % damaged.size();
      if (random() % 8 == 0) {
        damaged.erase(at, 1 + random() % 8);
      } else {
        damaged[at] = static_cast<char>(random());
      }
    }
    const auto model = ReadWithinBounds(damaged);
    if (!model.ok()) {
      EXPECT_THAT(std::string(model.status().message()), AllOf(StartsWith("f: "), Not(HasSubstr("internal error"))));
    }
    imported += model.ok();
    if (round % 8 == 0) {
      EXPECT_EQ(ReadInPieces(damaged, random).message(), model.status().message());
    }
  }
  // Most damage is noticed, except damage to weights and names.
  EXPECT_GT(imported, 0);
  EXPECT_LT(imported, Cases(20000) / 4);
}

// Replaces numbers of the model by extreme ones, in fields that parse.
TEST_P(DamageTest, ExtremeNumbersDoNoHarm) {
  const int64_t extremes[] = {INT64_MIN,        INT64_MIN + 1,    -(int64_t{1} << 33), -2,       -1, 0, 1, 3, 7,
                              int64_t{1} << 20, int64_t{1} << 31, int64_t{1} << 40,    INT64_MAX};
  std::mt19937 random(2);
  const auto extreme = [&] { return extremes[random() % std::size(extremes)]; };
  for (int round = 0; round < 1000; ++round) {
    TestModel model = TheModel(GetParam());
    onnx::GraphProto& graph = *model.proto().mutable_graph();
    for (int changes = 1 + static_cast<int>(random() % 2); changes > 0; --changes) {
      switch (random() % 4) {
        case 0: {
          auto* shape = graph.mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
          shape->mutable_dim(static_cast<int>(random() % static_cast<unsigned>(shape->dim_size())))
              ->set_dim_value(extreme());
          break;
        }
        case 1: {
          onnx::TensorProto* tensor =
              graph.mutable_initializer(static_cast<int>(random() % static_cast<unsigned>(graph.initializer_size())));
          if (tensor->dims_size() == 0) break;
          tensor->set_dims(static_cast<int>(random() % static_cast<unsigned>(tensor->dims_size())), extreme());
          break;
        }
        case 2: {
          // Changes one of a list of integers.
          onnx::TensorProto* tensor =
              graph.mutable_initializer(static_cast<int>(random() % static_cast<unsigned>(graph.initializer_size())));
          const int64_t value = extreme();
          std::string& data = *tensor->mutable_raw_data();
          if (tensor->data_type() != onnx::TensorProto::INT64 || data.empty()) break;
          std::memcpy(data.data() + random() % (data.size() / sizeof value) * sizeof value, &value, sizeof value);
          break;
        }
        default: {
          onnx::NodeProto* node =
              graph.mutable_node(static_cast<int>(random() % static_cast<unsigned>(graph.node_size())));
          for (onnx::AttributeProto& attribute : *node->mutable_attribute()) {
            if (attribute.has_i()) attribute.set_i(extreme());
            if (attribute.ints_size() > 0) {
              attribute.set_ints(static_cast<int>(random() % static_cast<unsigned>(attribute.ints_size())), extreme());
            }
          }
        }
      }
    }
    (void)ReadWithinBounds(model.Bytes());
  }
}

TEST(ImportDamageTest, EveryOperatorRefusesStrangeOperands) {
  // Nodes without attributes, on operands of unusual ranks and types, give an error or a value, never a crash.
  const std::vector<TensorType> types = {{DType::kFloat32, {}},
                                         {DType::kFloat32, {0}},
                                         {DType::kInt64, {2}},
                                         {DType::kBool, {1, 3}},
                                         {DType::kFloat32, {2, 3}},
                                         {DType::kInt32, {1, 0, 2}},
                                         {DType::kFloat32, {1, 2, 3, 4}},
                                         {DType::kFloat64, {1, 1, 1, 1, 2}}};
  std::mt19937 random(3);
  for (const OnnxOperatorVersions& op : OnnxOperators()) {
    for (int round = 0; round < 60; ++round) {
      TestModel model(std::max<int64_t>(op.first_opset, 7 + static_cast<int64_t>(random() % 22)));
      std::vector<std::string> inputs;
      const int count = static_cast<int>(random() % 6);
      for (int i = 0; i < count; ++i) {
        const TensorType& type = types[random() % types.size()];
        const std::string name = "x" + std::to_string(i);
        if (random() % 3 == 0) {
          Tensor tensor(type);
          for (int64_t k = 0; k < tensor.num_elements(); ++k) tensor.SetInt(k, static_cast<int64_t>(random() % 7) - 3);
          model.Initializer(name, tensor);
        } else {
          model.Input(name, type.shape, type.dtype);
        }
        inputs.push_back(name);
      }
      TestAttrs attrs;
      if (random() % 2 == 0) attrs["axis"] = static_cast<int64_t>(random() % 9) - 4;
      if (random() % 4 == 0) attrs["axes"] = std::vector<int64_t>{static_cast<int64_t>(random() % 5) - 2};
      if (random() % 4 == 0) attrs["kernel_shape"] = std::vector<int64_t>{1, 2};
      if (random() % 4 == 0) attrs["to"] = static_cast<int64_t>(random() % 12);
      if (random() % 4 == 0) attrs["blocksize"] = static_cast<int64_t>(random() % 4);
      if (random() % 4 == 0) attrs["num_groups"] = static_cast<int64_t>(random() % 4);
      model.Node(op.name, inputs, {"y", "z"}, attrs).Output("y");
      (void)model.Import();
    }
  }
}

}  // namespace
}  // namespace rewright
