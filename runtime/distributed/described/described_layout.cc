#include "runtime/distributed/described/described_layout.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace rewright::distributed {
namespace {

constexpr char kDescribedKeys[] = "remat=none|full, offload=0|1, overlap=0|1, inner=pp|dp or ep=N";

}  // namespace

absl::StatusOr<DescribedLayout> ParseDescribedLayout(const std::string& text) {
  DescribedLayout layout;
  std::vector<std::string> others;
  int ep = 1;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(text, ','))) {
    const std::vector<std::string> sides = absl::StrSplit(part, '=');
    const std::string value = sides.size() == 2 ? sides[1] : "";
    bool good = true;
    if (sides[0] == "remat") {
      good = value == "none" || value == "full";
      layout.recompute = value == "full";
    } else if (sides[0] == "overlap" || sides[0] == "offload") {
      good = value == "0" || value == "1";
      (sides[0] == "overlap" ? layout.overlap : layout.offload) = value == "1";
    } else if (sides[0] == "inner") {
      good = value == "pp" || value == "dp";
      layout.replicas_inside = value == "dp";
    } else if (sides[0] == "ep") {
      good = absl::SimpleAtoi(value, &ep) && ep > 0;
    } else {
      others.push_back(part);
    }
    if (!good) {
      return absl::InvalidArgumentError(
          absl::StrCat("--layout: found `", part, "`, expected ", kDescribedKeys));
    }
  }
  if (!others.empty()) {
    const absl::StatusOr<RankLayout> ranks = ParseLayout(absl::StrJoin(others, ","));
    if (!ranks.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(ranks.status().message(), "; of a model also ", kDescribedKeys));
    }
    layout.ranks = *ranks;
  }
  if (ep != 1 && ep != layout.ranks.dp) {
    return absl::InvalidArgumentError(absl::StrCat("--layout: found ep=", ep, ", expected 1 or dp, ", layout.ranks.dp));
  }
  layout.expert_parallel = ep > 1;
  return layout;
}

std::string PrintLayout(const DescribedLayout& layout) {
  std::string text = PrintLayout(layout.ranks);
  const auto add = [&](const std::string& part) { absl::StrAppend(&text, text.empty() ? "" : ",", part); };
  if (layout.recompute) add("remat=full");
  if (layout.offload) add("offload=1");
  if (layout.overlap) add("overlap=1");
  if (layout.replicas_inside) add("inner=dp");
  if (layout.expert_parallel) add(absl::StrCat("ep=", layout.ranks.dp));
  return text;
}

}  // namespace rewright::distributed
