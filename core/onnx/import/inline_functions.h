// Functions of a model file: a node that calls one becomes the nodes of its body. For the sources of this folder only.
#pragma once

#include "absl/status/status.h"
#include "core/onnx/proto.h"

namespace rewright {

// Calls in the graph and in graphs that nodes hold, of functions that call functions as well. Tensors of a body get
// names of their own. A call stays where the body is missing or lists fewer inputs or outputs than it, or is of an
// opset in which a node of the body means something else than in the model's. Errors: functions that call themselves,
// bodies that come to more than kMaxNodes nodes, a domain in two versions.
absl::Status InlineFunctions(onnx::ModelProto* model);

}  // namespace rewright
