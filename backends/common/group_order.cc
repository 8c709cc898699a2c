#include "backends/common/group_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace rewright {
namespace {

constexpr int kMaxPasses = 8;
constexpr double kMaxWork = 3e8;  // groups times groups
constexpr double kRounding = 1e-12;

class Orderer {
 public:
  Orderer(const Graph& graph, const std::vector<OrderedGroup>& groups) : groups_(groups), uses_(groups.size()) {
    movable_ = static_cast<int>(groups.size());
    while (movable_ > 0 && groups[movable_ - 1].is_last) --movable_;
    FindTensors(graph);
    order_.resize(groups.size());
    std::iota(order_.begin(), order_.end(), 0);
    position_ = order_;
  }

  std::vector<int> Run() {
    const std::vector<int> first = order_;
    const int64_t peak = Peak();
    scale_ = static_cast<double>(std::max<int64_t>(1, peak));
    best_ = Measure();
    const double work = static_cast<double>(order_.size()) * static_cast<double>(order_.size());
    const int passes = std::clamp(static_cast<int>(kMaxWork / (work + 1)), 1, kMaxPasses);
    for (int pass = 0; pass < passes; ++pass) {
      bool moved = false;
      std::vector<int> todo(order_.begin(), order_.begin() + movable_);
      for (int group : todo) moved |= Move(group, Earliest(group));
      std::reverse(todo.begin(), todo.end());
      for (int group : todo) moved |= Move(group, Latest(group));
      if (!moved) break;
    }
    return Peak() <= peak ? order_ : first;
  }

 private:
  // A region of memory: a value, and the views of it.
  struct Tensor {
    int64_t bytes = 0;
    int writer = -1;  // a group
    std::vector<int> readers;
    bool kept = false;  // to the end
  };
  struct Uses {
    std::vector<int> reads, writes;  // tensors
    std::vector<int> before, after;  // groups that give its operands, groups that read its results
  };

  void FindTensors(const Graph& graph) {
    absl::flat_hash_map<Value, int> tensor_of, writer_of;
    for (int g = 0; g < static_cast<int>(groups_.size()); ++g) {
      const Group& group = *groups_[g].group;
      for (Value input : group.inputs) {
        if (const auto writer = writer_of.find(input); writer != writer_of.end()) {
          uses_[g].before.push_back(writer->second);
          uses_[writer->second].after.push_back(g);
        }
        const auto tensor = tensor_of.find(input);
        if (tensor == tensor_of.end()) continue;  // of the caller, a state, or known
        tensors_[tensor->second].readers.push_back(g);
        uses_[g].reads.push_back(tensor->second);
      }
      const auto base = groups_[g].is_view ? tensor_of.find(group.inputs[0]) : tensor_of.end();
      const int viewed = base != tensor_of.end() ? base->second : -1;
      for (Value output : group.outputs) {
        writer_of[output] = g;
        if (viewed >= 0) {
          tensor_of[output] = viewed;
        } else if (!groups_[g].is_view) {
          tensor_of[output] = static_cast<int>(tensors_.size());
          uses_[g].writes.push_back(static_cast<int>(tensors_.size()));
          tensors_.push_back({groups_[g].is_last ? 0 : graph.type(output).num_bytes(), g, {}, false});
        }
      }
    }
    for (const Output& output : graph.outputs()) {
      const auto tensor = tensor_of.find(output.value);
      if (tensor != tensor_of.end()) tensors_[tensor->second].kept = true;
    }
    for (Uses& uses : uses_) {
      for (std::vector<int>* list : {&uses.reads, &uses.before, &uses.after}) {
        std::sort(list->begin(), list->end());
        list->erase(std::unique(list->begin(), list->end()), list->end());
      }
    }
  }

  int LastUse(const Tensor& tensor) const {
    if (tensor.kept) return static_cast<int>(order_.size()) - 1;
    int last = position_[tensor.writer];
    for (int reader : tensor.readers) last = std::max(last, position_[reader]);
    return last;
  }

  void FindLive() {
    live_.assign(order_.size() + 1, 0);
    for (const Tensor& tensor : tensors_) {
      live_[position_[tensor.writer]] += tensor.bytes;
      live_[LastUse(tensor) + 1] -= tensor.bytes;
    }
    std::partial_sum(live_.begin(), live_.end(), live_.begin());
  }
  int64_t Peak() {
    FindLive();
    return *std::max_element(live_.begin(), live_.end());
  }

  // The measure that is minimized: the sum of eighth powers of the live bytes by step. The fullest steps dominate it,
  // but a move that adds a little to one of them and takes much from many others is not lost.
  double Measure() {
    FindLive();
    double sum = 0;
    for (size_t i = 0; i < order_.size(); ++i) {
      if (groups_[order_[i]].is_view) continue;  // which is no step, wherever it stands
      const double part = static_cast<double>(live_[i]) / scale_, square = part * part;
      sum += square * square * square * square;
    }
    return sum;
  }

  int Earliest(int group) const {
    int position = 0;
    for (int before : uses_[group].before) position = std::max(position, position_[before] + 1);
    return position;
  }
  int Latest(int group) const {
    int position = movable_ - 1;
    for (int after : uses_[group].after) position = std::min(position, position_[after] - 1);
    return position;
  }

  // False where the group stays: that would be no better.
  bool Move(int group, int to) {
    const int from = position_[group];
    if (to == from) return false;
    Shift(from, to);
    const double measure = Measure();
    const bool better = measure < best_ * (1 - kRounding);
    // Moving the last group of a chain gains nothing until the groups that it reads follow it; moving a view gains
    // nothing until its reader follows it.
    const bool no_worse = (to > from || groups_[group].is_view) && measure <= best_ * (1 + kRounding);
    if (!better && !no_worse) {
      Shift(to, from);
    } else {
      best_ = measure;
    }
    return better;
  }

  void Shift(int from, int to) {
    const auto at = order_.begin();
    if (to < from) {
      std::rotate(at + to, at + from, at + from + 1);
    } else {
      std::rotate(at + from, at + from + 1, at + to + 1);
    }
    for (int i = std::min(from, to); i <= std::max(from, to); ++i) position_[order_[i]] = i;
  }

  const std::vector<OrderedGroup>& groups_;
  std::vector<Tensor> tensors_;
  std::vector<Uses> uses_;
  std::vector<int> order_, position_;  // groups by position, positions by group
  int movable_ = 0;                    // groups before those that are last
  std::vector<int64_t> live_;          // by position
  double scale_ = 1, best_ = 0;        // of Measure
};

}  // namespace

std::vector<int> OrderForMemory(const Graph& graph, const std::vector<OrderedGroup>& groups) {
  return Orderer(graph, groups).Run();
}

}  // namespace rewright
