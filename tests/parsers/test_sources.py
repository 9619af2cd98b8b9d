"""Files, folders and archives; ranks of several files."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import parsers
from parsers import run_description
from replay.core.errors import TraceError
from tests.parsers.chrome import kernel, names, read, read_paths, span, text

NOW_US = 1_700_000_000_000_000


def rank_file(rank: int | None, name: str = "op", world: int = 4, at_us: int = NOW_US) -> bytes:
    """One rank of a run; ``None`` does not tell its rank."""
    info = {} if rank is None else {"distributedInfo": {"rank": rank, "world_size": world}}
    return text([span(name, at_us)], **info)


def tar(path: Path, members: dict[str, bytes], mode: str = "w:gz") -> Path:
    """An archive of such members."""
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def test_folder_of_ranks(tmp_path: Path) -> None:
    """Everything that is not a trace is counted and named."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.json").write_bytes(rank_file(1, "one"))
    (tmp_path / "sub" / "b.json.gz").write_bytes(gzip.compress(rank_file(0, "zero")))
    (tmp_path / "et.json").write_bytes(b'{"schema": "1.1.1", "pid": 7, "nodes": []}')
    (tmp_path / "empty.json").write_bytes(b"")
    (tmp_path / "._a.json").write_bytes(b"\0\5\x16\7")
    (tmp_path / "a.json.tmp").write_bytes(rank_file(1, "one")[:-40])
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "c.json").write_bytes(rank_file(1, "other"))
    trace = read_paths(tmp_path)
    assert (trace.ranks, trace.world_size, names(trace)) == ((0, 1), 4, ["zero", "one"])
    assert trace.health.skipped == {
        "empty files (0 bytes)": 1,
        "hidden files": 1,
        "unfinished files (.tmp)": 1,
        "files that are not traces": 1,
    }
    assert set(trace.health.warnings) == {
        "empty.json: empty (0 bytes) and left out",
        "1 files are not traces and were left out: et.json",
    }


def test_a_rank_file_without_events_is_left_out_by_name(tmp_path: Path) -> None:
    """One truncated file of many does not cost the answer; alone it is an error."""
    (tmp_path / "a.json").write_bytes(rank_file(1, "one"))
    (tmp_path / "b.json").write_bytes(b'{"schemaVersion": 1, "distributedInfo": {"rank": 0')
    trace = read_paths(tmp_path)
    assert (trace.ranks, trace.health.skipped["files without events"]) == ((1,), 1)
    assert [warning for warning in trace.health.warnings if warning.startswith("b.json: ")]
    assert refusal(tmp_path / "b.json").startswith("b.json: ")


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    """The same as a zip file."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def packed(path: Path, members: dict[str, bytes]) -> Path:
    """An archive of the kind its name says."""
    modes = {".tar": "w", ".tgz": "w:gz", ".xz": "w:xz", ".bz2": "w:bz2"}
    return zipped(path, members) if path.suffix == ".zip" else tar(path, members, modes[path.suffix])


@pytest.mark.parametrize("name", ["run.tar", "run.tgz", "run.tar.xz", "run.tar.bz2", "run.zip"])
def test_archive_of_ranks(tmp_path: Path, name: str) -> None:
    """Members outside of the archive's folder are only names here: nothing is unpacked."""
    members = {"run/r1.json": rank_file(1), "../../r0.json": gzip.compress(rank_file(0)), "run/._r1.json": b"\0\5"}
    trace = read_paths(packed(tmp_path / name, members))
    assert trace.ranks == (0, 1)
    assert trace.files == ("r0.json", "r1.json")
    assert list(tmp_path.parent.rglob("r0.json")) == []


def test_archive_cut_short_keeps_the_members_before(tmp_path: Path) -> None:
    """A broken download."""
    rows = [span("op", NOW_US + i * 37) for i in range(2000)]
    members = {f"r{rank}.json": text(rows, distributedInfo={"rank": rank}) for rank in (1, 2)}
    path = tar(tmp_path / "run.tar.gz", members)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    trace = read_paths(path)
    assert 1 in trace.ranks
    assert any("run.tar.gz is cut short" in warning for warning in trace.health.warnings)


RUNS = {
    "./a/r0.json": rank_file(0, "one"),
    "./a/r1.json": rank_file(1, "one"),
    "./a/run.json": b'{"layout": {"ep": 2}}',
    "./ab/r0.json": rank_file(0, "two"),
    "./ab/run.json": b'{"layout": {"ep": 4}}',
}


@pytest.mark.parametrize("name", ["runs.tar.xz", "runs.zip"])
def test_a_folder_inside_an_archive_is_a_source(tmp_path: Path, name: str) -> None:
    """With the run.json that lies in it, and nothing of the folders beside."""
    path = packed(tmp_path / name, RUNS)
    assert (read_paths(path / "a").ranks, set(names(read_paths(path / "a")))) == ((0, 1), {"one"})
    assert read_paths(path / "ab" / "r0.json").ranks == (0,)
    assert run_description.find([path / "a"]).layout == {"ep": 2}
    assert run_description.find([path / "ab" / "r0.json"]).layout == {"ep": 4}
    assert run_description.find([path]).layout == {}


def test_a_folder_that_an_archive_does_not_hold_is_named(tmp_path: Path) -> None:
    """With those that it holds."""
    path = packed(tmp_path / "runs.tar.xz", RUNS)
    assert refusal(path / "b") == "runs.tar.xz: holds no b; did you mean ab? It holds a, ab"
    assert refusal(path / "zzz" / "r0.json") == "runs.tar.xz: holds no zzz/r0.json; it holds a, ab"
    assert refusal(tmp_path / "none.tar.xz" / "a") == "a: no such file or folder"


def test_several_runs_are_refused_by_name(tmp_path: Path) -> None:
    """The files of one are wanted."""
    path = packed(tmp_path / "runs.tar.xz", RUNS)
    assert refusal(path) == "the input holds several runs (a, ab); name the folder of one, also inside of an archive"


def test_a_description_that_an_archive_holds(tmp_path: Path) -> None:
    """Where there is one only, it is that of the archive's traces."""
    path = packed(tmp_path / "run.tgz", {"x/r0.json": rank_file(0), "x/run.json": b'{"layout": {"ep": 8}}'})
    assert run_description.find([path]).layout == {"ep": 8}


def test_zip_members_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    """The others are used; links in it lead nowhere."""
    path = zipped(tmp_path / "run.zip", {"r0.json": rank_file(0), "r1.json": rank_file(1)})
    content = bytearray(path.read_bytes())
    content[content.index(b"r1.json") + len("r1.json") + 4] ^= 0xFF
    path.write_bytes(content)
    trace = read_paths(path)
    assert trace.ranks == (0,)
    assert "run.zip: r1.json is damaged and left out" in trace.health.warnings
    path.write_bytes(content[:200])
    assert refusal(path) == "run.zip: nothing to read (run.zip is cut short or damaged)"


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, bz2.compress])
def test_compressed_files(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    """By their content; several streams in one file are one text."""
    content = rank_file(3, "one")
    (tmp_path / "r.json.z").write_bytes(compress(content[:100]) + compress(content[100:]))
    assert read_paths(tmp_path / "r.json.z").ranks == (3,)


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, bz2.compress])
def test_compressed_file_cut_short(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    """What can be had of it is used, and the loss is told."""
    rows = [span(f"op{i}", NOW_US + i * 37, 1 + (i * i) % 97) for i in range(40_000)]
    stored = compress(text(rows))
    (tmp_path / "r.json.z").write_bytes(stored[: len(stored) * 3 // 4])
    trace = read_paths(tmp_path / "r.json.z")
    assert 0 < len(trace) < len(rows)
    assert trace.health.warnings


def test_same_content_twice_is_taken_once(tmp_path: Path) -> None:
    """Under whatever name."""
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_bytes(rank_file(0))
    trace = read_paths(tmp_path / "a.json", tmp_path / "b.json")
    assert len(trace) == 1
    assert trace.health.skipped["files given twice"] == 1
    assert trace.health.warnings == ("b.json has the same content as a.json; taken once",)


def test_files_of_one_name_and_content_are_told_in_one_sentence(tmp_path: Path) -> None:
    """Every rank of a job writes the same settings."""
    for folder in "abc":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "r.json").write_bytes(rank_file(0))
    trace = read_paths(tmp_path)
    assert trace.health.skipped["files given twice"] == 2
    assert trace.health.warnings == ("3 files r.json have the same content; taken once",)


def test_links_to_folders_are_followed_once(tmp_path: Path) -> None:
    """Ranks of a job gathered by links, one of which leads back."""
    for rank in (0, 1):
        elsewhere = tmp_path / f"node{rank}"
        elsewhere.mkdir()
        (elsewhere / "r.json").write_bytes(rank_file(rank))
    job = tmp_path / "job"
    job.mkdir()
    (job / "first").symlink_to(tmp_path / "node0")
    (job / "second").symlink_to(tmp_path / "node1")
    (tmp_path / "node1" / "back").symlink_to(job)
    trace = read_paths(job)
    assert trace.ranks == (0, 1)
    assert trace.health.warnings == ()


def test_rank_from_the_file_name(tmp_path: Path) -> None:
    """Where the file does not tell."""
    for name, content in (("job_rank-3.json", "a"), ("worker7.123.pt.trace.json", "b")):
        (tmp_path / name).write_bytes(rank_file(None, content))
    assert read_paths(tmp_path).ranks == (3, 7)


def test_rank_from_names_where_every_file_says_zero(tmp_path: Path) -> None:
    """Exports from before the process group existed; a warning says so."""
    for rank in (0, 1):
        (tmp_path / f"rank_{rank}.json").write_bytes(rank_file(0, f"op{rank}"))
    trace = read_paths(tmp_path)
    assert trace.ranks == (0, 1)
    assert trace.health.warnings == ("the recorded ranks collide; ranks were taken from the file names",)


def test_ranks_by_order_where_nothing_tells(tmp_path: Path) -> None:
    """With a warning."""
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_bytes(rank_file(None, name))
    trace = read_paths(tmp_path)
    assert trace.ranks == (0, 1)
    assert trace.health.warnings == ("no file tells its rank; files were numbered in the order given",)


def refusal(*paths: Path) -> str:
    """Message of a refused input."""
    with pytest.raises(TraceError) as caught:
        parsers.read(paths)
    return str(caught.value)


def test_two_files_of_one_rank_are_refused_by_name(tmp_path: Path) -> None:
    """Unrelated files, most likely."""
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_bytes(rank_file(2, name))
    assert refusal(tmp_path) == ("a.json and b.json both say they are rank 2; give the files of one run, one a rank")


def test_files_of_different_runs_are_refused(tmp_path: Path) -> None:
    """By the size of the world, or by the clock."""
    (tmp_path / "a.json").write_bytes(rank_file(0))
    (tmp_path / "b.json").write_bytes(rank_file(1, world=8))
    assert "a.json is of a run with 4 ranks and b.json of one with 8" in refusal(tmp_path)
    (tmp_path / "b.json").write_bytes(rank_file(1, at_us=NOW_US + 120_000_000))
    assert refusal(tmp_path).startswith("a.json and b.json were recorded 120 s apart")


def test_ranks_share_one_clock(tmp_path: Path) -> None:
    """Each file has its own base; the axis begins at the earliest event of all."""
    for rank, base in ((0, 10**18), (1, 10**18 + 5_000)):
        content = text([span("op", "1.5")], baseTimeNanoseconds=base, distributedInfo={"rank": rank})
        (tmp_path / f"{rank}.json").write_bytes(content)
    trace = read_paths(tmp_path)
    assert (trace.epoch_ns, trace.start_ns.tolist()) == (10**18 + 1500, [0, 5000])


def test_missing_file_and_empty_folder(tmp_path: Path) -> None:
    """One sentence each."""
    assert refusal(tmp_path / "no.json") == "no.json: no such file or folder"
    (tmp_path / "run").mkdir()
    assert refusal(tmp_path / "run") == "run: nothing to read (no files)"


def test_several_devices_of_one_process(tmp_path: Path) -> None:
    """Streams of two devices are two lanes, whatever their number."""
    rows = [kernel("a", 1000, 1), kernel("b", 1000, 2, device=1)]
    trace = read(tmp_path, text(rows))
    assert sorted((lane.device, lane.stream) for lane in trace.lanes) == [(0, 7), (1, 7)]


def test_no_user_or_host_name_is_kept(tmp_path: Path) -> None:
    """Nor the path a trace was written to."""
    top = {"username": "jdoe", "host_name": "node17", "traceName": "/home/jdoe/t.json", "cupti_version": 22}
    trace = read(tmp_path, text([span("a")], **top))
    assert trace.metadata == {"cupti_version": "22"}
    assert trace.files == ("trace.json",)


def test_archive_of_rubbish_is_refused(tmp_path: Path) -> None:
    """A compressed file that only claims to hold an archive."""
    path = tmp_path / "run.tar.gz"
    path.write_bytes(gzip.compress(b"")[:-8])
    assert refusal(path).startswith("run.tar.gz: ")


def test_kineto_whose_operators_begin_with_their_numbers_is_kineto(tmp_path: Path) -> None:
    """torch_npu writes its operators' args so, too."""
    op = span("aten::mm", NOW_US, args={"Sequence number": 3, "Fwd thread id": 0})
    (tmp_path / "a.json").write_bytes(text([op]))
    assert read_paths(tmp_path / "a.json").format == "kineto"
