// What every lowering does: buffers, views of them, steps.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/ir/device.h"
#include "core/ir/graph.h"
#include "runtime/schedule.h"

namespace rewright {

class ScheduleBuilder {
 protected:
  int AddBuffer(Buffer::Kind kind, size_t bytes);
  int AddConstant(std::shared_ptr<void> data, size_t bytes);
  int AddScratch(size_t bytes) { return AddBuffer(Buffer::Kind::kActivation, bytes); }
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

  Buffer& buffer(int id) { return schedule_.buffers[id]; }
  const Buffer& buffer(int id) const { return schedule_.buffers[id]; }

  Schedule schedule_;
  int group_ = -1;  // being lowered
};

}  // namespace rewright
