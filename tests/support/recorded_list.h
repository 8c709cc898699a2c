// Compares what a test finds with a list that is committed beside it: a case that is new, one that is gone and one of
// which something else is found fail alike.
//
// The file has sections, and in each a line for every case listed, in order of the names:
//
//   # comments, before the first section
//   [section]
//   name | what is found | reason, where one is known
//
// A test that runs a part of its cases is compared with the lines of those that ran.
#pragma once

#include <map>
#include <string>

namespace rewright {

// The findings of a test by the names of its cases; "" of a case that does not belong in the list.
using Findings = std::map<std::string, std::string>;

// Compares the findings with the section of the file, a path from tests/. `whole`: every case was tried, so that a line
// of another one is wrong. With REWRIGHT_RECORD in the environment the lines are made anew instead (Record).
void ExpectRecorded(const std::string& file, const std::string& section, const Findings& findings, bool whole);

// Makes the section's lines of these cases anew, in the file at `path`; reasons stay. One writer at a time, also among
// processes, reads and replaces a list: sections that are recorded side by side are all kept. Thread-safe.
void Record(const std::string& path, const std::string& section, const Findings& findings, bool whole);

}  // namespace rewright
