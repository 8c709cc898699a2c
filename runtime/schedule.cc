#include "runtime/schedule.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"

namespace rewright {
namespace {

// Tells whether two buffers may have elements in common.
class Overlap {
 public:
  explicit Overlap(const std::vector<Buffer>& buffers) : buffers_(buffers) {}

  bool operator()(int a, int b) const {
    const ResolvedBuffer at = ResolveBuffer(buffers_, a), bt = ResolveBuffer(buffers_, b);
    const auto end = [&](const ResolvedBuffer& from, int id) {
      return from.offset + static_cast<int64_t>(buffers_[id].bytes);
    };
    return at.root == bt.root && at.offset < end(bt, b) && bt.offset < end(at, a) && !InDifferentParts(a, b);
  }

 private:
  // Returns whether the two are different parts of one buffer.
  bool InDifferentParts(int a, int b) const {
    for (; buffers_[a].alias_of >= 0; a = buffers_[a].alias_of) {
      if (!buffers_[a].part) continue;
      for (int c = b; buffers_[c].alias_of >= 0; c = buffers_[c].alias_of) {
        if (buffers_[c].part && buffers_[c].alias_of == buffers_[a].alias_of && c != a) return true;
      }
    }
    return false;
  }

  const std::vector<Buffer>& buffers_;
};

}  // namespace

absl::Status ScheduleFault(const std::string& message) { return absl::InternalError("schedule: " + message); }

ResolvedBuffer ResolveBuffer(const std::vector<Buffer>& buffers, int id) {
  ResolvedBuffer at{id, 0};
  for (; buffers[at.root].alias_of >= 0; at.root = buffers[at.root].alias_of) {
    at.offset += static_cast<int64_t>(buffers[at.root].offset);
  }
  return at;
}

absl::StatusOr<std::vector<ResolvedBuffer>> ResolveBuffers(const std::vector<Buffer>& buffers) {
  const int count = static_cast<int>(buffers.size());
  for (int id = 0; id < count; ++id) {
    const Buffer& view = buffers[id];
    if (view.alias_of < 0) continue;
    if (view.alias_of >= count) {
      return ScheduleFault(absl::StrCat("buffer ", id, " is a view of buffer ", view.alias_of, ", of ", count));
    }
    const Buffer& base = buffers[view.alias_of];
    if (view.offset + view.bytes > base.bytes) {
      return ScheduleFault(absl::StrCat("buffer ", id, " views bytes ", view.offset, "..", view.offset + view.bytes,
                                        " of buffer ", view.alias_of, ", which has ", base.bytes));
    }
  }
  std::vector<ResolvedBuffer> resolved;
  for (int id = 0; id < count; ++id) {
    int root = id;
    for (int depth = 0; buffers[root].alias_of >= 0; ++depth, root = buffers[root].alias_of) {
      if (depth > count) return ScheduleFault(absl::StrCat("buffer ", id, " is a view of itself"));
    }
    resolved.push_back(ResolveBuffer(buffers, id));
  }
  return resolved;
}

std::vector<std::vector<int>> DependenciesOf(const Schedule& schedule) {
  struct Use {
    int step, buffer;
  };
  struct Uses {
    std::vector<Use> reads, writes;
  };
  const Overlap overlap(schedule.buffers);
  std::map<int, Uses> uses;  // by root
  std::vector<std::vector<int>> dependencies;
  for (int s = 0; s < static_cast<int>(schedule.steps.size()); ++s) {
    std::vector<int> needed;
    const auto wait_for = [&](const std::vector<Use>& earlier, int buffer) {
      for (const Use& use : earlier) {
        if (overlap(use.buffer, buffer)) needed.push_back(use.step);
      }
    };
    for (const BufferUse& use : schedule.steps[s].buffers) {
      const Uses& before = uses[ResolveBuffer(schedule.buffers, use.buffer).root];
      wait_for(before.writes, use.buffer);
      if (Writes(use.access)) wait_for(before.reads, use.buffer);
    }
    std::sort(needed.begin(), needed.end());
    needed.erase(std::unique(needed.begin(), needed.end()), needed.end());
    dependencies.push_back(std::move(needed));
    for (const BufferUse& use : schedule.steps[s].buffers) {
      Uses& own = uses[ResolveBuffer(schedule.buffers, use.buffer).root];
      if (Reads(use.access)) own.reads.push_back({s, use.buffer});
      if (Writes(use.access)) own.writes.push_back({s, use.buffer});
    }
  }
  return dependencies;
}

Section MakeSection(const std::vector<std::vector<int>>& dependencies, int begin, const std::vector<int>& queues) {
  Section section{begin, begin + static_cast<int>(queues.size()), {}};
  for (size_t s = 0; s < queues.size(); ++s) {
    std::map<int, int> latest;  // by other queue
    for (int d : dependencies[begin + s]) {
      if (d < begin || queues[d - begin] == queues[s]) continue;
      int& last = latest.emplace(queues[d - begin], 0).first->second;
      last = std::max(last, d - begin);
    }
    QueueStep step{queues[s], {}};
    for (const auto& [queue, last] : latest) step.after.push_back(last);
    section.steps.push_back(std::move(step));
  }
  return section;
}

std::vector<Section> SectionsOf(const Schedule& schedule) {
  const std::vector<Step>& steps = schedule.steps;
  const auto elsewhere = [](const Step& step) { return step.queue != 0; };
  if (std::none_of(steps.begin(), steps.end(), elsewhere)) return {};
  const std::vector<std::vector<int>> dependencies = DependenciesOf(schedule);
  std::vector<Section> sections;
  for (size_t begin = 0; begin < steps.size();) {
    size_t end = begin + 1;
    while (end < steps.size() && !steps[end].joins) ++end;
    if (std::any_of(steps.begin() + begin, steps.begin() + end, elsewhere)) {
      std::vector<int> queues;
      for (size_t s = begin; s < end; ++s) queues.push_back(steps[s].queue);
      sections.push_back(MakeSection(dependencies, static_cast<int>(begin), queues));
    }
    begin = end;
  }
  return sections;
}

}  // namespace rewright
