"""Colours after Okabe and Ito, safe for the colour-blind: blue is compute, orange communication, grey the host."""

from __future__ import annotations

from replay.graph.types import OpKind
from replay.report.breakdown import State

STATES = {
    State.COMPUTE: "#0072b2",
    State.EXPOSED_TP: "#d55e00",
    State.EXPOSED_CP: "#b34700",
    State.EXPOSED_EP: "#e67e22",
    State.EXPOSED_DP: "#a0522d",
    State.EXPOSED_PP: "#cc79a7",
    State.EXPOSED_OTHER: "#8c564b",
    State.WAIT: "#f5cfa8",
    State.MEMORY_COPY: "#009e73",
    State.BUBBLE: "#f0e442",
    State.HOST: "#8a8a8a",
    State.IDLE: "#dddddd",
}

KINDS = {
    OpKind.COMPUTE: ("compute", STATES[State.COMPUTE]),
    OpKind.TRANSFER: ("communication", STATES[State.EXPOSED_EP]),
    OpKind.ARRIVAL: ("wait", STATES[State.WAIT]),
    OpKind.MEMCPY: ("memory copy", STATES[State.MEMORY_COPY]),
    OpKind.MEMSET: ("memory set", STATES[State.MEMORY_COPY]),
    OpKind.HOST: ("host", "#b0b0b0"),
    OpKind.CALL: ("runtime call", STATES[State.HOST]),
    OpKind.MARK: ("mark", STATES[State.IDLE]),
}

PATH = "#000000"
LEGEND = (*dict.fromkeys(KINDS[kind] for kind in (OpKind.COMPUTE, OpKind.TRANSFER, OpKind.ARRIVAL, OpKind.MEMCPY,
                                                  OpKind.HOST, OpKind.CALL)), ("critical path", PATH))  # fmt: skip
RISE, FALL = "#d55e00", "#009e73"
