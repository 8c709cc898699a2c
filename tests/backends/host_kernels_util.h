// Generated kernels compiled by the C++ compiler, and run on the processor block by block.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rewright {

class HostKernels {
 public:
  HostKernels();
  ~HostKernels();
  HostKernels(const HostKernels&) = delete;

  // A kernel behind the prelude, which is the same for all. They are compiled together when one is needed.
  void Add(const std::string& prelude, const std::string& name, const std::string& text);
  int Arguments(const std::string& name);
  void Launch(const std::string& name, int64_t blocks, int threads, void* const* pointers);
  int compiled() const { return static_cast<int>(entries_.size()); }

 private:
  struct Entry;
  void Build();

  std::string folder_, prelude_;
  std::map<std::string, std::string> known_;  // sources by name
  std::vector<std::string> pending_;
  std::map<std::string, Entry> entries_;
  std::vector<void*> libraries_;
};

}  // namespace rewright
