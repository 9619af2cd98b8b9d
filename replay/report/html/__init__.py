"""The HTML report: one file that asks the network for nothing. Needs the extra ``html`` (Bokeh, embedded whole)."""
