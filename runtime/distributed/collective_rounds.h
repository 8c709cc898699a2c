// Bytes that a collective puts on the links, by its way.
#pragma once

#include <vector>

#include "runtime/distributed/cluster.h"
#include "runtime/distributed/plan.h"
#include "runtime/distributed/simulate.h"

namespace rewright::distributed {

// The devices of a group as one of them sees them.
struct GroupLinks {
  int size = 1;
  std::vector<int> others;   // by level of the cluster: ranks behind a link of that level
  std::vector<int> by_step;  // the level of the link to the rank 1, 2, 4, .. places behind the first
};
GroupLinks LinksOf(const std::vector<int>& devices, int device, const Cluster& cluster);

// Bytes that go over each port at the same time, by level, once `seconds` have passed.
struct Round {
  double seconds = 0;
  std::vector<double> bytes;
};
// The rounds of a collective of tensors of so many bytes.
std::vector<Round> RoundsOf(Action::Kind kind, const GroupLinks& links, double bytes, CollectiveBy by,
                            const Cluster& cluster);
// Bytes that a rank sends over links of each level, the mean over the group.
std::vector<double> BytesByLevel(Action::Kind kind, const GroupLinks& links, double bytes, CollectiveBy by);

// The seconds of a collective that has the links for itself.
double SecondsAlone(Action::Kind kind, const GroupLinks& links, double bytes, CollectiveBy by, const Cluster& cluster);

// The name of a kind of transfer (LinkLevel::rates).
const char* RateName(Action::Kind kind);

}  // namespace rewright::distributed
