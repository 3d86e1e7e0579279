"""Edit one number in the grid of encodings and time, in a real browser, until every result on screen is right.

A sample is the time from the Enter key to the second animation frame after all values of q, k, v, the scores and the
output stand on the page, right to 4 decimals. The apps are edited in turn (A B C, A B C, ...), so that a busy machine
slows all of them alike. The peers are Dash with seven Plotly heatmaps and plain Streamlit with seven px.imshow charts,
each with its own grid, all of them computing the lesson; what counts as seen there is any text of the page. Where the
lesson is set beside 64 tokens, both are this app, and each number must stand in its own cell of the worksheet.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from playwright.sync_api import Browser, Page, sync_playwright

from attention import Experiment, lessons, link, run, steps
from tests import server
from tests.bench import launch
from tests.bench.figure import Figure, ratio
from tests.bench.peers import core
from tests.browser import chromium, drive

EDITS = 15
VIEWPORT = {"width": 1400, "height": 1800}
PEERS = server.ROOT / "tests" / "bench" / "peers"
DASH_PYTHON = server.ROOT / ".venv-bench" / "bin" / "python"

Rows = list[list[float]]

# window.shows(wanted): do all of these texts stand somewhere on the page?
SHOWS_TEXTS = """() => {
  const roots = [document];
  const collect = (root) => {
    for (const e of root.querySelectorAll('*')) if (e.shadowRoot) { roots.push(e.shadowRoot); collect(e.shadowRoot); }
  };
  let scans = 0;
  window.shows = (wanted) => {
    if (window.alwaysSearch || scans++ % 30 === 0) { roots.length = 1; collect(document); }
    const seen = new Set();
    for (const r of roots) for (const e of r.querySelectorAll('svg text, td, th, [role=gridcell], [data-value]'))
      for (const word of e.textContent.replace(/\\u2212/g, '-').split(/[^0-9.+\\-e]+/)) if (word) seen.add(word);
    return wanted.every((text) => seen.has(text) || (text === '0.0000' && seen.has('-0.0000')));
  };
}"""

# window.shows(wanted): does each [step, row, column, text] stand in its cell of the worksheet?
SHOWS_CELLS = """() => {
  let cells = new Map();
  const collect = (root) => {
    for (const e of root.querySelectorAll('table[data-step] td[data-row]'))
      cells.set([e.closest('table').dataset.step, e.dataset.row, e.dataset.col].join(), e);
    for (const e of root.querySelectorAll('*')) if (e.shadowRoot) collect(e.shadowRoot);
  };
  const reads = (step, row, column, text) => {
    const cell = cells.get([step, row, column].join());
    return cell?.isConnected && cell.textContent.trim().replace('\\u2212', '-').replace(/^-0.0000$/, '0.0000') === text;
  };
  window.shows = (wanted) => {
    const first = cells.get(wanted[0].slice(0, 3).join());
    if (!first?.isConnected) { cells = new Map(); collect(document); }
    return wanted.every((cell) => reads(...cell));
  };
}"""

# notes when the page sends something to a Streamlit server
NOTE_SENDS = """
  window.sends = [];
  const send = WebSocket.prototype.send;
  WebSocket.prototype.send = function (data) { window.sends.push(performance.now()); return send.call(this, data); };
"""

# window.sample: [milliseconds from the next Enter key to the second frame after the numbers are right,
# and to the first message to the server, if any], or null if they never are
WATCH = """(wanted) => { window.sample = new Promise((done) => {
  document.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter') return;
    const start = performance.now();
    const finish = () => {
      const sent = window.sends.find((time) => time >= start);
      done([performance.now() - start, sent === undefined ? null : sent - start]);
    };
    const tick = () => window.shows(wanted)
      ? requestAnimationFrame(() => requestAnimationFrame(finish))
      : requestAnimationFrame(tick);
    tick();
  }, { once: true, capture: true });
  setTimeout(() => done(null), 10000); }); }"""


@dataclass
class App:
    """An app under the clock: where it is, how its number is edited, and how its results are read.

    cell   row and column of the encoding that is edited
    write  writes text into that cell, up to but without the Enter key
    shows  the script that installs window.shows
    wanted turns encodings, and those that stood there before, into what window.shows takes
    samples, waits  milliseconds from Enter until the numbers are right, and until the grid sends the edit
    """

    name: str
    url: str
    encodings: Rows
    cell: tuple[int, int]
    write: Callable[[Page, str], None]
    shows: str
    wanted: Callable[[Rows, Rows], Sequence[object]]
    samples: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    def edited(self, value: float) -> Rows:
        """The encodings with another value in the edited cell."""
        rows = [list(row) for row in self.encodings]
        rows[self.cell[0]][self.cell[1]] = value
        return rows

    @property
    def median(self) -> float | None:
        """Median of the samples in milliseconds, None without any."""
        return statistics.median(self.samples) if self.samples else None

    @property
    def summary(self) -> str:
        """The samples in words."""
        if not self.samples:
            return f"{self.name} never showed the right numbers"
        low, high = min(self.samples), max(self.samples)
        waits = f", the grid sends after {statistics.median(self.waits):.0f} ms" if self.waits else ""
        return f"{self.name} {self.median:.0f} ms ({low:.0f} to {high:.0f}, n = {len(self.samples)}{waits})"


def measure() -> list[Figure]:
    return [*against_peers(), against_size(), against_heads()]


def against_peers() -> list[Figure]:
    """The lesson here, in Dash and in plain Streamlit."""
    with ExitStack() as stack:
        apps = {"ours": ours(stack.enter_context(server.app()).url)}
        missing = {}
        for name, start in (("Dash", dash), ("plain Streamlit", plain)):
            try:
                apps[name] = stack.enter_context(start())
            except (OSError, RuntimeError) as error:  # the other figures can still be had
                missing[name] = f"{name} did not start: {str(error).strip().splitlines()[-1]}"
        time_edits(list(apps.values()))
    figures = []
    for name, target in (("Dash", 0.75), ("plain Streamlit", 0.3)):
        peer = apps.get(name)
        behind = f"{apps['ours'].summary}; {peer.summary if peer else missing[name]}"
        figures.append(
            ratio(
                f"edit to right numbers on screen against {name}",
                target,
                apps["ours"].median,
                peer and peer.median,
                behind,
            )
        )
    return figures


def against_size() -> Figure:
    """64 tokens x 16 dimensions against the lesson, both in this app."""
    with server.app() as small, launch.large() as large:
        apps = [cells_app("lesson", small.url, lessons.masked_self_attention())]
        apps.append(cells_app("64 x 16", large.url, launch.large_experiment()))
        time_edits(apps)
    lesson, big = apps
    return ratio(
        "the same edit at 64 tokens x 16 dimensions against the lesson",
        2.5,
        big.median,
        lesson.median,
        f"{big.summary}; {lesson.summary}",
    )


def against_heads() -> Figure:
    """8 heads x 32 tokens, of which one head's worksheet is on screen, against the lesson, both in this app."""
    experiment = launch.heads_experiment()
    with server.app() as small, server.app() as large:
        apps = [cells_app("lesson", small.url, lessons.masked_self_attention())]
        apps.append(cells_app("8 x 32", f"{large.url}/?{link.write(experiment)}", experiment))
        time_edits(apps)
    lesson, big = apps
    return ratio(
        "the same edit with 8 heads and 32 tokens x 16 dimensions against the lesson",
        1.5,
        big.median,
        lesson.median,
        f"{big.summary}; {lesson.summary}",
    )


def time_edits(apps: Sequence[App]) -> None:
    """Edit the apps in turn and add a sample to each for every edit that came out right."""
    with sync_playwright() as playwright:
        browser = chromium.launch(playwright)
        pages = [open_page(browser, app) for app in apps]
        values = [round(1.03 + 0.17 * edit, 2) for edit in range(EDITS)]
        for edit, value in enumerate(values):
            for app, page in zip(apps, pages, strict=True):
                before = app.edited(values[edit - 1]) if edit else app.encodings
                sample = time_edit(app, page, str(value), app.wanted(app.edited(value), before))
                if sample is None:
                    print(f"{app.name}: edit {edit + 1} never showed the right numbers", file=sys.stderr)
                    continue
                milliseconds, wait = sample
                app.samples.append(milliseconds)
                if wait is not None:
                    app.waits.append(wait)
        browser.close()


def open_page(browser: Browser, app: App) -> Page:
    """Open the app and wait until its first numbers stand there."""
    page = browser.new_page(viewport=VIEWPORT)
    page.add_init_script(NOTE_SENDS)
    page.goto(app.url, timeout=60_000)
    page.evaluate(app.shows)
    page.wait_for_function("wanted => window.shows(wanted)", arg=app.wanted(app.encodings, []), timeout=60_000)
    page.wait_for_timeout(1500)  # what the page loads after its numbers must not slow the first edit
    return page


def time_edit(app: App, page: Page, text: str, wanted: Sequence[object]) -> tuple[float, float | None] | None:
    """One edit: milliseconds until the numbers are right and until the grid sends; None if they never came."""
    page.bring_to_front()
    app.write(page, text)
    page.wait_for_timeout(200)  # let the grid draw what was typed: a person's Enter comes later than that too
    page.evaluate(WATCH, wanted)
    page.keyboard.press("Enter")
    sample: tuple[float, float | None] | None = page.evaluate("() => window.sample")
    page.wait_for_timeout(400)
    return sample


# ---- the apps -------------------------------------------------------------------------------------------------------


def ours(url: str) -> App:
    """This app with the lesson, read like its peers."""
    return App("ours", url, core.LESSON, (1, 1), write_in_grid(1, drive.GRID), SHOWS_TEXTS, wanted_texts)


@contextmanager
def dash() -> Iterator[App]:
    if not DASH_PYTHON.exists():
        raise RuntimeError(".venv-bench is missing; `make bench` makes it")
    port = server.free_port()
    command = [str(DASH_PYTHON), "dash_app.py", str(port)]
    with server.serve(command, port, health="/", cwd=PEERS) as running:
        yield App("Dash", running.url, core.LESSON, (1, 1), write_in_dash, SHOWS_TEXTS, wanted_texts)


@contextmanager
def plain() -> Iterator[App]:
    port = server.free_port()
    command = [*server.streamlit("streamlit_plain.py", port), "--browser.gatherUsageStats=false"]
    with server.serve(command, port, cwd=PEERS) as running:
        write = write_in_grid(1, "[data-testid=stDataFrame]")
        yield App("plain Streamlit", running.url, core.LESSON, (1, 1), write, SHOWS_TEXTS, wanted_texts)


def cells_app(name: str, url: str, experiment: Experiment) -> App:
    """This app with any experiment, read cell by cell; the number edited is the last dimension of token 2."""
    rows = [list(row) for row in experiment.encodings]
    return App(
        name,
        url,
        rows,
        (1, experiment.d_model - 1),
        write_in_grid(1, drive.GRID),
        SHOWS_CELLS,
        wanted_cells(experiment),
    )


def write_in_grid(row: int, grid: str) -> Callable[[Page, str], None]:
    """Writes into the last column of one of Streamlit's grids."""
    return lambda page, text: drive.write_cell(page, drive.last_column(page, grid), row, text, grid)


def write_in_dash(page: Page, text: str) -> None:
    page.locator("td[data-dash-row='1'][data-dash-column='d1']").click()
    page.wait_for_timeout(250)
    page.keyboard.type(text, delay=30)


def wanted_texts(encodings: Rows, _before: Rows) -> list[str]:
    """The lesson's results as texts, from the peers' own computation and not from this app's engine."""
    steps = core.trace(encodings)
    return [four(v) for step in ("q", "k", "v", "scores", "output") for row in steps[step] for v in row]


def wanted_cells(experiment: Experiment) -> Callable[[Rows, Rows], list[list[object]]]:
    """The results as [step, row, column, text], first those that the edit changes: a wrong page is soon told."""

    def cells(encodings: Rows) -> list[list[object]]:
        trace = run(replace(experiment, encodings=encodings))
        present = {step.name for step in steps.of(trace)}
        return [
            [step, i, j, four(value)]
            for step in ("q", "k", "v", "scores", "output", "projected")
            if step in present
            for i, row in enumerate(steps.matrix(trace, step).tolist())
            for j, value in enumerate(row)
        ]

    def wanted(encodings: Rows, before: Rows) -> list[list[object]]:
        old = {tuple(cell) for cell in cells(before)} if before else set()
        return sorted(cells(encodings), key=lambda cell: tuple(cell) in old)

    return wanted


def four(value: float) -> str:
    """4 decimals; zero has no sign."""
    text = f"{value:.4f}"
    return "0.0000" if text == "-0.0000" else text
