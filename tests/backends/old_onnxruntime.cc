// A library that says that it is an onnxruntime from before the functions that are used.
#include "backends/onnxruntime/api.h"

namespace {

const rewright::ort::OrtApi* GetApi(uint32_t) { return nullptr; }
const char* GetVersion() { return "1.3.1"; }

}  // namespace

extern "C" const rewright::ort::OrtApiBase* OrtGetApiBase() {
  static const rewright::ort::OrtApiBase base = {GetApi, GetVersion};
  return &base;
}
