// Plan
function levelText(at, levels) {
  const level = levels[at];
  return level ? joined([
    `level ${at}: groups of ${number(level.ranks)}`,
    scaled(level.bandwidth, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"], 1000),
    `${timeText(level.latency)} a message`,
    level.links && `${level.links} links a node`,
    level.oversubscription > 1 && `oversubscribed ${level.oversubscription} x`,
  ]) : "";
}

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

function unitRow(item) {
  const times = item.times ? ` x ${item.times}` : "", from = item.from !== undefined, list = numbers => numbers.map(text);
  const pattern = text(item.pattern) && `${text(item.pattern)}${text(item.origin) ? ` (${text(item.origin)})` : ""}`;
  return [
    text(item.module) || text(item.node),
    (from ? "reshard" : text(item.kind)) + times,
    from ? joined(list(item.collectives), ", then ") || "local slices" : pattern || "follows its operands",
    ...(data.plan.pipeline ? [item.stage ?? ""] : []),
    from ? `${text(item.from)} → ${text(item.to)}` : list(item.operands).join("; "),
    from ? "" : list(item.results).join("; "),
    from ? `${bytesText(item.bytes)} sent, ${timeText(item.seconds)}` : `${bytesText(item.bytes)} held`,
  ];
}

function unitRows(list) {
  const items = list.map(item => item.items ? {...item.items[0], times: item.times} : item);
  const stage = data.plan.pipeline ? ["stage"] : [];
  return table(["module or node", "operator", "pattern", ...stage, "operands", "results", "#bytes a rank"],
    items.map(unitRow), i => items[i].from === undefined ? "" : "move");
}

function unitTitle(unit) {
  const [first, last] = unit.stages ?? [];
  const stages = unit.stages && (first === last ? `, on stage ${first}` : `, on stages ${first} to ${last}`);
  return `${commonModule(unit.items) || "a run"} x ${unit.times}: ${count(unit.items)} operators and reshards each` +
    (stages ?? "");
}

function units(items) {
  const nodes = [];
  for (let i = 0; i < items.length;) {
    if (!isRow(items[i])) {
      const unit = items[i++], box = element("details", "", "unit");
      box.open = true;
      box.dataset.times = unit.times;
      box.append(element("summary", unitTitle(unit)), ...units(unit.items));
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
  const plan = data.plan, into = body("plan"), pipeline = plan.pipeline;
  if (plan.mesh?.length)
    into.append(table(["mesh axis", "#ranks", "its links"],
      plan.mesh.map(axis => [axis.axis, number(axis.ranks), levelText(axis.level, plan.levels)])));
  else if (plan.mesh) into.append(element("p", "One rank, no mesh."));
  if (plan.microbatches > 1) into.append(element("p", `${plan.microbatches} microbatches.`));
  if (pipeline)
    into.append(element("p", `Pipeline ${pipeline.schedule}: ${percent(pipeline.bubble)} of all stages' time is idle if ` +
      `steps take equally long; microbatches held at most, by stage: ${pipeline.live_microbatches.join(", ")}.`));
  const model = plan.units;
  if (!model)
    return into.append(element("p", "The model is a text behind propagate, where layouts are gone: no units to show."));
  into.append(note(`The forward's ${number(model.operators)} operators and reshards on each rank, equal runs folded. ` +
    "A dimension is its parts joined by *, 12>16 is 12 stored as 16, /axis split over it, flat/axis stored in pieces " +
    "over it."));
  const box = element("div");
  box.append(...units(model.items));
  if (model.left_out) box.append(note(`${number(model.left_out)} more are left out; tessera explain lists all.`));
  into.append(scrolled(box, "The model unit by unit"));
}

