#include "runtime/data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "runtime/data/prefetch.h"
#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

std::string Npy(const std::string& descr, const std::string& shape, const std::string& data) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string file("\x93NUMPY\x01\0", 8);
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  return file + header + data;
}

class DatasetTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const Tensor& tensor) {
    EXPECT_TRUE(SaveNpy(folder_ / name, tensor).ok());
    return folder_ / name;
  }
  std::string Error(std::vector<Column> columns) {
    return std::string(Dataset::Open(std::move(columns)).status().message());
  }

  TemporaryFolder folder_;
};

TEST_F(DatasetTest, ConvertsWhatItGathers) {
  WriteContents(folder_ / "x.npy", Npy("|u1", "(3, 2)", std::string("\x00\x10\xff\x01\x02\x03", 6)));
  const std::string y = Write("y.npy", Tensor::FromVector(DType::kInt32, {3}, std::vector<int>{7, -8, 9}));
  const std::string z = Write("z.npy", Tensor::FromVector(DType::kFloat64, {3, 1}, std::vector<double>{0.5, 1.5, 2}));
  const std::string b = Write("b.npy", Tensor::FromVector(DType::kBool, {3}, std::vector<int>{1, 0, 1}));
  const auto dataset = Dataset::Open({{folder_ / "x.npy", {DType::kFloat32, {2, 2}}, 0.0625},
                                      {y, {DType::kInt64, {2}}},
                                      {z, {DType::kFloat32, {2, 1}}},
                                      {b, {DType::kBool, {2}}}});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->size(), 3);
  const auto batch = dataset->Gather({1, 0});
  ASSERT_TRUE(batch.ok());
  EXPECT_TRUE(
      (*batch)[0].BitEqual(Tensor::FromVector(DType::kFloat32, {2, 2}, std::vector<double>{15.9375, 0.0625, 0, 1})));
  EXPECT_TRUE((*batch)[1].BitEqual(Tensor::Int64s({-8, 7})));
  EXPECT_TRUE((*batch)[2].BitEqual(Tensor::FromVector(DType::kFloat32, {2, 1}, std::vector<double>{1.5, 0.5})));
  EXPECT_TRUE((*batch)[3].BitEqual(Tensor::FromVector(DType::kBool, {2}, std::vector<int>{0, 1})));
  EXPECT_NE(dataset->Sha256Of(2), dataset->Sha256Of(3)) << "the sample in the middle is one of three";
  EXPECT_EQ(dataset->Sha256Of(3), dataset->Sha256Of(100));
  // Another file is written, since the first one is mapped, and the system decides whether a mapping shows later
  // writes.
  WriteContents(folder_ / "other.npy", Npy("|u1", "(3, 2)", std::string("\x00\x10\xff\x01\x02\x04", 6)));
  const auto other = Dataset::Open({{folder_ / "other.npy", {DType::kFloat32, {2, 2}}, 0.0625},
                                    {y, {DType::kInt64, {2}}},
                                    {z, {DType::kFloat32, {2, 1}}},
                                    {b, {DType::kBool, {2}}}});
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_NE(other->Sha256Of(2), dataset->Sha256Of(2)) << "the last sample differs";
  const auto rest = dataset->Gather({2});
  EXPECT_TRUE((*rest)[1].BitEqual(Tensor::Int64s({9, 0}))) << "what is missing is zero";
}

TEST_F(DatasetTest, SaysWhatIsWrong) {
  const std::string x = Write("x.npy", Tensor({DType::kFloat32, {4, 2}}));
  const TensorType pairs = {DType::kFloat32, {2, 2}};
  EXPECT_THAT(Error({{folder_ / "none.npy", pairs}}), HasSubstr("none.npy: cannot open"));
  EXPECT_EQ(Error({{x, {DType::kFloat32, {2, 3}}}}),
            x + ": found an array [4,2], expected samples along its first axis, each of shape [3]");
  EXPECT_EQ(Error({{x, {DType::kInt64, {2, 2}}}}), x + ": found elements <f4, expected some that become i64");
  const std::string scalar = Write("s.npy", Tensor::Scalar(DType::kFloat32, 1));
  EXPECT_THAT(Error({{scalar, {DType::kFloat32, {2}}}}), HasSubstr("found an array []"));
  const std::string empty = Write("e.npy", Tensor({DType::kFloat32, {0, 2}}));
  EXPECT_EQ(Error({{empty, pairs}}), empty + ": found no samples, expected some");
  const std::string y = Write("y.npy", Tensor::Int64s({0, 1, 10}));
  EXPECT_EQ(Error({{x, pairs}, {y, {DType::kInt64, {2}}}}), y + ": found 3 samples, expected 4 as in " + x);
  EXPECT_EQ(Error({{y, {DType::kInt64, {2}}, 1, 10}}), y + ": element 2: found 10, expected 0 to 9");
  EXPECT_EQ(Error({{y, {DType::kInt64, {2}}, 0.5}}), y + ": found a scale, expected none for i64 elements");
  const std::string large = Write("l.npy", Tensor::Int64s({1, int64_t{1} << 40}));
  EXPECT_THAT(Error({{large, {DType::kInt32, {2}}}}), HasSubstr("element 1: found 1099511627776"));
  WriteContents(folder_ / "c.npy", Npy("<f4", "(4, 2)", std::string(31, '\0')));
  EXPECT_THAT(Error({{folder_ / "c.npy", pairs}}), HasSubstr("31 bytes of data; f32[4,2] has 32"));
  WriteContents(folder_ / "c.npy", Npy("<f4", "(4611686018427387904, 4)", ""));
  EXPECT_THAT(Error({{folder_ / "c.npy", {DType::kFloat32, {2, 4}}}}), HasSubstr("c.npy: "));
  WriteContents(folder_ / "c.npy", "text");
  EXPECT_THAT(Error({{folder_ / "c.npy", pairs}}), HasSubstr("c.npy: not a .npy file"));
}

TEST_F(DatasetTest, SamplesOfTokensAreWindows) {
  WriteContents(folder_ / "a.txt", "abcdefgh");
  const auto windows = [](int64_t stride, int64_t shift) { return TokenWindows{stride, shift}; };
  const TensorType threes = {DType::kInt64, {2, 3}};
  const auto dataset = Dataset::Open(
      {{folder_ / "a.txt", threes, 1, 0, windows(2, 0)}, {folder_ / "a.txt", threes, 1, 128, windows(2, 1)}});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->size(), 3) << "abc, cde, efg; and behind each one letter more";
  const auto batch = dataset->Gather({2, 0});
  ASSERT_TRUE(batch.ok());
  const auto letters = [](const std::string& text) {
    return Tensor::FromVector(DType::kInt64, {2, 3}, std::vector<int>(text.begin(), text.end()));
  };
  EXPECT_TRUE((*batch)[0].BitEqual(letters("efgabc")));
  EXPECT_TRUE((*batch)[1].BitEqual(letters("fghbcd")));

  const std::string tokens = Write("tokens.npy", Tensor::Int64s({7, 500, 9, 11, 2}));
  const auto apart = Dataset::Open({{tokens, {DType::kInt32, {1, 2}}, 1, 0, windows(0, 1)}});
  ASSERT_TRUE(apart.ok()) << apart.status();
  EXPECT_EQ(apart->size(), 2);
  EXPECT_TRUE((*apart->Gather({1}))[0].BitEqual(Tensor::FromVector(DType::kInt32, {1, 2}, std::vector<int>{11, 2})));

  EXPECT_EQ(Error({{tokens, {DType::kInt32, {1, 5}}, 1, 0, windows(0, 0)}}),
            tokens + ": found 5 tokens, expected more than the 5 of a sample");
  EXPECT_EQ(Error({{tokens, {DType::kInt32, {1, 2}}, 1, 100, windows(0, 0)}}),
            tokens + ": element 1: found 500, expected 0 to 99");
  EXPECT_EQ(Error({{tokens, {DType::kInt32, {1, 2, 2}}, 1, 0, windows(0, 0)}}),
            tokens + ": found tokens [5] for samples [2,2], expected one axis of both");
}

// A file of any bytes opens or is refused with a message that names it.
TEST_F(DatasetTest, DamagedFilesAreRefusedOrRead) {
  const std::string good = Npy("<f4", "(4, 2)", std::string(32, '\x3f'));
  std::mt19937_64 rng(1);
  const int count = std::getenv("REWRIGHT_FULL") != nullptr ? 20'000 : 2'000;
  int opened = 0;
  for (int i = 0; i < count; ++i) {
    std::string bytes = good;
    for (uint64_t k = rng() % 4; k < 4; ++k)
      bytes[rng() % 90] = static_cast<char>(rng() % 2 ? rng() : "0123456789<f48"[rng() % 14]);
    if (rng() % 4 == 0) bytes.resize(rng() % (bytes.size() + 1));
    WriteContents(folder_ / "c.npy", bytes);
    const auto dataset = Dataset::Open({{folder_ / "c.npy", {DType::kFloat32, {2, 2}}}});
    if (dataset.ok()) {
      ++opened;
      EXPECT_TRUE(dataset->Gather({dataset->size() - 1}).ok());
    } else {
      EXPECT_THAT(std::string(dataset.status().message()), HasSubstr("c.npy: "));
    }
  }
  EXPECT_GT(opened, 0);
  EXPECT_LT(opened, count / 2);
}

TEST(BatchOrderTest, AnEpochTakesEverySampleAtMostOnce) {
  const BatchOrder order(23, 5, 7);
  EXPECT_EQ(order.batches_per_epoch(), 4);
  std::vector<std::vector<int64_t>> epochs;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < 4; ++i) {
      const std::vector<int64_t> batch = order.Rows(4 * epoch + i);
      EXPECT_EQ(batch.size(), 5u);
      rows.insert(rows.end(), batch.begin(), batch.end());
    }
    epochs.push_back(rows);
    std::sort(rows.begin(), rows.end());
    EXPECT_EQ(std::unique(rows.begin(), rows.end()), rows.end());
    EXPECT_TRUE(rows.front() >= 0 && rows.back() < 23);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[0], epochs[2]);
  EXPECT_EQ(order.Rows(6), BatchOrder(23, 5, 7).Rows(6));
  EXPECT_NE(order.Rows(6), BatchOrder(23, 5, 8).Rows(6));
  const std::vector<int64_t> rows = order.Rows(6);
  EXPECT_EQ(order.Rows(6, 1, 3), (std::vector<int64_t>{rows[1], rows[2], rows[3]}));
}

TEST(BatchOrderTest, InOrderEverySampleIsTakenOnce) {
  EXPECT_EQ(RowsInOrder(5, 3, 0), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(RowsInOrder(5, 3, 1), (std::vector<int64_t>{3, 4}));
}

TEST(PrefetcherTest, GivesBatchesInOrderWhateverTheThreads) {
  for (int threads : {0, 1, 2, 5}) {
    Prefetcher prefetcher(
        [](int64_t number) -> absl::StatusOr<std::vector<Tensor>> {
          if (number % 3 == 0) std::this_thread::yield();
          if (number == 40) throw std::runtime_error("number 40");
          return std::vector<Tensor>{Tensor::Int64s({number})};
        },
        7, threads);
    for (int64_t number = 7; number < 60; ++number) {
      const auto batch = prefetcher.Next();
      if (number == 40) {
        EXPECT_EQ(batch.status().message(), "number 40");
        continue;
      }
      ASSERT_TRUE(batch.ok()) << batch.status();
      EXPECT_EQ((*batch)[0].AtInt(0), number) << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace rewright
