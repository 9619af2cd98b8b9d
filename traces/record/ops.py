"""What a rank's device does, as the training step lists it: kernels and collectives by operator and module."""

from __future__ import annotations

from dataclasses import dataclass

BF16_BYTES = 2
FP32_BYTES = 4


@dataclass(frozen=True, slots=True)
class Kernel:
    """A compute kernel; ``op`` and ``dims`` name the inner operator that launches it, where shapes matter."""

    name: str
    duration_ns: int
    op: str = ""
    dims: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective over this rank's group of that description; counts are elements of ``dtype`` on this rank.

    ``sent`` and ``received`` are the split sizes of an all-to-all, one number a member; others have none.
    """

    name: str
    collective: str  # NCCL's word: all_to_allv, allreduce
    group: str
    elements_in: int
    elements_out: int
    dtype: str
    duration_ns: int
    sent: tuple[int, ...] = ()
    received: tuple[int, ...] = ()


Op = Kernel | Collective


@dataclass(frozen=True, slots=True)
class Operator:
    """A framework operator (an autograd function) and the device work it launches; ``dims`` are its inputs' sizes."""

    name: str
    ops: tuple[Op, ...]
    dims: tuple[tuple[int, ...], ...] = ()

    @property
    def backward_name(self) -> str:
        """Name of the autograd node of its backward: ``EmbeddingBackward0`` for ATen, ``<class>Backward`` else."""
        namespace, _, plain = self.name.rpartition("::")
        return f"{plain.capitalize()}Backward0" if namespace else f"{plain}Backward"


Module = tuple[str, tuple[Operator, ...]]
