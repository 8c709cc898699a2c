#include "tools/report/graph_picture.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/base/sha256.h"
#include "nlohmann/json.hpp"
#include "report_files.h"

namespace rewright {
namespace {

using Json = nlohmann::json;

std::string NameOf(const Graph& graph, Value value) {
  const Node& node = graph.node(value.node);
  return node.name.empty() ? graph.arena()->name(value) : node.name;
}

// An operand that no run computes.
std::string KnownText(const Graph& graph, Value value) {
  const Node& node = graph.node(value.node);
  const std::string name = NameOf(graph, value), type = graph.type(value).ToString();
  const char* const kind = node.leaf == LeafKind::kConstant ? "constant"
                           : node.leaf == LeafKind::kState  ? "weight"
                                                            : "computed from weights:";
  return name.empty() ? absl::StrCat(kind, " ", type) : absl::StrCat(kind, " ", name, " ", type);
}

// As page.js reads it: [operator, type, name, attributes, region, operands, other operands, results, group, FLOPs,
// bytes].
Json NodeJson(const PicturedGraph& pictured, const absl::flat_hash_map<NodeId, int>& groups, size_t i) {
  const auto& [graph, side, costs] = pictured;
  const NodeId id = side.nodes[i];
  const Node& node = graph.node(id);
  std::string type = node.outputs[0].ToString();
  if (node.outputs.size() > 1) absl::StrAppend(&type, " and ", node.outputs.size() - 1, " more");
  std::vector<int> operands;
  std::vector<std::string> known, results;
  for (Value operand : node.operands) {
    const auto at = side.position.find(operand.node);
    if (at != side.position.end()) {
      operands.push_back(at->second);
    } else {
      known.push_back(KnownText(graph, operand));
    }
  }
  for (const Output& output : graph.outputs()) {
    if (output.value.node == id) results.push_back(output.name);
  }
  const auto group = groups.find(id);
  const GroupLine work = node.op == nullptr ? GroupLine() : WorkOf(graph, id);
  return Json::array({node.op == nullptr ? "input" : node.op->name, type, NameOf(graph, {id, 0}),
                      AttrsString(node.attrs), side.region[i], operands, absl::StrJoin(known, "; "),
                      absl::StrJoin(results, ", "), group == groups.end() ? -1 : group->second, work.flops,
                      work.bytes});
}

Json SideJson(const PicturedGraph& pictured) {
  absl::flat_hash_map<NodeId, int> of_node;
  Json nodes = Json::array(), groups = Json::array();
  for (const auto& [members, line] : pictured.costs) {
    for (NodeId id : members) of_node.emplace(id, static_cast<int>(groups.size()));
    groups.push_back({line.seconds * 1e3, line.operators, line.flops, line.bytes, line.law});
  }
  for (size_t i = 0; i < pictured.side.nodes.size(); ++i) nodes.push_back(NodeJson(pictured, of_node, i));
  return {{"nodes", std::move(nodes)}, {"groups", std::move(groups)}};
}

std::string Data(const PicturedGraph& before, const PicturedGraph* after, const GraphChanges& changes,
                 const std::string& costs) {
  Json data = {{"sides", Json::array({SideJson(before)})},
               {"pairs", Json::array()},
               {"costs", costs},
               {"regions", after == nullptr ? 0 : changes.regions},
               {"kinds", after == nullptr ? std::vector<int>() : changes.kind}};
  if (after != nullptr) {
    data["sides"].push_back(SideJson(*after));
    for (size_t i = 0; i < changes.before.nodes.size(); ++i) {
      if (changes.before.partner[i] >= 0) data["pairs"].push_back({i, changes.before.partner[i]});
    }
  }
  // No name can end the element that the data stand in.
  return absl::StrReplaceAll(data.dump(-1, ' ', false, Json::error_handler_t::replace), {{"<", "\\u003c"}});
}

constexpr char kControls[] = R"html(<div class="bar" role="toolbar" aria-label="Pictures">
<button id="previous" title="previous change (p)">&#8249; change</button>
<button id="next" title="next change (n)">change &#8250;</button>
<span id="which" class="note" aria-live="polite"></span>
<input id="search" type="search" placeholder="Search operators, names, types, attributes"
 aria-label="Search the graphs">
<span id="found" class="note" aria-live="polite"></span>
<button id="farther" title="zoom out (-)" aria-label="zoom out">&#8722;</button>
<button id="closer" title="zoom in (+)" aria-label="zoom in">+</button>
<button id="fit" title="all of it (0)">all</button>
<button id="folded" aria-pressed="false"
 title="leave out what did not change, and changes like one that is shown (f)">fold</button>
<button id="heat" aria-pressed="false" title="color by cost (h)">costs</button>
<button id="together" aria-pressed="true" title="both pictures move together">linked</button>
<button id="export" title="save the pictures as one SVG file">SVG</button>
<button id="theme" title="light or dark (t)" aria-label="light or dark">&#9680;</button>
</div>
)html";
constexpr char kKeys[] =
    R"html(<p class="note keys">Drag, scroll and pinch move and zoom; so do <kbd>&#8592;</kbd> <kbd>&#8593;</kbd>
<kbd>&#8594;</kbd> <kbd>&#8595;</kbd> <kbd>+</kbd> <kbd>-</kbd> in a picture. <kbd>j</kbd> <kbd>k</kbd> next and
previous node, <kbd>n</kbd> <kbd>p</kbd> next and previous change, <kbd>0</kbd> all of it, <kbd>f</kbd> fold,
<kbd>h</kbd> costs, <kbd>/</kbd> search, <kbd>Enter</kbd> next that was found, <kbd>t</kbd> light or dark.</p>
)html";

std::string Pane(int number, const char* title, size_t nodes) {
  return absl::StrCat("<figure><figcaption><span>", title, "</span><span>", nodes,
                      " nodes</span></figcaption><div class=\"frame\"><svg class=\"pane\" id=\"pane", number,
                      "\" tabindex=\"0\" role=\"img\" aria-label=\"", title, "\"></svg><svg class=\"map\" id=\"map",
                      number, "\" preserveAspectRatio=\"none\" aria-hidden=\"true\"></svg></div></figure>\n");
}

}  // namespace

std::string PictureMarkup(const PicturedGraph& before, const PicturedGraph* after, const GraphChanges& changes,
                          const std::string& costs) {
  std::string html = absl::StrCat("<section id=\"picture\" hidden=\"\">\n<h2>Graphs</h2>\n", kControls);
  absl::StrAppend(&html, "<div class=\"panes", after == nullptr ? " one" : "", "\">\n");
  html += Pane(0, after == nullptr ? "the graph" : "before", changes.before.nodes.size());
  if (after != nullptr) html += Pane(1, "after", changes.after.nodes.size());
  absl::StrAppend(&html, "<div id=\"about\" aria-live=\"polite\"></div>\n</div>\n", kKeys);
  absl::StrAppend(&html, "<script type=\"application/json\" id=\"graphs\">", Data(before, after, changes, costs),
                  "</script>\n</section>\n");
  return html;
}

std::string PictureScript() { return absl::StrCat("<script>", kReportScript, "</script>\n"); }

std::string PictureScriptSource() {
  return absl::StrCat("'sha256-", absl::Base64Escape(absl::HexStringToBytes(Sha256::HexOf(kReportScript))), "'");
}

std::string PageStyle() { return kReportStyle; }

}  // namespace rewright
