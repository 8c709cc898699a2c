#include "runtime/comm/mpi.h"

#ifndef REWRIGHT_MPI

#include <memory>
#include <utility>

#include "runtime/comm/in_process.h"

namespace rewright {

Communicator& ProcessRanks() {
  static const std::unique_ptr<Communicator> alone = std::move(InProcessRanks(1)[0]);
  return *alone;
}

}  // namespace rewright

#else

#include <mpi.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <future>
#include <iostream>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"

namespace rewright {
namespace {

using Clock = std::chrono::steady_clock;

// MPI counts in int, and a part of this size is no burden to any transport.
constexpr size_t kMostBytes = size_t{1} << 30;
// The time during which a rank looks for messages without a pause, and the naps later: a rank that has waited longer
// looks less often. So looking takes hardly any time from work on the same core, and a nap is a small part of the time
// that was waited.
constexpr double kSpinSeconds = 1e-4;
constexpr std::chrono::microseconds kNap{20}, kLongestNap{500};
constexpr double kNapOfWaited = 1.0 / 16;
// From one look to the next; if more seconds go by, the process did not run.
constexpr double kLongestTurn = 0.1;
constexpr int kAborted = 2;  // exit status
// Tags: of the question whom a rank waits for, of the answer, and from the last on of what ranks exchange, by channel.
// (MPI has tags to 32767 at least.)
constexpr int kQuestion = 0, kAnswer = 1, kMessage = 2;
// The seconds within which a rank that waits itself has to answer.
constexpr double kAnswerSeconds = 1;
constexpr std::chrono::milliseconds kLook{50};  // from one look to the next at the end
constexpr char kEnded[] = "rewright ended";     // name of a process that has left the others, at most 15 characters

// Returns whether a launcher started the process, by the variables that Open MPI and followers of the PMI set.
bool StartedByMpirun() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMI_SIZE") != nullptr ||
         std::getenv("PMIX_RANK") != nullptr;
}

// The machine and, where processes have numbers of their own in a container, that.
std::string PlaceOfProcesses() {
  char name[256] = "", numbers[64] = "";
  gethostname(name, sizeof name - 1);
  if (readlink("/proc/self/ns/pid", numbers, sizeof numbers - 1) < 0) numbers[0] = '\0';
  return absl::StrCat(name, "/", numbers);
}

int Number(int (*read)(MPI_Comm, int*)) {
  int number = 0;
  read(MPI_COMM_WORLD, &number);
  return number;
}

std::string ErrorText(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return std::string(text, static_cast<size_t>(length));
}

// Begun before the communicator asks for its rank, ended behind it.
class Environment {
 protected:
  Environment() : begun_(StartedByMpirun()) {
    if (!begun_) return;
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    for_one_thread_ = provided < MPI_THREAD_SERIALIZED;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  }
  const bool begun_;
  bool for_one_thread_ = false;
};

// Seconds since the beginning or the last restart, without those for which this process did not run: it is to be asked
// more often than every kLongestTurn.
class Waited {
 public:
  double Seconds() {
    const Clock::time_point now = Clock::now();
    seconds_ += std::min(std::chrono::duration<double>(now - before_).count(), kLongestTurn);
    before_ = now;
    return seconds_;
  }
  void Restart() { seconds_ = 0; }

 private:
  double seconds_ = 0;
  Clock::time_point before_ = Clock::now();
};

// Parts of messages on their way.
struct Requests : Transfer {
  // Cancels requests that were not waited for because of an error, so that nothing is received into memory that may be
  // freed now. (Sends cannot be recalled; the process ends next.)
  ~Requests() override {
    for (size_t i = 0; i < requests.size(); ++i) {
      if (parts[i].receives) {
        MPI_Cancel(&requests[i]);
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
      } else {
        MPI_Request_free(&requests[i]);
      }
    }
  }

  struct Part {
    int other;  // whom it is to or from
    int bytes;
    bool receives;
  };
  // Takes out part i, which is done.
  void Remove(size_t i) {
    requests[i] = requests.back();
    parts[i] = parts.back();
    requests.pop_back();
    parts.pop_back();
  }

  std::string what;
  std::vector<MPI_Request> requests;
  std::vector<Part> parts;  // of each request
};

class MpiRanks : private Environment, public Communicator {
 public:
  MpiRanks() : Communicator(begun_ ? Number(MPI_Comm_rank) : 0, begun_ ? Number(MPI_Comm_size) : 1) {}

  // Called at the end of the process, with its status.
  void Leave(int status) {
    if (!begun_ || aborted_) return;
    End();
    std::cout.flush();
    std::fflush(nullptr);
    _exit(status);  // at once: the others have left, and would not see that it hangs
  }

  void Abort(const absl::Status&) override {
    aborted_ = true;
    if (begun_) MPI_Abort(MPI_COMM_WORLD, kAborted);
  }

  bool for_one_thread() const override { return for_one_thread_; }
  // The limit counts from the last part that arrived, without the time for which this process was stopped itself.
  absl::Status Wait(Transfer& transfer) override;

 private:
  absl::StatusOr<std::unique_ptr<Transfer> > Begin(int channel, const std::string& what,
                                                   const std::vector<Outgoing>& out,
                                                   const std::vector<Incoming>& in) override {
    auto under_way = std::make_unique<Requests>();
    under_way->what = what;
    for (const Incoming& part : in) {
      RETURN_IF_ERROR(Add(part.from, part.bytes, true, *under_way, [&](size_t at, int bytes, MPI_Request* request) {
        return MPI_Irecv(static_cast<char*>(part.data) + at, bytes, MPI_BYTE, part.from, kMessage + channel,
                         MPI_COMM_WORLD, request);
      }));
    }
    for (const Outgoing& part : out) {
      RETURN_IF_ERROR(Add(part.to, part.bytes, false, *under_way, [&](size_t at, int bytes, MPI_Request* request) {
        return MPI_Isend(static_cast<const char*>(part.data) + at, bytes, MPI_BYTE, part.to, kMessage + channel,
                         MPI_COMM_WORLD, request);
      }));
    }
    return under_way;
  }

  template <typename Call>
  absl::Status Add(int other, size_t bytes, bool receives, Requests& under_way, const Call& call) {
    size_t at = 0;
    do {
      const auto part = static_cast<int>(std::min(bytes - at, kMostBytes));
      MPI_Request request = MPI_REQUEST_NULL;
      RETURN_IF_ERROR(Checked(under_way.what, other, call(at, part, &request)));
      under_way.requests.push_back(request);
      under_way.parts.push_back({other, part, receives});
      at += static_cast<size_t>(part);
    } while (at < bytes);
    return absl::OkStatus();
  }

  // Tells those who ask whom this rank waits for.
  void Answer(int waits_for) {
    int asked = 0;
    MPI_Status status;
    while (MPI_Iprobe(MPI_ANY_SOURCE, kQuestion, MPI_COMM_WORLD, &asked, &status) == MPI_SUCCESS && asked != 0) {
      char question = 0;
      MPI_Recv(&question, 1, MPI_BYTE, status.MPI_SOURCE, kQuestion, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(&waits_for, 1, MPI_INT, status.MPI_SOURCE, kAnswer, MPI_COMM_WORLD);  // small: it does not block
    }
  }
  // The rank for which another rank waits; none where it does not answer: it computes, hangs or was stopped.
  std::optional<int> Ask(int other, int waits_for) {
    char question = 0;
    MPI_Send(&question, 1, MPI_BYTE, other, kQuestion, MPI_COMM_WORLD);
    for (const Clock::time_point start = Clock::now();
         std::chrono::duration<double>(Clock::now() - start).count() < kAnswerSeconds;) {
      Answer(waits_for);
      int answered = 0;
      if (MPI_Iprobe(other, kAnswer, MPI_COMM_WORLD, &answered, MPI_STATUS_IGNORE) != MPI_SUCCESS) return std::nullopt;
      if (answered != 0) {
        int next = 0;
        MPI_Recv(&next, 1, MPI_INT, other, kAnswer, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return next;
      }
      std::this_thread::sleep_for(kNap);
    }
    return std::nullopt;
  }
  // The error of a hang, which names the ranks that wait for each other.
  absl::Status HangOf(const std::string& what, int other) {
    std::vector<int> chain = {other};
    while (chain.size() < static_cast<size_t>(size())) {
      const std::optional<int> next = Ask(chain.back(), other);
      if (!next || *next == rank() || std::count(chain.begin(), chain.end(), *next) > 0) break;
      chain.push_back(*next);
    }
    return WaitedFor(what, chain);
  }

  // Leaves the others, which all end now. MPI waits for them without an end and without a message, so a thread looks at
  // the clock; and after that no rank can send one, so those of this machine look at each other's processes.
  void End();
  // The other ranks with a process on this machine whose name and state (proc(5)) `is` accepts.
  std::vector<int> OnThisMachine(const std::function<bool(const std::string& name, char state)>& is) const;
  void SayAndLeave(const absl::Status& status) const {
    std::cerr << "rewright: rank " << rank() << ": " << status.message() << std::endl;
    _exit(kAborted);
  }

  // Takes out the parts that are done. Errors: a rank is lost, a part of another size.
  absl::Status TakeDone(Requests& under_way, const std::vector<int>& indices, const std::vector<MPI_Status>& statuses,
                        int code);

  absl::Status Checked(const std::string& what, int other, int code) const {
    if (code == MPI_SUCCESS) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(what, ": rank ", rank(), " lost rank ", other, ": ", ErrorText(code)));
  }

  bool aborted_ = false;
  std::vector<std::string> processes_;  // by rank, host and number, at the end
};

std::vector<int> MpiRanks::OnThisMachine(const std::function<bool(const std::string&, char)>& is) const {
  std::vector<int> found;
  for (int other = 0; other < size(); ++other) {
    const std::vector<std::string> words = absl::StrSplit(processes_[other], ' ');
    if (other == rank() || words[0] != PlaceOfProcesses()) continue;
    std::ifstream file(absl::StrCat("/proc/", words[1], "/stat"));  // "17 (name) S ..."
    std::string stat;
    std::getline(file, stat);
    const size_t begin = stat.find('('), end = stat.rfind(')');
    if (end == std::string::npos || end + 2 >= stat.size()) continue;
    const char state = stat[end + 2];
    if (state != 'Z' && is(stat.substr(begin + 1, end - begin - 1), state)) found.push_back(other);
  }
  return found;
}

void MpiRanks::End() {
  const std::string what = "the end";
  absl::StatusOr<std::vector<std::string> > processes =
      Guarded([&] { return AllGather(*this, what, absl::StrCat(PlaceOfProcesses(), " ", getpid())); });
  if (!processes.ok()) SayAndLeave(processes.status());
  processes_ = *std::move(processes);
  std::promise<void> left;
  auto look = [&, done = left.get_future()] {
    for (Waited waited; waited.Seconds() <= timeout();) {
      if (done.wait_for(kLook) != std::future_status::timeout) return;
    }
    const std::vector<int> stopped = OnThisMachine([](const std::string&, char state) { return state == 'T'; });
    SayAndLeave(stopped.empty() ? absl::DeadlineExceededError(absl::StrCat(what, ": rank ", rank(), " waited ",
                                                                           timeout(), " s for others to leave MPI"))
                                : WaitedFor(what, {stopped[0]}));
  };
  std::thread watch(std::move(look));
  MPI_Finalize();
  left.set_value();
  watch.join();
  // MPI lets a rank go that others do not wait for any more, and mpirun waits for it.
  prctl(PR_SET_NAME, kEnded);
  const auto is_there = [](const std::string& name, char) { return name != kEnded; };
  for (Waited waited;;) {
    const std::vector<int> there = OnThisMachine(is_there);
    if (there.empty()) return;
    if (waited.Seconds() > timeout()) SayAndLeave(WaitedFor(what, {there[0]}));
    std::this_thread::sleep_for(kLongestNap);
  }
}

absl::Status MpiRanks::TakeDone(Requests& under_way, const std::vector<int>& indices,
                                const std::vector<MPI_Status>& statuses, int code) {
  for (size_t k = 0; k < indices.size(); ++k) {
    const auto& [other, bytes, receives] = under_way.parts[indices[k]];
    // Each has a code of its own where the call has none for all.
    RETURN_IF_ERROR(Checked(under_way.what, other, code == MPI_ERR_IN_STATUS ? statuses[k].MPI_ERROR : code));
    int count = bytes;
    if (receives) MPI_Get_count(&statuses[k], MPI_BYTE, &count);
    if (count == bytes) continue;
    return absl::InternalError(
        absl::StrCat(under_way.what, ": rank ", other, " sent ", count, " bytes, rank ", rank(), " expected ", bytes));
  }
  std::vector<int> descending = indices;
  std::sort(descending.begin(), descending.end(), std::greater<>());
  for (int index : descending) under_way.Remove(static_cast<size_t>(index));
  return absl::OkStatus();
}

absl::Status MpiRanks::Wait(Transfer& transfer) {
  auto& under_way = static_cast<Requests&>(transfer);
  Waited waited;
  std::vector<int> indices;
  std::vector<MPI_Status> statuses;
  while (!under_way.requests.empty()) {
    const size_t left = under_way.requests.size();
    indices.resize(left);
    statuses.resize(left);
    int done = 0;
    const int code =
        MPI_Testsome(static_cast<int>(left), under_way.requests.data(), &done, indices.data(), statuses.data());
    if (done == MPI_UNDEFINED) done = 0;
    if (done > 0) {
      indices.resize(static_cast<size_t>(done));
      RETURN_IF_ERROR(TakeDone(under_way, indices, statuses, code));
      waited.Restart();
      continue;
    }
    const int other = under_way.parts[0].other;
    if (code != MPI_SUCCESS) return Checked(under_way.what, other, code);
    const double seconds = waited.Seconds();
    if (seconds > timeout()) return HangOf(under_way.what, other);
    if (seconds < kSpinSeconds) {
      sched_yield();
    } else {
      Answer(other);
      const std::chrono::duration<double> share(seconds * kNapOfWaited);
      std::this_thread::sleep_for(std::clamp<std::chrono::duration<double> >(share, kNap, kLongestNap));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Communicator& ProcessRanks() {
  static MpiRanks& ranks = []() -> MpiRanks& {
    auto* const made = new MpiRanks;  // there at the end
    on_exit([](int status, void* it) { static_cast<MpiRanks*>(it)->Leave(status); }, made);
    return *made;
  }();
  return ranks;
}

}  // namespace rewright

#endif
