// Origins of initializers, from an exporter's metadata. PyTorch's exporter by torch.export writes it: the graph lists
// the parameters and buffers of the module, and a value that was computed beforehand names the values that it was
// computed from. For the sources of this folder only.
#pragma once

#include <map>
#include <set>
#include <string>

#include "core/onnx/proto.h"

namespace rewright {

class Provenance {
 public:
  enum class Kind {
    kUnsaid,
    kParameter,  // or computed from parameters
    kConstant,   // a buffer, or computed without a parameter
  };

  explicit Provenance(const onnx::GraphProto& graph);

  Kind KindOf(const std::string& initializer) const;
  bool IsBuffer(const std::string& initializer) const;
  // Returns the parameters that an initializer was computed from; none if it is one itself, or the file does not tell.
  std::set<std::string> ParametersOf(const std::string& initializer) const;
  // Returns all values that an initializer was computed from, intermediate results included.
  std::set<std::string> SourcesOf(const std::string& initializer) const;

 private:
  std::map<std::string, bool> parameters_;                // by the name in the module: a parameter, or a buffer
  std::map<std::string, std::set<std::string>> sources_;  // by initializer that was computed
};

}  // namespace rewright
