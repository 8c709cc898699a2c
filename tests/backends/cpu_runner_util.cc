#include "tests/backends/cpu_runner_util.h"

#include <cmath>
#include <cstring>
#include <map>

#include "core/interpreter/interpreter.h"
#include "core/ir/text.h"

namespace rewright {
namespace {

int RootOf(const Schedule& schedule, int buffer, size_t* offset) {
  *offset = 0;
  while (schedule.buffers[buffer].alias_of >= 0) {
    const Buffer& view = schedule.buffers[buffer];
    const Buffer& base = schedule.buffers[view.alias_of];
    EXPECT_LE(view.offset + view.bytes, base.bytes) << "a view reaches outside what it views";
    *offset += view.offset;
    buffer = view.alias_of;
  }
  return buffer;
}

struct Lifetime {
  int first = -1, last = -1;
};

// By root buffer; outputs live to the end.
std::map<int, Lifetime> LifetimesOf(const Schedule& schedule) {
  std::map<int, Lifetime> lifetimes;
  size_t offset = 0;
  auto touch = [&](int buffer, int step) {
    Lifetime& lifetime = lifetimes[RootOf(schedule, buffer, &offset)];
    if (lifetime.first < 0) lifetime.first = step;
    lifetime.last = step;
  };
  for (size_t s = 0; s < schedule.steps.size(); ++s) {
    for (int buffer : schedule.steps[s].buffers) touch(buffer, static_cast<int>(s));
  }
  for (int buffer : schedule.outputs) touch(buffer, static_cast<int>(schedule.steps.size()));
  return lifetimes;
}

void ExpectClose(const Tensor& expected, const Tensor& found, double tolerance, const std::string& what) {
  ASSERT_EQ(expected.type(), found.type()) << what;
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
      tensor.SetInt(i, std::uniform_int_distribution<int64_t>(static_cast<int64_t>(std::ceil(low)),
                                                              static_cast<int64_t>(std::floor(high)))(rng));
    } else {
      tensor.Set(i, std::uniform_real_distribution<double>(low, high)(rng));
    }
  }
  return tensor;
}

absl::StatusOr<std::vector<Tensor>> RunSchedule(const Graph& graph, const Schedule& schedule,
                                                const std::vector<Tensor>& inputs) {
  std::vector<std::vector<uint64_t>> memory(schedule.buffers.size());
  std::vector<char*> base(schedule.buffers.size(), nullptr);
  for (size_t i = 0; i < schedule.buffers.size(); ++i) {
    const Buffer& buffer = schedule.buffers[i];
    if (buffer.alias_of >= 0) continue;
    if (buffer.kind == Buffer::Kind::kConstant) {
      base[i] = static_cast<char*>(buffer.data.get());
      continue;
    }
    memory[i].assign(buffer.bytes / 8 + 17, ~uint64_t{0});
    const size_t misaligned = reinterpret_cast<uintptr_t>(memory[i].data()) % 64;
    base[i] = reinterpret_cast<char*>(memory[i].data()) + (64 - misaligned) % 64;
  }
  std::vector<Tensor> kept;  // inputs must not change
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int buffer = schedule.inputs[i];
    if (buffer < 0) continue;
    EXPECT_EQ(schedule.buffers[buffer].bytes, static_cast<size_t>(inputs[i].num_bytes()));
    std::memcpy(base[buffer], inputs[i].data(), static_cast<size_t>(inputs[i].num_bytes()));
  }
  const std::map<int, Lifetime> lifetimes = LifetimesOf(schedule);
  for (int run = 0; run < 2; ++run) {
    for (size_t s = 0; s < schedule.steps.size(); ++s) {
      std::vector<void*> addresses;
      for (int buffer : schedule.steps[s].buffers) {
        size_t offset = 0;
        const int root = RootOf(schedule, buffer, &offset);
        addresses.push_back(base[root] + offset);
      }
      schedule.steps[s].kernel->Run(addresses.data());
      for (const auto& [root, lifetime] : lifetimes) {
        const Buffer& buffer = schedule.buffers[root];
        if (buffer.kind != Buffer::Kind::kActivation || lifetime.last != static_cast<int>(s)) continue;
        std::memset(base[root], 0xff, buffer.bytes);
      }
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int buffer = schedule.inputs[i];
    if (buffer < 0) continue;
    EXPECT_EQ(0, std::memcmp(base[buffer], inputs[i].data(), static_cast<size_t>(inputs[i].num_bytes())))
        << "input " << i << " was overwritten";
  }
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < schedule.outputs.size(); ++i) {
    size_t offset = 0;
    const int root = RootOf(schedule, schedule.outputs[i], &offset);
    Tensor tensor(graph.type(graph.outputs()[i].value));
    std::memcpy(tensor.data(), base[root] + offset, static_cast<size_t>(tensor.num_bytes()));
    outputs.push_back(std::move(tensor));
  }
  return outputs;
}

void ExpectAgrees(Device& device, const Graph& graph, double low, double high, uint64_t seed) {
  const auto schedule = device.Compile(graph);
  ASSERT_TRUE(schedule.ok()) << schedule.status().ToString();
  ExpectAgrees(*schedule, graph, low, high, seed);
}

void ExpectAgrees(const Schedule& schedule, const Graph& graph, double low, double high, uint64_t seed,
                  double tolerance) {
  const auto run = [&](const std::vector<Tensor>& inputs) { return RunSchedule(graph, schedule, inputs); };
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

Graph GraphWithWeights(const std::string& text, double low, double high, uint64_t seed) {
  const auto empty = ParseGraph(text);
  EXPECT_TRUE(empty.ok()) << empty.status().ToString() << "\n" << text;
  if (!empty.ok()) return Graph();
  Rng rng(seed);
  std::map<std::string, Tensor> weights;
  for (NodeId id : empty->nodes()) {
    const Node& node = empty->node(id);
    if (node.leaf == LeafKind::kState) weights[node.name] = RandomTensor(node.outputs[0], low, high, rng);
  }
  const auto graph = ParseGraph(text, weights);
  EXPECT_TRUE(graph.ok()) << graph.status().ToString();
  return graph.ok() ? *graph : Graph();
}

}  // namespace rewright
