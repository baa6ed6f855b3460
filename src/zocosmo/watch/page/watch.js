"use strict";
// The live page: events that carry what is new, and what is drawn of them.

const $ = (id) => document.getElementById(id);
const ACROSS = ["bits", "queries", "s"];
const COLOURS = 8;
const SVG = "http://www.w3.org/2000/svg";

const job = { about: {}, status: {}, curves: new Map(), nodes: [], work: [], graph: null, events: [] };
const seen = { group: "", scale: "auto", method: "", metric: "", offset: 0, picked: false };
const slots = new Map();  // method → colour, as long as it is among the best
const plots = ACROSS.map((name) => new Plot($(`plot-${name}`), name));
let stream = null, drawing = false;

function make(tag, text, name) {
  const out = document.createElement(tag);
  if (text !== undefined) out.textContent = text;
  if (name) out.className = name;
  return out;
}

function drawn(tag, about) {
  const out = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(about)) out.setAttribute(name, value);
  return out;
}

// What came

function connect() {
  if (stream) stream.close();
  stream = new EventSource("events" + (seen.metric ? `?metric=${encodeURIComponent(seen.metric)}` : ""));
  stream.onmessage = (message) => { linked(true); take(JSON.parse(message.data)); };
  stream.onopen = () => linked(true);
  stream.onerror = () => linked(false);
}

function linked(is) {
  $("link").textContent = is ? "live" : "the server does not answer; trying again";
  $("link").className = is ? "" : "off";
}

function take(news) {
  if (news.error) { stream.close(); seen.metric = ""; connect(); return; }
  if (news.anew) { job.curves.clear(); job.events = []; job.graph = null; $("events").replaceChildren(); }
  if (news.now) seen.offset = Date.now() / 1000 - news.now;
  for (const name of ["about", "status", "work", "nodes"]) if (name in news) job[name] = news[name];
  if ("graph" in news) job.graph = news.graph && { ...job.graph, ...news.graph };
  for (const [key, [group, method, seed, n]] of Object.entries(news.curves || {})) {
    job.curves.set(key, { group, method, seed, n, bits: [], queries: [], s: [], round: [], y: [] });
  }
  for (const [key, part] of Object.entries(news.points || {})) append(job.curves.get(key), part);
  if (news.sampled) job.sampled = news.sampled;
  if (news.events) addEvents(news.events);
  show(news);
}

function append(curve, part) {
  curve.over = Boolean(part.over || part.diverged);
  curve.diverged = Boolean(part.diverged);
  for (const name of ["bits", "queries", "s", "round", "y"]) {
    if (part.anew) curve[name] = part[name];
    else for (const value of part[name]) curve[name].push(value);
  }
}

// What is shown

function show(news) {
  if (news.about) showAbout();
  if (news.curves) showGroups(news.anew);
  if (news.nodes || news.status) showNodes();
  if (news.graph !== undefined || news.nodes) showGraph();
  if (news.work) showWork();
  showStatus();
  redraw();
}

function redraw() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => { drawing = false; drawCurves(); });
}

function showAbout() {
  const { title, job: kind, path, metric, metrics } = job.about;
  document.title = `${title} – zocosmo watch`;
  $("title").textContent = title;
  $("job").textContent = kind;
  $("job").hidden = !kind;
  $("path").textContent = path;
  $("value-name").textContent = metric ? `${metric} now` : "now";
  const list = $("metric"), names = metrics.length ? metrics : [metric || "…"];
  list.replaceChildren(...names.map((name) => new Option(name.replaceAll("_", " "), name)));
  list.value = metric;
}

function showGroups(isFirst) {
  const groups = [...new Set([...job.curves.values()].map((curve) => curve.group))];
  const list = $("group");
  if (groups.length !== list.options.length) {
    list.replaceChildren(...groups.map((name) => new Option(name || "all", name)));
    const follow = isFirst && job.about.job !== "compare" ? groups[0] : groups[groups.length - 1];
    if (!seen.picked || !groups.includes(seen.group)) seen.group = follow ?? "";
    list.value = seen.group;
  }
  $("group-label").hidden = groups.length < 2;
}

function fact(name, value, kind) {
  const out = document.createElement("div");
  out.append(make("dt", name), make("dd", value, kind));
  if (name === "doing") out.className = "note";
  return out;
}

function showStatus() {
  const facts = job.status, state = facts.state || "connecting", done = facts.done;
  $("state").textContent = state;
  $("state").className = `pill ${state}`;
  $("fill").className = state;
  $("fill").style.width = `${100 * (done || 0)}%`;
  $("bar").setAttribute("aria-valuenow", Math.round(100 * (done || 0)));
  const age = Math.max(0, Date.now() / 1000 - seen.offset - (facts.updated || 0)), running = state === "running";
  const out = [];
  if (done !== null && done !== undefined) out.push(fact("done", `${(100 * done).toFixed(done < 1 && done > 0 ? 1 : 0)} %`));
  if (running && facts.left !== null) out.push(fact("left", `about ${clock(Math.max(0, facts.left - age))}`));
  out.push(fact("took", clock((facts.elapsed || 0) + (running && facts.updated ? age : 0))));
  if (facts.trials > 1) out.push(fact("trials", facts.begun === facts.trials ? facts.trials : `${facts.begun} of ${facts.trials} begun`));
  if (facts.diverged) out.push(fact("diverged", facts.diverged, "bad"));
  if (facts.failures !== undefined) out.push(fact("failed exchanges", facts.failures, facts.failures ? "warn" : ""));
  if (facts.repairs !== undefined) out.push(fact("repaired", facts.repairs));
  if (facts.updated) out.push(fact(running ? "last sign of life" : "ended", `${clock(age)} ago`, running && age > 30 ? "warn" : ""));
  if (facts.note) out.push(fact("doing", facts.note));
  $("facts").replaceChildren(...out);
  $("text").textContent = facts.text || "";
  $("text").hidden = !facts.text;
}

// Curves

function inGroup() {
  return [...job.curves.values()].filter((curve) => curve.group === seen.group && curve.y.length);
}

function standings(curves) {
  const by = new Map();
  for (const curve of curves) {
    const one = by.get(curve.method) || { method: curve.method, sum: 0, count: 0, bits: 0, best: null, runs: 0, lost: 0 };
    const last = curve.y[curve.y.length - 1];
    one.runs += 1;
    one.lost += curve.diverged ? 1 : 0;
    if (last !== null && !curve.diverged) { one.sum += last; one.count += 1; }
    one.bits = Math.max(one.bits, curve.bits[curve.bits.length - 1] || 0);
    for (const value of curve.y) if (value !== null && (one.best === null || better(value, one.best))) one.best = value;
    by.set(curve.method, one);
  }
  const out = [...by.values()];
  for (const one of out) one.now = one.count ? one.sum / one.count : null;
  return out.sort((a, b) => (a.now === null) - (b.now === null) || (better(a.now, b.now) ? -1 : better(b.now, a.now) ? 1 : 0));
}

function better(a, b) {
  return job.about.greater ? a > b : a < b;
}

function paint(methods) {
  const shown = methods.slice(0, COLOURS).map((one) => one.method);
  for (const name of [...slots.keys()]) if (!shown.includes(name)) slots.delete(name);
  const free = [...Array(COLOURS).keys()].filter((k) => ![...slots.values()].includes(k));
  for (const name of shown.filter((each) => !slots.has(each)).sort()) slots.set(name, free.shift());
}

function looks() {
  const style = getComputedStyle(document.documentElement), at = (name) => style.getPropertyValue(name).trim();
  const colours = [...Array(COLOURS).keys()].map((k) => at(`--c${k}`));
  return { soft: at("--soft"), line: at("--line"), rest: at("--rest"), colours };
}

function isLog(curves) {
  let low = Infinity, high = 0;
  for (const { y, round } of curves) {
    for (let k = 0; k < y.length; k++) {
      if (y[k] === null || (round[k] === 0 && y[k] === 0)) continue;
      if (y[k] <= 0) return false;
      low = Math.min(low, y[k]);
      high = Math.max(high, y[k]);
    }
  }
  if (seen.scale !== "auto") return seen.scale === "log" && high > 0;
  return !job.about.greater && high / low > 20;
}

function drawCurves() {
  const curves = inGroup(), methods = standings(curves), look = looks();
  paint(methods);
  const log = isLog(curves), running = job.status.state === "running";
  const order = new Map(methods.map((one, k) => [one.method, k]));
  const listed = curves.slice().sort((a, b) => order.get(b.method) - order.get(a.method));
  for (const plot of plots) {
    const lines = listed.map((curve) => {
      const slot = slots.get(curve.method), strong = seen.method === curve.method;
      const colour = slot === undefined ? look.rest : look.colours[slot];
      const faint = Boolean(seen.method) && !strong;
      return { x: curve[plot.across], y: curve.y, colour, strong, faint, alive: running && !curve.over && slot !== undefined, of: curve };
    });
    plot.draw(lines, { isLog: log, marks: plot.across === "bits" ? job.about.budgets || [] : [], look });
    plot.canvas.setAttribute("aria-label", `${job.about.metric} of ${methods.length} methods against ${plot.across}`);
  }
  showMethods(methods, look);
}

function showMethods(methods, look) {
  const rows = methods.slice(0, 60).map((one) => {
    const row = document.createElement("tr"), mark = make("span", "", "swatch"), slot = slots.get(one.method);
    mark.style.background = slot === undefined ? look.rest : look.colours[slot];
    const first = document.createElement("td");
    first.append(mark);
    const runs = one.lost ? `${one.runs} (${one.lost} diverged)` : String(one.runs);
    row.append(first, make("td", one.method), make("td", number(one.now), "number"), make("td", number(one.best), "number"));
    row.append(make("td", si(one.bits), "number wider"), make("td", runs, "number"));
    row.dataset.method = one.method;
    if (seen.method === one.method) row.className = "on";
    return row;
  });
  $("methods").tBodies[0].replaceChildren(...rows);
  const said = [];
  if (methods.length > 60) said.push(`${methods.length - 60} more methods are behind these`);
  else if (methods.length > COLOURS) said.push("the best eight are coloured");
  if (job.sampled > 1) said.push(`one in ${job.sampled} trials is drawn`);
  $("more").textContent = said.join("; ");
  $("more").hidden = !said.length;
}

function highlight(method) {
  if (seen.method === method) return;
  seen.method = method;
  redraw();
}

// Network

const STATES = { computes: "at work", waits: "waits", done: "done", gone: "gone", failed: "failed", asked: "is asked", lost: "lost", silent: "silent" };

function hostOf() {
  const out = new Map();
  for (const each of job.nodes) for (const node of each.nodes || []) out.set(node, each);
  return out;
}

function place(k, n, far) {
  const angle = -Math.PI / 2 + (2 * Math.PI * k) / n;
  return [far * Math.cos(angle), far * Math.sin(angle)];
}

function showGraph() {
  const graph = job.graph, hosts = hostOf();
  $("network").hidden = !graph || graph.n < 2;
  if (!graph || graph.n < 2) return;
  const ids = graph.members || [...Array(graph.n).keys()], where = new Map(ids.map((id, k) => [id, place(k, ids.length, 100)]));
  const size = ids.length <= 12 ? 15 : ids.length <= 32 ? 10 : ids.length <= 64 ? 6 : 3;
  const at = (id) => where.get(id) || [0, 0];
  const lit = new Set((graph.pairs || []).map(([a, b]) => `${a}-${b}`)), parts = [arrowHead()];
  const running = job.status.state === "running";
  const all = graph.talk === "neighbours" && running ? " all" : "";
  const edges = graph.talk === "server" ? ids.map((id) => ["server", id]) : graph.edges || [];
  for (const [a, b] of edges.slice().sort((p, q) => lit.has(`${p[0]}-${p[1]}`) - lit.has(`${q[0]}-${q[1]}`))) {
    const [x1, y1] = at(a), [x2, y2] = at(b), on = lit.has(`${a}-${b}`) || lit.has(`${b}-${a}`);
    parts.push(drawn("line", { x1, y1, x2, y2, class: `edge${on ? " lit" : graph.talk === "server" && running ? " all" : all}` }));
  }
  for (const each of job.nodes) if (each.for !== undefined && each.for !== null && each.for >= 0) parts.push(...waitLines(each, at, size));
  if (graph.talk === "server") parts.push(...spot("server", [0, 0], 15, "S", ""));
  for (const id of ids) {
    const host = hosts.get(id);
    parts.push(...spot(`node ${id}`, at(id), size, ids.length <= 64 ? String(id) : "", host ? host.state : ""));
  }
  $("graph").replaceChildren(...parts);
  const round = graph.round === null || graph.round === undefined ? "" : `, round ${graph.round.toLocaleString("en")}`;
  $("graph-of").textContent = `${running ? "" : "last: "}${graph.of}${round}` + (graph.n > 1 && !(edges.length) ? ` (${graph.n} nodes; too many to draw their edges)` : "");
  const words = { pairs: ["pairs", "pairs of this round"], neighbours: ["all", "all neighbours talk in every round"], server: ["all", "everyone talks to a server"] };
  const [name, text] = words[graph.talk] || words.neighbours, key = running ? [make("span", text, name)] : [];
  if (job.nodes.some((each) => each.for >= 0)) key.push(make("span", "waits for", "wait"));
  $("key").replaceChildren(...key);
}

function arrowHead() {
  const marker = drawn("marker", { id: "tip-of-arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" });
  marker.append(drawn("path", { d: "M0 0 8 4 0 8z" }));
  return marker;
}

function waitLines(each, at, size) {
  const target = job.nodes.find((other) => other.rank === each.for), ends = target ? target.nodes : [];
  if (!ends.length || !each.nodes.length) return [];
  const [x1, y1] = at(each.nodes[0]), [x2, y2] = at(ends[0]);
  const mx = (x1 + x2) / 2 - (y2 - y1) * 0.18, my = (y1 + y2) / 2 + (x2 - x1) * 0.18;
  const length = Math.hypot(x2 - mx, y2 - my) || 1, stop = size + 3;
  return [drawn("path", { class: "waiting", d: `M${x1} ${y1}Q${mx} ${my} ${x2 - ((x2 - mx) / length) * stop} ${y2 - ((y2 - my) / length) * stop}` })];
}

function spot(title, [cx, cy], r, text, state) {
  const circle = drawn("circle", { cx, cy, r, class: `spot ${state}` }), about = drawn("title", {});
  about.textContent = state ? `${title}: ${STATES[state] || state}` : title;
  circle.append(about);
  if (!text) return [circle];
  const name = drawn("text", { x: cx, y: cy, class: "name" });
  name.textContent = text;
  return [circle, name];
}

function showNodes() {
  const nodes = job.nodes || [];
  $("people").hidden = !nodes.length;
  if (!nodes.length) return;
  const rigs = nodes[0].answers !== undefined;
  const names = rigs ? ["node", "", "round", "answers", "last loss"] : ["node", "", "round", "waited", "sent"];
  const head = document.createElement("tr");
  head.append(...names.map((name, k) => make("th", name, k > 1 ? "number" : "")));
  $("nodes").tHead.replaceChildren(head);
  $("nodes").tBodies[0].replaceChildren(...nodes.map((each) => nodeRow(each, rigs)));
  const slow = slowest(nodes);
  $("waits").textContent = slow;
  $("waits").hidden = !slow;
}

function nodeRow(each, rigs) {
  const row = document.createElement("tr"), target = each.for >= 0 ? ` for ${each.for}` : "";
  row.append(make("td", nameOf(each.nodes)), make("td", (STATES[each.state] || each.state) + target, `state ${each.state}`));
  row.append(make("td", Number(each.round).toLocaleString("en"), "number"));
  if (rigs) row.append(make("td", each.answers.toLocaleString("en"), "number"), make("td", number(each.loss), "number"));
  else row.append(make("td", each.seconds ? `${Math.round((100 * each.waited) / each.seconds)} %` : "–", "number"), make("td", `${si(each.bytes || 0)}B`, "number"));
  return row;
}

function nameOf(nodes) {
  return nodes.length < 4 ? nodes.join(", ") : `${nodes[0]}–${nodes[nodes.length - 1]}`;
}

function slowest(nodes) {
  const total = new Map();
  for (const each of nodes) for (const [peer, s] of Object.entries(each.waited_for || {})) total.set(peer, (total.get(peer) || 0) + s);
  const [first] = [...total].sort((a, b) => b[1] - a[1]);
  return first && nodes.length > 1 ? `Most waited for: rank ${first[0]}, ${clock(first[1])} in all.` : "";
}

function showWork() {
  $("under-way").hidden = !job.work.length;
  $("work").replaceChildren(...job.work.slice(0, 60).map((each) => {
    const item = document.createElement("li"), line = make("div", undefined, "line"), bar = make("div", undefined, "bar"), fill = make("div");
    line.append(make("span", `batch ${each.batch}: ${each.of}, …`), make("span", `${Number(each.round).toLocaleString("en")} of ${Number(each.rounds).toLocaleString("en")}`));
    fill.style.width = `${(100 * each.round) / (each.rounds || 1)}%`;
    bar.append(fill);
    item.append(line, bar);
    return item;
  }));
}

function addEvents(events) {
  job.events = [...events.slice().reverse(), ...job.events].sort((a, b) => b.s - a.s).slice(0, 300);
  $("events").replaceChildren(...job.events.map((each) => {
    const item = document.createElement("li");
    item.append(make("time", clock(each.s)), make("span", each.what, `what ${each.what}`), make("span", each.text));
    return item;
  }));
  $("no-events").hidden = job.events.length > 0;
}

// Controls

function theme(next) {
  if (next) document.documentElement.dataset.theme = next;
  else delete document.documentElement.dataset.theme;
  redraw();
}

$("theme").onclick = () => {
  const now = document.documentElement.dataset.theme || "";
  theme({ "": "dark", dark: "light", light: "" }[now]);
};
$("scale").onclick = () => {
  seen.scale = { auto: "log", log: "linear", linear: "auto" }[seen.scale];
  $("scale").textContent = `${seen.scale} axis`;
  redraw();
};
$("metric").onchange = () => { seen.metric = $("metric").value; connect(); };
$("group").onchange = () => { seen.group = $("group").value; seen.picked = true; redraw(); };
$("methods").tBodies[0].onmouseover = (event) => highlight(event.target.closest("tr")?.dataset.method || "");
$("methods").onmouseleave = () => highlight("");
for (const plot of plots) {
  plot.canvas.onpointermove = (event) => {
    const found = plot.nearest(event.offsetX, event.offsetY);
    highlight(found ? found.curve.of.method : "");
    const of = found && found.curve.of, x = found && (plot.across === "s" ? clock(found.x) : `${si(found.x)} ${plot.across}`);
    $("tip").textContent = found ? `${of.method}${of.seed ? `, seed ${of.seed}` : ""}: ${number(found.y)} at ${x}` : "\u00a0";
  };
  plot.canvas.onpointerleave = () => { highlight(""); $("tip").textContent = "\u00a0"; };
}
new ResizeObserver(redraw).observe($("plot-bits"));
matchMedia("(prefers-color-scheme: dark)").onchange = redraw;
setInterval(showStatus, 1000);
connect();
