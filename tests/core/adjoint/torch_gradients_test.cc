// Compares gradients with PyTorch's, in the table torch_gradients.txt that torch_gradients.py writes: exactly at kinks
// and ties, elsewhere in float32 within 1e-5.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/adjoint/operators.h"
#include "core/autodiff/autodiff.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/text.h"
#include "core/ops/ops.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rewright {
namespace {

using Numbers = std::vector<double>;

struct TorchCase {
  bool exact = false;
  std::string call;                                     // relu(x0)
  std::vector<std::pair<std::string, Numbers>> inputs;  // "x0: f32[2,3]"
  std::vector<Numbers> cotangents, gradients;           // by every input of floating-point numbers
  std::string op() const { return call.substr(0, call.find('(')); }
};

Numbers ParseNumbers(const std::string& text) {
  Numbers numbers;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    numbers.push_back(std::stod(std::string(word)));
  }
  return numbers;
}

const std::vector<TorchCase>& Table() {
  static const auto* const table = [] {
    auto* cases = new std::vector<TorchCase>;
    std::ifstream file(REWRIGHT_SOURCE_DIR "/tests/core/adjoint/torch_gradients.txt");
    for (std::string line; std::getline(file, line);) {
      absl::string_view rest = line;
      if (absl::ConsumePrefix(&rest, "case ")) {
        const bool exact = absl::ConsumePrefix(&rest, "exact ");
        if (!exact) absl::ConsumePrefix(&rest, "close ");
        cases->push_back({.exact = exact, .call = std::string(rest)});
        continue;
      }
      const std::vector<std::string> sides = absl::StrSplit(line, absl::MaxSplits(" =", 1));
      if (line.empty() || line[0] == '#' || sides.size() != 2 || cases->empty()) continue;
      rest = sides[0];
      if (absl::ConsumePrefix(&rest, "input ")) {
        cases->back().inputs.emplace_back(std::string(rest), ParseNumbers(sides[1]));
      } else if (absl::StartsWith(rest, "cotangent")) {
        cases->back().cotangents.push_back(ParseNumbers(sides[1]));
      } else {
        cases->back().gradients.push_back(ParseNumbers(sides[1]));
      }
    }
    return cases;
  }();
  return *table;
}

Tensor TensorOf(const TensorType& type, const Numbers& numbers) {
  Tensor tensor(type);
  EXPECT_EQ(tensor.num_elements(), static_cast<int64_t>(numbers.size()));
  for (int64_t i = 0; i < std::min<int64_t>(tensor.num_elements(), numbers.size()); ++i) tensor.Set(i, numbers[i]);
  return tensor;
}

void Check(const TorchCase& torch) {
  std::string text;
  for (const auto& [declaration, numbers] : torch.inputs) absl::StrAppend(&text, "input ", declaration, "\n");
  std::vector<std::string> results = {"%0"};
  for (size_t o = 0; o < torch.cotangents.size() && torch.cotangents.size() > 1; ++o) {
    results.resize(o);
    results.push_back(absl::StrCat("%0.", o));
  }
  absl::StrAppend(&text, absl::StrJoin(results, ", "), " = ", torch.call, "\n");
  for (size_t o = 0; o < results.size(); ++o) absl::StrAppend(&text, "output y", o, " = ", results[o], "\n");
  const auto graph = ParseGraph(text);
  ASSERT_TRUE(graph.ok()) << graph.status() << "\n" << text;
  Arena& arena = *graph->arena();

  absl::flat_hash_map<std::string, Tensor> tensors;
  std::vector<Value> inputs = graph->inputs(), values, cotangents, by;
  for (size_t i = 0; i < torch.inputs.size(); ++i) {
    tensors.emplace(absl::StrCat("x", i), TensorOf(arena.type(inputs[i]), torch.inputs[i].second));
    if (IsFloating(arena.type(inputs[i]).dtype)) by.push_back(inputs[i]);
  }
  for (size_t o = 0; o < torch.cotangents.size(); ++o) {
    values.push_back(graph->outputs()[o].value);
    const std::string name = absl::StrCat("u", o);
    const auto cotangent = arena.AddInput(name, arena.type(values.back()));
    ASSERT_TRUE(cotangent.ok()) << cotangent.status();
    cotangents.push_back(*cotangent);
    inputs.push_back(*cotangent);
    tensors.emplace(name, TensorOf(arena.type(values.back()), torch.cotangents[o]));
  }
  const auto gradients = PullBack(arena, values, cotangents, by);
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  std::vector<Output> outputs;
  for (Value value : *gradients) outputs.push_back({value, absl::StrCat("g", outputs.size())});
  const auto found = InterpretGraph(Graph(graph->arena(), inputs, std::move(outputs)), tensors);
  ASSERT_TRUE(found.ok()) << found.status();

  ASSERT_EQ(found->size(), torch.gradients.size());
  for (size_t k = 0; k < found->size(); ++k) {
    const Numbers& expected = torch.gradients[k];
    double unit = 1;
    for (double number : expected) unit = std::max(unit, std::fabs(number));
    ASSERT_EQ((*found)[k].num_elements(), static_cast<int64_t>(expected.size()));
    for (size_t i = 0; i < expected.size(); ++i) {
      const double number = (*found)[k].At(static_cast<int64_t>(i));
      if (torch.exact && std::isnan(expected[i])) {
        EXPECT_TRUE(std::isnan(number)) << "by input " << k << " at " << i;
      } else if (torch.exact) {
        EXPECT_DOUBLE_EQ(number, expected[i]) << "by input " << k << " at " << i;
      } else {
        EXPECT_NEAR(number, expected[i], 1e-5 * unit) << "by input " << k << " at " << i;
      }
    }
  }
}

TEST(TorchGradients, AreOurs) {
  int exact = 0, close = 0;
  for (const TorchCase& torch : Table()) {
    SCOPED_TRACE(torch.call);
    Check(torch);
    ++(torch.exact ? exact : close);
  }
  EXPECT_GE(exact, 35);
  EXPECT_GE(close, 100);
  RecordProperty("exact", exact);
  RecordProperty("close", close);
}

TEST(TorchGradients, OfEveryOperatorThatPyTorchHas) {
  std::set<std::string> missing, in_table;
  for (const TorchCase& torch : Table()) {
    if (!torch.exact) in_table.insert(torch.op());
  }
  for (const OpDef* op : AllOps()) {
    if (TangentOp(*op).ok() && !in_table.contains(op->name)) missing.insert(op->name);
  }
  // The operators that place tensors on devices have no counterpart in PyTorch.
  EXPECT_THAT(missing, testing::ElementsAre("combine", "fetch", "gather_rows", "halo", "partition", "replicate"));
}

}  // namespace
}  // namespace rewright
