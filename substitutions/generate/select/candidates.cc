#include "substitutions/generate/select/candidates.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/text_hash.h"
#include "substitutions/generate/enumerate/find_pairs.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/language/rule_printer.h"

namespace rewright::generate {
namespace {

// Applications, counted as often as they are used: an instance of a law is never smaller than the law, even where it
// names one part for two inputs.
int64_t TreeSize(const Space& space, const SmallGraph& graph) {
  std::vector<std::array<int64_t, kMaxOutputs>> uses(static_cast<size_t>(graph.size));
  const auto use = [&](Ref ref, int64_t times) {
    if (ref >= kOutputs) {
      uses[(ref - kOutputs) / kMaxOutputs][(ref - kOutputs) % kMaxOutputs] += times;
    }
  };
  for (Ref ref : OutputsOf(space, graph)) use(ref, 1);
  int64_t size = 0;
  for (int i = graph.size - 1; i >= 0; --i) {
    // One application does its work once, whatever number of its outputs is used.
    const auto& own = uses[i];
    const int64_t times = *std::max_element(own.begin(), own.end());
    size += times;
    const OperatorChoice& choice = space.operators[graph.applications[i].op];
    for (int k = 0; k < choice.arity; ++k) use(graph.applications[i].operands[k], times);
  }
  return size;
}

int NumInputs(const Rule& rule) {
  const auto compiled = CompileRule(rule);
  int count = 0;
  for (int i = 0; i < (*compiled)->num_lhs_nodes(); ++i) {
    const RuleNode& node = (*compiled)->nodes()[i];
    count += node.op == nullptr && !node.value;
  }
  return count;
}

// True if both sides are the same graph. It happens where one operator of the space is two of this project's.
bool SidesAreEqual(const Rule& rule) {
  const auto compiled = CompileRule(rule, RuleUse::kProof);
  if (!compiled.ok()) return false;
  const CompiledRule& c = **compiled;
  std::vector<int> same(c.nodes().size());
  for (size_t i = 0; i < same.size(); ++i) {
    same[i] = static_cast<int>(i);
    const RuleNode& node = c.nodes()[i];
    if (static_cast<int>(i) < c.num_lhs_nodes() || node.op == nullptr) continue;
    for (size_t j = 0; j < i && same[i] == static_cast<int>(i); ++j) {
      const RuleNode& other = c.nodes()[j];
      if (other.op != node.op || other.operands.size() != node.operands.size()) continue;
      bool equal = true;
      for (size_t k = 0; k < node.operands.size(); ++k) {
        const RuleValue &a = node.operands[k], &b = other.operands[k];
        equal = equal && same[a.node] == same[b.node] && a.output == b.output;
      }
      for (size_t k = 0; k < node.attrs.size(); ++k) {
        equal = equal && PrintArg(node.attrs[k]) == PrintArg(other.attrs[k]);
      }
      if (equal) same[i] = same[j];
    }
  }
  for (size_t k = 0; k < c.lhs().size(); ++k) {
    if (same[c.lhs()[k].node] != same[c.rhs()[k].node]) return false;
  }
  return true;
}

class Stating {
 public:
  explicit Stating(const Space& space) : space_(space) {}

  Candidates Run(const std::vector<Pair>& pairs, uint64_t seed) const {
    Candidates result;
    std::vector<std::vector<int64_t>> assignments = space_.confirmation;
    assignments.push_back(space_.nominal);
    Terms terms(space_, assignments, true, seed);
    std::set<std::string> laws;
    for (const Pair& pair : pairs) {
      std::optional<Candidate> candidate = StateOne(terms, pair);
      if (!candidate) {
        ++result.unstated;
      } else if (!laws.insert(candidate->law).second) {
        ++result.repeated;
      } else {
        result.candidates.push_back(*std::move(candidate));
      }
    }
    std::stable_sort(result.candidates.begin(), result.candidates.end(), [](const Candidate& a, const Candidate& b) {
      const auto key = [](const Candidate& c) {
        // If two laws have one form, the one with more inputs is more general. Among equally simple laws those that
        // save more operators come first.
        return std::tuple(c.size, c.outputs.size(), -c.inputs, static_cast<int>(c.generality),
                          c.pair.second.size - c.pair.first.size, c.law.size());
      };
      return key(a) < key(b);
    });
    return result;
  }

 private:
  // Counts products and convolutions, which take most of the time.
  int NumContractions(const SmallGraph& graph) const {
    return static_cast<int>(std::count_if(graph.applications, graph.applications + graph.size, [&](const auto& a) {
      const std::string& op = space_.operators[a.op].op;
      return op == "matmul" || op == "conv2d";
    }));
  }

  // States the pair from the larger side to the smaller one if possible. If both are equally large, it starts from the
  // side with more products and convolutions. It states a merge from the side that shares nothing.
  std::optional<Candidate> StateOne(Terms& terms, const Pair& pair) const {
    const Pair swapped{pair.second, pair.first};
    if ((ConstantsOf(pair.first) & ConstantsOf(pair.second)).any()) return std::nullopt;
    // No model holds the exact quotient that a constant such as 1/9 stands for: it is built, not looked for.
    const bool forward = (pair.first.size > 0 && IsMerge(space_, pair.first, pair.second)) || HasQuotient(pair.second);
    const bool fewer =
        pair.first.size == pair.second.size && NumContractions(pair.first) > NumContractions(pair.second);
    for (const Pair& directed : forward ? std::vector<Pair>{pair}
                                : fewer ? std::vector<Pair>{pair, swapped}
                                        : std::vector<Pair>{swapped, pair}) {
      if (HasQuotient(directed.first)) continue;
      Candidate candidate{.pair = directed, .outputs = OutputPairs(terms, directed)};
      if (candidate.outputs.empty()) continue;
      for (Generality generality : kGeneralities) {
        absl::StatusOr<Rule> rule = BuildRule(space_, directed, candidate.outputs, generality);
        if (!rule.ok()) continue;
        rule->name = "rule";
        if (!CompileRule(*rule).ok() || SidesAreEqual(*rule)) continue;
        candidate.law = PrintLaw(*rule);
        TextHash hash;
        hash.Add(candidate.law);
        candidate.key = hash.Hex();
        candidate.generality = generality;
        candidate.inputs = NumInputs(*rule);
        candidate.size = TreeSize(space_, directed.first) + TreeSize(space_, directed.second);
        candidate.rule = *std::move(rule);
        candidate.merge = IsMerge(space_, directed.first, directed.second);
        candidate.special = WeightAsImage(pair.first) || WeightAsImage(pair.second);
        return candidate;
      }
    }
    return std::nullopt;
  }

  // True if the weight of a convolution, or a value made of it, is pooled or is the image of a convolution.
  bool WeightAsImage(const SmallGraph& graph) const {
    std::vector<bool> weights;  // by input
    for (const InputGroup& group : space_.inputs)
      weights.insert(weights.end(), static_cast<size_t>(group.count), group.kernel);
    std::vector<bool> made(static_cast<size_t>(graph.size));
    const auto is_weight = [&](Ref ref) {
      return ref < kOutputs ? weights[ref] : made[(ref - kOutputs) / kMaxOutputs];
    };
    for (int i = 0; i < graph.size; ++i) {
      const SmallGraph::Application& application = graph.applications[i];
      const OperatorChoice& choice = space_.operators[application.op];
      const bool slides = HasWindows(choice);
      if (slides && is_weight(application.operands[0])) return true;
      for (int k = 0; k < choice.arity && !slides; ++k) {
        if (is_weight(application.operands[k])) made[i] = true;
      }
    }
    return false;
  }

  // The constants of a graph, as bits. A law with a constant on both sides has not got rid of it.
  std::bitset<128> ConstantsOf(const SmallGraph& graph) const {
    std::bitset<128> constants;
    for (int i = 0; i < graph.size; ++i) {
      const size_t op = graph.applications[i].op;
      if (space_.operators[op].constant != OperatorChoice::Constant::kNone) constants.set(op);
    }
    return constants;
  }
  bool HasQuotient(const SmallGraph& graph) const {
    for (int i = 0; i < graph.size; ++i) {
      if (space_.operators[graph.applications[i].op].denominator != 1) return true;
    }
    return false;
  }

  const Space& space_;
};

}  // namespace

Candidates StateCandidates(const Space& space, const std::vector<Pair>& pairs, uint64_t seed) {
  return Stating(space).Run(pairs, seed);
}

std::optional<Rule> StateAs(const Space& space, const Candidate& candidate, Generality generality,
                            const std::string& condition) {
  absl::StatusOr<Rule> rule = BuildRule(space, candidate.pair, candidate.outputs, generality);
  if (!rule.ok()) return std::nullopt;
  rule->name = "rule";
  if (!condition.empty()) {
    const auto conditional = ParseRules(
        absl::StrCat(PrintLaw(*rule), rule->conditions.empty() ? "\n  when " : " and ", condition), "inferred");
    if (!conditional.ok()) return std::nullopt;
    *rule = conditional->front();
  }
  if (!CompileRule(*rule).ok()) return std::nullopt;
  return *std::move(rule);
}

}  // namespace rewright::generate
