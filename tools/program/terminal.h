// The terminal that a stream is shown on.
#pragma once

#include <cstddef>
#include <string>

namespace rewright {

// Columns of the terminal behind a file descriptor; 0 where it is none, or does not say.
int TerminalWidth(int descriptor);

// The beginning of a line that fits into so many columns, in whole words; a first word that is longer is cut.
std::string WholeWords(const std::string& line, size_t columns);

// Returns whether text on it may have colours: on a terminal that knows them, where NO_COLOR (https://no-color.org) is
// not set.
bool HasColors(int descriptor);

// Lines with their first word in a colour where it is an answer (proved, refuted, ..) or begins a warning or an error.
std::string Colored(const std::string& text);

}  // namespace rewright
