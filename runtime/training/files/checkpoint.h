// Checkpoints: all that a run of training needs to go on as if it had never ended.
//
// A checkpoint is a folder of four or five files inside the checkpoint folder:
//
//   step-00000120/weights.safetensors    the model's weights, under their names
//   step-00000120/optimizer.safetensors  optimizer state
//   step-00000120/program.txt            the graph of a step that runs, in its printed form (core/ir/text.h)
//   step-00000120/gradients.txt          likewise that of a micro-batch, where a step is cut into these
//   step-00000120/train.json             where the run stands, and the SHA-256 of the others
//   latest                               the name of the last checkpoint and the SHA-256 of its train.json
//   lock                                 held by the run that writes here, as long as it lives
//
// It is written aside, synced and renamed; then `latest` is replaced. So whenever the run is killed, `latest` names a
// whole checkpoint, or there is none yet. Where it is missing, the checkpoint of the most steps counts. The files are
// untrusted when they are read.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "runtime/training/files/safetensors.h"

namespace rewright {

struct Checkpoint {
  NamedTensors weights;
  NamedTensors optimizer;
  std::string program;
  std::string gradients;                                               // empty: there is none
  nlohmann::ordered_json progress = nlohmann::ordered_json::object();  // of train.json: who trains gives it a meaning
};

// A folder that this process alone writes checkpoints into. The lock is the system's (flock): it ends with the process,
// however that ends, and the file that is left means nothing.
class CheckpointLock {
 public:
  // The folder is made where it is missing. Errors: another run has it, which is named; it cannot be written.
  static absl::StatusOr<CheckpointLock> Take(const std::string& folder);
  CheckpointLock(CheckpointLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  CheckpointLock& operator=(CheckpointLock&&) = delete;
  ~CheckpointLock();

 private:
  explicit CheckpointLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
};

// Writes the checkpoint of a run that made `steps` steps into `folder`, which is made where it is missing, and removes
// all but it and the last others, `keep` together. Nothing is done where it is the last one already. Errors: what
// cannot be written; the checkpoints that were there stay.
absl::Status WriteCheckpoint(const std::string& folder, int64_t steps, const Checkpoint& checkpoint, int keep);

// Returns whether there is one to read.
bool HasCheckpoint(const std::string& folder);

// The last one. Errors: none is there (kNotFound), a file is missing or not as it was written.
absl::StatusOr<Checkpoint> ReadCheckpoint(const std::string& folder);

// True if it holds these tensors and no others, as the checkpoint of a run does whose states they are. The error names
// what is missing, what is there beside, and what is of another type.
absl::Status CheckTensors(const Checkpoint& checkpoint, const std::map<std::string, TensorType>& expected);

}  // namespace rewright
