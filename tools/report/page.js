// The pictures of the report: two graphs side by side, laid out and drawn here from the data in #graphs.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("graphs").textContent);
  const byId = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const LAYER = 72, HEIGHT = 50, GAP = 14, COLORS = 8, HEATS = 6;
  const DETAIL = 0.35;  // scale below which boxes have no text
  const FOLDED = 60;    // nodes above which a graph is shown folded at first, where that hides half of it

  const number = (x) => {  // three digits, with a prefix of the metric system
    const at = ["", " k", " M", " G", " T", " P"], k = x < 1000 ? 0 : Math.min(5, Math.floor(Math.log10(x) / 3));
    return `${Number((x / 1000 ** k).toPrecision(3))}${at[k] || " "}`;
  };
  const milliseconds = (ms) => `${Number(ms.toPrecision(3))} ms`;

  // Data: {sides: [{nodes: [[op, type, name, attributes, region, operands, other operands, results, group, FLOPs,
  // bytes]], groups: [[ms, operators, FLOPs, bytes, law]]}], pairs, regions, kinds, costs}.
  const most = Math.max(0, ...data.sides.flatMap((side) => side.groups.map((g) => g[0])));
  const sides = data.sides.map((side) => side.nodes.map((n, i) => {
    const group = side.groups[n[8]] || null;
    const work = n[9] || n[10] ? `${number(n[9])}FLOP, ${number(n[10])}B` : "";
    return {
      index: i, op: n[0], type: n[1], name: n[2], attrs: n[3], region: n[4], operands: n[5], known: n[6], results: n[7],
      group, flops: n[9], bytes: n[10], work, partner: -1,
      heat: group && most ? Math.round((HEATS - 1) * Math.sqrt(group[0] / most)) : 0,
      width: Math.max(56, 7.4 * n[0].length, 5.8 * n[1].length, 4.9 * work.length) + 16};
  }));
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

  // ---- folding: rows of what did not change, and of changes like one that is shown, become one box on each side.
  let folded = false, region = -1;
  const opened = new Set();  // layers that are shown all the same
  const layersOf = (r) => sides.flatMap((nodes) => nodes.filter((n) => n.region === r).map((n) => n.layer));
  const firsts = new Set(data.kinds.map((kind) => kind));
  const depth = 1 + Math.max(0, ...sides.flatMap((nodes) => nodes.map((n) => n.layer)));
  function foldLayers() {  // [first, last] of each closed run of layers
    const kept = new Set([...opened, 0]);
    const keep = (l) => [l - 1, l, l + 1].forEach((k) => kept.add(k));
    sides.forEach((nodes) => nodes.forEach((n) => { if (firsts.has(n.region) || (n.region >= 0 && n.region === region)) keep(n.layer); }));
    const runs = [];
    for (let l = 0; l < depth; ++l) {
      if (kept.has(l)) continue;
      const last = runs[runs.length - 1];
      if (last && last[1] === l - 1) last[1] = l;
      else runs.push([l, l]);
    }
    return runs.filter(([first, last]) => last - first >= 2);
  }
  const hiddenBy = (runs) => sides.reduce((sum, nodes) => sum + nodes.filter((n) => runs.some(([a, b]) => n.layer >= a && n.layer <= b)).length, 0);
  function boxOf(run, row) {
    return {run, row, op: "", type: "", work: "", region: -1, partner: -1, heat: 0, count: 0, changes: new Set(), width: 0};
  }
  function name(box) {
    const kinds = new Set([...box.changes].map((r) => data.kinds[r]));
    box.op = `${box.count} nodes`;
    box.type = !box.changes.size ? "unchanged" : kinds.size === 1 ? `${box.changes.size} times the same as change ${[...kinds][0] + 1}`
      : `${box.changes.size} changes of ${kinds.size} kinds that are shown`;
    box.work = "click to unfold";
    box.width = 5.8 * box.type.length + 24;
  }

  // ---- a picture: nodes, and bends of long edges, in rows; neighbours near each other.
  function layOut(nodes) {
    const rows = [], put = (vertex) => (rows[vertex.row] = rows[vertex.row] || []).push(vertex);
    const edges = [];  // [from, to] vertices of neighbouring layers, for the order
    nodes.forEach((n) => { n.up = []; n.down = []; });
    nodes.forEach(put);
    const join = (from, to) => {
      from.down.push(to);
      to.up.push(from);
    };
    const last = new Map(nodes.map((n) => [n, n.row])), bends = new Map(nodes.map((n) => [n, []]));
    for (const n of nodes) for (const o of n.reads) last.set(o, Math.max(last.get(o), n.row));
    nodes.forEach((n) => {  // one line per value, from which its readers branch off
      const line = bends.get(n);
      for (let l = n.row + 1; l < last.get(n); ++l) {
        const bend = {row: l, width: 8, up: [], down: [], of: n};
        put(bend);
        join(line.length ? line[line.length - 1] : n, bend);
        line.push(bend);
      }
    });
    for (const n of nodes) {
      for (const from of n.reads) {
        const line = bends.get(from);
        join(n.row - 1 === from.row ? from : line[n.row - from.row - 2], n);
        edges.push({from, to: n, line: line.slice(0, n.row - from.row - 1)});
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
    nodes.forEach((n) => { n.y = n.row * LAYER; });
    return edges.map(({from, to, line}) => {
      let d = `M${from.x.toFixed(1)} ${from.y + HEIGHT / 2}`, x = from.x, y = from.y + HEIGHT / 2;
      const bend = (toX, toY) => {
        const half = (y + toY) / 2;
        d += `C${x.toFixed(1)} ${half} ${toX.toFixed(1)} ${half} ${toX.toFixed(1)} ${toY}`;
        x = toX;
        y = toY;
      };
      line.forEach((v) => {
        bend(v.x, v.row * LAYER - HEIGHT / 2);
        d += `V${v.row * LAYER + HEIGHT / 2}`;
        y = v.row * LAYER + HEIGHT / 2;
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
  let chosen = null, hits = [], hit = -1, linked = true, heat = false;
  const hitSet = new Set();

  class Pane {
    constructor(side) {
      this.side = side;
      this.nodes = sides[side];
      this.svg = byId("pane" + side);
      this.map = byId("map" + side);
      this.layer = make("g", {}, this.svg);
      this.view = {x: 0, y: 0, k: 1};
      this.pointers = new Map();
      this.waiting = false;
      this.listen();
    }
    arrange(runs) {  // rows without those that are folded
      const box = [], rows = [];
      for (let l = 0, row = 0; l < depth; ++l) {
        const run = runs.find(([first, end]) => l >= first && l <= end);
        rows[l] = run && l > run[0] ? row - 1 : row++;
        box[l] = run && l > run[0] ? box[l - 1] : run ? boxOf(run, rows[l]) : null;
      }
      this.nodes.forEach((n) => {
        n.item = box[n.layer] || n;
        n.row = rows[n.layer];
        n.reads = new Set();
        if (n.item === n) return;
        n.item.reads = n.item.reads || new Set();
        ++n.item.count;
        if (n.region >= 0) n.item.changes.add(n.region);
      });
      this.nodes.forEach((n) => n.operands.forEach((o) => {
        if (this.nodes[o].item !== n.item) n.item.reads.add(this.nodes[o].item);
      }));
      this.items = [...new Set(this.nodes.map((n) => n.item))];
      this.items.forEach((item) => { if (item.run) name(item); });
      this.edges = layOut(this.items);
      this.drawMap();
    }
    drawMap() {
      const box = this.extent = this.bounds([]), tall = (box.y1 - box.y0) / (this.map.clientHeight || 400);
      this.map.setAttribute("viewBox", `${box.x0} ${box.y0} ${box.x1 - box.x0} ${box.y1 - box.y0}`);
      const paths = new Map(), high = Math.max(HEIGHT, 2 * tall);
      for (const n of this.items) {
        const style = "boxes" + this.color(n);
        paths.set(style, (paths.get(style) || "") + `M${(n.x - n.width / 2).toFixed(0)} ${(n.y - high / 2).toFixed(0)}h${n.width.toFixed(0)}v${high.toFixed(0)}h${(-n.width).toFixed(0)}z`);
      }
      this.seen = make("rect", {class: "seen"});
      this.map.replaceChildren(...[...paths].map(([style, d]) => make("path", {class: style, d})), this.seen);
    }
    color(n) {  // of a box: its heat, or its change
      return heat ? " hot h" + n.heat : n.region >= 0 ? " changed c" + n.region % COLORS : n.run && n.changes.size ? " folded" : "";
    }
    size() {
      return [this.svg.clientWidth || 400, this.svg.clientHeight || 400];
    }
    bounds(nodes) {
      const list = nodes.length ? nodes : this.items;
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
      const first = this.items.filter((n) => n.row < 10), top = this.bounds(first);
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
      this.seen.setAttribute("x", view.x0);
      this.seen.setAttribute("y", view.y0);
      this.seen.setAttribute("width", view.x1 - view.x0);
      this.seen.setAttribute("height", view.y1 - view.y0);
      const seen = (b) => b.x1 >= view.x0 && b.x0 <= view.x1 && b.y1 >= view.y0 && b.y0 <= view.y1;
      const shapes = this.lines(this.edges.filter(seen));
      const visible = this.items.filter((n) => seen({x0: n.x - n.width / 2, x1: n.x + n.width / 2, y0: n.y - HEIGHT / 2, y1: n.y + HEIGHT / 2}));
      if (k < DETAIL) {
        const boxes = new Map(), grow = Math.max(0, 2.5 / k - HEIGHT) / 2;  // never thinner than a line
        for (const n of visible) {
          const style = this.isChosen(n) ? " chosen" : hitSet.has(n) ? " hits" : this.color(n);
          boxes.set(style, (boxes.get(style) || "") + `M${(n.x - n.width / 2).toFixed(1)} ${n.y - HEIGHT / 2 - grow}h${n.width.toFixed(1)}v${HEIGHT + 2 * grow}h${(-n.width).toFixed(1)}z`);
        }
        for (const [style, d] of boxes) shapes.push(make("path", {class: "boxes" + style, d}));
      } else {
        for (const n of visible) shapes.push(this.box(n));
      }
      this.layer.replaceChildren(...shapes);
    }
    lines(edges) {
      const paths = new Map();
      for (const e of edges) {
        const style = e.region < 0 ? "" : "changed c" + e.region % COLORS;
        paths.set(style, (paths.get(style) || "") + e.d);
      }
      return [...paths].map(([style, d]) => make("path", {class: style, d}));
    }
    whole() {  // all of it with texts, for a file
      const g = make("g", {}, this.svg);
      g.append(...this.lines(this.edges), ...this.items.map((n) => this.box(n)));
      return g;
    }
    isChosen(n) {
      return chosen !== null && (chosen.node === n || (chosen.side !== this.side && chosen.node.partner === n.index));
    }
    box(n) {
      let style = this.color(n).slice(1);
      if (n.region >= 0 && n.region === region) style += " now";
      if (hitSet.has(n)) style += " hit";
      if (this.isChosen(n)) style += " chosen";
      const g = make("g", {class: n.run ? style + " run" : style, "data-node": n.run ? "" : n.index, transform: `translate(${n.x.toFixed(1)} ${n.y})`});
      make("rect", {x: (-n.width / 2).toFixed(1), y: -HEIGHT / 2, width: n.width.toFixed(1), height: HEIGHT, rx: n.op === "input" ? 18 : 5}, g);
      make("text", {y: -9}, g).textContent = n.op;
      make("text", {y: 5, class: "type"}, g).textContent = n.type;
      make("text", {y: 18, class: "type work"}, g).textContent = heat && n.group ? milliseconds(n.group[0]) : n.work;
      return g;
    }
    at(x, y) {  // the node under a point of the pane, with a finger's width around it where boxes are small
      const px = (x - this.view.x) / this.view.k, py = (y - this.view.y) / this.view.k, near = 6 / this.view.k;
      let best = null, least = near;
      for (const n of this.items) {
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
      const go = (event) => {  // to where the map was pressed
        const at = this.map.getBoundingClientRect(), [width, height] = this.size(), box = this.extent;
        const x = box.x0 + (event.clientX - at.left) / at.width * (box.x1 - box.x0);
        const y = box.y0 + (event.clientY - at.top) / at.height * (box.y1 - box.y0), k = this.view.k;
        const [dx, dy] = [width / 2 - x * k - this.view.x, height / 2 - y * k - this.view.y];
        both(this, (p) => p.pan(dx, dy));
      };
      this.map.addEventListener("pointerdown", (event) => {
        this.map.setPointerCapture(event.pointerId);
        go(event);
      });
      this.map.addEventListener("pointermove", (event) => { if (event.buttons) go(event); });
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
        if (event.type === "pointerup" && this.pressed && !this.pressed.moved) press(this, this.at(...local(event)));
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
  function arrange() {
    const runs = folded ? foldLayers() : [];
    panes.forEach((p) => p.arrange(runs));
    byId("folded").setAttribute("aria-pressed", String(folded));
  }
  function unfold(node) {  // what hides it
    if (node.item === node) return;
    const [first, last] = node.item.run;
    for (let l = Math.max(first, node.layer - 2); l <= Math.min(last, node.layer + 2); ++l) opened.add(l);
    arrange();
  }
  function press(pane, item) {
    if (!item || !item.run) return choose(pane, item);
    const under = pane.view.y + item.y * pane.view.k;  // what was pressed stays there
    for (let l = item.run[0]; l <= item.run[1]; ++l) opened.add(l);
    arrange();
    const y = under - item.y * pane.view.k;
    both(pane, (p) => { p.view.y = y; });
    redraw();
  }

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
                ["costs", node.group ? `${milliseconds(node.group[0])}, ${data.costs}${node.group[1] === node.op ? "" : "; with " + node.group[1]}${node.group[4] ? " by the law " + node.group[4] : ""}` : ""],
                ["computes", node.flops ? number(node.flops) + "FLOP" : ""], ["moves", node.bytes ? number(node.bytes) + "B" : ""],
                ["change", node.region < 0 ? "" : `${node.region + 1} of ${data.regions}: ${counts(stepsOf(node.region))}`]]);
    } else {
      about.textContent = "";
    }
    redraw();
  }
  // What the other pane shows of a node: the same node, the change that it is part of, or what lies at its height.
  function counterpart(pane, node) {
    const middle = (nodes) => {
      const box = pane.bounds(nodes.map((n) => n.item));
      return {x: (box.x0 + box.x1) / 2, y: node.item.y};
    };
    if (node.partner >= 0) return pane.nodes[node.partner].item;
    const same = pane.nodes.filter((n) => n.region === node.region);
    if (node.region >= 0 && same.length) return middle(same);
    const near = pane.nodes.reduce((best, n) => Math.abs(n.layer - node.layer) < Math.abs(best.layer - node.layer) ? n : best);
    return middle([near]);
  }
  function reveal(pane, node) {  // move as little as needed
    unfold(node);
    const [width, height] = pane.size(), k = Math.max(pane.view.k, 0.6);
    panes.forEach((p) => {
      if (p !== pane && !linked) return;
      const to = p === pane ? node : counterpart(p, node);
      p.view = {k, x: width / 2 - to.x * k, y: height / 2 - to.y * k};
    });
    redraw();
  }
  function step(pane, by) {
    const inChange = pane.nodes.findIndex((n) => n.region >= 0 && n.region === region);
    const at = chosen && chosen.side === pane.side ? chosen.node.index + by
      : chosen && chosen.node.partner >= 0 ? chosen.node.partner + by : Math.max(0, inChange);
    const node = pane.nodes[Math.min(pane.nodes.length - 1, Math.max(0, at))];
    choose(pane, node);
    reveal(pane, node);
  }

  // ---- changes
  const showRegion = (r) => {
    region = r;
    chosen = null;
    if (folded) arrange();
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
    const alike = data.kinds.filter((kind) => kind === data.kinds[r]).length;
    describe([["change", `${r + 1} of ${data.regions}`], ["in all", alike > 1 ? `${alike} times the same change` : ""],
              ["rewrites", counts(stepsOf(r))],
              ["before", counts(parts[0].map((n) => n.op)) || "nothing"],
              ["after", counts((parts[1] || []).map((n) => n.op)) || "nothing"]]);
    byId("which").textContent = `change ${r + 1} of ${data.regions}`;
    redraw();
  };
  const nextRegion = (by) => {
    if (!data.regions) return;
    showRegion(region < 0 ? (by > 0 ? 0 : data.regions - 1) : (region + by + data.regions) % data.regions);
    history.replaceState(null, "", `#change-${region + 1}`);
  };
  const linkedRegion = () => {  // that the address names
    const at = /^#change-(\d+)$/.exec(location.hash);
    return at && at[1] >= 1 && at[1] <= data.regions ? at[1] - 1 : -1;
  };
  function goTo(r) {
    showRegion(r);
    history.replaceState(null, "", `#change-${r + 1}`);
    byId("picture").scrollIntoView({block: "start"});
  }

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

  // ---- the pictures as one file, with the colors that they have now
  function plain(color) {  // as programs read it that know no color()
    const at = /^color\(srgb ([\d.e-]+) ([\d.e-]+) ([\d.e-]+)/.exec(color);
    return at ? `rgb(${at.slice(1).map((x) => Math.round(255 * x)).join(" ")})`.replace(/ /g, ",") : color;
  }
  function pictureFile() {
    const file = make("svg", {xmlns: SVG});
    const page = getComputedStyle(document.body);
    let x = 0, high = 0;
    const parts = panes.map((p) => {
      const g = p.whole(), box = p.extent;
      for (const e of g.querySelectorAll("path,rect,text")) {
        const style = getComputedStyle(e);
        for (const what of ["fill", "stroke"]) e.setAttribute(what, plain(style[what]));
        if (e.tagName === "text") {
          for (const what of ["font-size", "font-family", "text-anchor"]) e.setAttribute(what, style.getPropertyValue(what));
        } else {
          e.setAttribute("stroke-width", parseFloat(style.strokeWidth));
        }
        e.removeAttribute("class");
      }
      g.remove();
      g.setAttribute("transform", `translate(${(x + 20 - box.x0).toFixed(1)} ${20 - box.y0})`);
      x += box.x1 - box.x0 + 60;
      high = Math.max(high, box.y1 - box.y0 + 40);
      return g;
    });
    file.setAttribute("width", x.toFixed(0));
    file.setAttribute("height", high);
    make("rect", {width: "100%", height: "100%", fill: page.backgroundColor}, file);
    file.append(...parts);
    return new Blob([new XMLSerializer().serializeToString(file)], {type: "image/svg+xml"});
  }
  function exportPictures() {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(pictureFile());
    link.download = document.title.replace(/^.*[\\/]/, "") + ".svg";
    link.click();
    URL.revokeObjectURL(link.href);
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
  function fold() {
    folded = !folded;
    opened.clear();
    arrange();
    if (region >= 0) showRegion(region);
    else panes.forEach((p) => p.start());
  }
  click("folded", fold);
  click("heat", () => {
    heat = !heat;
    byId("heat").setAttribute("aria-pressed", String(heat));
    panes.forEach((p) => p.drawMap());
    redraw();
  });
  click("export", exportPictures);
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
                    f: () => byId("folded").click(), h: () => byId("heat").click(),
                    Escape: () => choose(panes[0], null)}[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
  for (const button of document.querySelectorAll("button.place")) {
    button.addEventListener("click", () => goTo(Number(button.dataset.region)));
  }
  for (const link of document.querySelectorAll('a[href^="#change-"]')) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      goTo(Number(link.hash.slice("#change-".length)) - 1);
    });
  }
  for (const button of document.querySelectorAll("button.jump")) {
    button.addEventListener("click", () => {
      const pane = panes[Number(button.dataset.side)], node = pane.nodes[Number(button.dataset.node)];
      choose(pane, node);
      reveal(pane, node);
      byId("picture").scrollIntoView({block: "start"});
    });
  }
  addEventListener("hashchange", () => { if (linkedRegion() >= 0) goTo(linkedRegion()); });
  // What is printed is all of it.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((d) => { d.open = true; });
  });
  addEventListener("afterprint", () => closed.forEach((d) => { d.open = false; }));

  const total = sides.reduce((sum, nodes) => sum + nodes.length, 0);
  folded = data.regions > 0 && total > FOLDED && hiddenBy(foldLayers()) > total / 2;
  byId("folded").disabled = byId("previous").disabled = byId("next").disabled = !data.regions;
  byId("heat").disabled = !most;
  byId("picture").hidden = false;
  arrange();
  if (!data.regions) panes.forEach((p) => p.start());
  else if (linkedRegion() >= 0) goTo(linkedRegion());
  else showRegion(0);
  new ResizeObserver(redraw).observe(byId("picture"));
})();
