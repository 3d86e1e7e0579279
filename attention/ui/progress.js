// Keeps what was practised in this browser, for all its tabs and across reloads; copies a link that was asked for; and
// puts the keyboard where a person goes on: to the answer, or to the next question.
const KEY = "attention-workbench-practice";
let tell = () => {}; // hands what is kept to the page on screen
let turned = 0; // the last time that the keyboard was moved
let copied = 0;
let saved = 0; // the last change of this page that is kept

function stored() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // storage is switched off
  }
}

function store(text) {
  try {
    localStorage.setItem(KEY, text);
  } catch {
    // see above; or it is full
  }
}

// another tab has practised meanwhile
window.addEventListener("storage", (event) => {
  if (event.key === KEY && event.newValue) tell(event.newValue);
});

export default function ({ data, setTriggerValue }) {
  tell = (text) => setTriggerValue("restore", text);
  // only what was done on this page is stored: an answer to what another tab told may come late, and would undo what was
  // done there since
  if (!data.fresh && data.changes > saved) store(data.progress);
  saved = data.changes;
  if (data.fresh && stored()) tell(stored());
  if (data.copy && data.copy.turn !== copied) navigator.clipboard?.writeText(data.copy.text).catch(() => {});
  copied = data.copy?.turn ?? 0;
  if (data.focus && data.focus.turn > turned) focusOn(data.focus.key);
  turned = data.focus?.turn ?? 0;
}

// Has a person tabbed on since they last answered or pressed a button?
let gone = false;
document.addEventListener("keydown", ({ key }) => (gone = key === "Tab" || (gone && key !== "Enter")), true);
document.addEventListener("click", () => (gone = false), true);

// What is to be focused may reach the page a moment later than this does, and may be replaced once more, which would
// lose the keyboard. A person who has gone elsewhere meanwhile is left alone.
function focusOn(key, frames = 180, took = false) {
  const found = document.querySelector(`.st-key-${key} :is(input, textarea, button)`);
  const lost = document.activeElement === null || document.activeElement === document.body;
  if (found && !found.disabled && (lost || !(took || gone))) {
    found.focus();
    took = true;
  } else if ((took || gone) && !lost && found !== document.activeElement) return;
  if (frames) requestAnimationFrame(() => focusOn(key, frames - 1, took));
}
