// Weights in files next to the model: what is read, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>

#include "model_util.h"

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

  // The error of importing with these entries; empty where there is none.
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
