// What every component uses. Text is set through textContent alone, so that no text is ever read as HTML.

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// Is the page's theme a dark one?
function isDark(root) {
  const colour = getComputedStyle(root).getPropertyValue("--st-background-color").trim();
  const [r, g, b] = (colour.match(/^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})/i) ?? []).slice(1).map((x) => parseInt(x, 16));
  return r + g + b < 384;
}

