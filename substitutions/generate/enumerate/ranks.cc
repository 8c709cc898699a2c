#include "substitutions/generate/enumerate/ranks.h"

#include <algorithm>
#include <cstring>

#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "runtime/comm/mpi.h"

namespace rewright::generate {

Ranks& Ranks::World() {
  static Ranks ranks(ProcessRanks());
  return ranks;
}

std::vector<uint64_t> Ranks::Exchange(const std::vector<std::vector<uint64_t>>& out) {
  const auto size = static_cast<size_t>(this->size()), self = static_cast<size_t>(rank());
  std::vector<uint64_t> sent(size), received(size);
  std::vector<std::vector<uint64_t>> in(size);
  // Sizes first, then words.
  for (const bool words : {false, true}) {
    std::vector<Outgoing> outgoing;
    std::vector<Incoming> incoming;
    for (size_t other = 0; other < size; ++other) {
      if (other == self) continue;
      const int to = static_cast<int>(other);
      if (words) {
        in[other].resize(received[other]);
        outgoing.push_back({to, out[other].data(), out[other].size() * sizeof(uint64_t)});
        incoming.push_back({to, in[other].data(), in[other].size() * sizeof(uint64_t)});
      } else {
        sent[other] = out[other].size();
        outgoing.push_back({to, &sent[other], sizeof(uint64_t)});
        incoming.push_back({to, &received[other], sizeof(uint64_t)});
      }
    }
    const absl::Status status = communicator_.Exchange("the enumeration", outgoing, incoming);
    CHECK(status.ok()) << status.message();
  }
  in[self] = out[self];
  std::vector<uint64_t> all;
  for (const std::vector<uint64_t>& words : in) all.insert(all.end(), words.begin(), words.end());
  return all;
}

std::vector<uint64_t> Ranks::Gather(const std::vector<uint64_t>& words) {
  std::vector<std::vector<uint64_t>> out(static_cast<size_t>(size()));
  out[0] = words;
  return Exchange(out);
}

uint64_t Ranks::Max(uint64_t word) {
  const std::vector<uint64_t> all = Exchange(std::vector<std::vector<uint64_t>>(static_cast<size_t>(size()), {word}));
  return *std::max_element(all.begin(), all.end());
}

absl::StatusOr<std::vector<uint64_t>> Ranks::FromZero(
    const std::string& what, const std::function<absl::StatusOr<std::vector<uint64_t>>()>& make) {
  ASSIGN_OR_RETURN(const std::string bytes, FromRankZero(communicator_, what, [&]() -> absl::StatusOr<std::string> {
                     ASSIGN_OR_RETURN(const std::vector<uint64_t> words, make());
                     return std::string(reinterpret_cast<const char*>(words.data()), words.size() * sizeof(uint64_t));
                   }));
  std::vector<uint64_t> words(bytes.size() / sizeof(uint64_t));
  if (!words.empty()) std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}

}  // namespace rewright::generate
