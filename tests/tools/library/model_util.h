// Models for the tests of the library.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "rewright/rewright.h"

namespace rewright {

// y = relu(x * 1) over x [n, 4], with n symbolic: a rule removes the product.
std::string SmallModel();

// y = inverse(relu(x * 1)) over x [n, n], with n symbolic, by an operator of onnxruntime's that is not known here: node
// "inv".
std::string InvertingModel();

// The zoo's bert_base with `layers` layers, its batch and sequence symbolic, as an exporter of a framework writes it.
std::string SymbolicBert(int64_t layers);

// Token ids for it.
struct BertInputs {
  explicit BertInputs(int64_t batch, int64_t sequence);
  std::vector<InputView> views() const;

  std::vector<int64_t> shape;
  std::vector<int64_t> ids, types;
};

// The largest difference between two lists of outputs, relative to the largest element. A test failure where names,
// types or shapes differ.
double Difference(const std::vector<OutputArray>& a, const std::vector<OutputArray>& b);

}  // namespace rewright
