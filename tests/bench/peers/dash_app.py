"""Peer: an editable grid and seven Plotly heatmaps in Dash. Usage: python dash_app.py PORT"""

import sys

import plotly.graph_objects as go
from core import LESSON, STEPS, trace
from dash import Dash, Input, Output, dash_table, dcc, html

app = Dash(__name__)
app.layout = html.Div(
    [
        dash_table.DataTable(
            id="encodings",
            editable=True,
            data=[{"d0": a, "d1": b} for a, b in LESSON],
            columns=[{"name": c, "id": c, "type": "numeric"} for c in ("d0", "d1")],
        )
    ]
    + [dcc.Graph(id=s, style={"height": 220, "width": "24%", "display": "inline-block"}) for s in STEPS]
)


@app.callback([Output(s, "figure") for s in STEPS], Input("encodings", "data"))
def update(rows):
    """The seven figures for what stands in the grid."""
    steps = trace([[float(r["d0"]), float(r["d1"])] for r in rows])
    return [
        go.Figure(
            go.Heatmap(z=steps[s], texttemplate="%{z:.4f}", showscale=False),
            layout={"title": s, "margin": {"l": 10, "r": 10, "t": 30, "b": 10}},
        )
        for s in STEPS
    ]


app.run(host="127.0.0.1", port=int(sys.argv[1]), debug=False)
