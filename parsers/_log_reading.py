"""Reading a log of any dialect; shared by the formats that are logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from parsers._log_assembly import iterations_of, memory_of, timers_of
from parsers._log_collect import Collector
from parsers._log_layout import layout_from, spec_from, stated_sizes
from parsers._log_lines import lines
from parsers.source import SourceFile
from replay.core.errors import TraceError
from replay.runlog import RunLog, longest_run
from replay.trace import Health

BENCHMARK = {"global_batch_size": "global_batch_size", "max_sequence_length": "seq_length"}
"""MLPerf's keys → arguments."""


def read_log(files: Sequence[SourceFile], log_format: str) -> RunLog:
    """The log in ``files``, one after the other; arguments are those of the run with the most iterations.

    Raises :class:`TraceError` where they hold neither an iteration nor an argument.
    """
    collector, clipped = Collector(), Counter[str]()
    for file in files:
        for line in lines(file, clipped):
            collector.feed(line)
    collector.finish()
    iterations = iterations_of(collector)
    settings = collector.settings_of(longest_run(iterations))
    arguments = {BENCHMARK[k]: v for k, v in collector.benchmark.items() if k in BENCHMARK} | settings.arguments
    if not len(iterations) and not arguments:
        raise TraceError(
            f"{files[0].name}: {collector.lines} lines, none of them an iteration with its time or an argument; give "
            "the output of the rank that prints the iterations (Megatron: the last one)"
        )
    stated = stated_sizes(arguments)
    layout, problem = layout_from(stated, arguments)
    return RunLog(
        iterations=iterations,
        timers=timers_of(collector),
        memory=memory_of(collector),
        parameters=dict(sorted(settings.parameters.items())),
        theoretical=settings.theoretical,
        arguments=arguments,
        stated=stated,
        layout=layout,
        model=spec_from(arguments),
        format=log_format,
        device=_device(collector),
        files=tuple(file.name for file in files),
        health=_health(collector, clipped, problem),
    )


def _device(collector: Collector) -> str:
    """MLPerf names the platform, as in ``2xNVIDIA GB200``; Megatron's logs do not name the device."""
    platform = str(collector.benchmark.get("submission_platform", ""))
    return platform.partition("x")[2] if platform.partition("x")[0].isdigit() else platform


def _health(collector: Collector, clipped: Counter[str], problem: str) -> Health:
    warnings = [problem] if problem else []
    if not len(collector.iterations):
        warnings.append("no iteration was logged: there is no step to measure")
    return Health(
        events=collector.lines,
        dropped=dict(collector.dropped),
        skipped=dict(collector.skipped),
        clipped=dict(clipped),
        warnings=tuple(warnings),
    )
