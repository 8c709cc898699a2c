// Compares solutions with trying all values.
#include "core/index/solve.h"

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "core/index/divide.h"
#include "core/index/print.h"
#include "core/index/range.h"
#include "forms_util.h"
#include "gtest/gtest.h"
#include "tests/counts.h"

namespace rewright::index {
namespace {

class SolveTest : public testing::Test {
 protected:
  static std::vector<const Atom*> AtomsOf(const std::vector<Form>& variables) {
    std::vector<const Atom*> atoms;
    for (const Form& variable : variables) atoms.push_back(variable.AsAtom());
    return atoms;
  }

  // Expects that the solution equals the one found by trying all values, with `known` given. Positions beyond the map's
  // values are known leaves like others.
  static void ExpectSolutions(const Solution& solution, const std::vector<const Atom*>& unknowns,
                              const std::vector<Form>& equations, const Values& known) {
    std::set<std::vector<int64_t>> expected, found;
    ForAll(unknowns, known, [&](const Values& values) {
      for (const Form& equation : equations) {
        if (Evaluate(equation, values) != 0) return;
      }
      std::vector<int64_t> at;
      for (const Atom* unknown : unknowns) at.push_back(values.at(unknown));
      expected.insert(at);
    });
    size_t points = 0;
    ForAll(solution.free, known, [&](const Values& values) {
      for (const Condition& condition : solution.conditions) {
        const int64_t value = Evaluate(condition.form, values);
        if (condition.kind == Condition::Kind::kZero ? value != 0 : value < 0) return;
      }
      std::vector<int64_t> at;
      for (const Atom* unknown : unknowns) at.push_back(Evaluate(solution.values.at(unknown), values));
      found.insert(at);
      ++points;
    });
    ASSERT_EQ(found, expected) << absl::StrJoin(solution.steps, "; ");
    ASSERT_EQ(points, found.size()) << "a solution is given twice: " << absl::StrJoin(solution.steps, "; ");
  }

  // Tests all values of `positions`, from -1 to beyond the extent, and of the symbols, from 1 to 4.
  void ExpectInverse(const std::vector<Form>& first, const std::vector<Form>& others, const std::vector<Form>& map,
                     const std::vector<Form>& positions, int64_t beyond, const std::vector<Form>& symbols = {}) {
    std::vector<Form> equations;
    for (size_t k = 0; k < map.size(); ++k) equations.push_back(map[k] - positions[k]);
    const std::optional<Solution> solution = Solve(AtomsOf(first), AtomsOf(others), equations);
    const std::optional<Solution> apart = Solve(AtomsOf(first), AtomsOf(others), equations, Residues::kTakenApart);
    ASSERT_TRUE(solution && apart);
    solution_ = *solution;
    apart_ = *apart;
    std::vector<const Atom*> unknowns = AtomsOf(first);
    for (const Form& other : others) unknowns.push_back(other.AsAtom());
    std::vector<std::pair<const Atom*, std::pair<int64_t, int64_t>>> known;
    for (const Form& symbol : symbols) known.push_back({symbol.AsAtom(), {symbol.AsAtom()->range.low, 4}});
    for (const Form& position : positions) known.push_back({position.AsAtom(), {-1, beyond}});
    Values values;
    const std::function<void(size_t)> loop = [&](size_t k) {
      if (HasFatalFailure()) return;
      if (k == known.size()) {
        ExpectSolutions(*solution, unknowns, equations, values);
        return ExpectSolutions(*apart, unknowns, equations, values);
      }
      for (int64_t value = known[k].second.first; value <= known[k].second.second; ++value) {
        values[known[k].first] = value;
        loop(k + 1);
      }
    };
    loop(0);
  }

  std::string Steps() const { return absl::StrJoin(solution_.steps, "; "); }

  Space space_;
  Solution solution_, apart_;  // apart_: with Residues::kTakenApart
};

TEST_F(SolveTest, Solve) {
  const Form v = space_.Variable("v", 5), p = space_.Fresh("p");
  ExpectInverse({v}, {}, {v * -1 + 4}, {p}, 6);
  EXPECT_EQ(Steps(), "solve: v = -p + 4");
  EXPECT_TRUE(solution_.free.empty());
}

TEST_F(SolveTest, Digit) {
  const Form h = space_.Variable("h", 3), w = space_.Variable("w", 4), p = space_.Fresh("p");
  ExpectInverse({h, w}, {}, {h * 4 + w}, {p}, 14);
  EXPECT_EQ(Steps(), "digit: w = p mod 4; solve: h = p div 4");
  // Rows of 6 with 4 elements each leave positions out.
  ExpectInverse({h, w}, {}, {h * 6 + w}, {p}, 20);
  EXPECT_TRUE(solution_.free.empty());
  // Rows that overlap.
  ExpectInverse({h}, {w}, {h * 3 + w}, {p}, 14);
  EXPECT_EQ(solution_.free.size(), 1u);
}

TEST_F(SolveTest, Scale) {
  const Form v = space_.Variable("v", 5), p = space_.Fresh("p");
  ExpectInverse({v}, {}, {v * 3 + 1}, {p}, 20);
  EXPECT_EQ(Steps(), "scale: v = (p + 2) div 3 - 1; solve: v = (p + 2) div 3 - 1");
  const Form w = space_.Variable("w", 2);
  ExpectInverse({v, w}, {}, {v * 6 + w * 3}, {p}, 30);
  EXPECT_TRUE(solution_.free.empty());
}

TEST_F(SolveTest, ExactAndRadix) {
  const Form v = space_.Variable("v", 24), p = space_.Fresh("p"), q = space_.Fresh("q"), r = space_.Fresh("r");
  ExpectInverse({v}, {}, {FloorDiv(v, 4), Mod(v, 4)}, {p, q}, 8);
  EXPECT_EQ(Steps(), "radix: v = 4*p + q; solve: v = 4*p + q");
  ExpectInverse({v}, {}, {FloorDiv(v, 12), Mod(FloorDiv(v, 4), 3), Mod(v, 4)}, {p, q, r}, 4);
  EXPECT_TRUE(solution_.free.empty());
  const Form two[] = {FloorDiv(v, 4) - p, Mod(v, 4)};
  const std::optional<Solution> exact = Solve({v.AsAtom()}, {}, {two[0], two[1]});
  ASSERT_TRUE(exact);
  EXPECT_EQ(absl::StrJoin(exact->steps, "; "), "exact: v = 4*p; solve: v = 4*p");
  for (int64_t at = -1; at < 8; ++at) ExpectSolutions(*exact, {v.AsAtom()}, {two[0], two[1]}, {{p.AsAtom(), at}});
}

TEST_F(SolveTest, Quotient) {
  const Form v = space_.Variable("v", 11), p = space_.Fresh("p");
  ExpectInverse({v}, {}, {FloorDiv(v + 2, 4)}, {p}, 5);
  EXPECT_EQ(Steps(), "quotient: v = 4*p + v' - 2");
  EXPECT_EQ(solution_.free.size(), 1u);
}

TEST_F(SolveTest, Split) {
  const Form v = space_.Variable("v", 11), p = space_.Fresh("p"), q = space_.Fresh("q");
  ExpectInverse({v}, {}, {Mod(v, 4)}, {p}, 5);
  EXPECT_EQ(solution_.free.size(), 1u);
  ExpectInverse({v}, {}, {FloorDiv(v, 4) * 5 + Mod(v, 4)}, {p}, 20);
  EXPECT_TRUE(solution_.free.empty());
  ExpectInverse({v}, {}, {FloorDiv(v, 4) + Mod(v, 4)}, {p}, 7);
  ExpectInverse({v}, {}, {Mod(v, 3), FloorDiv(v, 2)}, {p, q}, 6);
}

// If an unknown is known only modulo a number, the solution visits no value in vain.
TEST_F(SolveTest, Residue) {
  const Form y = space_.Variable("y", 12), r = space_.Variable("r", 3), p = space_.Fresh("p");
  ExpectInverse({y}, {r}, {Mod(y - r + 1, 2)}, {p}, 3);
  EXPECT_EQ(solution_.free, AtomsOf({y, r})) << Steps();
  EXPECT_EQ(absl::StrJoin(apart_.steps, "; "), "split: y = 2*y1 + y0; residue: y0 = (r + p + 1) mod 2");
  ASSERT_EQ(apart_.free.size(), 2u);
  EXPECT_TRUE(ExtentOf(apart_.free[1]).Is(6)) << Text(ExtentOf(apart_.free[1]));
  // A digit need not be split, and may be subtracted.
  const Form symbol = space_.Symbol("n", 0);
  ExpectInverse({}, {r}, {Mod(symbol - r, 5)}, {p}, 5, {symbol});
  EXPECT_TRUE(apart_.free.empty()) << absl::StrJoin(apart_.steps, "; ");
  // Strided windows, inverted.
  for (int64_t stride = 1; stride <= 4; ++stride) {
    for (int64_t dilation = 1; dilation <= 3; ++dilation) {
      ExpectInverse({}, {y, r}, {y * stride + r * dilation}, {p}, 16);
      ExpectInverse({}, {y, r}, {Mod(y * dilation + r, stride)}, {p}, 5);
      if (HasFatalFailure()) return;
    }
  }
}

// A strided window: division gives the position that a tap leads to.
TEST_F(SolveTest, Window) {
  for (int64_t stride = 1; stride <= 3; ++stride) {
    for (int64_t dilation = 1; dilation <= 3; ++dilation) {
      for (int64_t pad = 0; pad <= 2; ++pad) {
        const Form y = space_.Variable("y", 4), r = space_.Variable("r", 3), p = space_.Fresh("p");
        ExpectInverse({y}, {r}, {y * stride + r * dilation - pad}, {p}, 16);
        if (HasFatalFailure()) return;
        // The position is determined; taps stay.
        EXPECT_TRUE(solution_.free.empty() || solution_.free == AtomsOf({r})) << Steps();
      }
    }
  }
}

TEST_F(SolveTest, WindowsOfAnySize) {
  const Form stride = space_.Symbol("s", 1), pad = space_.Symbol("a", 0), taps = space_.Symbol("R", 1);
  const Form height = space_.Symbol("H", 1);
  const Form y = space_.Variable("y", height), r = space_.Variable("r", taps), p = space_.Fresh("p");
  ExpectInverse({y}, {r}, {y * stride + r - pad}, {p}, 14, {stride, pad, taps, height});
  EXPECT_EQ(solution_.free, AtomsOf({r})) << Steps();
}

TEST_F(SolveTest, DilatedWindowsOfAnySize) {
  const Form stride = space_.Symbol("s", 1), dilation = space_.Symbol("d", 1), taps = space_.Symbol("R", 1);
  const Form y = space_.Variable("y", 3), r = space_.Variable("r", taps), p = space_.Fresh("p");
  ExpectInverse({y}, {r}, {y * stride + r * dilation - 1}, {p}, 18, {stride, dilation, taps});
  EXPECT_EQ(solution_.free, AtomsOf({r})) << Steps();
}

// Channel d of the group of output channel o, groups of any sizes.
TEST_F(SolveTest, GroupedChannelsOfAnySize) {
  const Form out = space_.Symbol("O", 1), in = space_.Symbol("I", 1), groups = space_.Symbol("G", 1);
  const Form o = space_.Variable("o", out * groups), d = space_.Variable("d", in), p = space_.Fresh("p");
  ExpectInverse({o, d}, {}, {FloorDiv(o, out) * in + d}, {p}, 17, {out, in, groups});
  EXPECT_EQ(solution_.free.size(), 1u) << Steps();
  EXPECT_EQ(solution_.steps.front(), "digit: d = p mod I") << Steps();
}

TEST_F(SolveTest, ReshapesOfAnySize) {
  const Form h = space_.Symbol("H", 1), w = space_.Symbol("W", 1), c = space_.Symbol("C", 1);
  const Form y = space_.Variable("y", h), x = space_.Variable("x", w), z = space_.Variable("z", c);
  const Form p = space_.Fresh("p"), q = space_.Fresh("q");
  ExpectInverse({y, x, z}, {}, {(y * w + x) * c + z}, {p}, 70, {h, w, c});
  EXPECT_TRUE(solution_.free.empty()) << Steps();
  const Form flat = space_.Variable("v", h * w);
  ExpectInverse({flat}, {}, {FloorDiv(flat, w), Mod(flat, w)}, {p, q}, 5, {h, w});
  EXPECT_EQ(Steps(), "radix: v = W*p + q; solve: v = W*p + q");
  ExpectInverse({flat}, {}, {Mod(flat, w)}, {p}, 5, {h, w});
  EXPECT_EQ(solution_.free.size(), 1u) << Steps();
}

TEST_F(SolveTest, SpaceToDepthOfAnyBlock) {
  const Form block = space_.Symbol("B", 1), h = space_.Symbol("H", 1);
  const Form y = space_.Variable("y", h * block), p = space_.Fresh("p"), q = space_.Fresh("q");
  ExpectInverse({y}, {}, {Mod(y, block) * h + FloorDiv(y, block)}, {p}, 17, {block, h});
  EXPECT_TRUE(solution_.free.empty()) << Steps();
}

// Tests every map of a family: small factors of two variables, with and without division.
TEST_F(SolveTest, AllSmallMaps) {
  const Form v = space_.Variable("v", 4), w = space_.Variable("w", 3), p = space_.Fresh("p");
  for (int64_t a = -3; a <= 4; ++a) {
    for (int64_t b = -3; b <= 4; ++b) {
      for (int64_t d = 1; d <= 4; ++d) {
        for (const Form& map : {FloorDiv(v * a + w * b, d), Mod(v * a + w * b, d), FloorDiv(v, d) * a + w * b,
                                Mod(v, d) * a + w * b, FloorDiv(v * a, d) + Mod(w * b, d)}) {
          SCOPED_TRACE(Text(map));
          ExpectInverse({v}, {w}, {map}, {p}, 16);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_F(SolveTest, RandomSystems) {
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(Cases(2000)); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 rng(seed);
    const auto pick = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(rng); };
    const std::vector<Form> variables = {space_.Variable("u", pick(2, 6)), space_.Variable("v", pick(2, 6)),
                                         space_.Variable("w", pick(2, 4))};
    const auto sum = [&] {
      Form result = pick(-2, 2);
      for (const Form& variable : variables) result = result + variable * (pick(0, 2) * pick(-3, 4));
      return result;
    };
    const auto map = [&] {
      switch (pick(0, 4)) {
        case 0: return FloorDiv(sum(), pick(1, 5)) + sum();
        case 1: return Mod(sum(), pick(1, 5)) * pick(1, 4);
        case 2: return FloorDiv(variables[pick(0, 2)], pick(1, 4)) * pick(1, 3) + sum();
        default: return sum();
      }
    };
    ExpectInverse({variables[0], variables[1]}, {variables[2]}, {map(), map()}, {space_.Fresh("p"), space_.Fresh("q")},
                  9);
    if (HasFatalFailure()) return;
  }
}

TEST_F(SolveTest, NoSolutionAndOverflow) {
  const Form v = space_.Variable("v", 5);
  const std::optional<Solution> none = Solve({v.AsAtom()}, {}, {v - 7});
  ASSERT_TRUE(none);
  ExpectSolutions(*none, {v.AsAtom()}, {v - 7}, {});
  const std::optional<Solution> contradiction = Solve({v.AsAtom()}, {}, {v - 2, v - 3});
  ASSERT_TRUE(contradiction);
  ExpectSolutions(*contradiction, {v.AsAtom()}, {v - 2, v - 3}, {});
  EXPECT_FALSE(Solve({v.AsAtom()}, {}, {Form::Unknown()}));
  const Form p = space_.Fresh("p");
  EXPECT_FALSE(Solve({v.AsAtom()}, {}, {FloorDiv(v, 4) - p * (int64_t{1} << 62)}));
}

}  // namespace
}  // namespace rewright::index
