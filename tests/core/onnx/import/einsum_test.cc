// Compares Einsum with its definition: a sum over all values of all letters.
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "core/ir/random_tensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/onnx/model_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

struct EinsumCase {
  std::string equation;
  std::vector<Shape> shapes;
  // The equation with letters in place of an ellipsis; upper case letters broadcast.
  std::string spelled;
};

void PrintTo(const EinsumCase& c, std::ostream* os) { *os << c.equation; }

Tensor ByDefinition(const EinsumCase& c, const std::vector<Tensor>& inputs) {
  const std::vector<std::string> sides = absl::StrSplit(c.spelled, "->"), terms = absl::StrSplit(sides[0], ',');
  std::map<char, int64_t> sizes, at;
  for (size_t i = 0; i < terms.size(); ++i) {
    for (size_t k = 0; k < terms[i].size(); ++k) {
      int64_t& size = sizes[terms[i][k]];
      size = std::max(size, inputs[i].shape()[k]);
    }
  }
  const auto offset = [&](const std::string& letters, const Shape& shape) {
    int64_t flat = 0;
    for (size_t k = 0; k < letters.size(); ++k) flat = flat * shape[k] + (shape[k] == 1 ? 0 : at[letters[k]]);
    return flat;
  };
  Shape shape;
  for (char letter : sides[1]) shape.push_back(sizes[letter]);
  Tensor result({DType::kFloat64, shape});
  int64_t points = 1;
  for (const auto& [letter, size] : sizes) points *= size;
  for (int64_t point = 0; point < points; ++point) {
    int64_t rest = point;
    for (const auto& [letter, size] : sizes) {
      at[letter] = rest % size;
      rest /= size;
    }
    double product = 1;
    for (size_t i = 0; i < terms.size(); ++i) product *= inputs[i].At(offset(terms[i], inputs[i].shape()));
    const int64_t to = offset(sides[1], shape);
    result.Set(to, result.At(to) + product);
  }
  return result;
}

class ImportEinsum : public ::testing::TestWithParam<EinsumCase> {};

TEST_P(ImportEinsum, IsItsDefinition) {
  const EinsumCase& c = GetParam();
  TestModel model;
  Rng rng(3);
  std::vector<std::string> names;
  std::vector<Tensor> inputs;
  std::map<std::string, Tensor> by_name;
  for (const Shape& shape : c.shapes) {
    names.push_back("x" + std::to_string(names.size()));
    model.Input(names.back(), shape, DType::kFloat64);
    inputs.push_back(RandomTensor({DType::kFloat64, shape}, rng, -1, 1));
    by_name[names.back()] = inputs.back();
  }
  model.Node("Einsum", names, {"y"}, {{"equation", c.equation}}).Output("y");
  const auto imported = model.Import();
  ASSERT_TRUE(imported.ok()) << imported.status();
  const Tensor found = OutputsOf(imported->graph, by_name)[0], expected = ByDefinition(c, inputs);
  ASSERT_EQ(found.shape(), expected.shape());
  for (int64_t i = 0; i < expected.num_elements(); ++i) ASSERT_NEAR(found.At(i), expected.At(i), 1e-12) << i;
}

INSTANTIATE_TEST_SUITE_P(
    Equations, ImportEinsum,
    ::testing::Values(EinsumCase{"ij,jk->ik", {{2, 3}, {3, 4}}, "ij,jk->ik"},
                      EinsumCase{"bij, bjk", {{2, 3, 4}, {2, 4, 5}}, "bij,bjk->ik"},
                      EinsumCase{"ba", {{2, 3}}, "ba->ab"}, EinsumCase{"ij,kl->", {{2, 3}, {3, 4}}, "ij,kl->"},
                      EinsumCase{"...ij,...jk->...ik", {{2, 3, 4}, {2, 4, 5}}, "Aij,Ajk->Aik"},
                      EinsumCase{"...ij,...jk", {{2, 1, 3, 4}, {5, 4, 3}}, "ABij,Bjk->ABik"},
                      EinsumCase{"a...,b...->ab...", {{2, 3, 1}, {4, 1, 5}}, "aAB,bAB->abAB"},
                      EinsumCase{"...,...->...", {{1, 3}, {1, 3}}, "AB,AB->AB"},
                      EinsumCase{"i...->...", {{4, 2, 3}}, "iAB->AB"}, EinsumCase{"...i->i", {{4, 2, 3}}, "ABi->i"},
                      EinsumCase{"...ii ->...i", {{3, 5, 5}}, "Aii->Ai"}, EinsumCase{"ii", {{4, 4}}, "ii->"},
                      EinsumCase{"iji->ji", {{4, 3, 4}}, "iji->ji"},
                      EinsumCase{"iii,ij->j", {{3, 3, 3}, {3, 2}}, "iii,ij->j"},
                      EinsumCase{"ij,jk,kl->il", {{2, 3}, {3, 4}, {4, 5}}, "ij,jk,kl->il"},
                      EinsumCase{"bi,bij,bj->b", {{2, 3}, {2, 3, 4}, {2, 4}}, "bi,bij,bj->b"},
                      EinsumCase{"i,i,i->i", {{3}, {3}, {3}}, "i,i,i->i"},
                      EinsumCase{"...a,ab,...b->...", {{2, 3}, {3, 4}, {1, 4}}, "Aa,ab,Ab->A"}));

TEST(ImportEinsum, SaysWhatIsWrong) {
  const auto error = [](const std::string& equation, const std::vector<Shape>& shapes) {
    TestModel model;
    std::vector<std::string> names;
    for (const Shape& shape : shapes) {
      names.push_back("x" + std::to_string(names.size()));
      model.Input(names.back(), shape);
    }
    return model.Node("Einsum", names, {"y"}, {{"equation", equation}}).Output("y").Error();
  };
  EXPECT_THAT(error("ij->ik", {{2, 3}}), HasSubstr("equation ij->ik"));
  EXPECT_THAT(error("ij->ii", {{2, 3}}), HasSubstr("equation ij->ii"));
  EXPECT_THAT(error("i..->i", {{2, 3, 4}}), HasSubstr("equation i..->i"));
  EXPECT_THAT(error("......i->i", {{2, 3, 4}}), HasSubstr("equation ......i->i"));
  EXPECT_THAT(error("ij,jk->ik", {{2, 3}}), HasSubstr("the equation has 2 operands"));
  EXPECT_THAT(error("ijk->i", {{2, 3}}), HasSubstr("the letters ijk for f32[2,3]"));
  EXPECT_THAT(error("ii->i", {{2, 3}}), HasSubstr("sizes 2 and 3 of the letter i"));
  EXPECT_THAT(error("ij,jk->ik", {{2, 3}, {4, 5}}), ::testing::Not(::testing::IsEmpty()));
}

}  // namespace
}  // namespace rewright
