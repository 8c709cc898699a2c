#include "runtime/instance.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/base/stop.h"

namespace rewright {
absl::Status RunKernel(const Kernel& kernel, void* const* buffers) {
  return Guarded([&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::unique_ptr<KernelHandles> handles, kernel.MakeHandles());
    RunContext context{handles.get()};
    return kernel.Run(buffers, context);
  });
}

absl::StatusOr<std::unique_ptr<Instance>> Instance::Create(const Schedule& schedule, const MemoryPlan& plan,
                                                           DeviceMemory& memory, std::shared_ptr<void> block,
                                                           bool reset) {
  return Guarded([&]() -> absl::StatusOr<std::unique_ptr<Instance>> {
    std::unique_ptr<Instance> instance(new Instance(schedule, plan, memory));
    RETURN_IF_ERROR(instance->Bind(std::move(block)));
    if (reset) RETURN_IF_ERROR(instance->Reset());
    return instance;
  });
}

absl::Status Instance::Bind(std::shared_ptr<void> block) {
  if (block != nullptr) {
    arena_ = block;
    behind_ = std::shared_ptr<void>(block, static_cast<char*>(block.get()) + plan_.behind_arena());
  } else {
    // Vectors of kernels may reach beyond the last element.
    ASSIGN_OR_RETURN(arena_, memory_.Allocate(static_cast<size_t>(plan_.arena_bytes + kArenaAlignment)));
    if (plan_.behind_bytes() > 0) {
      ASSIGN_OR_RETURN(behind_, memory_.Allocate(static_cast<size_t>(plan_.behind_bytes() + kArenaAlignment)));
    }
  }
  if (plan_.stored_bytes > 0) {
    ASSIGN_OR_RETURN(stored_, memory_.AllocateStored(static_cast<size_t>(plan_.stored_bytes)));
  }
  for (size_t s = 0; s < schedule_.steps.size(); ++s) {
    const Step& step = schedule_.steps[s];
    if (step.kernel == nullptr) return ScheduleFault(absl::StrCat("step ", s, " (", step.label, ") has no kernel"));
    for (const BufferUse& use : step.buffers) {
      const Buffer& root = schedule_.buffers[plan_.resolved[use.buffer].root];
      if (root.kind == Buffer::Kind::kConstant && root.data == nullptr && root.bytes > 0) {
        return ScheduleFault(absl::StrCat("constant ", plan_.resolved[use.buffer].root, " has no data"));
      }
    }
    absl::StatusOr<std::unique_ptr<KernelHandles>> handles = step.kernel->MakeHandles();
    if (!handles.ok()) {
      return ErrorAt(absl::StrCat("step ", s, " (", step.label, ")"), handles.status());
    }
    handles_.push_back(*std::move(handles));
  }
  FindAddresses();
  return absl::OkStatus();
}

void Instance::MoveTo(std::shared_ptr<void> arena) {
  arena_ = std::move(arena);
  FindAddresses();
}

void Instance::FindAddresses() {
  addresses_.clear();
  arguments_.clear();
  first_.clear();
  for (size_t id = 0; id < schedule_.buffers.size(); ++id) {
    const ResolvedBuffer at = plan_.resolved[id];
    const Buffer& root = schedule_.buffers[at.root];
    char* base = nullptr;
    if (plan_.offsets[at.root] >= 0) {
      const int64_t offset = plan_.offsets[at.root];
      if (root.kind == Buffer::Kind::kStored) {
        base = static_cast<char*>(stored_.get()) + offset;
      } else if (offset < plan_.arena_bytes || plan_.behind_bytes() == 0) {
        base = static_cast<char*>(arena_.get()) + offset;
      } else {
        base = static_cast<char*>(behind_.get()) + offset - plan_.behind_arena();
      }
    } else if (root.kind == Buffer::Kind::kConstant) {
      base = static_cast<char*>(root.data.get());
    }
    addresses_.push_back(base == nullptr ? nullptr : base + at.offset);
  }
  for (const Step& step : schedule_.steps) {
    first_.push_back(arguments_.size());
    for (const BufferUse& use : step.buffers) arguments_.push_back(addresses_[use.buffer]);
  }
}

absl::Status Instance::Reset() {
  if (plan_.options.separate || plan_.options.poison) {
    const unsigned char value = plan_.options.poison ? 0xff : 0;
    RETURN_IF_ERROR(Set(arena_.get(), value, plan_.arena_bytes));
    RETURN_IF_ERROR(Set(behind_.get(), value, plan_.behind_bytes()));
    RETURN_IF_ERROR(Set(stored_.get(), value, plan_.stored_bytes));
  }
  for (size_t id = 0; id < schedule_.buffers.size(); ++id) {
    const Buffer& buffer = schedule_.buffers[id];
    if (plan_.offsets[id] < 0 || buffer.bytes == 0) continue;
    if (buffer.kind == Buffer::Kind::kState) {
      RETURN_IF_ERROR(buffer.data != nullptr ? memory_.CopyIn(addresses_[id], buffer.data.get(), buffer.bytes)
                                             : Set(addresses_[id], 0, static_cast<int64_t>(buffer.bytes)));
    } else if (buffer.kind == Buffer::Kind::kConstant && buffer.data != nullptr) {
      std::vector<char> contents(buffer.bytes);
      RETURN_IF_ERROR(memory_.CopyOut(contents.data(), buffer.data.get(), buffer.bytes));
      RETURN_IF_ERROR(memory_.CopyIn(addresses_[id], contents.data(), buffer.bytes));
    }
  }
  return absl::OkStatus();
}

absl::Status Instance::Set(void* to, unsigned char value, int64_t bytes) {
  if (memory_.is_host()) {
    if (bytes > 0) std::memset(to, value, static_cast<size_t>(bytes));
    return absl::OkStatus();
  }
  constexpr int64_t kPiece = 1 << 24;
  const std::vector<unsigned char> values(static_cast<size_t>(std::min(bytes, kPiece)), value);
  for (int64_t done = 0; done < bytes; done += kPiece) {
    const int64_t piece = std::min(bytes - done, kPiece);
    RETURN_IF_ERROR(memory_.CopyIn(static_cast<char*>(to) + done, values.data(), static_cast<size_t>(piece)));
  }
  return absl::OkStatus();
}

absl::Status Instance::RunStep(int s) {
  RETURN_IF_ERROR(StopScope::Check());
  const Step& step = schedule_.steps[s];
  RunContext context{handles_[s].get()};
  const absl::Status status = Guarded([&] { return step.kernel->Run(arguments_.data() + first_[s], context); });
  if (!status.ok()) {
    return ErrorAt(absl::StrCat("step ", s, " (", step.label, ")"), status);
  }
  for (size_t k = 0; schedule_.sparing && k < step.buffers.size(); ++k) {
    const Buffer& root = schedule_.buffers[plan_.resolved[step.buffers[k].buffer].root];
    if (root.kind == Buffer::Kind::kConstant) ReleasePages(root.data.get(), static_cast<int64_t>(root.bytes));
  }
  return absl::OkStatus();
}

absl::Status Instance::Expire(int begin, int end) {
  for (int s = begin; s < end; ++s) {
    for (int id : plan_.expires[s]) {
      RETURN_IF_ERROR(Set(addresses_[id], 0xff, static_cast<int64_t>(schedule_.buffers[id].bytes)));
    }
  }
  return absl::OkStatus();
}

absl::Status Instance::Run() {
  const bool poison = plan_.options.poison;
  int s = 0;
  const auto run_until = [&](int end) -> absl::Status {
    for (; s < end; ++s) {
      RETURN_IF_ERROR(RunStep(s));
      if (poison) RETURN_IF_ERROR(Expire(s, s + 1));
    }
    return absl::OkStatus();
  };
  for (const Section& section : plan_.sections) {
    RETURN_IF_ERROR(run_until(section.begin));
    RETURN_IF_ERROR(memory_.RunQueues(section.steps, [&](int i) { return RunStep(section.begin + i); }));
    if (poison) RETURN_IF_ERROR(Expire(section.begin, section.end));
    s = section.end;
  }
  return run_until(static_cast<int>(schedule_.steps.size()));
}

}  // namespace rewright
