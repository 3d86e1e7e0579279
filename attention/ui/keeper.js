// Keeps the last experiment in this browser tab, and offers it to a session that begins anew: when a server was restarted
// or is another one, or the page was loaded again at the same address.
const KEY = "attention-workbench";
let last = null; // the experiment of this page, for as long as it is not loaded again
let copied = null; // the link that was copied last

function stored() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY));
  } catch {
    return null; // storage is switched off, or holds something else
  }
}

const address = () => location.pathname + location.search;

// the address is kept when the page goes, because it follows the controls a moment later than the experiment does
window.addEventListener("pagehide", () => {
  if (last === null) return;
  try {
    sessionStorage.setItem(KEY, JSON.stringify({ address: address(), experiment: last }));
  } catch {
    // see above
  }
});

export default function ({ data, setTriggerValue }) {
  const before = stored();
  const kept = last ?? (before?.address === address() ? before.experiment : null);
  if (data.fresh && kept !== null && kept !== data.experiment) setTriggerValue("restore", kept);
  else last = data.experiment;
  if (data.link && data.link !== copied) navigator.clipboard?.writeText(data.link).catch(() => {});
  copied = data.link;
}
