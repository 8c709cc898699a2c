// Groups of plain operators and the folds that are found in them, from the file folds.txt.
#pragma once

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "core/base/files.h"
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

inline Grouped::Grouped(const std::string& text) : graph(GraphOf(text)), types(graph.types(graph.inputs())) {
  std::vector<Value> results;
  for (const Output& output : graph.outputs()) results.push_back(output.value);
  const auto made = MakeCompositeOp("group", graph, graph.inputs(), results);
  EXPECT_TRUE(made.ok()) << made.status();
  if (!made.ok()) return;
  op = *made;
  const auto application = Apply(*op, types, {}, meanings);
  EXPECT_TRUE(application.ok()) << application.status();
  if (application.ok()) applied = *application;
}

struct FoldCase {
  std::string name, graph;
  int operand = 0, axis = 0;  // along which the loop runs
  std::string fold;           // as it prints
  std::string blocks;         // its block program, or the reason why there is none
};
// A case begins with the line "case NAME along OPERAND AXIS", its graph follows, then the line "fold" and the fold, and
// the line "blocks" and the block program.
inline std::vector<FoldCase> FoldCases() {
  const auto text = ReadText(REWRIGHT_SOURCE_DIR "/tests/core/fold/folds.txt");
  EXPECT_TRUE(text.ok()) << text.status();
  std::vector<FoldCase> cases;
  std::string* part = nullptr;
  std::istringstream lines(text.value_or(""));
  for (std::string line; std::getline(lines, line);) {
    if (absl::StartsWith(line, "#") || line.empty()) continue;
    if (absl::StartsWith(line, "case ")) {
      std::istringstream words(line);
      std::string word;
      FoldCase& next = cases.emplace_back();
      words >> word >> next.name >> word >> next.operand >> next.axis;
      part = &next.graph;
    } else if (line == "fold") {
      part = &cases.back().fold;
    } else if (line == "blocks") {
      part = &cases.back().blocks;
    } else {
      *part += line + "\n";
    }
  }
  return cases;
}

}  // namespace rewright
