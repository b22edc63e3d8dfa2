"""The report: one HTML file that says what a run or a comparison did, and asks nobody for more."""
