// "Did you mean": the known word nearest to a mistyped one.
#pragma once

#include <string>
#include <vector>

namespace rewright {

// The candidate with the fewest edits (insertion, deletion, substitution, exchange of neighbours) from `word`; empty
// when none is near enough to be meant.
std::string NearestWord(const std::string& word, const std::vector<std::string>& candidates);

// "; did you mean `matmul`?" or nothing.
std::string DidYouMean(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace rewright
