// Parts of graphs: cut out, recognized, put back, searched.
#include "search/windows/window.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/search.h"
#include "search/windows/window_cuts.h"
#include "tests/search/fake_device_util.h"

namespace rewright {
namespace {

// Layers of a residual network: x = x + relu(x w) scale.
std::string Layers(int count) {
  std::string text = "input x: f32[2,4]\nconst %900: f32[] = [0.5]\n";
  for (int i = 0; i < count; ++i) absl::StrAppend(&text, "state w", i, ": f32[4,4]\n");
  std::string last = "x";
  for (int i = 0; i < count; ++i) {
    const int n = 4 * i;
    absl::StrAppend(&text, "%", n, " = matmul(", last, ", w", i, ")\n%", n + 1, " = relu(%", n, ")\n%", n + 2,
                    " = mul(%", n + 1, ", %900)\n%", n + 3, " = add(%", n + 2, ", ", last, ")\n");
    last = absl::StrCat("%", n + 3);
  }
  return absl::StrCat(text, "output y = ", last, "\n");
}

// The positions in [begin, end) of nodes that run: an interval of a topological order is convex.
std::vector<int> Interval(const Graph& graph, int begin, int end) {
  std::vector<int> positions;
  for (int i = begin; i < end; ++i) {
    const Node& node = graph.node(graph.nodes()[i]);
    if (graph.IsRun(node)) positions.push_back(i);
  }
  return positions;
}

// Chains beside each other that meet at the end, their nodes in turn: a border across them cuts every chain, and where
// a chain is wide (two tensors between exp and add) it should not be cut there.
std::string Chains(int chains, int blocks) {
  std::string text = "input x: f32[2,4]\n";
  std::vector<std::string> last(static_cast<size_t>(chains), "x");
  int n = 0;
  for (int b = 0; b < blocks; ++b) {
    for (int c = 0; c < chains; ++c) {
      std::string& at = last[c];
      absl::StrAppend(&text, "%", n, " = ", c % 2 == 0 ? "exp" : "tanh", "(", at, ")\n%", n + 1, " = relu(%", n, ")\n%",
                      n + 2, " = neg(%", n, ")\n%", n + 3, " = add(%", n + 1, ", %", n + 2, ")\n");
      at = absl::StrCat("%", n + 3);
      n += 4;
    }
  }
  for (int c = 0; c < chains; ++c) absl::StrAppend(&text, "output y", c, " = ", last[c], "\n");
  return text;
}

// No path leaves the window and comes back.
bool IsConvex(const Graph& graph, const std::vector<int>& part) {
  const std::set<int> inside(part.begin(), part.end());
  std::set<int> left;  // outside, behind a node of the window
  for (int i = part.front(); i <= part.back(); ++i) {
    for (int producer : graph.producers(i)) {
      if (left.contains(producer) && inside.contains(i)) return false;
      if (!inside.contains(i) && (left.contains(producer) || inside.contains(producer))) left.insert(i);
    }
  }
  return true;
}

TEST(WindowCutsTest, WindowsAreConvexAndInTheOrderOfTheGraph) {
  for (const std::string& text : {Layers(30), Chains(2, 20), Chains(3, 20), Detours(50)}) {
    const Graph graph = GraphFrom(text);
    for (int size : {4, 8, 16, 48}) {
      for (double shift : {0.0, 0.25, 0.5, 0.75}) {
        std::set<int> seen;
        for (const std::vector<int>& part : CutIntoWindows(graph, size, shift)) {
          ASSERT_FALSE(part.empty());
          EXPECT_TRUE(std::is_sorted(part.begin(), part.end()));
          EXPECT_TRUE(IsConvex(graph, part));
          EXPECT_LE(static_cast<int>(part.size()), 2 * size);
          for (int i : part) {
            EXPECT_TRUE(seen.insert(i).second);
            for (int producer : graph.producers(i)) {
              const Node& node = graph.node(graph.nodes()[producer]);
              EXPECT_TRUE(!graph.IsRun(node) || seen.contains(producer));
            }
          }
        }
        EXPECT_EQ(static_cast<int>(seen.size()), graph.num_runtime_nodes());
        EXPECT_EQ(CutIntoWindows(graph, size, shift), CutIntoWindows(graph, size, shift));
      }
    }
  }
}

TEST(WindowCutsTest, AMinimumCutPassesBetweenBlocksOfEveryChain) {
  // No node lies on all paths: one tensor of each chain that it cuts escapes from a window.
  for (int chains : {2, 3}) {
    const Graph graph = GraphFrom(Chains(chains, 24));
    for (double shift : {0.0, 0.5}) {
      for (const std::vector<int>& part : CutIntoWindows(graph, 24, shift)) {
        EXPECT_LE(CutWindow(graph, part).escaping.size(), static_cast<size_t>(chains));
      }
    }
  }
}

TEST(WindowTest, CutsCoverTheGraphAtNarrowPlaces) {
  const Graph graph = GraphFrom(Layers(20));
  for (double shift : {0.0, 0.25, 0.5, 0.75}) {
    const auto parts = CutIntoWindows(graph, 12, shift);
    EXPECT_GT(parts.size(), 5u);
    size_t nodes = 0;
    for (const std::vector<int>& part : parts) {
      const GraphWindow window = CutWindow(graph, part);
      nodes += window.nodes.size();
      EXPECT_LE(window.nodes.size(), 20u);
      // Between two layers one value is alive.
      EXPECT_EQ(window.escaping.size(), 1u);
    }
    EXPECT_EQ(nodes, 80u);
  }
}

TEST(WindowTest, AWindowInItsOwnPlaceIsTheSameNodes) {
  const Graph graph = GraphFrom(Layers(6));
  const int count = static_cast<int>(graph.nodes().size());
  for (int begin = 0; begin < count; begin += 3) {
    for (int end = begin + 1; end <= count; end += 5) {
      const std::vector<int> positions = Interval(graph, begin, end);
      if (positions.empty()) continue;
      const GraphWindow window = CutWindow(graph, positions);
      EXPECT_EQ(Splice(window.graph, window.leaves, window, *graph.arena()), window.escaping);
    }
  }
}

// The nodes of a file are found by the names of their results, so those inside of windows must not get lost. They must
// not get lost, either, when the result for one window is put into another that is equal.
TEST(WindowTest, NamesStayWithTheValuesThatTakeOver) {
  const Graph graph = GraphFrom(
      "input x: f32[4]\ninput z: f32[4]\n%0 = relu(x)\n%1 = relu(%0)\n%2 = exp(%1)\n%3 = neg(%2)\n"
      "%4 = relu(z)\n%5 = relu(%4)\n%6 = exp(%5)\n%7 = neg(%6)\noutput y = %3\noutput u = %7\n");
  Arena& arena = *graph.arena();
  std::vector<std::vector<int>> halves;
  for (size_t k = 0; k < 2; ++k) {
    std::vector<int> positions;
    Value at = graph.outputs()[k].value;
    for (; graph.node(at.node).op != nullptr; at = graph.node(at.node).operands[0]) {
      positions.insert(positions.begin(), graph.index(at.node));
    }
    halves.push_back(positions);
    arena.SetName({graph.nodes()[static_cast<size_t>(positions[2])], 0}, absl::StrCat("exponential ", k));
  }
  const GraphWindow first = CutWindow(graph, halves[0]), second = CutWindow(graph, halves[1]);
  const Graph& inside = first.graph;
  const auto relu_of_relu = std::find_if(inside.nodes().begin(), inside.nodes().end(), [&](NodeId id) {
    const Node& node = inside.node(id);
    return node.op != nullptr && inside.node(node.operands[0].node).op == node.op;
  });
  ASSERT_NE(relu_of_relu, inside.nodes().end());
  const auto solution = ReplaceValues(inside, {{Value{*relu_of_relu, 0}, inside.node(*relu_of_relu).operands[0]}});
  ASSERT_TRUE(solution.ok()) << solution.status();
  const std::vector<const GraphWindow*> windows = {&first, &second};
  for (size_t k = 0; k < 2; ++k) {
    const Value made = Splice(*solution, first.leaves, *windows[k], arena)[0];
    EXPECT_NE(made, graph.outputs()[k].value);
    EXPECT_EQ(arena.name(arena.node(made.node).operands[0]), absl::StrCat("exponential ", k));
  }
}

WindowKey KeyOf(const std::string& text) {
  const Graph graph = GraphFrom(text);
  NodeSignatures signatures;
  return KeyOfWindow(graph, Interval(graph, 0, static_cast<int>(graph.nodes().size())), signatures);
}

TEST(WindowTest, KeysTellApartWhatASearchTellsApart) {
  const std::string product = "input x: f32[2,2]\nstate w: f32[2,2]\n%0 = matmul(x, w)\noutput y = %0\n";
  EXPECT_EQ(KeyOf(product), KeyOf(product));
  EXPECT_NE(KeyOf(product), KeyOf("input x: f32[2,2]\ninput w: f32[2,2]\n%0 = matmul(x, w)\noutput y = %0\n"));
  EXPECT_NE(KeyOf(product), KeyOf("input x: f32[2,2]\nstate w: f32[2,2]\n%0 = matmul(w, x)\noutput y = %0\n"));
  const std::string sum = "input x: f32[2]\ninput z: f32[2]\n%0 = add(x, z)\noutput y = %0\n";
  EXPECT_NE(KeyOf(sum), KeyOf("input x: f32[2]\n%0 = add(x, x)\noutput y = %0\n")) << "aliased inputs";
  const auto scaled = [](const char* number) {
    return absl::StrCat("input x: f32[2]\nconst %9: f32[] = [", number, "]\n%0 = mul(x, %9)\noutput y = %0\n");
  };
  EXPECT_EQ(KeyOf(scaled("2.0")), KeyOf(scaled("2.0")));
  EXPECT_NE(KeyOf(scaled("2.0")), KeyOf(scaled("3.0")));
  EXPECT_NE(KeyOf("input x: f32[2,2]\n%0 = softmax(x, axis=0)\noutput y = %0\n"),
            KeyOf("input x: f32[2,2]\n%0 = softmax(x, axis=1)\noutput y = %0\n"));
  const std::string two = "input x: f32[2]\n%0 = relu(x)\n%1 = exp(%0)\noutput y = %1\n";
  EXPECT_NE(KeyOf(two), KeyOf(two + "output z = %0\n")) << "escaping values";
}

TEST(WindowTest, LayersHaveOneKey) {
  const Graph graph = GraphFrom(Layers(40));
  const auto parts = CutIntoWindows(graph, 8, 0);
  NodeSignatures signatures;
  std::set<WindowKey> keys;
  for (const std::vector<int>& part : parts) keys.insert(KeyOfWindow(graph, part, signatures));
  EXPECT_GT(parts.size(), 14u);
  EXPECT_LE(keys.size(), 4u);
}

// exp(x) w costs more as tanh(x) w w' on the way to something cheap.
constexpr char kRootDetour[] =
    "rule split-exp exp(x) => mul(sqrt(x), sqrt(x))\nrule merge-exp mul(mul(sqrt(x), sqrt(x)), w) => tanh(x)\n";

TEST(WindowTest, LayersAreSearchedOnceAndFindWhatTheWholeFinds) {
  const RuleIndex rules = RulesFrom(kRootDetour);
  FakeDevice device({{"exp", 0.01}, {"mul", 0.01}, {"sqrt", 0.001}, {"tanh", 0.005}});
  SearchOptions options;
  options.alpha = 1.5;
  const double whole = RunSearch(GraphFrom(Detours(40)), rules, device, options).candidates[0].cost.seconds;
  options.whole_nodes = 40;
  options.window_nodes = 16;
  const Graph graph = GraphFrom(Detours(40));
  const SearchResult windows = RunSearch(graph, rules, device, options);
  EXPECT_NEAR(whole, 40 * 0.005e-3, 1e-9);
  EXPECT_NEAR(windows.candidates[0].cost.seconds, whole, 1e-9);
  // The trace leads there one rewrite after the other.
  const Graph replayed = GraphAt(windows, graph, windows.candidates[0].step);
  EXPECT_EQ(replayed.outputs()[0].value, windows.candidates[0].graph.outputs()[0].value);
  const int64_t steps = RunSearch(GraphFrom(Detours(160)), rules, device, options).steps;
  EXPECT_LE(steps, 2 * windows.steps) << "four times the layers";
}

// Blocks of different shapes, so that no window is like another.
std::string DifferentBlocks(int count) {
  std::string text, body;
  for (int i = 0; i < count; ++i) {
    absl::StrAppend(&text, "input x", i, ": f32[2,", i + 3, "]\nstate w", i, ": f32[2,", i + 3, "]\n");
    for (int k = 0; k < 6; ++k) {
      const int n = 20 * i + 2 * k;
      absl::StrAppend(&body, "%", n, " = exp(", k == 0 ? absl::StrCat("x", i) : absl::StrCat("%", n - 1), ")\n%", n + 1,
                      " = mul(%", n, ", w", i, ")\n");
    }
    absl::StrAppend(&body, "output y", i, " = %", 20 * i + 11, "\n");
  }
  return text + body;
}

TEST(WindowTest, ThreadsChangeNothing) {
  const RuleIndex rules = RulesFrom(kRootDetour);
  SearchOptions options;
  options.alpha = 1.5;
  options.windows = WindowUse::kAlways;
  options.window_nodes = 12;
  for (int64_t budget : {int64_t{10}, int64_t{150}, int64_t{100000}}) {
    options.budget = budget;
    std::string graph;
    int64_t steps = 0;
    for (int threads : {1, 2, 5}) {
      options.threads = threads;
      FakeDevice device({{"exp", 0.01}, {"mul", 0.01}, {"sqrt", 0.001}, {"tanh", 0.005}});
      const SearchResult result = RunSearch(GraphFrom(DifferentBlocks(40)), rules, device, options);
      const std::string found = PrintGraph(result.candidates[0].graph);
      if (threads == 1) {
        graph = found;
        steps = result.steps;
        EXPECT_LE(steps, budget * 480 / 200) << "so many for every 200 nodes";
      }
      EXPECT_EQ(found, graph) << threads << " threads, budget " << budget;
      EXPECT_EQ(result.steps, steps);
    }
    if (budget > 1000) {
      EXPECT_THAT(graph, testing::HasSubstr("tanh"));
      EXPECT_THAT(graph, testing::Not(testing::HasSubstr("exp")));
    }
  }
}

TEST(WindowTest, OfASmallGraphOnlyWhenAskedFor) {
  const RuleIndex rules = RulesFrom(kRootDetour);
  FakeDevice device({{"exp", 0.01}, {"mul", 0.01}, {"sqrt", 0.001}, {"tanh", 0.005}});
  SearchOptions options;
  options.alpha = 1.5;
  const int64_t whole = RunSearch(GraphFrom(Detours(20)), rules, device, options).steps;
  options.windows = WindowUse::kAlways;
  options.window_nodes = 4;
  const int64_t windows = RunSearch(GraphFrom(Detours(20)), rules, device, options).steps;
  EXPECT_LT(windows, whole);
  options.windows = WindowUse::kNever;
  options.whole_nodes = 4;
  EXPECT_EQ(RunSearch(GraphFrom(Detours(20)), rules, device, options).steps, whole);
}

}  // namespace
}  // namespace rewright
