#include "runtime/distributed/plan.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace rewright::distributed {

Mesh::Mesh(std::vector<MeshAxis> axes) : axes_(std::move(axes)) {
  CHECK(!axes_.empty());
  for (const MeshAxis& axis : axes_) CHECK(axis.size > 0) << axis.name;
}

int Mesh::ranks() const {
  int ranks = 1;
  for (const MeshAxis& axis : axes_) ranks *= axis.size;
  return ranks;
}

int Mesh::StepOf(int axis) const {
  int step = 1;
  for (size_t k = static_cast<size_t>(axis) + 1; k < axes_.size(); ++k) step *= axes_[k].size;
  return step;
}

int Mesh::PlaceOf(int rank, int axis) const { return rank / StepOf(axis) % axes_[axis].size; }

std::vector<int> Mesh::GroupOf(int rank, int axis) const {
  const int step = StepOf(axis), first = rank - PlaceOf(rank, axis) * step;
  std::vector<int> group;
  for (int k = 0; k < axes_[axis].size; ++k) group.push_back(first + k * step);
  return group;
}

int Mesh::Find(const std::string& name) const {
  const auto found = std::find_if(axes_.begin(), axes_.end(), [&](const MeshAxis& axis) { return axis.name == name; });
  return found == axes_.end() ? -1 : static_cast<int>(found - axes_.begin());
}

bool IsCollective(Action::Kind kind) {
  return kind == Action::Kind::kAllGather || kind == Action::Kind::kReduceScatter || kind == Action::Kind::kAllReduce ||
         kind == Action::Kind::kAllToAll;
}

bool IsCommunication(Action::Kind kind) {
  return IsCollective(kind) || kind == Action::Kind::kSend || kind == Action::Kind::kReceive;
}

std::vector<int> Plan::TensorsOf(PlanTensor::Kind kind) const {
  std::vector<int> found;
  for (size_t k = 0; k < tensors.size(); ++k) {
    if (tensors[k].kind == kind) found.push_back(static_cast<int>(k));
  }
  return found;
}

bool Plan::IsAlike(int axis) const { return std::find(alike.begin(), alike.end(), axis) != alike.end(); }

int Plan::DeviceOf(int rank) const {
  if (order.empty()) return rank;
  int device = 0;
  for (int axis : order) device = device * mesh.axes()[axis].size + mesh.PlaceOf(rank, axis);
  return device;
}

int Plan::RankAt(int device) const {
  if (order.empty()) return device;
  int rank = 0;
  for (size_t k = order.size(); k-- > 0;) {
    const int size = mesh.axes()[order[k]].size;
    rank += device % size * (mesh.GroupOf(0, order[k]).back() / std::max(1, size - 1));
    device /= size;
  }
  return rank;
}

std::vector<int> Plan::RanksWithLists() const {
  std::vector<int> ranks = {0};
  for (int axis = 0; axis < static_cast<int>(mesh.axes().size()); ++axis) {
    if (IsAlike(axis)) continue;
    std::vector<int> wider;
    for (int rank : ranks) {
      for (int other : mesh.GroupOf(rank, axis)) wider.push_back(other);
    }
    ranks = std::move(wider);
  }
  return ranks;
}

std::vector<int> Plan::GroupWithLists(int rank, int axis) const {
  return IsAlike(axis) ? std::vector<int>{rank} : mesh.GroupOf(rank, axis);
}

std::vector<int> EndsOf(const std::vector<Action>& list) {
  std::vector<int> ends;
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    ends.push_back(i);
    if (list[i].kind == Action::Kind::kWait) ends[list[i].target] = i;
  }
  return ends;
}

}  // namespace rewright::distributed
