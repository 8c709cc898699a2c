#include "tools/peers/peers.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/data_file.h"
#include "core/base/status_macros.h"
#include "core/onnx/onnx.h"

namespace rewright {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxLine = 1 << 16;
constexpr int kMaxOutputs = 10000;

}  // namespace

const std::vector<std::string>& PeerKinds() {
  static const auto* kinds = new std::vector<std::string>{"onnxruntime-disabled",
                                                          "onnxruntime-basic",
                                                          "onnxruntime-extended",
                                                          "onnxruntime-all",
                                                          "openvino",
                                                          "torch",
                                                          "torch-compile",
                                                          "jax"};
  return *kinds;
}

absl::StatusOr<std::unique_ptr<Peer>> Peer::Start(const PeerSetting& setting) {
  absl::StatusOr<std::string> script = FindDataFile("peers.py", REWRIGHT_TOOLS_DIR);
  if (!script.ok()) return script.status();
  std::unique_ptr<Peer> peer(new Peer(setting));
  RETURN_IF_ERROR(peer->Spawn(PythonProgram(), *script));
  absl::StatusOr<std::string> answer = peer->ReadLine(setting.start_seconds);
  if (!answer.ok()) return absl::NotFoundError(answer.status().message());
  if (answer->rfind("ready ", 0) == 0) {
    peer->version_ = answer->substr(6);
    return peer;
  }
  const bool absent = answer->rfind("absent ", 0) == 0;
  return absl::NotFoundError(absent ? answer->substr(7) : absl::StrCat("answered `", *answer, "`, expected ready"));
}

absl::Status Peer::Spawn(const std::string& python, const std::string& script) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::InternalError(absl::StrCat("no socket for a peer: ", std::strerror(errno)));
  }
  std::vector<std::string> words = {python,          script,
                                    setting_.kind,   setting_.model,
                                    setting_.folder, absl::StrCat(setting_.threads),
                                    setting_.device, setting_.precision};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  process_ = fork();
  if (process_ == 0) {
    // The libraries' own prints are dropped; answers go to the socket alone.
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(ends[1], STDIN_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  close(ends[1]);
  socket_ = ends[0];
  if (process_ < 0) return absl::InternalError(absl::StrCat("no process for a peer: ", std::strerror(errno)));
  return absl::OkStatus();
}

Peer::~Peer() {
  if (socket_ >= 0) close(socket_);  // the end of its input ends it
  if (process_ <= 0) return;
  for (int i = 0; i < 100; ++i) {
    if (waitpid(process_, nullptr, WNOHANG) != 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

absl::StatusOr<std::string> Peer::ReadLine(double seconds) {
  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  while (true) {
    if (const size_t end = unread_.find('\n'); end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    if (unread_.size() > kMaxLine) return absl::InternalError(absl::StrCat(setting_.kind, ": answers without end"));
    const double left = std::chrono::duration<double>(deadline - Clock::now()).count();
    pollfd waiting = {socket_, POLLIN, 0};
    const int ready = left <= 0 ? 0 : poll(&waiting, 1, static_cast<int>(left * 1e3) + 1);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return absl::DeadlineExceededError(absl::StrCat("no answer within ", seconds, " s"));
    char bytes[4096];
    const ssize_t count = recv(socket_, bytes, sizeof bytes, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      return absl::UnavailableError(absl::StrCat(PythonProgram(), " ended without an answer"));
    }
    unread_.append(bytes, static_cast<size_t>(count));
  }
}

absl::StatusOr<std::string> Peer::Ask(const std::string& line, const std::string& word, double seconds) {
  const std::string text = line + "\n";
  if (send(socket_, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size())) {
    return absl::UnavailableError(absl::StrCat(setting_.kind, ": ended before it was asked to"));
  }
  absl::StatusOr<std::string> answer = ReadLine(seconds);
  if (!answer.ok()) {
    return ErrorAt(setting_.kind, answer.status());
  }
  if (answer->rfind(word + " ", 0) != 0) {
    return absl::InternalError(absl::StrCat(setting_.kind, ": answered `", *answer, "`, expected ", word));
  }
  return answer->substr(word.size() + 1);
}

absl::StatusOr<double> Peer::Run() {
  absl::StatusOr<std::string> answer = Ask("run", "ms", setting_.run_seconds);
  if (!answer.ok()) return answer.status();
  double milliseconds = 0;
  if (!absl::SimpleAtod(*answer, &milliseconds) || !(milliseconds >= 0)) {
    return absl::InternalError(absl::StrCat(setting_.kind, ": ran for `", *answer, "` ms"));
  }
  return milliseconds / 1e3;
}

absl::StatusOr<std::vector<Tensor>> Peer::Outputs() {
  absl::StatusOr<std::string> answer = Ask("outputs", "saved", setting_.run_seconds);
  if (!answer.ok()) return answer.status();
  int count = 0;
  if (!absl::SimpleAtoi(*answer, &count) || count < 0 || count > kMaxOutputs) {
    return absl::InternalError(absl::StrCat(setting_.kind, ": saved `", *answer, "` outputs"));
  }
  std::vector<Tensor> outputs;
  for (int i = 0; i < count; ++i) {
    const std::string file = absl::StrCat(setting_.folder, "/", setting_.kind, "-", i, ".npy");
    absl::StatusOr<Tensor> tensor = LoadTensorFile(file);
    if (!tensor.ok()) return tensor.status();
    outputs.push_back(*std::move(tensor));
    std::error_code error;
    std::filesystem::remove(file, error);
  }
  return outputs;
}

}  // namespace rewright
