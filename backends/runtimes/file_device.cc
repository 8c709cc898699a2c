#include "backends/runtimes/file_device.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "backends/common/fuser.h"
#include "backends/common/group.h"
#include "backends/common/schedule_builder.h"
#include "backends/onnxruntime/library.h"
#include "backends/openvino/library.h"
#include "core/base/status_macros.h"
#include "core/ir/pointwise.h"
#include "core/ops/foreign.h"
#include "core/ops/ops.h"
#include "core/tensor/memory.h"

namespace rewright {
namespace {

// Raised when groups or the way to measure them change, so that times measured before are not used.
constexpr int kMethodVersion = 1;

constexpr int64_t kMaxCopies = 32;
constexpr int64_t kActivationBytes = int64_t{16} << 20;  // of all copies: results of the node before lie in caches

// Bytes of all copies of the weights together: copies that take turns are then in no cache of half the size.
int64_t WeightBytes() {
  constexpr int64_t kUsualCache = int64_t{32} << 20;
  const int64_t cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return 2 * (cache > 0 ? cache : kUsualCache);
}

int64_t CopiesOf(const Graph& graph, const Group& group) {
  int64_t weights = 1, activations = 1;
  for (Value input : group.inputs) {
    (graph.IsKnown(input) ? weights : activations) += graph.type(input).num_bytes();
  }
  for (Value output : group.outputs) activations += graph.type(output).num_bytes();
  const int64_t copies = std::min(WeightBytes() / weights + 1, kActivationBytes / activations);
  return std::clamp<int64_t>(copies, 1, kMaxCopies);
}

struct Operands {
  std::vector<Tensor> tensors;
  std::vector<void*> addresses;

  absl::Status Add(const TensorType& type, const std::string& what) {
    ASSIGN_OR_RETURN(Tensor tensor, AllocateTensor(type, what));
    tensors.push_back(std::move(tensor));
    addresses.push_back(tensors.back().data());
    return absl::OkStatus();
  }
};

// The inputs, or the results, of a graph as a model that is written of it has them.
std::vector<Port> InputPorts(const Graph& graph) {
  std::vector<Port> ports;
  for (Value input : graph.inputs()) ports.push_back({graph.node(input.node).name, graph.type(input)});
  return ports;
}

std::vector<Port> OutputPorts(const Graph& graph) {
  std::vector<Port> ports;
  for (const Output& output : graph.results()) ports.push_back({output.name, graph.type(output.value)});
  return ports;
}

// The time of a group by itself, taken in a model of several copies of it, each on operands of its own. Their number is
// such that their weights exceed the caches, as those of a whole model do, and that the overhead of a run counts
// little. Errors: FailedPrecondition where the runtime refuses the group, with its words; too little memory; no form in
// ONNX.
absl::StatusOr<ProfileEntry> MeasureGroup(const ModelRuntime& runtime, int threads, const Graph& graph,
                                          const Group& group, NoiseProbe& probe) {
  const std::string what = absl::StrCat("measuring ", GroupText(graph, group));
  const int64_t copies = CopiesOf(graph, group);
  ASSIGN_OR_RETURN(const GroupGraph extracted, ExtractGroup(graph, group, static_cast<int>(copies)));
  ExportOptions options;
  options.max_inline_bytes = std::numeric_limits<int32_t>::max();
  ASSIGN_OR_RETURN(const std::string model, ExportOnnxBytes(extracted.graph, {}, options));
  ASSIGN_OR_RETURN(const std::shared_ptr<const ModelSession> session,
                   runtime.Load(model, InputPorts(extracted.graph), OutputPorts(extracted.graph), threads));
  Operands inputs, outputs;
  for (Value input : extracted.graph.inputs()) {
    const TensorType& type = extracted.graph.type(input);
    RETURN_IF_ERROR(inputs.Add(type, what));
    FillTypical(inputs.addresses.back(), type.dtype, type.num_elements(), TypicalIntegers(extracted.graph, input));
  }
  for (const Output& output : extracted.graph.outputs()) {
    RETURN_IF_ERROR(outputs.Add(extracted.graph.type(output.value), what));
  }
  RETURN_IF_ERROR(session->Run(inputs.addresses.data(), outputs.addresses.data()));  // plans its memory
  return TakeSamples(
      [&]() -> absl::StatusOr<double> {
        const auto start = std::chrono::steady_clock::now();
        RETURN_IF_ERROR(session->Run(inputs.addresses.data(), outputs.addresses.data()));
        const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
        return elapsed.count() / static_cast<double>(copies);
      },
      static_cast<int>(copies), {}, probe);
}

class SessionSchedule : private ScheduleBuilder {
 public:
  Schedule Make(const Graph& graph, const std::string& label, std::shared_ptr<const ModelSession> session,
                std::vector<Group> groups) {
    std::vector<BufferUse> uses;
    for (const Port& input : InputPorts(graph)) {
      schedule_.inputs.push_back(AddBuffer(Buffer::Kind::kInput, static_cast<size_t>(input.type.num_bytes())));
      uses.push_back(Read(schedule_.inputs.back()));
    }
    for (const Port& output : OutputPorts(graph)) {
      schedule_.outputs.push_back(AddBuffer(Buffer::Kind::kOutput, static_cast<size_t>(output.type.num_bytes())));
      uses.push_back(Write(schedule_.outputs.back()));
    }
    Emit(MakeSessionKernel(std::move(session)), std::move(uses), label);
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

constexpr size_t kMaxGathered = 16;  // nodes of a gathered group

struct PlainGroup {
  Group group;
};

// Forms the groups of nodes that are measured together.
//
// A runtime makes kernels of several operators by patterns of its own; what it made is part of what is measured, so
// that a group need not be one kernel. It is large enough for the usual patterns:
//   1. A product or convolution with the elementwise operators behind it, each the only reader of the one before, and
//      the transpositions that it alone reads.
//   2. Elementwise operators, reductions, softmax and what broadcasts or reshapes, gathered backwards from a sink:
//      normalizations and activations that are written in parts.
//   3. Everything else is alone.
class FileFuser : private Fuser<PlainGroup> {
 public:
  explicit FileFuser(const Graph& graph) : Fuser(graph) {}

  std::vector<Group> Run() {
    for (int i = 0; i < num_nodes(); ++i) {
      if (IsFree(i) && IsAnchor(i)) FuseAnchor(i);
    }
    for (int i = num_nodes() - 1; i >= 0; --i) {
      if (!IsFree(i)) continue;
      AddGroup({}, WithProducers({i}, [&](int producer, const std::set<int>& so_far) {
                 return CanBeGathered(i) && so_far.size() < kMaxGathered && CanBeGathered(producer);
               }));
    }
    std::vector<Group> groups;
    for (PlainGroup& group : TakeGroups()) groups.push_back(std::move(group.group));
    return groups;
  }

 private:
  bool IsAnchor(int i) const {
    const OpDef* op = NodeAt(i).op;
    return op == ops::Conv2d() || op == ops::Convolution() || op == ops::Matmul() || op == ops::DotGeneral();
  }

  bool CanBeGathered(int i) const {
    const Node& node = NodeAt(i);
    static const auto* const others = new std::set<const OpDef*>{
        ops::ReduceSum(), ops::ReduceMean(), ops::ReduceMax(), ops::ReduceMin(),     ops::Softmax(),
        ops::LayerNorm(), ops::Reshape(),    ops::Expand(),    ops::BroadcastInDim()};
    return IsPointwise(*node.meaning) || others->count(node.op) > 0;
  }

  void FuseAnchor(int anchor) {
    std::vector<int> members = Chain(anchor, [&](int last, int next) {
      const Node& node = NodeAt(next);
      return IsPointwise(*node.meaning) && node.outputs.size() == 1 && node.outputs[0] == NodeAt(last).outputs[0];
    });
    for (int producer : graph_.producers(anchor)) {
      const bool joins = IsFree(producer) && NodeAt(producer).op == ops::Transpose() && !Escapes(producer) &&
                         graph_.users(producer).size() == 1;
      if (joins) members.push_back(producer);
    }
    AddGroup({}, std::move(members));
  }
};

// All groups, operands before users. Each has one node whose outputs escape, the last.
std::vector<Group> GroupsOf(const Graph& graph) { return FileFuser(graph).Run(); }

}  // namespace

FileDevice::FileDevice(std::shared_ptr<const ModelRuntime> runtime, int threads, std::shared_ptr<ProfileDb> profile)
    : runtime_(std::move(runtime)),
      threads_(threads),
      name_(absl::StrCat(runtime_->name(), " (cpu, ", ProcessorName(), ", ", runtime_->version(), ", method ",
                         kMethodVersion, ", threads ", threads, ")")),
      costs_(name_, std::move(profile)) {}

void FileDevice::UseSource(const ImportedModel& model) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(files_, [](const File& file) { return file.source.expired(); });
  files_.push_back({model.graph.arena(), model.metadata, model.source});
}

std::vector<Group> FileDevice::Partition(const Graph& graph) const { return GroupsOf(graph); }

absl::StatusOr<double> FileDevice::Measured(const Graph& graph, const Group& group) {
  return costs_.Of(GroupSignature(graph, group, [](Value) { return ""; }), [&]() -> absl::StatusOr<ProfileEntry> {
    if (!probe_) probe_.emplace(threads_);
    absl::StatusOr<ProfileEntry> measured = MeasureGroup(*runtime_, threads_, graph, group, *probe_);
    if (measured.ok() || absl::IsResourceExhausted(measured.status())) return measured;
    faults_.push_back(absl::StrCat(GroupText(graph, group), ": ", measured.status().message()));
    return ProfileEntry{kRefusedSeconds, kRefusedSeconds, 0, 1};
  });
}

absl::StatusOr<double> FileDevice::Cost(const Graph& graph, const Group& group) {
  if (IsForeign(graph.node(group.nodes[0]))) return 0;  // by itself, see GroupsOf
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!OnlyReshapes(graph, group)) return Measured(graph, group);
  // In a graph it moves nothing; alone, it would copy an input to an output.
  ASSIGN_OR_RETURN(const Graph nothing, NodeThatDoesNothing());
  ASSIGN_OR_RETURN(const double seconds, Measured(nothing, GroupsOf(nothing)[0]));
  return seconds * static_cast<double>(group.nodes.size());
}

std::vector<std::string> FileDevice::faults() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return faults_;
}

Schedule FileDevice::ScheduleOf(const Graph& graph, std::shared_ptr<const ModelSession> session) const {
  if (!session->left_out().empty()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (std::find(faults_.begin(), faults_.end(), session->left_out()) == faults_.end()) {
      faults_.push_back(session->left_out());
    }
  }
  return SessionSchedule().Make(graph, runtime_->name(), std::move(session), Partition(graph));
}

absl::StatusOr<Schedule> FileDevice::CompileFile(const Graph& graph, const std::string& path) const {
  ASSIGN_OR_RETURN(std::shared_ptr<const ModelSession> session,
                   runtime_->LoadFile(path, InputPorts(graph), OutputPorts(graph), threads_));
  return ScheduleOf(graph, std::move(session));
}

absl::StatusOr<Schedule> FileDevice::CompileBytes(const Graph& graph, const std::string& bytes) const {
  ASSIGN_OR_RETURN(std::shared_ptr<const ModelSession> session,
                   runtime_->Load(bytes, InputPorts(graph), OutputPorts(graph), threads_));
  return ScheduleOf(graph, std::move(session));
}

absl::StatusOr<Schedule> FileDevice::Compile(const Graph& graph) {
  if (graph.mode() != Mode::kInference) {
    return absl::UnimplementedError(absl::StrCat(name(), ": found a graph for training, expected one for inference"));
  }
  ExportOptions options;
  options.max_inline_bytes = std::numeric_limits<int32_t>::max();
  ModelMetadata metadata;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const File& file : files_) {
      if (file.arena.lock() != graph.arena()) continue;
      options.source = file.source.lock();
      metadata = file.metadata;
    }
  }
  ASSIGN_OR_RETURN(const std::string bytes, ExportOnnxBytes(graph, metadata, options));
  return CompileBytes(graph, bytes);
}

const std::vector<std::string>& FileRuntimes() {
  static const auto* const names = new std::vector<std::string>{"onnxruntime", "openvino"};
  return *names;
}

bool IsFileRuntime(const std::string& device) {
  return absl::c_linear_search(FileRuntimes(), absl::StripSuffix(device, ":cpu"));
}

absl::StatusOr<std::unique_ptr<Device>> MakeFileDevice(const std::string& device, const DeviceOptions& options) {
  std::shared_ptr<const ModelRuntime> runtime;
  if (absl::StartsWith(device, "openvino")) {
    ASSIGN_OR_RETURN(runtime, openvino::Library::Open());
  } else {
    ASSIGN_OR_RETURN(runtime, ort::Library::Open());
  }
  return std::unique_ptr<Device>(
      std::make_unique<FileDevice>(std::move(runtime), options.NumThreads(), options.profile));
}

}  // namespace rewright
