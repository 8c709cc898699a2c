#include "substitutions/match/discrimination_net.h"

#include <algorithm>
#include <utility>

#include "substitutions/instance/compiled_rule.h"

namespace rewright {
namespace {

// Applications above each other that are tested.
constexpr int kMaxDepth = 4;
// Sequences of one rule: every commutative operator doubles them.
constexpr size_t kMaxOrders = 16;

}  // namespace

class DiscriminationNetBuilder {
 public:
  explicit DiscriminationNetBuilder(DiscriminationNet* net) : net_(*net) {}

  void Add(int number, const CompiledRule& rule) {
    rule_ = &rule;
    NoteLeaves();
    for (const Tests& tests : Orders(RuleValue{rule.root(0), 0}, 0)) Insert(number, tests);
  }

 private:
  using Test = DiscriminationNet::Test;
  using Tests = std::vector<DiscriminationNet::Edge>;

  const RuleNode& node(int id) const { return rule_->nodes()[id]; }

  // Notes the tests of leaves: literals of the rule, and top-level conditions.
  void NoteLeaves() {
    leaves_.assign(static_cast<size_t>(rule_->num_lhs_nodes()), Test::kAny);
    for (const ArgExpr& condition : rule_->conditions()) {
      if (condition.kind != ArgExpr::Kind::kCall || condition.args.size() != 1) continue;
      const ArgExpr& arg = condition.args[0];
      if (arg.ref != ArgExpr::Ref::kTensor || static_cast<size_t>(arg.id) >= leaves_.size()) continue;
      Test& test = leaves_[arg.id];
      switch (condition.fn) {
        case ArgFn::kWeight: test = test == Test::kAny ? Test::kWeight : test; break;
        case ArgFn::kConstant:
        case ArgFn::kPositive:
        case ArgFn::kFinite: test = Test::kKnown; break;
        default: break;
      }
    }
    for (size_t id = 0; id < leaves_.size(); ++id) {
      if (node(static_cast<int>(id)).value) leaves_[id] = Test::kKnown;
    }
  }

  // The tests of a value and of all nodes below it, in all orders of the operands of commutative operators.
  std::vector<Tests> Orders(const RuleValue& value, int depth) const {
    const RuleNode& of = node(value.node);
    if (of.op == nullptr) return {{{leaves_[value.node]}}};
    if (depth == kMaxDepth) return {{{Test::kAny}}};
    const bool spread = std::any_of(of.operands.begin(), of.operands.end(), [](const RuleValue& v) { return v.all; });
    const int32_t operands = spread ? -1 : static_cast<int32_t>(of.operands.size());
    const Tests top = {{Test::kApplication, of.op, value.output, operands}};
    if (spread) return {top};
    std::vector<std::vector<Tests>> below;
    for (const RuleValue& operand : of.operands) below.push_back(Orders(operand, depth + 1));
    std::vector<Tests> orders = Concatenate(top, below);
    if (of.op->commutative && below.size() == 2 && !Same(below[0], below[1])) {
      std::swap(below[0], below[1]);
      for (Tests& tests : Concatenate(top, below)) orders.push_back(std::move(tests));
    }
    // If there are too many orders, only the top is tested.
    if (orders.size() > kMaxOrders) return {{{Test::kApplication, of.op, value.output, -1}}};
    return orders;
  }

  static std::vector<Tests> Concatenate(const Tests& top, const std::vector<std::vector<Tests>>& below) {
    std::vector<Tests> all = {top};
    for (const std::vector<Tests>& operand : below) {
      std::vector<Tests> longer;
      for (const Tests& tests : all) {
        for (const Tests& more : operand) {
          longer.push_back(tests);
          longer.back().insert(longer.back().end(), more.begin(), more.end());
        }
      }
      all = std::move(longer);
    }
    return all;
  }

  static bool Same(const std::vector<Tests>& a, const std::vector<Tests>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Tests& x, const Tests& y) {
      return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                        [](const DiscriminationNet::Edge& e, const DiscriminationNet::Edge& f) { return e.Is(f); });
    });
  }

  void Insert(int number, const Tests& tests) {
    int state = Follow(&net_.roots_[tests[0].op], tests[0]);
    for (size_t i = 1; i < tests.size(); ++i) {
      std::vector<DiscriminationNet::Edge> edges = std::move(net_.states_[state].edges);
      const int next = Follow(&edges, tests[i]);
      net_.states_[state].edges = std::move(edges);
      state = next;
    }
    std::vector<int>& rules = net_.states_[state].rules;
    if (rules.empty() || rules.back() != number) rules.push_back(number);
  }

  int Follow(std::vector<DiscriminationNet::Edge>* edges, const DiscriminationNet::Edge& test) {
    const auto known =
        std::find_if(edges->begin(), edges->end(), [&](const DiscriminationNet::Edge& e) { return e.Is(test); });
    if (known != edges->end()) return known->next;
    edges->push_back(test);
    edges->back().next = net_.num_states();
    net_.states_.emplace_back();
    return edges->back().next;
  }

  DiscriminationNet& net_;
  const CompiledRule* rule_ = nullptr;
  std::vector<Test> leaves_;  // by node of the left side
};

DiscriminationNet::DiscriminationNet(const std::vector<const CompiledRule*>& rules) {
  DiscriminationNetBuilder builder(this);
  for (size_t i = 0; i < rules.size(); ++i) builder.Add(static_cast<int>(i), *rules[i]);
}

void DiscriminationNet::SortUnique(size_t from, std::vector<int>* rules) {
  const auto begin = rules->begin() + static_cast<std::ptrdiff_t>(from);
  std::sort(begin, rules->end());
  rules->erase(std::unique(begin, rules->end()), rules->end());
}

}  // namespace rewright
