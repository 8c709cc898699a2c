// The time of a step by the lists of its plan: which rank computes, sends and waits when.
//
// The simulation is driven by events, over the very lists that run. Subgraphs take the seconds that the plan says of
// them. A message is a flow of bytes that begins when its latency is over; flows share the ports of the devices that
// they leave and reach, each port equally and without leaving any of it idle (max-min fairness). Collectives are rounds
// of flows; a round begins when the one before has arrived everywhere. What is sent within a subgraph that several
// ranks run together, and within an update, takes no time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/distributed/cluster.h"
#include "runtime/distributed/plan.h"

namespace rewright::distributed {

// The way of an all-reduce of M bytes on N ranks. Other collectives go directly.
enum class AllReduceBy : uint8_t {
  kDirect,           // as it runs: each rank reduces a part, which all send to it; two rounds
  kRing,             // 2 (N - 1) rounds of M / N bytes to the next rank
  kTree,             // up a binary tree, and down: 2 log2(N) rounds of M bytes
  kParameterServer,  // all to the first rank, and back: it receives and sends M (N - 1) bytes
};

struct SimulationOptions {
  AllReduceBy all_reduce = AllReduceBy::kDirect;
};

// An action of a rank from `begin` to `end`: a subgraph, an update, or communication, from its first byte to its last.
struct Span {
  int rank = 0, action = 0;
  double begin = 0, end = 0;
};

struct RankSeconds {
  double computing = 0;
  double bubble = 0;   // waiting for messages of other stages, and for ranks that do something together
  double exposed = 0;  // waiting for collectives
};

struct SimulatedStep {
  double seconds = 0;
  std::vector<RankSeconds> ranks;
  std::vector<int64_t> bytes;       // by level of the cluster, sent by all ranks
  std::vector<int64_t> peak_bytes;  // by rank: of its list and of its sums
  std::vector<Span> spans;          // in the order of their ends

  // The share of all ranks' time that is bubble.
  double bubble() const;
};

// Rank r runs on device r. Errors: those of CheckPlan, more ranks than devices.
absl::StatusOr<SimulatedStep> Simulate(const Plan& plan, const Cluster& cluster, const SimulationOptions& options = {});

// For chrome://tracing and Perfetto: a lane for what a rank computes, and one for what it communicates.
std::string ChromeTrace(const Plan& plan, const SimulatedStep& step);

}  // namespace rewright::distributed
