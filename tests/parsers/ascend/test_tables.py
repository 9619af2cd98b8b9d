"""Tables of every release and of every hand they went through; values are those written in each test."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import parsers
from parsers.ascend.communication import operators
from parsers.ascend.communicators import communicator_id
from parsers.ascend.csv_rows import Losses
from parsers.ascend.described import read_described
from parsers.ascend.folder import RankFiles, Role, role_of
from parsers.ascend.json_files import read_objects
from parsers.ascend.kernels import KernelRow, read_kernels
from parsers.ascend.matrix import links_of, partners, sizes_of
from parsers.ascend.memory import read_memory
from parsers.ascend.steps import ranks_of, read_steps
from parsers.source import SourceFile
from replay.trace import CollectiveKind, MemoryPeak, Trace
from tests.parsers.ascend import folders as make
from tests.parsers.ascend.layouts import MATMUL, put, table

START = 1717575960214057957  # T0 + 100 us


def kernels(tmp_path: Path, content: str | bytes, losses: Losses | None = None) -> list[KernelRow]:
    """Rows of one kernel table."""
    file = SourceFile(put(tmp_path / "table.csv", content))
    role = role_of(file.head())
    assert role in (Role.KERNELS, Role.TASKS)
    return read_kernels(RankFiles(tmp_path, files={role: [file]}), losses or Losses())


LEVEL0 = {"Device_id": "0", "Accelerator Core": "AI_CORE", "Wait Time(us)": "1.5", "Block Num": "24"}
LEVEL1 = {**LEVEL0, "Step Id": "3", "Model ID": "4294967295", "Task ID": "7", "Stream ID": "2", "Block Dim": "24",
          "HF32 Eligible": "NO", "Input Shapes": '"""64,32;32,16"""', "Input Data Types": "DT_BF16;DT_BF16",
          "aicore_time(us)": "150.5", "aic_total_cycles": "270900", "aic_mac_ratio": "0.75",
          "cube_utilization(%)": "80.5"}  # fmt: skip
OP_SUMMARY = {"Op Name": "MatMul_1", "OP Type": "MatMulV3", "Task Type": "MIX_AIC", "Task Wait Time(us)": "0",
              "Task Start Time(us)": make.ts(100) + "\t", "Task Duration(us)": "200"}  # fmt: skip
CHIP_910A = {**OP_SUMMARY, "aicore_time(us)": "150.5", "total_cycles": "270900", "mac_ratio": "0.75",
             "memory_bound": "0.1", "cube_utilization( %)": "80.5"}  # fmt: skip


@pytest.mark.parametrize(
    "row",
    [
        {**MATMUL, **LEVEL0},
        {**MATMUL, **LEVEL1},
        {**MATMUL, **LEVEL1, "Step ID": "3", "Accelerator Core": "MIX_AIC", "Block Num": "N/A"},
        {**MATMUL, "Wait Time(us)": ""},
        OP_SUMMARY,
        CHIP_910A,
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_every_set_of_columns_gives_the_kernel_and_its_exact_start(
    tmp_path: Path, row: dict[str, str], newline: str
) -> None:
    """17 digits to the nanosecond."""
    (kernel,) = kernels(tmp_path, table(row, newline=newline))
    assert (kernel.name, kernel.op_type, kernel.start_ns, kernel.dur_ns) == ("MatMul_1", "MatMulV3", START, 200_000)


@pytest.mark.parametrize("row", [{**MATMUL, **LEVEL1}, CHIP_910A])
def test_counters_of_the_cube_have_two_spellings(tmp_path: Path, row: dict[str, str]) -> None:
    """With ``aic_`` where cores are apart, without it on 910A."""
    (kernel,) = kernels(tmp_path, table(row))
    assert (kernel.mac_ratio, kernel.cube_utilization_pct) == (0.75, 80.5)
    assert (kernel.cube_ns, kernel.cube_cycles) == (150_500, 270_900)


def test_multipliers_counted_by_element_type_are_summed(tmp_path: Path) -> None:
    """Metrics of arithmetic: 0.75 with FP16 and 0.05 with INT8."""
    counted = {"aic_mac_fp16_ratio": "0.75", "aic_mac_int8_ratio": "0.05", "Wait Time(us)": "0"}
    (kernel,) = kernels(tmp_path, table({**MATMUL, **counted}))
    assert kernel.mac_ratio == pytest.approx(0.8)


def test_what_a_table_lacks_stays_unknown(tmp_path: Path) -> None:
    """No zero stands for it."""
    (kernel,) = kernels(tmp_path, table({**MATMUL, "Wait Time(us)": "N/A", "Stream ID": "N/A", "Block Dim": "nan"}))
    assert (kernel.wait_ns, kernel.stream, kernel.device, kernel.blocks, kernel.cube_cycles) == (-1,) * 5
    assert np.isnan([kernel.mac_ratio, kernel.cube_utilization_pct]).all()
    assert kernel.input_shapes == ""


def test_a_negative_wait_is_unknown(tmp_path: Path) -> None:
    """Clocks that were set back leave some."""
    (kernel,) = kernels(tmp_path, table({**MATMUL, "Wait Time(us)": "-3.2"}))
    assert kernel.wait_ns == -1


def test_a_share_beyond_all_measure_is_unknown(tmp_path: Path) -> None:
    """Summed over calls, a damaged number would be infinite."""
    (kernel,) = kernels(tmp_path, table({**MATMUL, **LEVEL1, "cube_utilization(%)": "1e308", "aic_mac_ratio": "1e99"}))
    assert np.isnan([kernel.mac_ratio, kernel.cube_utilization_pct]).all()


@pytest.mark.parametrize(
    "encode",
    [
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: text.encode("utf-16"),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: b"\r\n\r\n" + text.encode(),
        lambda text: text.encode() + b"\n\n,,,\n",
        lambda text: text.encode() + text.encode(),
        lambda text: text.encode() + b"MatMul_2\n",
        lambda text: text.encode() + b'"cut in the mid',
        lambda text: text.replace("MatMul_1", "MatMul_1\0").encode(),
        lambda text: text.replace(",", ";").replace("200.0", "200,0").encode(),
        lambda text: text.replace(",", "\t").encode(),
        lambda text: text.encode() + b"\xff\xfe\x80,\xe4\xf6\n",
    ],
)
def test_what_editors_and_transfers_do_to_a_table(tmp_path: Path, encode: object) -> None:
    """Byte-order marks, UTF-16, line ends, empty and short rows, files put together, semicolons, foreign letters."""
    text = table({**MATMUL, "Wait Time(us)": "0", "Accelerator Core": "AI_CORE"})
    (kernel,) = kernels(tmp_path, encode(text))  # type: ignore[operator]
    assert (kernel.name, kernel.start_ns, kernel.dur_ns) == ("MatMul_1", START, 200_000)


def test_rows_that_cannot_be_used_are_counted(tmp_path: Path) -> None:
    """Without a time or with one that a spreadsheet rounded, twice the same, a header in the middle."""
    losses = Losses()
    good = {**MATMUL, "Wait Time(us)": "0", "Accelerator Core": "AI_CORE"}
    bad = [{**good, "Duration(us)": value} for value in ("N/A", "-5", "nan", "inf", "1e99", "a")]
    bad.append({**good, "Start Time(us)": "1.71758E+15"})
    text = table(good, good, *bad) + table(good)
    assert len(kernels(tmp_path, text, losses)) == 1
    assert losses.dropped == {
        "kernel table rows without times": 7, "kernel table rows given twice": 2, "repeated header rows": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("cell", "shapes"),
    [
        ('"""64,32;32,16"""', "64,32;32,16"),
        ('"64,32;32,16"', "64,32;32,16"),
        ('""";;64"""', ";;64"),
        ('"64,32;\r\n32,16"', "64,32;\r\n32,16"),
        ("N/A", ""),
        ("", ""),
    ],
)
def test_shapes_lose_their_quotes_only(tmp_path: Path, cell: str, shapes: str) -> None:
    """Scalars are empty pieces; a line may end inside of a cell."""
    (kernel,) = kernels(tmp_path, table({**MATMUL, "Wait Time(us)": "0", "Input Shapes": cell}))
    assert kernel.input_shapes == shapes


def test_a_cell_of_any_length_is_no_error(tmp_path: Path) -> None:
    """Python's reader stops at 131,072 characters: the rows before count, and the file is named."""
    losses = Losses()
    good = {**MATMUL, "Wait Time(us)": "0", "Input Shapes": ""}
    long = {**good, "Input Shapes": '"' + "1;" * csv.field_size_limit() + '"'}
    assert len(kernels(tmp_path, table(good, long), losses)) == 1
    assert losses.damaged and "table.csv is damaged" in losses.damaged[0]


STEPS = "Computing,Communication(Not Overlapped),Overlapped,Communication,Free"


@pytest.mark.parametrize(
    ("text", "step", "parts"),
    [
        (f"Step,{STEPS}\n2,1000,20,3,23,40\n", "2", 5),
        (f"Device_id,Step,{STEPS},Preparing\r\n0,,1000,20,3,23,40,7\r\n", "", 6),
        (f"Step,{STEPS}\n2,1000,N/A,,23,nan\n", "2", 2),
        (f"Step,{STEPS}\n2,1000\n", "2", 1),
        (f"Step,{STEPS}\n2,1000,1e308,-1,inf,20\n", "2", 2),
        (
            "Model ID,Iteration ID,FP Start(us),BP End(us),Iteration End(us),Iteration Time(us)\n1,2,5,6,7,1000\n",
            "2",
            1,
        ),
    ],
)
def test_step_tables_of_every_release(tmp_path: Path, text: str, step: str, parts: int) -> None:
    """CRLF, an empty step, missing numbers; moments are no parts."""
    file = SourceFile(put(tmp_path / "steps.csv", text))
    assert role_of(file.head()) is Role.STEPS
    (row,) = read_steps([file], 0, Losses())
    assert (row.step, len(row.parts_ms), row.parts_ms[0][1]) == (step, parts, 1.0)


@pytest.mark.parametrize(
    ("text", "ranks"), [("(0, 4)", (0, 4)), ("(4,0)", (4, 0)), ("3", (3,)), ("(2,)", (2,)), ("None", ()), ("", ())]
)
def test_sets_of_ranks_keep_the_order_in_which_they_are_written(text: str, ranks: tuple[int, ...]) -> None:
    """A rank's number inside of its communicator is its place."""
    assert ranks_of(text) == ranks


def test_the_number_of_a_communicator_is_a_hash_of_its_name() -> None:
    """Pairs of both names that msprof-analyze printed side by side in MindStudio Insight's samples."""
    assert communicator_id("10.174.216.241%enp189s0f1_55000_0_1738895506630464") == "6960437680420871035"
    assert communicator_id("10.174.216.241%enp189s0f1_55000_0_1738895486152654") == "212011646445595226"
    assert communicator_id("212011646445595226") == "212011646445595226"


TIMES = {"Communication Time Info": {"Start Timestamp(us)": make.ts(100), "Elapse Time(ms)": 0.2}}


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"step3": {"p2p": {"hcom_send__1_0_1@9": TIMES}, "collective": {}}}, [("hcom_send__1_0_1", "9", -1)]),
        ({"hcom_send__1_0_1@9": TIMES, "Total HCCL Operators": TIMES}, [("hcom_send__1_0_1", "9", -1)]),
        ({"(0, 1)": {"step": {"op@9": {"0": TIMES, "1": TIMES}, "Total Op Info": {"0": TIMES}}}},
         [("op", "9", 0), ("op", "9", 1)]),
        ({"step3": {"collective": {"op": TIMES, "Total Op Info": TIMES}}}, [("op", "", -1)]),
        ({"step3": None, "a": [], "b": {"Communication Time Info": "N/A"}}, []),
    ],
)  # fmt: skip
def test_statistics_in_all_nestings(value: dict[str, object], found: list[tuple[str, str, int]]) -> None:
    """By steps, flat, and of all ranks; totals are no operators."""
    rows = list(operators(value))
    assert [(row.name, row.group, row.rank) for row in rows] == found
    assert all((row.start_ns, row.dur_ns) == (START, 200_000) for row in rows)


def test_links_tell_how_many_members_there_must_be() -> None:
    """Eight on a node and one that is elsewhere: two whole nodes. One node alone is itself."""
    near = {f"0-{rank}": {"Transport Type": "HCCS"} for rank in range(8)}
    two = {"step": {"collective": {"a@1": {**near, "0-8": {"Transport Type": "RDMA"}}, "b@2": near}}}
    pair = {
        "step": {"p2p": {"hcom_send__3_0@3": {"0-0": {"Transport Type": "LOCAL"}, "0-1": {"Transport Type": "RDMA"}}}}
    }
    links = [*links_of(two), *links_of(pair)]
    assert sizes_of(links) == {"1": 16, "2": 8, "3": 2}
    assert partners(links) == {("hcom_send__3_0", "3"): 1}


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ('{"step": {"a@1": {"0-1": NaN, "0-2": {"Transport Type": Infinity}}}}', {"1": 3}),
        ("[]", {}),
        ("{", {}),
        ("1", {}),
    ],
)
def test_odd_json_is_survived(tmp_path: Path, text: str, sizes: dict[str, int]) -> None:
    """Python writes NaN; a file may be cut, or be no object."""
    files = RankFiles(tmp_path, files={Role.MATRIX: [SourceFile(put(tmp_path / "m.json", text))]})
    described = read_described(files)
    assert described.sizes == sizes
    assert bool(described.damaged) == (text == "{")


def test_json_nested_beyond_all_measure_is_left_out(tmp_path: Path) -> None:
    """Decoders give up at some thousand levels, with an error of their own."""
    damaged: list[str] = []
    file = SourceFile(put(tmp_path / "communication.json", '{"a": ' * 100_000 + "1" + "}" * 100_000))
    assert read_objects([file], damaged) == [("communication.json", {})]
    assert damaged == ["communication.json is damaged (nested too deeply) and was left out"]


def test_the_older_profile_by_hand(shared_data: Path) -> None:
    """Two of sixteen ranks: tensor-parallel groups of eight, a pipeline of two stages, data-parallel groups of one.

    communication_matrix.json links rank 0 to 0…7 over HCCS and to 8 over RDMA, rank 1 to 9.
    """
    trace = parsers.read([shared_data / "ascend" / "older"])
    assert isinstance(trace, Trace)
    assert (trace.ranks, trace.world_size) == ((0, 1), 16)
    sizes = {group.name[-3:]: group.size for group in trace.groups}
    assert (sizes["483"], sizes["822"], sizes["459"], sizes["303"]) == (8, 16, 2, 2)
    sends = np.flatnonzero(trace.collectives.kind == CollectiveKind.SEND)
    assert trace.collectives.peer[sends].tolist() == [8, 9]
    assert trace.collectives.recorded_transfer_ns[sends].tolist() == [863_815, 863_820]
    kinds = [CollectiveKind(kind).name for kind in trace.collectives.kind[trace.comm[trace.comm >= 0]].tolist()]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {
        "BROADCAST": 4, "ALL_REDUCE": 12, "ALL_GATHER": 20, "REDUCE_SCATTER": 18, "SEND": 2,
    }  # fmt: skip
    assert [(row.rank, row.step, dict(row.parts_ms)["Free"]) for row in trace.step_table] == [
        (0, "2", pytest.approx(69.90950350390615)), (1, "2", pytest.approx(67.861, abs=1e-3)),
    ]  # fmt: skip


def test_words_that_are_no_numbers_are_unknown(tmp_path: Path) -> None:
    """Whatever the cells say."""
    words = ["nan", "NaN", "inf", "-inf", "1e400", "N/A", "", "-", "0x10", "१", "1,5", "1_000"]
    rows = [{**MATMUL, "Wait Time(us)": word, "Block Num": word, "aic_mac_ratio": word, "aicore_time(us)": word}
            for word in words]  # fmt: skip
    for row in kernels(tmp_path, table(*(json.loads(json.dumps(row)) for row in rows))):
        assert row.mac_ratio != float("inf")
        assert min(row.wait_ns, row.blocks, row.cube_ns) >= -1


@pytest.mark.parametrize(
    ("rows", "peak"),
    [
        ("APP,1,,1024,NPU:0\nPTA,2,512,768,NPU:0\nPTA+GE,2,640,800,NPU:0\nPTA,3,100,768,NPU:0\n", (640, 1024)),
        ("PTA,1,512.5,768,NPU:0\n", (512.5, 768)),
        ("GE,1,0,0,NPU:0\nAPP,1,N/A,nan,NPU:0\n", None),
    ],
)
def test_memory_is_the_most_of_the_widest_component(
    tmp_path: Path, rows: str, peak: tuple[float, float] | None
) -> None:
    """What the frameworks allocated, and what the process holds, in MiB."""
    text = "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Device Type\n" + rows
    file = SourceFile(put(tmp_path / "memory_record.csv", text))
    assert role_of(file.head()) is Role.MEMORY
    found = read_memory([file], 3, Losses())
    assert found == (() if peak is None else (MemoryPeak(3, round(peak[0] * 2**20), round(peak[1] * 2**20)),))
