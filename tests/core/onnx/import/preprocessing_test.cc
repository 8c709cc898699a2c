// Compares scikit-learn's preprocessing operators with values of onnxruntime.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/core/onnx/model_util.h"

namespace rewright {
namespace {

using ::testing::ElementsAreArray;
using Reals = std::vector<double>;
using List = std::vector<int64_t>;

// Returns the output of one node of ai.onnx.ml on x; its other operands are initializers.
std::vector<double> Computed(const char* op_type, const Tensor& x, const TestAttrs& attrs,
                             const std::vector<Tensor>& others = {}) {
  TestModel model;
  model.Input("x", x.shape(), x.dtype());
  std::vector<std::string> names = {"x"};
  for (const Tensor& other : others) {
    names.push_back("w" + std::to_string(names.size()));
    model.Initializer(names.back(), other);
  }
  model.Node(op_type, names, {"y"}, attrs).Output("y");
  model.proto().mutable_graph()->mutable_node(0)->set_domain("ai.onnx.ml");
  onnx::OperatorSetIdProto* import = model.proto().add_opset_import();
  import->set_domain("ai.onnx.ml");
  import->set_version(3);
  const auto imported = model.Import();
  EXPECT_TRUE(imported.ok()) << imported.status();
  std::vector<double> values;
  if (!imported.ok()) return values;
  const Tensor y = OutputsOf(imported->graph, {{"x", x}}).at(0);
  for (int64_t i = 0; i < y.num_elements(); ++i) values.push_back(y.At(i));
  return values;
}

Tensor Floats(const Shape& shape, const Reals& values) { return Tensor::FromVector(DType::kFloat32, shape, values); }

TEST(ImportPreprocessing, Scaler) {
  const Tensor x = Floats({2, 2}, {1, 2, 3, 4});
  EXPECT_THAT(Computed("Scaler", x, {{"offset", Reals{1, 2}}, {"scale", Reals{2, 0.5}}}),
              ElementsAreArray({0., 0., 4., 1.}));
  EXPECT_THAT(Computed("Scaler", x, {{"offset", Reals{1}}, {"scale", Reals{2}}}), ElementsAreArray({0., 2., 4., 6.}));
  EXPECT_THAT(Computed("Scaler", Tensor::Int64s({3, 5}), {{"offset", Reals{1, 1}}, {"scale", Reals{0.5, 0.5}}}),
              ElementsAreArray({1., 2.}));
}

TEST(ImportPreprocessing, Normalizer) {
  const Tensor x = Floats({2, 2}, {3, -4, 0, 0});
  EXPECT_THAT(Computed("Normalizer", x, {{"norm", "L1"}}), ElementsAreArray({3 / 7.f, -4 / 7.f, 0.f, 0.f}));
  EXPECT_THAT(Computed("Normalizer", x, {{"norm", "L2"}}), ElementsAreArray({0.6f, -0.8f, 0.f, 0.f}));
  EXPECT_THAT(Computed("Normalizer", x, {{"norm", "MAX"}}), ElementsAreArray({1.f, -4 / 3.f, 0.f, 0.f}));
}

TEST(ImportPreprocessing, BinarizerAndImputer) {
  EXPECT_THAT(Computed("Binarizer", Floats({3}, {0.5, 0.25, -1}), {{"threshold", 0.25}}),
              ElementsAreArray({1., 0., 0.}));
  const Tensor x = Floats({2, 2}, {std::nan(""), 1, 2, std::nan("")});
  EXPECT_THAT(Computed("Imputer", x, {{"imputed_value_floats", Reals{7, 8}}}), ElementsAreArray({7., 1., 2., 8.}));
  EXPECT_THAT(Computed("Imputer", Floats({1, 2}, {-1, 3}),
                       {{"imputed_value_floats", Reals{7}}, {"replaced_value_float", -1.0}}),
              ElementsAreArray({7., 3.}));
  EXPECT_THAT(Computed("Imputer", Tensor::Int64s({-1, 3}),
                       {{"imputed_value_int64s", List{7}}, {"replaced_value_int64", int64_t{-1}}}),
              ElementsAreArray({7., 3.}));
}

TEST(ImportPreprocessing, FeaturesThatAreChosenJoinedAndCoded) {
  EXPECT_THAT(Computed("ArrayFeatureExtractor", Floats({2, 3}, {1, 2, 3, 4, 5, 6}), {}, {Tensor::Int64s({2, 0})}),
              ElementsAreArray({3., 1., 6., 4.}));
  Tensor more(TensorType{DType::kInt64, {2, 1}});
  more.SetInt(1, 9);
  EXPECT_THAT(Computed("FeatureVectorizer", Floats({2, 2}, {1, 2, 3, 4}), {{"inputdimensions", List{2, 1}}}, {more}),
              ElementsAreArray({1., 2., 0., 3., 4., 9.}));
  EXPECT_THAT(Computed("OneHotEncoder", Tensor::Int64s({5, 7, 6}), {{"cats_int64s", List{5, 6}}}),
              ElementsAreArray({1., 0., 0., 0., 0., 1.}));
}

}  // namespace
}  // namespace rewright
