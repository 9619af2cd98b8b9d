"""Ascend profiles: the output folders of torch_npu, msprof and MindSpore, one or many ranks, and their timelines.

A rank is a ``*_ascend_pt`` folder, a bare ``ASCEND_PROFILER_OUTPUT``, a timeline or a sqlite export alone. The timeline
gives the ops, the export where there is no whole one; the tables beside it add ids, members and times of collectives,
and the shapes and cores of kernels, never ops.

Where things are:

* files: ``folder`` (what each file is, and of which rank), ``slices`` (pieces of a timeline); ``csv_rows``,
  ``json_files`` and ``text`` read tables, objects and cells
* events of a rank: ``recorded`` chooses between text (``events``) and sqlite (``exports``); ``devices`` takes devices
  apart; ``rows`` makes rows of ``timed`` events with ``lanes``, ``launches`` (in graph mode ``executions``), ``tasks``,
  ``hccl`` and ``carriers``
* sqlite: ``database`` opens, ``database_names`` decodes; ``database_events``, ``database_tasks`` and
  ``database_copies`` write a timeline through ``database_rows``; ``database_kernels``, ``database_tables`` and
  ``database_cluster`` give the rows and objects of text files, so that nothing of their meaning is told twice
* what lies beside: tables ``kernels``, ``steps``, ``memory`` and ``summaries``; JSON ``settings``, ``communication``
  and ``matrix``, all three ``described``
* the ranks together: ``ranks`` (without a timeline ``tabled``), ``communicators``, ``groups``, ``counts``, ``cluster``,
  ``job``; ``collectives`` and ``details`` add what was found to the events, ``unused`` says what was not
* products of matrices, for calibration and reports: ``tensors``, ``matmul``, ``grouped_matmul``, ``cores``
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from parsers._chrome_stream import PIECE_BYTES
from parsers._combine import combine
from parsers.ascend.cluster import Cluster, read_cluster
from parsers.ascend.collectives import contents
from parsers.ascend.csv_rows import Losses
from parsers.ascend.database import is_sqlite
from parsers.ascend.described import read_described
from parsers.ascend.details import with_details
from parsers.ascend.folder import RECORDINGS, Role, group, is_settings, role_of, role_of_file
from parsers.ascend.groups import known_ids, members
from parsers.ascend.job import job_of
from parsers.ascend.ranks import OF_OPS, Rank, numbered, rank_of_cluster, read_folder
from parsers.ascend.settings import Settings
from parsers.ascend.unused import left_out, on_host, usable, why_not, without_events
from parsers.source import SourceFile
from replay.trace import Health, StepTableRow, Trace

if TYPE_CHECKING:
    from parsers import ReadOptions

FORMAT = "ascend"
COMPANIONS = re.compile(r"^ascend_timeline_(?:display|summary)_\d+\.json")  # drawn from MindSpore's tables beside them


def sniff(head: bytes, path: Path) -> bool:
    """True for timelines, tables, settings and databases that Ascend's profilers write."""
    return role_of(head) is not None or is_settings(path.name)


def is_shared(file: SourceFile) -> bool:
    """True for settings and tables beside a recording, which are often the same on every rank."""
    return role_of_file(file) not in RECORDINGS


def recognise(file: SourceFile) -> bool:
    """True for sqlite databases that Ascend's profilers write, whose tables do not show at their beginning."""
    return is_sqlite(file.head()) and role_of_file(file) is not None


def read(files: Sequence[SourceFile], options: ReadOptions, *, piece_bytes: int = PIECE_BYTES) -> Trace:
    """All ranks as one trace; from tables, and not to be replayed, where no rank has a timeline.

    Raises :class:`RefusedError` where no file tells of any op or step, :class:`TraceError` where no row is usable.
    """
    folders, skipped = group(files)
    losses = Losses()
    cluster = read_cluster(folders, losses)
    timed = [folder for folder in folders if folder.has_events]
    chosen = timed or [folder for folder in folders if any(map(folder.of, OF_OPS))]
    ranks = [rank for folder in chosen for rank in read_folder(folder, piece_bytes, keep_modules=options.keep_modules)]
    known = {rank.number for rank in ranks}
    ranks += [] if timed else [rank_of_cluster(rank, cluster) for rank in cluster.ranks if rank not in known]
    others = [read_described(folder, (Role.MATRIX,)) for folder in folders if folder not in chosen]
    sizes = [described.sizes for described in (*(rank.described for rank in ranks), *others)]
    found = usable(ranks, folders, cluster)
    empty = without_events([rank for rank in ranks if not any(rank is other for other in found)])
    ranks = numbered(found)
    settings = [rank.described.settings for rank in ranks]
    ids = known_ids([*settings, Settings(groups=cluster.groups)], (rank.described.statistics for rank in ranks))
    joined = [members(rank.content.ops, rank.described.statistics, ids) for rank in ranks]
    by_number = {rank.number if rank.number >= 0 else at: joined[at] for at, rank in enumerate(ranks)}
    job = job_of(by_number, settings, sizes, cluster)
    trace = _with_tables(combine(contents(ranks, joined, job), FORMAT), ranks, cluster)
    bounds = Health(inferred={"sizes of groups, as few as show": job.bounds} if job.bounds else {})
    lost = (left_out(folders, skipped), empty, losses.health(), on_host(trace), bounds)
    return replace(
        trace,
        health=reduce(Health.merged, lost, trace.health),
        files=(*(rank.file for rank in ranks if rank.folder != Path()), *cluster.files),
        not_replayable="" if timed else why_not(folders),
        layout=job.layout,
        world_evidence=job.evidence,
    )


def _with_tables(trace: Trace, ranks: Sequence[Rank], cluster: Cluster) -> Trace:
    """``trace`` with what the tables of its ranks say, under the numbers that the ranks have in it."""
    pairs = list(zip(_numbers(trace, ranks), ranks, strict=True))
    steps = [replace(row, rank=number) for number, rank in pairs for row in rank.steps]
    return replace(
        with_details(trace, {number: rank.kernels for number, rank in pairs}),
        step_table=_all_steps(steps, cluster),
        summaries=tuple(replace(row, rank=number) for number, rank in pairs for row in rank.summaries),
        memory=tuple(replace(peak, rank=number) for number, rank in pairs for peak in rank.memory),
    )


def _all_steps(own: Sequence[StepTableRow], cluster: Cluster) -> tuple[StepTableRow, ...]:
    """Steps of the ranks' own tables, and those that only the cluster's table has."""
    known = {(row.rank, row.step) for row in own}
    return (*own, *(row for row in cluster.steps if (row.rank, row.step) not in known or row.stage))


def _numbers(trace: Trace, ranks: Sequence[Rank]) -> list[int]:
    """Rank numbers as combined: recorded ones, else in the order of the files."""
    recorded = [rank.number for rank in ranks]
    return recorded if set(recorded) == set(trace.ranks) else list(trace.ranks)
