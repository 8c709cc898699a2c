#include "backends/onnxruntime/partition.h"

#include <algorithm>
#include <set>
#include <utility>

#include "backends/fuser.h"
#include "core/ir/pointwise.h"
#include "core/ops/ops.h"

namespace rewright::ort {
namespace {

constexpr size_t kMaxGathered = 16;  // nodes of a gathered group

struct PlainGroup {
  Group group;
};

class OrtFuser : private Fuser<PlainGroup> {
 public:
  explicit OrtFuser(const Graph& graph) : Fuser(graph) {}

  std::vector<Group> Run() {
    for (int i = 0; i < num_nodes(); ++i) {
      if (IsFree(i) && IsAnchor(i)) FuseAnchor(i);
    }
    for (int i = num_nodes() - 1; i >= 0; --i) {
      if (!IsFree(i)) continue;
      AddGroup({}, WithProducers({i}, [&](int producer, const std::set<int>& so_far) {
                 return CanBeGathered(i) && so_far.size() < kMaxGathered && CanBeGathered(producer);
               }));
    }
    std::vector<Group> groups;
    for (PlainGroup& group : TakeGroups()) groups.push_back(std::move(group.group));
    return groups;
  }

 private:
  bool IsAnchor(int i) const {
    const OpDef* op = NodeAt(i).op;
    return op == ops::Conv2d() || op == ops::Convolution() || op == ops::Matmul() || op == ops::DotGeneral();
  }

  bool CanBeGathered(int i) const {
    const Node& node = NodeAt(i);
    static const auto* const others = new std::set<const OpDef*>{
        ops::ReduceSum(), ops::ReduceMean(), ops::ReduceMax(), ops::ReduceMin(),     ops::Softmax(),
        ops::LayerNorm(), ops::Reshape(),    ops::Expand(),    ops::BroadcastInDim()};
    return IsPointwise(*node.meaning) || others->count(node.op) > 0;
  }

  void FuseAnchor(int anchor) {
    std::vector<int> members = Chain(anchor, [&](int last, int next) {
      const Node& node = NodeAt(next);
      return IsPointwise(*node.meaning) && node.outputs.size() == 1 && node.outputs[0] == NodeAt(last).outputs[0];
    });
    for (int producer : graph_.producers(anchor)) {
      const bool joins = IsFree(producer) && NodeAt(producer).op == ops::Transpose() && !Escapes(producer) &&
                         graph_.users(producer).size() == 1;
      if (joins) members.push_back(producer);
    }
    AddGroup({}, std::move(members));
  }
};

}  // namespace

std::vector<Group> GroupsOf(const Graph& graph) { return OrtFuser(graph).Run(); }

}  // namespace rewright::ort
