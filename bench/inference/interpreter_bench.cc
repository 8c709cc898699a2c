// Times the reference interpreter on single applications as they occur in known models:
//   interpreter_bench [threads]
// Prints seconds of processor time (the least of three runs, steady on a busy machine), the clock's time, and
// multiplications of the contraction per second of processor time.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"

namespace rewright {
namespace {

struct Case {
  const char* op;
  std::vector<TensorType> inputs;
  Attrs attrs;
  double gmac = 0;
};

double Seconds(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::vector<Case> Cases() {
  const auto f32 = [](Shape shape) { return TensorType{DType::kFloat32, std::move(shape)}; };
  using Ints = std::vector<int64_t>;
  const Attrs padded = {{"pads", Ints{1, 1, 1, 1}}};
  const auto grouped = [&](int64_t groups) { return Attrs{{"pads", Ints{1, 1, 1, 1}}, {"groups", groups}}; };
  return {
      {"conv2d",
       {f32({1, 3, 224, 224}), f32({64, 3, 7, 7})},
       {{"pads", Ints{3, 3, 3, 3}}, {"strides", Ints{2, 2}}},
       0.1180},
      {"conv2d", {f32({1, 64, 56, 56}), f32({64, 64, 3, 3})}, padded, 0.1156},
      {"conv2d", {f32({1, 256, 14, 14}), f32({256, 256, 3, 3})}, padded, 0.1156},
      {"conv2d", {f32({1, 512, 7, 7}), f32({512, 512, 3, 3})}, padded, 0.1156},
      {"conv2d", {f32({1, 1024, 14, 14}), f32({256, 1024, 1, 1})}, {}, 0.0514},
      {"conv2d", {f32({1, 128, 28, 28}), f32({128, 4, 3, 3})}, grouped(32), 0.0036},
      {"conv2d", {f32({1, 144, 56, 56}), f32({144, 1, 3, 3})}, grouped(144), 0.0041},
      {"matmul", {f32({128, 768}), f32({768, 3072})}, {}, 0.3020},
      {"matmul", {f32({12, 128, 64}), f32({12, 64, 128})}, {}, 0.0126},
      {"max_pool2d",
       {f32({1, 64, 112, 112})},
       {{"kernel", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}}},
      {"softmax", {f32({12, 128, 128})}, {{"axis", int64_t{2}}}},
      {"layer_norm", {f32({128, 768}), f32({768}), f32({768})}, {}},
      {"gelu", {f32({128, 3072})}, {}},
      {"relu", {f32({1, 256, 56, 56})}, {}},
      {"reshape", {f32({128, 768})}, {{"shape", Ints{128, 12, 64}}}},
      {"transpose", {f32({128, 12, 64})}, {{"perm", Ints{1, 0, 2}}}},
      {"concat", {f32({1, 256, 28, 28}), f32({1, 256, 28, 28})}, {{"axis", int64_t{1}}}},
  };
}

absl::Status TimeCase(const Case& c, int threads, Rng& rng, MeaningCache& cache) {
  auto app = Apply(*FindOp(c.op), c.inputs, c.attrs, cache);
  if (!app.ok()) return app.status();
  std::vector<Tensor> inputs;
  std::string types;
  for (const TensorType& type : c.inputs) {
    inputs.push_back(RandomTensor(type, rng, 0, 2));
    types += " " + type.ToString();
  }
  double processor = 1e9, clock = 1e9;
  for (int run = 0; run < 3; ++run) {
    const double begin_processor = Seconds(CLOCK_PROCESS_CPUTIME_ID);
    const double begin_clock = Seconds(CLOCK_MONOTONIC);
    const auto outputs = Interpret(*app->meaning, BindingsOf(*app->meaning, c.inputs, app->attrs), app->outputs, inputs,
                                   {.threads = threads});
    if (!outputs.ok()) return outputs.status();
    processor = std::min(processor, Seconds(CLOCK_PROCESS_CPUTIME_ID) - begin_processor);
    clock = std::min(clock, Seconds(CLOCK_MONOTONIC) - begin_clock);
  }
  std::printf("%9.3f ms %9.3f ms %7.2f GMAC/s  %s%s\n", processor * 1e3, clock * 1e3, c.gmac / processor, c.op,
              types.c_str());
  return absl::OkStatus();
}

int Main(int threads) {
  Rng rng(1);
  MeaningCache cache;
  std::printf("%d threads\nprocessor    clock\n", threads);
  for (const Case& c : Cases()) {
    if (absl::Status status = TimeCase(c, threads, rng, cache); !status.ok()) {
      std::fprintf(stderr, "%s: %s\n", c.op, status.ToString().c_str());
      return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace rewright

int main(int argc, char** argv) { return rewright::Main(argc > 1 ? std::atoi(argv[1]) : 1); }
