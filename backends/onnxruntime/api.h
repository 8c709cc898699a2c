// The part of onnxruntime's C API that is used here, declared anew: facts of the interface (https://onnxruntime.ai,
// "C API"), which is a table of functions whose order never changes. No header of it comes with its packages.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rewright::ort {

// The table's version: the lowest that has the functions below. Libraries give tables of all versions up to their own:
// version 12 came with onnxruntime 1.12.
inline constexpr uint32_t kApiVersion = 12;

struct OrtStatus;  // null: no error
struct OrtEnv;
struct OrtSession;
struct OrtSessionOptions;
struct OrtRunOptions;
struct OrtMemoryInfo;
struct OrtValue;

enum OrtLogLevel : int { kOrtLogFatal = 4 };
enum OrtOptimization : int {
  kOrtOptimizeNothing = 0,
  kOrtOptimizeBasic = 1,
  kOrtOptimizeExtended = 2,
  kOrtOptimizeAll = 99
};
enum OrtAllocatorKind : int { kOrtDeviceAllocator = 0 };
enum OrtMemoryKind : int { kOrtDefaultMemory = 0 };

struct OrtApi {
  void* unused_0[2];
  const char* (*GetErrorMessage)(const OrtStatus* status);
  OrtStatus* (*CreateEnv)(int log_level, const char* log_id, OrtEnv** env);
  void* unused_4[3];
  OrtStatus* (*CreateSession)(const OrtEnv* env, const char* path, const OrtSessionOptions* options, OrtSession** out);
  OrtStatus* (*CreateSessionFromArray)(const OrtEnv* env, const void* model, size_t bytes,
                                       const OrtSessionOptions* options, OrtSession** out);
  OrtStatus* (*Run)(OrtSession* session, const OrtRunOptions* options, const char* const* input_names,
                    const OrtValue* const* inputs, size_t num_inputs, const char* const* output_names,
                    size_t num_outputs, OrtValue** outputs);
  OrtStatus* (*CreateSessionOptions)(OrtSessionOptions** options);
  void* unused_11[11];
  OrtStatus* (*SetSessionLogSeverityLevel)(OrtSessionOptions* options, int level);
  OrtStatus* (*SetSessionGraphOptimizationLevel)(OrtSessionOptions* options, int level);
  OrtStatus* (*SetIntraOpNumThreads)(OrtSessionOptions* options, int threads);
  OrtStatus* (*SetInterOpNumThreads)(OrtSessionOptions* options, int threads);
  void* unused_26[23];
  OrtStatus* (*CreateTensorWithDataAsOrtValue)(const OrtMemoryInfo* memory, void* data, size_t bytes,
                                               const int64_t* shape, size_t rank, int element, OrtValue** value);
  void* unused_50[19];
  OrtStatus* (*CreateCpuMemoryInfo)(int allocator, int memory, OrtMemoryInfo** info);
  void* unused_70[22];
  void (*ReleaseEnv)(OrtEnv* env);
  void (*ReleaseStatus)(OrtStatus* status);
  void (*ReleaseMemoryInfo)(OrtMemoryInfo* info);
  void (*ReleaseSession)(OrtSession* session);
  void (*ReleaseValue)(OrtValue* value);
  void* unused_97[3];
  void (*ReleaseSessionOptions)(OrtSessionOptions* options);
  void* unused_101[29];
  OrtStatus* (*AddSessionConfigEntry)(OrtSessionOptions* options, const char* key, const char* value);
};

constexpr bool IsAt(size_t offset, size_t position) { return offset == position * sizeof(void*); }
static_assert(IsAt(offsetof(OrtApi, CreateEnv), 3) && IsAt(offsetof(OrtApi, CreateSessionOptions), 10) &&
              IsAt(offsetof(OrtApi, SetInterOpNumThreads), 25) &&
              IsAt(offsetof(OrtApi, CreateTensorWithDataAsOrtValue), 49) &&
              IsAt(offsetof(OrtApi, CreateCpuMemoryInfo), 69) && IsAt(offsetof(OrtApi, ReleaseEnv), 92) &&
              IsAt(offsetof(OrtApi, ReleaseSessionOptions), 100) && IsAt(offsetof(OrtApi, AddSessionConfigEntry), 130));

struct OrtApiBase {
  const OrtApi* (*GetApi)(uint32_t version);  // null: the library is older
  const char* (*GetVersionString)();
};
inline constexpr char kGetApiBase[] = "OrtGetApiBase";
using GetApiBaseFunction = const OrtApiBase* (*)();

}  // namespace rewright::ort
