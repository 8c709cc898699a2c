// Compares the canonical walk with one that writes every graph in every order and naming.
#include "substitutions/generate/enumerate/walk.h"

#include <algorithm>
#include <ostream>
#include <set>
#include <string>

#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace rewright::generate {
namespace {

std::vector<std::vector<int64_t>> AllAssignments(const Space& space) {
  std::vector<std::vector<int64_t>> assignments = space.assignments;
  assignments.push_back(space.nominal);
  return assignments;
}

Space Small(std::vector<std::string> ops, int inputs, int max_ops, size_t kept) {
  Space space = TasoSpace();
  const absl::Status restricted = Restrict(ops, inputs, &space);
  EXPECT_TRUE(restricted.ok()) << restricted.message();
  space.max_ops = max_ops;
  // Removes kinds of inputs that no operator of the test reads, which would only make it slow.
  space.inputs.resize(kept);
  return space;
}

// Gives a canonical text of a graph, independent of the order of its applications and of the names of its inputs: the
// least text over all namings of the set of its applications, each written out down to the inputs.
class Naive {
 public:
  explicit Naive(const Space& space) : space_(space), terms_(space, AllAssignments(space), true, 3) {}

  std::set<std::string> Graphs(int size) {
    found_.clear();
    std::vector<ValueId> values;
    for (int i = 0; i < terms_.num_inputs(); ++i) values.push_back(i);
    Extend({}, values, size);
    return found_;
  }

  // Returns a graph of the walk in the form of Graphs().
  std::string CanonicalOf(const SmallGraph& graph) {
    ValueId values[256];
    std::vector<NodeId> nodes;
    for (int i = 0; i < graph.size; ++i) {
      ValueId operands[kMaxArity] = {-1, -1, -1};
      for (int k = 0; k < space_.operators[graph.applications[i].op].arity; ++k) {
        const Ref ref = graph.applications[i].operands[k];
        operands[k] = ref < kOutputs ? ref : values[ref];
      }
      nodes.push_back(terms_.Add(graph.applications[i].op, operands));
      for (int k = 0; k < terms_.node(nodes.back()).num_outputs; ++k) {
        values[OutputRef(i, k)] = terms_.node(nodes.back()).first + k;
      }
    }
    return Canonical(nodes);
  }

 private:
  void Extend(std::vector<NodeId> nodes, std::vector<ValueId> values, int left) {
    if (left == 0) {
      if (Connected(nodes)) found_.insert(Canonical(nodes));
      return;
    }
    for (size_t op = 0; op < space_.operators.size(); ++op) {
      if (space_.operators[op].view) continue;
      ForEachOperands(static_cast<int>(op), values, {}, [&](const std::vector<ValueId>& operands) {
        ValueId padded[kMaxArity] = {-1, -1, -1};
        std::copy(operands.begin(), operands.end(), padded);
        if (!terms_.Takes(static_cast<int>(op), padded)) return;
        const NodeId node = terms_.Add(static_cast<int>(op), padded);
        if (node < 0 || std::find(nodes.begin(), nodes.end(), node) != nodes.end()) return;
        // As in the walk, an existing tensor is not added again.
        std::vector<ValueId> more = values;
        bool repeated = false;
        for (int k = 0; k < terms_.node(node).num_outputs; ++k) {
          const ValueId value = terms_.node(node).first + k;
          for (ValueId other : Used(nodes, node))
            repeated = repeated || terms_.value(other).hash == terms_.value(value).hash;
          more.push_back(value);
        }
        if (repeated && left > 1) return;
        std::vector<NodeId> with = nodes;
        with.push_back(node);
        Extend(with, more, left - 1);
      });
    }
  }

  // Returns the tensors of a graph: outputs of its nodes, and inputs that they or `next` read.
  std::set<ValueId> Used(const std::vector<NodeId>& nodes, NodeId next) {
    std::set<ValueId> used;
    for (NodeId id : nodes) {
      for (int k = 0; k < terms_.node(id).num_outputs; ++k) used.insert(terms_.node(id).first + k);
    }
    std::vector<NodeId> all = nodes;
    all.push_back(next);
    for (NodeId id : all) {
      for (ValueId operand : terms_.node(id).operands) {
        if (operand >= 0 && operand < terms_.num_inputs()) used.insert(operand);
      }
    }
    return used;
  }

  template <typename F>
  void ForEachOperands(int op, const std::vector<ValueId>& values, std::vector<ValueId> operands, const F& visit) {
    if (static_cast<int>(operands.size()) == space_.operators[op].arity) {
      visit(operands);
      return;
    }
    for (ValueId value : values) {
      std::vector<ValueId> with = operands;
      with.push_back(value);
      ForEachOperands(op, values, with, visit);
    }
  }

  bool Connected(const std::vector<NodeId>& nodes) {
    std::set<NodeId> reached = {nodes[0]};
    for (size_t round = 0; round < nodes.size(); ++round) {
      for (NodeId a : nodes) {
        for (NodeId b : nodes) {
          if (reached.count(a) == 1 && Share(a, b)) reached.insert(b);
        }
      }
    }
    return reached.size() == nodes.size();
  }
  bool Share(NodeId a, NodeId b) {
    for (ValueId x : terms_.node(a).operands) {
      if (x < 0) continue;
      if (terms_.value(x).node == b) return true;
      for (ValueId y : terms_.node(b).operands) {
        if (y >= 0 && (terms_.value(y).node == a || terms_.value(x).node == terms_.value(y).node)) return true;
      }
    }
    for (ValueId y : terms_.node(b).operands) {
      if (y >= 0 && terms_.value(y).node == a) return true;
    }
    return false;
  }

  std::string Text(ValueId value, const std::vector<int>& names) {
    const TermNode& node = terms_.node(terms_.value(value).node);
    if (node.op < 0) return "i" + std::to_string(names[value]);
    const OperatorChoice& choice = space_.operators[node.op];
    std::vector<std::string> operands;
    for (int k = 0; k < choice.arity; ++k) operands.push_back(Text(node.operands[k], names));
    if (choice.commutative) std::sort(operands.begin(), operands.end());
    std::string text = choice.name + "." + std::to_string(value - node.first) + "(";
    for (const std::string& operand : operands) text += operand + ",";
    return text + ")";
  }

  std::string Canonical(const std::vector<NodeId>& nodes) {
    std::vector<int> names(static_cast<size_t>(terms_.num_inputs()));
    for (size_t i = 0; i < names.size(); ++i) names[i] = static_cast<int>(i);
    std::string least;
    const auto permute = [&](const auto& self, size_t group) -> void {
      if (group == space_.inputs.size()) {
        std::set<std::string> texts;
        for (NodeId id : nodes) texts.insert(Text(terms_.node(id).first, names));
        std::string all;
        for (const std::string& text : texts) all += text + ";";
        if (least.empty() || all < least) least = all;
        return;
      }
      const auto begin = names.begin() + terms_.first_of(static_cast<int>(group));
      const auto end = begin + space_.inputs[group].count;
      std::sort(begin, end);
      do {
        self(self, group + 1);
      } while (std::next_permutation(begin, end));
    };
    permute(permute, 0);
    return least;
  }

  const Space& space_;
  Terms terms_;
  std::set<std::string> found_;
};

std::vector<SmallGraph> Walked(const Space& space, int size) {
  Terms terms(space, AllAssignments(space), true, 3);
  std::vector<SmallGraph> found;
  Walk walk(terms, size, [&](const SmallGraph& graph, const ValueId*) {
    found.push_back(graph);
    return true;
  });
  EXPECT_TRUE(walk.Run());
  return found;
}

struct WalkCase {
  std::vector<std::string> ops;
  size_t kinds;  // of inputs, the first ones of the preset
};
void PrintTo(const WalkCase& walk, std::ostream* out) { *out << absl::StrJoin(walk.ops, "_"); }
class WalkTest : public testing::TestWithParam<WalkCase> {};

TEST_P(WalkTest, FindsEveryGraphAndHardlyAnyTwice) {
  for (int size = 1; size <= 2; ++size) {
    const Space space = Small(GetParam().ops, 2, size, GetParam().kinds);
    Naive naive(space);
    const std::set<std::string> expected = naive.Graphs(size);
    ASSERT_FALSE(expected.empty());
    std::set<std::string> walked, texts;
    for (const SmallGraph& graph : Walked(space, size)) {
      EXPECT_TRUE(texts.insert(ToString(space, graph)).second) << ToString(space, graph);
      walked.insert(naive.CanonicalOf(graph));
    }
    EXPECT_EQ(walked, expected);
    // Symmetric graphs may occur under more than one naming.
    EXPECT_LE(texts.size(), expected.size() + expected.size() / 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, WalkTest,
                         testing::Values(WalkCase{{"matmul", "add", "relu"}, 2},
                                         WalkCase{{"concat0_2d", "concat1_2d", "split", "transpose"}, 2},
                                         WalkCase{{"mul", "relu", "one", "identity"}, 3},
                                         WalkCase{{"conv3x3", "conv1x3_relu", "enlarge", "pool_kernel"}, 5}),
                         [](const auto& info) { return absl::StrJoin(info.param.ops, "_"); });

TEST(RawGraphs, CountsTasosSpace) {
  const Space space = TasoSpace();
  EXPECT_EQ(CountRawGraphs(space, 0), 1u);
  const double tasos = 16405411;
  const double ours = static_cast<double>(CountRawGraphs(space, 3));
  EXPECT_NEAR(ours / tasos, 1, 0.01);
}

TEST(Restriction, NamesTheOperatorsThereAre) {
  Space space = TasoSpace();
  const absl::Status status = Restrict({"matmull"}, 0, &space);
  EXPECT_EQ(status.message().substr(0, 57), "found `matmull`, expected operators of taso: matmul, add,");
}

}  // namespace
}  // namespace rewright::generate
