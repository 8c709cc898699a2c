#include "substitutions/generate/enumerate/find_pairs.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"
#include "substitutions/generate/enumerate/enumerate.h"
#include "substitutions/generate/enumerate/enumeration_journal.h"
#include "substitutions/generate/enumerate/field.h"
#include "substitutions/generate/select/counterexamples.h"
#include "substitutions/generate/select/redundancy.h"

namespace rewright::generate {
namespace {

constexpr uint64_t kBetweenReports = 4096;  // graphs
constexpr uint32_t kMaxPasses = 256;
constexpr uint64_t kBytesOfRecord = 72;               // at most, with the free places of the tables while they grow
constexpr size_t kKeptTermsBytes = size_t{64} << 20;  // of Terms, between pairs

absl::Status Check(const Space& space) {
  if (space.max_ops < 1 || space.max_ops > kMaxOps) {
    return absl::InvalidArgumentError(absl::StrCat(space.max_ops, " operators in a graph, expected 1 to ", kMaxOps));
  }
  if (space.num_inputs() > kMaxInputs) {
    return absl::InvalidArgumentError(absl::StrCat(space.num_inputs(), " inputs, expected at most ", kMaxInputs));
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

// Divides classes by the values of their graphs under some assignments, the last one the nominal one. A graph that
// differs from the first graph of its pair leaves the class; those that leave and are equal to each other make pairs
// among themselves. Keeps the order of the pairs.
class Divider {
 public:
  Divider(const Space& space, std::vector<std::vector<int64_t>> assignments, uint64_t seed)
      : space_(space), terms_(space, std::move(assignments), true, seed), start_(terms_.mark()) {}

  std::vector<Pair> Divide(const std::vector<Pair>& pairs) {
    std::vector<Pair> result;
    std::map<std::pair<std::string, std::vector<uint64_t>>, SmallGraph> others;
    for (const Pair& pair : pairs) {
      if (terms_.num_bytes() > kKeptTermsBytes) terms_.Release(start_);
      const std::vector<uint64_t> first = HashesOf(terms_, pair.first), second = HashesOf(terms_, pair.second);
      if (!first.empty() && first == second) {
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
  const Space& space_;
  Terms terms_;
  Terms::Mark start_;
  uint64_t num_divided_ = 0;
};

std::vector<std::vector<int64_t>> With(std::vector<std::vector<int64_t>> assignments,
                                       const std::vector<int64_t>& last) {
  assignments.push_back(last);
  return assignments;
}

// The text that identifies a journal: everything that the enumeration depends on.
std::string ShapeText(const std::vector<Size>& shape) {
  std::string text;
  for (const Size& size : shape) {
    absl::StrAppend(&text, size.variable < 0 ? ".n" : ".v", size.variable < 0 ? size.number : size.variable);
  }
  return text;
}

std::string HeaderOf(const Space& space, uint64_t seed) {
  std::string text = absl::StrCat(space.name, " max_ops=", space.max_ops, " seed=", seed, " inputs=");
  for (const InputGroup& group : space.inputs) {
    absl::StrAppend(&text, group.name, group.count, ShapeText(group.shape), ShapeText(group.cuts), ",");
  }
  text += " operators=";
  for (const OperatorChoice& choice : space.operators) {
    absl::StrAppend(&text, choice.name, ShapeText(choice.shape), ",");
  }
  text += " sizes=";
  for (const std::vector<int64_t>& sizes : With(space.assignments, space.nominal)) {
    absl::StrAppend(&text, absl::StrJoin(sizes, ","), ";");
  }
  absl::StrAppend(&text, CounterexamplesText(space));
  return text;
}

class Finder {
 public:
  Finder(const Space& space, const GraphCode& code, const FindOptions& options)
      : space_(space),
        code_(code),
        options_(options),
        rank_(options.ranks == nullptr ? 0 : options.ranks->rank()),
        num_ranks_(options.ranks == nullptr ? 1 : options.ranks->size()),
        classes_(space, code_),
        workers_(space, code_, classes_, options.seed, space.max_ops < 4 ? 1 : options.threads) {}

  absl::StatusOr<FoundPairs> Run() {
    if (!options_.journal.empty()) {
      absl::Status opened = journal_.Open(options_.journal, rank_, HeaderOf(space_, options_.seed));
      if (!opened.ok()) return opened;
    }
    std::vector<Record> singles;
    workers_.AddSingles(&singles);
    classes_.Add(singles.data(), singles.size());
    result_.counts.graphs = singles.size();
    result_.counts.distinct = classes_.num_new();
    classes_.Finish();
    // The smaller graphs are few: every rank goes through all of them, since all need them.
    for (int size = 1; size < space_.max_ops && result_.complete; ++size) {
      GoThrough({.size = size});
      if (rank_ == 0 && result_.complete) Resolve();
      classes_.Finish();
      result_.complete = !Any(!result_.complete);
    }
    if (rank_ != 0) result_ = FoundPairs{.complete = result_.complete};
    GoThroughLargest();
    Gather();
    if (!error_.ok()) return error_;
    if (rank_ == 0 && result_.complete) Confirm();
    return std::move(result_);
  }

 private:
  // The number of subtrees that each rank does between two exchanges.
  static constexpr uint64_t kSubtreesInRound = 64;

  // True if `mine` is true at some rank.
  bool Any(bool mine) const { return options_.ranks == nullptr ? mine : options_.ranks->Max(mine ? 1 : 0) != 0; }

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
        if (num_records_ > 0) return ReadBack();
        if (fits && result_.complete) Resolve();
        classes_.Drop();
      }
      if (fits) break;
    }
  }

  // The largest graphs are in the journal and were too many to be held: part by part.
  void ReadBack() {
    const uint64_t limit = static_cast<uint64_t>(options_.memory_limit), base = Bytes();
    const uint64_t room = limit > 2 * base ? limit - base : limit / 2;
    const uint64_t parts = num_records_ * kBytesOfRecord / room + 1;
    result_.passes = static_cast<int>(parts);
    std::vector<Record> records;
    for (uint64_t part = 0; part < parts && result_.complete; ++part) {
      std::vector<bool> known(num_subtrees_, false);
      absl::Status read = journal_.Replay({.size = space_.max_ops}, [&](const FinishedSubtree& subtree) {
        const uint64_t at = subtree.number / options_.sample;
        if (subtree.number % options_.sample != 0 || known[at]) return;
        known[at] = true;
        records.clear();
        for (const Record& record : subtree.records) {
          if (record.fingerprint % parts == part) records.push_back(record);
        }
        classes_.Add(records.data(), records.size());
      });
      if (!read.ok()) Fail(read);
      CountClasses();
      if (result_.complete) Resolve();
      classes_.Drop();
      if (IsStopped(options_.stop)) result_.complete = false;
    }
  }

  void CountClasses() {
    result_.bytes = std::max(result_.bytes, Bytes());
    result_.counts.distinct += classes_.num_new();
    result_.counts.matches += classes_.matches().size();
  }

  size_t Bytes() const { return workers_.num_bytes() + classes_.num_bytes() + result_.pairs.capacity() * sizeof(Pair); }

  // False where the memory limit is reached.
  bool GoThrough(const Level& level) {
    const bool largest = level.size == space_.max_ops;
    const bool shared = largest && num_ranks_ > 1;
    const uint64_t stride = largest ? options_.sample : 1;
    const uint64_t total = (workers_.CountSubtrees(level.size) + stride - 1) / stride;
    const uint64_t ranks = shared ? static_cast<uint64_t>(num_ranks_) : 1;
    num_subtrees_ = total;
    MatchCounts counts;
    uint64_t done = 0, next_report = 0, records = 0;
    bool fits = true;
    bool spilled = false;  // only the journal keeps the records from here on
    std::vector<std::vector<uint64_t>> out(ranks);
    const auto exchange = [&] {
      const std::vector<uint64_t> words = options_.ranks->Exchange(out);
      for (std::vector<uint64_t>& mine : out) mine.clear();
      std::vector<Record> records;
      for (size_t i = 0; i < words.size(); i += 3) records.push_back({words[i], {words[i + 1], words[i + 2]}});
      classes_.Add(records.data(), records.size());
      fits = !Any(!fits);
      result_.complete = !Any(!result_.complete);
    };
    const auto finish = [&](const FinishedSubtree& subtree) {
      counts += subtree.counts;
      ++done;
      records += subtree.records.size();
      if (spilled) {
        // Read back later.
      } else if (!shared) {
        classes_.Add(subtree.records.data(), subtree.records.size());
      } else {
        for (const Record& record : subtree.records) {
          std::vector<uint64_t>& owner = out[record.fingerprint / level.parts % ranks];
          owner.insert(owner.end(), {record.fingerprint, record.graph.high, record.graph.low});
        }
      }
      if (counts.graphs >= next_report) {
        next_report = counts.graphs + kBetweenReports;
        const size_t bytes = Bytes();
        result_.bytes = std::max(result_.bytes, bytes);
        Report(level, counts, static_cast<double>(done) * static_cast<double>(ranks) / static_cast<double>(total),
               bytes);
        if (IsStopped(options_.stop)) result_.complete = false;
        // All of the smaller graphs are needed.
        if (largest && options_.memory_limit > 0 && !regardless_ &&
            bytes > static_cast<size_t>(options_.memory_limit)) {
          if (!shared && journal_.is_open()) {
            spilled = true;
            classes_.Drop();
          } else {
            fits = false;
          }
        }
      }
      if (!shared) return fits && result_.complete;
      // All ranks decide together if they go on.
      if (done % kSubtreesInRound != 0) return true;
      exchange();
      return fits && result_.complete;
    };

    // Known subtrees, by their place in the sample; this rank does every `ranks`th from `rank` on.
    std::vector<bool> known(total, false);
    bool go_on = true;
    absl::Status replayed = journal_.Replay(level, [&](const FinishedSubtree& subtree) {
      const uint64_t at = subtree.number / stride;
      if (!go_on || subtree.number % stride != 0 || at >= total || known[at]) return;
      if (shared && at % ranks != static_cast<uint64_t>(rank_)) return;
      known[at] = true;
      go_on = finish(subtree);
    });
    if (!replayed.ok()) Fail(replayed);
    uint64_t next = shared ? static_cast<uint64_t>(rank_) : 0;
    const auto take = [&] {
      while (next < total && known[next]) next += ranks;
      const uint64_t taken = next;
      next += ranks;
      return taken < total ? taken * stride : UINT64_MAX;
    };
    if (go_on) {
      workers_.Run(level, take, [&](const FinishedSubtree& subtree) {
        // All ranks do the smaller graphs; one of them writes them down.
        if (largest || rank_ == 0) {
          if (absl::Status added = journal_.Add(level, subtree); !added.ok()) Fail(added);
        }
        return finish(subtree);
      });
    }
    if (absl::Status flushed = journal_.Flush(); !flushed.ok()) Fail(flushed);
    if (shared) {
      // Every rank does the exchanges that the rank with the most subtrees needs, and one for the rest.
      const uint64_t rounds = (total + ranks - 1) / ranks / kSubtreesInRound + 1;
      for (uint64_t round = done / kSubtreesInRound; round < rounds && fits && result_.complete; ++round) exchange();
    }
    if (!fits) return false;
    // The graphs are the same in every pass; the rest is shared out.
    if (level.part == 0) result_.counts += counts;
    if (spilled) {
      num_records_ = records;
    } else {
      CountClasses();
    }
    return true;
  }

  void Report(const Level& level, const MatchCounts& counts, double fraction, size_t bytes) const {
    if (!options_.progress) return;
    FindProgress progress{.size = level.size, .fraction = (level.part + fraction) / level.parts, .bytes = bytes};
    progress.counts = result_.counts;
    progress.counts += counts;
    progress.counts.distinct += classes_.num_new();
    progress.counts.matches += classes_.matches().size();
    options_.progress(progress);
  }

  void Fail(const absl::Status& error) {
    error_.Update(error);
    result_.complete = false;
  }

  // Collects the pairs of all ranks at rank 0.
  void Gather() {
    if (num_ranks_ == 1) return;
    const MatchCounts& c = result_.counts;
    std::vector<uint64_t> words = {c.graphs,    c.reducible, c.repeated,    c.undefined,
                                   c.distinct,  c.matches,   c.congruent,   c.separate,
                                   c.instances, c.constant,  result_.bytes, result_.pairs.size()};
    for (const Pair& pair : result_.pairs) {
      for (const SmallGraph* graph : {&pair.first, &pair.second}) {
        const PackedGraph packed = code_.Pack(*graph);
        words.insert(words.end(), {packed.high, packed.low});
      }
    }
    words = options_.ranks->Gather(words);
    result_.pairs.clear();
    if (rank_ != 0) return;
    result_.counts = MatchCounts();
    for (size_t at = 0; at < words.size();) {
      const uint64_t* w = &words[at];
      result_.counts += {w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9]};
      result_.bytes = std::max<size_t>(result_.bytes, w[10]);
      at += 12;
      for (uint64_t k = 0; k < w[11]; ++k, at += 4) {
        result_.pairs.push_back(
            {code_.Unpack({words[at], words[at + 1]}), code_.Unpack({words[at + 2], words[at + 3]})});
      }
    }
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
        case Redundancy::kNone: {
          const Pair pair{code_.Unpack(classes_.Representative(matches[i].fingerprint)),
                          code_.Unpack(matches[i].graph)};
          if (pair.first.size > space_.max_simpler_ops) break;
          if (space_.merges_only && SharesWork(space_, pair.first) == SharesWork(space_, pair.second)) break;
          result_.pairs.push_back(pair);
        }
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
    pairs = divider.Divide(pairs);
    result_.collisions = divider.num_divided();
  }

  const Space& space_;
  const GraphCode& code_;
  const FindOptions& options_;
  const int rank_, num_ranks_;
  FoundPairs result_;
  absl::Status error_;
  Classes classes_;
  Workers workers_;
  EnumerationJournal journal_;
  bool regardless_ = false;  // of the memory limit
  uint64_t num_subtrees_ = 0;
  uint64_t num_records_ = 0;  // in the journal, of the largest graphs; 0 where they are in memory
};

}  // namespace

absl::StatusOr<FoundPairs> FindPairs(const Space& space, const FindOptions& options) {
  RETURN_IF_ERROR(Check(space));
  absl::StatusOr<GraphCode> code = GraphCode::For(space);
  if (!code.ok()) return code.status();
  return Finder(space, *code, options).Run();
}

bool IsMerge(const Space& space, const SmallGraph& left, const SmallGraph& right) {
  return !SharesWork(space, left) && SharesWork(space, right);
}

}  // namespace rewright::generate
