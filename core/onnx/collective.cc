#include "core/onnx/collective.h"

#include "absl/strings/str_cat.h"
#include "core/onnx/proto.h"

namespace rewright {

absl::StatusOr<CollectiveNode> ReadCollective(const OpaqueNode& opaque) {
  onnx::ModelProto model;
  if (!model.ParseFromString(opaque.alone)) return absl::InternalError(opaque.node + ": its model cannot be read");
  const onnx::NodeProto& node = model.graph().node(0);
  if (node.domain() != "rewright.ranks") {
    return absl::UnimplementedError(absl::StrCat(opaque.node, ": ", opaque.why));
  }
  CollectiveNode collective{.kind = node.op_type()};
  if (const onnx::AttributeProto* group = FindAttribute(node, "group")) {
    collective.group.assign(group->ints().begin(), group->ints().end());
  }
  if (const onnx::AttributeProto* reduction = FindAttribute(node, "reduction")) collective.reduction = reduction->s();
  if (const onnx::AttributeProto* axis = FindAttribute(node, "axis")) collective.axis = axis->i();
  if (collective.group.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(opaque.node, ": found no group, expected a list of ranks"));
  }
  return collective;
}

}  // namespace rewright
