#include "backends/onnxruntime/library.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/runtimes/owned.h"
#include "backends/runtimes/shared_library.h"
#include "core/base/status_macros.h"
#include "core/onnx/proto.h"

namespace rewright::ort {
namespace {

const LibraryPlaces& Places() {
  static const auto* const places = new LibraryPlaces{"onnxruntime",
                                                      "REWRIGHT_ONNXRUNTIME",
                                                      {"libonnxruntime.so.1", "libonnxruntime.so"},
                                                      "onnxruntime/capi",
                                                      "libonnxruntime.so"};
  return *places;
}

// The levels of onnxruntime's optimizations, highest first.
constexpr std::pair<OrtOptimization, const char*> kLevels[] = {{kOrtOptimizeAll, "all"},
                                                               {kOrtOptimizeExtended, "extended"},
                                                               {kOrtOptimizeBasic, "basic"},
                                                               {kOrtOptimizeNothing, "none"}};

}  // namespace

class Session : public ModelSession {
 public:
  Session(std::shared_ptr<const Library> library, std::vector<Port> inputs, std::vector<Port> outputs);
  ~Session() override;
  absl::Status Run(void* const* inputs, void* const* outputs) const override;

 private:
  friend class Library;

  const std::shared_ptr<const Library> library_;
  std::vector<const char*> input_names_, output_names_;
  OrtSession* session_ = nullptr;
};

Session::Session(std::shared_ptr<const Library> library, std::vector<Port> inputs, std::vector<Port> outputs)
    : ModelSession(std::move(inputs), std::move(outputs)), library_(std::move(library)) {
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
  std::shared_ptr<Library> opened;
  RETURN_IF_ERROR(LoadLibrary(Places(), [&](void* handle, const std::string& path) {
    opened.reset(new Library);
    return opened->Init(handle, path);
  }));
  return std::shared_ptr<const Library>(std::move(opened));
}

absl::Status Library::Init(void* handle, const std::string& path) {
  void* function = nullptr;
  RETURN_IF_ERROR(FindFunction(handle, Places(), path, kGetApiBase, &function));
  const auto base = reinterpret_cast<GetApiBaseFunction>(function);
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
absl::StatusOr<std::shared_ptr<const ModelSession>> Library::Make(std::vector<Port> inputs, std::vector<Port> outputs,
                                                                  int threads, const Create& create) const {
  OrtSessionOptions* made = nullptr;
  RETURN_IF_ERROR(ToStatus(api_->CreateSessionOptions(&made)));
  const Owned<OrtSessionOptions> options(made, Released<OrtSessionOptions>{api_->ReleaseSessionOptions});
  RETURN_IF_ERROR(ToStatus(api_->SetSessionLogSeverityLevel(made, kOrtLogFatal)));
  RETURN_IF_ERROR(ToStatus(api_->SetIntraOpNumThreads(made, threads)));
  RETURN_IF_ERROR(ToStatus(api_->SetInterOpNumThreads(made, 1)));
  // Threads that wait actively after a run would slow the run of another session that is measured beside it.
  RETURN_IF_ERROR(ToStatus(api_->AddSessionConfigEntry(made, "session.force_spinning_stop", "1")));
  auto session = std::make_shared<Session>(shared_from_this(), std::move(inputs), std::move(outputs));
  absl::Status refused;
  for (const auto& [level, name] : kLevels) {
    RETURN_IF_ERROR(ToStatus(api_->SetSessionGraphOptimizationLevel(made, level)));
    const absl::Status status = ToStatus(create(made, &session->session_));
    if (status.ok()) {
      if (!refused.ok()) {
        session->left_out_ = absl::StrCat("onnxruntime's own optimizer breaks the model (", refused.message(),
                                          "): it runs with its optimizations of level ", name);
      }
      return std::shared_ptr<const ModelSession>(std::move(session));
    }
    session->session_ = nullptr;
    refused.Update(status);
  }
  return refused;
}

absl::StatusOr<std::shared_ptr<const ModelSession>> Library::Load(const std::string& model, std::vector<Port> inputs,
                                                                  std::vector<Port> outputs, int threads) const {
  return Make(std::move(inputs), std::move(outputs), threads, [&](OrtSessionOptions* options, OrtSession** session) {
    return api_->CreateSessionFromArray(env_, model.data(), model.size(), options, session);
  });
}

absl::StatusOr<std::shared_ptr<const ModelSession>> Library::LoadFile(const std::string& path, std::vector<Port> inputs,
                                                                      std::vector<Port> outputs, int threads) const {
  return Make(std::move(inputs), std::move(outputs), threads, [&](OrtSessionOptions* options, OrtSession** session) {
    return api_->CreateSession(env_, path.c_str(), options, session);
  });
}

}  // namespace rewright::ort
