// Measures the gain of a rule at its instances, with some of their inputs weights.
//
// Values that depend on weights alone are computed once, at load, and count nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/ir/graph.h"
#include "substitutions/egraph/derive.h"
#include "substitutions/instance/random_application.h"
#include "substitutions/match/matcher.h"

namespace rewright::generate {

// An instance of a rule, in an arena of its own.
struct Place {
  std::shared_ptr<Arena> arena;
  Match match;
  std::vector<std::pair<Value, Value>> sides;  // the values that are replaced, and their replacements

  std::vector<Value> Left() const { return Side(true); }
  std::vector<Value> Right() const { return Side(false); }

 private:
  std::vector<Value> Side(bool left) const;
};

// The instance with some of its inputs weights: bit i of `weights` is its i-th input. Nothing if the right side cannot
// be built.
std::optional<Place> PlaceOf(const RandomApplication& drawn, uint32_t weights);

// The subsets of inputs to make weights of: all but the whole if there are few inputs; else none, each one, and all but
// one.
std::vector<uint32_t> WeightSubsets(size_t inputs);

// How the right side runs, beside the left one.
enum class Gain : uint8_t {
  kNone,
  kTraded,      // more operators, and less arithmetic or traffic
  kAtTheSizes,  // as many operators, and less arithmetic or traffic
  kAtAllSizes,  // fewer operators; or as many and the same work, and fewer views or divisions
};
Gain GainOf(const Place& place);

Graph GraphOf(const std::shared_ptr<Arena>& arena, const std::vector<Value>& outputs);

// True if one step of a rule turns `from` into `to`, up to the order of operands of commutative operators.
bool Gives(const Matcher& matcher, const std::shared_ptr<Arena>& arena, const std::vector<Value>& from,
           const std::vector<Value>& to);

// True if the rule has instances and `holds` for all of them. No input is a weight.
bool AtAllInstances(const CompiledRule& rule, const DeriveOptions& draws,
                    const std::function<bool(const Place&)>& holds);

// True if one step leads back: the sides differ only in the places of the inputs, as x + (y + z) and y + (x + z).
bool Exchanges(const Matcher& matcher, const DeriveOptions& draws);

}  // namespace rewright::generate
