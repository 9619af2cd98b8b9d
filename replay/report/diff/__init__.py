"""The difference between two steps: where it lies, which ops it comes from, and what is noise."""
