// The pictures of the report: two graphs side by side, laid out and drawn here from the data in #graphs.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("graphs").textContent);
  const byId = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const LAYER = 58, HEIGHT = 36, GAP = 14, COLORS = 8;
  const DETAIL = 0.35;  // scale below which boxes have no text

  // Data: {sides: [{nodes: [[op, type, name, attributes, region, operands, other operands, results]]}], pairs, regions}.
  const sides = data.sides.map((side) => side.nodes.map((n, i) => ({
    index: i, op: n[0], type: n[1], name: n[2], attrs: n[3], region: n[4], operands: n[5], known: n[6], results: n[7],
    width: Math.max(56, 7.4 * n[0].length, 5.8 * n[1].length) + 16, partner: -1})));
  for (const [a, b] of data.pairs) {
    sides[0][a].partner = b;
    sides[1][b].partner = a;
  }

  // ---- layers: a node lies below its operands; one that is in both graphs lies at the same height in both.
  function layers(together) {
    const key = (side, i) => together && side === 1 && sides[1][i].partner >= 0 ? "0:" + sides[1][i].partner : side + ":" + i;
    const below = new Map(), waits = new Map(), layer = new Map();
    sides.forEach((nodes, side) => nodes.forEach((n) => {
      const k = key(side, n.index);
      if (!waits.has(k)) waits.set(k, 0);
      for (const o of n.operands) {
        const from = key(side, o);
        if (!below.has(from)) below.set(from, []);
        below.get(from).push(k);
        waits.set(k, waits.get(k) + 1);
      }
    }));
    const ready = [...waits.keys()].filter((k) => waits.get(k) === 0);
    ready.forEach((k) => layer.set(k, 0));
    for (let at = 0; at < ready.length; ++at) {
      for (const k of below.get(ready[at]) || []) {
        layer.set(k, Math.max(layer.get(k) || 0, layer.get(ready[at]) + 1));
        waits.set(k, waits.get(k) - 1);
        if (waits.get(k) === 0) ready.push(k);
      }
    }
    if (ready.length < waits.size) return together ? layers(false) : null;
    sides.forEach((nodes, side) => nodes.forEach((n) => { n.layer = layer.get(key(side, n.index)); }));
    return true;
  }
  layers(sides.length > 1);

  // ---- a picture: nodes, and bends of long edges, in rows; neighbours near each other.
  function layOut(nodes) {
    const rows = [], put = (vertex) => (rows[vertex.layer] = rows[vertex.layer] || []).push(vertex);
    const edges = [];  // [from, to] vertices of neighbouring layers, for the order
    nodes.forEach((n) => { n.up = []; n.down = []; });
    nodes.forEach(put);
    const join = (from, to) => {
      from.down.push(to);
      to.up.push(from);
    };
    const last = nodes.map((n) => n.layer);
    for (const n of nodes) for (const o of n.operands) last[o] = Math.max(last[o], n.layer);
    const bends = nodes.map(() => []);
    nodes.forEach((n) => {  // one line per value, from which its readers branch off
      for (let l = n.layer + 1; l < last[n.index]; ++l) {
        const bend = {layer: l, width: 8, up: [], down: [], of: n};
        put(bend);
        join(l === n.layer + 1 ? n : bends[n.index][bends[n.index].length - 1], bend);
        bends[n.index].push(bend);
      }
    });
    for (const n of nodes) {
      for (const o of new Set(n.operands)) {
        const from = nodes[o], line = bends[o];
        join(n.layer - 1 === from.layer ? from : line[n.layer - from.layer - 2], n);
        edges.push({from, to: n, line: line.slice(0, n.layer - from.layer - 1)});
      }
    }
    for (let l = 0; l < rows.length; ++l) rows[l] = rows[l] || [];
    const mean = (list, otherwise) => list.length ? list.reduce((sum, v) => sum + v.x, 0) / list.length : otherwise;
    const place = (row) => {  // as near as the gaps allow to where each wants to be
      row.sort((a, b) => a.want - b.want);
      let moved = 0;
      row.forEach((v, i) => {
        const left = i ? row[i - 1].x + (row[i - 1].width + v.width) / 2 + GAP : -Infinity;
        v.x = Math.max(v.want, left);
        moved += v.x - v.want;
      });
      if (row.length) row.forEach((v) => { v.x -= moved / row.length; });
    };
    rows.forEach((row) => {
      row.forEach((v, i) => { v.want = mean(v.up, i * 90); });
      place(row);
    });
    for (let sweep = 0; sweep < 6; ++sweep) {
      const upwards = sweep % 2 === 0;
      for (const row of upwards ? rows.slice().reverse() : rows) {
        row.forEach((v) => { v.want = mean(upwards ? v.down : v.up, v.x); });
        place(row);
      }
    }
    nodes.forEach((n) => { n.y = n.layer * LAYER; });
    return edges.map(({from, to, line}) => {
      let d = `M${from.x.toFixed(1)} ${from.y + HEIGHT / 2}`, x = from.x, y = from.y + HEIGHT / 2;
      const bend = (toX, toY) => {
        const half = (y + toY) / 2;
        d += `C${x.toFixed(1)} ${half} ${toX.toFixed(1)} ${half} ${toX.toFixed(1)} ${toY}`;
        x = toX;
        y = toY;
      };
      line.forEach((v) => {
        bend(v.x, v.layer * LAYER - HEIGHT / 2);
        d += `V${v.layer * LAYER + HEIGHT / 2}`;
        y = v.layer * LAYER + HEIGHT / 2;
      });
      bend(to.x, to.y - HEIGHT / 2);
      const changed = from.region >= 0 ? from.region : to.region;
      return {d, region: changed, x0: Math.min(from.x, to.x, ...line.map((v) => v.x)), y0: from.y,
              x1: Math.max(from.x, to.x, ...line.map((v) => v.x)), y1: to.y};
    });
  }

  const make = (tag, attributes, parent) => {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (parent) parent.appendChild(element);
    return element;
  };

  // ---- panes
  let chosen = null, region = -1, hits = [], hit = -1, linked = true;
  const hitSet = new Set();

  class Pane {
    constructor(side) {
      this.side = side;
      this.nodes = sides[side];
      this.edges = layOut(this.nodes);
      this.svg = byId("pane" + side);
      this.layer = make("g", {}, this.svg);
      this.view = {x: 0, y: 0, k: 1};
      this.pointers = new Map();
      this.waiting = false;
      this.listen();
    }
    size() {
      return [this.svg.clientWidth || 400, this.svg.clientHeight || 400];
    }
    bounds(nodes) {
      const list = nodes.length ? nodes : this.nodes;
      const box = {x0: Infinity, y0: Infinity, x1: -Infinity, y1: -Infinity};
      for (const n of list) {
        box.x0 = Math.min(box.x0, n.x - n.width / 2);
        box.x1 = Math.max(box.x1, n.x + n.width / 2);
        box.y0 = Math.min(box.y0, n.y - HEIGHT / 2);
        box.y1 = Math.max(box.y1, n.y + HEIGHT / 2);
      }
      return box;
    }
    show(box, most) {
      const [width, height] = this.size(), margin = 30;
      const k = Math.min(most, (width - margin) / (box.x1 - box.x0 || 1), (height - margin) / (box.y1 - box.y0 || 1));
      this.view = {k: Math.max(k, 0.004), x: 0, y: 0};
      this.view.x = width / 2 - (box.x0 + box.x1) / 2 * this.view.k;
      this.view.y = height / 2 - (box.y0 + box.y1) / 2 * this.view.k;
      this.draw();
    }
    start() {  // readable at the top; the whole where it fits
      const box = this.bounds([]), [width, height] = this.size();
      const k = Math.min(1, (width - 30) / (box.x1 - box.x0), (height - 30) / (box.y1 - box.y0));
      if (k >= 0.5) return this.show(box, 1);
      const first = this.nodes.filter((n) => n.layer < 10), top = this.bounds(first);
      this.show({x0: top.x0, x1: top.x1, y0: top.y0, y1: top.y0 + Math.min(top.y1 - top.y0, height * 1.2)}, 1);
    }
    zoom(factor, x, y) {
      const k = Math.min(4, Math.max(0.004, this.view.k * factor)), real = k / this.view.k;
      this.view = {k, x: x - (x - this.view.x) * real, y: y - (y - this.view.y) * real};
      this.draw();
    }
    pan(x, y) {
      this.view.x += x;
      this.view.y += y;
      this.draw();
    }
    draw() {
      if (this.waiting) return;
      this.waiting = true;
      requestAnimationFrame(() => {
        this.waiting = false;
        this.paint();
      });
    }
    paint() {
      const {x, y, k} = this.view, [width, height] = this.size();
      this.layer.setAttribute("transform", `translate(${x.toFixed(2)} ${y.toFixed(2)}) scale(${k.toFixed(5)})`);
      const view = {x0: -x / k, y0: -y / k, x1: (width - x) / k, y1: (height - y) / k};
      const seen = (b) => b.x1 >= view.x0 && b.x0 <= view.x1 && b.y1 >= view.y0 && b.y0 <= view.y1;
      const paths = new Map();
      for (const e of this.edges) {
        if (!seen(e)) continue;
        const style = e.region < 0 ? "" : "changed c" + e.region % COLORS;
        paths.set(style, (paths.get(style) || "") + e.d);
      }
      const shapes = [...paths].map(([style, d]) => make("path", {class: style, d}));
      const visible = this.nodes.filter((n) => seen({x0: n.x - n.width / 2, x1: n.x + n.width / 2, y0: n.y - HEIGHT / 2, y1: n.y + HEIGHT / 2}));
      if (k < DETAIL) {
        const boxes = new Map(), grow = Math.max(0, 2.5 / k - HEIGHT) / 2;  // never thinner than a line
        for (const n of visible) {
          const style = this.isChosen(n) ? "chosen" : hitSet.has(n) ? "hits" : n.region >= 0 ? "changed c" + n.region % COLORS : "";
          boxes.set(style, (boxes.get(style) || "") + `M${(n.x - n.width / 2).toFixed(1)} ${n.y - HEIGHT / 2 - grow}h${n.width.toFixed(1)}v${HEIGHT + 2 * grow}h${(-n.width).toFixed(1)}z`);
        }
        for (const [style, d] of boxes) shapes.push(make("path", {class: "boxes " + style, d}));
      } else {
        for (const n of visible) shapes.push(this.box(n));
      }
      this.layer.replaceChildren(...shapes);
    }
    isChosen(n) {
      return chosen !== null && (chosen.node === n || (chosen.side !== this.side && chosen.node.partner === n.index));
    }
    box(n) {
      let style = n.region >= 0 ? "changed c" + n.region % COLORS : "";
      if (n.region >= 0 && n.region === region) style += " now";
      if (hitSet.has(n)) style += " hit";
      if (this.isChosen(n)) style += " chosen";
      const g = make("g", {class: style, "data-node": n.index, transform: `translate(${n.x.toFixed(1)} ${n.y})`});
      make("rect", {x: (-n.width / 2).toFixed(1), y: -HEIGHT / 2, width: n.width.toFixed(1), height: HEIGHT, rx: n.op === "input" ? 18 : 5}, g);
      make("text", {y: -2}, g).textContent = n.op;
      make("text", {y: 12, class: "type"}, g).textContent = n.type;
      return g;
    }
    at(x, y) {  // the node under a point of the pane, with a finger's width around it where boxes are small
      const px = (x - this.view.x) / this.view.k, py = (y - this.view.y) / this.view.k, near = 6 / this.view.k;
      let best = null, least = near;
      for (const n of this.nodes) {
        const away = Math.max(Math.abs(px - n.x) - n.width / 2, Math.abs(py - n.y) - HEIGHT / 2, 0);
        if (away < least || away === 0) [best, least] = [n, away];
      }
      return best;
    }
    listen() {
      const local = (event) => {
        const rectangle = this.svg.getBoundingClientRect();
        return [event.clientX - rectangle.left, event.clientY - rectangle.top];
      };
      this.svg.addEventListener("pointerdown", (event) => {
        this.svg.setPointerCapture(event.pointerId);
        this.pointers.set(event.pointerId, local(event));
        if (this.pointers.size === 1) this.pressed = {at: local(event), moved: false};
        else if (this.pressed) this.pressed.moved = true;
        this.svg.classList.add("moving");
      });
      this.svg.addEventListener("pointermove", (event) => {
        const before = this.pointers.get(event.pointerId);
        if (!before) return;
        const now = local(event), others = [...this.pointers.entries()].filter(([id]) => id !== event.pointerId);
        if (this.pressed && Math.hypot(now[0] - this.pressed.at[0], now[1] - this.pressed.at[1]) > 4) this.pressed.moved = true;
        if (others.length) {
          const other = others[0][1], distance = (p) => Math.hypot(p[0] - other[0], p[1] - other[1]) || 1;
          both(this, (p) => p.zoom(distance(now) / distance(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2));
        } else if (this.pressed && this.pressed.moved) {
          both(this, (p) => p.pan(now[0] - before[0], now[1] - before[1]));
        }
        this.pointers.set(event.pointerId, now);
      });
      const release = (event) => {
        if (!this.pointers.delete(event.pointerId)) return;
        if (this.pointers.size) return;
        this.svg.classList.remove("moving");
        if (event.type === "pointerup" && this.pressed && !this.pressed.moved) choose(this, this.at(...local(event)));
      };
      this.svg.addEventListener("pointerup", release);
      this.svg.addEventListener("pointercancel", release);
      this.svg.addEventListener("wheel", (event) => {
        event.preventDefault();
        const [x, y] = local(event), step = event.deltaMode === 1 ? 20 : 1;
        if (event.ctrlKey || event.metaKey) both(this, (p) => p.zoom(Math.exp(-event.deltaY * step * 0.01), x, y));
        else if (event.shiftKey && !event.deltaX) both(this, (p) => p.pan(-event.deltaY * step, 0));
        else both(this, (p) => p.pan(-event.deltaX * step, -event.deltaY * step));
      }, {passive: false});
      this.svg.addEventListener("keydown", (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        const [width, height] = this.size();
        const action = {
          ArrowLeft: () => both(this, (p) => p.pan(80, 0)),
          ArrowRight: () => both(this, (p) => p.pan(-80, 0)),
          ArrowUp: () => both(this, (p) => p.pan(0, 80)),
          ArrowDown: () => both(this, (p) => p.pan(0, -80)),
          PageUp: () => both(this, (p) => p.pan(0, height * 0.8)),
          PageDown: () => both(this, (p) => p.pan(0, -height * 0.8)),
          "+": () => both(this, (p) => p.zoom(1.3, width / 2, height / 2)),
          "=": () => both(this, (p) => p.zoom(1.3, width / 2, height / 2)),
          "-": () => both(this, (p) => p.zoom(1 / 1.3, width / 2, height / 2)),
          j: () => step(this, 1),
          k: () => step(this, -1),
        }[event.key];
        if (!action) return;
        event.preventDefault();
        action();
      });
    }
  }

  const panes = sides.map((_, side) => new Pane(side));
  const both = (pane, f) => (linked ? panes : [pane]).forEach(f);
  const redraw = () => panes.forEach((p) => p.draw());

  // ---- what is chosen
  const about = byId("about");
  function describe(rows) {
    const list = document.createElement("dl");
    for (const [term, text] of rows) {
      if (!text) continue;
      list.appendChild(document.createElement("dt")).textContent = term;
      list.appendChild(document.createElement("dd")).textContent = text;
    }
    about.replaceChildren(list);
  }
  const stepsOf = (r) => [...document.querySelectorAll(`button.place[data-region="${r}"]`)].map((b) => b.dataset.rule);
  function counts(list) {
    const all = new Map();
    list.forEach((rule) => all.set(rule, (all.get(rule) || 0) + 1));
    return [...all].map(([rule, count]) => count > 1 ? `${rule} (${count} times)` : rule).join(", ");
  }
  function choose(pane, node) {
    chosen = node ? {side: pane.side, node} : null;
    if (node) {
      const where = sides.length < 2 ? "" : node.region < 0 ? ", in both graphs" : pane.side === 0 ? ", before alone" : ", after alone";
      describe([["operator", node.op + where], ["result", node.type], ["name", node.name], ["attributes", node.attrs],
                ["reads", node.operands.map((o) => pane.nodes[o].name || pane.nodes[o].op).concat(node.known ? [node.known] : []).join("; ")],
                ["is a result", node.results],
                ["change", node.region < 0 ? "" : `${node.region + 1} of ${data.regions}: ${counts(stepsOf(node.region))}`]]);
    } else {
      about.textContent = "";
    }
    redraw();
  }
  // The place in another pane that answers to a node: its partner, the nodes of its change, or the nearest that has a partner.
  function answering(pane, node) {
    if (node.partner >= 0) return pane.nodes[node.partner];
    const changed = pane.nodes.filter((n) => node.region >= 0 && n.region === node.region);
    if (changed.length) {
      const box = pane.bounds(changed);
      return {x: (box.x0 + box.x1) / 2, y: (box.y0 + box.y1) / 2};
    }
    const own = panes[1 - pane.side].nodes.filter((n) => n.partner >= 0);
    if (!own.length) return node;
    const near = own.reduce((a, b) => Math.abs(b.index - node.index) < Math.abs(a.index - node.index) ? b : a);
    return pane.nodes[near.partner];
  }
  function reveal(pane, node) {  // move as little as needed
    const [width, height] = pane.size(), k = Math.max(pane.view.k, 0.6);
    panes.forEach((p) => {
      if (p !== pane && !linked) return;
      const to = p === pane ? node : answering(p, node);
      p.view = {k, x: width / 2 - to.x * k, y: height / 2 - to.y * k};
    });
    redraw();
  }
  function step(pane, by) {
    const at = chosen && chosen.side === pane.side ? chosen.node.index + by : 0;
    const node = pane.nodes[Math.min(pane.nodes.length - 1, Math.max(0, at))];
    choose(pane, node);
    reveal(pane, node);
  }

  // ---- changes
  const showRegion = (r) => {
    region = r;
    const parts = panes.map((p) => p.nodes.filter((n) => n.region === r));
    const boxes = panes.map((p, i) => parts[i].length ? p.bounds(parts[i]) : null);
    const [a, b] = [boxes[0] || boxes[1], boxes[1] || boxes[0]];
    if (!a) return;
    const [width, height] = panes[0].size();
    const high = Math.max(a.y1, b.y1) - Math.min(a.y0, b.y0), wide = Math.max(a.x1 - a.x0, b.x1 - b.x0);
    const k = Math.max(0.02, Math.min(1, (width - 60) / wide, (height - 60) / high)), y = (Math.min(a.y0, b.y0) + Math.max(a.y1, b.y1)) / 2;
    panes.forEach((p, i) => {
      const box = i ? b : a;
      p.view = {k, x: width / 2 - (box.x0 + box.x1) / 2 * k, y: height / 2 - y * k};
    });
    describe([["change", `${r + 1} of ${data.regions}`], ["rewrites", counts(stepsOf(r))],
              ["before", counts(parts[0].map((n) => n.op)) || "nothing"],
              ["after", counts((parts[1] || []).map((n) => n.op)) || "nothing"]]);
    byId("which").textContent = `change ${r + 1} of ${data.regions}`;
    redraw();
  };
  const nextRegion = (by) => {
    if (data.regions) showRegion(region < 0 ? (by > 0 ? 0 : data.regions - 1) : (region + by + data.regions) % data.regions);
  };

  // ---- search
  const input = byId("search");
  function search() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    hits = words.length ? panes.flatMap((p) => p.nodes.filter((n) => {
      const text = `${n.op} ${n.type} ${n.name} ${n.attrs} ${n.results}`.toLowerCase();
      return words.every((word) => text.includes(word));
    }).map((node) => ({pane: p, node}))) : [];
    hitSet.clear();
    hits.forEach((h) => hitSet.add(h.node));
    hit = -1;
    byId("found").textContent = words.length ? `${hits.length} found` : "";
    redraw();
  }
  function nextHit(by) {
    if (!hits.length) return;
    hit = (hit + by + hits.length) % hits.length;
    choose(hits[hit].pane, hits[hit].node);
    reveal(hits[hit].pane, hits[hit].node);
    byId("found").textContent = `${hit + 1} of ${hits.length}, ${sides.length < 2 ? "" : hits[hit].pane.side ? "after" : "before"}`;
  }

  // ---- controls
  const fit = () => panes.forEach((p) => p.show(p.bounds([]), 1));
  const zoomAll = (factor) => panes.forEach((p) => p.zoom(factor, p.size()[0] / 2, p.size()[1] / 2));
  const click = (id, f) => byId(id).addEventListener("click", f);
  click("previous", () => nextRegion(-1));
  click("next", () => nextRegion(1));
  click("fit", fit);
  click("closer", () => zoomAll(1.4));
  click("farther", () => zoomAll(1 / 1.4));
  click("theme", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  click("together", () => {
    linked = !linked;
    byId("together").setAttribute("aria-pressed", String(linked));
  });
  input.addEventListener("input", search);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") nextHit(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") {
      input.value = "";
      search();
      panes[0].svg.focus();
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.target === input || event.ctrlKey || event.metaKey || event.altKey) return;
    const action = {n: () => nextRegion(1), p: () => nextRegion(-1), 0: fit, "/": () => input.focus(), t: () => byId("theme").click(),
                    Escape: () => choose(panes[0], null)}[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
  for (const button of document.querySelectorAll("button.place")) {
    button.addEventListener("click", () => {
      showRegion(Number(button.dataset.region));
      byId("picture").scrollIntoView({block: "start"});
    });
  }
  if (!data.regions) {
    byId("previous").disabled = byId("next").disabled = true;
  } else {
    byId("which").textContent = `${data.regions} change${data.regions > 1 ? "s" : ""}`;
  }
  byId("picture").hidden = false;
  panes.forEach((p) => p.start());
  new ResizeObserver(redraw).observe(byId("picture"));
})();
