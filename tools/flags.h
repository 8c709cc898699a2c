// Flags whose errors say what was found and what was expected.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace rewright {

// Each gives the option, to make it required and so on. `*value` holds the default and keeps it when the flag is not
// given. A value that does not fit throws CLI::ValidationError, which ends the program with status 2.
CLI::Option* AddInt(CLI::App& app, const std::string& names, int64_t* value, int64_t min, int64_t max,
                    const std::string& doc);
CLI::Option* AddReal(CLI::App& app, const std::string& names, double* value, double min, double max,
                     const std::string& doc);
// The path of something to write. One that is given is not empty: an unset variable of a script must not pass for "not
// given".
CLI::Option* AddOutputPath(CLI::App& app, const std::string& names, std::string* path, const std::string& doc);
// Bytes, with an optional unit K, M, G, T (powers of 1024).
CLI::Option* AddBytes(CLI::App& app, const std::string& names, int64_t* value, const std::string& doc);
CLI::Option* AddChoice(CLI::App& app, const std::string& names, std::string* value,
                       const std::vector<std::string>& choices, const std::string& doc);
// NAME=VALUE, repeatable. A name given twice is an error.
CLI::Option* AddPairs(CLI::App& app, const std::string& names, std::map<std::string, std::string>* values,
                      const std::string& doc);
// NAME=N, repeatable.
CLI::Option* AddSizes(CLI::App& app, const std::string& names, std::map<std::string, int64_t>* values,
                      const std::string& doc);

// "1234", "4K", "1.5G"; false where it is none of these.
bool ParseBytes(const std::string& text, int64_t* bytes);

}  // namespace rewright
