#include "verifier/check/checked_steps.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rewright {

void LawSteps::Add(const LawSteps& other) {
  for (int64_t LawSteps::*count : {&LawSteps::steps, &LawSteps::by_text, &LawSteps::by_question, &LawSteps::by_value,
                                   &LawSteps::open, &LawSteps::excused, &LawSteps::refused, &LawSteps::repeated}) {
    this->*count += other.*count;
  }
}

void CheckedSteps::Add(const CheckedSteps& other) {
  for (int64_t CheckedSteps::*count : {&CheckedSteps::steps, &CheckedSteps::by_text, &CheckedSteps::by_question,
                                       &CheckedSteps::by_value, &CheckedSteps::joint}) {
    this->*count += other.*count;
  }
  for (const auto& [law, count] : other.open) open[law] += count;
  for (const auto& [law, steps_of_law] : other.by_law) by_law[law].Add(steps_of_law);
  refused.insert(refused.end(), other.refused.begin(), other.refused.end());
  questions.insert(questions.end(), other.questions.begin(), other.questions.end());
}

std::string CheckedSteps::Summary(int64_t open_to_cvc5) const {
  std::vector<std::string> laws;
  for (const auto& [law, count] : open) laws.push_back(absl::StrCat(law, " ", count));
  return absl::StrCat(by_text, " alike, ", by_question, " by ", questions.size(), " questions (", open_to_cvc5,
                      " that cvc5 leaves open), ", by_value, " by values, ", refused.size(),
                      " refused, open: ", laws.empty() ? "none" : absl::StrJoin(laws, ", "), "; ", joint,
                      " joint queries");
}

}  // namespace rewright
