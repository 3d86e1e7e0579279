"""The address of "Step by step" for the first visitor after a restart.

Until app.py has run once in a server, Streamlit looks an address up among the files right here, in its old way, and
tells the visitor that a page which is not among them does not exist. So this file hands over to app.py.
"""

import runpy
from pathlib import Path

runpy.run_path(str(Path(__file__).parents[1] / "app.py"))
