#include "runtime/distributed/expand_runs.h"

#include <algorithm>
#include <set>
#include <utility>

namespace rewright::distributed {
namespace {

using Kind = Action::Kind;

// Adds those that are tensors and not there yet.
void AddTensors(const std::vector<int>& more, std::vector<int>* tensors) {
  for (int tensor : more) {
    if (tensor >= 0 && std::find(tensors->begin(), tensors->end(), tensor) == tensors->end()) {
      tensors->push_back(tensor);
    }
  }
}

}  // namespace

void BodyWriter::Run(double seconds, const std::vector<int>& reads, const std::vector<int>& makes) {
  const bool joins = !body_.actions.empty() && body_.actions.back().kind == Kind::kRun;
  if (!joins) {
    body_.actions.push_back({Kind::kRun, static_cast<int>(body_.subgraphs.size())});
    body_.subgraphs.emplace_back();
  }
  PlanSubgraph& subgraph = body_.subgraphs.back();
  std::vector<int> of_others = reads;
  AddTensors(std::exchange(completed_, {}), &of_others);
  std::erase_if(of_others,
                [&](int tensor) { return std::count(subgraph.makes.begin(), subgraph.makes.end(), tensor) > 0; });
  AddTensors(of_others, &subgraph.reads);
  AddTensors(makes, &subgraph.makes);
  subgraph.seconds += seconds;
}

int BodyWriter::Begin(Action::Kind kind, int value) {
  if (value < 0) return -1;
  body_.actions.push_back({kind, -1, {value}, -1, 0, plan_.tensors[value].over});
  return static_cast<int>(body_.actions.size()) - 1;
}

void BodyWriter::Wait(int number) {
  if (number < 0) return;
  AddTensors(body_.actions[number].tensors, &completed_);
  body_.actions.push_back({Kind::kWait, number});
}

void BodyWriter::Accumulate(const std::vector<int>& sums) {
  if (!sums.empty()) body_.actions.push_back({Kind::kAccumulate, -1, sums});
}

PlanSubgraph OutsideOf(const Plan& plan, const RunBody& body) {
  PlanSubgraph outside;
  std::set<int> made;
  for (const PlanSubgraph& subgraph : body.subgraphs) {
    for (int tensor : subgraph.reads) {
      if (!made.contains(tensor)) AddTensors({tensor}, &outside.reads);
    }
    for (int tensor : subgraph.makes) {
      made.insert(tensor);
      if (plan.tensors[tensor].over < 0) AddTensors({tensor}, &outside.makes);
    }
  }
  return outside;
}

void PlaceSums(Plan* plan) {
  std::vector<int> makers(plan->tensors.size(), -1);
  for (size_t p = 0; p < plan->subgraphs.size(); ++p) {
    for (int tensor : plan->subgraphs[p].makes) makers[tensor] = static_cast<int>(p);
  }
  for (PlanTensor& tensor : plan->tensors) {
    if (tensor.leaf >= 0) tensor.behind = makers[tensor.leaf];
  }
}

void ExpandRuns(const std::vector<RunBody>& bodies, Plan* plan) {
  std::vector<int> first;  // subgraph of a body
  std::vector<PlanSubgraph> subgraphs;
  for (const RunBody& body : bodies) {
    first.push_back(static_cast<int>(subgraphs.size()));
    subgraphs.insert(subgraphs.end(), body.subgraphs.begin(), body.subgraphs.end());
  }
  for (std::vector<Action>& list : plan->lists) {
    std::vector<Action> expanded;
    std::vector<int> number_of;  // by action of the list
    for (Action& action : list) {
      number_of.push_back(static_cast<int>(expanded.size()));
      if (action.kind == Kind::kRun) {
        const int begin = number_of.back();
        for (Action inner : bodies[action.target].actions) {
          if (inner.kind == Kind::kWait) inner.target += begin;
          if (inner.kind == Kind::kRun) inner.target += first[action.target];
          if (inner.kind != Kind::kWait) inner.micro_batch = action.micro_batch;
          expanded.push_back(std::move(inner));
        }
        continue;
      }
      if (action.kind == Kind::kAccumulate && bodies[plan->tensors[action.tensors[0]].behind].accumulates) continue;
      if (action.kind == Kind::kWait) action.target = number_of[action.target];
      expanded.push_back(std::move(action));
    }
    list = std::move(expanded);
  }
  plan->subgraphs = std::move(subgraphs);
  PlaceSums(plan);
}

}  // namespace rewright::distributed
