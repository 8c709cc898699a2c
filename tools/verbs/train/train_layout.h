// The layout of a training run: as it is given, of a file, or chosen.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/comm/communicator.h"
#include "runtime/training/config.h"
#include "substitutions/sharding/shard.h"
#include "tools/library/engine.h"
#include "tools/program/flags.h"
#include "tools/program/verb.h"
#include "tools/verbs/layout/layout_choice.h"
#include "tools/verbs/train/step_search.h"
#include "verifier/claims/sharding_laws.h"

namespace rewright {

struct LayoutFlags {
  std::string layout;   // "dp=2,tp=2", "auto", "auto,dp=2", "F.layout"
  std::string cluster;  // of auto; empty: the machine
  std::string save;     // where the choice goes
  bool explain = false;
};
void AddLayoutFlags(CommandLine& line, LayoutFlags* flags);

// Seconds of work for the proof of one law.
constexpr double kLayoutProofSeconds = 5;

// The laws by which this process cuts graphs. For one thread at a time.
ProvedLaws& LawsOfLayouts();
// Cuts graphs by these.
std::function<absl::StatusOr<Graph>(const Graph&, const StateAxes&, int degree)> CutsByLaws();

// Shows the choice, and with `explain` why; gives the same as JSON.
Json ShowChoice(const LayoutChoice& choice, bool explain, Console& console);

// Gives the layout, and its micro-batches and placements to the configuration. Errors: those of ParseLayout and
// ApplyLayout; placements where the configuration has others. `file` names where it is from; empty: a flag.
absl::StatusOr<RankLayout> TakeLayout(const LayoutFile& layout, const std::string& file, TrainConfig* config);

// The layout of a run of these ranks; rank 0 chooses for all, within the memory limit of a rank or, without one, its
// part of the machine's or the cluster's. A layout for which values are computed again sets the limit.
absl::StatusOr<RankLayout> LayoutOfRun(const LayoutFlags& flags, const std::string& folder, int64_t bucket_bytes,
                                       const Engine& engine, Communicator& ranks, Session& session,
                                       StepSearchFlags* search, TrainConfig* config);

}  // namespace rewright
