// The flags and operands of a verb. Few files of this folder include the parser (CLI11): its header costs seconds in
// each of them.
//
// Errors name the value found and the value expected, and end the program with status 2. The variable of a flag holds
// the default and keeps it when the flag is not given.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/numerics/interval.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace rewright {

inline constexpr double kLeastSeconds = 1e-3, kMostSeconds = 1e9;  // of limits of time

// A flag or an operand that is declared; what else holds of it may be said in a chain.
class Flag {
 public:
  // `former_names` is that of the verb, whose declaration is under way.
  Flag(CLI::Option* option, std::map<std::string, std::string>* former_names)
      : option_(option), former_names_(former_names) {}

  Flag Required() const;
  // The name of its value in help: FILE.
  Flag Type(const std::string& name) const;
  // Repeatable, with one value each time; else a list takes all values that follow.
  Flag OneAtATime() const;
  // A list that may be empty.
  Flag AnyNumber() const;
  Flag SplitAt(char delimiter) const;
  Flag Needs(Flag other) const;
  Flag Needs(const std::string& other) const;
  Flag Excludes(Flag other) const;
  Flag Excludes(const std::string& other) const;
  Flag Group(const std::string& name) const;
  // A name that it had in the past: "--old". It still works, with a warning.
  Flag Formerly(const std::string& name) const;
  // Each value is replaced by what this makes of it.
  Flag Map(std::function<std::string(std::string)> change) const;
  // `wrong` gives the fault of a value, empty if there is none; `expected` stands in help.
  Flag Check(std::function<std::string(const std::string&)> wrong, const std::string& expected) const;

  bool given() const;

 private:
  Flag With(CLI::Option* option) const { return {option, former_names_}; }

  CLI::Option* option_;
  std::map<std::string, std::string>* former_names_;
};

// Declares the flags of a verb. `names` are "-o,--output", or that of an operand: "model". Every number has a range.
class CommandLine {
 public:
  explicit CommandLine(CLI::App* app) : app_(app) {}

  Flag Add(const std::string& names, std::string* value, const std::string& doc);
  Flag Add(const std::string& names, std::vector<std::string>* values, const std::string& doc);
  // Set where it is given; "--check,!--no-check" can also be unset.
  Flag AddSwitch(const std::string& names, bool* value, const std::string& doc);
  Flag AddSwitch(const std::string& names, std::function<void(bool)> set, const std::string& doc);

  Flag AddInt(const std::string& names, int64_t* value, int64_t min, int64_t max, const std::string& doc);
  Flag AddNatural(const std::string& names, uint64_t* value, const std::string& doc);  // an integer of at least 0
  Flag AddReal(const std::string& names, double* value, double min, double max, const std::string& doc);
  // From `min` to kMostSeconds.
  Flag AddSeconds(const std::string& names, double* value, double min, const std::string& doc);
  // The path of something to write. One that is given is not empty: an unset variable of a script must not pass for
  // "not given".
  Flag AddOutputPath(const std::string& names, std::string* path, const std::string& doc);
  // Bytes, with an optional unit K, M, G, T (powers of 1024).
  Flag AddBytes(const std::string& names, int64_t* value, const std::string& doc);
  Flag AddChoice(const std::string& names, std::string* value, const std::vector<std::string>& choices,
                 const std::string& doc);
  // NAME=VALUE, repeatable. A name given twice is an error.
  // `second_is_key`: the map leads from the second to the first.
  Flag AddPairs(const std::string& names, std::map<std::string, std::string>* values, const std::string& doc,
                const std::string& type = "NAME=FILE", bool second_is_key = false);
  // NAME=LO:HI with numbers LO <= HI, repeatable.
  Flag AddRanges(const std::string& names, std::map<std::string, Interval>* values, const std::string& doc);
  // NAME=N, repeatable.
  Flag AddSizes(const std::string& names, std::map<std::string, int64_t>* values, const std::string& doc);

  bool Given(const std::string& name) const;

  // Names of the past, and those that they have now.
  const std::map<std::string, std::string>& former_names() const { return former_names_; }

 private:
  Flag Made(CLI::Option* option) { return Flag(option, &former_names_); }
  Flag AddParsed(const std::string& names, std::function<void(const std::string&)> parse, const std::string& doc);
  Flag AddParsedList(const std::string& names, std::function<void(const std::vector<std::string>&)> parse,
                     const std::string& doc);

  CLI::App* app_;
  std::map<std::string, std::string> former_names_;
};

// "1234", "4K", "1.5G"; false where it is none of these.
bool ParseBytes(const std::string& text, int64_t* bytes);

}  // namespace rewright
