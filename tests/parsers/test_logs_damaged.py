"""Real logs cut anywhere and dressed by launchers: never a crash, never an iteration that was not there."""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import parsers
from parsers._log_lines import LINE_LIMIT
from replay.core.errors import TraceError
from replay.runlog import RunLog
from tests.parsers.test_log_dialects import SIZES, lines_of
from tests.parsers.test_logs_real import LOGS

CUTS = 50
COMPLETE = re.compile(
    rb"iteration +\d+/ +\d+ \|[^\n]* time per iteration \(ms\): [\d.]+ \|"
    rb"|train_step_time[^\n]+reduced_train_loss[^\n]+}}(?=\n|$)"
)
PREFIXES = ("", "12: ", " 0: ", "[rank7]: ", "[default3]:", "[Rank 26] ", "[rank-63/64][INFO ] ", "node-17: ")


@cache
def content(path: Path) -> bytes:
    """Decompressed."""
    raw = path.read_bytes()
    return gzip.decompress(raw) if path.suffix == ".gz" else raw


def rows(path: Path) -> list[tuple[int, int]]:
    """(iteration, ns) of every line; of a log that holds nothing, none."""
    try:
        log = parsers.read([path])
    except TraceError:
        return []
    assert isinstance(log, RunLog)
    return list(zip(log.iterations.iteration.tolist(), log.iterations.elapsed_ns.tolist(), strict=True))


@pytest.fixture(params=LOGS)
def log_path(request: pytest.FixtureRequest, shared_data: Path) -> Path:
    """A real log."""
    return Path(shared_data / "logs" / request.param)


def test_cut_anywhere(log_path: Path, tmp_path: Path) -> None:
    """Fifty places: exactly the iterations whose time is complete before the cut."""
    whole, cut = content(log_path), tmp_path / "cut.log"
    expected = rows(log_path)
    for place in random.Random(log_path.name).sample(range(1, len(whole)), CUTS):
        cut.write_bytes(whole[:place])
        complete = len(COMPLETE.findall(whole, 0, place))
        assert rows(cut) == expected[:complete], place


def test_a_compressed_log_cut_short(log_path: Path, tmp_path: Path) -> None:
    """What could be decompressed counts, and that there was more is said."""
    whole, cut = gzip.compress(content(log_path)), tmp_path / "cut.log.gz"
    cut.write_bytes(whole[: len(whole) * 9 // 10])
    found, expected = rows(cut), rows(log_path)
    assert found == expected[: len(found)]


DRESSES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "rank prefixes": lambda line, rng: rng.choice(PREFIXES).encode() + line,
    "CRLF": lambda line, _: line + b"\r",
    "colours": lambda line, _: b"\x1b[1;32m" + line + b"\x1b[0m",
}


@pytest.mark.parametrize("dress", DRESSES)
def test_dressed_by_a_launcher(log_path: Path, tmp_path: Path, dress: str) -> None:
    """Same iterations, layout, model and memory as the plain log."""
    rng = random.Random(7)
    dressed = tmp_path / "dressed.log"
    dressed.write_bytes(b"\n".join(DRESSES[dress](line, rng) for line in content(log_path).split(b"\n")))
    plain, found = parsers.read([log_path]), parsers.read([dressed])
    assert isinstance(plain, RunLog)
    assert isinstance(found, RunLog)
    assert rows(dressed) == rows(log_path)
    assert (found.layout, found.model, found.parameters) == (plain.layout, plain.model, plain.parameters)
    assert sorted(found.memory.max_allocated_nbytes) == sorted(plain.memory.max_allocated_nbytes)
    assert len(found.timers) == len(plain.timers)


def test_an_unclosed_number_is_not_a_number(tmp_path: Path) -> None:
    """`2711.1` cut to `27` is left out, and so is a size."""
    path = tmp_path / "cut.log"
    path.write_text(lines_of((1, 2711.1), (2, 2711.1))[:-6])
    assert rows(path) == [(1, 2_711_100_000)]
    path.write_text(SIZES[: SIZES.index("7168") + 2])
    log = parsers.read([path])
    assert isinstance(log, RunLog)
    assert log.model.hidden is None


def test_endless_lines_are_cut(tmp_path: Path) -> None:
    """A printed tensor costs one line's memory, and the iteration after it is found."""
    path = tmp_path / "long.log"
    path.write_text(lines_of((1, 10.0)) + "0.123, " * LINE_LIMIT + "\n" + lines_of((2, 20.0)))
    log = parsers.read([path])
    assert isinstance(log, RunLog)
    assert rows(path) == [(1, 10_000_000), (2, 20_000_000)]
    assert sum(log.health.clipped.values()) == 1


@pytest.mark.parametrize(
    "line",
    [
        "iteration " * 6000,
        "number of parameters on (" * 2500,
        "[Rank 1] (after 1 iterations) memory (MB) | " * 1400,
        "time (ms) | " * 5000,
        "word " * 13000 + ": (1.0, 2.0",
        "--num-layers " * 5000,
        "[" * 60000,
        "steps: 1 loss: " * 4000,
        "1/2 [" * 12000 + "train_step_timing in s=",
    ],
)
def test_no_expression_runs_away(tmp_path: Path, line: str) -> None:
    """Lines made to be tried at every place; quadratic at most, in 64 KiB."""
    path = tmp_path / "hostile.log"
    path.write_text(f"{SIZES}(min, max) time across ranks (ms):\n{line}\n{lines_of((1, 10.0))}")
    assert rows(path) == [(1, 10_000_000)]


def test_random_bytes_between_lines(tmp_path: Path) -> None:
    """Binary noise is neither an iteration nor a crash."""
    rng = random.Random(3)
    noise = [rng.randbytes(200).replace(b"\x00", b"") for _ in range(50)]
    path = tmp_path / "noise.log"
    path.write_bytes(b"".join(lines_of((k + 1, 10.0)).encode() + block + b"\n" for k, block in enumerate(noise)))
    assert len(rows(path)) == 50


def test_numbers_beyond_reason(tmp_path: Path) -> None:
    """Times and counts that overflow are dropped or not logged."""
    path = tmp_path / "big.log"
    path.write_text(
        "iteration 1/ 9 | elapsed time per iteration (ms): 1e999 |\n"
        "iteration 2/ 9 | elapsed time per iteration (ms): 5.0 | consumed samples: 1e300 | lm loss: nan |\n"
        f"iteration {'9' * 40}/ 9 | elapsed time per iteration (ms): 5.0 |\n"
        f"[Rank 1] (after 1 iterations) memory (MB) | allocated: 1.0 | max allocated: {'9' * 400} |\n"
    )
    log = parsers.read([path])
    assert isinstance(log, RunLog)
    assert rows(path) == [(2, 5_000_000)]
    assert log.iterations.consumed_samples.tolist() == [-1]
    assert re.search("without a time", str(log.health.dropped))


@pytest.mark.parametrize("value", ["9" * 18, "1e400", "-1", "nan", "[1, 2", "None", "0", "0.5"])
@pytest.mark.parametrize("name", ["pipeline_model_parallel_size", "hidden_size", "global_batch_size", "num_experts"])
def test_settings_beyond_reason(tmp_path: Path, name: str, value: str) -> None:
    """A damaged setting is no size; the iterations stay."""
    path = tmp_path / "odd.log"
    dump = re.sub(rf"(  {name} \.+ ).*", rf"\g<1>{value}", SIZES)
    path.write_text(dump + lines_of((1, 10.0)))
    assert rows(path) == [(1, 10_000_000)]


@pytest.mark.parametrize("step", ["nan", "1e999", "-3"])
def test_a_progress_bar_with_a_damaged_step_counts_by_itself(tmp_path: Path, step: str) -> None:
    """``12/100`` is left."""
    path = tmp_path / "bar.log"
    path.write_text(f"12/100 [00:39<04:40, global_step={step}, train_step_timing in s=0.010]\n")
    assert rows(path) == [(12, 10_000_000)]
