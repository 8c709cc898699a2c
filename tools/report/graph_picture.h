// The pictures in the report of an optimization: the graph before and after side by side, as data in the page that its
// script (report/page.js) lays out and draws.
#pragma once

#include <string>
#include <vector>

#include "core/ir/graph.h"
#include "tools/report/graph_changes.h"
#include "tools/verbs/compare/groups.h"

namespace rewright {

struct PicturedGraph {
  const Graph& graph;
  const ChangedSide& side;
  const std::vector<CostedGroup>& costs;  // empty: not known
};

// Markup: the controls, a pane for each graph, the data. Without `after`, of `before` alone. `costs` tells how they are
// known. Nothing of it shows where scripts do not run.
std::string PictureMarkup(const PicturedGraph& before, const PicturedGraph* after, const GraphChanges& changes,
                          const std::string& costs);

// The script in its element; to stand behind all that it works with.
std::string PictureScript();
// The source in a page's content security policy that lets that script run and no other: 'sha256-..'.
std::string PictureScriptSource();

// The style of the whole page.
std::string PageStyle();

}  // namespace rewright
