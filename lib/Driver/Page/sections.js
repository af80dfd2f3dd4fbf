// Memory
const categoryStyles = [["#1f4e80", "#1f4e80", "none"], ["#e7c9a0", "#8a5a00", "rising"], ["#cfdcec", "#1f4e80", "level"],
  ["#dff0e8", "#1d6b4f", "falling"], ["#e6e7ec", "#70778a", "dots"], ["#efe3f6", "#6a2c91", "crossed"]];

function momentsOf(stage) {
  const width = 4 + data.memory.categories.length, list = [];
  for (let i = 0; i < stage.moments.length; i += width)
    list.push({position: stage.moments[i], operation: text(stage.moments[i + 1]), by: stage.moments.slice(i + 2, i + width - 2),
      host: stage.moments[i + width - 2], nvme: stage.moments[i + width - 1]});
  return list;
}

const sum = list => list.reduce((a, b) => a + b, 0);

function drawTide(canvas, stage, moments, at) {
  const [context, width, height] = fitted(canvas), cap = data.memory.cap.device;
  const extra = stage.unused + stage.behind;
  const most = 1.08 * Math.max(stage.peak, stage.host_peak, cap && cap < 3 * stage.peak ? cap : 0, 1);
  const x = i => i / moments.length * width, y = bytes => height - bytes / most * height;
  const layer = (style, below, above) => {
    context.fillStyle = fill(context, style);
    context.beginPath();
    context.moveTo(0, y(below(moments[0])));
    moments.forEach((m, i) => { context.lineTo(x(i), y(above(m))); context.lineTo(x(i + 1), y(above(m))); });
    for (let i = moments.length; i-- > 0;) { context.lineTo(x(i + 1), y(below(moments[i]))); context.lineTo(x(i), y(below(moments[i]))); }
    context.fill();
  };
  data.memory.categories.forEach((name, i) => layer(categoryStyles[i], m => sum(m.by.slice(0, i)), m => sum(m.by.slice(0, i + 1))));
  if (extra) layer(["#fff", "#9aa1b2", "grid"], m => sum(m.by), m => sum(m.by) + extra);
  const line = (bytes, label, dash, color, atEnd) => {
    context.setLineDash(dash);
    context.strokeStyle = context.fillStyle = color;
    context.beginPath();
    context.moveTo(0, y(bytes));
    context.lineTo(width, y(bytes));
    context.stroke();
    context.setLineDash([]);
    context.fillText(label, atEnd ? width - 4 - context.measureText(label).width : 4, y(bytes) - 3);
  };
  context.font = "12px system-ui, sans-serif";
  line(stage.peak, `peak ${bytesText(stage.peak)}`, [2, 3], "#1d2433");
  if (cap && cap <= most) line(cap, `cap ${bytesText(cap)}`, [8, 4], "#b3261e", true);
  for (const tier of ["host", "nvme"])
    if (moments.some(m => m[tier])) {
      context.strokeStyle = tier === "host" ? "#b3261e" : "#6a2c91";
      context.lineWidth = 2;
      context.setLineDash(tier === "host" ? [] : [3, 3]);
      context.beginPath();
      moments.forEach((m, i) => { context.lineTo(x(i), y(m[tier])); context.lineTo(x(i + 1), y(m[tier])); });
      context.stroke();
      context.setLineDash([]);
      context.lineWidth = 1;
    }
  context.fillStyle = "#b3261e";
  context.fillRect(x(at + .5) - 1, 0, 2, height);
}

function tide(stage) {
  const moments = momentsOf(stage), box = element("div", "", "tide"), canvas = element("canvas"), under = element("div", "", "under");
  let at = Math.max(0, moments.findIndex(m => m.position === stage.fullest));
  const show = i => {
    at = Math.max(0, Math.min(moments.length - 1, i));
    const m = moments[at], parts = data.memory.categories.map((name, c) => `${name} ${bytesText(m.by[c])}`).filter((_, c) => m.by[c]);
    under.textContent = `${m.position} of ${number(stage.operators)}, ${m.operation}${m.position === stage.fullest ? " (the fullest)" : ""}: ${bytesText(sum(m.by))} live on the device: ${parts.join(", ")}` +
      `${stage.host_peak ? `; ${bytesText(m.host)} on the host` : ""}${stage.nvme_peak ? `; ${bytesText(m.nvme)} on NVMe` : ""}.`;
    redraw();
  };
  box.tabIndex = 0;
  box.dataset.tide = stage.stage;
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", `Memory of stage ${stage.stage} over a step: at most ${bytesText(stage.peak)} of the device. Left and right go from operator to operator.`);
  under.setAttribute("aria-live", "polite");
  canvas.addEventListener("pointermove", event => show(Math.floor((event.clientX - canvas.getBoundingClientRect().left) / canvas.clientWidth * moments.length)));
  box.addEventListener("keydown", event => {
    const go = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: moments.length - 1, PageDown: at + 20, PageUp: at - 20}[event.key];
    if (go === undefined) return;
    event.preventDefault();
    show(go);
  });
  box.append(canvas);
  redraws.push(() => drawTide(canvas, stage, moments, at));
  show(at);
  return [box, under];
}

function showMemory() {
  const memory = data.memory, into = body("memory");
  if (!memory) return into.append(element("p", "The memory of this program was not planned here."));
  const keys = element("p");
  keys.append(...memory.categories.map((name, i) => key(categoryStyles[i], name)), key(["#fff", "#9aa1b2", "grid"], "what packing loses, and room behind the arena for messages and threads"));
  into.append(element("p", "Bytes of a rank over the operators of a step, in their order." + (memory.stages.some(s => s.host_peak) ? " The line is the host's memory." : ""), "note"), keys);
  const fullest = Math.max(...memory.stages.map(stage => stage.peak));
  for (const stage of memory.stages) {
    const several = memory.stages.length > 1;
    into.append(element("h3", `${several ? `Stage ${stage.stage}: ` : ""}${bytesText(stage.peak)} (${number(stage.peak)} bytes) of the device` +
      `${memory.cap.device ? `, of at most ${bytesText(memory.cap.device)}` : ""}${stage.host_peak ? `, ${bytesText(stage.host_peak)} of the host` : ""}${stage.nvme_peak ? `, ${bytesText(stage.nvme_peak)} on NVMe` : ""}`), ...tide(stage));
    const held = element("details"), rest = stage.held_count - stage.held.length;
    held.open = stage.peak === fullest && !several;
    held.append(element("summary", "What is live at the peak"), scrolled(table(["value", "category", "#bytes", ""],
      stage.held.map(([name, category, bytes]) => [text(name) || "(a workspace)", category, number(bytes), bar(bytes / stage.peak)])), "What is live at the peak"));
    if (rest > 0) held.append(element("p", `${number(rest)} smaller ones.`, "note"));
    into.append(held);
    if (stage.moves) {
      const moves = element("details");
      moves.append(element("summary", `${number(stage.moves.count)} copies between the device and the host`), scrolled(table(["value", "what", "#bytes", "way", "from", "waited for"],
        stage.moves.largest.map(([name, what, bytes, way, start, wait]) => [text(name), text(what), number(bytes), way, text(start), text(wait)])), "Copies"));
      into.append(moves);
    }
  }
}

// Plan
const levelText = (level, levels) => level === null || level === undefined ? "" :
  `level ${level}: groups of ${number(levels[level].ranks)}, ${scaled(levels[level].bandwidth, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"], 1000)}, ${timeText(levels[level].latency)} a message` +
  `${levels[level].links ? `, ${levels[level].links} links a node` : ""}${levels[level].oversubscription > 1 ? `, oversubscribed ${levels[level].oversubscription} x` : ""}`;

// What the modules of a unit have in common.
function commonModule(items) {
  const names = items.flatMap(item => item.items ? [commonModule(item.items)] : [text(item.module)]).filter(name => name);
  const parts = names.map(name => name.split("."));
  let common = 0;
  while (parts.length && parts.every(part => part.length > common && part[common] === parts[0][common])) ++common;
  return parts.length ? parts[0].slice(0, common).join(".") : "";
}

const count = items => sum(items.map(item => item.items ? item.times * count(item.items) : 1));

// One operator several times over is a row.
const isRow = item => !item.items || (item.items.length === 1 && !item.items[0].items);

function unitRows(list) {
  const items = list.map(item => item.items ? {...item.items[0], times: item.times} : item), staged = data.plan.pipeline;
  const rows = items.map(item => {
    const where = text(item.module) || text(item.node), stage = staged ? [item.stage ?? ""] : [], times = item.times ? ` x ${item.times}` : "";
    if (item.from !== undefined)
      return [where, "reshard" + times, item.collectives.map(text).join(", then ") || "local slices", ...stage, `${text(item.from)} → ${text(item.to)}`, "", `${bytesText(item.bytes)} sent, ${timeText(item.seconds)}`];
    return [where, text(item.kind) + times, text(item.pattern) ? `${text(item.pattern)}${text(item.origin) ? ` (${text(item.origin)})` : ""}` : "follows its operands", ...stage,
      item.operands.map(text).join("; "), item.results.map(text).join("; "), `${bytesText(item.bytes)} held`];
  });
  return table(["module or node", "operator", "pattern", ...(staged ? ["stage"] : []), "operands", "results", "#bytes a rank"], rows, i => items[i].from === undefined ? "" : "move");
}

function units(items) {
  const nodes = [];
  for (let i = 0; i < items.length;) {
    if (!isRow(items[i])) {
      const unit = items[i++], box = element("details", "", "unit");
      box.open = true;
      box.dataset.times = unit.times;
      box.append(element("summary", `${commonModule(unit.items) || text(unit.items[0].kind ?? unit.items[0].module ?? 0)} x ${unit.times}: ${count(unit.items)} operators and reshards each${!unit.stages ? "" : unit.stages[0] === unit.stages[1] ? `, on stage ${unit.stages[0]}` : `, on stages ${unit.stages[0]} to ${unit.stages[1]}`}`), ...units(unit.items));
      nodes.push(box);
      continue;
    }
    const begin = i;
    while (i < items.length && isRow(items[i])) ++i;
    nodes.push(unitRows(items.slice(begin, i)));
  }
  return nodes;
}

function showPlan() {
  const plan = data.plan, into = body("plan");
  if (plan.mesh)
    into.append(plan.mesh.length ? table(["mesh axis", "#ranks", "its links"], plan.mesh.map(axis => [axis.axis, number(axis.ranks), levelText(axis.level, plan.levels)]))
      : element("p", "One rank, no mesh."));
  if (plan.microbatches > 1) into.append(element("p", `${plan.microbatches} microbatches.`));
  if (plan.pipeline)
    into.append(element("p", `Pipeline ${plan.pipeline.schedule}: ${percent(plan.pipeline.bubble)} of all stages' time is idle if steps take equally long; microbatches held at most, by stage: ${plan.pipeline.live_microbatches.join(", ")}.`));
  if (!plan.units) return into.append(element("p", "The model is a text behind propagate, where layouts are gone: there are no units to show."));
  into.append(element("p", `The forward's ${number(plan.units.operators)} operators and reshards on each rank, equal runs folded. A dimension is its parts joined by *, 12>16 is 12 stored as 16, /axis split over it, flat/axis stored in pieces over it.`, "note"));
  const box = element("div");
  box.append(...units(plan.units.items));
  if (plan.units.left_out) box.append(element("p", `${number(plan.units.left_out)} more are left out; tessera explain lists all.`, "note"));
  into.append(scrolled(box, "The model unit by unit"));
}

// Communication
function showCommunication() {
  const list = data.communication, into = body("communication");
  if (!list?.length) return into.append(element("p", list ? "Nothing is sent." : "There is no step to show."));
  const most = Math.max(...list.map(each => each.exposed + each.hidden));
  into.append(element("p", "Of a step, means over the ranks. Exposed is what a rank waits for with nothing else to do (solid), hidden what goes on beside its work (hatched).", "note"),
    table(["axes", "links", "kind", "#times", "#bytes sent", "#exposed", "#hidden", ""], list.map(each => {
      const bars = element("span");
      bars.append(bar(each.exposed / most), bar(each.hidden / most, "light"));
      return [each.axes, levelText(each.level, data.plan.levels), each.kind, number(each.count), number(each.bytes),
        `${timeText(each.exposed)} (${percent(each.exposed / step.seconds)})`, timeText(each.hidden), bars];
    })));
}

// Alternatives
function showAlternatives() {
  const list = data.alternatives, into = body("alternatives");
  if (!list) return into.append(element("p", "No other plans were judged for this page: plan --auto lists here the recipes that it compared, and what each loses on."));
  const best = list.find(each => each.chosen);
  into.append(element("p", `${list.length} recipes were compiled and simulated, here as if memory were unlimited. Where a step takes longer than the plan's, what takes longer comes with it.`, "note"),
    scrolled(table(["recipe", "#a step", "#against the plan", "#of the device", "#sent a rank", "loses on"], list.map(each => {
      if (each.reason !== undefined) return [each.recipe, "", "", "", "", `not compiled: ${each.reason}`];
      const loses = each.loses.map(([part, seconds]) => `${part} ${timeText(seconds)} more`);
      if (each.over_cap) loses.unshift(`memory: ${bytesText(each.over_cap)} above the cap`);
      return [each.recipe, timeText(each.seconds), `${(each.seconds / best.seconds).toFixed(3)} x`, bytesText(each.device_bytes), bytesText(each.sent_bytes),
        each.chosen ? "the plan" : loses.join(", ") || (each.seconds < best.seconds ? "memory: slower where it keeps the cap" : "nothing that matters")];
    }), i => list[i].chosen ? "chosen" : ""), "Recipes"));
}

document.getElementById("summary").textContent = data.model + (step ? `, program ${step.program}: ${timeText(step.seconds)} a step by ${step.machine ? `the rates of ${step.machine}` : "uncalibrated rates (no --machine)"}, ` +
  `${percent(step.mfu)} of what the products' rate allows. ${number(step.ranks)} rank${step.ranks === 1 ? "" : "s"}${step.ranks > 1 ? ` in ${number(step.simulated_ranks)} class${step.simulated_ranks === 1 ? "" : "es"} of equal ones` : ""}. Of the step ${percent(step.computing / step.seconds)} is computing, ` +
  `${percent(sum((data.communication ?? []).map(each => each.exposed)) / step.seconds)} exposed communication, ${percent(sum(Object.values(step.idle)) / step.seconds)} idle.` : "");
showTimeline();
showMeasured();
showMemory();
showPlan();
showCommunication();
showAlternatives();
redraw();
