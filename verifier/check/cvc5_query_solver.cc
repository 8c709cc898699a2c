#include "verifier/check/cvc5_query_solver.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/status_macros.h"
#include "core/base/stop.h"

extern char** environ;

namespace rewright {
namespace {

constexpr int64_t kLookMilliseconds = 50;  // between looks for a request to stop

constexpr double kUnitsPerSecond = 170000;  // of cvc5's resources, near those of a second of CPU time (2024)
constexpr double kHangFactor = 10;          // times that time

// A file descriptor that is closed.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { Close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

void WriteAll(int fd, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = write(fd, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // the reader has gone: its answers will be missing
    done += static_cast<size_t>(written);
  }
}

// Reads until the other end is closed; false if that takes more than `seconds` on the clock, or is stopped.
bool ReadAll(int fd, double seconds, std::string* text) {
  const absl::Time end = absl::Now() + absl::Seconds(seconds);
  char buffer[4096];
  for (;;) {
    pollfd ready{fd, POLLIN, 0};
    const int64_t left = absl::ToInt64Milliseconds(end - absl::Now());
    if (left <= 0 || StopScope::Stopped()) return false;
    const int polled = poll(&ready, 1, static_cast<int>(std::min<int64_t>(left, kLookMilliseconds)));
    if (polled < 0 && errno != EINTR) return true;
    if (polled <= 0) continue;
    const ssize_t count = read(fd, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    text->append(buffer, static_cast<size_t>(count));
  }
}

// A child process. The destructor kills it if it was not waited for.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  ~Child() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    Wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // How it ended, in words; "" where with status 0.
  std::string Wait() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = 0;
    if (WIFSIGNALED(status)) return absl::StrCat("ended by signal ", WTERMSIG(status));
    return WEXITSTATUS(status) == 0 ? "" : absl::StrCat("ended with status ", WEXITSTATUS(status));
  }

 private:
  pid_t pid_;
};

struct Printed {
  std::string text;
  std::string ending;  // Child::Wait
};

// Runs a program found on PATH with `input` on its standard input, for `seconds` on the clock at most.
absl::StatusOr<Printed> RunFilter(const std::vector<std::string>& command, const std::string& input, double seconds) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0) return absl::InternalError("no pipe can be made");
  Descriptor in_read(in[0]), in_write(in[1]);
  if (pipe2(out, O_CLOEXEC) != 0) return absl::InternalError("no pipe can be made");
  Descriptor out_read(out[0]), out_write(out[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in_read.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out_write.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out_write.get(), STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = 0;
  const int failed = posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    const std::string message = absl::StrCat(command[0], ": ", std::strerror(failed));
    return failed == ENOENT ? absl::NotFoundError(message) : absl::InternalError(message);
  }
  Child child(pid);
  in_read.Close();
  out_write.Close();
  // Writing and reading at once: either pipe may fill. A child that dies early must not kill this process.
  std::thread writer([&] {
    sigset_t pipe_signal;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_signal, nullptr);
    WriteAll(in_write.get(), input);
    in_write.Close();
  });
  Printed printed;
  const bool ended = ReadAll(out_read.get(), seconds, &printed.text);
  if (!ended) kill(pid, SIGKILL);  // the writer ends with it
  writer.join();
  printed.ending = child.Wait();
  if (!ended) return absl::DeadlineExceededError(absl::StrFormat("%s: no end after %g s", command[0], seconds));
  return printed;
}

// cvc5 with these options beside the usual ones. Its resource units limit a query, the clock only where it hangs.
absl::StatusOr<std::vector<SmtAnswer>> AskCvc5(const std::vector<SmtQuery>& queries, double limit_s,
                                               const std::vector<std::string>& options) {
  std::string script;
  for (size_t i = 0; i < queries.size(); ++i) {
    absl::StrAppend(&script, queries[i].text, "(echo \"end of ", i, "\")\n(reset)\n");
  }
  std::vector<std::string> command = {
      "cvc5", "--lang=smt2", "--quiet", absl::StrCat("--rlimit-per=", static_cast<int64_t>(kUnitsPerSecond * limit_s)),
      absl::StrCat("--tlimit-per=", static_cast<int64_t>(1000 * kHangFactor * limit_s))};
  command.insert(command.end(), options.begin(), options.end());
  command.emplace_back("-");
  const double longest_s = 60 + kHangFactor * limit_s * static_cast<double>(queries.size());
  ASSIGN_OR_RETURN(const Printed printed, RunFilter(command, script, longest_s));
  std::vector<SmtAnswer> answers;
  std::string answer;
  for (absl::string_view line : absl::StrSplit(printed.text, '\n', absl::SkipEmpty())) {
    if (line.find("end of ") == absl::string_view::npos) {
      answer = answer.empty() ? std::string(line) : absl::StrCat(answer, "; ", line);
      continue;
    }
    if (answer != "unsat" && answer != "sat" && answer != "unknown") break;
    answers.push_back(answer == "unsat" ? SmtAnswer::kUnsat : answer == "sat" ? SmtAnswer::kSat : SmtAnswer::kUnknown);
    answer.clear();
  }
  if (answers.size() != queries.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cvc5 answered ", answers.size(), " of ", queries.size(), " queries; then: ",
        answer.empty() ? "nothing" : answer.substr(0, 300), printed.ending.empty() ? "" : "; it ", printed.ending));
  }
  return answers;
}

}  // namespace

absl::StatusOr<std::vector<SmtAnswer>> AskCvc5(const std::vector<SmtQuery>& queries, double limit_s) {
  // In one script an answer depends on the earlier questions, in spite of the reset. For products of sizes: planes that
  // touch them, and decisions only about the assertions that are still open.
  const std::vector<std::vector<std::string>> strategies = {{}, {"--decision=justification", "--nl-ext-tplanes"}};
  ASSIGN_OR_RETURN(std::vector<SmtAnswer> answers, AskCvc5(queries, limit_s, strategies[0]));
  for (size_t i = 0; i < queries.size(); ++i) {
    for (const std::vector<std::string>& strategy : strategies) {
      if (answers[i] != SmtAnswer::kUnknown) break;
      ASSIGN_OR_RETURN(const std::vector<SmtAnswer> alone, AskCvc5({queries[i]}, limit_s, strategy));
      answers[i] = alone[0];
    }
  }
  return answers;
}

}  // namespace rewright
