"""Two experiments side by side: every step of both, their difference, and where they part."""

import streamlit as st

from attention.core import run
from attention.fingerprint import fingerprint
from attention.ui import keeper, parts, sides, state

now = state.current()
state.pinned(trace := run(now.experiment))
parts.notices()
parts.problems(now)
st.caption(
    "Masked against unmasked, seed against seed, your numbers against a colleague's link: each step of both is "
    "computed and compared, so the first step at which they part is where to look."
)
left, right = st.columns(2, gap="medium")
with left:
    a = sides.choose("A", now.experiment, now.experiment.mask)
with right:
    b = sides.choose("B", now.experiment, "none" if now.experiment.mask == "causal" else "causal")
trace_a, trace_b = run(a), run(b)
sides.show(trace_a, trace_b)
st.caption(f"Fingerprints: A {fingerprint(trace_a)}, B {fingerprint(trace_b)}.")
keeper.keep(trace)
