"""One run from files to answer: read, replay, gate, ask, report. Joins the pipeline's stages; holds no model itself."""
