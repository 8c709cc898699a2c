#include "backends/cuda/cuda_device.h"

#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "backends/cuda/context_layout.h"
#include "backends/cuda/fusion.h"
#include "backends/cuda/lowering.h"
#include "backends/cuda/measure.h"
#include "backends/group.h"

namespace rewright::cuda {
namespace {

// Raised when kernels or fusion change, so that times measured before are not used.
constexpr int kKernelVersion = 1;

const char* PrecisionName(Precision precision) {
  switch (precision) {
    case Precision::kFp32: return "fp32";
    case Precision::kTf32: return "tf32";
    case Precision::kFp16: return "fp16";
    case Precision::kBf16: return "bf16";
  }
  return "?";
}

class GpuMemory : public DeviceMemory {
 public:
  explicit GpuMemory(Gpu& gpu) : gpu_(gpu) {}

  absl::StatusOr<std::shared_ptr<void>> Allocate(size_t bytes) override {
    void* memory = nullptr;
    if (Fault fault = gpu_.Allocate(std::max<size_t>(bytes, 1), &memory); !fault.empty()) {
      return absl::ResourceExhaustedError(absl::StrCat("cuda: ", fault));
    }
    return std::shared_ptr<void>(memory, [gpu = &gpu_](void* p) { gpu->Free(p); });
  }
  absl::Status CopyIn(void* to, const void* from, size_t bytes) override { return Of(gpu_.CopyIn(to, from, bytes)); }
  absl::Status CopyOut(void* to, const void* from, size_t bytes) override { return Of(gpu_.CopyOut(to, from, bytes)); }
  absl::Status Synchronize() override { return Of(gpu_.Synchronize()); }
  absl::StatusOr<std::function<void()>> Record(const std::function<void()>& work) override {
    std::unique_ptr<Recording> recording;
    if (Fault fault = gpu_.Record(work, &recording); !fault.empty()) return Of(fault);
    return std::function<void()>([shared = std::shared_ptr<Recording>(std::move(recording))] { shared->Run(); });
  }

 private:
  static absl::Status Of(const Fault& fault) {
    return fault.empty() ? absl::OkStatus() : absl::InternalError(absl::StrCat("cuda: ", fault));
  }
  Gpu& gpu_;
};

class CudaDevice : public Device {
 public:
  // `gpu` null: costs come from the profile alone.
  CudaDevice(std::string name, std::unique_ptr<Gpu> gpu, std::unique_ptr<ProfileDb> profile, const CudaOptions& options)
      : name_(std::move(name)), gpu_(std::move(gpu)), profile_(std::move(profile)), options_(options), layouts_(options.channels_last) {
    if (gpu_ != nullptr) memory_ = std::make_unique<GpuMemory>(*gpu_);
  }

  std::string name() const override { return name_; }
  bool Supports(const Graph&, NodeId, std::string*) const override { return true; }

  std::vector<Group> Partition(const Graph& graph) const override {
    std::vector<Group> groups;
    for (FusedGroup& group : FuseGraph(graph)) groups.push_back(std::move(group.group));
    return groups;
  }

  absl::StatusOr<double> Cost(const Graph& graph, const Group& group) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::string signature =
        GroupSignature(graph, group, [&](Value value) { return layouts_.Of(graph, value).ToString(); });
    if (const auto found = costs_.find(signature); found != costs_.end()) return found->second;
    absl::StatusOr<std::optional<ProfileEntry>> stored = profile_->Find(name_, signature);
    if (!stored.ok()) return stored.status();
    if (!stored->has_value()) {
      if (gpu_ == nullptr) {
        return absl::NotFoundError(absl::StrCat("the profile holds no time of ", GroupLabel(graph, group), " on ", name_,
                                                " (", signature, ")"));
      }
      absl::StatusOr<ProfileEntry> measured = MeasureGroup(*gpu_, graph, group, layouts_, LoweringOptionsOf());
      if (!measured.ok()) return measured.status();
      if (absl::Status status = profile_->Put(name_, signature, *measured); !status.ok()) return status;
      *stored = *measured;
    }
    costs_[signature] = (*stored)->fastest;
    return (*stored)->fastest;
  }

  uint64_t CostContext(const Graph& graph, const Group& group) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    uint64_t context = 0;
    for (Value input : group.inputs) {
      const Layout layout = layouts_.Of(graph, input);
      context = context * 0x9e3779b97f4a7c15;
      if (!layout.IsRowMajor()) context += absl::HashOf(layout.strides);
    }
    return context;
  }

  bool runs() const override { return gpu_ != nullptr; }
  DeviceMemory* memory() override { return memory_.get(); }

  absl::StatusOr<Schedule> Compile(const Graph& graph) override {
    if (gpu_ == nullptr) {
      return absl::UnimplementedError(absl::StrCat(name_, " is known by its profile alone and runs nothing"));
    }
    return Lowering(*gpu_, graph, LoweringOptionsOf()).Run();
  }

 private:
  LoweringOptions LoweringOptionsOf() const {
    LoweringOptions options;
    options.precision = options_.precision;
    options.channels_last = options_.channels_last;
    options.min_vectorized = options_.min_vectorized;
    return options;
  }

  const std::string name_;
  const std::unique_ptr<Gpu> gpu_;
  std::unique_ptr<GpuMemory> memory_;
  std::mutex mutex_;  // of what follows
  std::unique_ptr<ProfileDb> profile_;
  const CudaOptions options_;
  ContextLayouts layouts_;
  absl::flat_hash_map<std::string, double> costs_;
};

std::string Suffix(const CudaOptions& options) {
  return absl::StrCat(", kernels ", kKernelVersion, ", ", PrecisionName(options.precision),
                      options.channels_last ? ", channels last" : "", ")");
}

}  // namespace

std::unique_ptr<Device> MakeCudaDevice(std::unique_ptr<Gpu> gpu, std::unique_ptr<ProfileDb> profile,
                                       const CudaOptions& options) {
  const GpuDescription& description = gpu->description();
  std::string name = absl::StrCat("cuda (", description.name, ", ", description.versions, Suffix(options));
  return std::make_unique<CudaDevice>(std::move(name), std::move(gpu), std::move(profile), options);
}

absl::StatusOr<std::unique_ptr<Device>> MakeProfiledCudaDevice(std::unique_ptr<ProfileDb> profile,
                                                               const CudaOptions& options) {
  absl::StatusOr<std::vector<std::string>> devices = profile->Devices();
  if (!devices.ok()) return devices.status();
  std::vector<std::string> known;
  const std::string suffix = Suffix(options);
  for (const std::string& name : *devices) {
    const bool fits = name.compare(0, 6, "cuda (") == 0 && name.size() > suffix.size() &&
                      name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0;
    if (fits) known.push_back(name);
  }
  if (known.size() != 1) {
    return absl::NotFoundError(absl::StrCat("no GPU, and the profile holds times of ", known.size(),
                                            " GPUs with these kernels and ", PrecisionName(options.precision),
                                            "; expected 1"));
  }
  return std::unique_ptr<Device>(std::make_unique<CudaDevice>(known[0], nullptr, std::move(profile), options));
}

}  // namespace rewright::cuda
