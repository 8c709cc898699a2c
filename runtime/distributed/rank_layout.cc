#include "runtime/distributed/rank_layout.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"

namespace rewright::distributed {
namespace {

constexpr std::pair<const char*, PipelineSchedule> kSchedules[] = {{"1f1b", PipelineSchedule::k1F1B},
                                                                   {"gpipe", PipelineSchedule::kGPipe},
                                                                   {"interleaved", PipelineSchedule::kInterleaved},
                                                                   {"zero_bubble", PipelineSchedule::kZeroBubble}};

// Numbers first, first + step, ..
std::vector<int> Stepping(int first, int step, int count) {
  std::vector<int> ranks;
  for (int k = 0; k < count; ++k) ranks.push_back(first + k * step);
  return ranks;
}

}  // namespace

std::vector<int> RankLayout::ModelParallelGroup(int rank) const {
  return Stepping(rank / group_size() * group_size(), 1, group_size());
}
std::vector<int> RankLayout::PassGroup(int rank) const {
  return Stepping(rank / pass_ranks() * pass_ranks(), 1, pass_ranks());
}
std::vector<int> RankLayout::PipelineGroup(int rank) const {
  return Stepping(rank / group_size() * group_size() + rank % pass_ranks(), pass_ranks(), pp);
}
std::vector<int> RankLayout::DataParallelGroup(int rank) const {
  return Stepping(rank % group_size(), group_size(), dp);
}

std::vector<int> RankLayout::ShardOrder() const {
  std::vector<int> order;
  for (int number = 0; number < group_size(); ++number) {
    const std::vector<int> group = DataParallelGroup(number);
    order.insert(order.end(), group.begin(), group.end());
  }
  return order;
}

namespace {

absl::Status LayoutError(const std::string& text, const std::string& expected) {
  return absl::InvalidArgumentError(absl::StrCat("--layout: found `", text, "`, expected ", expected));
}

}  // namespace

absl::StatusOr<RankLayout> ParseLayout(const std::string& text, int ranks) {
  if (text.empty()) return RankLayout{.dp = ranks};
  ASSIGN_OR_RETURN(const RankLayout layout, ParseLayout(text));
  if (layout.ranks() == ranks) return layout;
  return LayoutError(text, absl::StrCat("mpirun -n ", layout.ranks(), " rewright train .., found ", ranks,
                                        ranks == 1 ? " rank" : " ranks"));
}

absl::StatusOr<RankLayout> ParseLayout(const std::string& text) {
  RankLayout layout;
  const auto error = [&](const std::string& expected) { return LayoutError(text, expected); };
  std::set<std::string> given;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::vector<std::string> sides = absl::StrSplit(part, '=');
    const std::string key = sides[0], value = sides.size() == 2 ? sides[1] : "";
    struct Field {
      std::string key;
      int64_t least, most;
      std::function<void(int64_t)> set;
    };
    const Field fields[] = {
        {"dp", 1, 1 << 20, [&](int64_t number) { layout.dp = static_cast<int>(number); }},
        {"tp", 1, 1 << 20, [&](int64_t number) { layout.tp = static_cast<int>(number); }},
        {"cp", 1, 1 << 20, [&](int64_t number) { layout.cp = static_cast<int>(number); }},
        {"pp", 1, 1 << 20, [&](int64_t number) { layout.pp = static_cast<int>(number); }},
        {"zero", 0, 3, [&](int64_t number) { layout.zero = static_cast<int>(number); }},
        {"micro", 1, 1 << 24, [&](int64_t number) { layout.micro = number; }},
        {"chunks", 2, 1 << 10, [&](int64_t number) { layout.chunks = static_cast<int>(number); }},
    };
    int64_t number = 0;
    bool good = given.insert(key).second;
    if (key == "schedule") {
      const auto found = std::find_if(std::begin(kSchedules), std::end(kSchedules),
                                      [&](const auto& schedule) { return schedule.first == value; });
      good &= found != std::end(kSchedules);
      if (good) layout.schedule = found->second;
    } else {
      const auto* field =
          std::find_if(std::begin(fields), std::end(fields), [&](const Field& f) { return f.key == key; });
      good &= field != std::end(fields) && absl::SimpleAtoi(value, &number) && number >= field->least &&
              number <= field->most;
      if (good) field->set(number);
    }
    if (!good) {
      return error(
          "dp=N, tp=N, pp=N, cp=N, zero=0..3, micro=M, schedule=1f1b|gpipe|interleaved|zero_bubble or chunks=C above "
          "1, each at most once");
    }
  }
  const bool interleaved = layout.schedule == PipelineSchedule::kInterleaved;
  if (given.contains("chunks") && !interleaved) return error("chunks with schedule=interleaved");
  if (interleaved && !given.contains("chunks")) layout.chunks = 2;
  if (layout.cp > 1 && layout.group_size() > layout.cp) return error("cp=N without tp and pp");
  if (given.contains("schedule") && layout.pp == 1) return error("schedule with pp=N");
  return layout;
}

std::string PrintLayout(const RankLayout& layout) {
  std::string text;
  const auto add = [&](const char* key, int64_t number, int64_t usual) {
    if (number != usual) absl::StrAppend(&text, text.empty() ? "" : ",", key, "=", number);
  };
  add("dp", layout.dp, layout.ranks() == 1 ? 0 : 1);
  add("tp", layout.tp, 1);
  add("pp", layout.pp, 1);
  add("cp", layout.cp, 1);
  add("zero", layout.zero, 0);
  add("micro", layout.micro, 0);
  if (layout.pp > 1 && layout.schedule != PipelineSchedule::k1F1B) {
    const auto* found = std::find_if(std::begin(kSchedules), std::end(kSchedules),
                                     [&](const auto& schedule) { return schedule.second == layout.schedule; });
    absl::StrAppend(&text, ",schedule=", found->first);
  }
  if (layout.schedule == PipelineSchedule::kInterleaved) add("chunks", layout.chunks, 1);
  return text;
}

}  // namespace rewright::distributed
