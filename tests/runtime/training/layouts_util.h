// Training runs in layouts that cut graphs; the laws are proved once.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/training/parallel/layout.h"
#include "tests/runtime/training/ranks_util.h"

namespace rewright {

// Returns the root of the sum of squares of the differences of all elements.
double Distance(const NamedTensors& a, const NamedTensors& b);

// `bytes` receives the bytes that a device sends for the exchanges of the graph; may be null.
absl::StatusOr<Graph> CutByLaws(const Graph& graph, const StateAxes& axes, int degree, bool exact_only, double* bytes);

class LayoutsTest : public RanksTest {
 protected:
  // Sets the layout for runs on as many ranks as it names; one rank needs none.
  void Use(const std::string& text, const StateAxes& places = {}) {
    with_ = [this, text](TrainerOptions* options) {
      if (text.empty() || options->ranks->size() == 1) return;
      const auto layout = ParseLayout(text, options->ranks->size());
      ASSERT_TRUE(layout.ok()) << layout.status();
      options->sharing.layout = *layout;
      options->sharing.bucket_bytes = bucket_bytes_;
      options->sharing.cut = [this, rank = options->ranks->rank()](const Graph& graph, const StateAxes& axes,
                                                                   int degree, Communicator&, bool exact_only) {
        auto cut = CutByLaws(graph, axes, degree, exact_only, rank == 0 ? &bytes_of_step_ : nullptr);
        if (rank == 0 && cut.ok()) cut_graphs_.push_back({graph, *cut, degree, exact_only});
        return cut;
      };
    };
    json_["model"]["places"] = Json::object();
    for (const auto& [name, axis] : places) json_["model"]["places"][name] = axis;
    if (places.empty()) json_["model"].erase("places");
  }
  // Returns the configuration with the current placements.
  Json Placed(Json json) const {
    json["model"]["places"] = json_["model"]["places"];
    return json;
  }
  void UseDegree(const std::string& kind, int size, const std::string& more = "", const StateAxes& places = {}) {
    Use(absl::StrCat(kind, "=", size, more), places);
  }

  // Returns the bytes that each rank sends in a step, without those that are sent once; `planned` receives its plan's.
  std::vector<double> BytesOfRanks(const Json& json, int size, std::vector<double>* planned) {
    planned->assign(static_cast<size_t>(size), 0);
    look_ = [planned](int rank, Trainer& trainer) {
      (*planned)[static_cast<size_t>(rank)] = static_cast<double>(trainer.planned_bytes());
    };
    Json longer = json;
    const auto steps = json["steps"].get<int64_t>();
    longer["steps"] = 2 * steps;
    const std::vector<Trained> one = Train(json, size), two = Train(longer, size);
    Common(two);
    look_ = nullptr;
    std::vector<double> sent;
    for (size_t k = 0; k < one.size(); ++k) {
      sent.push_back(static_cast<double>(two[k].bytes_sent - one[k].bytes_sent) / static_cast<double>(steps));
    }
    return sent;
  }

  // Expects the weights of one rank in these layouts on as many ranks, with layers of any length.
  void ExpectBitsOfOneRank(const std::vector<std::pair<const char*, int>>& layouts) {
    Use("");
    const Trained alone = Common(Train(json_, 1));
    for (const int64_t bytes : {int64_t{25} << 20, int64_t{1} << 10}) {
      bucket_bytes_ = bytes;
      for (const auto& [layout, size] : layouts) {
        Use(layout);
        EXPECT_EQ(Common(Train(json_, size)).sha256, alone.sha256)
            << json_["model"].dump() << ", " << layout << ", " << bytes;
      }
    }
  }

  // Resumes from the checkpoint on one rank, and expects weights near these.
  void EndsAlone(int64_t steps, const NamedTensors& weights) {
    Use("");
    const Trained resumed = Common(Train(json_, 1, "ck", true));
    EXPECT_EQ(resumed.position, steps);
    EXPECT_LT(Distance(weights, resumed.weights), 1e-4);
  }

  // Returns the bytes that rank 0 sends in a step, without those that are sent once.
  double BytesOfStep(const Json& json, int size) {
    Json longer = json;
    const auto steps = json["steps"].get<int64_t>();
    longer["steps"] = 2 * steps;
    return static_cast<double>(Common(Train(longer, size)).bytes_sent - Common(Train(json, size)).bytes_sent) /
           static_cast<double>(steps);
  }

  int64_t bucket_bytes_ = 4096;
  // A graph before and after rank 0 cut it, and the number of ranks.
  struct CutGraph {
    Graph original, cut;
    int ranks = 0;
    bool exact_only = false;
  };
  std::vector<CutGraph> cut_graphs_;
  // Expects that the interpreter gives equal results for the cut and the original graph, and ranks those of the cut
  // graph.
  static void ExpectSameMeaning(const CutGraph& of_run);
  double bytes_of_step_ = 0;  // as the placements promise
};

}  // namespace rewright
