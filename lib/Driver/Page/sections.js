// Communication and alternatives, and what the page begins with.
function showCommunication() {
  const list = data.communication, into = body("communication");
  if (!list?.length) return into.append(element("p", list ? "Nothing is sent." : "There is no step to show."));
  const most = Math.max(...list.map(each => each.exposed + each.hidden));
  const rows = list.map(each => {
    const bars = element("span");
    bars.append(bar(each.exposed / most), bar(each.hidden / most, "light"));
    return [each.axes, levelText(each.level, data.plan.levels), each.kind, number(each.count), number(each.bytes),
      `${timeText(each.exposed)} (${percent(each.exposed / step.seconds)})`, timeText(each.hidden), bars];
  });
  into.append(note("Of a step, means over the ranks. Exposed is what a rank waits for with nothing else to do (solid), " +
    "hidden what goes on beside its work (hatched)."),
    table(["axes", "links", "kind", "#times", "#bytes sent", "#exposed", "#hidden", ""], rows));
}

function lossesText(each, best) {
  const loses = each.loses.map(([part, seconds]) => `${part} ${timeText(seconds)} more`);
  if (each.over_cap) loses.unshift(`memory: ${bytesText(each.over_cap)} above the cap`);
  if (each.chosen) return "the plan";
  const otherwise = each.seconds < best.seconds ? "memory: slower where it keeps the cap" : "nothing that matters";
  return joined(loses) || otherwise;
}

function showAlternatives() {
  const list = data.alternatives, into = body("alternatives");
  if (!list)
    return into.append(element("p", "No other plans were judged for this page: plan --auto lists here the recipes that " +
      "it compared, and what each loses on."));
  const best = list.find(each => each.chosen);
  const rows = list.map(each => each.reason !== undefined ? [each.recipe, "", "", "", "", `not compiled: ${each.reason}`] :
    [each.recipe, timeText(each.seconds), `${(each.seconds / best.seconds).toFixed(3)} x`, bytesText(each.device_bytes),
      bytesText(each.sent_bytes), lossesText(each, best)]);
  into.append(note(`${list.length} recipes were compiled and simulated, here as if memory were unlimited. Where a step ` +
    "takes longer than the plan's, what takes longer comes with it."),
    scrolled(table(["recipe", "#a step", "#against the plan", "#of the device", "#sent a rank", "loses on"], rows,
      i => list[i].chosen ? "chosen" : ""), "Recipes"));
}

function summary() {
  if (!step) return data.model;
  const exposed = sum((data.communication ?? []).map(each => each.exposed)), classes = step.simulated_ranks;
  const rates = step.machine ? `the rates of ${step.machine}` : "uncalibrated rates (no --machine)";
  const ranks = step.ranks === 1 ? "1 rank" :
    `${number(step.ranks)} ranks in ${number(classes)} class${classes === 1 ? "" : "es"} of equal ones`;
  return `${data.model}, program ${step.program}: ${timeText(step.seconds)} a step by ${rates}, ${percent(step.mfu)} of ` +
    `what the products' rate allows. ${ranks}. Of the step ${percent(step.computing / step.seconds)} is computing, ` +
    `${percent(exposed / step.seconds)} exposed communication, ${percent(sum(Object.values(step.idle)) / step.seconds)} idle.`;
}

document.getElementById("summary").textContent = summary();
showTimeline();
showMeasured();
showMemory();
showPlan();
showCommunication();
showAlternatives();
redraw();
