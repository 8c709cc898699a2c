// Journal of the candidates' fates, a line each, on the disk as soon as a round is done. A line that is not as it was
// written (core/base/text_hash.h) is ignored.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/base/files.h"
#include "substitutions/generate/select/rule_builder.h"
#include "verifier/prove_rule.h"

namespace rewright::generate {

// kSpecial: at most true at the sizes of the space alone, with the weight of a convolution in place of an image.
enum class Fate : uint8_t { kDerivable, kProved, kRefuted, kUnknown, kSpecial };
const char* FateName(Fate fate);

struct Outcome {
  Fate fate = Fate::kUnknown;
  // The generality that was proved (kProved).
  Generality generality = Generality::kSpace;
  RuleClass rule_class = RuleClass::kReassociating;
  DomainLimits limits;
  int instances = 0;
  // Names of rules (kDerivable); the condition that was inferred, if any (kProved); else the witness or the open
  // obligation. One line.
  std::string detail;
};

class SelectionJournal {
 public:
  // Reads the file if it exists and opens it for appending. `header` names everything that the run depends on. Errors:
  // the file is of another run, or is no journal; it cannot be written.
  absl::Status Open(const std::string& path, const std::string& header);

  // Null where the candidate is not in the journal.
  const Outcome* Find(const std::string& key) const;
  // Appends, and waits until the disk has it.
  absl::Status Add(const std::vector<std::pair<std::string, Outcome>>& outcomes);

 private:
  std::optional<AppendFile> file_;
  std::map<std::string, Outcome> outcomes_;
};

}  // namespace rewright::generate
