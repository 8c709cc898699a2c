#include "tools/program/interrupt.h"

#include <signal.h>
#include <unistd.h>

namespace rewright {
namespace {

// A signal handler can reach nothing but a global; it is written here alone.
std::atomic<bool> signalled{false};
static_assert(std::atomic<bool>::is_always_lock_free);
int guards = 0;  // that exist, one inside the other

constexpr char kMessage[] = "\ninterrupted: ending with what there is so far (Ctrl-C again to kill)\n";

void HandleSignal(int) {
  signalled.store(true);
  // Only functions that are safe in a signal handler; the message is a courtesy.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  if (guards++ > 0) return;
  struct sigaction action = {};
  action.sa_handler = HandleSignal;
  // The usual effect comes back with the first signal; calls that were under way go on.
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

InterruptGuard::~InterruptGuard() {
  if (--guards > 0) return;
  // The program only has to end now: a signal would turn a result that is written into a failure.
  signal(SIGINT, SIG_IGN);
  signal(SIGTERM, SIG_IGN);
}

const std::atomic<bool>& InterruptGuard::flag() { return signalled; }

}  // namespace rewright
