// Pooling and layer normalization: a library computes them too, and whichever is faster does, its call or the generated
// kernel.
#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "backends/common/node_access.h"
#include "backends/cuda/codegen/kernel_prelude.h"
#include "backends/cuda/codegen/kernel_text.h"
#include "backends/cuda/lower/lowering.h"
#include "backends/cuda/measure.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"

namespace rewright::cuda {
namespace {

// The pooling of `node` between images in these layouts, where the library has one that means the same.
std::optional<PoolProblem> PoolOf(const Node& node, const Layout& x, const Layout& out) {
  PoolProblem problem;
  if (node.op == ops::MaxPool2d()) {
    if (Ints(node, "dilations") != std::vector<int64_t>{1, 1}) return std::nullopt;
  } else {
    problem.mode = Int(node, "count_include_pad") != 0 ? PoolMode::kMeanWithPadding : PoolMode::kMean;
  }
  // Strides over axes of one element are those of images, too: by them the library tells layouts apart.
  const bool row_major = x.IsRowMajor() && out.IsRowMajor();
  if (!row_major && (x != Layout::ChannelsLast(x.dims) || out != Layout::ChannelsLast(out.dims))) return std::nullopt;
  const Layout from = row_major ? Layout::RowMajor(x.dims) : Layout::ChannelsLast(x.dims);
  const Layout to = row_major ? Layout::RowMajor(out.dims) : Layout::ChannelsLast(out.dims);
  for (size_t k = 0; k < 4; ++k) {
    problem.x[k] = x.dims[k];
    problem.x_strides[k] = from.strides[k];
    problem.out[k] = out.dims[k];
    problem.out_strides[k] = to.strides[k];
  }
  for (size_t k = 0; k < 2; ++k) {
    const int64_t kernel = problem.kernel[k] = Ints(node, "kernel")[k];
    const int64_t stride = problem.strides[k] = Ints(node, "strides")[k];
    const int64_t before = problem.pads[k] = Ints(node, "pads")[k];
    // As much as the windows reach beyond the image, which is more than declared where the last one may.
    const int64_t after = std::max<int64_t>((out.dims[k + 2] - 1) * stride + kernel - before - x.dims[k + 2], 0);
    // Points beyond the declared padding count in no mean.
    if (problem.mode == PoolMode::kMeanWithPadding && after > Ints(node, "pads")[k + 2]) return std::nullopt;
    problem.pads[k + 2] = after;
  }
  return problem;
}

}  // namespace

absl::StatusOr<Lowering::Alternative> Lowering::AlternativeOf(const FusedGroup& group, const Place& out) {
  Alternative alternative;
  if (group.group.nodes.size() != 1) return alternative;
  const Node& node = graph_.node(group.group.nodes[0]);
  const bool pool = node.op == ops::MaxPool2d() || node.op == ops::AvgPool2d();
  const TensorType& type = node.outputs[0];
  if ((!pool && node.op != ops::LayerNorm()) || type.dtype != DType::kFloat32 || type.num_elements() == 0) {
    return alternative;
  }
  const Storage storage = StorageOf(DType::kFloat32);
  if (out.storage != storage) return alternative;
  Layout x_layout;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    ASSIGN_OR_RETURN(const Place place, Find(node.operands[i]));
    // Scale and bias are f32.
    if (!place.aligned || place.storage != (i == 0 ? storage : Storage::kNative)) return alternative;
    if (!pool && !place.layout.IsRowMajor()) return alternative;
    if (i == 0) x_layout = place.layout;
    alternative.buffers.push_back(place.buffer);
  }
  alternative.buffers.push_back(out.buffer);
  Fault fault;
  if (pool) {
    std::optional<PoolProblem> problem = PoolOf(node, x_layout, out.layout);
    if (!problem.has_value()) return alternative;
    problem->precision = options_.precision;
    fault = gpu_.Plan(*problem, &alternative.call);
  } else if (out.layout.IsRowMajor()) {
    LayerNormProblem problem;
    problem.columns = graph_.type(node.operands[1]).num_elements();
    problem.rows = type.num_elements() / problem.columns;
    problem.epsilon = Real(node, "epsilon");
    problem.precision = options_.precision;
    fault = gpu_.Plan(problem, &alternative.call);
  }
  RETURN_IF_ERROR(FinalStatusOf(fault));
  return alternative;
}

absl::StatusOr<bool> Lowering::IsFaster(const Alternative& alternative, const GeneratedWork& generated) {
  const GeneratedKernel& kernel = generated.kernel;
  // Both ways run on the same memory.
  std::vector<int> buffers = generated.buffers;
  buffers.insert(buffers.end(), alternative.buffers.begin(), alternative.buffers.end());
  std::vector<std::shared_ptr<const Function>> functions;
  std::shared_ptr<void> workspace;
  const auto prepare = [&]() -> absl::Status {
    RETURN_IF_ERROR(StatusOf(gpu_.Compile(KernelPrelude(), {{kernel.name, kernel.source}}, &functions)));
    ASSIGN_OR_RETURN(workspace, memory_.Allocate(alternative.call->workspace_bytes()));
    return absl::OkStatus();
  };
  const auto addresses = [](const Instance& trial, const std::vector<int>& ids) {
    std::vector<void*> found;
    for (int id : ids) found.push_back(trial.address(id));
    return found;
  };
  const TrialWay kernel_way = [&](Instance& trial) {
    const std::vector<void*> arguments = addresses(trial, generated.buffers);
    return StatusOf(
        functions[0]->Launch(kernel.blocks, kernel.threads, arguments.data(), static_cast<int>(arguments.size())));
  };
  const TrialWay library_way = [&](Instance& trial) {
    std::vector<void*> operands = addresses(trial, alternative.buffers);
    operands.push_back(workspace.get());
    return StatusOf(alternative.call->Run(operands.data()));
  };
  // Source and number of threads say all about the problem, its sizes, strides and types.
  const std::string key = absl::StrCat("kernel or library at precision ", static_cast<int>(options_.precision), ", ",
                                       kernel.blocks, " x ", kernel.threads, " threads: ", kernel.source);
  ASSIGN_OR_RETURN(const int best,
                   FastestOnTrial(schedule_, buffers, memory_, key, prepare, {kernel_way, library_way}));
  return best == 1;
}

absl::Status Lowering::EmitFaster(const FusedGroup& group, Value result, const Place& out, const std::string& label) {
  ASSIGN_OR_RETURN(GeneratedWork generated, Generate(group.group.nodes, result, out));
  ASSIGN_OR_RETURN(Alternative alternative, AlternativeOf(group, out));
  if (alternative.call != nullptr) {
    ASSIGN_OR_RETURN(const bool faster, IsFaster(alternative, generated));
    if (faster) {
      return EmitCall(std::move(alternative.call), std::move(alternative.buffers), out.buffer, label + " (library)");
    }
  }
  EmitWork(std::move(generated), label);
  return absl::OkStatus();
}

absl::Status Lowering::LowerFastest(const std::vector<std::function<absl::Status()>>& ways) {
  const size_t buffers = schedule_.buffers.size(), pending = pending_.size();
  const std::ptrdiff_t steps = static_cast<std::ptrdiff_t>(schedule_.steps.size());
  const auto places = places_;
  const auto output_taken = output_taken_;
  std::string key = "the fastest of:";
  std::vector<int> used;
  std::vector<int> ends = {static_cast<int>(steps)};  // of the steps of each way
  for (const auto& way : ways) {
    RETURN_IF_ERROR(way());
    absl::StrAppend(&key, "\nway:");
    for (size_t s = static_cast<size_t>(ends.back()); s < schedule_.steps.size(); ++s) {
      absl::StrAppend(&key, " ", KeyOf(schedule_.steps[s]));
      for (const BufferUse& use : schedule_.steps[s].buffers) used.push_back(use.buffer);
    }
    ends.push_back(static_cast<int>(schedule_.steps.size()));
    places_ = places;
    output_taken_ = output_taken;
  }
  std::vector<TrialWay> runs;
  for (size_t i = 0; i < ways.size(); ++i) {
    runs.push_back([&, i](Instance& trial) -> absl::Status {
      for (int s = ends[i]; s < ends[i + 1]; ++s) RETURN_IF_ERROR(trial.RunStep(s));
      return absl::OkStatus();
    });
  }
  const auto prepare = [&] { return CompilePending(pending); };
  ASSIGN_OR_RETURN(const int best, FastestOnTrial(schedule_, used, memory_, key, prepare, runs));
  schedule_.steps.erase(schedule_.steps.begin() + steps, schedule_.steps.end());
  schedule_.buffers.resize(buffers);
  pending_.resize(pending);
  return ways[best]();
}

}  // namespace rewright::cuda
