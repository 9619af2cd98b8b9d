"""The words of the report, each with the one meaning it has everywhere in the toolkit."""

from __future__ import annotations

DEFINITIONS = {
    "step": "from the step marker's first host op to the end of the last op, host or device, that belongs to it",
    "replayed": "the step simulated from op durations and dependencies, without the delays that no dependency explains",
    "replay error": "replayed against measured step, in percent of the measured step",
    "start error p95": "95th percentile over device ops of |simulated - measured start|, in percent of the step",
    "residual": "delay of a measured start that no dependency explains; given as its share of the critical path",
    "predicted": "measured x simulated(target) / simulated(source), residuals in both simulations",
    "compute": "a compute kernel runs on the rank, whatever else does",
    "exposed": "communication moves data and no compute kernel runs",
    "wait": "inside a collective before all of its members have arrived, and no compute kernel runs",
    "bubble": "a pipeline stage has nothing to run until a neighbour delivers",
    "host": "the device waits for the host to launch work",
    "idle": "none of the above",
    "grades": "measured; scaled = measured x model(new) / model(old); fitted; extrapolated = outside the calibrated "
    "range; datasheet; assumed",
}
