// The memory of this machine, as schedules see it.
#pragma once

#include "core/ir/device.h"

namespace rewright {

// One for the whole program; thread-safe. Work is done when it is enqueued.
DeviceMemory& HostMemory();

}  // namespace rewright
