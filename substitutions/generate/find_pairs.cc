#include "substitutions/generate/find_pairs.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/evaluate_field.h"
#include "substitutions/generate/enumerate.h"
#include "substitutions/generate/redundancy.h"

namespace rewright::generate {
namespace {

constexpr uint64_t kBetweenReports = 4096;  // graphs
constexpr uint32_t kMaxPasses = 256;
constexpr size_t kKeptBytes = size_t{64} << 20;  // of Terms, between pairs

absl::Status Check(const Space& space) {
  if (space.max_ops < 1 || space.max_ops > kMaxOps) {
    return absl::InvalidArgumentError(absl::StrCat(space.max_ops, " operators in a graph, expected 1 to ", kMaxOps));
  }
  if (space.num_inputs() > 48) {
    return absl::InvalidArgumentError(absl::StrCat(space.num_inputs(), " inputs, expected at most 48"));
  }
  if (space.operators.empty() || space.operators.size() > 127) {
    return absl::InvalidArgumentError(absl::StrCat(space.operators.size(), " operators, expected 1 to 127"));
  }
  for (const OperatorChoice& choice : space.operators) {
    if (choice.constant == OperatorChoice::Constant::kNone && FindOp(choice.op) == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("there is no operator `", choice.op, "`"));
    }
  }
  return absl::OkStatus();
}


// Divides classes by the values of their graphs under some assignments.
class Divider {
 public:
  // The last assignment is the nominal one.
  Divider(const Space& space, std::vector<std::vector<int64_t>> assignments, uint64_t seed)
      : space_(space), terms_(space, std::move(assignments), true, seed), start_(terms_.mark()) {}

  Terms& terms() { return terms_; }

  // `keep_illegal`: pairs of which a graph cannot be evaluated.
  std::vector<Pair> Divide(const std::vector<Pair>& pairs, bool keep_illegal) {
    std::vector<Pair> result;
    std::map<std::pair<std::string, std::vector<uint64_t>>, SmallGraph> others;
    for (const Pair& pair : pairs) {
      if (terms_.num_bytes() > kKeptBytes) terms_.Release(start_);
      const std::vector<uint64_t> first = HashesOf(pair.first), second = HashesOf(pair.second);
      const bool illegal = first.empty() || second.empty();
      if (illegal ? keep_illegal : first == second) {
        result.push_back(pair);
        continue;
      }
      ++num_divided_;
      if (second.empty()) continue;
      const auto [at, fresh] = others.try_emplace({ToString(space_, pair.first), second}, pair.second);
      if (!fresh) result.push_back({at->second, pair.second});
    }
    return result;
  }

  uint64_t num_divided() const { return num_divided_; }

 private:
  std::vector<uint64_t> HashesOf(const SmallGraph& graph) {
    std::vector<uint64_t> hashes;
    for (ValueId value : EvaluateGraph(terms_, graph)) hashes.push_back(terms_.value(value).hash);
    std::sort(hashes.begin(), hashes.end());
    return hashes;
  }

  const Space& space_;
  Terms terms_;
  Terms::Mark start_;
  uint64_t num_divided_ = 0;
};

std::vector<std::vector<int64_t>> With(std::vector<std::vector<int64_t>> assignments, const std::vector<int64_t>& last) {
  assignments.push_back(last);
  return assignments;
}

class Finder {
 public:
  Finder(const Space& space, const GraphCode& code, const FindOptions& options)
      : space_(space),
        code_(code),
        options_(options),
        classes_(space, code_),
        workers_(space, code_, classes_, options.seed, space.max_ops < 4 ? 1 : options.threads) {}

  FoundPairs Run() {
    std::vector<Record> singles;
    workers_.AddSingles(&singles);
    classes_.Add(singles.data(), singles.size());
    result_.counts.graphs = singles.size();
    result_.counts.distinct = classes_.num_new();
    classes_.Finish();
    for (int size = 1; size < space_.max_ops && result_.complete; ++size) {
      GoThrough({.size = size});
      Resolve();
      classes_.Finish();
    }
    GoThroughLargest();
    Confirm();
    return std::move(result_);
  }

 private:
  // A table that would outgrow the limit is begun again as one of several passes.
  void GoThroughLargest() {
    const FoundPairs before = result_;
    for (uint32_t parts = 1; result_.complete; parts *= 2) {
      result_ = before;
      result_.passes = static_cast<int>(parts);
      regardless_ = parts >= kMaxPasses;
      bool fits = true;
      for (uint32_t part = 0; part < parts && fits && result_.complete; ++part) {
        fits = GoThrough({.size = space_.max_ops, .part = part, .parts = parts});
        if (fits) Resolve();
        classes_.Drop();
      }
      if (fits) break;
    }
  }

  size_t Bytes() const { return workers_.num_bytes() + classes_.num_bytes() + result_.pairs.capacity() * sizeof(Pair); }

  // False where the memory limit is reached.
  bool GoThrough(const Level& level) {
    const uint64_t total = workers_.CountSubtrees(level.size);
    MatchCounts counts;
    uint64_t next = 0, done = 0, next_report = 0;
    bool fits = true;
    const auto finish = [&](const FinishedSubtree& subtree) {
      classes_.Add(subtree.records.data(), subtree.records.size());
      counts += subtree.counts;
      ++done;
      if (counts.graphs < next_report) return true;
      next_report = counts.graphs + kBetweenReports;
      const size_t bytes = Bytes();
      result_.bytes = std::max(result_.bytes, bytes);
      if (options_.progress) {
        FindProgress progress{.size = level.size,
                              .fraction = static_cast<double>(done) / static_cast<double>(total),
                              .counts = result_.counts,
                              .bytes = bytes};
        progress.counts += counts;
        progress.counts.distinct += classes_.num_new();
        progress.counts.matches += classes_.matches().size();
        progress.fraction = (level.part + progress.fraction) / level.parts;
        options_.progress(progress);
      }
      if (options_.stop != nullptr && *options_.stop) result_.complete = false;
      fits = regardless_ || options_.memory_limit == 0 || bytes <= static_cast<size_t>(options_.memory_limit);
      return fits && result_.complete;
    };
    workers_.Run(level, [&] { return next < total ? next++ : UINT64_MAX; }, finish);
    if (!fits) return false;
    result_.bytes = std::max(result_.bytes, Bytes());
    // The graphs are the same in every pass; the rest is shared out.
    if (level.part == 0) result_.counts += counts;
    result_.counts.distinct += classes_.num_new();
    result_.counts.matches += classes_.matches().size();
    return true;
  }

  // Makes pairs of the graphs that are not alone in their class.
  void Resolve() {
    std::vector<Record> matches = classes_.TakeMatches();
    std::sort(matches.begin(), matches.end(), [](const Record& a, const Record& b) {
      return std::pair(a.fingerprint, a.graph) < std::pair(b.fingerprint, b.graph);
    });
    std::vector<size_t> begins;  // of the classes
    for (size_t i = 0; i < matches.size(); ++i) {
      if (i == 0 || matches[i].fingerprint != matches[i - 1].fingerprint) begins.push_back(i);
    }
    begins.push_back(matches.size());
    std::vector<Redundancy> redundancies(matches.size());
    workers_.ForEach(begins.size() - 1, [&](Terms& terms, size_t c) {
      const auto begin = matches.begin() + static_cast<std::ptrdiff_t>(begins[c]);
      const auto end = matches.begin() + static_cast<std::ptrdiff_t>(begins[c + 1]);
      // The graphs of a class are few.
      std::sort(begin, end, [&](const Record& a, const Record& b) {
        return std::pair(classes_.SimplicityOf(a.graph), a.graph) < std::pair(classes_.SimplicityOf(b.graph), b.graph);
      });
      std::vector<SmallGraph> graphs = {code_.Unpack(classes_.Representative(begin->fingerprint))};
      for (auto record = begin; record != end; ++record) graphs.push_back(code_.Unpack(record->graph));
      const std::vector<Redundancy> found = RedundanciesOf(terms, graphs);
      std::copy(found.begin() + 1, found.end(), redundancies.begin() + static_cast<std::ptrdiff_t>(begins[c]));
    });
    for (size_t i = 0; i < matches.size(); ++i) {
      switch (redundancies[i]) {
        case Redundancy::kConstant: ++result_.counts.constant; break;
        case Redundancy::kSeparate: ++result_.counts.separate; break;
        case Redundancy::kCongruent: ++result_.counts.congruent; break;
        case Redundancy::kInstance: ++result_.counts.instances; break;
        case Redundancy::kNone:
          result_.pairs.push_back({code_.Unpack(classes_.Representative(matches[i].fingerprint)),
                                   code_.Unpack(matches[i].graph)});
      }
    }
  }

  // Looks at the pairs again under other sizes and elements. Their order tells nothing of how they were found.
  void Confirm() {
    std::vector<Pair>& pairs = result_.pairs;
    const auto rank = [](const SmallGraph& graph) { return RankOf(graph, (uint64_t{1} << graph.size) - 1); };
    const auto key = [&](const Pair& p) {
      return std::tuple(p.first.size + p.second.size, p.second.size, rank(p.second), rank(p.first), code_.Pack(p.first),
                        code_.Pack(p.second));
    };
    std::sort(pairs.begin(), pairs.end(), [&](const Pair& a, const Pair& b) { return key(a) < key(b); });
    Divider divider(space_, With(space_.confirmation, space_.nominal), KeyedHash(0xc0, options_.seed));
    pairs = divider.Divide(pairs, false);
    result_.collisions = divider.num_divided();
  }

  const Space& space_;
  const GraphCode& code_;
  const FindOptions& options_;
  FoundPairs result_;
  Classes classes_;
  Workers workers_;
  bool regardless_ = false;  // of the memory limit
};

}  // namespace

absl::StatusOr<FoundPairs> FindPairs(const Space& space, const FindOptions& options) {
  if (absl::Status checked = Check(space); !checked.ok()) return checked;
  absl::StatusOr<GraphCode> code = GraphCode::For(space);
  if (!code.ok()) return code.status();
  return Finder(space, *code, options).Run();
}

std::vector<Pair> DivideClasses(const Space& space, const std::vector<Pair>& pairs,
                                const std::vector<Counterexample>& counterexamples, uint64_t seed) {
  std::vector<Pair> result = pairs;
  for (const Counterexample& counterexample : counterexamples) {
    Divider divider(space, {counterexample.sizes, space.nominal}, seed);
    for (size_t i = 0; i < counterexample.elements.size(); ++i) {
      if (counterexample.elements[i].empty()) continue;
      divider.terms().SetInput(static_cast<int>(i), 0, counterexample.elements[i]);
    }
    result = divider.Divide(result, true);
  }
  return result;
}

bool IsMerge(const Space& space, const SmallGraph& left, const SmallGraph& right) {
  return !SharesWork(space, left) && SharesWork(space, right);
}

}  // namespace rewright::generate
