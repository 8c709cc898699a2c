#include "substitutions/match/match_plan.h"

#include <algorithm>
#include <deque>

#include "substitutions/instance/compiled_rule.h"

namespace rewright {
namespace {

class Planner {
 public:
  explicit Planner(const CompiledRule& rule) : rule_(rule), bound_(static_cast<size_t>(rule.num_lhs_nodes()), false) {}

  bool Run(std::vector<int>* order, std::vector<std::vector<int>>* paths) {
    for (size_t k = 0; k < rule_.lhs().size(); ++k) {
      const int root = rule_.root(k);
      std::vector<int> path;
      if (k > 0 && !bound_[root]) {
        path = EntryPath(root);
        if (path.empty()) return false;
      }
      paths->push_back(std::move(path));
      Bind(root, order);
    }
    return std::all_of(bound_.begin(), bound_.end(), [](bool bound) { return bound; });
  }

 private:
  const RuleNode& node(int id) const { return rule_.nodes()[id]; }

  // The shortest way from a bound node (no constant: those have no one place in a graph) up to `root`.
  std::vector<int> EntryPath(int root) const {
    std::vector<int> user(bound_.size(), -1);
    std::deque<int> queue = {root};
    while (!queue.empty()) {
      const int id = queue.front();
      queue.pop_front();
      if (bound_[id] && !node(id).value) {
        std::vector<int> path = {id};
        while (path.back() != root) path.push_back(user[path.back()]);
        return path;
      }
      for (const RuleValue& operand : node(id).operands) {
        int& from = user[operand.node];
        if (from >= 0) continue;
        from = id;
        queue.push_back(operand.node);
      }
    }
    return {};
  }

  // Operands come before users in nodes(), so descending numbers are users first.
  void Bind(int root, std::vector<int>* order) {
    std::vector<bool> wanted(bound_.size(), false);
    wanted[root] = true;
    for (int id = root; id >= 0; --id) {
      if (!wanted[id] || bound_[id]) continue;
      bound_[id] = true;
      if (node(id).op == nullptr) continue;
      order->push_back(id);
      for (const RuleValue& operand : node(id).operands) wanted[operand.node] = true;
    }
  }

  const CompiledRule& rule_;
  std::vector<bool> bound_;
};

}  // namespace

bool PlanMatch(const CompiledRule& rule, std::vector<int>* order, std::vector<std::vector<int>>* paths) {
  return Planner(rule).Run(order, paths);
}

}  // namespace rewright
