const data = JSON.parse(document.getElementById("step").textContent);
const text = number => data.texts[number];
const body = section => document.getElementById(section + "-body");
const element = (tag, content, name) => Object.assign(document.createElement(tag), {textContent: content ?? "", className: name ?? ""});
const number = value => Number(value).toLocaleString("en");
const note = content => element("p", content, "note");
const sum = list => list.reduce((a, b) => a + b, 0);
// Those that there are.
const joined = (parts, by = ", ") => parts.filter(part => part).join(by);
const percent = share => (100 * share).toFixed(1) + " %";

function scaled(value, units, base) {
  let unit = 0;
  for (; Math.abs(value) >= base && unit + 1 < units.length; ++unit) value /= base;
  return `${value >= 100 || Number.isInteger(value) ? Math.round(value) : value.toPrecision(3)} ${units[unit]}`;
}
const bytesText = bytes => scaled(bytes, ["bytes", "KiB", "MiB", "GiB", "TiB"], 1024);
const flopsText = flops => scaled(flops, ["flop", "kflop", "Mflop", "Gflop", "Tflop", "Pflop"], 1000);
function timeText(seconds) {
  const size = Math.abs(seconds);
  if (size === 0) return "0 s";
  const [factor, unit] = size >= 1 ? [1, "s"] : size >= 1e-3 ? [1e3, "ms"] : size >= 1e-6 ? [1e6, "us"] : [1e9, "ns"];
  return Number((seconds * factor).toPrecision(4)) + " " + unit;
}

// Heads that begin with # are of numbers.
function table(heads, rows, rowName) {
  const result = element("table"), head = result.createTHead().insertRow(), lines = result.createTBody();
  const isNumber = heads.map(text => text.startsWith("#"));
  heads.forEach((text, i) => head.append(element("th", text.replace("#", ""), isNumber[i] ? "n" : "")));
  rows.forEach((row, i) => {
    const line = lines.insertRow();
    line.className = rowName?.(i) ?? "";
    row.forEach((cell, column) => {
      const put = line.insertCell();
      put.className = isNumber[column] ? "n" : "";
      put.append(cell instanceof Node ? cell : String(cell));
    });
  });
  return result;
}

function scrolled(node, label) {
  const box = element("div", "", "scroll");
  box.append(node);
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", label);
  return box;
}

function bar(share, name) {
  const result = element("span", "", "bar " + (name ?? ""));
  result.style.width = 16 * Math.max(0, Math.min(1, share)) + "em";
  return result;
}

// What can be told apart without colours: lines in several directions and distances, dots.
const hatches = {
  none: () => {},
  rising: c => { c.moveTo(-1, 9); c.lineTo(9, -1); },
  falling: c => { c.moveTo(-1, -1); c.lineTo(9, 9); },
  crossed: c => { hatches.rising(c); hatches.falling(c); },
  upright: c => { c.moveTo(4, 0); c.lineTo(4, 8); },
  level: c => { c.moveTo(0, 4); c.lineTo(8, 4); },
  grid: c => { hatches.upright(c); hatches.level(c); },
  dots: c => { c.rect(2, 2, 2, 2); c.rect(6, 6, 1, 1); },
};
const made = new Map();
function fill(context, [background, ink, hatch]) {
  const key = background + ink + hatch;
  if (!made.has(key)) {
    const tile = element("canvas");
    tile.width = tile.height = 8;
    const c = tile.getContext("2d");
    c.fillStyle = background;
    c.fillRect(0, 0, 8, 8);
    c.strokeStyle = ink;
    c.beginPath();
    hatches[hatch](c);
    c.stroke();
    made.set(key, context.createPattern(tile, "repeat"));
  }
  return made.get(key);
}

// A canvas of as many dots as the screen has; its drawing context is in pixels of the page.
function fitted(canvas) {
  const width = canvas.clientWidth, height = canvas.clientHeight, dots = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * dots));
  canvas.height = Math.max(1, Math.round(height * dots));
  const context = canvas.getContext("2d");
  context.scale(dots, dots);
  return [context, width, height];
}

function key(style, label) {
  const result = element("span", "", "key"), swatch = element("canvas");
  swatch.width = 36;
  swatch.height = 20;
  const context = swatch.getContext("2d");
  context.fillStyle = fill(context, style);
  context.fillRect(0, 0, 36, 20);
  result.append(swatch, label);
  return result;
}

const redraws = [];
let isDue = false;
function redraw() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    redraws.forEach(draw => draw());
  });
}
window.addEventListener("resize", redraw);
