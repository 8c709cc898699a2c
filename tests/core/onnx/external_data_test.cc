// Tests weights in files next to the model: reading, and errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>

#include "core/base/files.h"
#include "tests/core/onnx/model_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

// y = x + w with w in a file.
class ExternalDataTest : public ::testing::Test {
 protected:
  ExternalDataTest() {
    std::filesystem::create_directory(folder_ / "model");
    std::string bytes(64, '\0');
    const float values[] = {5, 7};
    std::memcpy(bytes.data() + 16, values, sizeof values);
    WriteContents(folder_ / "model/w.bin", bytes);
    WriteContents(folder_ / "secret.bin", bytes);
  }

  // Returns the error of importing with these entries; empty if there is none.
  std::string Error(const std::map<std::string, std::string>& entries) {
    TestModel model =
        TestModel().Input("x", {2}).Initializer("w", Iota({2})).Node("Add", {"x", "w"}, {"y"}).Output("y");
    onnx::TensorProto* w = model.proto().mutable_graph()->mutable_initializer(0);
    w->clear_raw_data();
    w->set_data_location(onnx::TensorProto::EXTERNAL);
    for (const auto& [key, value] : entries) {
      onnx::StringStringEntryProto* entry = w->add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
    WriteContents(folder_ / "model/m.onnx", model.Bytes());
    auto imported = ImportOnnx(folder_ / "model/m.onnx");
    if (!imported.ok()) {
      const std::string message(imported.status().message());
      const std::string prefix = (folder_ / "model/m.onnx") + ": initializer \"w\": ";
      EXPECT_THAT(message, ::testing::StartsWith(prefix));
      return message.substr(std::min(prefix.size(), message.size()));
    }
    imported_ = *std::move(imported);
    return "";
  }

  TemporaryFolder folder_;
  ImportedModel imported_;
};

TEST_F(ExternalDataTest, IsReadAtItsOffset) {
  ASSERT_EQ(Error({{"location", "w.bin"}, {"offset", "16"}, {"length", "8"}, {"checksum", "ignored"}}), "");
  const Tensor y = OutputsOf(imported_.graph, {{"x", Iota({2})}})[0];
  EXPECT_EQ(y.At(0), 5);
  EXPECT_EQ(y.At(1), 8);
}

// y = ((x + small) * many) * unaligned, with weights in a file: one of many elements at a multiple of 64 bytes, and one
// elsewhere.
class MappedWeights : public ::testing::Test {
 protected:
  MappedWeights() {
    TestModel model = TestModel().Input("x", kMany);
    int64_t offset = 64;
    std::string bytes, before = "x";
    for (const auto& [name, shape] :
         std::vector<std::pair<std::string, Shape>>{{"small", {256}}, {"many", kMany}, {"unaligned", kMany}}) {
      if (name == "unaligned") offset += 4;
      const Tensor values = Iota(shape);
      model.Initializer(name, Iota({1})).Node(name == "small" ? "Add" : "Mul", {before, name}, {"after " + name});
      onnx::TensorProto& proto = *model.proto().mutable_graph()->mutable_initializer()->rbegin();
      proto.clear_raw_data();
      proto.clear_dims();
      for (int64_t size : shape) proto.add_dims(size);
      proto.set_data_location(onnx::TensorProto::EXTERNAL);
      for (const auto& [key, value] :
           {std::pair<std::string, std::string>("location", "m.onnx.data"), {"offset", std::to_string(offset)}}) {
        onnx::StringStringEntryProto* entry = proto.add_external_data();
        entry->set_key(key);
        entry->set_value(value);
      }
      bytes.resize(static_cast<size_t>(offset));
      bytes.append(static_cast<const char*>(values.data()), static_cast<size_t>(values.num_bytes()));
      offset += values.num_bytes();
      before = "after " + name;
    }
    model.Output(before);
    WriteContents(folder_ / "m.onnx", model.Bytes());
    WriteContents(folder_ / "m.onnx.data", bytes);
  }

  // Returns the names of the weights that are mapped.
  static std::vector<std::string> Mapped(const Graph& graph) {
    std::vector<std::string> names;
    for (NodeId id : graph.nodes()) {
      const Tensor* weight = graph.arena()->Elements(id);
      if (weight != nullptr && IsMapped(weight->data())) names.push_back(graph.node(id).name);
    }
    return names;
  }
  ImportedModel Import(bool map) {
    auto model = OnnxModel::Open(folder_ / "m.onnx", map);
    EXPECT_TRUE(model.ok()) << model.status();
    auto imported = model->Import({.keep_source = true});
    EXPECT_TRUE(imported.ok()) << imported.status();
    return *std::move(imported);
  }

  const Shape kMany = {1024, 256};
  TemporaryFolder folder_;
};

TEST_F(MappedWeights, StayInTheFileWhereThatIsAskedFor) {
  const ImportedModel mapped = Import(true), copied = Import(false);
  EXPECT_THAT(Mapped(mapped.graph), ::testing::ElementsAre("many"));
  EXPECT_THAT(Mapped(copied.graph), ::testing::IsEmpty());
  const std::map<std::string, Tensor> inputs = {{"x", Iota(kMany)}};
  EXPECT_TRUE(OutputsOf(mapped.graph, inputs)[0].BitEqual(OutputsOf(copied.graph, inputs)[0]));
}

// The export replaces the model that it was made from, and its data.
TEST_F(MappedWeights, AreWrittenOverTheirFiles) {
  const std::map<std::string, Tensor> inputs = {{"x", Iota(kMany)}};
  for (const int64_t inside : {int64_t{1000}, int64_t{1} << 30}) {
    const ImportedModel model = Import(true);
    const Tensor before = OutputsOf(model.graph, inputs)[0];
    ASSERT_FALSE(Mapped(model.graph).empty());
    const absl::Status written = ExportOnnx(model.graph, model.metadata, folder_ / "m.onnx",
                                            {.max_inline_bytes = inside, .source = model.source});
    ASSERT_TRUE(written.ok()) << written;
    EXPECT_TRUE(OutputsOf(Import(true).graph, inputs)[0].BitEqual(before));
    EXPECT_TRUE(OutputsOf(model.graph, inputs)[0].BitEqual(before));
  }
}

TEST_F(MappedWeights, OfFilesThatChangedAreNotWritten) {
  const ImportedModel model = Import(true);
  for (const int64_t inside : {int64_t{1000}, int64_t{1} << 30}) {
    ExportOptions options{.max_inline_bytes = inside};
    options.check = [] { return absl::FailedPreconditionError("changed"); };
    EXPECT_EQ(ExportOnnx(model.graph, model.metadata, folder_ / "out.onnx", options).message(), "changed");
  }
  EXPECT_THAT(folder_.Files(), ::testing::ElementsAre("m.onnx", "m.onnx.data"));
}

TEST_F(ExternalDataTest, LengthMayBeLeftAway) { EXPECT_EQ(Error({{"location", "./w.bin"}, {"offset", "56"}}), ""); }

TEST_F(ExternalDataTest, MustLieInTheFile) {
  EXPECT_EQ(Error({{"location", "w.bin"}, {"offset", "57"}}),
            "external data: 8 bytes at offset 57 do not lie in \"w.bin\", which has 64 bytes");
  EXPECT_THAT(Error({{"location", "w.bin"}, {"offset", "9223372036854775807"}}), HasSubstr("do not lie in"));
  EXPECT_EQ(Error({{"location", "w.bin"}, {"offset", "-1"}}), "external data: offset is \"-1\"; expected a number");
  EXPECT_EQ(Error({{"location", "w.bin"}, {"offset", "99999999999999999999"}}),
            "external data: offset is \"99999999999999999999\"; expected a number");
  EXPECT_EQ(Error({{"location", "w.bin"}, {"length", "12"}}), "external data: length 12; f32[2] has 8 bytes");
}

TEST_F(ExternalDataTest, MustLieInTheFolder) {
  EXPECT_EQ(Error({{"location", "../secret.bin"}}),
            "external data: path \"../secret.bin\": leads out of the model's folder");
  EXPECT_EQ(Error({{"location", "sub/../../secret.bin"}}),
            "external data: path \"sub/../../secret.bin\": leads out of the model's folder");
  EXPECT_EQ(Error({{"location", folder_ / "secret.bin"}}), "external data: path \"" + (folder_ / "secret.bin") +
                                                               "\": is absolute; expected one relative to the model");
  EXPECT_EQ(Error({{"location", ""}}), "external data: no location is given");
  EXPECT_EQ(Error({}), "external data: no location is given");
  EXPECT_THAT(Error({{"location", std::string("w.bin\0x", 7)}}), HasSubstr("holds a zero byte"));
}

TEST_F(ExternalDataTest, LinksMustNotLeadOut) {
  std::filesystem::create_symlink("../secret.bin", folder_ / "model/link.bin");
  EXPECT_EQ(Error({{"location", "link.bin"}}),
            "external data: path \"link.bin\": is a link that leads out of the model's folder");
  std::filesystem::create_directory_symlink("..", folder_ / "model/up");
  EXPECT_EQ(Error({{"location", "up/secret.bin"}}),
            "external data: path \"up/secret.bin\": is a link that leads out of the model's folder");
  std::filesystem::create_symlink("w.bin", folder_ / "model/inside.bin");
  EXPECT_EQ(Error({{"location", "inside.bin"}}), "");
}

TEST_F(ExternalDataTest, MustBeARegularFile) {
  ASSERT_EQ(mkfifo((folder_ / "model/pipe").c_str(), 0600), 0);
  EXPECT_EQ(Error({{"location", "pipe"}}), (folder_ / "model/pipe") + ": not a regular file");
  EXPECT_THAT(Error({{"location", "."}}), HasSubstr("not a regular file"));
  EXPECT_THAT(Error({{"location", "missing.bin"}}), HasSubstr("No such file or directory"));
}

TEST(ExternalDataBytesTest, IsRefusedWithoutAFolder) {
  TestModel model = TestModel().Initializer("w", Iota({2})).Output("w");
  model.proto().mutable_graph()->mutable_initializer(0)->set_data_location(onnx::TensorProto::EXTERNAL);
  EXPECT_EQ(model.Error(), "test.onnx: initializer \"w\": external data is not read here");
}

}  // namespace
}  // namespace rewright
