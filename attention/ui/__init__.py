"""What is on the screen: with app.py and pages/, the only place that imports streamlit."""
