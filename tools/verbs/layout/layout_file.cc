#include "tools/verbs/layout/layout_file.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"

namespace rewright {
namespace {

constexpr absl::string_view kLayoutKey = "layout ", kMemoryKey = "memory ";

// Takes the value of the only line that begins with the key out of the lines. Error: there are two.
absl::StatusOr<std::string> TakeValue(absl::string_view key, const std::string& file, std::vector<std::string>* lines) {
  std::string value;
  for (size_t k = 0; k < lines->size(); ++k) {
    const absl::string_view whole = (*lines)[k], line = absl::StripAsciiWhitespace(whole.substr(0, whole.find('#')));
    if (!absl::StartsWith(line, key)) continue;
    if (!value.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(file, ", line ", k + 1, ": found a second ", absl::StripAsciiWhitespace(key), ", expected one"));
    }
    value = std::string(absl::StripAsciiWhitespace(line.substr(key.size())));
    (*lines)[k].clear();
  }
  return value;
}

}  // namespace

std::vector<sharding::Placement> PlacementsOf(const StateAxes& axes) {
  std::vector<sharding::Placement> placements;
  for (const auto& [name, axis] : axes) placements.push_back({name, axis});
  return placements;
}

StateAxes AxesOf(const std::vector<sharding::Placement>& placements) {
  StateAxes axes;
  for (const sharding::Placement& placement : placements) axes.emplace_back(placement.tensor, placement.axis);
  return axes;
}

bool IsLayoutFile(const std::string& layout) { return absl::EndsWith(layout, ".layout"); }

absl::StatusOr<LayoutFile> ParseLayoutFile(const std::string& text, const std::string& file) {
  LayoutFile layout;
  // Placements keep their numbers of lines.
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  ASSIGN_OR_RETURN(layout.layout, TakeValue(kLayoutKey, file, &lines));
  ASSIGN_OR_RETURN(const std::string memory, TakeValue(kMemoryKey, file, &lines));
  if (!memory.empty() && (!absl::SimpleAtoi(memory, &layout.memory_bytes) || layout.memory_bytes <= 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": memory: found `", memory, "`, expected a number of bytes above 0"));
  }
  std::string rest;
  for (const std::string& line : lines) absl::StrAppend(&rest, line, "\n");
  ASSIGN_OR_RETURN(layout.placements, sharding::ParsePlacements(rest, file));
  return layout;
}

std::string PrintLayoutFile(const LayoutFile& layout, const std::vector<std::string>& remarks) {
  std::string text;
  for (const std::string& remark : remarks) absl::StrAppend(&text, "# ", remark, "\n");
  if (!layout.layout.empty()) absl::StrAppend(&text, kLayoutKey, layout.layout, "\n");
  if (layout.memory_bytes > 0) absl::StrAppend(&text, kMemoryKey, layout.memory_bytes, "\n");
  for (const sharding::Placement& placement : layout.placements) {
    absl::StrAppend(&text, placement.tensor, ":", placement.axis, "\n");
  }
  return text;
}

}  // namespace rewright
