"""Layout: parallel sizes, schedule and overlap of a training step, validated as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from replay.core.errors import LayoutError, RefusedError

SCHEDULES = ("1f1b", "gpipe", "interleaved")
DISPATCHERS = ("alltoall", "allgather", "hierarchical", "deepep")


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes are counts, ``seq`` is tokens, ``mbs`` and ``gbs`` are sequences. ``None`` means not known."""

    tp: int = 1
    pp: int = 1
    vpp: int = 1
    dp: int = 1
    cp: int = 1
    ep: int = 1
    etp: int = 1
    mbs: int | None = None
    gbs: int | None = None
    microbatches: int | None = None
    seq: int | None = None
    world_size: int = 1
    schedule: str | None = None
    dispatcher: str | None = None
    group_size: int | None = None  # G: micro-batches per group of an interleaved schedule (Megatron's default: pp)
    overlap_p2p: bool = False
    rank_order: str = "tp-cp-ep-dp-pp"

    def __post_init__(self) -> None:
        for name in ("tp", "pp", "vpp", "dp", "cp", "ep", "etp", "world_size"):
            if getattr(self, name) < 1:
                raise LayoutError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("mbs", "gbs", "microbatches", "seq"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise LayoutError(f"{name} must be at least 1, got {value}")
        if self.tp * self.cp * self.pp * self.dp != self.world_size:
            raise LayoutError(
                f"tp {self.tp} x cp {self.cp} x pp {self.pp} x dp {self.dp} = "
                f"{self.tp * self.cp * self.pp * self.dp} ranks, but the world has {self.world_size}"
            )
        expert_world = self.world_size // self.pp
        if expert_world % (self.ep * self.etp):
            fits = [e for e in range(1, expert_world + 1) if expert_world % (e * self.etp) == 0]
            raise LayoutError(
                f"ep {self.ep} x etp {self.etp} does not divide the {expert_world} ranks of a pipeline stage; "
                f"with etp {self.etp}, ep may be one of {', '.join(map(str, fits))}"
            )
        if self.schedule is not None and self.schedule not in SCHEDULES:
            raise LayoutError(f"unknown schedule {self.schedule!r}; known: {', '.join(SCHEDULES)}")
        if self.dispatcher is not None and self.dispatcher not in DISPATCHERS:
            raise LayoutError(f"unknown dispatcher {self.dispatcher!r}; known: {', '.join(DISPATCHERS)}")
        if self.vpp > 1 and self.schedule in ("1f1b", "gpipe"):
            raise LayoutError(f"schedule {self.schedule} has one chunk a rank, but vpp is {self.vpp}")
        self._check_batch()

    def _check_batch(self) -> None:
        if self.gbs is None or self.mbs is None:
            return
        if self.gbs % (self.mbs * self.dp):
            raise LayoutError(
                f"global batch {self.gbs} does not divide by micro-batch {self.mbs} x dp {self.dp} = "
                f"{self.mbs * self.dp}"
            )
        count = self.gbs // (self.mbs * self.dp)
        if self.microbatches is not None and self.microbatches != count:
            raise LayoutError(
                f"global batch {self.gbs} / (micro-batch {self.mbs} x dp {self.dp}) = {count} micro-batches, "
                f"but {self.microbatches} were given"
            )

    def change(self, **sizes: Any) -> Layout:
        """This layout with some sizes replaced (R14): what is not named stays; dp and micro-batches follow.

        ``dp`` = world / (tp·cp·pp); only ``dp`` and ``world_size`` change the number of devices. ``microbatches`` =
        gbs / (dp·mbs), and microbatches·dp stays where neither is known. Raises :class:`LayoutError` naming the numbers
        that do not divide, :class:`RefusedError` for a ``gbs`` where nothing says how many sequences a micro-batch is.
        """
        known = {f.name for f in fields(self)}
        for name in sizes:
            if name not in known:
                raise LayoutError(f"unknown layout key {name!r}; known: {', '.join(sorted(known))}")
        for name, value in sizes.items():
            if isinstance(value, int) and not isinstance(value, bool) and value < 1:
                raise LayoutError(f"{name} must be at least 1, got {value}")
        new: dict[str, Any] = {**asdict(self), **sizes}
        model_parallel = new["tp"] * new["cp"] * new["pp"]
        if "dp" in sizes and "world_size" not in sizes:
            new["world_size"] = model_parallel * sizes["dp"]
        elif "dp" not in sizes:
            if model_parallel < 1 or new["world_size"] % model_parallel:
                raise LayoutError(
                    f"tp {new['tp']} x cp {new['cp']} x pp {new['pp']} = {model_parallel} does not divide "
                    f"the {new['world_size']} ranks held fixed"
                )
            new["dp"] = new["world_size"] // model_parallel
        if "microbatches" not in sizes:
            new["microbatches"] = self._microbatches(new, sizes)
        if "schedule" not in sizes and new["schedule"] in ("1f1b", "interleaved"):
            new["schedule"] = "interleaved" if new["vpp"] > 1 else "1f1b"
        if sizes.get("schedule") == "interleaved" and new["vpp"] == 1:
            raise LayoutError("schedule interleaved has at least two chunks a rank, but vpp is 1; give --vpp")
        if "group_size" not in sizes and "pp" in sizes and self.group_size == self.pp:
            new["group_size"] = new["pp"]
        return replace(self, **{name: new[name] for name in known})

    def _microbatches(self, new: Mapping[str, Any], sizes: Mapping[str, Any]) -> int | None:
        """Micro-batches of the global batch: the one that is asked for, else the one held fixed."""
        gbs, mbs, dp = new["gbs"], new["mbs"], new["dp"]
        held = "" if "gbs" in sizes else " (held fixed)"
        if gbs is not None and mbs is not None:
            if gbs % (mbs * dp):
                raise LayoutError(
                    f"global batch {gbs}{held} does not divide by micro-batch {mbs} x dp {dp} = {mbs * dp}; "
                    "give a --gbs that does"
                )
            return int(gbs // (mbs * dp))
        if gbs != self.gbs:
            raise RefusedError("--gbs needs the micro-batch size, which the input does not tell; add --from mbs=N")
        if self.microbatches is not None and self.microbatches * self.dp % dp:
            raise LayoutError(
                f"{self.microbatches} micro-batches on dp {self.dp} do not divide over dp {dp}; the global batch is "
                "held fixed: for another one, give --from mbs=N and --gbs"
            )
        return None if self.microbatches is None else self.microbatches * self.dp // dp

    def to_json(self) -> dict[str, Any]:
        """The keys of the JSON output's ``layout`` (DESIGN §4), ``None`` where not known."""
        keys = ("tp", "pp", "vpp", "dp", "cp", "ep", "etp", "mbs", "gbs", "microbatches", "seq", "world_size",
                "schedule", "dispatcher")  # fmt: skip
        return {key: getattr(self, key) for key in keys}
