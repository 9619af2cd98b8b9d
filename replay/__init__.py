"""Trace-driven replay of large-model training steps. See :mod:`replay.api`; this package imports nothing by itself."""
