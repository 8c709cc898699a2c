// Graphs of tests, by their text.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "core/ir/graph.h"
#include "core/ir/text.h"
#include "core/tensor/tensor.h"
#include "gtest/gtest.h"

namespace rewright {

// Returns the graph that `text` states (core/ir/text.h), with the values of states by name. An error fails the test and
// returns an empty graph.
inline Graph GraphOf(const std::string& text, const std::map<std::string, Tensor>& states = {}) {
  auto graph = ParseGraph(text, states);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : Graph();
}

}  // namespace rewright
