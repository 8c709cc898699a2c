#include "verifier/check/bounded/distinguishing_assignments.h"

#include <algorithm>

#include "core/ir/index_value.h"
#include "verifier/refute/counterexample.h"

namespace rewright::verifier {
namespace {

// The elements of all values together; a negative size on an illegal right side counts as 0.
int64_t Elements(const RuleInstance& instance, const std::vector<int64_t>& symbols) {
  int64_t total = 0;
  for (const SymbolicNode& node : instance.nodes) {
    for (const std::vector<ExprPtr>& shape : node.shapes) {
      int64_t elements = 1;
      for (const ExprPtr& size : shape) elements *= std::clamp<int64_t>(EvalIndex(size, symbols).value_or(0), 0, 1000);
      total += elements;
    }
  }
  return total;
}

// The conditions that an attribute computed from others (pads = ?l2 - ?l1) is negative, and that it is not: a condition
// of a rule often excludes one of them.
std::vector<ExprPtr> SignsOfAttributes(const RuleInstance& instance) {
  std::vector<ExprPtr> signs;
  for (const SymbolicNode& node : instance.nodes) {
    if (node.meaning == nullptr) continue;
    for (size_t v = 0; v < node.meaning->variables.size() && v < node.indices.size(); ++v) {
      const ExprPtr& value = node.indices[v];
      if (node.meaning->variables[v].kind != Meaning::VarKind::kAttr || value == nullptr) continue;
      if (value->IsVariable() || value->kind() == ExprKind::kInt) continue;
      const Cond negative = Index(value) < 0;
      for (const Cond& sign : {negative, !negative}) signs.push_back(sign.node());
    }
  }
  return signs;
}

// The conditions that break a coincidence of two symbols or of a symbol and a small number.
std::vector<ExprPtr> Coincidences(const RuleInstance& instance) {
  std::vector<ExprPtr> breaks;
  const auto add = [&](std::initializer_list<Cond> conditions) {
    for (const Cond& one : conditions) breaks.push_back(one.node());
  };
  for (int i = 0; i < static_cast<int>(instance.symbols.size()); ++i) {
    const Index a = Variable(i, instance.symbols[i].name);
    for (int j = 0; j < i; ++j) {
      const Index b = Variable(j, instance.symbols[j].name);
      add({!(a == b), a < b, b < a});
    }
    add({!(a == 0), !(a == 1), a < 0});
  }
  return breaks;
}

struct Candidate {
  std::vector<int64_t> symbols;
  std::vector<bool> breaks;
  int64_t elements = 0;
};

class Pool {
 public:
  Pool(const RuleInstance& instance, const DistinguishingOptions& options, std::mt19937_64& rng)
      : instance_(instance),
        options_(options),
        rng_(rng),
        breaks_(SignsOfAttributes(instance)),
        signs_(breaks_.size()) {
    for (ExprPtr& one : Coincidences(instance)) breaks_.push_back(std::move(one));
    found_.resize(breaks_.size());
    Add(instance, options.pool);
    for (size_t k = 0; k < breaks_.size(); ++k) {
      if (found_[k] > 0) continue;
      RuleInstance narrower = instance;
      narrower.conditions.push_back(breaks_[k]);
      Add(narrower, options.tries);
    }
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.elements < b.elements; });
  }

  std::vector<std::vector<int64_t>> All() const {
    std::vector<std::vector<int64_t>> all;
    for (const Candidate& candidate : candidates_) all.push_back(candidate.symbols);
    return all;
  }

  std::vector<std::vector<int64_t>> Choose() const {
    std::vector<std::vector<int64_t>> chosen;
    std::vector<bool> broken(breaks_.size());
    while (static_cast<int>(chosen.size()) < options_.draws) {
      const Candidate* best = nullptr;
      double most = chosen.empty() ? -1 : 0;  // the first is taken even where nothing can be broken
      for (const Candidate& candidate : candidates_) {
        if (candidate.elements > options_.most_elements) break;
        // A sign of an attribute comes before all coincidences, at the largest application, where windows read more
        // than padding. Rare breaks of coincidences count more, and small applications come sooner.
        double fresh = 0, signs = 0;
        for (size_t k = 0; k < broken.size(); ++k) {
          if (candidate.breaks[k] && !broken[k]) (k < signs_ ? signs : fresh) += 1.0 / found_[k];
        }
        const double elements = static_cast<double>(candidate.elements);
        fresh = fresh / (elements + 100) + signs * elements * static_cast<double>(breaks_.size());
        if (fresh <= most) continue;
        most = fresh;
        best = &candidate;
      }
      if (best == nullptr) break;
      for (size_t k = 0; k < broken.size(); ++k) broken[k] = broken[k] || best->breaks[k];
      chosen.push_back(best->symbols);
    }
    return chosen;
  }

 private:
  void Add(const RuleInstance& instance, int count) {
    for (std::vector<int64_t>& symbols : CounterexampleSearch(instance, rng_()).Draw(count)) {
      Candidate candidate{std::move(symbols), {}, 0};
      candidate.elements = Elements(instance_, candidate.symbols);
      for (size_t k = 0; k < breaks_.size(); ++k) {
        candidate.breaks.push_back(EvalCond(breaks_[k], candidate.symbols).value_or(false));
        found_[k] += candidate.breaks[k] && candidate.elements <= options_.most_elements;
      }
      candidates_.push_back(std::move(candidate));
    }
  }

  const RuleInstance& instance_;
  const DistinguishingOptions& options_;
  std::mt19937_64& rng_;
  std::vector<ExprPtr> breaks_;
  const size_t signs_;      // the first of them, of attributes
  std::vector<int> found_;  // how many candidates do
  std::vector<Candidate> candidates_;
};

}  // namespace

DistinguishingAssignments DrawTelling(const RuleInstance& instance, const DistinguishingOptions& options,
                                      std::mt19937_64& rng) {
  const Pool pool(instance, options, rng);
  return {pool.Choose(), pool.All()};
}

}  // namespace rewright::verifier
