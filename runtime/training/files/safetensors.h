// Tensors in safetensors files: a length (u64, little-endian), a JSON object with type, shape and place of every
// tensor, the elements one after another.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ir/graph.h"
#include "core/tensor/tensor.h"

namespace rewright {

using NamedTensors = std::map<std::string, Tensor>;

// The states of a graph with their values, by name.
NamedTensors StatesOf(const Graph& graph);

// Equal tensors give equal bytes: they stand in the order of their names. Writes a temporary file and renames it.
absl::Status WriteSafetensors(const std::string& path, const NamedTensors& tensors);
// The SHA-256 of the file that WriteSafetensors writes.
std::string SafetensorsSha256(const NamedTensors& tensors);

// The file is untrusted. Errors, which name the file and the tensor: a header that is none, an element type that is not
// known here, tensors that overlap, leave bytes over or end outside the file, too little memory.
absl::StatusOr<NamedTensors> ReadSafetensors(const std::string& path);

}  // namespace rewright
