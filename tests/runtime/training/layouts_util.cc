#include "tests/runtime/training/layouts_util.h"

#include <cmath>
#include <mutex>

#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "core/tensor/compare.h"
#include "runtime/parallel/rank_executable.h"
#include "runtime/reference_runner.h"
#include "substitutions/sharding/shard.h"
#include "verifier/claims/sharding_laws.h"

namespace rewright {

double Distance(const NamedTensors& a, const NamedTensors& b) {
  double sum = 0;
  for (const auto& [name, tensor] : a) {
    for (int64_t i = 0; i < tensor.num_elements(); ++i) sum += std::pow(tensor.At(i) - b.at(name).At(i), 2);
  }
  return std::sqrt(sum);
}

absl::StatusOr<Graph> CutByLaws(const Graph& graph, const StateAxes& axes, int degree, bool exact_only, double* bytes) {
  static std::mutex mutex;
  static auto* const laws = new ProvedLaws(2);
  std::vector<sharding::Placement> placements;
  for (const auto& [name, axis] : axes) placements.push_back({name, axis});
  const std::lock_guard<std::mutex> lock(mutex);
  ASSIGN_OR_RETURN(const sharding::Sharded sharded,
                   sharding::Shard(graph, placements, degree, std::ref(*laws), exact_only));
  if (bytes != nullptr) {
    *bytes = 0;
    for (const sharding::Exchange& exchange : sharding::ExchangesOf(sharded.graph)) *bytes += exchange.bytes;
  }
  return sharded.graph;
}

void LayoutsTest::ExpectSameMeaning(const CutGraph& of_run) {
  // The graphs of a run have no values of states, which are in the executable. Squared gradients are not negative.
  NamedTensors states;
  Rng rng(7);
  for (Value state : of_run.original.states()) {
    const TensorType& type = of_run.original.type(state);
    states[of_run.original.node(state.node).name] =
        IsFloating(type.dtype) ? RandomTensor(type, rng, 0.01, 1) : Tensor(type);
  }
  CutGraph made = of_run;
  for (Graph* graph : {&made.original, &made.cut}) {
    auto given = ParseGraph(PrintGraph(*graph), states);
    ASSERT_TRUE(given.ok()) << given.status();
    *graph = *std::move(given);
  }
  const auto drawn = RandomInputs(made.original, 5);
  ASSERT_TRUE(drawn.ok()) << drawn.status();
  std::vector<Tensor> inputs = *drawn;
  absl::flat_hash_map<std::string, Tensor> by_name;
  for (size_t k = 0; k < inputs.size(); ++k) {
    for (int64_t i = 0; !IsFloating(inputs[k].dtype()) && i < inputs[k].num_elements(); ++i) {
      inputs[k].Set(i, static_cast<double>(i % 10));  // a label
    }
    by_name[made.original.node(made.original.inputs()[k].node).name] = inputs[k];
  }
  const auto expected = InterpretGraph(made.original, by_name), found = InterpretGraph(made.cut, by_name);
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_TRUE(found.ok()) << found.status();
  const auto compare = [&](const Tensor& a, const Tensor& b, bool exact, const std::string& what) {
    EXPECT_TRUE(exact ? a.BitEqual(b) : Compare(a, b, 1e-4, 1e-4).close) << what << ": " << Compare(a, b).text;
  };
  for (size_t k = 0; k < expected->size(); ++k) {
    compare((*found)[k], (*expected)[k], made.exact_only, made.original.outputs()[k].name);
  }
  const auto statuses = OnRanks(made.ranks, [&](Communicator& ranks) -> absl::Status {
    const auto runner = MakeReferenceRunner(1);
    ASSIGN_OR_RETURN(const auto executable, RankExecutable::Create(made.cut, ranks, *runner));
    std::vector<Tensor> results;
    RETURN_IF_ERROR(executable->Run(inputs, &results));
    size_t next = 0;
    for (size_t k = 0; k < made.cut.outputs().size(); ++k) {
      const Output& output = made.cut.outputs()[k];
      const bool is_state = output.updates.node >= 0;
      Tensor result;
      if (is_state) {
        ASSIGN_OR_RETURN(result, executable->ReadState(made.cut.node(output.updates.node).name));
      } else {
        result = results[next++];
      }
      compare(result, (*found)[k], made.exact_only, absl::StrCat("rank ", ranks.rank(), ", ", output.name));
    }
    return absl::OkStatus();
  });
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
}

}  // namespace rewright
