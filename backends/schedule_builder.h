// What every lowering does: buffers, views of them, steps.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/ir/device.h"
#include "core/ir/graph.h"

namespace rewright {

// The buffer with memory of its own in which this one lies, and, where it is asked for, how many bytes into it.
int RootOf(const Schedule& schedule, int buffer, size_t* offset = nullptr);

class ScheduleBuilder {
 protected:
  int AddBuffer(Buffer::Kind kind, size_t bytes);
  int AddConstant(std::shared_ptr<void> data, size_t bytes);
  int AddScratch(size_t bytes) { return AddBuffer(Buffer::Kind::kActivation, bytes); }
  // The bytes [offset, offset + bytes) of a buffer.
  int AddView(int buffer, size_t offset, size_t bytes);
  int Root(int buffer) const { return RootOf(schedule_, buffer); }
  // Appends a step of the group that is being lowered; a step labelled "reorder" belongs to none.
  void Emit(std::unique_ptr<Kernel> kernel, std::vector<int> buffers, std::vector<int> writes,
            const std::string& label);

  Buffer& buffer(int id) { return schedule_.buffers[id]; }
  const Buffer& buffer(int id) const { return schedule_.buffers[id]; }

  Schedule schedule_;
  int group_ = -1;  // being lowered
};

}  // namespace rewright
