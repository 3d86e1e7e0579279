"""Peer: what a teacher writes in an afternoon, st.data_editor and seven px.imshow charts.
Usage: streamlit run streamlit_plain.py --server.port PORT"""

import pandas as pd
import plotly.express as px
import streamlit as st
from core import LESSON, STEPS, trace

st.set_page_config(layout="wide")
grid = st.data_editor(pd.DataFrame(LESSON, columns=["d0", "d1"]), hide_index=True)
steps = trace(grid.values.tolist())
columns = st.columns(4)
for place, step in enumerate(STEPS):
    figure = px.imshow(steps[step], text_auto=".4f", title=step)
    figure.update_layout(height=220, margin={"l": 10, "r": 10, "t": 30, "b": 10}, coloraxis_showscale=False)
    columns[place % 4].plotly_chart(figure, key=step)
