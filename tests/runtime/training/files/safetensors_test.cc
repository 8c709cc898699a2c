#include "runtime/training/files/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "core/base/sha256.h"
#include "core/ir/random_tensors.h"
#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

std::string File(const std::string& header, const std::string& elements) {
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size() & 0xff);
  file[1] = static_cast<char>(header.size() >> 8);
  return file + header + elements;
}

TEST(SafetensorsTest, WhatIsWrittenIsReadBack) {
  const TemporaryFolder folder;
  Rng rng(1);
  NamedTensors tensors;
  for (DType dtype : kAllDTypes) {
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 3, 4}, Shape{0}, Shape{2, 0, 3}}) {
      tensors[std::string(DTypeName(dtype)) + " \"" + ShapeString(shape)] = RandomTensor({dtype, shape}, rng, -5, 5);
    }
  }
  for (const NamedTensors& one : {tensors, NamedTensors{}}) {
    ASSERT_TRUE(WriteSafetensors(folder / "t", one).ok());
    const auto read = ReadSafetensors(folder / "t");
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_EQ(read->size(), one.size());
    for (const auto& [name, tensor] : one) EXPECT_TRUE(read->at(name).BitEqual(tensor)) << name;
    EXPECT_EQ(SafetensorsSha256(one), Sha256::HexOf(FileContents(folder / "t")));
  }
  EXPECT_EQ(folder.Files(), std::vector<std::string>{"t"});
}

// The bytes of the example in the format's description.
TEST(SafetensorsTest, ReadsTheFormatAsItIsDescribed) {
  const TemporaryFolder folder;
  const std::string header = R"({"b":{"dtype":"I64","shape":[1],"data_offsets":[8,16]},"__metadata__":{"by":"hand"},)"
                             R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const std::string elements("\0\0\x80\x3f\0\0\0\xc0\x05\0\0\0\0\0\0\0", 16);
  WriteContents(folder / "t", File(header, elements));
  const auto read = ReadSafetensors(folder / "t");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->size(), 2u);
  EXPECT_TRUE(read->at("a").BitEqual(Tensor::FromVector(DType::kFloat32, {2}, std::vector<double>{1, -2})));
  EXPECT_TRUE(read->at("b").BitEqual(Tensor::Int64s({5})));
}

TEST(SafetensorsTest, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  const auto error = [&](const std::string& file) {
    WriteContents(folder / "t", file);
    const std::string message(ReadSafetensors(folder / "t").status().message());
    EXPECT_THAT(message, HasSubstr((folder / "t") + ": "));
    return message;
  };
  const auto entry = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"a":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  const std::string eight(8, '\0');
  EXPECT_THAT(error("short"), HasSubstr("has 5 bytes, expected a safetensors file"));
  EXPECT_THAT(error(std::string(8, '\xff')), HasSubstr("a header of 18446744073709551615 bytes in a file of 8"));
  EXPECT_THAT(error(File("[]", "")), HasSubstr("the header is no JSON object"));
  EXPECT_THAT(error(File("{", "")), HasSubstr("the header is no JSON object"));
  EXPECT_THAT(error(File(R"({"a":3})", "")), HasSubstr("tensor a: expected an object"));
  EXPECT_THAT(error(File(entry("\"F8_E4M3\"", "[8]", "[0,8]"), eight)),
              HasSubstr("tensor a: dtype: found \"F8_E4M3\", expected one of F32 F64 I64 I32 BOOL F16 BF16 I8 "));
  EXPECT_THAT(error(File(entry("\"F32\"", "[-2]", "[0,8]"), eight)), HasSubstr("tensor a: shape: expected"));
  EXPECT_THAT(error(File(entry("\"F32\"", "[1099511627776,1099511627776]", "[0,8]"), eight)), HasSubstr("shape: "));
  EXPECT_THAT(error(File(entry("\"F32\"", "[2]", "[8,0]"), eight)), HasSubstr("data_offsets: expected"));
  EXPECT_THAT(error(File(entry("\"F32\"", "[3]", "[0,8]"), eight)),
              HasSubstr("tensor a: found 8 bytes, expected 12 for f32[3]"));
  EXPECT_THAT(error(File(entry("\"F32\"", "[1]", "[4,8]"), eight)),
              HasSubstr("tensor a: begins at byte 4 of the elements, expected 0"));
  EXPECT_THAT(error(File(entry("\"F32\"", "[1]", "[0,4]"), eight)), HasSubstr("found 8 bytes of elements, expected 4"));
  EXPECT_THAT(error(File(entry("\"F32\"", "[3]", "[0,12]"), eight)),
              HasSubstr("found 8 bytes of elements, expected 12"));
  EXPECT_THAT(error(File(entry("\"BOOL\"", "[8]", "[0,8]"), std::string(8, '\2'))), HasSubstr("expected bytes 0 or 1"));
}

TEST(SafetensorsTest, DamagedFilesAreRefusedOrRead) {
  const TemporaryFolder folder;
  Rng rng(5);
  ASSERT_TRUE(WriteSafetensors(folder / "t", {{"w", RandomTensor({DType::kFloat32, {2, 3}}, rng, -1, 1)},
                                              {"v", RandomTensor({DType::kBool, {5}}, rng, -1, 1)}})
                  .ok());
  const std::string good = FileContents(folder / "t");
  const std::string header = good.substr(0, good.size() - 29);
  const int count = std::getenv("REWRIGHT_FULL") != nullptr ? 10'000 : 1'000;
  int read = 0;
  for (int i = 0; i < count; ++i) {
    std::string bytes = good;
    for (uint64_t k = rng() % 4; k < 4; ++k) {
      const char text[] = "0123456789[]{}:,\"-eF";
      bytes[rng() % header.size()] = static_cast<char>(rng() % 3 == 0 ? rng() : text[rng() % (sizeof text - 1)]);
    }
    if (rng() % 4 == 0) bytes.resize(rng() % (bytes.size() + 1));
    WriteContents(folder / "t", bytes);
    const auto tensors = ReadSafetensors(folder / "t");
    if (tensors.ok()) {
      ++read;
    } else {
      EXPECT_THAT(std::string(tensors.status().message()), HasSubstr((folder / "t") + ": "));
    }
  }
  EXPECT_LT(read, count / 2);
}

}  // namespace
}  // namespace rewright
