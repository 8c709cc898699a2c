// Objects that a library of C creates and releases.
#pragma once

#include <memory>

namespace rewright {

template <typename T>
struct Released {
  void (*release)(T*);
  void operator()(T* object) const { release(object); }
};
template <typename T>
using Owned = std::unique_ptr<T, Released<T>>;

}  // namespace rewright
