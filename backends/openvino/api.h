// The part of OpenVINO's C API that is used here, declared anew: facts of the interface (https://docs.openvino.ai, "C
// API"). Its functions are found by name.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rewright::openvino {

struct OvCore;
struct OvModel;
struct OvCompiledModel;
struct OvRequest;
struct OvTensor;
struct OvPort;

struct OvVersion {
  const char* build;  // "2026.4.1-22241-6c91ed1f8d6"
  const char* description;
};

struct OvShape {
  int64_t rank;
  int64_t* sizes;
};

using OvStatus = int;       // 0: no error
using OvElementType = int;  // its numbers differ between versions: they are asked for and given back

// The table of functions, each named as in the library without its prefix ov_.
#define REWRIGHT_OPENVINO_FUNCTIONS(X)                                                                  \
  X(OvStatus, get_openvino_version, (OvVersion*))                                                       \
  X(void, version_free, (OvVersion*))                                                                   \
  X(const char*, get_last_err_msg, ())                                                                  \
  X(void, free, (const char*))                                                                          \
  X(OvStatus, core_create, (OvCore**))                                                                  \
  X(void, core_free, (OvCore*))                                                                         \
  X(OvStatus, core_read_model, (const OvCore*, const char* path, const char* weights, OvModel**))       \
  X(OvStatus, core_read_model_from_memory_buffer,                                                       \
    (const OvCore*, const char* model, size_t bytes, const OvTensor* weights, OvModel**))               \
  X(OvStatus, core_compile_model,                                                                       \
    (const OvCore*, const OvModel*, const char* device, size_t num_properties, OvCompiledModel**, ...)) \
  X(void, model_free, (OvModel*))                                                                       \
  X(OvStatus, compiled_model_inputs_size, (const OvCompiledModel*, size_t*))                            \
  X(OvStatus, compiled_model_outputs_size, (const OvCompiledModel*, size_t*))                           \
  X(OvStatus, compiled_model_input_by_name, (const OvCompiledModel*, const char* name, OvPort**))       \
  X(OvStatus, compiled_model_output_by_index, (const OvCompiledModel*, size_t index, OvPort**))         \
  X(OvStatus, compiled_model_create_infer_request, (const OvCompiledModel*, OvRequest**))               \
  X(void, compiled_model_free, (OvCompiledModel*))                                                      \
  X(OvStatus, port_get_element_type, (const OvPort*, OvElementType*))                                   \
  X(void, output_const_port_free, (OvPort*))                                                            \
  X(OvStatus, tensor_create_from_host_ptr, (OvElementType, OvShape, void* elements, OvTensor**))        \
  X(OvStatus, tensor_get_byte_size, (const OvTensor*, size_t*))                                         \
  X(void, tensor_free, (OvTensor*))                                                                     \
  X(OvStatus, infer_request_set_tensor, (OvRequest*, const char* name, const OvTensor*))                \
  X(OvStatus, infer_request_set_output_tensor_by_index, (OvRequest*, size_t index, const OvTensor*))    \
  X(OvStatus, infer_request_infer, (OvRequest*))                                                        \
  X(void, infer_request_free, (OvRequest*))

struct Api {
#define REWRIGHT_OPENVINO_FIELD(result, name, arguments) result(*name) arguments = nullptr;
  REWRIGHT_OPENVINO_FUNCTIONS(REWRIGHT_OPENVINO_FIELD)
#undef REWRIGHT_OPENVINO_FIELD
};

}  // namespace rewright::openvino
