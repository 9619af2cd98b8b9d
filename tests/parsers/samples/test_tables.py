"""Tables of op latencies: built-in kinds, any other by a mapping, what is refused and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers.samples import read_samples
from parsers.samples._mapping import load
from replay.core.errors import TraceError

GEMM = "framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency\n"
NCCL = "framework,version,device,op_name,kernel_source,nccl_dtype,num_gpus,message_size,latency\n"


def write(folder: Path, text: str, name: str = "table.csv") -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_aiconfigurator_gemm_is_in_milliseconds(tmp_path: Path) -> None:
    text = GEMM + "TRTLLM,1.0,H100,gemm,torch_flow,fp8_block,16,4096,1024,0.05\n"
    found = read_samples([write(tmp_path, text)])
    assert found.time_ns[0] == 50_000
    assert [found.size(name)[0] for name in ("m", "n", "k")] == [16, 4096, 1024]
    assert (found.dtype[0], found.software[0], found.where(0)) == ("fp8_block", "TRTLLM 1.0", "table.csv:2")
    assert [found.size(f"{side}_nbytes")[0] for side in ("left", "right", "output")] == [1, 1, 2]


def test_aiconfigurator_messages_are_elements(tmp_path: Path) -> None:
    text = NCCL + "TRTLLM,2,H100,alltoall,NCCL,half,8,1024,0.01\nTRTLLM,2,H100,all_reduce,NCCL,int8,8,1024,0.01\n"
    found = read_samples([write(tmp_path, text)])
    assert list(found.size("nbytes")) == [2048, 1024]
    assert found.op.to_list() == ["all_to_all", "all_reduce"]


def test_vidur_takes_the_median(tmp_path: Path) -> None:
    stats = ",".join(f"time_stats.all_reduce.{kind}" for kind in ("min", "max", "mean", "median", "std"))
    text = f",{stats},rank,num_workers,size,devices_per_node\n0,0.01,0.09,0.05,0.04,0.01,0,8,2048,4\n"
    found = read_samples([write(tmp_path, text, "a100_all_reduce.csv")])
    assert found.time_ns[0] == pytest.approx(40_000)
    assert found.spread_ns[0] == pytest.approx(10_000)
    assert (found.device[0], found.tier[0]) == ("A100", "mixed")


def test_a_group_smaller_than_a_node_has_no_more_ranks_there_than_it_has(tmp_path: Path) -> None:
    text = "time_stats.all_reduce.median,num_workers,size,devices_per_node\n0.04,2,2048,8\n"
    found = read_samples([write(tmp_path, text)])
    assert [found.size(name)[0] for name in ("ranks", "nodes", "ranks_per_node")] == [2, 1, 2]


def test_simumax_efficiency_is_a_share_of_the_peak(tmp_path: Path) -> None:
    """2 · 1000³ flops at half of 1 TFLOP/s take 4 ms."""
    text = """{"sys_name": "x", "accelerator": {"op": {"matmul": {"tflops": 1, "accurate_efficient_factor": {
"b=1, m=1000, k=1000, n=1000, layout=TN, accumulate=True, out_dtype=fp32": 0.5}}}}}"""
    found = read_samples([write(tmp_path, text, "x.json")])
    assert found.time_ns[0] == pytest.approx(4e6)
    assert (found.size("accumulate")[0], found.size("output_nbytes")[0], found.line[0]) == (1, 4, 2)


def test_any_table_by_a_mapping(tmp_path: Path) -> None:
    mapping = """
op = "gemm"
dtype_column = "precision"
time = {column = "us", unit = "us"}
[sizes]
m = "M"
n = "N"
k = {column = "K64", times = 64}
batch = 1
"""
    table = write(tmp_path, "precision,M,N,K64,us\nbfloat16,16,32,2,1.5\n")
    found = read_samples([table], load(write(tmp_path, mapping, "map.toml")))
    assert found.time_ns[0] == 1500
    assert [found.size(name)[0] for name in ("m", "n", "k", "batch")] == [16, 32, 128, 1]
    assert found.dtype[0] == "bf16"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('op = "gemm"\ntime = "us"\n', 'time: needs {column = "...", unit = "us"}'),
        ('op = "gemm"\ntime = {column = "us", unit = "h"}\n', "unit 'h' is none of ns, us, ms, s"),
        ('time = {column = "us", unit = "us"}\n', "needs `time` and `op`"),
        ('op = "gemm"\ntiem = 1\n', "unknown field `tiem`"),
    ],
)
def test_a_wrong_mapping_names_its_field(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TraceError) as caught:
        load(write(tmp_path, text, "map.toml"))
    assert message in str(caught.value)


def test_an_unknown_table_names_its_columns(tmp_path: Path) -> None:
    with pytest.raises(
        TraceError, match=r"table\.csv:1: a table of an unknown kind, with columns a, b, c; .*--mapping"
    ):
        read_samples([write(tmp_path, "a,b,c\n1,2,3\n")])


def test_what_is_no_number_is_named_by_line(tmp_path: Path) -> None:
    text = GEMM + "TRTLLM,1.0,H100,gemm,x,fp8,16,4096,1024,0.05\nTRTLLM,1.0,H100,gemm,x,fp8,16,4096,oops,0.05\n"
    with pytest.raises(TraceError, match=r"table\.csv:3: k is 'oops', not a number"):
        read_samples([write(tmp_path, text)])


def test_rows_without_a_time_are_counted(tmp_path: Path) -> None:
    text = (
        GEMM
        + "T,1,H100,gemm,x,fp8,16,4096,1024,0.05\nT,1,H100,gemm,x,fp8,16,4096,1024,\nT,1,H100,gemm,x,fp8,16,1,1,-1\n"
    )
    found = read_samples([write(tmp_path, text)])
    assert len(found) == 1
    assert found.notes == ("table.csv:3: 2 rows left out, without a time above zero",)


def test_a_file_of_nothing_known_is_refused_with_its_first_line(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"x\.dat:1: holds no measurement .*launch failed"):
        read_samples([write(tmp_path, "launch failed on x3006: Couldn't allocate a port\n", "x.dat")])


@pytest.mark.shared
def test_every_gemm_table_parses(shared_data: Path) -> None:
    """Rows as the tables have them."""
    folder = shared_data / "gemm"
    assert len(read_samples([folder / "h100_sxm_gemm_trtllm_1.3.0rc10_gemm_perf.parquet"])) == 101_010
    assert len(read_samples([folder / "h100_sxm_moe_vllm_0.14.0_moe_perf.parquet"])) == 37_762
    assert len(read_samples([folder / "vidur_h100_llama2_70b_mlp.csv.gz"])) == 9 * 1044
    assert len(read_samples([folder / "b200_bf16_ceperm.json"])) == 514 + 108 + 64


def test_mapped_matrices_have_the_bytes_of_their_type(tmp_path: Path) -> None:
    mapping = 'op = "gemm"\ndtype = "fp8"\ntime = {column = "t", unit = "us"}\n[sizes]\nm = "m"\nn = "n"\nk = "k"\n'
    table = write(tmp_path, "m,n,k,t\n8,8,8,5\n-8,8,8,5\n8,0,8,5\n")
    found = read_samples([table], load(write(tmp_path, mapping, "map.toml")))
    assert [found.size(f"{name}_nbytes")[0] for name in ("left", "right", "output")] == [1.0, 1.0, 2.0]
    assert "table.csv:3: 2 rows left out, without a size above zero" in found.notes[0]
