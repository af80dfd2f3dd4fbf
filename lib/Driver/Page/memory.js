// Memory
const categoryStyles = [
  ["#1f4e80", "#1f4e80", "none"], ["#e7c9a0", "#8a5a00", "rising"], ["#cfdcec", "#1f4e80", "level"],
  ["#dff0e8", "#1d6b4f", "falling"], ["#e6e7ec", "#70778a", "dots"], ["#efe3f6", "#6a2c91", "crossed"],
];
const extraStyle = ["#fff", "#9aa1b2", "grid"];

function momentsOf(stage) {
  const width = 4 + data.memory.categories.length, list = [];
  for (let i = 0; i < stage.moments.length; i += width)
    list.push({
      position: stage.moments[i], operation: text(stage.moments[i + 1]), by: stage.moments.slice(i + 2, i + width - 2),
      host: stage.moments[i + width - 2], nvme: stage.moments[i + width - 1],
    });
  return list;
}

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
    for (let i = moments.length; i-- > 0;) {
      context.lineTo(x(i + 1), y(below(moments[i])));
      context.lineTo(x(i), y(below(moments[i])));
    }
    context.fill();
  };
  const upTo = i => m => sum(m.by.slice(0, i));
  data.memory.categories.forEach((name, i) => layer(categoryStyles[i], upTo(i), upTo(i + 1)));
  if (extra) layer(extraStyle, m => sum(m.by), m => sum(m.by) + extra);
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
  const moments = momentsOf(stage), box = element("div", "", "tide"), canvas = element("canvas");
  const under = element("div", "", "under");
  let at = Math.max(0, moments.findIndex(m => m.position === stage.fullest));
  const show = i => {
    at = Math.max(0, Math.min(moments.length - 1, i));
    const m = moments[at], parts = data.memory.categories.map((name, c) => m.by[c] && `${name} ${bytesText(m.by[c])}`);
    const where = `${m.position} of ${number(stage.operators)}, ${m.operation}`;
    under.textContent = joined([
      `${where}${m.position === stage.fullest ? " (the fullest)" : ""}: ${bytesText(sum(m.by))} live on the device: ` +
        joined(parts),
      stage.host_peak && `${bytesText(m.host)} on the host`,
      stage.nvme_peak && `${bytesText(m.nvme)} on NVMe`,
    ], "; ");
    redraw();
  };
  box.tabIndex = 0;
  box.dataset.tide = stage.stage;
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", `Memory of stage ${stage.stage} over a step: at most ${bytesText(stage.peak)} of the ` +
    "device. Left and right go from operator to operator.");
  under.setAttribute("aria-live", "polite");
  canvas.addEventListener("pointermove", event => {
    const share = (event.clientX - canvas.getBoundingClientRect().left) / canvas.clientWidth;
    show(Math.floor(share * moments.length));
  });
  box.addEventListener("keydown", event => {
    const go = {
      ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: moments.length - 1, PageDown: at + 20, PageUp: at - 20,
    }[event.key];
    if (go === undefined) return;
    event.preventDefault();
    show(go);
  });
  box.append(canvas);
  redraws.push(() => drawTide(canvas, stage, moments, at));
  show(at);
  return [box, under];
}

function heldTable(stage, isOpen) {
  const held = element("details"), shown = stage.held.map(([name, category, bytes]) =>
    [text(name) || "(no name)", category, number(bytes), bar(bytes / stage.peak)]);
  held.open = isOpen;
  held.append(element("summary", "What is live at the peak"),
    scrolled(table(["value", "category", "#bytes", ""], shown), "What is live at the peak"));
  const rest = stage.held_count - stage.held.length, bytes = stage.held_bytes - sum(stage.held.map(each => each[2]));
  if (rest > 0) held.append(note(`${number(rest)} smaller ones, ${bytesText(bytes)}.`));
  return held;
}

function movesTable(moves) {
  const list = element("details"), rows = moves.largest.map(([name, what, bytes, way, start, wait]) =>
    [text(name), text(what), number(bytes), way, text(start), text(wait)]);
  list.append(element("summary", `${number(moves.count)} copies between the device and the host`),
    scrolled(table(["value", "what", "#bytes", "way", "from", "waited for"], rows), "Copies"));
  return list;
}

function showMemory() {
  const memory = data.memory, into = body("memory");
  if (!memory) return into.append(element("p", "The memory of this program was not planned here."));
  const keys = element("p"), several = memory.stages.length > 1;
  keys.append(...memory.categories.map((name, i) => key(categoryStyles[i], name)),
    key(extraStyle, "what packing loses, and room behind the arena for messages and threads"));
  into.append(note(joined([
    "Bytes of a rank over the operators of a step, in their order.",
    memory.stages.some(stage => stage.host_peak) && "The line is the host's memory.",
  ], " ")), keys);
  const fullest = Math.max(...memory.stages.map(stage => stage.peak));
  for (const stage of memory.stages) {
    const sizes = joined([
      `${bytesText(stage.peak)} (${number(stage.peak)} bytes) of the device`,
      memory.cap.device && `of at most ${bytesText(memory.cap.device)}`,
      stage.host_peak && `${bytesText(stage.host_peak)} of the host`,
      stage.nvme_peak && `${bytesText(stage.nvme_peak)} on NVMe`,
    ]);
    into.append(element("h3", several ? `Stage ${stage.stage}: ${sizes}` : sizes), ...tide(stage),
      heldTable(stage, stage.peak === fullest && !several));
    if (stage.moves) into.append(movesTable(stage.moves));
  }
}

