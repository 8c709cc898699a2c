#include "substitutions/generate/find_pairs.h"

#include <algorithm>
#include <map>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/evaluate_field.h"

namespace rewright::generate {
namespace {

constexpr uint64_t kBetweenReports = 4096;  // graphs
constexpr uint32_t kMaxPasses = 64;

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

std::vector<std::vector<int64_t>> With(std::vector<std::vector<int64_t>> assignments, const std::vector<int64_t>& last) {
  assignments.push_back(last);
  return assignments;
}

class Finder {
 public:
  Finder(const Space& space, const FindOptions& options) : space_(space), options_(options) {}

  FoundPairs Run() {
    // A table that would outgrow the limit is begun again as one of several passes.
    for (uint32_t parts = 1;; parts *= 2) {
      result_ = FoundPairs();
      result_.passes = static_cast<int>(parts);
      bool fits = true;
      for (uint32_t part = 0; part < parts && fits && result_.complete; ++part) fits = Pass(part, parts, parts >= kMaxPasses);
      if (fits) break;
    }
    Confirm();
    return std::move(result_);
  }

 private:
  // False where the memory limit is reached.
  bool Pass(uint32_t part, uint32_t parts, bool regardless) {
    Terms terms(space_, With(space_.assignments, space_.nominal), true, options_.seed);
    FingerprintTable table(terms, space_.max_ops, part, parts);
    bool fits = true;
    uint64_t next_report = 0;
    for (int size = 1; size <= space_.max_ops && fits && result_.complete; ++size) {
      Walk walk(terms, size, [&](const SmallGraph& graph, const ValueId* values) {
        table.Add(graph, values);
        const uint64_t count = table.counts().graphs;
        if (count < next_report) return true;
        next_report = count + kBetweenReports;
        const size_t bytes = terms.num_bytes() + table.num_bytes();
        result_.bytes = std::max(result_.bytes, bytes);
        if (options_.progress) options_.progress(table.counts(), size, bytes);
        if (options_.stop != nullptr && *options_.stop) result_.complete = false;
        fits = regardless || options_.memory_limit == 0 || bytes <= static_cast<size_t>(options_.memory_limit);
        return fits && result_.complete;
      });
      walk.Run();
    }
    if (!fits) return false;
    result_.bytes = std::max(result_.bytes, terms.num_bytes() + table.num_bytes());
    // The graphs are the same in every pass; the rest is shared out.
    const MatchCounts& counts = table.counts();
    MatchCounts& total = result_.counts;
    total.graphs = counts.graphs;
    total.repeated = counts.repeated;
    total.undefined = counts.undefined;
    total.distinct += counts.distinct;
    total.matches += counts.matches;
    total.reducible += counts.reducible;
    total.congruent += counts.congruent;
    total.separate += counts.separate;
    total.constant += counts.constant;
    result_.pairs.insert(result_.pairs.end(), table.pairs().begin(), table.pairs().end());
    return true;
  }

  // Looks at the pairs again under other sizes and elements. Graphs that turn out to differ from what they were paired
  // with may still be equal among each other.
  void Confirm() {
    Terms terms(space_, With(space_.confirmation, space_.nominal), true, KeyedHash(0xc0, options_.seed));
    std::vector<Pair> confirmed;
    std::map<std::pair<std::string, std::vector<uint64_t>>, SmallGraph> others;
    for (const Pair& pair : result_.pairs) {
      if (!OutputPairs(terms, pair).empty()) {
        confirmed.push_back(pair);
        continue;
      }
      ++result_.collisions;
      std::vector<uint64_t> hashes;
      for (ValueId value : EvaluateGraph(terms, pair.second)) hashes.push_back(terms.value(value).hash);
      if (hashes.empty()) continue;
      std::sort(hashes.begin(), hashes.end());
      const auto [at, fresh] = others.try_emplace({ToString(space_, pair.first), hashes}, pair.second);
      if (!fresh) confirmed.push_back({at->second, pair.second});
    }
    std::stable_sort(confirmed.begin(), confirmed.end(), [](const Pair& a, const Pair& b) {
      return std::pair(a.first.size + a.second.size, a.second.size) < std::pair(b.first.size + b.second.size, b.second.size);
    });
    result_.pairs = std::move(confirmed);
  }

  const Space& space_;
  const FindOptions& options_;
  FoundPairs result_;
};

}  // namespace

absl::StatusOr<FoundPairs> FindPairs(const Space& space, const FindOptions& options) {
  if (absl::Status checked = Check(space); !checked.ok()) return checked;
  return Finder(space, options).Run();
}

bool IsMerge(const Space& space, const SmallGraph& left, const SmallGraph& right) {
  return !SharesWork(space, left) && SharesWork(space, right);
}

}  // namespace rewright::generate
