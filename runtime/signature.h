// The inputs and outputs of a graph.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ir/graph.h"
#include "core/tensor/tensor.h"

namespace rewright {

// Memory that outputs must not lie in.
class AddressRanges {
 public:
  void Add(const void* begin, size_t bytes) {
    if (bytes > 0) ranges_.push_back({static_cast<const char*>(begin), static_cast<const char*>(begin) + bytes});
  }
  bool Meets(const void* begin, size_t bytes) const;

 private:
  std::vector<std::pair<const char*, const char*>> ranges_;
};

struct Signature {
  explicit Signature(const Graph& graph);

  // Errors: a wrong number of inputs, an input that is empty or of another type; inputs are named.
  absl::Status CheckInputs(const std::vector<Tensor>& given) const;
  // The type of a state. Error: there is none of that name.
  absl::StatusOr<TensorType> TypeOfState(const std::string& name) const;
  // Errors: no such state, a value of another type.
  absl::Status CheckState(const std::string& name, const Tensor& value) const;
  // Gives every output memory of its type: the tensor that is there, if it is of that type and shares no byte with an
  // input, another output or `reserved`; else a fresh one. Errors: too little memory.
  absl::Status PrepareOutputs(const std::vector<Tensor>& given, const AddressRanges& reserved,
                              std::vector<Tensor>* results) const;

  std::vector<std::string> input_names;
  std::vector<TensorType> inputs, outputs;   // outputs: the results
  std::map<std::string, TensorType> states;  // of a graph for training
};

}  // namespace rewright
