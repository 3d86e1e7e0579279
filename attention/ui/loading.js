// Runs for the first visitor after a server's start alone, while PyTorch loads.
// Until app.py has named its pages, Streamlit tells a visitor who came by a page's own address that there is no such
// page, and then shows it. That message is closed here as soon as it opens.
const FIRST_SECONDS = 20_000;

function closeMessage() {
  for (const dialog of document.querySelectorAll("[role=dialog]"))
    if (dialog.textContent.includes("Page not found")) dialog.querySelector("button")?.click();
}

export default function () {
  const observer = new MutationObserver(closeMessage);
  observer.observe(document.body, { subtree: true, childList: true });
  setTimeout(() => observer.disconnect(), FIRST_SECONDS);
  closeMessage();
}
