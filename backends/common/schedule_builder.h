// The base of every lowering: buffers, views of them, steps.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "backends/common/layout.h"
#include "core/device/device.h"
#include "core/ir/graph.h"
#include "runtime/schedule.h"

namespace rewright {

class ScheduleBuilder {
 protected:
  int AddBuffer(Buffer::Kind kind, size_t bytes);
  int AddConstant(std::shared_ptr<void> data, size_t bytes);
  int AddConstant(Tensor tensor);
  int AddScratch(size_t bytes) { return AddBuffer(Buffer::Kind::kActivation, bytes); }
  // Buffers of what a graph is given: of its inputs, where it has them, by `add`, laid out as `layouts` says or else
  // row-major; and of its states in training, with their values, which `define` is told of.
  void AddInputs(const Graph& graph, const std::map<Value, Layout>& layouts,
                 const std::function<int(Value input, const Layout& layout)>& add);
  void AddStates(const Graph& graph, const std::function<void(Value state, int buffer, const Layout& layout)>& define);
  // The bytes [offset, offset + bytes) of a buffer.
  int AddView(int buffer, size_t offset, size_t bytes);
  // The same, for a part of a concatenation: no part has an element of another.
  int AddPart(int buffer, size_t offset, size_t bytes);
  int Root(int buffer) const { return ResolveBuffer(schedule_.buffers, buffer).root; }

  static BufferUse Read(int buffer) { return {buffer, Access::kRead}; }
  static BufferUse Write(int buffer) { return {buffer, Access::kWrite}; }
  static BufferUse Update(int buffer) { return {buffer, Access::kUpdate}; }
  static BufferUse Scratch(int buffer) { return {buffer, Access::kScratch}; }
  // Appends a step of the group that is being lowered; a step labelled "reorder" belongs to none.
  void Emit(std::unique_ptr<Kernel> kernel, std::vector<BufferUse> buffers, const std::string& label);
  // Frees constants that neither a step nor the caller reads: those that were packed or converted.
  void DropUnusedConstants();
  // Frees one that no step so far reads, and none will; does nothing to others.
  void DropIfUnused(int constant);

  Buffer& buffer(int id) { return schedule_.buffers[id]; }
  const Buffer& buffer(int id) const { return schedule_.buffers[id]; }

  Schedule schedule_;
  std::set<int> read_;  // constants that steps read
  int group_ = -1;      // being lowered
};

}  // namespace rewright
