#include "backends/onnxruntime/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/data_file.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/onnx/proto.h"

namespace rewright::ort {
namespace {

constexpr char kVariable[] = "REWRIGHT_ONNXRUNTIME";

// Paths of what lies in a folder; none where it cannot be read.
std::vector<std::filesystem::path> In(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const std::string& name : NamesIn(folder.string()).value_or(std::vector<std::string>())) {
    paths.push_back(folder / name);
  }
  return paths;
}

// The library in the package onnxruntime of PythonProgram(); where there is none, the place where it would be. Nothing
// where the program has no whole path: the current folder, which may be anybody's, is not looked at.
std::optional<std::string> OfPython() {
  namespace fs = std::filesystem;
  const fs::path program = PythonProgram();
  if (!program.is_absolute()) return std::nullopt;
  const fs::path libraries = program.parent_path().parent_path() / "lib";
  const fs::path package = fs::path("site-packages") / "onnxruntime" / "capi";
  for (const fs::path& version : In(libraries)) {
    for (const fs::path& file : In(version / package)) {
      if (absl::StartsWith(file.filename().string(), "libonnxruntime.so")) return file.string();
    }
  }
  return (libraries / "python3" / package / "libonnxruntime.so").string();
}

// The levels of onnxruntime's optimizations, highest first.
constexpr std::pair<OrtOptimization, const char*> kLevels[] = {{kOrtOptimizeAll, "all"},
                                                               {kOrtOptimizeExtended, "extended"},
                                                               {kOrtOptimizeBasic, "basic"},
                                                               {kOrtOptimizeNothing, "none"}};

// Deletes objects that the library's table of functions creates and releases.
template <typename T>
struct Released {
  void (*release)(T*);
  void operator()(T* object) const { release(object); }
};
template <typename T>
using Owned = std::unique_ptr<T, Released<T>>;

class SessionKernel : public Kernel {
 public:
  explicit SessionKernel(std::shared_ptr<const Session> session) : session_(std::move(session)) {}
  absl::Status Run(void* const* buffers, RunContext&) const override {
    return session_->Run(buffers, buffers + session_->num_inputs());
  }

 private:
  const std::shared_ptr<const Session> session_;
};

}  // namespace

std::unique_ptr<Kernel> MakeSessionKernel(std::shared_ptr<const Session> session) {
  return std::make_unique<SessionKernel>(std::move(session));
}

Session::Session(std::shared_ptr<const Library> library, std::vector<Port> inputs, std::vector<Port> outputs)
    : library_(std::move(library)), inputs_(std::move(inputs)), outputs_(std::move(outputs)) {
  for (const Port& port : inputs_) input_names_.push_back(port.name.c_str());
  for (const Port& port : outputs_) output_names_.push_back(port.name.c_str());
}

Session::~Session() {
  if (session_ != nullptr) library_->api_->ReleaseSession(session_);
}

absl::Status Session::Run(void* const* inputs, void* const* outputs) const {
  const OrtApi& api = *library_->api_;
  std::vector<Owned<OrtValue>> owned;
  std::vector<OrtValue*> values;
  owned.reserve(inputs_.size() + outputs_.size());
  const auto bind = [&](const Port& port, void* data) {
    static char nothing;  // where a tensor has no elements
    const TensorType& type = port.type;
    OrtValue* value = nullptr;
    const absl::Status status = library_->ToStatus(api.CreateTensorWithDataAsOrtValue(
        library_->memory_, data == nullptr ? &nothing : data, static_cast<size_t>(type.num_bytes()), type.shape.data(),
        type.shape.size(), DTypeToOnnx(type.dtype), &value));
    owned.emplace_back(value, Released<OrtValue>{api.ReleaseValue});
    values.push_back(value);
    return status;
  };
  for (size_t i = 0; i < inputs_.size(); ++i) RETURN_IF_ERROR(bind(inputs_[i], inputs[i]));
  for (size_t i = 0; i < outputs_.size(); ++i) RETURN_IF_ERROR(bind(outputs_[i], outputs[i]));
  return library_->ToStatus(api.Run(session_, nullptr, input_names_.data(), values.data(), inputs_.size(),
                                    output_names_.data(), outputs_.size(), values.data() + inputs_.size()));
}

absl::StatusOr<std::shared_ptr<const Library>> Library::Open() {
  const char* const given = std::getenv(kVariable);
  std::vector<std::string> names;
  if (given != nullptr && *given != '\0') {
    names.push_back(given);
  } else {
    names = {"libonnxruntime.so.1", "libonnxruntime.so"};
    if (const std::optional<std::string> name = OfPython()) names.push_back(*name);
  }
  std::vector<std::string> reasons;
  for (const std::string& name : names) {
    void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      reasons.push_back(dlerror());
      continue;
    }
    std::shared_ptr<Library> library(new Library);
    const absl::Status status = library->Init(handle, name);
    if (status.ok()) return std::shared_ptr<const Library>(std::move(library));
    reasons.emplace_back(status.message());  // the next one may be of another version
  }
  return absl::NotFoundError(absl::StrCat("device onnxruntime: no library of onnxruntime can be loaded: ",
                                          absl::StrJoin(reasons, "; "), " ($", kVariable, " names one)"));
}

absl::Status Library::Init(void* handle, const std::string& path) {
  // The library stays loaded: it has threads of its own.
  const auto base = reinterpret_cast<GetApiBaseFunction>(dlsym(handle, kGetApiBase));
  if (base == nullptr) {
    return absl::NotFoundError(absl::StrCat("device onnxruntime: ", path, " has no function ", kGetApiBase));
  }
  version_ = base()->GetVersionString();
  api_ = base()->GetApi(kApiVersion);
  if (api_ == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("device onnxruntime: ", path, ": found version ", version_,
                                                      ", expected one that knows the C API of version ", kApiVersion,
                                                      " (onnxruntime 1.", kApiVersion, " or later)"));
  }
  RETURN_IF_ERROR(ToStatus(api_->CreateEnv(kOrtLogFatal, "rewright", &env_)));
  return ToStatus(api_->CreateCpuMemoryInfo(kOrtDeviceAllocator, kOrtDefaultMemory, &memory_));
}

Library::~Library() {
  if (api_ == nullptr) return;
  if (memory_ != nullptr) api_->ReleaseMemoryInfo(memory_);
  if (env_ != nullptr) api_->ReleaseEnv(env_);
}

absl::Status Library::ToStatus(OrtStatus* status) const {
  if (status == nullptr) return absl::OkStatus();
  const Owned<OrtStatus> owned(status, Released<OrtStatus>{api_->ReleaseStatus});
  return absl::FailedPreconditionError(absl::StrCat("onnxruntime: ", api_->GetErrorMessage(status)));
}

template <typename Create>
absl::StatusOr<std::shared_ptr<const Session>> Library::Make(std::vector<Port> inputs, std::vector<Port> outputs,
                                                             int threads, const Create& create) const {
  OrtSessionOptions* made = nullptr;
  RETURN_IF_ERROR(ToStatus(api_->CreateSessionOptions(&made)));
  const Owned<OrtSessionOptions> options(made, Released<OrtSessionOptions>{api_->ReleaseSessionOptions});
  RETURN_IF_ERROR(ToStatus(api_->SetSessionLogSeverityLevel(made, kOrtLogFatal)));
  RETURN_IF_ERROR(ToStatus(api_->SetIntraOpNumThreads(made, threads)));
  RETURN_IF_ERROR(ToStatus(api_->SetInterOpNumThreads(made, 1)));
  // Threads that wait actively after a run would slow the run of another session that is measured beside it.
  RETURN_IF_ERROR(ToStatus(api_->AddSessionConfigEntry(made, "session.force_spinning_stop", "1")));
  std::shared_ptr<Session> session(new Session(shared_from_this(), std::move(inputs), std::move(outputs)));
  absl::Status refused;
  for (const auto& [level, name] : kLevels) {
    RETURN_IF_ERROR(ToStatus(api_->SetSessionGraphOptimizationLevel(made, level)));
    const absl::Status status = ToStatus(create(made, &session->session_));
    if (status.ok()) {
      if (!refused.ok()) {
        session->left_out_ = absl::StrCat("onnxruntime's own optimizer breaks the model (", refused.message(),
                                          "): it runs with its optimizations of level ", name);
      }
      return std::shared_ptr<const Session>(std::move(session));
    }
    session->session_ = nullptr;
    refused.Update(status);
  }
  return refused;
}

absl::StatusOr<std::shared_ptr<const Session>> Library::Load(const std::string& model, std::vector<Port> inputs,
                                                             std::vector<Port> outputs, int threads) const {
  return Make(std::move(inputs), std::move(outputs), threads, [&](OrtSessionOptions* options, OrtSession** session) {
    return api_->CreateSessionFromArray(env_, model.data(), model.size(), options, session);
  });
}

absl::StatusOr<std::shared_ptr<const Session>> Library::LoadFile(const std::string& path, std::vector<Port> inputs,
                                                                 std::vector<Port> outputs, int threads) const {
  return Make(std::move(inputs), std::move(outputs), threads, [&](OrtSessionOptions* options, OrtSession** session) {
    return api_->CreateSession(env_, path.c_str(), options, session);
  });
}

}  // namespace rewright::ort
