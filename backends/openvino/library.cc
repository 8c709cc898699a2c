#include "backends/openvino/library.h"

#include <iterator>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "backends/runtimes/owned.h"
#include "backends/runtimes/shared_library.h"
#include "core/base/status_macros.h"

namespace rewright::openvino {
namespace {

const LibraryPlaces& Places() {
  static const auto* const places =
      new LibraryPlaces{"openvino", "REWRIGHT_OPENVINO", {"libopenvino_c.so"}, "openvino/libs", "libopenvino_c.so"};
  return *places;
}

}  // namespace

// A compiled model. A run takes a request of its own, or one that an earlier run has left.
class Session : public ModelSession {
 public:
  Session(std::shared_ptr<const Library> library, std::vector<Port> inputs, std::vector<Port> outputs)
      : ModelSession(std::move(inputs), std::move(outputs)), library_(std::move(library)) {}
  ~Session() override;
  absl::Status Run(void* const* inputs, void* const* outputs) const override;

 private:
  friend class Library;
  using Request = Owned<OvRequest>;

  // Asks for the element types of ports. Error: the model has other ones.
  absl::Status FindTypes();
  // Takes over the port.
  absl::StatusOr<OvElementType> TypeOf(OvPort* port) const;
  absl::StatusOr<Request> TakeRequest() const;
  // A tensor that is bound to a request keeps its elements where they are.
  absl::StatusOr<Owned<OvTensor>> TensorOf(const Port& port, OvElementType type, void* elements) const;

  const std::shared_ptr<const Library> library_;
  OvCompiledModel* model_ = nullptr;
  std::vector<std::optional<OvElementType>> input_types_;  // nothing: OpenVINO drops inputs that no node reads
  std::vector<OvElementType> output_types_;
  mutable std::mutex mutex_;  // of what follows
  mutable std::vector<Request> idle_;
};

Session::~Session() {
  idle_.clear();
  if (model_ != nullptr) library_->api_.compiled_model_free(model_);
}

absl::StatusOr<OvElementType> Session::TypeOf(OvPort* port) const {
  const Owned<OvPort> owned(port, {library_->api_.output_const_port_free});
  OvElementType type = 0;
  RETURN_IF_ERROR(library_->ToStatus(library_->api_.port_get_element_type(port, &type)));
  return type;
}

absl::Status Session::FindTypes() {
  const Api& api = library_->api_;
  size_t inputs = 0, outputs = 0, read = 0;
  RETURN_IF_ERROR(library_->ToStatus(api.compiled_model_inputs_size(model_, &inputs)));
  RETURN_IF_ERROR(library_->ToStatus(api.compiled_model_outputs_size(model_, &outputs)));
  OvPort* port = nullptr;
  for (const Port& input : inputs_) {
    input_types_.emplace_back();
    if (api.compiled_model_input_by_name(model_, input.name.c_str(), &port) != 0) continue;
    ASSIGN_OR_RETURN(input_types_.back(), TypeOf(port));
    ++read;
  }
  if (read != inputs || outputs != outputs_.size()) {
    return absl::FailedPreconditionError(absl::StrCat("openvino: found ", inputs, " inputs and ", outputs,
                                                      " outputs, expected ", read, " and ", outputs_.size()));
  }
  for (size_t i = 0; i < outputs; ++i) {
    RETURN_IF_ERROR(library_->ToStatus(api.compiled_model_output_by_index(model_, i, &port)));
    ASSIGN_OR_RETURN(output_types_.emplace_back(), TypeOf(port));
  }
  return absl::OkStatus();
}

absl::StatusOr<Session::Request> Session::TakeRequest() const {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!idle_.empty()) {
      Request request = std::move(idle_.back());
      idle_.pop_back();
      return request;
    }
  }
  OvRequest* made = nullptr;
  RETURN_IF_ERROR(library_->ToStatus(library_->api_.compiled_model_create_infer_request(model_, &made)));
  return Request(made, {library_->api_.infer_request_free});
}

absl::StatusOr<Owned<OvTensor>> Session::TensorOf(const Port& port, OvElementType type, void* elements) const {
  static char nothing;  // where a tensor has no elements
  const Api& api = library_->api_;
  std::vector<int64_t> sizes = port.type.shape;
  OvTensor* made = nullptr;
  RETURN_IF_ERROR(library_->ToStatus(api.tensor_create_from_host_ptr(
      type, {static_cast<int64_t>(sizes.size()), sizes.data()}, elements == nullptr ? &nothing : elements, &made)));
  Owned<OvTensor> tensor(made, {api.tensor_free});
  size_t bytes = 0;
  RETURN_IF_ERROR(library_->ToStatus(api.tensor_get_byte_size(made, &bytes)));
  if (bytes == static_cast<size_t>(port.type.num_bytes())) return tensor;
  return absl::FailedPreconditionError(
      absl::StrCat("openvino: ", port.name, ": found ", bytes, " bytes, expected ", port.type.num_bytes()));
}

absl::Status Session::Run(void* const* inputs, void* const* outputs) const {
  const Api& api = library_->api_;
  ASSIGN_OR_RETURN(Request request, TakeRequest());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!input_types_[i]) continue;
    ASSIGN_OR_RETURN(const Owned<OvTensor> tensor, TensorOf(inputs_[i], *input_types_[i], inputs[i]));
    RETURN_IF_ERROR(
        library_->ToStatus(api.infer_request_set_tensor(request.get(), inputs_[i].name.c_str(), tensor.get())));
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    ASSIGN_OR_RETURN(const Owned<OvTensor> tensor, TensorOf(outputs_[i], output_types_[i], outputs[i]));
    RETURN_IF_ERROR(library_->ToStatus(api.infer_request_set_output_tensor_by_index(request.get(), i, tensor.get())));
  }
  RETURN_IF_ERROR(library_->ToStatus(api.infer_request_infer(request.get())));
  const std::lock_guard<std::mutex> lock(mutex_);
  idle_.push_back(std::move(request));
  return absl::OkStatus();
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
#define REWRIGHT_OPENVINO_FIND(result, name, arguments) \
  RETURN_IF_ERROR(FindFunction(handle, Places(), path, "ov_" #name, reinterpret_cast<void**>(&api_.name)));
  REWRIGHT_OPENVINO_FUNCTIONS(REWRIGHT_OPENVINO_FIND)
#undef REWRIGHT_OPENVINO_FIND
  OvVersion version = {};
  RETURN_IF_ERROR(ToStatus(api_.get_openvino_version(&version)));
  const std::vector<std::string> parts = absl::StrSplit(version.build == nullptr ? "" : version.build, '-');
  version_ = parts[0];
  api_.version_free(&version);
  return ToStatus(api_.core_create(&core_));
}

Library::~Library() {
  if (core_ != nullptr) api_.core_free(core_);
}

absl::Status Library::ToStatus(OvStatus status) const {
  if (status == 0) return absl::OkStatus();
  const Owned<const char> words(api_.get_last_err_msg(), {api_.free});
  std::string text = words == nullptr ? absl::StrCat("error ", status) : words.get();
  absl::RemoveExtraAsciiWhitespace(&text);  // it has several lines
  return absl::FailedPreconditionError(absl::StrCat("openvino: ", text));
}

absl::StatusOr<std::shared_ptr<const ModelSession>> Library::Make(OvModel* model, std::vector<Port> inputs,
                                                                  std::vector<Port> outputs, int threads) const {
  const Owned<OvModel> owned(model, {api_.model_free});
  auto session = std::make_shared<Session>(shared_from_this(), std::move(inputs), std::move(outputs));
  // Without a hint f32 is computed in bf16 where the processor has products of it.
  const std::string number = absl::StrCat(threads);
  const char* const properties[] = {"PERFORMANCE_HINT",         "LATENCY", "NUM_STREAMS",           "1",
                                    "INFERENCE_PRECISION_HINT", "f32",     "INFERENCE_NUM_THREADS", number.c_str()};
  const auto* p = properties;
  RETURN_IF_ERROR(ToStatus(api_.core_compile_model(core_, model, "CPU", std::size(properties), &session->model_, p[0],
                                                   p[1], p[2], p[3], p[4], p[5], p[6], p[7])));
  RETURN_IF_ERROR(session->FindTypes());
  return std::shared_ptr<const ModelSession>(std::move(session));
}

absl::StatusOr<std::shared_ptr<const ModelSession>> Library::Load(const std::string& model, std::vector<Port> inputs,
                                                                  std::vector<Port> outputs, int threads) const {
  OvModel* read = nullptr;
  RETURN_IF_ERROR(ToStatus(api_.core_read_model_from_memory_buffer(core_, model.data(), model.size(), nullptr, &read)));
  return Make(read, std::move(inputs), std::move(outputs), threads);
}

absl::StatusOr<std::shared_ptr<const ModelSession>> Library::LoadFile(const std::string& path, std::vector<Port> inputs,
                                                                      std::vector<Port> outputs, int threads) const {
  OvModel* read = nullptr;
  RETURN_IF_ERROR(ToStatus(api_.core_read_model(core_, path.c_str(), nullptr, &read)));
  return Make(read, std::move(inputs), std::move(outputs), threads);
}

}  // namespace rewright::openvino
