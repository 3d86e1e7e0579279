// The matrices of an exercise as equations: what is known, and what is asked. Text is set through textContent alone.

const roots = new WeakMap(); // root of a component -> the element that holds the equation

export default function ({ data: [data], parentElement }) {
  let root = roots.get(parentElement);
  if (!root) {
    root = element("div", "exercise");
    parentElement.append(root);
    roots.set(parentElement, root);
  }
  root.classList.toggle("dark", isDark(root));
  root.classList.toggle("small", data.small);
  root.replaceChildren(...data.lines.map(equation));
}

function equation(parts) {
  const line = element("div", "line");
  let term; // a sign and the matrix after it: where lines break they stay together
  for (const part of parts) {
    term ??= line.appendChild(element("div", "term"));
    term.append(part.rows ? matrix(part) : element("span", "sign", part.sign));
    if (part.rows) term = undefined;
  }
  return line;
}

function matrix({ name, title, course, rows, columns, cells }) {
  const figure = element("figure");
  const caption = element("figcaption");
  caption.append(element("b", "", title), " ", element("code", "", course));
  const scroll = element("div", "scroll");
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", title);
  const table = element("table");
  table.dataset.step = name;
  const head = table.createTHead().insertRow();
  head.append(element("td"));
  for (const column of columns) head.append(header("col", column));
  const body = table.createTBody();
  rows.forEach((row, i) => {
    const line = body.insertRow();
    line.append(header("row", row));
    for (const { text, kind, operand } of cells[i]) {
      const cell = line.insertCell();
      cell.textContent = text;
      if (kind) cell.dataset.kind = kind;
      if (operand) cell.dataset.operand = operand;
    }
  });
  scroll.append(table);
  figure.append(caption, scroll);
  return figure;
}

function header(scope, text) {
  const made = element("th");
  made.scope = scope;
  made.append(element("span", "", text));
  return made;
}
