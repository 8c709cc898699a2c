// The laws of step_laws.def as names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rewright::verifier {

enum class Law : uint8_t {
#define LAW(name, text, statement, check, shown_by) name,
#include "verifier/integer/step_laws.def"
#undef LAW
};

// How the step checker (check/step_checker.h) checks a step: the texts of both sides, questions to solvers for all
// sizes, or values of both sides at several sizes and elements.
enum class LawCheck : uint8_t { kText, kQuestion, kValue };

struct LawInfo {
  Law law;
  const char* text;  // its printed name
  const char* statement;
  LawCheck check;
  const char* shown_by;  // a witness of algebra_mutations.txt; with `= ` the reason why there is none
};

// All laws, in the order of step_laws.def.
inline constexpr LawInfo kAllLaws[] = {
#define LAW(name, text, statement, check, shown_by) {Law::name, text, statement, LawCheck::check, shown_by},
#include "verifier/integer/step_laws.def"
#undef LAW
};

constexpr const char* LawName(Law law) { return kAllLaws[static_cast<int>(law)].text; }

// The law of that printed name; nothing where there is none.
inline std::optional<Law> FindLaw(const std::string& text) {
  for (const LawInfo& info : kAllLaws) {
    if (text == info.text) return info.law;
  }
  return std::nullopt;
}

}  // namespace rewright::verifier
