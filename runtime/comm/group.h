// Some of the ranks, as ranks of their own.
#pragma once

#include <memory>
#include <vector>

#include "runtime/comm/communicator.h"

namespace rewright {

// The ranks `members` of `all`, this one among them, as ranks 0, 1, ..; `all` outlives the group. Messages between two
// ranks keep their order whether they go by the group or by `all`, whose limit, errors and count of bytes hold.
std::unique_ptr<Communicator> GroupOf(Communicator& all, const std::vector<int>& members);

}  // namespace rewright
