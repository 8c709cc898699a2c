// Reads the steps of a proof from the text that certificate/step_writer.h describes, and tells them to an observer.
//
// The text is not trusted. Numbers, lengths, depths and the size of what is written out are limited; objects may only
// mention those before them. The observer judges the steps.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "verifier/normal_form/proof_observer.h"

namespace rewright {

// Not thread-safe. The variables of a text live as long as its reader.
class StepReader {
 public:
  // `first_line`: the number of lines[0] in the file, for messages.
  StepReader(std::string file, size_t first_line);
  ~StepReader();

  // Errors are `file:line: found .., expected ..`; steps before the line have been told.
  absl::Status Tell(const std::vector<absl::string_view>& lines, verifier::ProofObserver* observer);

 private:
  class Scene;
  std::string file_;
  size_t first_line_;
  std::vector<std::unique_ptr<Scene>> scenes_;
};

}  // namespace rewright
