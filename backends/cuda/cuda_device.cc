#include "backends/cuda/cuda_device.h"

#include <dlfcn.h>

#include <algorithm>
#include <iterator>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "backends/common/group.h"
#include "backends/cuda/fuse/fusion.h"
#include "backends/cuda/lower/context_layout.h"
#include "backends/cuda/lower/lowering.h"
#include "backends/cuda/measure.h"
#include "backends/cuda/memory/gpu_memory.h"
#include "core/base/data_file.h"
#include "core/base/status_macros.h"

namespace rewright::cuda {
namespace {

// Raised when kernels or fusion change, so that times measured before are not used.
constexpr int kKernelVersion = 10;

const char* PrecisionName(Precision precision) {
  return std::find_if(std::begin(kPrecisions), std::end(kPrecisions),
                      [&](const auto& named) { return named.second == precision; })
      ->first;
}

class CudaDevice : public Device {
 public:
  // `gpu` null: costs come from the profile alone.
  CudaDevice(std::string name, std::unique_ptr<Gpu> gpu, std::shared_ptr<ProfileDb> profile, const CudaOptions& options)
      : name_(std::move(name)),
        gpu_(std::move(gpu)),
        options_(options),
        costs_(name_, std::move(profile)),
        layouts_(options.channels_last) {
    if (gpu_ != nullptr) memory_ = std::make_unique<GpuMemory>(*gpu_);
  }

  std::string name() const override { return name_; }

  std::vector<Group> Partition(const Graph& graph) const override {
    std::vector<Group> groups;
    for (FusedGroup& group : FuseGraph(graph, FusionOptionsOf(options_))) groups.push_back(std::move(group.group));
    return groups;
  }

  absl::StatusOr<double> Cost(const Graph& graph, const Group& group) override {
    RETURN_IF_ERROR(CheckTypes(graph, group.nodes));
    const uint64_t slots = SlotsOf(graph, group);
    if (slots != 0 && slots == (uint64_t{1} << std::min<size_t>(graph.node(group.nodes[0]).operands.size(), 63)) - 1) {
      return 0.0;  // every part is written in place
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::string signature = layouts_.SignatureOf(graph, group);
    return costs_.Of(signature, [&]() -> absl::StatusOr<ProfileEntry> {
      if (gpu_ != nullptr) {
        const std::lock_guard<std::mutex> turn(*memory_->turns());
        return Guarded([&] { return MeasureGroup(*gpu_, graph, group, layouts_, {options_}); });
      }
      return absl::NotFoundError(
          absl::StrCat("the profile holds no time of ", GroupLabel(graph, group), " on ", name_, " (", signature, ")"));
    });
  }

  uint64_t CostContext(const Graph& graph, const Group& group) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return layouts_.HashOf(graph, group) + SlotsOf(graph, group) * 0x9e3779b97f4a7c15;
  }

  bool runs() const override { return gpu_ != nullptr; }
  DeviceMemory* memory() override { return memory_.get(); }

  absl::StatusOr<Schedule> Compile(const Graph& graph) override {
    if (gpu_ == nullptr) {
      return absl::UnimplementedError(absl::StrCat(name_, " is known by its profile alone and runs nothing"));
    }
    RETURN_IF_ERROR(CheckTypes(graph, graph.nodes()));
    const std::lock_guard<std::mutex> turn(*memory_->turns());
    return Guarded([&] { return Lowering(*gpu_, graph, {options_}).Run(); });
  }

 private:
  // Kernels are written for plain types alone; --precision chooses 16 bits for graphs of f32.
  static absl::Status CheckTypes(const Graph& graph, const std::vector<NodeId>& nodes) {
    for (NodeId id : nodes) {
      for (const TensorType& type : graph.node(id).outputs) {
        if (std::count(std::begin(kPlainDTypes), std::end(kPlainDTypes), type.dtype) > 0) continue;
        return absl::UnimplementedError(absl::StrCat("node ", id, " has elements of type ", DTypeName(type.dtype),
                                                     ", which this device does not compute with"));
      }
    }
    return absl::OkStatus();
  }

  // A bit for each operand of a concatenation, set if the operand is written in place.
  uint64_t SlotsOf(const Graph& graph, const Group& group) const {
    if (group.nodes.size() != 1) return 0;
    const FusionOptions fusion = FusionOptionsOf(options_);
    const auto slots = ConcatSlots(graph, group.nodes[0], fusion.channels_last, fusion.element_bytes);
    uint64_t bits = 0;
    for (size_t i = 0; i < std::min<size_t>(slots.size(), 63); ++i) bits |= uint64_t{slots[i].has_value()} << i;
    return bits;
  }

  const std::string name_;
  const std::unique_ptr<Gpu> gpu_;
  const CudaOptions options_;
  std::unique_ptr<GpuMemory> memory_;
  std::mutex mutex_;  // of what follows
  MeasuredCosts costs_;
  CudaLayouts layouts_;
};

std::string Suffix(const CudaOptions& options) {
  return absl::StrCat(", kernels ", kKernelVersion, ", ", PrecisionName(options.precision),
                      options.channels_last ? ", channels last" : "", ")");
}

}  // namespace

absl::Status CheckPrecision(const GpuDescription& gpu, Precision precision) {
  constexpr int kAmpere = 80;
  if ((precision != Precision::kTf32 && precision != Precision::kBf16) || gpu.architecture >= kAmpere) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("precision ", PrecisionName(precision),
                                                 " needs compute capability 8.0; ", gpu.name, " has ",
                                                 gpu.architecture / 10, ".", gpu.architecture % 10));
}

std::unique_ptr<Device> MakeCudaDevice(std::unique_ptr<Gpu> gpu, std::shared_ptr<ProfileDb> profile,
                                       const CudaOptions& options) {
  const GpuDescription& description = gpu->description();
  std::string name = absl::StrCat("cuda (", description.name, ", ", description.versions, Suffix(options));
  return std::make_unique<CudaDevice>(std::move(name), std::move(gpu), std::move(profile), options);
}

absl::StatusOr<std::unique_ptr<Device>> MakeProfiledCudaDevice(std::shared_ptr<ProfileDb> profile,
                                                               const CudaOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<std::string> devices, profile->Devices());
  std::vector<std::string> known;
  const std::string suffix = Suffix(options);
  for (const std::string& name : devices) {
    if (name.starts_with("cuda (") && name.ends_with(suffix)) known.push_back(name);
  }
  if (known.size() != 1) {
    return absl::NotFoundError(absl::StrCat("no GPU, and the profile holds times of ", known.size(),
                                            " GPUs with these kernels and ", PrecisionName(options.precision),
                                            "; expected 1"));
  }
  return std::unique_ptr<Device>(std::make_unique<CudaDevice>(known[0], nullptr, std::move(profile), options));
}

absl::StatusOr<std::unique_ptr<Gpu>> OpenGpu(int ordinal) {
  const std::string name = "librewright_cuda.so";
  // Beside the program, where it is built and installed, as the library may be too; else wherever the loader looks.
  const std::string code = CodeFolder();
  const absl::StatusOr<std::string> found = FindInFolders(name, {code, absl::StrCat(code, "/../bin")});
  const bool there = found.ok();
  void* library = dlopen(there ? found->c_str() : name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const std::string reason = dlerror();
    if (!there && reason.find(name) != std::string::npos) {
      return absl::NotFoundError(absl::StrCat("device cuda: there is no plugin: neither ", code, "/", name,
                                              " nor where the loader looks; it is built where CMake finds the CUDA "
                                              "toolkit and cuDNN 9"));
    }
    // It names the first library that is missing.
    return absl::NotFoundError(absl::StrCat("device cuda: the plugin cannot be opened: ", reason,
                                            " (cuDNN 9, cuBLASLt and NVRTC must be where the loader looks: "
                                            "LD_LIBRARY_PATH)"));
  }
  const Fault other = CheckBorder(static_cast<const int*>(dlsym(library, kGpuBorderName)));
  if (!other.empty()) return absl::FailedPreconditionError(absl::StrCat("device cuda: ", name, ": ", other));
  const auto open = reinterpret_cast<OpenGpuFunction>(dlsym(library, kOpenGpu));
  if (open == nullptr) {
    return absl::NotFoundError(absl::StrCat("device cuda: ", name, " has no function ", kOpenGpu));
  }
  Fault fault;
  std::unique_ptr<Gpu> gpu(open(ordinal, &fault));
  if (gpu == nullptr) return absl::NotFoundError(absl::StrCat("device cuda:", ordinal, ": ", fault));
  return gpu;
}

}  // namespace rewright::cuda
