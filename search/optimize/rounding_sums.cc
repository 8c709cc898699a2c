#include "search/optimize/rounding_sums.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "core/interpreter/interpreter.h"
#include "core/interpreter/known_values.h"
#include "substitutions/match/new_values.h"

namespace rewright {
namespace {

constexpr size_t kMostTerms = 16;                    // of a linear form; a longer sum is a term itself
constexpr int64_t kMostElements = int64_t{1} << 16;  // of a constant that is looked at one by one

struct Constant {
  int sign = 1;
  Value value;
};

// sum k_i x_i + sum +-c_j
struct LinearForm {
  std::map<Value, int> terms;
  std::vector<Constant> constants;
};

// The function that gives each element, of elements as they are read; nothing where there is more to it.
std::optional<Fn> FunctionOf(const Node& node) {
  if (node.meaning->IsOpaque() || node.outputs.size() != 1 || !IsFloating(node.outputs[0].dtype)) return std::nullopt;
  const ExprPtr& element = node.meaning->outputs[0].element;
  if (!element->IsCall()) return std::nullopt;
  const bool reads =
      std::all_of(element->args().begin(), element->args().end(), [](const ExprPtr& arg) { return arg->IsRead(); });
  return reads ? std::optional(element->fn()) : std::nullopt;
}

bool AddsUp(Fn fn) { return fn == Fn::kAdd || fn == Fn::kSub || fn == Fn::kNeg; }

class Finder {
 public:
  Finder(const Graph& graph, Numerics& numerics) : graph_(graph), numerics_(numerics) {}

  std::vector<NodeId> Run() {
    std::vector<NodeId> found;
    for (NodeId id : graph_.nodes()) {
      const Node& node = graph_.node(id);
      if (node.op == nullptr || graph_.IsKnown(node)) continue;
      const std::optional<Fn> fn = FunctionOf(node);
      if (!fn) continue;
      const bool of_parts = (AddsUp(*fn) || *fn == Fn::kMul) && ReadsPart(node);
      const bool cancels = AddsUp(*fn) && Add(id, node, *fn);
      if (cancels || of_parts) found.push_back(id);
      if (of_parts) parts_.insert(id);
    }
    return found;
  }

 private:
  bool ReadsPart(const Node& node) const {
    return std::any_of(node.operands.begin(), node.operands.end(),
                       [&](Value operand) { return parts_.contains(operand.node); });
  }

  LinearForm FormOf(Value value) const {
    if (graph_.IsKnown(value)) return {{}, {{1, value}}};
    const auto found = forms_.find(value.node);
    return found != forms_.end() ? found->second : LinearForm{{{value, 1}}, {}};
  }

  // Puts down the node's form; whether something cancels.
  bool Add(NodeId id, const Node& node, Fn fn) {
    const ExprPtr& element = node.meaning->outputs[0].element;
    LinearForm sum;
    bool part = false, constant = false;
    for (size_t k = 0; k < element->args().size(); ++k) {
      const int sign = fn == Fn::kNeg || (fn == Fn::kSub && k == 1) ? -1 : 1;
      const LinearForm next = FormOf(node.operands[static_cast<size_t>(element->arg(k)->operand())]);
      for (const auto& [term, factor] : next.terms) {
        int& now = sum.terms[term];
        part = part || now * sign * factor < 0;
        now += sign * factor;
        if (now == 0) sum.terms.erase(term);
      }
      const bool both = !sum.constants.empty() && !next.constants.empty();
      for (const Constant& c : next.constants) sum.constants.push_back({sign * c.sign, c.value});
      if (both && Cancels(sum.constants)) {
        constant = true;
        sum.constants.clear();
      }
    }
    if (part) parts_.insert(id);
    if (sum.terms.size() + sum.constants.size() <= kMostTerms) forms_[id] = std::move(sum);
    return part || constant;
  }

  // True if little is left of the sum of constants, in most elements.
  bool Cancels(const std::vector<Constant>& constants) {
    int64_t count = 1;
    for (const Constant& c : constants) {
      const int64_t elements = graph_.type(c.value).num_elements();
      if (elements != 1 && count != 1 && elements != count) return false;
      count = std::max(count, elements);
    }
    if (count > kMostElements) return false;
    std::vector<double> sums(static_cast<size_t>(count), 0), largest(static_cast<size_t>(count), 0);
    for (const Constant& c : constants) {
      const Interval range = numerics_.Of(*graph_.arena(), c.value).range;
      std::optional<Tensor> elements;
      if (range.lo != range.hi) {
        auto computed = ComputeKnown(graph_.arena(), {c.value});
        if (!computed.ok()) return false;
        elements = std::move(computed->front());
      }
      for (size_t i = 0; i < sums.size(); ++i) {
        const int64_t at = elements && elements->num_elements() > 1 ? static_cast<int64_t>(i) : 0;
        const double x = elements ? elements->At(at) : range.lo;
        sums[i] += c.sign * x;
        largest[i] = std::max(largest[i], std::abs(x));
      }
    }
    int64_t cancelled = 0;
    for (size_t i = 0; i < sums.size(); ++i) {
      cancelled += largest[i] > 0 && !CheckCancellation(sums[i], largest[i]).ok() ? 1 : 0;
    }
    return 2 * cancelled > count;
  }

  const Graph& graph_;
  Numerics& numerics_;
  absl::flat_hash_map<NodeId, LinearForm> forms_;
  absl::flat_hash_set<NodeId> parts_;  // values that are parts of numbers, or errors
};

}  // namespace

std::vector<NodeId> RoundingSums(const Graph& graph, Numerics& numerics) { return Finder(graph, numerics).Run(); }

}  // namespace rewright
