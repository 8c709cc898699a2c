#include "runtime/offload/two_tier_device.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/stats.h"
#include "core/base/status_macros.h"
#include "core/base/threads.h"
#include "core/ops/ops.h"
#include "core/tensor/memory.h"
#include "runtime/offload/offload.h"

namespace rewright {
namespace {

// Where nothing is measured, as a guess of costs has it (runtime/parallel/layers.cc).
constexpr double kGuessedSecondsPerByte = 1e-10, kGuessedLost = 0.5;

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Multiplies numbers that lie in registers, on `threads` threads; returns the seconds that it takes.
double ComputeFor(int64_t rounds, int threads) {
  const double begin = Now();
  std::vector<float> results(static_cast<size_t>(threads), 0);
  std::atomic<size_t> next = 0;
  OnThreads(threads, [&] {
    const size_t me = next++;
    float lanes[16];
    for (int k = 0; k < 16; ++k) lanes[k] = 1 + static_cast<float>(k + static_cast<int>(me)) / 64;
    for (int64_t i = 0; i < rounds; ++i) {
      for (float& lane : lanes) lane = lane * 0.999f + 0.001f;
    }
    for (float lane : lanes) results[me] += lane;
  });
  return Now() - begin;
}

// Copies beside computation: medians of pairs with and without.
absl::StatusOr<SecondTier> Measure(int threads) {
  constexpr size_t kBytes = size_t{4} << 20;
  constexpr int kPairs = 7;
  TwoTierMemory memory(static_cast<int64_t>(kBytes));
  ASSIGN_OR_RETURN(const std::shared_ptr<void> there, memory.AllocateStored(kBytes));
  ASSIGN_OR_RETURN(const std::shared_ptr<void> here, memory.Allocate(kBytes));
  RETURN_IF_ERROR(memory.CopyIn(there.get(), here.get(), kBytes));
  int64_t rounds = 1 << 16;
  while (ComputeFor(rounds, threads) < 0.01) rounds *= 2;
  std::vector<double> per_byte, lost;
  for (int pair = 0; pair < kPairs; ++pair) {
    const double alone = ComputeFor(rounds, threads);
    std::atomic<bool> ends = false;
    int copies = 0;
    double copied = 0;
    std::thread copier([&] {
      const double begin = Now();
      while (!ends) {
        memory.Start(there.get(), there.get(), here.get(), kBytes);
        if (!memory.WaitFor(there.get()).ok()) return;
        ++copies;
      }
      copied = Now() - begin;
    });
    const double beside = ComputeFor(rounds, threads);
    ends = true;
    copier.join();
    if (copies == 0) continue;
    per_byte.push_back(copied / copies / static_cast<double>(kBytes));
    lost.push_back(std::clamp(1 - alone / beside, 0.0, 1.0));
  }
  SecondTier tier;
  tier.seconds_per_byte = Summarize(per_byte).median;
  tier.lost = Summarize(lost).median;
  return tier;
}

class TwoTierDevice : public Device {
 public:
  TwoTierDevice(std::unique_ptr<Device> device, const TwoTierOptions& options)
      : device_(std::move(device)), options_(options), memory_(options.second_bytes) {}

  std::string name() const override { return device_->name(); }
  std::vector<Group> Partition(const Graph& graph) const override { return device_->Partition(graph); }
  absl::StatusOr<double> Cost(const Graph& graph, const Group& group) override {
    return IsFetch(graph, group) ? 0 : device_->Cost(graph, group);
  }
  absl::StatusOr<std::string> LawOf(const Graph& graph, const Group& group) override {
    return device_->LawOf(graph, group);
  }
  std::vector<std::string> faults() const override { return device_->faults(); }
  uint64_t CostContext(const Graph& graph, const Group& group) override { return device_->CostContext(graph, group); }
  DeviceMemory* memory() override { return &memory_; }

  std::optional<SecondTier> second_tier(bool measured) override {
    SecondTier tier{0, kGuessedSecondsPerByte, kGuessedLost};
    if (measured) {
      if (!measured_) {
        const absl::StatusOr<SecondTier> found = Measure(NumThreads(options_.threads));
        if (found.ok()) measured_ = *found;
      }
      tier = measured_.value_or(tier);
    }
    tier.bytes = options_.second_bytes;
    return tier;
  }

  absl::StatusOr<Schedule> Compile(const Graph& graph) override {
    ASSIGN_OR_RETURN(Schedule schedule, device_->Compile(graph));
    std::vector<int> fetches;
    for (size_t s = 0; s < schedule.steps.size(); ++s) {
      const int group = schedule.steps[s].group;
      if (group >= 0 && IsFetch(graph, schedule.groups[group])) fetches.push_back(static_cast<int>(s));
    }
    int64_t room = options_.first_bytes;
    for (const Buffer& buffer : schedule.buffers) {
      if (buffer.kind == Buffer::Kind::kState && buffer.alias_of < 0) room -= static_cast<int64_t>(buffer.bytes);
    }
    return WithOffloads(std::move(schedule), fetches, std::max<int64_t>(0, room), memory_);
  }

 private:
  static bool IsFetch(const Graph& graph, const Group& group) { return graph.node(group.nodes[0]).op == ops::Fetch(); }

  const std::unique_ptr<Device> device_;
  const TwoTierOptions options_;
  TwoTierMemory memory_;
  std::optional<SecondTier> measured_;
};

}  // namespace

TwoTierMemory::TwoTierMemory(int64_t stored_bytes) : room_(std::make_shared<Room>()) { room_->bytes = stored_bytes; }

absl::StatusOr<std::shared_ptr<void>> TwoTierMemory::AllocateStored(size_t bytes) {
  const auto count = static_cast<int64_t>(bytes);
  const std::shared_ptr<Room> room = room_;
  {
    const std::lock_guard<std::mutex> lock(room->mutex);
    if (count > room->bytes - room->taken) {
      return absl::ResourceExhaustedError(absl::StrCat("second tier: found ", count,
                                                       " bytes to store, expected at most ", room->bytes - room->taken,
                                                       ", which are free of ", room->bytes));
    }
    room->taken += count;
  }
  const auto give_back = [room, count] {
    const std::lock_guard<std::mutex> lock(room->mutex);
    room->taken -= count;
  };
  auto memory = AllocateBytes(bytes, kAlignment);
  if (!memory.ok()) {
    give_back();
    return memory.status();
  }
  void* const address = memory->get();
  return std::shared_ptr<void>(address, [memory = *std::move(memory), give_back](void*) { give_back(); });
}

absl::Status TwoTierMemory::Synchronize() {
  int64_t last = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    last = last_;
  }
  return queue_.Wait(last);
}

void TwoTierMemory::Start(const void* stored, void* to, const void* from, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  last_ = queue_.Start([to, from, bytes] {
    std::memcpy(to, from, bytes);
    return absl::OkStatus();
  });
  copies_[stored] = last_;
}

absl::Status TwoTierMemory::WaitFor(const void* stored) {
  int64_t number = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = copies_.find(stored);
    if (found != copies_.end()) number = found->second;
  }
  return queue_.Wait(number);
}

absl::StatusOr<std::unique_ptr<Device>> MakeTwoTierDevice(std::unique_ptr<Device> device,
                                                          const TwoTierOptions& options) {
  if (device->memory() != nullptr || !device->runs()) {
    return absl::InvalidArgumentError(absl::StrCat("second tier: found device ", device->name(),
                                                   ", expected one that runs in the memory of this machine"));
  }
  return std::unique_ptr<Device>(std::make_unique<TwoTierDevice>(std::move(device), options));
}

}  // namespace rewright
