#include "substitutions/generate/select/counterexamples.h"

#include <algorithm>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rewright::generate {
namespace {

constexpr size_t kAtOnce = 4;
constexpr int kDraws = 48;  // for a pair

class Search {
 public:
  Search(const Space& space, uint64_t seed) : space_(space), rng_(seed) {}

  std::vector<Counterexample> Run(const std::vector<Pair>& refuted) {
    for (const Pair& pair : refuted) {
      if (found_.size() == kAtOnce) break;
      if (std::any_of(found_.begin(), found_.end(), [&](const auto& known) { return Divides(known, pair); })) continue;
      for (int draw = 0; draw < kDraws; ++draw) {
        const Counterexample drawn{.sizes = draw < kDraws / 2 ? KnownSizes() : NewSizes(), .draw = rng_()};
        if (!Divides(drawn, pair) || !KeepsGraphs(drawn.sizes)) continue;
        found_.push_back(drawn);
        break;
      }
    }
    return std::move(found_);
  }

 private:
  const std::vector<int64_t>& KnownSizes() { return space_.assignments[rng_() % space_.assignments.size()]; }

  // Draws multiples of sizes that the space has, so that even sizes stay even.
  std::vector<int64_t> NewSizes() {
    std::vector<const std::vector<int64_t>*> known = {&space_.nominal};
    for (const auto& sizes : space_.assignments) known.push_back(&sizes);
    for (const auto& sizes : space_.confirmation) known.push_back(&sizes);
    std::vector<int64_t> sizes = *known[rng_() % known.size()];
    constexpr int64_t kFactors[] = {1, 1, 2, 3};
    for (int64_t& size : sizes) size *= kFactors[rng_() % std::size(kFactors)];
    return sizes;
  }

  bool Divides(const Counterexample& counterexample, const Pair& pair) {
    Space alone = space_;
    alone.counterexamples = {counterexample};
    Terms terms(alone, {space_.nominal}, true, 0, &tapes_);
    const std::vector<uint64_t> first = HashesOf(terms, pair.first), second = HashesOf(terms, pair.second);
    return !first.empty() && !second.empty() && first != second;
  }

  // True if inputs stay small and every graph of the space stays legal.
  bool KeepsGraphs(const std::vector<int64_t>& sizes) {
    if (std::find(space_.assignments.begin(), space_.assignments.end(), sizes) != space_.assignments.end()) return true;
    const auto [at, fresh] = keeps_.try_emplace(sizes, false);
    if (!fresh) return at->second;
    for (const InputGroup& input : space_.inputs) {
      int64_t elements = 1;
      for (const Size& size : input.shape) {
        elements *= size.variable < 0 ? size.number : sizes[size.variable];
      }
      if (elements > space_.max_elements) return false;
    }
    if (num_graphs_ == 0) num_graphs_ = NumGraphs(space_);
    Space with = space_;
    with.counterexamples.push_back({.sizes = sizes});
    return at->second = NumGraphs(with) == num_graphs_;
  }

  static uint64_t NumGraphs(const Space& space) {
    std::vector<std::vector<int64_t>> assignments = space.assignments;
    assignments.push_back(space.nominal);
    Terms terms(space, std::move(assignments), /*with_values=*/false, 0);
    uint64_t count = 0;
    for (int size = 1; size <= space.max_ops; ++size) {
      Walk(terms, size, [&](const SmallGraph&, const ValueId*) {
        ++count;
        return true;
      }).Run();
    }
    return count;
  }

  const Space& space_;
  std::mt19937_64 rng_;
  TapeCache tapes_;
  std::vector<Counterexample> found_;
  std::map<std::vector<int64_t>, bool> keeps_;  // by sizes
  uint64_t num_graphs_ = 0;                     // 0: not counted yet
};

}  // namespace

std::vector<Counterexample> FindCounterexamples(const Space& space, const std::vector<Pair>& refuted, uint64_t seed) {
  return Search(space, seed).Run(refuted);
}

std::string CounterexamplesText(const Space& space) {
  std::string text;
  for (const Counterexample& counterexample : space.counterexamples) {
    absl::StrAppend(&text, text.empty() ? " counterexamples=" : ";", absl::StrJoin(counterexample.sizes, ","), ":",
                    counterexample.draw);
  }
  return text;
}

std::vector<uint64_t> ToWords(const std::vector<Counterexample>& counterexamples) {
  std::vector<uint64_t> words;
  for (const Counterexample& counterexample : counterexamples) {
    words.insert(words.end(), counterexample.sizes.begin(), counterexample.sizes.end());
    words.push_back(counterexample.draw);
  }
  return words;
}

std::vector<Counterexample> FromWords(const Space& space, const std::vector<uint64_t>& words) {
  const size_t count = space.variables.size();
  std::vector<Counterexample> counterexamples;
  for (size_t at = 0; at + count < words.size(); at += count + 1) {
    Counterexample& counterexample = counterexamples.emplace_back();
    for (size_t i = 0; i < count; ++i) counterexample.sizes.push_back(static_cast<int64_t>(words[at + i]));
    counterexample.draw = words[at + count];
  }
  return counterexamples;
}

}  // namespace rewright::generate
