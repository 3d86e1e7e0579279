"""The worksheet as one HTML file: opens anywhere without a network, and runs nothing."""

from __future__ import annotations

import base64
import hashlib
import html as markup
import math
import re
from collections.abc import Iterator

from attention import empty, files, masks, model_words, shown, steps
from attention.core import Trace

_SECTIONS = {
    "encodings": "1 · Queries, keys, values",
    "similarities": "2 · Scores and mask",
    "weights": "3 · Percentages and output",
    "joined": "4 · Heads joined",
}
"""The heading that stands before a step, where there is one head."""

_OF_HEADS = {
    "encodings": ("h2", "Encodings"),
    "w_q": ("h3", "Queries, keys, values"),
    "similarities": ("h3", "Scores and mask"),
    "weights": ("h3", "Percentages and output"),
    "joined": ("h2", "Heads joined"),
}
"""The same where there are several; those of a head stand below its number."""

_LINES = ("key_encodings", "w_q", "w_k", "w_v", "distances", "mask")
"""Steps that begin a line of their own, as an equation does."""

_LEVELS = 20
_STRENGTH = 0.55

_CSS = """
:root {
  color-scheme: light dark;
  --text: #1c2530; --soft: #55606c; --line: #d9dde3; --paper: #ffffff; --hatch: rgb(120 130 140 / 0.32);
  --positive: 33 102 172; --negative: 178 88 6; --fraction: 8 124 140;
}
@media (prefers-color-scheme: dark) {
  :root {
    --text: #e8edf3; --soft: #aab4bf; --line: #2c3642; --paper: #0f141a;
    --positive: 88 150 214; --negative: 214 128 52; --fraction: 60 170 180;
  }
}
body { background: var(--paper); color: var(--text); font: 15px/1.45 system-ui, sans-serif; margin: 24px; }
h1 { font-size: 22px; margin: 0; }
h2 { font-size: 17px; margin: 24px 0 6px; }
p, figcaption { color: var(--soft); margin: 2px 0; }
figcaption b { color: var(--text); }
.steps { align-items: flex-start; display: flex; flex-wrap: wrap; gap: 16px 40px; margin-bottom: 14px; }
figure { margin: 0; max-width: 100%; break-inside: avoid; }
.scroll { overflow-x: auto; }
table { border-collapse: separate; border-spacing: 2px; font-variant-numeric: tabular-nums; }
th { color: var(--soft); font-size: 13px; font-weight: 500; padding: 2px 6px; text-align: right; white-space: nowrap; }
td { border: 1px solid transparent; border-radius: 4px; padding: 3px 6px; text-align: right; white-space: nowrap; }
td, pre, code { font-family: ui-monospace, monospace; font-size: 13px; }
td.hidden {
  background: repeating-linear-gradient(45deg, transparent 0 5px, var(--hatch) 5px 7px);
  border: 1px dashed var(--hatch); text-align: center;
}
pre {
  border: 1px solid var(--line); border-radius: 8px; padding: 8px 12px;
  white-space: pre-wrap; word-break: break-all;
}
@media print { * { print-color-adjust: exact; } }
""" + "\n".join(
    f".{kind[0]}{level} {{ background: rgb(var(--{kind}) / {_STRENGTH * level / _LEVELS:.4f}); }}"
    for kind in ("positive", "negative", "fraction")
    for level in range(1, _LEVELS + 1)
)

# the browser is told to take this one style and nothing else: no script, no picture, no address
_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-{}'".format(
    base64.b64encode(hashlib.sha256(_CSS.encode()).digest()).decode("ascii")
)


def html(trace: Trace, date: str, fingerprint: str | None = None, title: str | None = None) -> str:
    """A report of a trace: every step of every head as a table with its formula, then the experiment as JSON.

    Numbers are tinted by sign and size and rounded to 4 decimals, the whole number in the cell's title; what the mask
    hides is hatched. Light or dark as the reader's system is. All text is escaped; there is no script, and a policy in
    the file forbids one. The same arguments give the same text.

    date   how it is to be written in the report
    title  of the page; None for what it shows
    """
    experiment = trace.experiment
    title = title or ("Masked self-attention" if experiment.is_plain else "Attention, every number")
    several = len(trace.heads) > 1
    sections: list[str] = []
    for view, step in _in_order(trace):
        level, heading = _OF_HEADS.get(step.name, ("", "")) if several else ("h2", _SECTIONS.get(step.name, ""))
        alone = step.name == "w_q" and trace.positions is None and trace.key_encodings is None
        if heading or (step.name in _LINES and not alone):
            sections.append("</div>" if sections else "")
            if several and step.name == "w_q":
                sections.append(f"<h2>Head {view.shown + 1} of {len(trace.heads)}</h2>")
            sections.append(f"<{level}>{_text(heading)}</{level}>" if heading else "")
            sections.append('<div class="steps">')
        sections.append(_figure(view, step))
    about = [date, f"{experiment.n} × {experiment.d_model} numbers", *model_words.parts(experiment)]
    about += [f"mask: {masks.title(experiment.mask)}"]
    about += [f"seed {experiment.seed}" if experiment.weights is None else "weights given by hand"]
    about += [f"fingerprint {fingerprint}"] if fingerprint else []
    return "\n".join(
        [
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_text(_POLICY)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{_text(title)}</title><style>{_CSS}</style></head><body>",
            f"<h1>{_text(title)}</h1><p>{_text(' · '.join(about))}</p>",
            "<p>Rows are queries, columns are keys. Point at a number to see all of its digits.</p>",
            *sections,
            "</div><h2>The experiment</h2>",
            f"<pre>{_text(files.to_json(experiment, trace, fingerprint))}</pre>",
            "</body></html>\n",
        ]
    )


def _in_order(trace: Trace) -> Iterator[tuple[Trace, steps.Step]]:
    """Every step with the trace that shows its head: what all share, each head by itself, what follows them."""
    present = steps.of(trace)
    first = [i for i, step in enumerate(present) if step.name in steps.OF_A_HEAD]
    before, of_a_head, after = present[: first[0]], present[first[0] : first[-1] + 1], present[first[-1] + 1 :]
    yield from ((trace, step) for step in before)
    yield from ((trace.of_head(h), step) for h in range(len(trace.heads)) for step in of_a_head)
    yield from ((trace, step) for step in after)


def _text(text: str) -> str:
    """Escaped, and without what a file of HTML cannot hold: control characters and halves of characters."""
    return markup.escape(re.sub("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", "�", text))


def _figure(trace: Trace, step: steps.Step) -> str:
    whole = steps.whole(trace)
    axes = {
        axis: [_heading(words, all_of_it) for words, all_of_it in zip(names, whole[axis], strict=True)]
        for axis, names in steps.headings(trace).items()
    }
    values = steps.matrix(trace, step.name).tolist()
    hides = step.name in ("mask", "masked_scores", "weights")
    hidden = trace.head.mask.tolist()
    largest = _largest(trace, step)
    rows = []
    for i, (heading, row) in enumerate(zip(axes[step.rows], values, strict=True)):
        cells = "".join(_cell(step, x, hides and hidden[i][j], largest) for j, x in enumerate(row))
        rows.append(f'<tr><th scope="row"{heading}</th>{cells}</tr>')
    head = "".join(f'<th scope="col"{heading}</th>' for heading in axes[step.columns])
    none = ""
    if step.name in ("weights", "output", "joined", "projected") and bool(trace.blind.any()):
        none = empty.words(trace.head.mask)
    course = f" <code>{_text(step.course)}</code>" if step.course else ""
    return (
        f"<figure><figcaption><b>{_text(step.title)}</b>{course}"
        f"<br>{_text(steps.formula(trace, step.name))}{f'<br>{none}: 0 ÷ 0 is NaN.' if none else ''}</figcaption>"
        f'<div class="scroll"><table><thead><tr><td></td>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></figure>"
    )


def _heading(words: str, whole: str) -> str:
    """The rest of a th: its title, if the label is not shown whole, and its text."""
    title = f' title="{_text(whole)}"' if whole not in words else ""
    return f"{title}>{_text(words)}"


def _largest(trace: Trace, step: steps.Step) -> float:
    """What the tint is relative to: 1 for percentages; the same before and after the mask; else the largest number."""
    if step.unit == "fraction":
        return 1.0
    name = steps.before_the_mask(trace) if step.name == "masked_scores" else step.name
    values = [abs(x) for row in steps.matrix(trace, name).tolist() for x in row if math.isfinite(x)]
    return max(values, default=0.0) or 1.0


def _cell(step: steps.Step, value: float, hidden: bool, largest: float) -> str:
    if math.isnan(value):
        return '<td title="NaN, not a number: this query sees no key">NaN</td>'
    if hidden or step.unit == "hidden":
        words = {"hidden": "hidden" if hidden else "visible", "fraction": "0 hidden"}.get(step.unit, "hidden")
        return f'<td class="hidden">{words}</td>' if hidden else f"<td>{words}</td>"
    level = round(_LEVELS * min(abs(value) / largest, 1.0)) if math.isfinite(value) else 0
    kind = "f" if step.unit == "fraction" else "p" if value > 0 else "n"
    tint = f' class="{kind}{level}"' if level else ""
    words = shown.percent(value) if step.unit == "fraction" else shown.number(value)
    return f'<td{tint} title="{repr(value).replace("-", "−")}">{_text(words)}</td>'
