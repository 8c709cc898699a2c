// Parameters that an exporter wrote several times: as they are and transposed, or element by element in a tensor that
// it computed. For the sources of this folder only.
#pragma once

#include "core/onnx/import/graph_importer.h"
#include "core/onnx/initializers/trained.h"
#include "core/onnx/provenance.h"

namespace rewright {

// Joins initializers that hold the same numbers to one, from which the others are moved or transposed, so that its
// gradient is the sum of theirs. Not joined are initializers of few numbers or of one repeated number, which are equal
// by chance, and two that the model named, of one shape and read by nodes of one kind, which are layers that start
// alike. ImportOptions::shares and ::parts override this. `roles` gets the notes; its `left` lists the untrained
// initializers.
void JoinCopies(const ImportOptions& options, onnx::GraphProto& graph, InitializersByName& initializers,
                InitializerRoles& roles);

// Replaces a tensor that was computed from a parameter and repeats its elements, along an axis (a token for each sample
// of a batch) or anywhere (a table read at known positions), by these elements, once each, and nodes that repeat them.
// If all elements are one number, repetition cannot be recognized: such tensors are undecided.
void JoinRepeats(const ImportOptions& options, const Provenance& provenance, onnx::GraphProto& graph,
                 InitializersByName& initializers, InitializerRoles& roles);

}  // namespace rewright
