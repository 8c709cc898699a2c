#include "tools/verbs/layout/measured_cluster.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/ir/text.h"
#include "runtime/comm/collectives.h"
#include "runtime/comm/worker_thread.h"
#include "runtime/measure/machine_rates.h"
#include "tools/verbs/layout/cluster_cost.h"

namespace rewright {
namespace {

using distributed::ClusterDevice;
using distributed::LinkLevel;
using Work = std::function<absl::Status()>;

constexpr char kWhat[] = "the measurement of links";

// The shortest of several times of the work, of the rank for which that is the longest.
absl::StatusOr<double> SecondsOfAll(Communicator& ranks, int turns, const Work& work) {
  using Clock = std::chrono::steady_clock;
  double shortest = std::numeric_limits<double>::infinity();
  WorkerThread worker(ranks);  // as a run communicates
  RETURN_IF_ERROR(ranks.Barrier(kWhat));
  for (int turn = 0; turn < turns; ++turn) {  // each turn begins where the one before left the ranks together
    const Clock::time_point begin = Clock::now();
    RETURN_IF_ERROR(worker.Wait(worker.Start(work)));
    shortest = std::min(shortest, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> all, AllGather(ranks, kWhat, absl::StrFormat("%.17g", shortest)));
  for (const std::string& text : all) {
    double seconds = 0;
    if (absl::SimpleAtod(text, &seconds)) shortest = std::max(shortest, seconds);
  }
  return shortest;
}

// From the first rank to the last one and back.
Work ThereAndBack(Communicator& ranks, std::vector<char>& data) {
  return [&ranks, &data]() -> absl::Status {
    const int last = ranks.size() - 1;
    if (ranks.rank() == 0) RETURN_IF_ERROR(ranks.Send(kWhat, last, data.data(), data.size()));
    if (ranks.rank() == 0) RETURN_IF_ERROR(ranks.Receive(kWhat, last, data.data(), data.size()));
    if (ranks.rank() == last) RETURN_IF_ERROR(ranks.Receive(kWhat, 0, data.data(), data.size()));
    if (ranks.rank() == last) RETURN_IF_ERROR(ranks.Send(kWhat, 0, data.data(), data.size()));
    return absl::OkStatus();
  };
}

// A collective of a tensor of `parts` x `parts` x `length` numbers, of which a rank has one of `parts`.
struct Measured {
  const char* name;
  int rounds;        // of messages, one after the other
  bool is_of_whole;  // the bytes of a rate are those of the whole tensor, else of a rank's part
  std::function<absl::Status(Communicator& ranks, Tensor& whole, Tensor& part, Tensor& column)> run;
};
const std::vector<Measured>& Collectives() {
  static const auto* const all = new std::vector<Measured>{
      {"all_gather", 1, true,
       [](Communicator& ranks, Tensor& whole, Tensor& part, Tensor&) {
         return AllGather(ranks, kWhat, part, /*axis=*/0, &whole);
       }},
      {"reduce_scatter", 1, true,
       [](Communicator& ranks, Tensor& whole, Tensor& part, Tensor&) {
         return ReduceScatter(ranks, kWhat, Reduction::kSum, whole, /*axis=*/0, &part);
       }},
      {"all_reduce", 2, true,
       [](Communicator& ranks, Tensor& whole, Tensor&, Tensor&) {
         return AllReduce(ranks, kWhat, LeavesOfRanks(ranks.size(), ranks.size()), &whole);
       }},
      {"all_to_all", 1, false, [](Communicator& ranks, Tensor&, Tensor& part, Tensor& column) {
         return AllToAll(ranks, kWhat, part, /*joined=*/0, /*cut=*/1, &column);
       }}};
  return *all;
}

// The rate of the port beside the latency of so many rounds.
double RateOf(double bytes, double seconds, int rounds, double latency) {
  return bytes / std::max(seconds - rounds * latency, seconds / 10);
}

}  // namespace

absl::StatusOr<LinkLevel> MeasureLinks(Communicator& ranks) {
  const int64_t size = ranks.size();
  LinkLevel link{.name = "machine", .devices = ranks.size()};
  const Tensor one({DType::kFloat32, {1}});
  Tensor few({DType::kFloat32, {size}});
  ASSIGN_OR_RETURN(link.seconds,
                   SecondsOfAll(ranks, 30, [&] { return AllGather(ranks, kWhat, one, /*axis=*/0, &few); }));
  for (const auto& [bytes, turns] : {std::pair<int64_t, int>{1 << 12, 20}, {1 << 16, 10}, {1 << 20, 6}, {1 << 24, 3}}) {
    const int64_t length = std::max<int64_t>(1, bytes / 4 / (size * size));
    Tensor whole({DType::kFloat32, {size, size, length}}), part({DType::kFloat32, {1, size, length}}),
        column({DType::kFloat32, {size, 1, length}});
    const auto others = static_cast<double>(size - 1) / static_cast<double>(size);
    const auto add = [&](const std::string& name, double of, double rate) {
      link.rates[name].push_back({of, rate});
      link.bytes_per_second = std::max(link.bytes_per_second, rate);
    };
    for (const Measured& kind : Collectives()) {
      ASSIGN_OR_RETURN(const double seconds,
                       SecondsOfAll(ranks, turns, [&] { return kind.run(ranks, whole, part, column); }));
      const auto of = static_cast<double>((kind.is_of_whole ? whole : part).num_bytes());
      add(kind.name, of, RateOf(kind.rounds * of * others, seconds, kind.rounds, link.seconds));
    }
    std::vector<char> data(static_cast<size_t>(whole.num_bytes()), 0);
    ASSIGN_OR_RETURN(const double seconds, SecondsOfAll(ranks, turns, ThereAndBack(ranks, data)));
    const auto of = static_cast<double>(data.size());
    add("send", of, RateOf(of, seconds / 2, 1, link.seconds));
  }
  return link;
}

absl::StatusOr<ClusterDevice> MeasureDevice(Device& device) {
  ASSIGN_OR_RETURN(const Rates rates, MeasureRates(device));
  const auto seconds_of = [&](const std::string& text) -> absl::StatusOr<double> {
    ASSIGN_OR_RETURN(const Graph graph, ParseGraph(text));
    return SecondsOf(graph, device);
  };
  constexpr int64_t kSize = 512, kLong = int64_t{1} << 24;
  ASSIGN_OR_RETURN(const double product, seconds_of("input x: f32[512,512]\ninput y: f32[512,512]\n"
                                                    "%1 = matmul(x, y)\noutput z = %1\n"));
  ASSIGN_OR_RETURN(const double sum, seconds_of(absl::StrCat("input x: f32[", kLong, "]\ninput y: f32[", kLong,
                                                             "]\n%1 = add(x, y)\noutput z = %1\n")));
  ASSIGN_OR_RETURN(const double small, seconds_of("input x: f32[16]\ninput y: f32[16]\n%1 = add(x, y)\n"
                                                  "output z = %1\n"));
  ClusterDevice measured{.name = device.name()};
  measured.one_engine = device.memory() == nullptr || device.memory()->is_host();
  measured.flops_per_second["f32"] = rates.flops_per_second;
  measured.bytes_per_second = rates.bytes_per_second();
  measured.launch_seconds = small;
  measured.efficiency["f32"] = std::min(1.0, 2.0 * kSize * kSize * kSize / product / rates.flops_per_second);
  measured.efficiency["memory"] = std::min(1.0, 12.0 * kLong / sum / rates.bytes_per_second());
  return measured;
}

absl::StatusOr<distributed::Cluster> MeasuredCluster(Communicator& ranks, int threads, Device* device) {
  ASSIGN_OR_RETURN(distributed::Cluster cluster, DefaultCluster(ranks.size(), threads));
  if (device != nullptr) {
    ASSIGN_OR_RETURN(cluster.device, MeasureDevice(*device));
  }
  if (ranks.size() == 1) return cluster;
  ASSIGN_OR_RETURN(cluster.levels[0], MeasureLinks(ranks));
  cluster.sources = {"measured by rewright profile --collectives"};
  return cluster;
}

}  // namespace rewright
