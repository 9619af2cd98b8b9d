"""Recorder: real processes, real Gloo groups and Megatron's schedules, with device time spent asleep.

``python -m traces.record sample`` records the shipped pair again; ``python -m traces.record run --help`` records any
job. Needs torch (``pip install .[record]``). Nothing here is imported by the toolkit, and nothing of the toolkit is
imported here, so that a recording is an independent truth to check predictions against.
"""
