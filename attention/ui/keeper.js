// Keeps the last experiment in this browser tab, and offers it to a session that begins anew at the same address: after
// a reload, a closed laptop, or a server that was restarted or is another one.
const KEY = "attention-workbench";

export default function ({ data, setTriggerValue }) {
  let kept = null;
  try {
    kept = JSON.parse(sessionStorage.getItem(KEY));
  } catch {
    // storage that is switched off or holds something else keeps nothing
  }
  const address = location.pathname + location.search;
  if (data.fresh && kept?.address === address && kept.experiment !== data.experiment) {
    setTriggerValue("restore", kept.experiment);
    return;
  }
  try {
    sessionStorage.setItem(KEY, JSON.stringify({ address, experiment: data.experiment }));
  } catch {
    // see above
  }
}
