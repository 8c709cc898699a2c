// The groups that a device runs a graph as, with what each costs and does: for tables.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/device.h"

namespace rewright {

// Groups that look alike: the same operators on the same types.
struct GroupLine {
  std::string operators;  // "conv2d+add+relu"
  std::string types;      // of what it writes
  std::string law;        // by which the device computes other operators (Device::LawOf); empty: none
  int count = 0;
  double seconds = 0;  // of one
  double flops = 0;    // of one
  double bytes = 0;    // read and written by one, each operand and result once
};

// A group of a graph with what it costs and does.
struct CostedGroup {
  std::vector<NodeId> nodes;
  GroupLine line;  // count = 1
};

// All groups in the order of the device, those that cost nothing too. Errors: those of Device::Cost.
absl::StatusOr<std::vector<CostedGroup>> CostedGroupsOf(Device& device, const Graph& graph);

// Work of one application by itself: FLOPs, and bytes of its operands and results.
GroupLine WorkOf(const Graph& graph, NodeId application);

// Groups that look alike as one line each, without those that cost nothing, dearest (together) first.
std::vector<GroupLine> Merged(const std::vector<CostedGroup>& groups);

// The groups that cost anything, dearest (together) first. Errors: those of Device::Cost.
absl::StatusOr<std::vector<GroupLine>> GroupsOf(Device& device, const Graph& graph);

// The number of groups that the device computes by each law. Errors: those of Device::LawOf.
absl::StatusOr<std::map<std::string, int>> LawsOf(Device& device, const Graph& graph);
// "conv-winograd-4x4-3x3 (13 times), .."
std::string LawsText(const std::map<std::string, int>& laws);

}  // namespace rewright
