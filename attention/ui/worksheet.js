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
  sheet.tell = (cell) => setTriggerValue("pin", cell);
  current = sheet;
  sheet.edited = () => setTriggerValue("edited", true);
  update(sheet, data);
}

const shapeOf = (data) =>
  [data.axes.tokens.length, data.axes.dimensions.length, JSON.stringify(data.sections)].join();

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
  if (unit === "hidden") return value ? "hidden" : "visible";
  if (hidden) return unit === "fraction" ? "0 hidden" : "hidden";
  return unit === "fraction" ? percent(value) : fixed(value, 4).replace("-", "−");
}

// The whole value, for the pointer and the reader line.
function whole(table, i, j) {
  const value = table.values[i * table.m + j];
  if (table.unit === "hidden") return value ? "True: hidden" : "False: visible";
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
  const sheet = { root, shape: shapeOf(data), tables: [], lit: [], notice: element("p", "notice") };
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
  sheet.reader = element("p", "reader");
  sheet.reader.setAttribute("aria-live", "polite");
  root.append(sheet.reader);
  root.addEventListener("pointerover", (event) => point(sheet, event.target.closest("td")));
  root.addEventListener("pointerleave", () => point(sheet, null));
  root.addEventListener("focusin", (event) => point(sheet, event.target.closest("td")));
  root.addEventListener("click", (event) => pin(sheet, event.target.closest("td[data-row]")));
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
    width: 0, current: cells[0],
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
  scale.masked_scores = scale.scores; // one scale before and after the mask
  for (const table of sheet.tables) updateTable(table, data, slices[table.step], slices.mask, scale[table.step]);
  sheet.pinned = cellNamed(sheet, data.pinned);
  point(sheet, sheet.pointed ?? null);
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
    const hidden = hides ? mask[c] : 0;
    const cell = table.cells[c];
    if (!Object.is(table.values[c], value) || table.hidden[c] !== hidden) {
      cell.textContent = wordsFor(table.unit, value, hidden);
      cell.dataset.value = value;
      if (table.hidden[c] !== hidden) cell.toggleAttribute("data-hidden", Boolean(hidden));
      table.values[c] = value;
      table.hidden[c] = hidden;
    }
    const tint = hidden || table.unit === "hidden" ? 0 : Math.round((value / (table.unit === "fraction" ? 1 : scale)) * LEVELS);
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

function updateHeads(heads, shown, whole) {
  for (let i = 0; i < heads.length; i++) {
    setText(heads[i].firstChild, shown[i]);
    if (heads[i].title !== whole[i]) heads[i].title = whole[i];
  }
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
  sheet.pointed = cell?.dataset.row ? cell : null;
  light(sheet, sheet.pointed ?? sheet.pinned);
  if (!sheet.pointed) return setText(sheet.reader, HINT);
  const table = tableOf(sheet, cell);
  const [i, j] = place(cell);
  const words = sheet.data.tables[table.step];
  const text = whole(table, i, j);
  cell.title = text;
  setText(sheet.reader, `${words.title}, row ${sheet.data.axes[words.rows][i]}, column ${sheet.data.axes[words.columns][j]}: ${text}`);
}

const HINT = "Point at a number to see what it was computed from; click it, or press Enter, to see the arithmetic.";

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
  const here = { row: [row, row], col: [col, col] };
  sheet.data.sources[tableOf(sheet, cell).step].forEach(([step, rows, cols], kind) => {
    const table = tableNamed(sheet, step);
    const [firstRow, lastRow] = here[rows] ?? [0, table.n - 1];
    const [firstCol, lastCol] = here[cols] ?? [0, table.m - 1];
    for (let i = firstRow; i <= lastRow; i++)
      for (let j = firstCol; j <= lastCol; j++) {
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
  if (!cell || event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.key === "Enter" || event.key === " ") pin(sheet, cell);
  else if (event.key === "Escape") pin(sheet, null);
  else if (MOVES[event.key]) walk(sheet, cell, MOVES[event.key]);
  else return;
  event.preventDefault();
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
const tell = (after = 0) => setTimeout(() => current?.root.isConnected && current.edited(), after);
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
