// How many cases the heavy property tests run: all of them when REWRIGHT_FULL is set (bench/full), a tenth otherwise,
// or another part where cases are slow; a third of that under sanitizers, which slow them down and look at something
// else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <iostream>

namespace rewright {

inline bool AllCases() { return std::getenv("REWRIGHT_FULL") != nullptr; }

inline int Cases(int whole, int part = 10) {
#ifdef __SANITIZE_ADDRESS__
  part *= 3;
#endif
  return AllCases() ? whole : (whole + part - 1) / part;
}

// The number of today. REWRIGHT_DAY=N asks for another day.
inline size_t Today() {
  constexpr int64_t kDay = 24 * 60 * 60;
  const char* asked = std::getenv("REWRIGHT_DAY");
  const int64_t day = asked != nullptr ? std::atoll(asked) : std::time(nullptr) / kDay;
  std::cout << "REWRIGHT_DAY=" << day << "\n";
  return static_cast<size_t>(day);
}

// The first element of today's part of a list: every `step`-th element is tested, and each one in its turn as the days
// go by.
inline size_t FirstOfToday(size_t step) { return Today() % step; }

// Calls visit(k) for a day's part of the cases 0 to `whole` - 1: as many as Cases says, others each day.
template <typename Visit>
void ForCasesOf(size_t day, int whole, const Visit& visit, int part = 10) {
  if (whole <= 0) return;
  const size_t count = static_cast<size_t>(whole);
  const size_t step = (count + static_cast<size_t>(Cases(whole, part)) - 1) / static_cast<size_t>(Cases(whole, part));
  for (size_t k = day % step; k < count; k += step) visit(k);
}
template <typename Visit>
void ForTodaysCases(int whole, const Visit& visit, int part = 10) {
  ForCasesOf(Today(), whole, visit, part);
}

}  // namespace rewright
