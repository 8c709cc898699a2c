// Finds the initializers of a file that training changes. For the sources of this folder only.
//
// PyTorch's exporter by torch.export states which tensors are parameters, and which values it computed from them
// (provenance.h). Other files do not: exporters also write masks, tables, folded numbers and shared copies as
// initializers. In such files an initializer of floating type is trained unless
//
//   it has infinite elements or ones too large for weights (a mask);
//   all its readers are inputs that are never weights: running averages, exponents, bounds, initial states of a
//   recurrence; its name is one that exporters give to computed tensors, and nothing reads it as a weight.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/onnx/import/graph_importer.h"

namespace rewright {

struct InitializerRoles {
  std::map<std::string, std::string> left;  // floating ones that are not trained: why
  // The untrained initializers that only their names and uses decide. `undecided` becomes ImportedModel::undecided.
  std::set<std::string> by_name;
  std::map<std::string, std::string> undecided;
  std::vector<std::string> notes;  // ImportedModel::weight_notes
};

// Decides which initializers are trained; `options` overrides by name (ImportOptions::trains, ::shares, ::parts).
// Exporters write an initializer of one repeated number once, however many weights start with it: each use becomes an
// initializer of its own, in the graph and in `initializers`, unless two of the file are equal. Copies of one tensor
// are joined (tied.h). A second call changes nothing.
InitializerRoles RolesOfInitializers(const ImportOptions& options, onnx::GraphProto& graph,
                                     InitializersByName& initializers);

}  // namespace rewright
