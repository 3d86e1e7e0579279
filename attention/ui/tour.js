// Three things to try. What was tried is told by the server or seen here; that the tour is over is kept in this browser.
const KEY = "attention-workbench-tour";
const STEPS = [
  ["Edit a number", "Click a number in the grid of encodings, type another one and press Enter. Every matrix follows."],
  ["Point at a cell", "Point at any number of the worksheet: what it was computed from lights up. Click it to see the arithmetic."],
  ["Flip the mask", "Choose none or causal at the left, or click cells of the mask matrix: the percentages change."],
];
const passed = new Set(); // steps that were tried or left out
let pointed = false;
let draw = () => {};

function isOver() {
  try {
    return localStorage.getItem(KEY) === "over";
  } catch {
    return passed.has("all"); // storage is switched off
  }
}

function end() {
  passed.add("all");
  try {
    localStorage.setItem(KEY, "over");
  } catch {
    // see above
  }
  draw();
}

document.addEventListener("pointerover", (event) => {
  // the worksheet is inside a shadow, of which event.target would only say that it is there
  if (pointed || !event.composedPath()[0].closest?.("table[data-step] td[data-row]")) return;
  pointed = true;
  draw();
});

export default function ({ data: [done], parentElement }) {
  let root = parentElement.querySelector("section");
  if (!root) {
    root = element("section", "tour");
    root.setAttribute("aria-label", "First steps");
    parentElement.appendChild(root);
  }
  draw = () => {
    [done[0], done[1] || pointed, done[2]].forEach((tried, step) => tried && passed.add(step));
    const step = STEPS.findIndex((_, i) => !passed.has(i));
    root.hidden = isOver();
    if (root.hidden) return root.replaceChildren();
    const title = step < 0 ? "That was the tour" : `${step + 1} of ${STEPS.length} · ${STEPS[step][0]}`;
    const words = step < 0 ? "Ready experiments are under Examples, at the left." : STEPS[step][1];
    if (root.dataset.title === title) return;
    root.dataset.title = title;
    const buttons = element("div", "buttons");
    if (step >= 0) buttons.append(button("Next", () => (passed.add(step), draw())));
    buttons.append(button(step < 0 ? "Close" : "Skip the tour", end));
    root.replaceChildren(element("p", "title", title), element("p", "", words), buttons);
  };
  draw();
}

function button(text, act) {
  const made = element("button", "", text);
  made.type = "button";
  made.addEventListener("click", act);
  return made;
}
