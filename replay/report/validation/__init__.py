"""Predictions against measurements: rows, their summary, and how they are printed and written."""
