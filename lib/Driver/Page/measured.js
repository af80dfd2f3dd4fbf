// What a run took, beside what was promised.
function showMeasured() {
  const run = data.measured, into = body("timeline");
  if (!run) return;
  const error = (promised, measured) =>
    measured ? (promised < measured ? "" : "+") + percent((promised - measured) / measured) : "not in the trace";
  const rows = list => list.map(each => [each.name, each.kind, each.rank, each.times, timeText(each.promised),
    timeText(each.measured), timeText(each.promised - each.measured), error(each.promised, each.measured)]);
  const figures = ["#rank", "#times a step", "#promised", "#measured", "#difference", "#error"];
  into.append(element("h3", "Measured"), element("p", joined([
    `${run.trace}, ${run.steps} step${run.steps === 1 ? "" : "s"}: ${timeText(run.seconds)} a step, promised ` +
      `${timeText(run.promised)} (${error(run.promised, run.seconds)}).`,
    "Times are of all of an operator's executions in a step, medians over the steps; the largest difference comes first.",
    run.operators.length < run.compared && `Shown are ${run.operators.length} of ${run.compared}.`,
  ], " ")), scrolled(table(["operator", "kind", ...figures], rows(run.operators)), "Operators, measured and promised"));
  if (run.communication.length)
    into.append(scrolled(table(["collective", "over", ...figures], rows(run.communication)),
      "Collectives, measured and promised"));
}
