// Replaces a node that calls a function of the model file by the nodes of its body. For the sources of this folder
// only.
#pragma once

#include "absl/status/status.h"
#include "core/onnx/proto.h"

namespace rewright {

// Inlines calls in the graph and in graphs that nodes hold, also of functions that call functions. Tensors of a body
// get new names. A call stays if the body is missing, lists fewer inputs or outputs than the call, or is of an opset in
// which a node of the body means something else than in the model's. Errors: functions that call themselves, bodies of
// more than kMaxNodes nodes in all, a domain in two versions.
absl::Status InlineFunctions(onnx::ModelProto* model);

}  // namespace rewright
