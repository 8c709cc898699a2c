#include "runtime/training/files/checkpoint.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/files.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"

namespace rewright {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kLatest[] = "latest";
constexpr char kLock[] = "lock";
constexpr char kProgress[] = "train.json";
constexpr char kWeights[] = "weights.safetensors";
constexpr char kOptimizer[] = "optimizer.safetensors";
constexpr char kProgram[] = "program.txt";
constexpr char kGradients[] = "gradients.txt";
constexpr char kFormat[] = "rewright checkpoint 1";
constexpr char kStepPrefix[] = "step-";
constexpr char kAside[] = ".writing-";

std::string NameOf(int64_t steps) { return absl::StrFormat("%s%08d", kStepPrefix, steps); }

absl::StatusOr<std::string> FileSha256(const std::string& path) {
  ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  Sha256 hash;
  std::string chunk(size_t{1} << 20, '\0');
  for (int64_t at = 0; at < file.size(); at += static_cast<int64_t>(chunk.size())) {
    const int64_t length = std::min(static_cast<int64_t>(chunk.size()), file.size() - at);
    RETURN_IF_ERROR(file.Read(at, length, chunk.data()));
    hash.Add(chunk.data(), static_cast<size_t>(length));
  }
  return hash.Hex();
}

// The file `latest`: a name and a digest.
struct Latest {
  std::string name, digest;
};

// The names of checkpoints in the folder, the one of the most steps first.
absl::StatusOr<std::vector<std::string>> CheckpointsIn(const std::string& folder) {
  ASSIGN_OR_RETURN(std::vector<std::string> names, NamesIn(folder));
  std::erase_if(names, [](const std::string& name) { return !absl::StartsWith(name, kStepPrefix); });
  // Longer numbers are larger.
  std::sort(names.begin(), names.end(),
            [](const std::string& a, const std::string& b) { return std::pair(a.size(), a) > std::pair(b.size(), b); });
  return names;
}

// The checkpoint of the most steps: it is whole, since it was renamed when it was. Error: none is there (kNotFound).
absl::StatusOr<Latest> OfMostSteps(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, CheckpointsIn(folder));
  for (const std::string& name : names) {
    const absl::StatusOr<std::string> digest = FileSha256(absl::StrCat(folder, "/", name, "/", kProgress));
    if (absl::IsNotFound(digest.status())) continue;
    if (!digest.ok()) return digest.status();
    return Latest{name, *digest};
  }
  return absl::NotFoundError(absl::StrCat(folder, ": has no checkpoint"));
}

// A run may be killed before it names its first checkpoint: it counts, too.
absl::StatusOr<Latest> ReadLatest(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kLatest);
  const absl::StatusOr<std::string> named = ReadText(path);
  if (absl::IsNotFound(named.status())) {
    const absl::StatusOr<Latest> unnamed = OfMostSteps(folder);
    if (!absl::IsNotFound(unnamed.status())) return unnamed;
  }
  ASSIGN_OR_RETURN(const std::string text, named);
  const std::vector<std::string> words = absl::StrSplit(absl::StripSuffix(text, "\n"), ' ');
  int64_t steps = 0;
  if (words.size() != 2 || words[1].size() != 64 ||
      !absl::SimpleAtoi(absl::StripPrefix(words[0], kStepPrefix), &steps) || words[0] != NameOf(steps)) {
    return absl::DataLossError(
        absl::StrCat(path, ": found no name of a checkpoint with its digest, expected `step-N SHA-256`"));
  }
  return Latest{words[0], words[1]};
}

absl::Status CheckDigest(const std::string& path, const std::string& expected) {
  ASSIGN_OR_RETURN(const std::string found, FileSha256(path));
  if (found == expected) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(path, ": is damaged: its SHA-256 is ", found, ", expected ", expected.substr(0, 64)));
}

absl::Status WriteFiles(const std::string& folder, const Checkpoint& checkpoint, std::string* digest) {
  RETURN_IF_ERROR(WriteSafetensors(absl::StrCat(folder, "/", kWeights), checkpoint.weights));
  RETURN_IF_ERROR(WriteSafetensors(absl::StrCat(folder, "/", kOptimizer), checkpoint.optimizer));
  RETURN_IF_ERROR(WriteText(absl::StrCat(folder, "/", kProgram), checkpoint.program));
  Json json = {{"format", kFormat},
               {"progress", checkpoint.progress},
               {"sha256",
                {{kWeights, SafetensorsSha256(checkpoint.weights)},
                 {kOptimizer, SafetensorsSha256(checkpoint.optimizer)},
                 {kProgram, Sha256::HexOf(checkpoint.program)}}}};
  if (!checkpoint.gradients.empty()) {
    RETURN_IF_ERROR(WriteText(absl::StrCat(folder, "/", kGradients), checkpoint.gradients));
    json["sha256"][kGradients] = Sha256::HexOf(checkpoint.gradients);
  }
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  *digest = Sha256::HexOf(text);
  RETURN_IF_ERROR(WriteText(absl::StrCat(folder, "/", kProgress), text));
  return SyncFolder(folder);
}

// Whole checkpoints beyond `keep`, of which `live` is one however high the numbers of others are (a run that was killed
// before it named its last one leaves that), and what was being written when a run was killed.
absl::Status RemoveOld(const std::string& folder, const std::string& live, int keep) {
  ASSIGN_OR_RETURN(const std::vector<std::string> all, NamesIn(folder));
  for (const std::string& name : all) {
    const bool unfinished = absl::StartsWith(name, kAside) || absl::StartsWith(name, kTemporaryPrefix);
    if (unfinished) RETURN_IF_ERROR(RemoveFolder(absl::StrCat(folder, "/", name)));
  }
  ASSIGN_OR_RETURN(std::vector<std::string> names, CheckpointsIn(folder));
  std::erase(names, live);
  for (size_t i = static_cast<size_t>(keep) - 1; i < names.size(); ++i) {
    RETURN_IF_ERROR(RemoveFolder(absl::StrCat(folder, "/", names[i])));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CheckpointLock> CheckpointLock::Take(const std::string& folder) {
  RETURN_IF_ERROR(MakeFolder(folder));
  const std::string path = absl::StrCat(folder, "/", kLock);
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
  CheckpointLock lock(descriptor);
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return absl::ErrnoToStatus(errno, absl::StrCat("cannot lock ", path));
    const absl::StatusOr<std::string> owner = ReadText(path);
    return absl::FailedPreconditionError(
        absl::StrCat(folder, ": another run writes its checkpoints there", owner.ok() && !owner->empty() ? ", " : "",
                     owner.ok() ? absl::StripSuffix(*owner, "\n") : "", "; expected a folder that no other run uses"));
  }
  // For who is refused; nothing depends on it.
  const std::string owner = absl::StrCat("process ", getpid(), "\n");
  if (ftruncate(descriptor, 0) != 0 || write(descriptor, owner.data(), owner.size()) < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
  }
  return lock;
}

CheckpointLock::~CheckpointLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::Status WriteCheckpoint(const std::string& folder, int64_t steps, const Checkpoint& checkpoint, int keep) {
  RETURN_IF_ERROR(MakeFolder(folder));
  const std::string name = NameOf(steps), path = absl::StrCat(folder, "/", name);
  if (const auto latest = ReadLatest(folder); latest.ok() && latest->name == name) return absl::OkStatus();
  const std::string aside = absl::StrCat(folder, "/", kAside, getpid());
  RETURN_IF_ERROR(RemoveFolder(aside));
  RETURN_IF_ERROR(MakeFolder(aside));
  std::string digest;
  if (const absl::Status written = WriteFiles(aside, checkpoint, &digest); !written.ok()) {
    RemoveFolder(aside).IgnoreError();  // what it says matters less
    return written;
  }
  // A run that was killed before it replaced `latest` may have left one of this name.
  RETURN_IF_ERROR(RemoveFolder(path));
  RETURN_IF_ERROR(RenameFolder(aside, path));
  RETURN_IF_ERROR(WriteText(absl::StrCat(folder, "/", kLatest), absl::StrCat(name, " ", digest, "\n")));
  RETURN_IF_ERROR(SyncFolder(folder));
  return RemoveOld(folder, name, keep);
}

bool HasCheckpoint(const std::string& folder) { return !absl::IsNotFound(ReadLatest(folder).status()); }

absl::StatusOr<Checkpoint> ReadCheckpoint(const std::string& folder) {
  ASSIGN_OR_RETURN(const Latest latest, ReadLatest(folder));
  const std::string path = absl::StrCat(folder, "/", latest.name), progress = absl::StrCat(path, "/", kProgress);
  RETURN_IF_ERROR(CheckDigest(progress, latest.digest));
  ASSIGN_OR_RETURN(const std::string text, ReadText(progress));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.value("format", Json()) != Json(kFormat) || !json.contains("progress") ||
      !json["progress"].is_object() || !json.contains("sha256") || !json["sha256"].is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(progress, ": expected an object with format `", kFormat, "`"));
  }
  const bool has_gradients = json["sha256"].contains(kGradients);
  std::vector<const char*> files = {kWeights, kOptimizer, kProgram};
  if (has_gradients) files.push_back(kGradients);
  for (const char* file : files) {
    const Json digest = json["sha256"].value(file, Json());
    if (!digest.is_string()) return absl::InvalidArgumentError(absl::StrCat(progress, ": has no digest of ", file));
    RETURN_IF_ERROR(CheckDigest(absl::StrCat(path, "/", file), digest.get<std::string>()));
  }
  Checkpoint checkpoint;
  ASSIGN_OR_RETURN(checkpoint.weights, ReadSafetensors(absl::StrCat(path, "/", kWeights)));
  ASSIGN_OR_RETURN(checkpoint.optimizer, ReadSafetensors(absl::StrCat(path, "/", kOptimizer)));
  ASSIGN_OR_RETURN(checkpoint.program, ReadText(absl::StrCat(path, "/", kProgram)));
  if (has_gradients) {
    ASSIGN_OR_RETURN(checkpoint.gradients, ReadText(absl::StrCat(path, "/", kGradients)));
  }
  checkpoint.progress = json["progress"];
  return checkpoint;
}

absl::Status CheckTensors(const Checkpoint& checkpoint, const std::map<std::string, TensorType>& expected) {
  std::map<std::string, TensorType> found;
  for (const auto* tensors : {&checkpoint.weights, &checkpoint.optimizer}) {
    for (const auto& [name, tensor] : *tensors) found.emplace(name, tensor.type());
  }
  std::vector<std::string> missing, beside, other;
  for (const auto& [name, type] : expected) {
    const auto at = found.find(name);
    if (at == found.end()) {
      missing.push_back(name);
    } else if (at->second != type) {
      other.push_back(absl::StrCat(name, " ", at->second.ToString(), " in place of ", type.ToString()));
    }
  }
  for (const auto& [name, type] : found) {
    if (!expected.contains(name)) beside.push_back(name);
  }
  std::vector<std::string> differences;
  const auto add = [&](const std::string& what, const std::vector<std::string>& names) {
    constexpr size_t kShown = 5;
    if (names.empty()) return;
    const size_t shown = std::min(names.size(), kShown);
    differences.push_back(absl::StrCat(what, absl::StrJoin(names.begin(), names.begin() + shown, ", "),
                                       shown < names.size() ? absl::StrCat(", .. (", names.size(), ")") : ""));
  };
  add("lacks ", missing);
  add("has beside them ", beside);
  add("has ", other);
  if (differences.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the checkpoint's tensors: found ", found.size(), ", expected the ", expected.size(),
                   " states of this run; it ", absl::StrJoin(differences, ", and "),
                   " (another version of the program, or another model file, takes other tensors for states)"));
}

}  // namespace rewright
