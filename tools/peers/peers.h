// Other programs that run models, each a child process that speaks the line protocol of tools/peers/peers.py, so that
// its runs can be interleaved with ours.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"

namespace rewright {

struct PeerSetting {
  std::string kind;    // as peers.py names it: onnxruntime-all, torch, ...
  std::string model;   // an ONNX file
  std::string folder;  // holds the inputs by number, 0.npy, 1.npy, .. and inputs.json with their names; written to
  int threads = 1;
  std::string device = "cpu";     // or "cuda:N"
  std::string precision = "f32";  // on a GPU
  double start_seconds = 300;     // that it may take to load and compile
  double run_seconds = 120;       // and for one run
};

class Peer {
 public:
  // Errors: NotFound where the peer is not installed or cannot run the model, with its own words.
  static absl::StatusOr<std::unique_ptr<Peer>> Start(const PeerSetting& setting);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  const std::string& version() const { return version_; }
  // Runs once; gives the seconds as the peer measured them.
  absl::StatusOr<double> Run();
  // Runs once; gives the outputs in the model's order.
  absl::StatusOr<std::vector<Tensor>> Outputs();

 private:
  explicit Peer(PeerSetting setting) : setting_(std::move(setting)) {}
  absl::Status Spawn(const std::string& python, const std::string& script);
  // Sends a line and gives the answer to it, without the word that it must begin with.
  absl::StatusOr<std::string> Ask(const std::string& line, const std::string& word, double seconds);
  absl::StatusOr<std::string> ReadLine(double seconds);

  PeerSetting setting_;
  std::string version_;
  pid_t process_ = -1;
  int socket_ = -1;
  std::string unread_;
};

// All kinds that peers.py knows.
const std::vector<std::string>& PeerKinds();

}  // namespace rewright
