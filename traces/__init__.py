"""Sample traces with their manifest, and the recorder that made them. Run from a clone; not installed."""
