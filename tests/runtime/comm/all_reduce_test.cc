// Tests that sums have one order of additions on any number of ranks, and send the bytes of a ring.
#include "runtime/comm/all_reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/ir/random_tensors.h"
#include "runtime/comm/in_process.h"

namespace rewright {
namespace {

// Computes the tree sum by its definition, for one element: leaves [begin, end).
template <typename T>
T SumByDefinition(const std::vector<T>& leaves, size_t begin, size_t end) {
  if (end - begin == 1) return leaves[begin];
  size_t left = 1;
  while (2 * left < end - begin) left *= 2;
  return SumByDefinition(leaves, begin, begin + left) + SumByDefinition(leaves, begin + left, end);
}

template <typename T>
Tensor SumByDefinition(const std::vector<Tensor>& leaves) {
  Tensor sum(leaves[0].type());
  for (int64_t i = 0; i < sum.num_elements(); ++i) {
    std::vector<T> elements;
    for (const Tensor& leaf : leaves) elements.push_back(leaf.as<T>()[i]);
    sum.as<T>()[i] = SumByDefinition(elements, 0, elements.size());
  }
  return sum;
}

// Numbers of very different magnitude, whose sum depends on the order.
std::vector<Tensor> Leaves(const TensorType& type, int64_t count, Rng& rng) {
  std::vector<Tensor> leaves;
  for (int64_t i = 0; i < count; ++i) {
    Tensor leaf = RandomTensor(type, rng, -1, 1);
    for (int64_t k = 0; k < leaf.num_elements(); ++k) leaf.Set(k, std::ldexp(leaf.At(k), static_cast<int>(rng() % 24)));
    leaves.push_back(leaf);
  }
  return leaves;
}

// Copies a tensor with its elements.
Tensor Clone(const Tensor& tensor) {
  Tensor clone(tensor.type());
  for (int64_t i = 0; i < tensor.num_elements(); ++i) clone.Set(i, tensor.At(i));
  return clone;
}

struct Reduced {
  std::vector<Tensor> sums;   // by rank
  std::vector<int64_t> sent;  // likewise
};

Reduced SumOnRanks(const std::vector<Tensor>& leaves, int size) {
  Reduced reduced{std::vector<Tensor>(static_cast<size_t>(size)), std::vector<int64_t>(static_cast<size_t>(size))};
  const std::vector<LeafRange> nodes = LeavesOfRanks(static_cast<int64_t>(leaves.size()), size);
  for (const absl::Status& status : OnRanks(size, [&](Communicator& ranks) {
         const auto rank = static_cast<size_t>(ranks.rank());
         TreeSum sum;
         for (int64_t i = 0; i < nodes[rank].count; ++i) {
           sum.Add(Clone(leaves[static_cast<size_t>(nodes[rank].first + i)]));
         }
         reduced.sums[rank] = sum.Take();
         const absl::Status status = AllReduce(ranks, "sum", nodes, &reduced.sums[rank]);
         reduced.sent[rank] = ranks.bytes_sent();
         return status;
       })) {
    EXPECT_TRUE(status.ok()) << status;
  }
  return reduced;
}

TEST(AllReduceTest, BitsDoNotDependOnTheNumberOfRanks) {
  Rng rng(3);
  int differ_in_order = 0;
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    for (const int64_t elements : {1, 2, 3, 5, 64, 1001}) {
      for (const int64_t count : {1, 2, 3, 4, 5, 7, 8, 12}) {
        const std::vector<Tensor> leaves = Leaves({dtype, {elements}}, count, rng);
        const Tensor expected =
            dtype == DType::kFloat32 ? SumByDefinition<float>(leaves) : SumByDefinition<double>(leaves);
        Tensor one_by_one = Clone(leaves[0]);
        for (int64_t i = 1; i < count; ++i) AddTo(one_by_one, leaves[static_cast<size_t>(i)]);
        differ_in_order += one_by_one.BitEqual(expected) ? 0 : 1;
        for (int size = 1; size <= std::min<int64_t>(count, 5); ++size) {
          const Reduced reduced = SumOnRanks(leaves, size);
          for (const Tensor& sum : reduced.sums) {
            EXPECT_TRUE(sum.BitEqual(expected))
                << count << " leaves of " << expected.type().ToString() << ", " << size << " ranks";
          }
        }
      }
    }
  }
  EXPECT_GT(differ_in_order, 10) << "these numbers show no order";
}

TEST(AllReduceTest, SendsTheBytesOfARing) {
  Rng rng(4);
  for (const int64_t elements : {1200, 1201, 1210, 7}) {
    for (int size = 1; size <= 5; ++size) {
      const std::vector<Tensor> leaves = Leaves({DType::kFloat32, {elements}}, 5, rng);
      const double formula = 2.0 * (size - 1) / size * static_cast<double>(elements) * 4;
      double all = 0;
      for (const int64_t sent : SumOnRanks(leaves, size).sent) {
        EXPECT_NEAR(static_cast<double>(sent), formula, elements % size == 0 ? 0 : 4 * size)
            << elements << ", " << size;
        all += static_cast<double>(sent);
      }
      EXPECT_EQ(all, 2.0 * (size - 1) * static_cast<double>(elements) * 4) << "all of them together";
    }
  }
}

// Stretches are added one after another; the last one is shorter.
TEST(AllReduceTest, LargeTensorsGoInStretches) {
  const int64_t elements = kAllReduceBytes / 8 * 2 + 3;
  std::vector<Tensor> leaves(3, Tensor({DType::kFloat64, {elements}}));
  for (size_t k = 0; k < leaves.size(); ++k) {
    leaves[k] = Tensor({DType::kFloat64, {elements}});
    auto* numbers = leaves[k].as<double>();
    for (int64_t i = 0; i < elements; ++i) numbers[i] = std::sin(static_cast<double>(i)) * (k == 1 ? 1e9 : 1);
  }
  const Tensor expected = SumByDefinition<double>(leaves);
  for (const Tensor& sum : SumOnRanks(leaves, 2).sums) EXPECT_TRUE(sum.BitEqual(expected));
}

TEST(AllReduceTest, EveryRankHasOneNodeOfTheTree) {
  const auto counts = [](int64_t leaves, int ranks) {
    std::vector<int64_t> counts;
    int64_t next = 0;
    for (const LeafRange& node : LeavesOfRanks(leaves, ranks)) {
      EXPECT_EQ(node.first, next);
      next += node.count;
      counts.push_back(node.count);
    }
    EXPECT_EQ(next, leaves);
    return counts;
  };
  using ::testing::ElementsAre;
  EXPECT_THAT(counts(8, 1), ElementsAre(8));
  EXPECT_THAT(counts(8, 2), ElementsAre(4, 4));
  EXPECT_THAT(counts(8, 3), ElementsAre(2, 2, 4));
  EXPECT_THAT(counts(12, 3), ElementsAre(4, 4, 4));
  EXPECT_THAT(counts(6, 3), ElementsAre(2, 2, 2));
  EXPECT_THAT(counts(6, 2), ElementsAre(4, 2));
  EXPECT_THAT(counts(5, 5), ElementsAre(1, 1, 1, 1, 1));
  for (int64_t ranks = 1; ranks <= 9; ++ranks) {
    for (const int64_t each : {1, 2, 4, 8}) {
      EXPECT_THAT(counts(ranks * each, static_cast<int>(ranks)), ::testing::Each(each));
    }
  }
}

}  // namespace
}  // namespace rewright
