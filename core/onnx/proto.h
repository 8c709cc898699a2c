// The generated classes of ONNX's protobuf messages; included by the sources of this folder only.
#pragma once

#include <onnx/onnx_pb.h>
