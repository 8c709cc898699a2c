// One rank's end of a graph that is cut over devices: what is computed between collectives is compiled and run by a
// device like any graph, the collectives go over a Communicator.
//
// All ranks make and run their executables together, with the same whole inputs. A rank that fails has to end the
// others (Communicator::Abort). Thread-safe: calls of several threads take turns, and one that is made during a run
// waits until the run has exchanged all that it exchanges.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "runtime/comm/communicator.h"
#include "runtime/executor.h"
#include "runtime/parallel/run_collective.h"
#include "runtime/parallel/segments.h"
#include "runtime/signature.h"

namespace rewright {

class RankExecutable : public DistributedExecutable, public ArenaUser {
 public:
  // The form in which a run gets inputs: all of them whole, or this rank's blocks of those that are cut.
  enum class InputForm : uint8_t { kWhole, kShards };

  // Gives the graph that a rank runs instead of the graph of its part, with the same inputs and outputs.
  using RewritePart = std::function<absl::StatusOr<Graph>(const RankGraph& part)>;

  // `cut` is on ranks.size() devices. The communicator and the runner's device outlive the executable. Errors: those of
  // GraphOfRank and of the runner.
  static absl::StatusOr<std::unique_ptr<RankExecutable>> Create(const Graph& cut, Communicator& ranks,
                                                                GraphRunner& runner,
                                                                InputForm takes = InputForm::kWhole,
                                                                const RewritePart& rewrite = nullptr);

  // Results are whole. Errors: those of the segments' executables; of collectives, with their name and what
  // they are of: "run 3, all-reduce of matmul: rank 0 waited 5 s for rank 2".
  absl::Status Run(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs) override;
  // This rank's part of a state, until the next run.
  absl::StatusOr<Shard> LocalState(const std::string& name);

  // Whole values. ReadState is called by all ranks together.
  absl::StatusOr<Tensor> ReadState(const std::string& name) override;
  absl::Status WriteState(const std::string& name, const Tensor& value) override;

  // Bytes of the values that segments compute and hand on, and of next values of states.
  int64_t arena_bytes() const override { return memory_.bytes() + next_bytes_; }
  int64_t peak_live_bytes() const override { return arena_bytes(); }
  // Bytes of the values that segments compute and hand on.
  int64_t shared_bytes() const override { return memory_.shared_bytes(); }
  void UseArena(std::shared_ptr<void> arena) override;
  // Bytes of this rank's parts of the states, in training.
  int64_t state_bytes() const;
  int64_t bytes_sent() const override;
  int64_t BytesSentToRead(const std::string& name) const override;

  const std::vector<ShardedLeaf>& inputs() const { return rank_.inputs; }
  const std::vector<Collective>& collectives() const { return rank_.collectives; }
  size_t num_segments() const { return executables_.size(); }

 private:
  RankExecutable(const Graph& cut, Communicator& ranks) : signature_(cut), ranks_(ranks) {}
  absl::Status Init(const Graph& cut, GraphRunner& runner, const RewritePart& rewrite);
  absl::Status PlanTensors();
  std::vector<SubgraphRun> Runs() const;
  absl::Status RunCollective(size_t number);
  // Returns whether what a run is given of it lies in one piece: else the rank's block is copied out of it.
  bool IsGivenInPlace(const ShardedLeaf& input) const { return input.axis <= 0 || takes_shards_; }
  absl::Status Update();
  // The tensor of a state.
  int NumberOf(size_t state) const { return static_cast<int>(rank_.graph.inputs().size() + state); }
  Tensor& state(size_t number) { return tensors_[NumberOf(number)]; }

  Signature signature_;
  bool takes_shards_ = false;
  Communicator& ranks_;
  RankGraph rank_;
  Segments segments_;
  SubgraphExecutables executables_;  // by segment
  SharedMemory memory_;              // of segments
  std::vector<bool> has_next_;  // by tensor: a next value with memory of its own, which a run exchanges for the state's
  int64_t next_bytes_ = 0;      // of these

  std::mutex mutex_;  // of what follows: runs take turns
  std::vector<Tensor> tensors_;
  int64_t runs_ = 0;
};

}  // namespace rewright
