"""Times are exact to the nanosecond, whatever their spelling."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers._numbers import integer, ns_text, us_to_ns
from tests.parsers.chrome import read, span, text


# The first call compiles the kernel.
@settings(deadline=None)
@given(st.integers(10**13, 9 * 10**15), st.integers(0, 999), st.booleans(), st.booleans())
def test_17_to_19_digits_are_exact(us: int, ns: int, quoted: bool, negative: bool) -> None:
    """A double resolves 0.25 us at 1.7e15; the text does not lose a nanosecond."""
    written = f"{'-' * negative}{us}.{ns:03d}"
    values, valid = us_to_ns([(f'"{written}"' if quoted else written).encode()])
    assert valid.all()
    assert int(values[0]) == (-1 if negative else 1) * (us * 1000 + ns)


@settings(deadline=None)
@given(st.decimals(-(10**12), 10**12, allow_nan=False, places=9))
def test_rounds_half_up_beyond_the_nanosecond(us: Decimal) -> None:
    """As decimal arithmetic does."""
    values, valid = us_to_ns([str(us).encode()])
    assert valid.all()
    assert int(values[0]) == int((us * 1000).quantize(Decimal(1), ROUND_HALF_UP))


@settings(deadline=None)
@given(st.integers(-(10**18), 10**18))
def test_text_of_nanoseconds_reads_back(ns: int) -> None:
    """Write, then read."""
    assert us_to_ns([ns_text(ns)])[0].tolist() == [ns]


@pytest.mark.parametrize(
    ("written", "ns"),
    [("1.5e3", 1_500_000), ("1e-05", 0), ("2E+0", 2000), (".5", 500), ("7.", 7000), ("0.0005", 1), ("00012", 12_000)],
)
def test_other_spellings(written: str, ns: int) -> None:
    """Exponents, missing digits, leading zeros."""
    values, valid = us_to_ns([written.encode()])
    assert (values.tolist(), valid.tolist()) == ([ns], [True])


@pytest.mark.parametrize(
    "written", ["", "null", "-", ".", "1.2.3", "1e", "1e+", "0x10", "12345678901234567890", "1e40"]
)
def test_no_number_in_range(written: str) -> None:
    """Invalid, never a guess."""
    assert not us_to_ns([written.encode()])[1].any()


@pytest.mark.parametrize(
    ("value", "column"), [(7, 7), ("7", 7), (7.0, 7), ("0x7f", -1), (None, -1), (True, -1), (2**64, -1), ("", -1)]
)
def test_integer_of_a_json_scalar(value: int | float | str | None, column: int) -> None:
    """What is no int64 is missing."""
    assert integer(value) == column


def test_base_time_before_or_after_the_events(tmp_path: Path) -> None:
    """It moved to the front in 2025; a relative clock plus its base is the epoch."""
    base = 1_716_423_000_000_000_000
    before = read(tmp_path, text([span("a", "12.345")], baseTimeNanoseconds=base))
    content = text([span("a", "12.345")]).replace(
        b'"traceName"', f'"baseTimeNanoseconds": {base}, "traceName"'.encode()
    )
    after = read(tmp_path, content)
    assert before.epoch_ns == after.epoch_ns == base + 12_345


def test_display_time_unit_changes_nothing(tmp_path: Path) -> None:
    """It is a hint for viewers; ts stays in microseconds."""
    rows = [span("a", 10), span("b", 20, 1.5)]
    assert read(tmp_path, text(rows, displayTimeUnit="ns")).dur_ns.tolist() == [5000, 1500]


def test_absolute_times_start_at_the_epoch(tmp_path: Path) -> None:
    """The axis begins at the first event and its epoch keeps the rest."""
    trace = read(tmp_path, text([span("b", "1712195495519690.5"), span("a", "1712195495519689.123")]))
    assert trace.epoch_ns == 1_712_195_495_519_689_123
    assert trace.start_ns.tolist() == [0, 1377]


def test_relative_times_stay_as_they_are(tmp_path: Path) -> None:
    """Without a base the clock is not absolute and says so with epoch 0."""
    trace = read(tmp_path, text([span("a", 848671.67)]))
    assert (trace.epoch_ns, trace.start_ns.tolist()) == (0, [848_671_670])


def test_clamped_start_is_dropped(tmp_path: Path) -> None:
    """Kineto clamps a negative relative time to 0: hours before everything else."""
    trace = read(tmp_path, text([span("lost", 0), *(span("op", 4_100_200_300 + i) for i in range(3))]))
    assert trace.health.dropped == {"start time lost (ts 0)": 1}


def test_parents_precede_children(tmp_path: Path) -> None:
    """Sorted by (start, -duration), ties in the order of the file."""
    rows = [span("child", 10, 2), span("late", 30), span("parent", 10, 9), span("first", 5), span("twin", 10, 2)]
    trace = read(tmp_path, text(rows))
    assert [trace.name_of(i) for i in range(5)] == ["first", "parent", "child", "twin", "late"]
