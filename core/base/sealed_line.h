// Lines of a journal that tell whether they are as they were written: the content, a tab, and the content's hash
// (TextHash: it shows accidents and edits, and is no signature).
#pragma once

#include <string>

#include "core/base/text_hash.h"

namespace rewright {

// Without the end of the line; `content` has none either.
inline std::string SealedLine(const std::string& content) { return content + "\t" + TextHash::HexOf(content); }

// Leaves the content. False where the line is not whole or not as it was written.
inline bool OpenSealedLine(std::string* line) {
  const size_t at = line->rfind('\t');
  if (at == std::string::npos || line->substr(at + 1) != TextHash::HexOf(line->substr(0, at))) return false;
  line->resize(at);
  return true;
}

}  // namespace rewright
