"""The words of the report, each with the one meaning it has everywhere in the toolkit."""

from __future__ import annotations

DEFINITIONS = {
    "step": "from the step marker's first host op to the end of the last op, host or device, that belongs to it",
    "replayed": "the step simulated from op durations and dependencies, without the delays that no dependency explains",
    "replay error": "replayed against measured step, in percent of the measured step",
    "start error p95": "95th percentile over device ops of |simulated - measured start|, in percent of the step",
    "residual": "delay of a measured start that no dependency explains; given as its share of the critical path",
    "lift error": "the source layout rebuilt from its labelled ops, against the measured step, in percent of it",
    "device time unassigned": "device time that no range or kernel name assigns to a part of the model",
    "predicted": "measured x simulated(target) / simulated(source), residuals in both simulations",
    "compute": "a compute kernel runs on the rank, whatever else does",
    "exposed": "communication moves data and no compute kernel runs",
    "wait": "inside a collective before all of its members have arrived, and no compute kernel runs",
    "bubble": "a pipeline stage has nothing to run until a neighbour delivers",
    "host": "the device waits for the host to launch work",
    "idle": "none of the above",
    "overlapped communication": "communication moves data while a compute kernel runs; not one of the states above",
    "load of a rank": "the durations of all of its compute kernels",
    "clipped": "taken into account after a repair, such as a missing comma or a lost end",
    "inferred edge": "a dependency that no record states, concluded from the order and times of ops",
    "grades": "measured; scaled = measured x model(new) / model(old); fitted = from a model fitted to measurements of "
    "this hardware; extrapolated = outside the fitted range; datasheet = from vendor figures; assumed = none of these",
}
