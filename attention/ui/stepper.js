// Step by step: the source with the line that ran marked, and every variable as it is after that line.
// All lines arrive at once; walking them needs no server. Text is set through textContent alone.

const views = new WeakMap(); // root of a component -> its View
const SPEEDS = [["slow", 3000], ["normal", 1500], ["fast", 600]];

export default function ({ data, parentElement }) {
  let view = views.get(parentElement);
  if (!view) {
    view = build(parentElement);
    views.set(parentElement, view);
  }
  view.data = data;
  view.cards.replaceChildren();
  view.made.clear();
  go(view, Math.min(view.at, data.lines.length - 1));
}

function build(parent) {
  const root = element("div", "stepper");
  const view = { root, at: 0, timer: 0, made: new Map(), pause: 1500 };
  const bar = element("div", "bar");
  const button = (name, label, action) => {
    const made = element("button", "", label);
    made.type = "button";
    made.dataset.go = name;
    made.addEventListener("click", action);
    bar.append(made);
    return made;
  };
  view.first = button("first", "First", () => move(view, -Infinity));
  view.previous = button("previous", "Previous", () => move(view, -1));
  view.next = button("next", "Next", () => move(view, 1));
  view.last = button("last", "Last", () => move(view, Infinity));
  view.play = button("play", "Play", () => toggle(view));
  const label = element("label", "", "Speed ");
  const speed = element("select");
  for (const [name, pause] of SPEEDS) {
    const option = element("option", "", name);
    option.value = pause;
    option.selected = pause === view.pause;
    speed.append(option);
  }
  speed.addEventListener("change", () => {
    view.pause = Number(speed.value);
    if (view.timer) start(view);
  });
  label.append(speed);
  view.count = element("span", "count");
  view.count.setAttribute("aria-live", "polite");
  bar.append(label, view.count);
  const columns = element("div", "columns");
  view.code = element("div", "code");
  const right = element("div", "right");
  view.words = element("p", "words");
  view.words.setAttribute("aria-live", "polite");
  view.cards = element("div", "cards");
  view.pictures = element("div", "cards");
  right.append(view.words, view.cards, view.pictures);
  columns.append(view.code, right);
  root.append(bar, columns);
  parent.append(root);
  document.addEventListener("keydown", (event) => press(view, event));
  return view;
}

// ---- walking -------------------------------------------------------------------------------------------------------

const KEYS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity };

function press(view, event) {
  const target = event.composedPath()[0];
  if (!view.root.isConnected || event.altKey || event.ctrlKey || event.metaKey) return;
  if (target.closest?.("input, textarea, select, [role=listbox], [role=radiogroup], [contenteditable]")) return;
  if (event.key === " " && !target.closest?.("button, summary")) toggle(view);
  else if (KEYS[event.key]) move(view, KEYS[event.key]);
  else return;
  event.preventDefault();
}

function move(view, by) {
  stop(view);
  go(view, view.at + by);
}

function toggle(view) {
  if (view.timer) return stop(view);
  if (view.at === view.data.lines.length - 1) go(view, 0);
  start(view);
}

function start(view) {
  clearInterval(view.timer);
  view.play.textContent = "Pause";
  view.timer = setInterval(() => {
    if (!view.root.isConnected || view.at === view.data.lines.length - 1) return stop(view);
    go(view, view.at + 1);
  }, view.pause);
}

function stop(view) {
  clearInterval(view.timer);
  view.timer = 0;
  view.play.textContent = "Play";
}

// ---- drawing -------------------------------------------------------------------------------------------------------

function go(view, at) {
  const { data } = view;
  view.at = Math.max(0, Math.min(data.lines.length - 1, at));
  view.root.classList.toggle("dark", isDark(view.root));
  const line = data.lines[view.at];
  view.first.disabled = view.previous.disabled = view.at === 0;
  view.next.disabled = view.last.disabled = view.at === data.lines.length - 1;
  view.count.textContent = `line ${view.at + 1} of ${data.lines.length}`;
  view.words.replaceChildren(...marked(line.words));
  drawCode(view, line);
  drawCards(view, line);
  view.pictures.replaceChildren(...line.pictures.map(({ title, tensor }) => card(title, "", data.tensors[tensor])));
}

// Our own words hold names between backticks.
const marked = (words) => words.split("`").map((part, i) => (i % 2 ? element("code", "", part) : document.createTextNode(part)));

function drawCode(view, line) {
  const blocks = Object.entries(view.data.sources).map(([name, source]) => {
    const block = element("div");
    block.append(element("h4", "", name));
    const list = element("pre");
    const rows = source.split("\n");
    const [from, to] = docstring(rows);
    rows.forEach((text, i) => {
      if (i > from && i <= to) return;
      const row = element("div", "line", i === from && to > from ? `${text.replace(/"""[^]*/, '"""')} … """` : text || " ");
      row.dataset.line = i + 1;
      if (name === line.function && i + 1 === line.line) row.setAttribute("aria-current", "step");
      list.append(row);
    });
    block.append(list);
    return block;
  });
  view.code.replaceChildren(...blocks);
}

// A function's long docstring is folded: [first, last] of its lines, or an empty range.
function docstring(rows) {
  const from = rows.findIndex((row) => row.trim().startsWith('"""'));
  if (from < 0 || rows[from].trim().length > 3 && rows[from].trim().endsWith('"""')) return [-1, -1];
  return [from, rows.findIndex((row, i) => i > from && row.trim().endsWith('"""'))];
}

function drawCards(view, line) {
  const { tensors, course } = view.data;
  const names = Object.keys(line.values);
  const changed = new Set(line.changed);
  const inOrder = [...names.filter((name) => changed.has(name)), ...names.filter((name) => !changed.has(name)).reverse()];
  const cards = inOrder.map((name) => {
    const key = `${name} ${line.values[name]}`;
    if (!view.made.has(key)) {
      const made = card(name, course[name] && course[name] !== name ? `course: ${course[name]}` : "", tensors[line.values[name]]);
      made.dataset.variable = name;
      view.made.set(key, made);
    }
    const made = view.made.get(key);
    made.classList.toggle("changed", changed.has(name));
    made.querySelector(".new").textContent = changed.has(name) ? "made on this line" : "";
    return made;
  });
  view.cards.replaceChildren(...cards);
}

const NUMBERS_UP_TO = 16;

function card(name, course, tensor) {
  const made = element("section", "card");
  const head = element("h5", "", name);
  head.append(" ", element("small", "", `${tensor.shape.join(" × ")} ${course}`), " ", element("em", "new"));
  const scroll = element("div", "scroll");
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", name);
  scroll.append(table(tensor), element("pre", "", tensor.text));
  made.append(head, scroll);
  return made;
}

function table(tensor) {
  const made = element("table");
  const rows = tensor.rows;
  const small = rows.length <= NUMBERS_UP_TO && rows[0].length <= NUMBERS_UP_TO;
  made.classList.toggle("tiny", !small);
  const truth = tensor.text.includes("True") || tensor.text.includes("False");
  const finite = rows.flat().filter((x) => Number.isFinite(x) && x !== -1e9);
  const most = Math.max(...finite.map(Math.abs)) || 1;
  for (const row of rows) {
    const line = made.insertRow();
    for (const value of row) {
      const cell = line.insertCell();
      cell.dataset.value = value;
      const text = typeof value === "string"; // infinity and NaN, which JSON does not know
      const far = truth ? value : text || value === -1e9; // what the course hides with
      if (far) cell.dataset.far = "";
      else if (!truth)
        cell.style.backgroundColor = `rgb(var(${value < 0 ? "--negative" : "--positive"}) / ${((Math.abs(value) / most) * 0.55).toFixed(3)})`;
      if (small) cell.textContent = truth ? (value ? "True" : "False") : text ? value : far ? "−1e9" : value.toFixed(4).replace("-", "−");
    }
  }
  return made;
}
