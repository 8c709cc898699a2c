#include "runtime/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace rewright {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Step With(std::vector<BufferUse> uses) {
  Step step;
  step.buffers = std::move(uses);
  return step;
}
BufferUse R(int id) { return {id, Access::kRead}; }
BufferUse W(int id) { return {id, Access::kWrite}; }
BufferUse U(int id) { return {id, Access::kUpdate}; }
BufferUse S(int id) { return {id, Access::kScratch}; }

std::vector<Buffer> Buffers(int count) {
  std::vector<Buffer> buffers(count);
  for (Buffer& buffer : buffers) buffer.bytes = 64;
  return buffers;
}

TEST(DependenciesOf, ReadersWaitForWritersAndWritersForReaders) {
  Schedule schedule;
  schedule.buffers = Buffers(4);
  schedule.steps.push_back(With({W(0)}));
  schedule.steps.push_back(With({W(1)}));
  schedule.steps.push_back(With({R(0), W(2)}));
  schedule.steps.push_back(With({R(0), R(1), W(3)}));
  schedule.steps.push_back(With({W(0)}));
  schedule.steps.push_back(With({U(1), R(2)}));
  schedule.steps.push_back(With({R(1)}));
  EXPECT_THAT(DependenciesOf(schedule), ElementsAre(IsEmpty(), IsEmpty(), ElementsAre(0), ElementsAre(0, 1),
                                                    ElementsAre(0, 2, 3), ElementsAre(1, 2, 3), ElementsAre(1, 5)));
}

// A step that overwrites a buffer in place uses that buffer twice, to read and to write.
TEST(DependenciesOf, InPlaceStepsReadWhatTheyOverwrite) {
  Schedule schedule;
  schedule.buffers = Buffers(2);
  schedule.steps.push_back(With({W(0)}));
  schedule.steps.push_back(With({R(0), W(0)}));
  schedule.steps.push_back(With({R(0), S(1)}));
  schedule.steps.push_back(With({S(1)}));
  EXPECT_THAT(DependenciesOf(schedule), ElementsAre(IsEmpty(), ElementsAre(0), ElementsAre(0, 1), ElementsAre(2)));
}

// Views overlap by bytes; parts of a concatenation never do, even if their bytes interleave.
TEST(DependenciesOf, ViewsOverlapWherePartsDoNot) {
  Schedule schedule;
  schedule.buffers = Buffers(6);
  const auto view = [&](int id, int base, size_t offset, size_t bytes, bool part) {
    schedule.buffers[id].alias_of = base;
    schedule.buffers[id].offset = offset;
    schedule.buffers[id].bytes = bytes;
    schedule.buffers[id].part = part;
  };
  view(1, 0, 0, 48, true);
  view(2, 0, 16, 48, true);
  view(3, 2, 0, 16, false);  // within a part
  view(4, 0, 0, 16, false);  // not in the second part's bytes
  schedule.steps.push_back(With({W(1)}));
  schedule.steps.push_back(With({W(2)}));
  schedule.steps.push_back(With({R(1), W(5)}));
  schedule.steps.push_back(With({R(3)}));
  schedule.steps.push_back(With({R(4)}));
  schedule.steps.push_back(With({R(0)}));
  EXPECT_THAT(DependenciesOf(schedule),
              ElementsAre(IsEmpty(), IsEmpty(), ElementsAre(0), ElementsAre(1), ElementsAre(0), ElementsAre(0, 1)));
  schedule.buffers[1].part = false;
  EXPECT_THAT(DependenciesOf(schedule)[1], ElementsAre(0)) << "bytes that interleave";
}

TEST(SectionsOf, StepsOnSeveralQueuesBetweenJoins) {
  Schedule schedule;
  schedule.buffers = Buffers(4);
  schedule.steps.push_back(With({W(0)}));
  schedule.steps.push_back(With({R(0), W(1)}));
  schedule.steps.push_back(With({R(0), W(2)}));
  schedule.steps.push_back(With({R(1), R(2), W(3)}));
  schedule.steps.push_back(With({R(3), W(0)}));
  EXPECT_THAT(SectionsOf(schedule), IsEmpty());
  schedule.steps[2].queue = 1;
  schedule.steps[1].joins = schedule.steps[4].joins = true;
  const std::vector<Section> sections = SectionsOf(schedule);
  ASSERT_EQ(sections.size(), 1u);
  EXPECT_EQ(sections[0].begin, 1);
  EXPECT_EQ(sections[0].end, 4);
  ASSERT_EQ(sections[0].steps.size(), 3u);
  EXPECT_EQ(sections[0].steps[1].queue, 1);
  EXPECT_THAT(sections[0].steps[1].after, IsEmpty()) << "what it needs comes before the section";
  EXPECT_THAT(sections[0].steps[2].after, ElementsAre(1));
}

}  // namespace
}  // namespace rewright
