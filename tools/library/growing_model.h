// A model whose states grow from run to run: the caches of keys and values of a language model that decodes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/onnx/size_relations.h"
#include "tools/library/growing_graph.h"
#include "tools/library/sized_models.h"

namespace rewright {

// The states lie in memory with room for more rows, so a run writes its new rows behind the old ones and copies none
// of these. The graph is compiled for a capacity; when that is reached, it is compiled for twice as much. Thread-safe:
// runs take turns.
class GrowingModel {
 public:
  // `models` and its engine outlive the object. `capacity`: rows that there is room for at first; 0: a few. Errors: a
  // device with memory of its own or another runtime; states as FindAppends says.
  static absl::StatusOr<std::unique_ptr<GrowingModel>> Make(SizedModels& models, const Engine& engine,
                                                            StateNames states, int64_t capacity);

  // True for an input, by its number, that is a state.
  bool IsState(size_t input) const { return axes_.contains(input); }
  // Inputs in the order of the model; those that are states are not read. Gives the outputs that are not next values
  // of states, by number. Errors: of the inputs; what MakeGrowing says; those of the run, behind which the states are
  // as before.
  absl::StatusOr<std::map<size_t, Tensor>> Run(const std::vector<Tensor>& inputs);
  // The number of rows, and a copy of those of a state. Error: no input of that name is one.
  int64_t length();
  absl::StatusOr<Tensor> Read(const std::string& state);
  // Forgets all rows.
  void Clear();

 private:
  struct Compiled {
    GrowingGraph growing;
    std::unique_ptr<Executable> executable;
    int64_t rows = 0;           // that a run adds
    std::set<int64_t> checked;  // lengths of the past at which the graph is the model
  };

  GrowingModel(SizedModels& models, const Engine& engine, StateNames states)
      : models_(models), engine_(engine), states_(std::move(states)) {}
  absl::Status FindAxes();
  // The sizes of a run on these inputs behind a past of `length` rows.
  absl::StatusOr<DimSizes> SizesOf(const std::vector<Tensor>& inputs, int64_t length) const;
  // The sizes at another length of the past.
  DimSizes DimsAt(DimSizes dims, int64_t past) const;
  // The rows that a run adds.
  absl::StatusOr<int64_t> RowsOf(const DimSizes& dims);
  // The graph for a capacity of this past and the rows of a run.
  absl::StatusOr<GrowingGraph> MakeFor(const DimSizes& dims, int64_t past);
  absl::StatusOr<Compiled*> Prepare(const DimSizes& dims);
  // Error: at this length the model is another one than the graph.
  absl::Status CheckLength(const DimSizes& dims, Compiled* compiled);
  // Gives the states room for the rows of that graph.
  absl::Status Reserve(const Compiled& compiled);
  // Zeros behind the first length_ rows.
  void ClearBehind();

  SizedModels& models_;
  const Engine& engine_;
  const StateNames states_;
  std::vector<SizeRelation> relations_;
  std::map<size_t, int> axes_;  // by input that is a state: the axis along which it grows
  std::string past_;            // the name of its size
  std::mutex mutex_;            // of what follows
  int64_t length_ = 0, capacity_ = 0;
  std::map<size_t, Tensor> memory_;        // of the states, by input
  std::map<DimSizes, Compiled> compiled_;  // at this capacity
};

}  // namespace rewright
