#include "tools/verbs/layout/layout_file.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"

namespace rewright {
namespace {

constexpr char kKey[] = "layout ";

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
  for (size_t k = 0; k < lines.size(); ++k) {
    const absl::string_view line =
        absl::StripAsciiWhitespace(absl::string_view(lines[k]).substr(0, lines[k].find('#')));
    if (!absl::StartsWith(line, kKey)) continue;
    if (!layout.layout.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(file, ", line ", k + 1, ": found a second layout, expected one"));
    }
    layout.layout = std::string(absl::StripAsciiWhitespace(line.substr(sizeof(kKey) - 1)));
    lines[k].clear();
  }
  std::string rest;
  for (const std::string& line : lines) absl::StrAppend(&rest, line, "\n");
  ASSIGN_OR_RETURN(layout.placements, sharding::ParsePlacements(rest, file));
  return layout;
}

std::string PrintLayoutFile(const LayoutFile& layout, const std::vector<std::string>& remarks) {
  std::string text;
  for (const std::string& remark : remarks) absl::StrAppend(&text, "# ", remark, "\n");
  if (!layout.layout.empty()) absl::StrAppend(&text, kKey, layout.layout, "\n");
  for (const sharding::Placement& placement : layout.placements) {
    absl::StrAppend(&text, placement.tensor, ":", placement.axis, "\n");
  }
  return text;
}

}  // namespace rewright
