// Journal of the enumeration, from which it resumes after it was ended at any moment: the graphs of every finished
// subtree, with their fingerprints. Each process appends to a file of its own and reads the files of all.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/base/files.h"
#include "substitutions/generate/enumerate/enumerate.h"

namespace rewright::generate {

class EnumerationJournal {
 public:
  ~EnumerationJournal();

  // Opens DIR/enumeration.RANK.journal, and cuts off a line that was not written to the end. `header`, one line, names
  // everything that the run depends on. Errors: a journal there is of another run, or cannot be read or written.
  absl::Status Open(const std::string& folder, int rank, const std::string& header);

  bool is_open() const { return file_.has_value(); }
  // Visits the subtrees of a level that are written so far, in no fixed order; some perhaps twice.
  absl::Status Replay(const Level& level, const std::function<void(const FinishedSubtree&)>& visit) const;

  // Written within a second, and on the disk within 20, as long as more is added.
  // Errors: it cannot be written.
  absl::Status Add(const Level& level, const FinishedSubtree& subtree);
  absl::Status Flush();

 private:
  using Clock = std::chrono::steady_clock;
  struct File {
    std::string path;
    uint64_t begin = 0, end = 0;  // of the blocks
  };

  std::optional<AppendFile> file_;
  std::vector<File> files_;  // this process's is the first
  std::vector<uint64_t> buffer_;
  Clock::time_point written_, synced_;
};

}  // namespace rewright::generate
