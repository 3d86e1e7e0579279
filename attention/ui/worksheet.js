// The worksheet: draws every matrix as a table once, then updates only the cells that changed.
// Text from people is set through textContent alone.

const sheets = new WeakMap(); // root of a component -> its Sheet

export default function ({ data: [data], parentElement, setTriggerValue }) {
  let sheet = sheets.get(parentElement);
  if (!sheet || sheet.shape !== shapeOf(data)) {
    sheet?.root.remove();
    sheet = build(data);
    parentElement.appendChild(sheet.root);
    sheets.set(parentElement, sheet);
  }
  // a stroke that is still on its way goes along, because the server would drop it for a newer message
  const say = (what, value) => {
    if (sheet.strokes.length) send(sheet);
    setTriggerValue(what, value);
  };
  sheet.tell = (cell) => say("pin", cell);
  sheet.edited = () => say("edited", true);
  sheet.paint = (flipped) => setTriggerValue("paint", flipped);
  current = sheet;
  update(sheet, data);
}

const shapeOf = (data) =>
  [JSON.stringify(Object.values(data.axes).map((axis) => axis.length)), JSON.stringify(data.sections)].join();

// ---- numbers -------------------------------------------------------------------------------------------------------

// As Python and PyTorch round: a value exactly half way goes to the even digit, where toFixed always goes up.
export function fixed(value, decimals) {
  const text = value.toFixed(decimals);
  // a half way value is an odd number of 1 / 2^(decimals + 1), and scaling by a power of two is exact
  const halves = Math.abs(value) * 2 ** (decimals + 1);
  const digit = Number(text.at(-1));
  const tie = Number.isInteger(halves) && halves % 2 === 1;
  const rounded = tie && digit % 2 === 1 ? text.slice(0, -1) + (digit - 1) : text;
  return Object.is(value, -0) ? "-" + rounded : rounded;
}

// A fraction as a percentage with two decimals, which never says 0 or 100 unless it is exactly that.
export function percent(fraction) {
  const value = 100 * fraction;
  if (fraction > 0 && value < 0.005) return "<0.01 %";
  if (fraction < 1 && value >= 99.995) return ">99.99 %";
  return fixed(value, 2) + " %";
}

function wordsFor(unit, value, hidden) {
  if (Number.isNaN(value)) return "NaN";
  if (unit === "hidden") return value ? "hidden" : "visible";
  if (hidden) return unit === "fraction" ? "0 hidden" : "hidden";
  return unit === "fraction" ? percent(value) : fixed(value, 4).replace("-", "−");
}

// The whole value, for the pointer and the reader line.
function whole(table, i, j) {
  const value = table.values[i * table.m + j];
  if (table.unit === "hidden") return value ? "True: hidden" : "False: visible";
  if (Number.isNaN(value)) return `NaN, not a number: query ${i + 1} sees no key`;
  if (table.hidden[i * table.m + j])
    return table.unit === "fraction" ? "exactly 0, hidden by the mask" : "−∞, hidden by the mask";
  return table.unit === "fraction" ? `${plain(value)} = ${percent(value)}` : plain(value);
}

// Every digit, without an exponent.
function plain(value) {
  const text = String(value);
  if (!text.includes("e")) return text.replace("-", "−");
  const digits = value.toFixed(Math.min(100, 18 - Math.floor(Math.log10(Math.abs(value)))));
  return (digits.includes(".") ? digits.replace(/0+$/, "") : digits).replace("-", "−");
}

// ---- building ------------------------------------------------------------------------------------------------------

function build(data) {
  const root = element("div", "sheet");
  const sheet = { root, shape: shapeOf(data), tables: [], lit: [], strokes: [], brush: null, under: null };
  sheet.notice = element("p", "notice");
  sheet.notice.setAttribute("role", "status");
  root.append(sheet.notice);
  for (const section of data.sections) {
    const heading = element("h3", "", section.title);
    heading.append(" ", element("small", "", section.note));
    const lines = element("div", "lines");
    root.append(heading, lines);
    for (const line of section.lines) {
      const equation = element("div", "equation");
      let term = element("div", "term"); // a table and the sign before it: where lines break they stay together
      for (const part of line) {
        if (!data.tables[part]) {
          term.append(element("span", "sign", part));
          continue;
        }
        const table = buildTable(part, data);
        sheet.tables.push(table);
        term.append(table.figure);
        equation.append(term);
        term = element("div", "term");
      }
      lines.append(equation);
    }
  }
  sheet.empty = element("p", "notice");
  sheet.empty.setAttribute("role", "status");
  const foot = element("div", "foot");
  sheet.reader = element("p", "reader");
  sheet.reader.setAttribute("aria-live", "polite");
  sheet.keys = element("p", "keys");
  sheet.keys.id = `worksheet-keys-${made++}`;
  tableNamed(sheet, "mask").table.setAttribute("aria-describedby", sheet.keys.id);
  foot.append(sheet.reader, sheet.keys);
  root.append(sheet.empty, foot);
  root.addEventListener("pointerover", (event) => point(sheet, event.target.closest("td[data-row], th")));
  root.addEventListener("pointerleave", () => point(sheet, null));
  root.addEventListener("focusin", (event) => point(sheet, event.target.closest("td[data-row]")));
  root.addEventListener("pointerdown", (event) => takeBrush(sheet, event));
  root.addEventListener("click", (event) => click(sheet, event));
  root.addEventListener("keydown", (event) => press(sheet, event));
  return sheet;
}

let made = 0;

function buildTable(step, data) {
  const { rows, columns, unit } = data.tables[step];
  const n = data.axes[rows].length;
  const m = data.axes[columns].length;
  const figure = element("figure", n * m > 400 ? "large" : "");
  const caption = element("figcaption");
  const title = element("b");
  const formula = element("span");
  const course = element("code");
  const first = element("div");
  first.append(title, " ", course);
  caption.append(first, formula);
  caption.id = `worksheet-caption-${made++}`;
  const scroll = element("div", "scroll");
  scroll.addEventListener("scroll", () => figure.classList.toggle("scrolled", Boolean(scroll.scrollLeft || scroll.scrollTop)));
  const table = element("table");
  table.dataset.step = step;
  table.setAttribute("role", "grid");
  table.setAttribute("aria-labelledby", caption.id);
  const head = element("thead");
  const headRow = element("tr");
  headRow.append(element("td", "corner"));
  const columnHeads = [];
  for (let j = 0; j < m; j++) columnHeads.push(headRow.appendChild(header("col")));
  head.append(headRow);
  const body = element("tbody");
  const rowHeads = [];
  const cells = [];
  for (let i = 0; i < n; i++) {
    const row = element("tr");
    rowHeads.push(row.appendChild(header("row")));
    for (let j = 0; j < m; j++) {
      const cell = element("td");
      cell.dataset.row = i;
      cell.dataset.col = j;
      cell.tabIndex = i || j ? -1 : 0;
      cell.append("");
      cells.push(row.appendChild(cell));
    }
    body.append(row);
  }
  table.append(head, body);
  scroll.append(table);
  figure.append(caption, scroll);
  return {
    step, unit, n, m, figure, table, title, formula, course, rowHeads, columnHeads, cells,
    values: new Float64Array(n * m).fill(NaN), hidden: new Uint8Array(n * m).fill(2), tints: new Int8Array(n * m).fill(99),
    empty: new Uint8Array(n), width: 0, current: cells[0],
  };
}

function header(scope) {
  const made = element("th");
  made.scope = scope;
  made.append(element("span"));
  return made;
}

// ---- updating ------------------------------------------------------------------------------------------------------

const setText = (node, text) => {
  if (node.textContent !== text) node.textContent = text;
};

function update(sheet, data) {
  const all = new Float32Array(bytesOf(data.values).buffer);
  sheet.data = data;
  sheet.root.classList.toggle("dark", isDark(sheet.root));
  sheet.root.classList.toggle("stale", data.stale);
  setText(sheet.notice, data.stale ? "These numbers are from before your last edit, which cannot be read yet." : "");
  let start = 0;
  const slices = {};
  for (const table of stepsInOrder(sheet, data)) {
    slices[table.step] = all.subarray(start, start + table.n * table.m);
    start += table.n * table.m;
  }
  const scale = {};
  for (const table of sheet.tables) scale[table.step] = largest(slices[table.step]);
  scale.masked_scores = scale.capped_scores ?? scale.biased_scores ?? scale.scores; // one scale before and after the mask
  sheet.strokes = sheet.strokes.filter((stroke) => stroke.number > data.stroke);
  const empty = rowsWithoutKey(slices.mask, data.axes.queries.length, data.axes.keys.length);
  if (!data.blind) empty.fill(0); // a sink takes all of such a row, which is 0 and no NaN
  setText(sheet.empty, wordsForEmpty(empty, data.axes.keys.length));
  for (const table of sheet.tables) {
    const values = table.step === "mask" ? painted(sheet, slices.mask) : slices[table.step];
    updateTable(table, data, values, table.step === "mask" ? values : slices.mask, scale[table.step]);
    if (SUFFERS.has(table.step)) markEmpty(table, empty);
  }
  sheet.pinned = cellNamed(sheet, data.pinned);
  point(sheet, sheet.under);
}

// The values come in the order of data.tables.
function stepsInOrder(sheet, data) {
  const byStep = new Map(sheet.tables.map((table) => [table.step, table]));
  return Object.keys(data.tables).map((step) => byStep.get(step));
}

function bytesOf(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64); // far faster, where the browser has it
  return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
}

function largest(values) {
  let most = 0;
  for (const value of values) if (Number.isFinite(value) && Math.abs(value) > most) most = Math.abs(value);
  return most || 1;
}

const LEVELS = 40;
const HIDES = new Set(["mask", "masked_scores", "weights"]);

function updateTable(table, data, values, mask, scale) {
  const words = data.tables[table.step];
  setText(table.title, words.title);
  setText(table.formula, `${words.formula} · ${table.n} × ${table.m}`);
  setText(table.course, words.course);
  updateHeads(table.rowHeads, data.axes[words.rows], data.whole[words.rows]);
  updateHeads(table.columnHeads, data.axes[words.columns], data.whole[words.columns]);
  const hides = HIDES.has(table.step);
  let longest = 0;
  for (let c = 0; c < values.length; c++) {
    const value = values[c];
    const hidden = hides && !Number.isNaN(value) ? mask[c] : 0;
    const cell = table.cells[c];
    if (!Object.is(table.values[c], value) || table.hidden[c] !== hidden) write(table, c, value, hidden);
    const plainly = hidden || table.unit === "hidden" || Number.isNaN(value);
    const tint = plainly ? 0 : Math.round((value / (table.unit === "fraction" ? 1 : scale)) * LEVELS);
    if (tint !== table.tints[c]) {
      const colour = table.unit === "fraction" ? "--fraction" : tint < 0 ? "--negative" : "--positive";
      cell.style.backgroundColor = tint ? `rgb(var(${colour}) / ${((Math.abs(tint) / LEVELS) * 0.55).toFixed(3)})` : "";
      table.tints[c] = tint;
    }
    const length = cell.firstChild.length;
    if (length > longest) longest = length;
  }
  const width = Math.max(7, longest);
  if (width !== table.width) table.table.style.setProperty("--width", (table.width = width));
}

function write(table, c, value, hidden) {
  const cell = table.cells[c];
  cell.firstChild.data = wordsFor(table.unit, value, hidden); // a new text in its place would take twice as long
  cell.setAttribute("data-value", value);
  if (table.hidden[c] !== hidden) cell.toggleAttribute("data-hidden", Boolean(hidden));
  table.values[c] = value;
  table.hidden[c] = hidden;
}

function updateHeads(heads, shown, whole) {
  for (let i = 0; i < heads.length; i++) {
    setText(heads[i].firstChild, shown[i]);
    if (heads[i].title !== whole[i]) heads[i].title = whole[i];
  }
}

// ---- rows that see no key ------------------------------------------------------------------------------------------

const SUFFERS = new Set(["masked_scores", "weights", "output", "joined", "projected"]);

// 1 for each query from which every key is hidden
const rowsWithoutKey = (mask, n, m) => Uint8Array.from({ length: n }, (_, i) => mask.subarray(i * m, i * m + m).every((x) => x));

function markEmpty(table, empty) {
  table.rowHeads.forEach((head, i) => {
    if (table.empty[i] !== empty[i]) head.parentElement.toggleAttribute("data-empty", Boolean(empty[i]));
    table.empty[i] = empty[i];
  });
}

function wordsForEmpty(empty, keys) {
  const queries = [...empty.keys()].filter((i) => empty[i]).map((i) => i + 1);
  if (!queries.length) return "";
  const who = queries.length === 1 ? `Query ${queries[0]} sees` : `Queries ${queries.slice(0, -1).join(", ")} and ${queries.at(-1)} see`;
  return (
    `${who} no key: 0 ÷ 0 is NaN. The course's −1e9 would give 1/${keys} each, scaled_dot_product_attention 0: ` +
    "see the page “What can go wrong”."
  );
}

// ---- painting the mask ---------------------------------------------------------------------------------------------

// A stroke flips cells of the mask, which change their look at once. What is sent holds the mask as the last data had it
// and all cells flipped since then, so that a stroke is never lost, whatever else is on its way. Data with the number of
// a stroke have it in their mask; a stroke that is not in any after a while is sent again.
let strokes = 0;
const PATIENCE = 3000;

const inMask = (target) => target.closest('table[data-step="mask"]');
const toggle = (cells, c) => cells.delete(c) || cells.add(c);

// The mask with what was painted since it was sent.
function painted(sheet, mask) {
  const values = mask.slice();
  for (const { cells } of [...sheet.strokes, sheet.brush ?? { cells: [] }]) for (const c of cells) values[c] = 1 - values[c];
  return values;
}

function flip(sheet, cells, c) {
  const table = tableNamed(sheet, "mask");
  const value = 1 - table.values[c];
  cells.add(c);
  write(table, c, value, value);
}

// All of these cells are hidden, or shown if they were all hidden.
function paintAll(sheet, places) {
  const { values } = tableNamed(sheet, "mask");
  const shown = places.filter((c) => !values[c]);
  const cells = new Set();
  for (const c of shown.length ? shown : places) flip(sheet, cells, c);
  endStroke(sheet, cells);
}

function endStroke(sheet, cells) {
  sheet.strokes.push({ number: ++strokes, cells });
  send(sheet);
  point(sheet, sheet.under);
}

function send(sheet) {
  const { m } = tableNamed(sheet, "mask");
  const flipped = new Set();
  for (const stroke of sheet.strokes) for (const c of stroke.cells) toggle(flipped, c);
  const cells = [...flipped].map((c) => [Math.floor(c / m), c % m]);
  sheet.paint({ stroke: sheet.strokes.at(-1).number, mask: sheet.data.mask, cells });
  clearTimeout(sheet.waiting);
  sheet.waiting = setTimeout(() => sheet.root.isConnected && sheet.strokes.length && send(sheet), PATIENCE);
}

const query = (table, i) => Array.from({ length: table.m }, (_, j) => i * table.m + j);
const key = (table, j) => Array.from({ length: table.n }, (_, i) => i * table.m + j);

// The head of a row or a column stands for the whole query or key.
function wholeOf(table, head) {
  const i = table.rowHeads.indexOf(head);
  return i < 0 ? key(table, table.columnHeads.indexOf(head)) : query(table, i);
}

// The first cell decides whether the brush hides or shows; every cell that it passes becomes like it.
function takeBrush(sheet, event) {
  const cell = event.target.closest("td[data-row]");
  if (!cell || !inMask(cell) || event.button || !event.isPrimary || sheet.brush) return;
  const table = tableOf(sheet, cell);
  const [i, j] = place(cell);
  const brush = (sheet.brush = { cells: new Set(), hides: 1 - table.values[i * table.m + j], at: [i, j] });
  flip(sheet, brush.cells, i * table.m + j);
  point(sheet, cell);
  const held = new AbortController();
  const follow = (type, followed) =>
    addEventListener(type, (e) => e.pointerId === event.pointerId && followed(e), { signal: held.signal });
  const lift = () => {
    held.abort();
    sheet.brush = null;
  };
  const end = () => {
    lift();
    endStroke(sheet, brush.cells);
  };
  follow("pointermove", (e) => (e.buttons ? brushOver(sheet, table, e) : end()));
  follow("pointerup", end);
  follow("pointercancel", () => {
    lift(); // a finger that began to scroll
    for (const c of [...brush.cells]) flip(sheet, new Set(), c);
  });
}

function brushOver(sheet, table, event) {
  const { brush } = sheet;
  const cell = sheet.root.getRootNode().elementFromPoint(event.clientX, event.clientY)?.closest("td[data-row]");
  if (!cell || tableOf(sheet, cell) !== table) return (brush.at = null);
  const to = place(cell);
  const from = brush.at ?? to;
  const steps = Math.max(1, ...[0, 1].map((axis) => Math.abs(to[axis] - from[axis]))); // a quick pointer leaps over cells
  for (let step = 1; step <= steps; step++) {
    const [i, j] = [0, 1].map((axis) => Math.round(from[axis] + ((to[axis] - from[axis]) * step) / steps));
    if (table.values[i * table.m + j] !== brush.hides) flip(sheet, brush.cells, i * table.m + j);
  }
  brush.at = to;
}

function click(sheet, event) {
  const table = inMask(event.target) && tableNamed(sheet, "mask");
  const cell = event.target.closest("td[data-row]");
  const head = event.target.closest("th");
  if (!table) pin(sheet, cell);
  else if (head) paintAll(sheet, wholeOf(table, head));
  else if (cell && !event.detail) paintAll(sheet, [table.cells.indexOf(cell)]); // by a screen reader, without a pointer
}

// ---- pointing and walking ------------------------------------------------------------------------------------------

const place = (cell) => [Number(cell.dataset.row), Number(cell.dataset.col)];
const tableOf = (sheet, cell) => sheet.tables.find((table) => table.table === cell.closest("table"));
const tableNamed = (sheet, step) => sheet.tables.find((table) => table.step === step);

function cellNamed(sheet, name) {
  if (!name) return null;
  const [step, i, j] = name.split(".");
  const table = tableNamed(sheet, step);
  return table?.cells[Number(i) * table.m + Number(j)] ?? null;
}

// The pointer, or the keyboard's focus, is on a cell: light up what it was computed from, and read out all its digits.
function point(sheet, cell) {
  sheet.under = cell;
  sheet.pointed = cell?.dataset.row ? cell : null;
  light(sheet, sheet.pointed ?? sheet.pinned);
  setText(sheet.keys, cell && inMask(cell) ? (sheet.pointed ? KEYS : HEADS) : "");
  if (!sheet.pointed) return setText(sheet.reader, HINT);
  const table = tableOf(sheet, cell);
  const [i, j] = place(cell);
  const words = sheet.data.tables[table.step];
  const text = whole(table, i, j);
  cell.title = text;
  setText(sheet.reader, `${words.title}, row ${sheet.data.axes[words.rows][i]}, column ${sheet.data.axes[words.columns][j]}: ${text}`);
}

const HINT = "Point at a number to see what it was computed from; click it, or press Enter, to see the arithmetic.";

const HEADS = "Click to hide the whole row or column, or to show it where all of it is hidden.";
const KEYS = "Click or drag to paint. Space: this cell; Shift + Space: its query; Ctrl + Space: its key; Enter: why.";

// The first kind of operand gets a solid ring, the second a dashed one; the cell itself a thick one while it is pinned.
function light(sheet, cell) {
  for (const lit of sheet.lit) lit.removeAttribute("data-operand");
  sheet.lit.length = 0;
  if (sheet.selected !== sheet.pinned) {
    sheet.selected?.removeAttribute("aria-selected");
    sheet.pinned?.setAttribute("aria-selected", "true");
    sheet.selected = sheet.pinned;
  }
  if (!cell) return;
  const [row, col] = place(cell);
  const here = { row: [row], col: [col], pair: [col - (col % 2), col - (col % 2) + 1] };
  sheet.data.sources[tableOf(sheet, cell).step].forEach(([step, rows, cols], kind) => {
    const table = tableNamed(sheet, step);
    here.halves = [col % (table.m / 2), (col % (table.m / 2)) + table.m / 2];
    for (const i of here[rows] ?? table.rowHeads.keys())
      for (const j of here[cols] ?? table.columnHeads.keys()) {
        const operand = table.cells[i * table.m + j];
        operand.dataset.operand = kind ? "second" : "first";
        sheet.lit.push(operand);
      }
  });
}

// Pinned cells are Python's business: it draws the arithmetic and keeps the link; the ring need not wait for it.
function pin(sheet, cell) {
  if (!cell && !sheet.pinned) return;
  sheet.pinned = cell;
  light(sheet, sheet.pointed ?? cell);
  sheet.tell(cell ? [tableOf(sheet, cell).step, ...place(cell)].join(".") : "");
}

const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -Infinity], End: [0, Infinity] };

function press(sheet, event) {
  const cell = event.target.closest("td[data-row]");
  if (!cell || event.altKey || event.metaKey) return;
  if (event.key === " " && inMask(cell)) {
    if (!event.repeat) paintAll(sheet, reach(tableOf(sheet, cell), place(cell), event));
    return event.preventDefault();
  }
  if (event.ctrlKey) return;
  if (event.key === "Enter" || event.key === " ") pin(sheet, cell);
  else if (event.key === "Escape") pin(sheet, null);
  else if (MOVES[event.key]) walk(sheet, cell, MOVES[event.key]);
  else return;
  event.preventDefault();
}

// What Space paints: a cell, with Shift its query, with Ctrl its key.
function reach(table, [i, j], event) {
  if (event.shiftKey) return query(table, i);
  return event.ctrlKey ? key(table, j) : [i * table.m + j];
}

// Arrows walk the cells; left of the first and right of the last column lies the matrix before and after.
function walk(sheet, cell, move) {
  let table = tableOf(sheet, cell);
  let [i, j] = place(cell);
  i += move[0];
  j += move[1];
  if (Math.abs(move[1]) === 1 && (j < 0 || j >= table.m)) {
    const next = sheet.tables[sheet.tables.indexOf(table) + move[1]];
    if (next) {
      table = next;
      j = move[1] > 0 ? 0 : table.m - 1;
    }
  }
  const clamp = (x, size) => Math.max(0, Math.min(size - 1, x));
  focus(table, table.cells[clamp(i, table.n) * table.m + clamp(j, table.m)]);
}

function focus(table, cell) {
  table.current.tabIndex = -1;
  table.current = cell;
  cell.tabIndex = 0;
  cell.focus();
}

// ---- the grid beside it --------------------------------------------------------------------------------------------

// Streamlit's grid would wait 150 ms before it sends an edit, in which a click on a button could overtake it. So it is
// told to keep edits (on_change="ignore": they go along with whatever is sent next), and this says when there may be
// something to send. A needless word costs a rerun that changes nothing; an edit that nobody sends would be the worse.
let current; // the Sheet on screen

const inGrid = (target) => Boolean(target?.closest?.("[class*=st-key-encodings], #portal"));
const cellOpen = () => Boolean(document.querySelector("#portal .gdg-clip-region"));
let left; // the Sheet of a page that is being left
const untold = new Set(); // timers
const tell = (after = 0) => {
  const timer = setTimeout(() => {
    untold.delete(timer);
    if (current !== left && current?.root.isConnected) current.edited();
  }, after);
  untold.add(timer);
};
const hear = (type, heard) => document.addEventListener(type, heard, true);
const CLEARS = ["Delete", "Backspace"];
const HARMLESS = ["Control", "Meta", "Shift", "c", "C", "a", "A", "f", "F", "v", "V", "x", "X"]; // paste and cut are heard below
let pasted = -Infinity;
let draggedInGrid = false;

hear("keydown", (event) => {
  if (!inGrid(event.target)) return;
  // closed cells are emptied by keys, and filled down by Ctrl+D and the like
  const edits = cellOpen() ? ["Enter", "Tab"].includes(event.key) : CLEARS.includes(event.key) || event.ctrlKey || event.metaKey;
  if (edits && !HARMLESS.includes(event.key)) tell();
});
hear("pointerdown", (event) => {
  draggedInGrid = inGrid(event.target);
  // a click elsewhere ends an edit; and a paste may have waited for a person to allow it
  if ((cellOpen() && !event.target.closest("#portal")) || performance.now() - pasted < 60_000) tell();
});
for (const type of ["pointerup", "pointercancel"])
  hear(type, () => {
    if (draggedInGrid) tell(30); // the corner of a selected cell fills others as it is dragged
    draggedInGrid = false;
  });
hear("focusout", (event) => {
  if (inGrid(event.target) && !inGrid(event.relatedTarget)) tell();
});
// What is said after a link to another page was followed would find its page gone, and leave the new one blank; the grid
// itself loses the focus as it goes. So a link waits until the grid has taken its edit, that was said and the server has
// answered; then nothing is said any more, unless the page is still there after a while.
const TAKEN = 30;
const PATIENT = 3_000;
const GONE = 5_000;
hear("click", (event) => {
  const link = event.target.closest?.("[data-testid=stSidebarNavLink]:not([aria-current=page])");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || left === current || !current?.root.isConnected) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  const follow = () => {
    left = current;
    setTimeout(() => (left = undefined), GONE);
    link.click();
  };
  if (!untold.size && !cellOpen()) return follow();
  untold.forEach(clearTimeout);
  untold.clear();
  whenAnswered(follow);
  tell(TAKEN);
});

// Calls back once a run that begins from now on has ended, or when that takes too long.
function whenAnswered(then) {
  const app = document.querySelector("[data-testid=stApp]");
  let running = false;
  const seen = new MutationObserver(() => {
    if (app.dataset.testScriptState !== "notRunning") running = true;
    else if (running) end();
  });
  const late = setTimeout(end, PATIENT);
  function end() {
    seen.disconnect();
    clearTimeout(late);
    then();
  }
  seen.observe(app, { attributeFilter: ["data-test-script-state"] });
}

for (const type of ["paste", "cut"])
  hear(type, (event) => {
    if (!inGrid(event.target)) return;
    pasted = performance.now();
    for (const after of [30, 150, 500, 2000]) tell(after); // the grid reads the clipboard in its own time
  });

// Ctrl+Z within a text field belongs to the field, and not to the page's undo.
window.addEventListener("keydown", (event) => {
  const field = event.composedPath()[0];
  const isUndo = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z";
  if (isUndo && field.matches?.("input, textarea, [contenteditable]")) event.stopImmediatePropagation();
}, true);
