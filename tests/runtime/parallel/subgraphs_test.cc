// Tests that subgraphs of a graph share one memory, in which buffers that are in use at the same time do not overlap.
#include "runtime/parallel/subgraphs.h"

#include <gtest/gtest.h>

#include <cstring>

#include "core/tensor/memory.h"
#include "runtime/executor.h"

namespace rewright {
namespace {

// Runs in given memory, or allocates its own.
class FakeSubgraph : public Executable, public ArenaUser {
 public:
  FakeSubgraph(int64_t shared, int64_t own) : shared_(shared), own_(own) {}
  absl::Status Run(const std::vector<Tensor>&, std::vector<Tensor>*) override { return absl::OkStatus(); }
  int64_t arena_bytes() const override { return shared_ + own_; }
  int64_t peak_live_bytes() const override { return arena_bytes(); }
  int64_t shared_bytes() const override { return shared_; }
  void UseArena(std::shared_ptr<void> arena) override { arena_ = std::move(arena); }
  char* begin() const { return static_cast<char*>(arena_.get()); }

 private:
  const int64_t shared_, own_;
  std::shared_ptr<void> arena_;
};

TEST(SharedMemory, HoldsArenasAndWhatIsHandedOn) {
  FakeSubgraph first(4096, 0), second(1024, 0), last(6144, 512), own(0, 100);
  const std::vector<SubgraphRun> runs = {{&first, 0}, {&second, 1}, {nullptr, 1}, {&last, 2}, {&own, 3}};
  const std::vector<TensorType> types(4, {DType::kFloat32, {256}});
  const std::vector<Use> uses = {{0, 2}, {0, 1}, {2, 2}, {0, -1}};
  std::vector<Tensor> tensors(types.size());
  absl::StatusOr<SharedMemory> memory = SharedMemory::Place(types, uses, runs, &tensors);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->shared_bytes(), 6144 + 2 * 1024) << "at time 2: an arena and two tensors";
  EXPECT_EQ(memory->bytes(), memory->shared_bytes() + 512 + 100);
  EXPECT_EQ(own.begin(), nullptr);
  EXPECT_EQ(tensors[3].data(), nullptr);

  struct Span {
    char* begin;
    int64_t bytes;
    Use use;
  };
  for (const bool moved : {false, true}) {
    const std::shared_ptr<void> other =
        *AllocateBytes(static_cast<size_t>(memory->shared_bytes()), DeviceMemory::kAlignment);
    if (moved) memory->MoveTo(other, runs, &tensors);
    std::vector<Span> spans;
    for (size_t k = 0; k < 3; ++k) spans.push_back({static_cast<char*>(tensors[k].data()), 1024, uses[k]});
    for (const auto& [subgraph, time] : {std::pair(&first, 0), std::pair(&second, 1), std::pair(&last, 2)}) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(subgraph->begin()) % DeviceMemory::kAlignment, 0u);
      spans.push_back({subgraph->begin(), subgraph->shared_bytes(), {time, time}});
    }
    for (size_t a = 0; a < spans.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        const bool meet = spans[a].use.first <= spans[b].use.last && spans[b].use.first <= spans[a].use.last;
        const bool overlap =
            spans[a].begin < spans[b].begin + spans[b].bytes && spans[b].begin < spans[a].begin + spans[a].bytes;
        EXPECT_FALSE(meet && overlap) << a << " and " << b;
      }
      const char* const begin = static_cast<const char*>(other.get());
      EXPECT_EQ(moved, spans[a].begin >= begin && spans[a].begin < begin + memory->shared_bytes());
    }
  }
}

}  // namespace
}  // namespace rewright
