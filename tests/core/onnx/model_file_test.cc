// Tests writing the input back: its bytes, the data beside it, and errors.
#include "core/onnx/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/core/onnx/model_util.h"

namespace rewright {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ModelFileTest : public ::testing::Test {
 protected:
  // Writes y = x + w in a folder `in`, with each w in a file of these names; no w if there are none.
  void WriteModel(const std::vector<std::string>& names) {
    fs::create_directories(folder_ / "in/sub");
    fs::create_directories(folder_ / "out");
    TestModel model = TestModel().Input("x", {2});
    std::string before = "x";
    for (size_t i = 0; i < names.size(); ++i) {
      const std::string w = "w" + std::to_string(i), after = i + 1 == names.size() ? "y" : "s" + std::to_string(i);
      model.Initializer(w, Iota({2})).Node("Add", {before, w}, {after});
      onnx::TensorProto* tensor = model.proto().mutable_graph()->mutable_initializer(static_cast<int>(i));
      tensor->clear_raw_data();
      tensor->set_data_location(onnx::TensorProto::EXTERNAL);
      onnx::StringStringEntryProto* entry = tensor->add_external_data();
      entry->set_key("location");
      entry->set_value(names[i]);
      WriteContents(folder_ / ("in/" + names[i]), std::string("data") + static_cast<char>('0' + i) + "...");
      before = after;
    }
    if (names.empty()) model.Node("Relu", {"x"}, {"y"});
    model.Output("y");
    WriteContents(folder_ / "in/m.onnx", model.Bytes());
  }
  ModelFile Open() const {
    auto file = ModelFile::Open(In("in/m.onnx"));
    EXPECT_TRUE(file.ok()) << file.status();
    auto model = ImportOnnx(In("in/m.onnx"));
    EXPECT_TRUE(model.ok()) << model.status();
    file->set_external_files(model->external_files);
    return *std::move(file);
  }
  std::string In(const std::string& name) const { return folder_ / name; }
  // Returns the error before and while copying; empty if the copy was made and can be read.
  std::string Copy(const std::string& to) const {
    const ModelFile file = Open();
    const absl::Status asked = file.CheckCopy(In(to));
    const absl::Status copied = file.CopyTo(In(to));
    EXPECT_EQ(asked, copied);
    if (!copied.ok()) return std::string(copied.message());
    EXPECT_EQ(FileContents(folder_ / to), FileContents(folder_ / "in/m.onnx"));
    const auto again = ImportOnnx(In(to));
    EXPECT_TRUE(again.ok()) << again.status();
    return "";
  }

  TemporaryFolder folder_;
};

TEST_F(ModelFileTest, KnowsFilesThatWereWrittenTo) {
  WriteModel({"w.bin", "v.bin"});
  const ModelFile file = Open();
  // A later file of that name does not change the one that was read.
  WriteContents(In("in/new"), "others..");
  fs::rename(In("in/new"), In("in/w.bin"));
  EXPECT_TRUE(file.CheckUnchanged().ok());
  WriteContents(In("in/v.bin"), "others, and more");
  EXPECT_THAT(std::string(file.CheckUnchanged().message()), HasSubstr("v.bin: has changed since it was read"));
}

TEST_F(ModelFileTest, ACopyHasTheBytes) {
  WriteModel({});
  // A field that no version of the format knows, and that no export would write.
  WriteContents(folder_ / "in/m.onnx", FileContents(folder_ / "in/m.onnx") + std::string("\xfa\x3f\x03"
                                                                                         "abc"));
  EXPECT_EQ(Copy("out/m.onnx"), "");
  EXPECT_EQ(*Open().Bytes(), FileContents(folder_ / "in/m.onnx"));
}

TEST_F(ModelFileTest, DataGoesAlong) {
  WriteModel({"w.bin", "sub/v.bin", "w.bin"});
  EXPECT_THAT(ImportOnnx(In("in/m.onnx"))->external_files, ElementsAre("sub/v.bin", "w.bin"));
  EXPECT_EQ(Copy("out/other.onnx"), "");
  EXPECT_EQ(FileContents(folder_ / "out/w.bin"), FileContents(folder_ / "in/w.bin"));
  EXPECT_EQ(FileContents(folder_ / "out/sub/v.bin"), FileContents(folder_ / "in/sub/v.bin"));
  // A second copy finds the same files.
  EXPECT_EQ(Copy("out/other.onnx"), "");
  // A copy in the model's folder has nothing to copy.
  EXPECT_EQ(Copy("in/other.onnx"), "");
}

TEST_F(ModelFileTest, OtherDataIsNotOverwritten) {
  WriteModel({"w.bin"});
  WriteContents(folder_ / "out/w.bin", "data1...");
  EXPECT_THAT(Copy("out/m.onnx"), AllOf(HasSubstr(In("out/m.onnx") + ": the model's data lies in w.bin"),
                                        HasSubstr(In("out/w.bin") + " is there and holds something else")));
  EXPECT_EQ(FileContents(folder_ / "out/w.bin"), "data1...");
  fs::remove(In("out/w.bin"));
  fs::create_directory(In("out/w.bin"));
  EXPECT_THAT(Copy("out/m.onnx"), HasSubstr("not a regular file"));
  fs::remove(In("out/w.bin"));
  fs::create_symlink("nowhere", In("out/w.bin"));
  EXPECT_THAT(Copy("out/m.onnx"), HasSubstr("No such file"));
  EXPECT_FALSE(fs::exists(In("out/m.onnx")));
}

TEST_F(ModelFileTest, DataStaysInTheFolder) {
  WriteModel({"sub/v.bin"});
  fs::create_directory(In("elsewhere"));
  fs::create_directory_symlink("../elsewhere", In("out/sub"));
  EXPECT_THAT(Copy("out/m.onnx"), HasSubstr("leads out of the folder"));
  EXPECT_TRUE(fs::is_empty(In("elsewhere")));
}

TEST_F(ModelFileTest, TheModelDoesNotTakeTheNameOfItsData) {
  WriteModel({"w.bin"});
  EXPECT_THAT(Copy("out/w.bin"), HasSubstr("the model would take its name"));
  EXPECT_THAT(Copy("in/w.bin"), HasSubstr("the model would take its name"));
  fs::create_symlink("../in/w.bin", In("out/link.onnx"));
  EXPECT_NE(Copy("out/link.onnx"), "");
  EXPECT_EQ(FileContents(folder_ / "in/w.bin"), "data0...");
}

TEST_F(ModelFileTest, ALinkToAnotherFolderIsNoPlaceForAModelWithData) {
  WriteModel({"w.bin"});
  fs::create_symlink("../in/new.onnx", In("out/link.onnx"));
  EXPECT_THAT(Copy("out/link.onnx"), HasSubstr("in another folder"));
  fs::create_symlink("new.onnx", In("out/near.onnx"));
  EXPECT_EQ(Copy("out/near.onnx"), "");
  EXPECT_TRUE(fs::is_symlink(In("out/near.onnx")));
}

TEST_F(ModelFileTest, ItselfIsNotTouched) {
  WriteModel({"w.bin"});
  fs::create_hard_link(In("in/m.onnx"), In("in/hard.onnx"));
  fs::create_symlink("m.onnx", In("in/soft.onnx"));
  const auto before = fs::last_write_time(In("in/m.onnx"));
  for (const char* name : {"in/m.onnx", "in/hard.onnx", "in/soft.onnx"}) EXPECT_EQ(Copy(name), "") << name;
  EXPECT_TRUE(fs::equivalent(In("in/m.onnx"), In("in/hard.onnx")));
  EXPECT_TRUE(fs::is_symlink(In("in/soft.onnx")));
  EXPECT_EQ(fs::last_write_time(In("in/m.onnx")), before);
}

TEST_F(ModelFileTest, AChangedModelIsNotWrittenBack) {
  WriteModel({});
  const ModelFile file = Open();
  WriteContents(folder_ / "in/m.onnx", FileContents(folder_ / "in/m.onnx") + "more");
  EXPECT_THAT(std::string(file.CopyTo(In("out/m.onnx")).message()), HasSubstr("has changed since it was read"));
  EXPECT_THAT(std::string(file.Bytes().status().message()), HasSubstr("has changed since it was read"));
  EXPECT_FALSE(fs::exists(In("out/m.onnx")));
}

TEST_F(ModelFileTest, AModelThatIsReplacedIsStillTheOneThatWasRead) {
  WriteModel({});
  const std::string bytes = FileContents(folder_ / "in/m.onnx");
  const ModelFile file = Open();
  WriteContents(folder_ / "in/new", "another");
  fs::rename(In("in/new"), In("in/m.onnx"));
  EXPECT_TRUE(file.CopyTo(In("out/m.onnx")).ok());
  EXPECT_EQ(FileContents(folder_ / "out/m.onnx"), bytes);
}

TEST_F(ModelFileTest, BytesAloneCannotCarryData) {
  WriteModel({"w.bin"});
  EXPECT_THAT(std::string(Open().Bytes().status().message()), HasSubstr("its data lies in w.bin beside it"));
}

TEST_F(ModelFileTest, KnowsItsFiles) {
  WriteModel({"w.bin"});
  fs::create_symlink("in", In("alias"));
  const ModelFile file = Open();
  EXPECT_TRUE(file.Holds(In("alias/m.onnx")));
  EXPECT_TRUE(file.Holds(In("in/w.bin")));
  EXPECT_FALSE(file.Holds(In("in/new")));
}

TEST_F(ModelFileTest, NothingStaysOfACopyThatFails) {
  WriteModel({"w.bin"});
  const ModelFile file = Open();
  EXPECT_FALSE(file.CopyTo(In("out/absent/m.onnx")).ok());
  EXPECT_TRUE(fs::is_empty(In("out")));
}

TEST_F(ModelFileTest, ThatIsBytesIsWrittenAsItIs) {
  const ModelFile model = ModelFile::OfBytes("model");
  EXPECT_EQ(model.path(), "");
  EXPECT_EQ(model.TotalBytes(), 5);
  EXPECT_TRUE(model.Equals(absl::Cord("model")));
  EXPECT_FALSE(model.Equals(absl::Cord("other")));
  EXPECT_EQ(*model.Bytes(), "model");
  ASSERT_TRUE(model.CopyTo(In("copy.onnx")).ok());
  EXPECT_EQ(FileContents(In("copy.onnx")), "model");
  EXPECT_FALSE(model.Holds(In("copy.onnx")));
}

}  // namespace
}  // namespace rewright
