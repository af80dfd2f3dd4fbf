// Timeline: lanes that share what is seen of the step, [from, to) in ticks.
const step = data.step, timeline = data.timeline;
const causes = [
  {letter: "T", style: ["#fdf0d5", "#8a5a00", "rising"], say: "communication of its own is under way"},
  {letter: "R", style: ["#fbe3e1", "#a02018", "falling"], say: "other ranks have not come to a collective"},
  {letter: "S", style: ["#efe3f6", "#6a2c91", "crossed"], say: "another stage has not sent"},
  {letter: "C", style: ["#e0f1ea", "#1d6b4f", "level"],
    say: "a copy between the tiers, or an update on the host, is not done"},
  {letter: "E", style: ["#e8e9ee", "#70778a", "dots"], say: "others still work at the step's end"},
];
const works = {
  product: {style: ["#1f4e80", "#1f4e80", "none"], ink: "#fff", say: "products and attention"},
  other: {style: ["#a9c6e4", "#a9c6e4", "none"], ink: "#10243a", say: "other kernels and calls"},
  sent: {style: ["#8a4b12", "#8a4b12", "none"], ink: "#fff", say: "communication"},
  copied: {style: ["#1d6b4f", "#1d6b4f", "none"], ink: "#fff", say: "copies between tiers, updates on the host"},
  many: {style: ["#c9d6e6", "#45618a", "upright"], ink: "#10243a", say: "several short ones, drawn as one"},
};

// The bars of a lane in one list, by time: [begin, end, operation, cause or -1, traffic].
function barsOf(lane) {
  const list = [];
  const decode = (flat, width) => {
    let until = 0;
    for (let i = 0; i < flat.length; i += width) {
      const begin = until + flat[i];
      until = begin + flat[i + 1];
      list.push([begin, until, flat[i + 2], width > 3 ? flat[i + 3] : -1, width > 3 ? flat[i + 4] : -1]);
    }
    return until;
  };
  const end = Math.max(decode(lane.bars, 3), decode(lane.waits, 5));
  if (lane.name === "compute" && end < timeline.ticks) list.push([end, timeline.ticks, null, 4, -1]);
  return list.sort((a, b) => a[0] - b[0]);
}

function workOf(lane, bar) {
  if (bar[2] < 0) return works.many;
  if (lane.name !== "compute") return /^(over|sent)/.test(lane.name) ? works.sent : works.copied;
  return timeline.operations[bar[2]][5] > 0 ? works.product : works.other;
}

const secondsOf = ticks => ticks / timeline.ticks * step.seconds;

function describe(bar) {
  const [begin, end, operation, cause, traffic] = bar;
  const when = `${timeText(secondsOf(end - begin))}, from ${timeText(secondsOf(begin))} to ${timeText(secondsOf(end))}`;
  const waits = cause >= 0 ? `waits: ${causes[cause].say}; ` : "";
  if (operation === null) return waits + when;
  if (operation < 0)
    return `${waits}${-operation} ${cause >= 0 ? "waits" : "operations"}, each shorter than ` +
      `${timeText(secondsOf(timeline.shortest))}\n${when}`;
  const [node, kind, sizes, types, module, flops, read, written] = timeline.operations[operation];
  const over = traffic >= 0 && cause === 0 ? `, over ${text(timeline.traffic[traffic][0])}` : "";
  const name = joined([`${text(node) || "(no node)"} (${text(kind)})`, text(module)]);
  const lines = [waits + name + over, when];
  if (text(sizes)) lines.push("sizes: " + text(sizes));
  if (text(types)) lines.push("the model's operator: " + text(types));
  if (cause < 0 && (flops || read || written))
    lines.push(joined([
      flops && `${flopsText(flops)}${end > begin ? ` (${flopsText(flops / secondsOf(end - begin))}/s)` : ""}`,
      `${bytesText(read)} read`, `${bytesText(written)} written`,
    ]));
  return lines.join("\n");
}

class View {
  constructor() { this.whole(); }
  whole() { [this.from, this.to] = [0, timeline.ticks]; }
  // So many times as much, with `at` where it is.
  zoom(times, at) {
    const length = Math.min(timeline.ticks, Math.max(50, (this.to - this.from) * times));
    const share = (at - this.from) / (this.to - this.from);
    this.move(at - share * length, length);
  }
  move(from, length = this.to - this.from) {
    this.from = Math.max(0, Math.min(timeline.ticks - length, from));
    this.to = this.from + length;
    redraw();
  }
  show([begin, end]) {
    const length = this.to - this.from;
    if (begin < this.from || end > this.to) this.move((begin + end - length) / 2);
    redraw();
  }
}

function drawLane(lane, view) {
  const [context, width, height] = fitted(lane.canvas);
  const x = tick => (tick - view.from) / (view.to - view.from) * width;
  let painted = -1;
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  for (const each of lane.list) {
    if (each[1] < view.from || each[0] > view.to) continue;
    const left = Math.max(0, x(each[0])), right = Math.min(width, Math.max(x(each[1]), left + 1));
    if (right <= painted + 0.5) continue; // hidden by what is drawn there
    painted = Math.max(painted, right);
    const style = each[3] >= 0 ? causes[each[3]] : workOf(lane, each);
    context.fillStyle = fill(context, style.style);
    const inset = each[3] >= 0 ? 4 : 1;
    context.fillRect(left, inset, right - left, height - 2 * inset);
    if (right - left > 3) {
      context.strokeStyle = "#fff";
      context.strokeRect(left + .5, inset + .5, right - left - 1, height - 2 * inset - 1);
    }
    const label = each[3] >= 0 ? causes[each[3]].letter :
      each[2] < 0 ? `${-each[2]}` : text(timeline.operations[each[2]][1]);
    const size = context.measureText(label).width;
    if (right - left < size + 7) continue;
    if (each[3] >= 0) { // readable on the pattern
      context.fillStyle = "#fff";
      context.fillRect(left + 2, 5, size + 4, height - 10);
    }
    context.fillStyle = style.ink ?? "#1d2433";
    context.fillText(label, left + 4, height / 2 + .5);
  }
  if (lane.chosen) {
    const left = Math.max(0, x(lane.chosen[0])), right = Math.min(width, x(lane.chosen[1]));
    context.strokeStyle = "#b3261e";
    context.lineWidth = 2;
    context.strokeRect(left + 1, 1, Math.max(2, right - left - 2), height - 2);
  }
}

function drawAxis(canvas, view) {
  const [context, width, height] = fitted(canvas);
  const seconds = secondsOf(view.to - view.from), ideal = seconds / Math.max(2, width / 110);
  const power = 10 ** Math.floor(Math.log10(ideal)), stride = [1, 2, 5, 10].map(n => n * power).find(n => n >= ideal);
  context.font = "12px system-ui, sans-serif";
  context.fillStyle = context.strokeStyle = "#4a5468";
  for (let n = Math.ceil(secondsOf(view.from) / stride); n * stride <= secondsOf(view.to); ++n) {
    const x = (n * stride - secondsOf(view.from)) / seconds * width, label = timeText(Number((n * stride).toPrecision(6)));
    context.fillRect(x, height - 5, 1, 5);
    context.fillText(label, Math.min(x + 2, width - context.measureText(label).width), height - 8);
  }
}

// The bar under a tick, or the nearest within three pixels.
function barAt(lane, tick, slack) {
  let best = null, distance = slack;
  for (const each of lane.list) {
    const away = Math.max(each[0] - tick, tick - each[1], 0);
    const isShorter = best && each[1] - each[0] < best[1] - best[0];
    if (away < distance || (away === 0 && (!best || distance > 0 || isShorter))) [best, distance] = [each, away];
  }
  return best;
}

function laneOf(ranks, lane, view, choose) {
  const row = element("div", "", "lane"), name = element("span", lane.name, "name"), canvas = element("canvas");
  const title = `rank ${ranks.rank}: ${lane.name}`, list = barsOf(lane);
  row.dataset.lane = title;
  row.dataset.bars = list.length;
  row.tabIndex = 0;
  row.setAttribute("role", "img");
  row.setAttribute("aria-label", `${title}: busy for ${timeText(lane.seconds)}, ` +
    `${percent(lane.seconds / step.seconds)} of the step, ${lane.operations} operations`);
  name.title = row.getAttribute("aria-label");
  row.append(name, canvas);
  const shown = {...lane, row, canvas, list, chosen: null};
  const ticks = pixels => pixels / canvas.clientWidth * (view.to - view.from);
  const tickAt = event => view.from + ticks(event.clientX - canvas.getBoundingClientRect().left);
  canvas.addEventListener("pointermove", event => {
    if (event.buttons) return view.move(view.from - ticks(event.movementX));
    choose(shown, barAt(shown, tickAt(event), ticks(3)));
  });
  canvas.addEventListener("wheel", event => {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
      view.move(view.from + ticks(event.deltaX || event.deltaY));
    else view.zoom(Math.exp(event.deltaY * .002), tickAt(event));
  }, {passive: false});
  return shown;
}

function keysOf(lanes, view, choose) {
  return (lane, event) => {
    const at = lane.list.indexOf(lane.chosen), length = view.to - view.from;
    const middle = lane.chosen ? (lane.chosen[0] + lane.chosen[1]) / 2 : (view.from + view.to) / 2;
    const pick = i => {
      const bar = lane.list[Math.max(0, Math.min(lane.list.length - 1, i))];
      choose(lane, bar);
      if (bar) view.show(bar);
    };
    const first = lane.list.findIndex(bar => bar[1] > view.from);
    const actions = {
      "+": () => view.zoom(.5, middle), "=": () => view.zoom(.5, middle), "-": () => view.zoom(2, middle),
      "0": () => { view.whole(); redraw(); }, "Home": () => pick(0), "End": () => pick(lane.list.length - 1),
      "ArrowRight": () => event.shiftKey ? view.move(view.from + length / 4) : pick(at < 0 ? first : at + 1),
      "ArrowLeft": () => event.shiftKey ? view.move(view.from - length / 4) : pick(at < 0 ? first : at - 1),
      "ArrowDown": () => lanes[lanes.indexOf(lane) + 1]?.row.focus(),
      "ArrowUp": () => lanes[lanes.indexOf(lane) - 1]?.row.focus(),
    };
    if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[event.key]();
  };
}

// The keyboard and a mouse without a wheel have the same.
function zoomButtons(view) {
  const buttons = element("p"), middle = () => (view.from + view.to) / 2, length = () => view.to - view.from;
  for (const [label, say, act] of [
    ["+", "zoom in", () => view.zoom(.5, middle())],
    ["-", "zoom out", () => view.zoom(2, middle())],
    ["<", "earlier", () => view.move(view.from - length() / 2)],
    [">", "later", () => view.move(view.from + length() / 2)],
    ["whole step", "show the whole step", () => { view.whole(); redraw(); }],
  ]) {
    const button = element("button", label);
    button.setAttribute("aria-label", say);
    button.addEventListener("click", act);
    buttons.append(button, " ");
  }
  return buttons;
}

function timelineKeys() {
  const keys = element("p");
  keys.append(...Object.values(works).map(work => key(work.style, work.say)), element("br"), element("b", "Waits "),
    ...causes.map(cause => key(cause.style, `${cause.letter}: ${cause.say}`)));
  return keys;
}

// What of the step is not there.
function omissions() {
  const notes = [];
  if (timeline.shortest)
    notes.push(`What is shorter than ${timeText(secondsOf(timeline.shortest))} is drawn as one with its neighbours, so ` +
      "that the page stays small.");
  if (timeline.classes_left_out)
    notes.push(`${number(timeline.classes_left_out)} more classes of ranks are left out: those here are the first of ` +
      "each stage and those that compute longest.");
  if (timeline.classes.some(each => each.dropped))
    notes.push("The step has more operations than are recorded: its end is missing.");
  return notes.map(note);
}

function showTimeline() {
  const into = body("timeline");
  if (!timeline)
    return into.append(element("p", "The model was not compiled so far that its memory is planned: no step to show."));
  const view = new View(), lanes = [], axis = element("div", "", "axis"), ticks = element("canvas");
  const detail = element("div", "Point at a bar, or focus a lane and press the arrow keys.", "detail");
  detail.setAttribute("aria-live", "polite");
  const choose = (lane, bar) => {
    lanes.forEach(each => each.chosen = null);
    lane.chosen = bar;
    if (bar) detail.textContent = `${lane.row.dataset.lane}\n${describe(bar)}`;
    redraw();
  };
  axis.append(element("span"), ticks);
  into.append(note("A lane is what one rank does in one stream; ranks that do the same at the same time are shown once. " +
    "Wheel: zoom; drag, or wheel with Shift: move. Keys in a lane: + and - zoom, 0 shows all, left and right go from " +
    "bar to bar (with Shift they move), up and down from lane to lane."), zoomButtons(view), timelineKeys(), axis);
  const staged = timeline.classes.some(each => each.stage > 0);
  for (const ranks of timeline.classes) {
    const like = ranks.ranks > 1 ? ` and ${number(ranks.ranks - 1)} like it` : "";
    into.append(element("div", `Rank ${ranks.rank}${like}${staged ? `, stage ${ranks.stage}` : ""}`, "class"));
    for (const lane of ranks.lanes) lanes.push(laneOf(ranks, lane, view, choose));
    into.append(...lanes.slice(-ranks.lanes.length).map(lane => lane.row));
  }
  const press = keysOf(lanes, view, choose);
  for (const lane of lanes) lane.row.addEventListener("keydown", event => press(lane, event));
  into.append(...omissions(), detail);
  redraws.push(() => { drawAxis(ticks, view); lanes.forEach(lane => drawLane(lane, view)); });
}
