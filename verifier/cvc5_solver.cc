// Questions to cvc5, in a process of its own. A second opinion: what it says can refuse a proof, and makes none.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"
#include "verifier/query_solver.h"

extern char** environ;

namespace rewright {
namespace {

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

std::string ReadAll(int fd) {
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t count = read(fd, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(buffer, static_cast<size_t>(count));
  }
}

// Runs a program found on PATH with `input` on its standard input, and gives what it prints.
absl::StatusOr<std::string> RunFilter(const std::vector<std::string>& command, const std::string& input) {
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
  pid_t child = 0;
  const int failed = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    const std::string message = absl::StrCat(command[0], ": ", std::strerror(failed));
    return failed == ENOENT ? absl::NotFoundError(message) : absl::InternalError(message);
  }
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
  const std::string printed = ReadAll(out_read.get());
  writer.join();
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return printed;
}

// cvc5 with these options beside the usual ones.
absl::StatusOr<std::vector<SmtAnswer>> AskCvc5(const std::vector<SmtQuery>& queries, double limit_s,
                                               const std::vector<std::string>& options) {
  std::string script;
  for (size_t i = 0; i < queries.size(); ++i) {
    absl::StrAppend(&script, queries[i].text, "(echo \"end of ", i, "\")\n(reset)\n");
  }
  std::vector<std::string> command = {"cvc5", "--lang=smt2", "--quiet",
                                      absl::StrCat("--tlimit-per=", static_cast<int64_t>(1000 * limit_s))};
  command.insert(command.end(), options.begin(), options.end());
  command.emplace_back("-");
  const auto printed = RunFilter(command, script);
  if (!printed.ok()) return printed.status();
  std::vector<SmtAnswer> answers;
  std::string answer;
  for (absl::string_view line : absl::StrSplit(*printed, '\n', absl::SkipEmpty())) {
    if (line.find("end of ") == absl::string_view::npos) {
      answer = answer.empty() ? std::string(line) : absl::StrCat(answer, "; ", line);
      continue;
    }
    if (answer != "unsat" && answer != "sat" && answer != "unknown") break;
    answers.push_back(answer == "unsat" ? SmtAnswer::kUnsat : answer == "sat" ? SmtAnswer::kSat : SmtAnswer::kUnknown);
    answer.clear();
  }
  if (answers.size() != queries.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cvc5 answered ", answers.size(), " of ", queries.size(),
                     " queries; then: ", answer.empty() ? "nothing" : answer.substr(0, 300)));
  }
  return answers;
}

}  // namespace

absl::StatusOr<std::vector<SmtAnswer>> AskCvc5(const std::vector<SmtQuery>& queries, double limit_s) {
  // In one script an answer depends on what was asked before, in spite of the reset. For products of sizes: planes that
  // touch them, and decisions only about what the assertions still hang on.
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
