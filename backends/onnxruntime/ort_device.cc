#include "backends/onnxruntime/ort_device.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/group.h"
#include "backends/measured_costs.h"
#include "backends/onnxruntime/measure.h"
#include "backends/onnxruntime/partition.h"
#include "backends/processor.h"
#include "backends/schedule_builder.h"
#include "core/base/status_macros.h"
#include "core/ops/foreign.h"
#include "core/ops/ops.h"

namespace rewright::ort {
namespace {

// Raised when groups or the way to measure them change, so that times measured before are not used.
constexpr int kMethodVersion = 1;

class SessionSchedule : private ScheduleBuilder {
 public:
  Schedule Make(const Graph& graph, std::shared_ptr<const Session> session, std::vector<Group> groups) {
    std::vector<BufferUse> uses;
    for (const Port& input : InputPorts(graph)) {
      schedule_.inputs.push_back(AddBuffer(Buffer::Kind::kInput, static_cast<size_t>(input.type.num_bytes())));
      uses.push_back(Read(schedule_.inputs.back()));
    }
    for (const Port& output : OutputPorts(graph)) {
      schedule_.outputs.push_back(AddBuffer(Buffer::Kind::kOutput, static_cast<size_t>(output.type.num_bytes())));
      uses.push_back(Write(schedule_.outputs.back()));
    }
    Emit(MakeSessionKernel(std::move(session)), std::move(uses), "onnxruntime");
    schedule_.groups = std::move(groups);
    return std::move(schedule_);
  }
};

// A reshape of one element: what a node costs that does nothing.
absl::StatusOr<Graph> NodeThatDoesNothing() {
  auto arena = std::make_shared<Arena>(Mode::kInference);
  ASSIGN_OR_RETURN(const Value x, arena->AddInput("x", TensorType{DType::kFloat32, {1}}));
  ASSIGN_OR_RETURN(const NodeId node, arena->Add(*ops::Reshape(), {x}, {{"shape", std::vector<int64_t>{1, 1}}}));
  return Graph(arena, {x}, {{Value{node, 0}, "y"}});
}

bool OnlyReshapes(const Graph& graph, const Group& group) {
  return std::all_of(group.nodes.begin(), group.nodes.end(),
                     [&](NodeId id) { return graph.node(id).op == ops::Reshape(); });
}

}  // namespace

struct OrtDevice::Parts {
  std::shared_ptr<const Library> library;
  int threads;
  std::string name;
  struct File {
    std::weak_ptr<Arena> arena;
    ModelMetadata metadata;
    std::weak_ptr<const OnnxSource> source;
  };
  std::vector<File> files;
  mutable std::mutex mutex;  // of what follows
  MeasuredCosts costs;
  std::optional<cpu::DisturbanceProbe> probe;
  std::vector<std::string> faults;

  Parts(std::shared_ptr<const Library> loaded, int num_threads, std::string device, std::shared_ptr<ProfileDb> profile)
      : library(std::move(loaded)), threads(num_threads), name(std::move(device)), costs(name, std::move(profile)) {}

  // Requires the mutex.
  absl::StatusOr<double> Measured(const Graph& graph, const Group& group) {
    return costs.Of(GroupSignature(graph, group, [](Value) { return ""; }), [&]() -> absl::StatusOr<ProfileEntry> {
      if (!probe) probe.emplace(threads);
      absl::StatusOr<ProfileEntry> measured = MeasureGroup(*library, threads, graph, group, *probe);
      if (measured.ok() || absl::IsResourceExhausted(measured.status())) return measured;
      faults.push_back(absl::StrCat(GroupText(graph, group), ": ", measured.status().message()));
      return ProfileEntry{kRefusedSeconds, kRefusedSeconds, 0, 1};
    });
  }
};

OrtDevice::OrtDevice(std::shared_ptr<const Library> library, int threads, std::shared_ptr<ProfileDb> profile)
    : parts_(std::make_unique<Parts>(library, threads,
                                     absl::StrCat("onnxruntime (cpu, ", ProcessorName(), ", ", library->version(),
                                                  ", method ", kMethodVersion, ", threads ", threads, ")"),
                                     std::move(profile))) {}

OrtDevice::~OrtDevice() = default;

void OrtDevice::UseSource(const ImportedModel& model) {
  std::erase_if(parts_->files, [](const Parts::File& file) { return file.source.expired(); });
  parts_->files.push_back({model.graph.arena(), model.metadata, model.source});
}

std::string OrtDevice::name() const { return parts_->name; }

std::vector<Group> OrtDevice::Partition(const Graph& graph) const { return GroupsOf(graph); }

absl::StatusOr<double> OrtDevice::Cost(const Graph& graph, const Group& group) {
  if (IsForeign(graph.node(group.nodes[0]))) return 0;  // by itself, see GroupsOf
  const std::lock_guard<std::mutex> lock(parts_->mutex);
  if (!OnlyReshapes(graph, group)) return parts_->Measured(graph, group);
  // In a graph it moves nothing; alone, it would copy an input to an output.
  ASSIGN_OR_RETURN(const Graph nothing, NodeThatDoesNothing());
  ASSIGN_OR_RETURN(const double seconds, parts_->Measured(nothing, GroupsOf(nothing)[0]));
  return seconds * static_cast<double>(group.nodes.size());
}

std::vector<std::string> OrtDevice::faults() const {
  const std::lock_guard<std::mutex> lock(parts_->mutex);
  return parts_->faults;
}

absl::StatusOr<Schedule> OrtDevice::CompileFile(const Graph& graph, const std::string& path) const {
  ASSIGN_OR_RETURN(std::shared_ptr<const Session> session,
                   parts_->library->LoadFile(path, InputPorts(graph), OutputPorts(graph), parts_->threads));
  return SessionSchedule().Make(graph, std::move(session), Partition(graph));
}

absl::StatusOr<Schedule> OrtDevice::CompileBytes(const Graph& graph, const std::string& bytes) const {
  ASSIGN_OR_RETURN(std::shared_ptr<const Session> session,
                   parts_->library->Load(bytes, InputPorts(graph), OutputPorts(graph), parts_->threads));
  return SessionSchedule().Make(graph, std::move(session), Partition(graph));
}

absl::StatusOr<Schedule> OrtDevice::Compile(const Graph& graph) {
  if (graph.mode() != Mode::kInference) {
    return absl::UnimplementedError(absl::StrCat(name(), ": found a graph for training, expected one for inference"));
  }
  ExportOptions options;
  options.max_inline_bytes = std::numeric_limits<int32_t>::max();
  ModelMetadata metadata;
  for (const Parts::File& file : parts_->files) {
    if (file.arena.lock() != graph.arena()) continue;
    options.source = file.source.lock();
    metadata = file.metadata;
  }
  ASSIGN_OR_RETURN(const std::string bytes, ExportOnnxBytes(graph, metadata, options));
  return CompileBytes(graph, bytes);
}

absl::StatusOr<std::unique_ptr<Device>> MakeOrtDevice(const DeviceOptions& options) {
  ASSIGN_OR_RETURN(std::shared_ptr<const Library> library, Library::Open());
  const int threads = options.threads > 0 ? options.threads : AvailableProcessors();
  return std::unique_ptr<Device>(std::make_unique<OrtDevice>(std::move(library), threads, options.profile));
}

}  // namespace rewright::ort
