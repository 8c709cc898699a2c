#include "tests/backends/cpu/runner_util.h"

#include <cmath>
#include <cstring>
#include <map>

#include "core/base/status_macros.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/text.h"

namespace rewright {
namespace {

void ExpectClose(const Tensor& expected, const Tensor& found, double tolerance, const std::string& what) {
  ASSERT_EQ(expected.type(), found.type()) << what;
  // The last of 16 bits may differ.
  if (IsHalf(expected.dtype())) tolerance = std::max(tolerance, RoundingOf(expected.dtype()) / 4);
  // Sums that cancel are as exact as their terms.
  double largest = 1;
  for (int64_t i = 0; IsFloating(expected.dtype()) && i < expected.num_elements(); ++i) {
    if (std::isfinite(expected.At(i))) largest = std::max(largest, std::abs(expected.At(i)));
  }
  int wrong = 0;
  for (int64_t i = 0; i < expected.num_elements() && wrong < 5; ++i) {
    if (!IsFloating(expected.dtype())) {
      if (expected.AtInt(i) == found.AtInt(i)) continue;
    } else {
      const double a = expected.At(i), b = found.At(i);
      if (std::isnan(a) && std::isnan(b)) continue;
      if (a == b || std::abs(a - b) <= tolerance * (largest + 10 * std::abs(a))) continue;
    }
    ADD_FAILURE() << what << ": element " << i << " is " << found.At(i) << ", expected " << expected.At(i);
    ++wrong;
  }
}

}  // namespace

Tensor RandomTensor(const TensorType& type, double low, double high, Rng& rng) {
  Tensor tensor(type);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (type.dtype == DType::kBool) {
      tensor.SetInt(i, static_cast<int64_t>(rng() % 2));
    } else if (IsInteger(type.dtype)) {
      const double least = IsUnsigned(type.dtype) ? 0 : -HUGE_VAL;
      tensor.SetInt(i, std::uniform_int_distribution<int64_t>(static_cast<int64_t>(std::ceil(std::max(low, least))),
                                                              static_cast<int64_t>(std::floor(high)))(rng));
    } else {
      tensor.Set(i, std::uniform_real_distribution<double>(low, high)(rng));
    }
  }
  return tensor;
}

absl::StatusOr<std::unique_ptr<Executor>> MakeHostile(const Graph& graph, Schedule schedule, DeviceMemory& memory) {
  return Executor::Create(graph, std::move(schedule), memory, {.separate = true, .poison = true});
}

absl::StatusOr<std::vector<Tensor>> RunTwice(Executable& executable, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> kept, outputs;
  for (const Tensor& input : inputs) {
    kept.emplace_back(input.type());
    std::memcpy(kept.back().data(), input.data(), static_cast<size_t>(input.num_bytes()));
  }
  for (int run = 0; run < 2; ++run) {
    RETURN_IF_ERROR(executable.Run(inputs, &outputs));
    for (size_t i = 0; i < inputs.size(); ++i) {
      EXPECT_TRUE(inputs[i].BitEqual(kept[i])) << "input " << i << " was overwritten";
    }
  }
  return outputs;
}

void ExpectAgrees(Device& device, const Graph& graph, double low, double high, uint64_t seed) {
  auto schedule = device.Compile(graph);
  ASSERT_TRUE(schedule.ok()) << schedule.status().ToString();
  DeviceMemory& memory = device.memory() != nullptr ? *device.memory() : HostMemory();
  const auto executor = MakeHostile(graph, *std::move(schedule), memory);
  ASSERT_TRUE(executor.ok()) << executor.status().ToString();
  ExpectAgrees(**executor, graph, low, high, seed);
}

void ExpectAgrees(Schedule schedule, const Graph& graph, double low, double high, uint64_t seed, double tolerance) {
  const auto executor = MakeHostile(graph, std::move(schedule));
  ASSERT_TRUE(executor.ok()) << executor.status().ToString();
  ExpectAgrees(**executor, graph, low, high, seed, tolerance);
}

void ExpectAgrees(Executable& executable, const Graph& graph, double low, double high, uint64_t seed,
                  double tolerance) {
  const auto run = [&](const std::vector<Tensor>& inputs) { return RunTwice(executable, inputs); };
  ExpectAgrees(run, graph, low, high, seed, tolerance);
}

void ExpectAgrees(const RunInputs& run, const Graph& graph, double low, double high, uint64_t seed, double tolerance) {
  Rng rng(seed);
  std::vector<Tensor> inputs;
  absl::flat_hash_map<std::string, Tensor> by_name;
  for (Value input : graph.inputs()) {
    inputs.push_back(RandomTensor(graph.type(input), low, high, rng));
    by_name[graph.node(input.node).name] = inputs.back();
  }
  const auto expected = InterpretGraph(graph, by_name);
  ASSERT_TRUE(expected.ok()) << expected.status().ToString();
  const auto found = run(inputs);
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  ASSERT_EQ(expected->size(), found->size());
  for (size_t i = 0; i < found->size(); ++i) {
    ExpectClose((*expected)[i], (*found)[i], tolerance, "output " + graph.outputs()[i].name);
  }
}

}  // namespace rewright
