// Groups of plain operators and the folds that are found in them, from the file folds.txt.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/fold/composite_op.h"
#include "core/fold/fold.h"
#include "tests/support/parsed_graph.h"

namespace rewright {

// A graph as one operator.
struct Grouped {
  Graph graph;
  std::vector<TensorType> types;
  std::shared_ptr<const OpDef> op;
  MeaningCache meanings;
  Application applied;

  explicit Grouped(const std::string& text);
  absl::StatusOr<Fold> FoldAlong(int operand, int axis) const { return DeriveFold(*applied.meaning, 0, operand, axis); }
};

struct FoldCase {
  std::string name, graph;
  int operand = 0, axis = 0;  // along which the loop runs
  std::string fold;           // as it prints
};
std::vector<FoldCase> FoldCases();

}  // namespace rewright
