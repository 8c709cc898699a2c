// The plugin librewright_jit.so: LLVM's just-in-time compiler behind one function. A library of its own, so that the
// program needs no LLVM, and loads it only where a kernel is compiled.
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Target.h>

#include <cstdio>
#include <cstring>
#include <mutex>

namespace {

// The reason in `error` where there is one.
bool Failed(LLVMErrorRef status, char* error, unsigned long error_bytes) {
  if (status == nullptr) return false;
  char* message = LLVMGetErrorMessage(status);
  std::snprintf(error, error_bytes, "%s", message);
  LLVMDisposeErrorMessage(message);
  return true;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void* rewright_compile_loop(const char* name, const char* text,
                                                                              char* error, unsigned long error_bytes) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  static LLVMOrcLLJITRef jit = nullptr;
  if (jit == nullptr) {
    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    // Compiles for this very processor.
    if (Failed(LLVMOrcCreateLLJIT(&jit, nullptr), error, error_bytes)) return jit = nullptr;
  }
  LLVMOrcThreadSafeContextRef context = LLVMOrcCreateNewThreadSafeContext();
  // Takes the buffer.
  LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(text, std::strlen(text), name);
  LLVMModuleRef module = nullptr;
  char* message = nullptr;
  if (LLVMParseIRInContext(LLVMOrcThreadSafeContextGetContext(context), buffer, &module, &message) != 0) {
    std::snprintf(error, error_bytes, "%s", message);
    LLVMDisposeMessage(message);
    LLVMOrcDisposeThreadSafeContext(context);
    return nullptr;
  }
  LLVMSetDataLayout(module, LLVMOrcLLJITGetDataLayoutStr(jit));
  LLVMSetTarget(module, LLVMOrcLLJITGetTripleString(jit));
  // Takes the module; the context is shared.
  LLVMOrcThreadSafeModuleRef safe = LLVMOrcCreateNewThreadSafeModule(module, context);
  LLVMOrcDisposeThreadSafeContext(context);
  if (Failed(LLVMOrcLLJITAddLLVMIRModule(jit, LLVMOrcLLJITGetMainJITDylib(jit), safe), error, error_bytes)) {
    LLVMOrcDisposeThreadSafeModule(safe);
    return nullptr;
  }
  LLVMOrcExecutorAddress address = 0;
  if (Failed(LLVMOrcLLJITLookup(jit, &address, name), error, error_bytes)) return nullptr;
  return reinterpret_cast<void*>(address);
}
