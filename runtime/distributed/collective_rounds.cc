#include "runtime/distributed/collective_rounds.h"

#include <algorithm>

namespace rewright::distributed {
namespace {

using Kind = Action::Kind;

bool IsRing(Kind kind, CollectiveBy by) {
  return kind != Kind::kAllToAll &&
         (by == CollectiveBy::kRing || (by == CollectiveBy::kTree && kind != Kind::kAllReduce));
}

// By level, the links of that level on the way through all ranks.
std::vector<int> HopsOf(const GroupLinks& links) {
  std::vector<int> hops;
  int within = 1;
  for (int others : links.others) {
    const int units = (links.size + within - 1) / within;
    within += others;
    hops.push_back(units - (links.size + within - 1) / within);
  }
  return hops;
}

}  // namespace

GroupLinks LinksOf(const std::vector<int>& devices, int device, const Cluster& cluster) {
  GroupLinks links{static_cast<int>(devices.size()), std::vector<int>(cluster.levels.size(), 0)};
  for (int other : devices) {
    if (other != device) ++links.others[cluster.LevelOf(device, other)];
  }
  for (size_t step = 1; step < devices.size(); step *= 2) {
    links.by_step.push_back(cluster.LevelOf(devices[0], devices[step]));
  }
  return links;
}

std::vector<Round> RoundsOf(Kind kind, const GroupLinks& links, double bytes, CollectiveBy by, const Cluster& cluster) {
  const size_t levels = cluster.levels.size();
  const double others = links.size - 1;
  if (others == 0) return {};
  const int times = kind == Kind::kAllReduce ? 2 : 1;
  if (kind == Kind::kAllReduce && by == CollectiveBy::kTree) {
    std::vector<Round> up;
    for (int level : links.by_step) {
      up.push_back({cluster.levels[level].seconds, std::vector<double>(levels, 0)});
      up.back().bytes[level] = bytes;
    }
    std::vector<Round> rounds = up;
    rounds.insert(rounds.end(), up.rbegin(), up.rend());
    return rounds;
  }
  Round round{0, std::vector<double>(levels, 0)};
  if (IsRing(kind, by)) {
    const std::vector<int> hops = HopsOf(links);
    int within = 1;  // ranks that have one port each for what their node sends
    for (size_t k = 0; k < levels; ++k) {
      if (links.others[k] == 0) continue;
      round.seconds += times * hops[k] * cluster.levels[k].seconds;
      round.bytes[k] = times * bytes * others / links.size / within;
      within += links.others[k];
    }
    return {round};
  }
  const bool server = kind == Kind::kAllReduce && by == CollectiveBy::kParameterServer;
  for (size_t k = 0; k < levels; ++k) {
    if (links.others[k] == 0) continue;
    round.seconds = std::max(round.seconds, cluster.levels[k].seconds);
    round.bytes[k] = bytes * links.others[k] / (server ? 1 : links.size);
  }
  return std::vector<Round>(static_cast<size_t>(times), round);
}

std::vector<double> BytesByLevel(Kind kind, const GroupLinks& links, double bytes, CollectiveBy by) {
  const double sent = (kind == Kind::kAllReduce ? 2 : 1) * bytes / links.size;  // over each link or hop
  const std::vector<int> over = IsRing(kind, by) ? HopsOf(links) : links.others;
  std::vector<double> by_level;
  for (int links_of_level : over) by_level.push_back(sent * links_of_level);
  return by_level;
}

double SecondsAlone(Kind kind, const GroupLinks& links, double bytes, CollectiveBy by, const Cluster& cluster) {
  double seconds = 0;
  for (const Round& round : RoundsOf(kind, links, bytes, by, cluster)) {
    double longest = 0;
    for (size_t k = 0; k < round.bytes.size(); ++k) {
      const LinkLevel& level = cluster.levels[k];
      const double rate = std::min(level.bytes_per_second, level.RateOf(RateName(kind), bytes));
      longest = std::max(longest, round.bytes[k] / rate);
    }
    seconds += round.seconds + longest;
  }
  return seconds;
}

const char* RateName(Kind kind) {
  switch (kind) {
    case Kind::kAllGather: return "all_gather";
    case Kind::kReduceScatter: return "reduce_scatter";
    case Kind::kAllReduce: return "all_reduce";
    case Kind::kAllToAll: return "all_to_all";
    default: return "send";
  }
}

}  // namespace rewright::distributed
