// Small ONNX models for the tests of this folder, and tensors to run them on.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/onnx/onnx.h"
#include "core/onnx/proto.h"
#include "core/tensor/tensor.h"
#include "tests/support/temporary_folder.h"

namespace rewright {

using TestAttr = std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>, Tensor>;
using TestAttrs = std::map<std::string, TestAttr>;

// Floating tensors of 0, 1, 2, ...
Tensor Iota(const Shape& shape);

class TestModel {
 public:
  explicit TestModel(int64_t opset = 17);

  // Negative sizes are unnamed symbolic dimensions.
  TestModel& Input(const std::string& name, const Shape& shape, DType dtype = DType::kFloat32);
  TestModel& SymbolicInput(const std::string& name, const std::vector<std::string>& dims);
  TestModel& Initializer(const std::string& name, const Tensor& tensor);
  TestModel& Ints(const std::string& name, const std::vector<int64_t>& values) {
    return Initializer(name, Tensor::Int64s(values));
  }
  TestModel& Node(const std::string& op_type, const std::vector<std::string>& inputs,
                  const std::vector<std::string>& outputs, const TestAttrs& attrs = {});
  TestModel& Output(const std::string& name);

  onnx::ModelProto& proto() { return proto_; }
  std::string Bytes() const { return proto_.SerializeAsString(); }
  absl::StatusOr<ImportedModel> Import(const ImportOptions& options = {}) const;
  // Returns the message of the import's error; empty if there is none.
  std::string Error(const ImportOptions& options = {}) const;

 private:
  onnx::ModelProto proto_;
};

// Returns the printed graph of an imported model without the types that the printer adds as comments, or the error.
std::string Printed(const TestModel& model);
// Returns the same for one node of this operator, applied to x.
std::string PrintedNode(int64_t opset, const char* op_type, const TestAttrs& attrs = {});

// Returns the outputs of the graph in the reference interpreter, on inputs by name. An error fails the test.
std::vector<Tensor> OutputsOf(const Graph& graph, const std::map<std::string, Tensor>& inputs);

}  // namespace rewright
