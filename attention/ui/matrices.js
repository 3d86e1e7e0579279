// Small matrices side by side as tables of text. Text is set through textContent alone.

export default function ({ data: [groups], parentElement }) {
  const drawn = JSON.stringify(groups);
  let root = parentElement.querySelector(".matrices");
  if (root?.drawn === drawn) return; // as it was: focus and scroll stay
  root?.remove();
  root = element("div", "matrices");
  root.drawn = drawn;
  for (const [title, tables] of groups) {
    const group = element("section");
    if (title) group.append(element("p", "title", title));
    const line = element("div", "tables");
    line.append(...tables.map((table) => draw(table, title)));
    group.append(line);
    root.append(group);
  }
  parentElement.append(root);
}

function draw({ title, note, columns, rows, cells }, of) {
  const figure = element("figure");
  const caption = element("figcaption");
  caption.append(element("b", "", title));
  if (note) caption.append(" ", element("span", "", note));
  const table = element("table");
  table.setAttribute("aria-label", of ? `${of}: ${title}` : title);
  const head = table.createTHead().insertRow();
  head.append(element("td"), ...columns.map((text) => heading("col", text)));
  const body = table.createTBody();
  cells.forEach((row, i) => {
    const line = body.insertRow();
    line.append(heading("row", rows[i]));
    for (const [text, look] of row) {
      const cell = element("td", look, look.includes("apart") ? `≠ ${text}` : text);
      cell.dataset.cell = "";
      line.append(cell);
    }
  });
  const scroll = element("div", "scroll");
  scroll.tabIndex = 0; // so that a wide one can be scrolled by the keyboard
  scroll.setAttribute("role", "group");
  scroll.setAttribute("aria-label", table.getAttribute("aria-label"));
  scroll.append(table);
  figure.append(caption, scroll);
  return figure;
}

function heading(scope, text) {
  const made = element("th", "", text);
  made.scope = scope;
  made.title = text;
  return made;
}
