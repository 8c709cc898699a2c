// Extraction: the cheapest graph that an e-graph stands for, an e-node that several others read counted once.
//
// The e-graph is given as an AND-OR graph: a class needs one of its e-nodes, an e-node needs the classes of all its
// operands, and an e-node with several outputs makes several classes. Choices must not close a cycle. Finding the
// cheapest is NP-hard (Stepp, Equality saturation, 2011); TENSAT (Yang et al., MLSys 2021, section 4.3) hands it to an
// integer program. Here it is branch and bound, exact when it ends within its steps. The classes that a class needs
// whichever e-node is chosen (its dominators in the AND-OR graph) give a lower bound of the cost of open classes.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace rewright {

struct ExtractionProblem {
  struct Node {
    double cost = 0;         // at least 0; infinite: not to be chosen
    std::vector<int> needs;  // classes
    std::vector<int> makes;  // classes of its outputs
  };
  std::vector<Node> nodes;
  std::vector<std::vector<int>> makers;  // by class: nodes
  std::vector<int> roots;                // classes
};

struct Extraction {
  std::vector<int> choice;  // by class: a node, -1 where the class is not needed
  double cost = 0;          // of the nodes that are chosen, each once
};

// The choices that the roots need, with -1 for other classes, and their cost. The cost is infinite and there are no
// choices if a needed class has none or the choices close a cycle.
Extraction Needed(const ExtractionProblem& problem, const std::vector<int>& choice);

// Chooses, for every class that some graph computes, the e-node with the cheapest tree below it, -1 for the others: no
// cycles. As shared e-nodes count each time, this need not be the cheapest graph. Knuth's generalization of Dijkstra's
// algorithm (A generalization of Dijkstra's algorithm, IPL 1977).
std::vector<int> CheapestTrees(const ExtractionProblem& problem);

struct BranchAndBound {
  Extraction best;     // infinite cost: there is no graph
  bool exact = false;  // no graph is cheaper
  int64_t steps = 0;
};

// Starts from the given choices and gives up after `max_steps` branchings. Calls `better` for each graph that is
// cheaper than all before it, the first one included.
BranchAndBound ExtractCheapest(const ExtractionProblem& problem, const std::vector<std::vector<int>>& starts,
                               int64_t max_steps, const std::function<void(const Extraction&)>& better = nullptr);

}  // namespace rewright
