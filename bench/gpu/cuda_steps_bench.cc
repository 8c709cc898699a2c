// Steps of one inference on a GPU, as the CUDA device lowers a graph; needs no GPU:
//   cuda_steps_bench [--precision bf16] [--labels] MODEL.onnx...
// For every model, as CSV: steps, those among them that depend on constants alone (which are to be none), calls of
// libraries, reorders, the megabytes that all steps read and write, each operand once, and those that no plan goes
// below: inputs, outputs and constants, each once. Libraries are taken to have every product, convolution and attention
// in one call (backends/cuda/memory/idle_gpu.h). --labels: also how many steps there are of each kind.
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "backends/cuda/lower/lowering.h"
#include "backends/cuda/memory/idle_gpu.h"
#include "core/onnx/onnx.h"
#include "runtime/schedule.h"

namespace rewright {
namespace {

int Report(const std::string& path, const std::string& name, cuda::Precision precision, bool list) {
  const auto model = ImportOnnx(path);
  if (!model.ok()) {
    std::fprintf(stderr, "%s\n", model.status().ToString().c_str());
    return 2;
  }
  cuda::IdleGpu gpu;
  cuda::LoweringOptions options;
  options.precision = precision;
  options.channels_last = precision != cuda::Precision::kFp32;
  const auto schedule = cuda::Lowering(gpu, model->graph, options).Run();
  if (!schedule.ok()) {
    std::fprintf(stderr, "%s: %s\n", path.c_str(), schedule.status().ToString().c_str());
    return 2;
  }
  int constant = 0, reorders = 0;
  double bytes = 0, floor = 0;
  for (const Buffer& buffer : schedule->buffers) {
    const bool moves = buffer.kind == Buffer::Kind::kInput || buffer.kind == Buffer::Kind::kOutput ||
                       buffer.kind == Buffer::Kind::kConstant;
    if (moves && buffer.alias_of < 0) floor += static_cast<double>(buffer.bytes);
  }
  std::map<std::string, int> labels;
  for (const Step& step : schedule->steps) {
    ++labels[step.label];
    bool changes = false;
    for (const BufferUse& use : step.buffers) {
      const int root = ResolveBuffer(schedule->buffers, use.buffer).root;
      changes = changes || (Reads(use.access) && schedule->buffers[root].kind != Buffer::Kind::kConstant);
      if (use.access != Access::kScratch) bytes += static_cast<double>(schedule->buffers[use.buffer].bytes);
    }
    constant += changes ? 0 : 1;
    reorders += step.label == "reorder" ? 1 : 0;
  }
  const int steps = static_cast<int>(schedule->steps.size());
  const int calls = static_cast<int>(gpu.problems().size());
  std::printf("%s,%s,%d,%d,%d,%d,%.1f,%.1f\n", path.substr(path.rfind('/') + 1).c_str(), name.c_str(), steps, constant,
              calls, reorders, bytes * 1e-6, floor * 1e-6);
  for (const auto& [label, count] : labels) {
    if (list) std::printf("#%6d %s\n", count, label.c_str());
  }
  std::fflush(stdout);
  return 0;
}

int Main(int argc, char** argv) {
  std::string name = "bf16";
  bool list = false;
  std::vector<std::string> paths;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--precision" && i + 1 < argc) {
      name = argv[++i];
    } else if (arg == "--labels") {
      list = true;
    } else {
      paths.push_back(arg);
    }
  }
  const std::pair<const char*, cuda::Precision> precisions[] = {{"f32", cuda::Precision::kFp32},
                                                                {"tf32", cuda::Precision::kTf32},
                                                                {"f16", cuda::Precision::kFp16},
                                                                {"bf16", cuda::Precision::kBf16}};
  for (const auto& [known, precision] : precisions) {
    if (name != known) continue;
    std::printf("model,precision,steps,on_constants_alone,planned_calls,reorders,megabytes,floor_megabytes\n");
    for (const std::string& path : paths) {
      if (const int status = Report(path, name, precision, list); status != 0) return status;
    }
    return 0;
  }
  std::fprintf(stderr, "--precision %s; expected f32, tf32, f16 or bf16\n", name.c_str());
  return 2;
}

}  // namespace
}  // namespace rewright

int main(int argc, char** argv) { return rewright::Main(argc, argv); }
