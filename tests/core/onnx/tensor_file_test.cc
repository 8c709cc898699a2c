#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "core/base/files.h"
#include "core/ir/random_tensors.h"
#include "core/onnx/onnx.h"
#include "core/onnx/proto.h"
#include "core/tensor/npy.h"
#include "tests/core/onnx/model_util.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ErrorOf(const std::string& path) { return std::string(LoadTensorFile(path).status().message()); }

absl::Status SaveTensorProto(const std::string& path, const Tensor& tensor) {
  onnx::TensorProto proto;
  FillTensor("t", tensor, &proto);
  return WriteText(path, proto.SerializeAsString());
}

// A .npy file of version 1 with that header and data.
std::string Npy(const std::string& header, const std::string& data, char version = 1) {
  std::string bytes = std::string("\x93NUMPY") + version + '\0';
  bytes += static_cast<char>(header.size());
  bytes += '\0';
  if (version > 1) bytes += std::string(2, '\0');
  return bytes + header + data;
}

TEST(TensorFileTest, WhatIsWrittenIsReadBack) {
  TemporaryFolder folder;
  Rng rng(1);
  for (DType dtype : kAllDTypes) {
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 3, 4}, Shape{0}, Shape{2, 0, 3}}) {
      const Tensor tensor = RandomTensor({dtype, shape}, rng, -5, 5);
      ASSERT_TRUE(SaveNpy(folder / "t.npy", tensor).ok());
      ASSERT_TRUE(SaveTensorProto(folder / "t.pb", tensor).ok());
      for (const char* name : {"t.npy", "t.pb"}) {
        const auto loaded = LoadTensorFile(folder / name);
        ASSERT_TRUE(loaded.ok()) << loaded.status();
        EXPECT_TRUE(loaded->BitEqual(tensor)) << name << " " << tensor.type().ToString();
      }
    }
  }
  EXPECT_THAT(folder.Files(), ElementsAre("t.npy", "t.pb"));
}

TEST(TensorFileTest, NpyDataBeginAtAMultipleOf64) {
  TemporaryFolder folder;
  ASSERT_TRUE(SaveNpy(folder / "t.npy", Iota({3})).ok());
  const std::string bytes = FileContents(folder / "t.npy");
  EXPECT_EQ(bytes.size(), 64u * 2 + 12);
  EXPECT_EQ(bytes[127], '\n');
}

TEST(TensorFileTest, AllNpyVersionsAreRead) {
  TemporaryFolder folder;
  const std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }\n";
  const std::string data("\x01\0\0\0\xff\xff\xff\xff", 8);
  for (char version : {1, 2, 3}) {
    WriteContents(folder / "t.npy", Npy(header, data, version));
    const auto tensor = LoadTensorFile(folder / "t.npy");
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_EQ(tensor->AtInt(0), 1);
    EXPECT_EQ(tensor->AtInt(1), -1);
  }
}

TEST(TensorFileTest, NpyErrorsSayWhatIsWrong) {
  TemporaryFolder folder;
  const auto error = [&](const std::string& bytes) {
    WriteContents(folder / "t.npy", bytes);
    const std::string message = ErrorOf(folder / "t.npy");
    return message.substr(std::min(message.size(), (folder / "t.npy: ").size()));
  };
  const std::string four(4, '\0');
  EXPECT_EQ(error("abc"), "not a .npy file");
  EXPECT_EQ(error(Npy("{}", "", 4)), ".npy version 4");
  EXPECT_EQ(error(Npy("{}", "")), "bad .npy header at byte 2: expected the keys descr, fortran_order and shape");
  EXPECT_EQ(error(Npy("{'descr': '>f4', 'fortran_order': False, 'shape': ()}", four)),
            "element type >f4 is not supported; expected one of <f4 <f8 <i8 <i4 |b1 <f2 |i1 |u1 <i2 <u2 <u4 <u8 <V2");
  EXPECT_EQ(error(Npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2)}", four)),
            "the elements are in column-major (Fortran) order; expected row-major");
  EXPECT_EQ(error(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", four)),
            "4 bytes of data; f32[2] has 8");
  EXPECT_EQ(error(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000000, 1000000)}", four)),
            "shape [1000000,1000000,1000000] is too large");
  EXPECT_EQ(error(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", four)),
            "bad .npy header at byte 51: expected a size");
  EXPECT_EQ(error(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", four)),
            "bad .npy header at byte 51: expected a size");
  EXPECT_EQ(error(Npy("{'descr': '<f4", four)), "bad .npy header at byte 10: a string does not end");
  EXPECT_EQ(error(Npy("{'name': 'x'}", four)), "bad .npy header at byte 8: unknown key name");
  std::string long_header = Npy("{}", "");
  long_header[8] = '\xff';
  EXPECT_EQ(error(long_header), "a .npy header of 255 bytes in a file of 12");
}

TEST(TensorFileTest, OtherErrors) {
  TemporaryFolder folder;
  EXPECT_THAT(ErrorOf(folder / "t.txt"), HasSubstr("expected a file named .npy or .pb"));
  EXPECT_THAT(ErrorOf(folder / "t.npy"), HasSubstr("cannot open: No such file"));
  WriteContents(folder / "t.pb", "\xff\xff");
  EXPECT_EQ(ErrorOf(folder / "t.pb"), (folder / "t.pb") + ": not a TensorProto");
  EXPECT_FALSE(SaveNpy(folder / "no/such/folder/t.npy", Iota({2})).ok());
}

TEST(TensorFileTest, TypedFieldsOfProtosAreRead) {
  TemporaryFolder folder;
  const auto load = [&](const onnx::TensorProto& proto) {
    WriteContents(folder / "t.pb", proto.SerializeAsString());
    return LoadTensorFile(folder / "t.pb");
  };
  onnx::TensorProto proto;
  proto.add_dims(2);
  proto.set_data_type(onnx::TensorProto::BOOL);
  proto.add_int32_data(0);
  proto.add_int32_data(5);
  EXPECT_EQ(load(proto)->AtInt(1), 1);
  proto.set_data_type(onnx::TensorProto::DOUBLE);
  EXPECT_EQ(std::string(load(proto).status().message()),
            (folder / "t.pb") + ": double_data has 0 elements; f64[2] has 2");
  proto.add_double_data(1);
  proto.add_double_data(2.5);
  EXPECT_EQ(load(proto)->At(1), 2.5);
}

TEST(TensorFileTest, DamagedFilesDoNoHarm) {
  TemporaryFolder folder;
  ASSERT_TRUE(SaveNpy(folder / "t.npy", Iota({2, 3})).ok());
  ASSERT_TRUE(SaveTensorProto(folder / "t.pb", Iota({2, 3})).ok());
  std::mt19937 random(1);
  for (const char* name : {"t.npy", "t.pb"}) {
    const std::string bytes = FileContents(folder / name);
    for (int round = 0; round < 500; ++round) {
      std::string damaged = bytes;
      if (round % 4 == 0) damaged.resize(random() % damaged.size());
      if (!damaged.empty()) damaged[random() % damaged.size()] = static_cast<char>(random());
      WriteContents(folder / name, damaged);
      (void)LoadTensorFile(folder / name);
    }
  }
}

}  // namespace
}  // namespace rewright
