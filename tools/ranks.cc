#include "tools/ranks.h"

#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "core/base/guarded.h"

namespace rewright {

absl::StatusOr<Answer> OnProcessRanks(const std::string& verb, Communicator& ranks, Console& console,
                                      const std::function<absl::StatusOr<Answer>()>& work) {
  if (ranks.size() == 1) return work();
  const absl::StatusOr<Answer> answer = Guarded(work);
  if (answer.ok() || absl::IsCancelled(answer.status())) return answer;
  // What all of them find is said once, by rank 0, which ends the others meanwhile.
  if (ranks.rank() != 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
  console.Error(absl::StrCat("rewright ", verb, ": rank ", ranks.rank(), ": ", std::string(answer.status().message())));
  ranks.Abort(answer.status());
  return answer;
}

}  // namespace rewright
