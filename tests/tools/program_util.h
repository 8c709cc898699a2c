// Runs the program as a user does.
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace rewright {

struct Outcome {
  int status = -1;  // exit status; 128 + signal where one killed it
  std::string out;
  std::string err;
  // The object on standard output; a test failure where there is none.
  nlohmann::json Json() const;
};

// Runs `rewright ARGUMENTS` in a shell.
Outcome Rewright(const std::string& arguments);

// The same; sends it an interrupt as soon as it has written `word` to its log.
Outcome RewrightInterrupted(const std::string& arguments, const std::string& word);

// The same; sends it after so many seconds, whatever it does then.
Outcome RewrightInterruptedAfter(const std::string& arguments, double seconds);

// Runs a shell script in which $program is the program; $out and $err are the files of what is given back.
Outcome RewrightScript(const std::string& script);

// A folder that is removed, with what it holds, when it goes out of scope.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  // Names of the files inside, sorted.
  std::vector<std::string> Files() const;

 private:
  std::string path_;
};

std::string FileContents(const std::string& path);
void WriteContents(const std::string& path, const std::string& contents);

}  // namespace rewright
