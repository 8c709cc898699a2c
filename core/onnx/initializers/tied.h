// Parameters that an exporter wrote several times: as they are and transposed, or element by element in a tensor that
// it computed. For the sources of this folder only.
#pragma once

#include "core/onnx/import/graph_importer.h"
#include "core/onnx/initializers/trained.h"
#include "core/onnx/provenance.h"

namespace rewright {

// Initializers that hold the same numbers become one, which the others are moved or transposed from, so that its
// gradient is the sum of theirs. What is not tied: few numbers, or one number alone, which are equal by chance; two
// that the model named, of one shape and read by nodes of one kind, which are layers that start alike.
// ImportOptions::shares and ::parts decide otherwise. `roles` has what is left, and gets the notes.
void JoinCopies(const ImportOptions& options, onnx::GraphProto& graph, InitializersByName& initializers,
                InitializerRoles& roles);

// A tensor that was computed from a parameter and repeats its elements, along an axis (a token for each sample of a
// batch) or anywhere (a table read at positions that are known), becomes these elements, once each, and what repeats
// them. Where all are one number that cannot be told: such tensors are undecided.
void JoinRepeats(const ImportOptions& options, const Provenance& provenance, onnx::GraphProto& graph,
                 InitializersByName& initializers, InitializerRoles& roles);

}  // namespace rewright
