// The time of a step by the lists of its plan: which rank computes, sends and waits when.
//
// The simulation is driven by events, over the very lists that run. Subgraphs take the seconds that the plan says of
// them. A message is a flow of bytes that begins when its latency is over; flows share the ports of the devices that
// they leave and reach, each port equally and without leaving any of it idle (max-min fairness). Collectives are rounds
// of flows; a round begins when the one before has arrived everywhere. Communication of a rank goes on in the order of
// its list along each axis of the mesh, and beside that along others. Messages within a subgraph that several ranks run
// together, and within an update, take no time.
//
// Ranks that are alike (Plan::alike) are simulated once: their flows share ports with those of the ranks that they
// stand for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/distributed/cluster.h"
#include "runtime/distributed/plan.h"

namespace rewright::distributed {

// The way of a collective on N ranks; M are the bytes of an all-reduce. An all-to-all goes directly.
enum class CollectiveBy : uint8_t {
  kDirect,           // as it runs: each rank sends to all others at once; an all-reduce has two rounds
  kRing,             // to the next rank, N - 1 times M / N bytes, twice for an all-reduce; through each node once
  kTree,             // an all-reduce up a binary tree, and down: 2 log2(N) rounds of M bytes; else as kRing
  kParameterServer,  // an all-reduce to the first rank, and back: it gets and sends M (N - 1) bytes; else as kDirect
};

struct SimulationOptions {
  CollectiveBy collectives = CollectiveBy::kDirect;
  bool spans = true;  // are noted
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
  std::vector<int> numbers;  // of the ranks with lists, to which the next ones belong
  std::vector<RankSeconds> ranks;
  std::vector<int64_t> peak_bytes;   // of a rank's list and of its sums
  std::vector<double> exposed_over;  // by axis of the mesh, the mean over ranks
  std::vector<int64_t> bytes;        // by level of the cluster, sent by all ranks
  std::vector<double> busy;          // by level, the share of time that the fullest port sends
  std::vector<Span> spans;           // in the order of their ends

  // The share of all ranks' time that is bubble, computing and exposed communication.
  double bubble() const;
  double computing() const;
  double exposed() const;
};

// Errors: those of CheckPlan, more ranks than devices, ranks that are alike on nodes that they
// do not fit evenly.
absl::StatusOr<SimulatedStep> Simulate(const Plan& plan, const Cluster& cluster, const SimulationOptions& options = {});

// True if ranks along axes of the mesh that are alike have links that are alike, too: groups have whole nodes, or nodes
// whole groups. Needs no lists.
bool FitsEvenly(const Plan& plan, const Cluster& cluster);

// For chrome://tracing and Perfetto: a lane for what a rank computes, and one for what it communicates.
std::string ChromeTrace(const Plan& plan, const SimulatedStep& step);

}  // namespace rewright::distributed
