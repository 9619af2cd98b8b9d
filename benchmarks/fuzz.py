"""Damage inputs at random and read them: ``python benchmarks/fuzz.py INPUT... --seconds 300``.

Only the project's own errors may escape, and reading may hold at most 4x the input + 100 MiB. Inputs that break a rule
are written beside the report with the seed that made them; exit code 1 says there are some.
"""

from __future__ import annotations

import gzip
import random
import sys
import tempfile
import time
import traceback
import tracemalloc
from pathlib import Path

import click

import parsers
from replay.core.errors import ReplayError

TOKENS = (
    *(
        b"",
        b"0",
        b"-1",
        b"9" * 20,
        b"1e999",
        b"nan",
        b"null",
        b"true",
        b" ",
        b"\n",
        b"\r",
        b"\x00",
        b"\x1b[0m",
        b"\xff",
    ),
    *(b'"', b"{", b"}", b"[", b"]", b",", b":", b"|"),
)
LONGEST_PIECE = 512
MOST_CHANGES = 24
EXTRA_BYTES = 100 << 20
FACTOR = 4


def damaged(content: bytes, rng: random.Random) -> bytes:
    """``content`` with a few tokens written over it and pieces left out, repeated or moved, perhaps cut short."""
    data = bytearray(content)
    for _ in range(rng.randint(1, MOST_CHANGES)):
        at = rng.randrange(len(data) + 1)
        length = rng.randint(1, LONGEST_PIECE)
        change = rng.randrange(4)
        if change == 0:
            data[at : at + rng.randint(0, 2)] = rng.choice(TOKENS)
        elif change == 1:
            del data[at : at + length]
        elif change == 2:
            data[at:at] = data[at : at + length]
        else:
            other = rng.randrange(len(data) + 1)
            data[at:at] = data[other : other + length]
    return bytes(data[: rng.randrange(len(data) + 1)]) if rng.random() < 0.2 else bytes(data)


def broken_rule(path: Path, size: int) -> str:
    """What reading ``path`` did wrong, nothing where it was read or refused as it should be."""
    tracemalloc.start()
    try:
        parsers.read([path])
    except ReplayError:
        pass
    except Exception:  # noqa: BLE001 - the point of the exercise
        return traceback.format_exc(limit=-4)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    limit = FACTOR * size + EXTRA_BYTES
    return f"{peak / 2**20:.0f} MiB held, {limit / 2**20:.0f} allowed\n" if peak > limit else ""


@click.command()
@click.argument("inputs", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--seconds", type=click.FloatRange(min=0), default=300.0, help="Time for each input.")
@click.option("--seed", type=int, default=0)
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path), default=Path("fuzz-findings"))
def main(inputs: tuple[Path, ...], seconds: float, seed: int, keep: Path) -> None:
    """Damage and read each input for a while."""
    findings = 0
    for source in inputs:
        raw = source.read_bytes()
        content = gzip.decompress(raw) if source.suffix == ".gz" else raw
        name = source.name.removesuffix(".gz")
        found, tried = _try(content, name, random.Random(seed), seconds, keep)
        findings += found
        print(f"{source.name}: {tried} inputs, {found} findings")
    sys.exit(1 if findings else 0)


def _try(content: bytes, name: str, rng: random.Random, seconds: float, keep: Path) -> tuple[int, int]:
    """(findings, inputs tried) of one source."""
    found = tried = 0
    until = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        while time.monotonic() < until:
            data = damaged(content, rng)
            path.write_bytes(data)
            tried += 1
            if problem := broken_rule(path, len(data)):
                found += 1
                keep.mkdir(exist_ok=True)
                (keep / f"{found}-{name}").write_bytes(data)
                print(f"{keep / f'{found}-{name}'}:\n{problem}")
    return found, tried


if __name__ == "__main__":
    main()
