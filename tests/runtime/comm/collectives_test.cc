// Tests collectives against the definitions of their placements.
#include "runtime/comm/collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/ir/random_tensors.h"
#include "runtime/comm/in_process.h"

namespace rewright {
namespace {

// Runs work on every rank; fails the test if a rank fails.
std::vector<int64_t> SentOnRanks(int size, const std::function<absl::Status(Communicator&)>& work) {
  std::vector<int64_t> sent(static_cast<size_t>(size));
  for (const absl::Status& status : OnRanks(size, [&](Communicator& ranks) {
         const absl::Status done = work(ranks);
         sent[static_cast<size_t>(ranks.rank())] = ranks.bytes_sent();
         return done;
       })) {
    EXPECT_TRUE(status.ok()) << status;
  }
  return sent;
}

Tensor Block(const Tensor& whole, int axis, int64_t degree, int64_t number) {
  Tensor block(BlockType(whole.type(), axis, degree));
  CopyBlock(whole, axis, number, &block);
  return block;
}

// Row-major position in a shape.
int64_t At(const Shape& shape, const Shape& position) {
  int64_t at = 0;
  for (size_t k = 0; k < shape.size(); ++k) at = at * shape[k] + position[k];
  return at;
}

TEST(CollectivesTest, BlocksAreCutGatheredAndExchanged) {
  Rng rng(5);
  for (const DType dtype : kAllDTypes) {
    for (int size : {1, 2, 3}) {
      const Tensor whole = RandomTensor({dtype, {6, 12, 6}}, rng, 0, 100);
      for (int axis = 0; axis < 3; ++axis) {
        for (int other = 0; other < 3; ++other) {
          const std::vector<int64_t> sent = SentOnRanks(size, [&](Communicator& ranks) {
            const Tensor block = Block(whole, axis, size, ranks.rank());
            Tensor gathered(whole.type());
            const absl::Status done = AllGather(ranks, "gather", block, axis, &gathered);
            EXPECT_TRUE(gathered.BitEqual(whole)) << axis;
            if (!done.ok() || other == axis) return done;
            const Tensor expected = Block(whole, other, size, ranks.rank());
            Tensor found(expected.type());
            const absl::Status moved = AllToAll(ranks, "move", block, axis, other, &found);
            EXPECT_TRUE(found.BitEqual(expected)) << axis << " to " << other;
            return moved;
          });
          // Each rank sends (N - 1) / N of the whole, and of a part.
          const int64_t block = whole.num_bytes() / size;
          const int64_t expected = (size - 1) * block + (other == axis ? 0 : (size - 1) * block / size);
          EXPECT_THAT(sent, testing::Each(expected));
        }
      }
    }
  }
}

// Cuts parts along axes that the number of ranks divides, and stretches of tensors without such an axis.
TEST(CollectivesTest, SeveralTensorsAreGatheredAtOnce) {
  Rng rng(11);
  for (int size : {1, 2, 3, 4}) {
    const Tensor a = RandomTensor({DType::kFloat32, {5, 12}}, rng, -1, 1);
    const Tensor b = RandomTensor({DType::kFloat64, {3, 5}}, rng, -1, 1),
                 c = RandomTensor({DType::kFloat32, {2}}, rng, -1, 1);
    SentOnRanks(size, [&](Communicator& ranks) {
      std::vector<GatheredTensor> joined;
      for (const auto& [tensor, axis] : {std::pair(a, 1), std::pair(b, -1), std::pair(c, -1)}) {
        GatheredTensor one{Tensor(ShardType(tensor.type(), axis, ranks.rank(), size)), axis, Tensor(tensor.type())};
        if (axis >= 0) {
          CopyBlock(tensor, axis, ranks.rank(), &one.part);
        } else {
          const int64_t first = tensor.num_elements() * ranks.rank() / size;
          for (int64_t i = 0; i < one.part.num_elements(); ++i) one.part.Set(i, tensor.At(first + i));
        }
        joined.push_back(std::move(one));
      }
      const absl::Status done = AllGather(ranks, "gather", joined);
      EXPECT_TRUE(joined[0].whole.BitEqual(a) && joined[1].whole.BitEqual(b) && joined[2].whole.BitEqual(c)) << size;
      return done;
    });
  }
}

TEST(CollectivesTest, LeavesOfSeveralRanksAreAddedInTheOrderOfTheTree) {
  Rng rng(13);
  constexpr int kLeaves = 7;
  std::vector<Tensor> leaves, odd;  // rank r gives leaf i * size + r in turn i
  for (int i = 0; i < kLeaves; ++i) {
    leaves.push_back(RandomTensor({DType::kFloat32, {3, 12}}, rng, -1, 1));
    odd.push_back(RandomTensor({DType::kFloat32, {5}}, rng, -1, 1));
  }
  const auto clone = [](const Tensor& tensor) {
    Tensor copy(tensor.type());
    std::memcpy(copy.data(), tensor.data(), static_cast<size_t>(tensor.num_bytes()));
    return copy;
  };
  TreeSum whole, whole_odd;
  for (int i = 0; i < kLeaves; ++i) {
    whole.Add(clone(leaves[static_cast<size_t>(i)]));
    whole_odd.Add(clone(odd[static_cast<size_t>(i)]));
  }
  const Tensor expected = whole.Take(), expected_odd = whole_odd.Take();
  for (int size : {1, 2, 3, 4}) {
    const std::vector<int64_t> sent = SentOnRanks(size, [&](Communicator& ranks) {
      TreeSum sum, sum_odd;
      for (int first = 0; first < kLeaves; first += size) {
        const int givers = std::min(size, kLeaves - first), own = first + ranks.rank();
        std::vector<Tensor> leaf;
        if (own < kLeaves) leaf = {leaves[static_cast<size_t>(own)], odd[static_cast<size_t>(own)]};
        const absl::Status done = ReduceScatterLeaves(
            ranks, "leaves", givers, {{leaves[0].type(), 1, &sum}, {odd[0].type(), -1, &sum_odd}}, leaf);
        if (!done.ok()) return done;
      }
      EXPECT_TRUE(sum.Take().BitEqual(Block(expected, 1, size, ranks.rank()))) << size;
      const Tensor part = sum_odd.Take();
      const int64_t first = 5 * ranks.rank() / size;
      for (int64_t i = 0; i < part.num_elements(); ++i) EXPECT_EQ(part.At(i), expected_odd.At(first + i)) << size;
      return absl::OkStatus();
    });
    // Each rank sends all parts of a leaf but its own.
    const int64_t own = (kLeaves - 1) / size + 1, bytes = own * (leaves[0].num_bytes() * (size - 1) / size);
    EXPECT_LE(sent.front(), bytes + own * odd[0].num_bytes());
    EXPECT_GE(sent.front(), bytes);
  }
}

TEST(CollectivesTest, BlocksAreThoseOfTheWholeByDefinition) {
  Rng rng(7);
  const Tensor whole = RandomTensor({DType::kFloat32, {4, 6, 2}}, rng, -1, 1);
  const Tensor block = Block(whole, 1, 3, 2);
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = 0; j < 2; ++j) {
      for (int64_t k = 0; k < 2; ++k) {
        EXPECT_EQ(block.At(At({4, 2, 2}, {i, j, k})), whole.At(At({4, 6, 2}, {i, 4 + j, k})));
      }
    }
  }
}

TEST(CollectivesTest, ReductionsGiveTheSameBitsHoweverTheyAreCut) {
  Rng rng(9);
  for (const DType dtype : kAllDTypes) {
    for (const Reduction reduction :
         {Reduction::kSum, Reduction::kProd, Reduction::kMax, Reduction::kMin, Reduction::kAnd, Reduction::kOr}) {
      const bool logical = reduction == Reduction::kAnd || reduction == Reduction::kOr;
      if (logical != (dtype == DType::kBool)) continue;
      for (int size : {1, 2, 3, 4}) {
        const TensorType type{dtype, {5, 12}};
        std::vector<Tensor> parts;
        for (int k = 0; k < size; ++k) parts.push_back(RandomTensor(type, rng, -3, 3));
        if (IsFloating(dtype) && size > 1) parts[1].Set(7, std::numeric_limits<double>::quiet_NaN());
        // Adds leaves one after another: up to 3 ranks that is the order of the tree.
        Tensor expected(type);
        for (int64_t i = 0; i < type.num_elements(); ++i) {
          double value = parts[0].At(i);
          for (int k = 1; k < size; ++k) {
            const double term = parts[static_cast<size_t>(k)].At(i);
            switch (reduction) {
              case Reduction::kSum: value = NearestOf(dtype, value + term); break;
              case Reduction::kProd: value = NearestOf(dtype, value * term); break;
              case Reduction::kMax:
                value = std::isnan(value) || std::isnan(term) ? value + term : std::max(value, term);
                break;
              case Reduction::kMin:
                value = std::isnan(value) || std::isnan(term) ? value + term : std::min(value, term);
                break;
              case Reduction::kAnd: value = value != 0 && term != 0; break;
              case Reduction::kOr: value = value != 0 || term != 0; break;
            }
          }
          expected.Set(i, value);
        }
        const double apart = IsFloating(dtype) ? std::max(1e-4, 8 * RoundingOf(dtype)) : 0;  // another order of sums
        const int64_t bytes = type.num_bytes();
        const std::vector<int64_t> sent = SentOnRanks(size, [&](Communicator& ranks) -> absl::Status {
          const Tensor& own = parts[static_cast<size_t>(ranks.rank())];
          Tensor all(type);
          std::copy_n(own.as<char>(), bytes, all.as<char>());
          absl::Status done = AllReduce(ranks, "reduce", LeavesOfRanks(ranks.size(), ranks.size()), &all, reduction);
          if (!done.ok()) return done;
          for (int64_t i = 0; i < type.num_elements(); ++i) {
            if (std::isnan(expected.At(i))) {
              EXPECT_TRUE(std::isnan(all.At(i))) << i;
            } else if (ranks.size() <= 3) {
              EXPECT_EQ(all.At(i), expected.At(i)) << i;
            } else {
              EXPECT_NEAR(all.At(i), expected.At(i), apart * std::max(1.0, std::abs(expected.At(i)))) << i;
            }
          }
          const Tensor wanted = Block(all, 1, ranks.size(), ranks.rank());
          Tensor block(wanted.type());
          done = ReduceScatter(ranks, "scatter", reduction, own, 1, &block);
          EXPECT_EQ(std::memcmp(block.data(), wanted.data(), static_cast<size_t>(block.num_bytes())), 0);
          return done;
        });
        EXPECT_THAT(sent, testing::Each(3 * bytes * (size - 1) / size));
      }
    }
  }
}

TEST(CollectivesTest, HalosAreEdgesOfNeighbours) {
  Rng rng(11);
  const int64_t rows = 2, columns = 3;  // of a block
  for (int size : {1, 2, 3}) {
    const Tensor whole = RandomTensor({DType::kFloat64, {2, rows * size, columns}}, rng, -1, 1);
    for (int64_t before = -1; before <= 5; ++before) {
      for (int64_t after = -before - 1 >= -rows ? -1 : 0; after <= 5; ++after) {
        if (rows + before + after < 1) continue;
        const std::vector<int64_t> sent = SentOnRanks(size, [&](Communicator& ranks) {
          Tensor extended({DType::kFloat64, {2, rows + before + after, columns}});
          for (int64_t i = 0; i < extended.num_elements(); ++i) extended.Set(i, 99);
          const absl::Status done =
              ExchangeHalo(ranks, "halo", Block(whole, 1, size, ranks.rank()), 1, before, &extended);
          for (int64_t n = 0; n < 2; ++n) {
            for (int64_t i = 0; i < rows + before + after; ++i) {
              const int64_t at = ranks.rank() * rows + i - before;
              for (int64_t c = 0; c < columns; ++c) {
                const double expected =
                    at >= 0 && at < rows * size ? whole.At(At({2, rows * size, columns}, {n, at, c})) : 0;
                EXPECT_EQ(extended.At(At({2, rows + before + after, columns}, {n, i, c})), expected) << before << after;
              }
            }
          }
          return done;
        });
        if (size == 2 && before == 1 && after == 1) {
          EXPECT_THAT(sent, testing::Each(2 * columns * 8));
        }
      }
    }
  }
}

TEST(CollectivesTest, GroupsOfRanksAreRanks) {
  const Tensor whole = Tensor::Int64s({10, 20});
  SentOnRanks(4, [&](Communicator& ranks) -> absl::Status {
    // Two groups that cross, with collectives of all ranks in between.
    const int self = ranks.rank();
    const std::unique_ptr<Communicator> group = GroupOf(ranks, {self % 2, self % 2 + 2});
    EXPECT_EQ(group->size(), 2);
    EXPECT_EQ(group->rank(), self / 2);
    for (int round = 0; round < 3; ++round) {
      const Tensor own = Tensor::Int64s({100 * self + round});
      Tensor both(whole.type());
      if (const absl::Status done = AllGather(*group, "gather", own, 0, &both); !done.ok()) return done;
      EXPECT_EQ(both.AtInt(0), 100 * (self % 2) + round);
      EXPECT_EQ(both.AtInt(1), 100 * (self % 2 + 2) + round);
      if (const absl::Status done = ranks.Barrier("all"); !done.ok()) return done;
    }
    EXPECT_EQ(ranks.bytes_sent(), 3 * 8);
    return absl::OkStatus();
  });
}

TEST(CollectivesTest, OwnBlocksAreReducedInPlace) {
  Rng rng(13);
  std::vector<Tensor> parts;
  for (int k = 0; k < 3; ++k) parts.push_back(RandomTensor({DType::kFloat32, {4, 6}}, rng, -1, 1));
  SentOnRanks(3, [&](Communicator& ranks) -> absl::Status {
    const Tensor& own = parts[static_cast<size_t>(ranks.rank())];
    Tensor a(own.type()), b(own.type()), all(own.type());
    for (Tensor* copy : {&a, &b, &all}) std::copy_n(own.as<char>(), own.num_bytes(), copy->as<char>());
    const std::vector<LeafRange> leaves = LeavesOfRanks(3, 3);
    absl::Status done = ReduceScatterInPlace(ranks, "reduce", leaves, {{&a, 1}, {&b, 1}});
    if (done.ok()) done = AllReduce(ranks, "reduce", leaves, &all);
    const Tensor expected = Block(all, 1, 3, ranks.rank());
    EXPECT_TRUE(Block(a, 1, 3, ranks.rank()).BitEqual(expected));
    EXPECT_TRUE(Block(b, 1, 3, ranks.rank()).BitEqual(expected));
    const int other = (ranks.rank() + 1) % 3;
    EXPECT_TRUE(Block(a, 1, 3, other).BitEqual(Block(own, 1, 3, other))) << "what others have is left as it is";
    return done;
  });
}

}  // namespace
}  // namespace rewright
