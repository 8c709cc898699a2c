#include "search/saturation/extraction.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>
#include <utility>

namespace rewright {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Sets of classes.
class ClassSet {
 public:
  explicit ClassSet(size_t size, bool full = false) : words_((size + 63) / 64, full ? ~uint64_t{0} : 0) {}
  void Insert(size_t i) { words_[i / 64] |= uint64_t{1} << (i % 64); }
  bool operator==(const ClassSet& other) const { return words_ == other.words_; }
  void Unite(const ClassSet& other) {
    for (size_t w = 0; w < words_.size(); ++w) words_[w] |= other.words_[w];
  }
  void Intersect(const ClassSet& other) {
    for (size_t w = 0; w < words_.size(); ++w) words_[w] &= other.words_[w];
  }
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (size_t w = 0; w < words_.size(); ++w) {
      for (uint64_t bits = words_[w]; bits != 0; bits &= bits - 1) {
        visit(w * 64 + static_cast<size_t>(__builtin_ctzll(bits)));
      }
    }
  }

 private:
  std::vector<uint64_t> words_;
};

struct Trees {
  std::vector<int> choice;
  std::vector<double> price;  // by class
};

Trees PriceTrees(const ExtractionProblem& problem) {
  Trees trees{std::vector<int>(problem.makers.size(), -1), std::vector<double>(problem.makers.size(), kInfinity)};
  std::vector<size_t> missing(problem.nodes.size());
  std::vector<double> sum(problem.nodes.size());
  std::vector<std::vector<int>> users(problem.makers.size());
  using Entry = std::pair<double, int>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> queue;
  for (size_t n = 0; n < problem.nodes.size(); ++n) {
    const ExtractionProblem::Node& node = problem.nodes[n];
    missing[n] = node.needs.size();
    sum[n] = node.cost;
    for (int need : node.needs) users[need].push_back(static_cast<int>(n));
    if (missing[n] == 0 && node.cost < kInfinity) queue.emplace(sum[n], static_cast<int>(n));
  }
  while (!queue.empty()) {
    const auto [price, n] = queue.top();
    queue.pop();
    for (int made : problem.nodes[n].makes) {
      const size_t at = made;
      if (trees.choice[at] >= 0) continue;
      trees.choice[at] = n;
      trees.price[at] = price;
      for (int user : users[at]) {
        const size_t u = user;
        sum[u] += price;
        if (--missing[u] == 0 && sum[u] < kInfinity) queue.emplace(sum[u], user);
      }
    }
  }
  return trees;
}

class BranchSearch {
 public:
  BranchSearch(const ExtractionProblem& problem, int64_t max_steps,
               const std::function<void(const Extraction&)>& better)
      : problem_(problem),
        max_steps_(max_steps),
        better_(better),
        trees_(PriceTrees(problem)),
        makers_(problem.makers.size()),
        floor_(problem.makers.size(), 0),
        choice_(problem.makers.size(), -1),
        needed_(problem.makers.size(), false),
        used_(problem.nodes.size(), 0) {
    result_.best.cost = kInfinity;
    Prepare();
  }

  BranchAndBound Run(const std::vector<std::vector<int>>& starts) {
    for (const std::vector<int>& start : starts) Offer(Needed(problem_, start));
    Offer(Needed(problem_, trees_.choice));
    const bool possible =
        std::all_of(problem_.roots.begin(), problem_.roots.end(), [&](int root) { return trees_.choice[root] >= 0; });
    if (possible) {
      for (int root : problem_.roots) Need(root);
      Branch();
    }
    result_.exact = result_.steps < max_steps_;
    return std::move(result_);
  }

 private:
  const ExtractionProblem::Node& node(int n) const { return problem_.nodes[n]; }

  // Lists, by class, the e-nodes that can be part of a graph, the most promising first, and the classes that all of
  // them need.
  void Prepare() {
    const size_t classes = problem_.makers.size();
    const auto tree = [&](int n) {
      double sum = node(n).cost;
      for (int need : node(n).needs) sum += trees_.price[need];
      return sum;
    };
    for (size_t c = 0; c < classes; ++c) {
      for (int n : problem_.makers[c]) {
        if (tree(n) < kInfinity) makers_[c].push_back(n);
      }
      std::stable_sort(makers_[c].begin(), makers_[c].end(), [&](int a, int b) { return tree(a) < tree(b); });
      DropDominated(&makers_[c]);
      if (makers_[c].empty()) continue;
      double least = kInfinity;
      // An e-node with several outputs may be paid for by another class.
      for (int n : makers_[c]) least = std::min(least, node(n).makes.size() > 1 ? 0 : node(n).cost);
      floor_[c] = least;
    }
    must_.assign(classes, ClassSet(classes, /*full=*/true));
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t c = 0; c < classes; ++c) {
        ClassSet common(classes, /*full=*/true);
        for (int n : makers_[c]) {
          ClassSet all(classes);
          for (int need : node(n).needs) all.Unite(must_[need]);
          common.Intersect(all);
        }
        if (makers_[c].empty()) common = ClassSet(classes);
        common.Insert(c);
        if (common == must_[c]) continue;
        must_[c] = std::move(common);
        changed = true;
      }
    }
  }

  // An e-node that needs no less than another, and costs no less, is never better.
  void DropDominated(std::vector<int>* makers) const {
    constexpr size_t kMaxCompared = 64;
    if (makers->size() > kMaxCompared) return;
    std::vector<int> kept;
    for (int n : *makers) {
      const auto dominates = [&](int other) {
        if (node(other).cost > node(n).cost || node(n).makes.size() > 1) return false;
        return std::all_of(node(other).needs.begin(), node(other).needs.end(), [&](int need) {
          return std::find(node(n).needs.begin(), node(n).needs.end(), need) != node(n).needs.end();
        });
      };
      if (std::none_of(kept.begin(), kept.end(), dominates)) kept.push_back(n);
    }
    *makers = std::move(kept);
  }

  void Need(int c) {
    if (needed_[c]) return;
    needed_[c] = true;
    open_.push_back(c);
    trail_.push_back({Change::kNeeded, c});
  }

  // False when that closes a cycle.
  bool Choose(int c, int n) {
    if (ReachesBack(n, c)) return false;
    choice_[c] = n;
    std::erase(open_, c);
    trail_.push_back({Change::kChosen, c});
    if (used_[n]++ == 0) cost_ += node(n).cost;
    for (int need : node(n).needs) Need(need);
    return true;
  }

  void Undo(size_t mark) {
    for (; trail_.size() > mark; trail_.pop_back()) {
      const auto [change, c] = trail_.back();
      const size_t at = c;
      if (change == Change::kNeeded) {
        needed_[at] = false;
        std::erase(open_, c);
      } else {
        const int n = std::exchange(choice_[at], -1);
        if (--used_[n] == 0) cost_ -= node(n).cost;
        open_.push_back(c);
      }
    }
  }

  // True if the choices lead from the operands of `n` to `c`.
  bool ReachesBack(int n, int c) const {
    const auto is_open_elsewhere = [&](int need) { return need != c && choice_[need] < 0; };
    if (std::all_of(node(n).needs.begin(), node(n).needs.end(), is_open_elsewhere)) return false;
    std::vector<int> stack = node(n).needs;
    std::vector<bool> seen(choice_.size(), false);
    while (!stack.empty()) {
      const int at = stack.back();
      stack.pop_back();
      if (at == c) return true;
      if (seen[at]) continue;
      seen[at] = true;
      const int chosen = choice_[at];
      if (chosen >= 0) stack.insert(stack.end(), node(chosen).needs.begin(), node(chosen).needs.end());
    }
    return false;
  }

  double Bound() const {
    ClassSet all(choice_.size());
    for (int c : open_) all.Unite(must_[c]);
    double bound = cost_;
    all.ForEach([&](size_t c) {
      if (c < choice_.size() && choice_[c] < 0) bound += floor_[c];
    });
    return bound;
  }

  void Branch() {
    const size_t mark = trail_.size();
    // Classes without a choice first.
    for (size_t i = 0; i < open_.size();) {
      const int c = open_[i];
      const std::vector<int>& makers = makers_[c];
      if (makers.size() > 1) {
        ++i;
        continue;
      }
      if (makers.empty() || !Choose(c, makers[0])) return Undo(mark);
      i = 0;
    }
    if (open_.empty()) {
      Offer(Extraction{choice_, cost_});
    } else if (result_.steps < max_steps_ && Bound() < JustBelow(result_.best.cost)) {
      ++result_.steps;
      const int c = *std::min_element(open_.begin(), open_.end(), [&](int a, int b) {
        const auto rank = [&](int x) { return std::tuple(-trees_.price[x], makers_[x].size(), x); };
        return rank(a) < rank(b);
      });
      for (int n : makers_[c]) {
        const size_t before = trail_.size();
        if (Choose(c, n)) Branch();
        Undo(before);
      }
    }
    Undo(mark);
  }

  static double JustBelow(double cost) { return cost * (1 - 1e-12); }

  void Offer(const Extraction& extraction) {
    if (!(extraction.cost < JustBelow(result_.best.cost))) return;
    result_.best = extraction;
    if (better_) better_(extraction);
  }

  enum class Change { kNeeded, kChosen };

  const ExtractionProblem& problem_;
  const int64_t max_steps_;
  const std::function<void(const Extraction&)>& better_;
  const Trees trees_;
  std::vector<std::vector<int>> makers_;
  std::vector<double> floor_;   // by class: the least cost of its e-nodes
  std::vector<ClassSet> must_;  // by class: the classes that are needed with it in any case
  std::vector<int> choice_;
  std::vector<bool> needed_;
  std::vector<int> used_;  // by node: how many classes chose it
  std::vector<int> open_;  // needed, without a choice
  std::vector<std::pair<Change, int>> trail_;
  double cost_ = 0;
  BranchAndBound result_;
};

}  // namespace

Extraction Needed(const ExtractionProblem& problem, const std::vector<int>& choice) {
  Extraction none;
  none.cost = kInfinity;
  Extraction extraction{std::vector<int>(choice.size(), -1), 0};
  std::vector<bool> paid(problem.nodes.size(), false);
  enum class State : uint8_t { kNew, kOpen, kDone };
  std::vector<State> states(choice.size(), State::kNew);
  // Depth first, with an explicit stack; -1 - c closes class c.
  std::vector<int> stack(problem.roots.begin(), problem.roots.end());
  while (!stack.empty()) {
    const int c = stack.back();
    stack.pop_back();
    if (c < 0) {
      states[-1 - c] = State::kDone;
      continue;
    }
    const size_t at = c;
    if (states[at] == State::kDone) continue;
    if (states[at] == State::kOpen || choice[at] < 0) return none;
    states[at] = State::kOpen;
    stack.push_back(-1 - c);
    const int n = choice[at];
    extraction.choice[at] = n;
    if (!paid[n]) extraction.cost += problem.nodes[n].cost;
    paid[n] = true;
    for (int need : problem.nodes[n].needs) {
      if (states[need] != State::kDone) stack.push_back(need);
    }
  }
  return extraction.cost < kInfinity ? extraction : none;
}

std::vector<int> CheapestTrees(const ExtractionProblem& problem) { return PriceTrees(problem).choice; }

BranchAndBound ExtractCheapest(const ExtractionProblem& problem, const std::vector<std::vector<int>>& starts,
                               int64_t max_steps, const std::function<void(const Extraction&)>& better) {
  return BranchSearch(problem, max_steps, better).Run(starts);
}

}  // namespace rewright
