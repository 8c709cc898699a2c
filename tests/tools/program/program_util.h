// Runs the program as a user does.
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/support/temporary_folder.h"

namespace rewright {

struct Outcome {
  int status = -1;  // exit status; 128 + signal where one killed it
  std::string out;
  std::string err;
  // The object on standard output; a test failure where there is none. A key that it lacks is null in a variable that
  // is not const, and ends the whole program of tests in one that is.
  nlohmann::json Json() const;
};

// Runs `rewright ARGUMENTS` in a shell.
Outcome Rewright(const std::string& arguments);

// The same; sends it an interrupt as soon as it has written `word` to its log.
Outcome RewrightInterrupted(const std::string& arguments, const std::string& word);

// The same; sends it after `seconds` seconds, whatever the program does then.
Outcome RewrightInterruptedAfter(const std::string& arguments, double seconds);

// Runs a shell script in which $program is the program; $out and $err are the files of what is given back.
Outcome RewrightScript(const std::string& script);

}  // namespace rewright
