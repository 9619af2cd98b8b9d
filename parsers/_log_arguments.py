"""Arguments that a log states: Megatron's dump, printed configurations, the launch command, start-up lines.

Sources in order of trust: start-up lines and the dump (what the program ran with), then a configuration printed as
``key: value`` lines, then the words of the launch command. Source: Megatron-LM ``_print_args``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LONGEST_DUMP = 20_000  # lines; other ranks write in between
LONGEST_PAIR = 200  # characters
LARGEST_NUMBER = 1 << 53  # no setting is larger; an infinite or endless number stays text

_BEGIN = re.compile(r"-{4} (?!end of)[\w ]{0,60}arguments -{4}")
_END = "end of arguments -"
_DOTTED = re.compile(r"(?:^|\s)([A-Za-z]\w*) (\.*) (\S.*)$")
_PREFIX = re.compile(r"^\s*(?:\[[^\]]{0,80}\]\s*:?\s*|\d{1,9}:\s+)*")
_PAIR = re.compile(r"[\"']?([a-z]\w*)[\"']?\s*:\s*([^,{}\[\]]{1,80}?),?\s*$")
_WORD = re.compile(r"--([a-z][a-z0-9_-]*)[ =]([^\s'\"-][^\s'\"]*)")
_COMMAND = ("--num-layers", "--tensor-model-parallel-size", "--hidden-size", "--nproc_per_node", "--nproc-per-node")
_SIZES = re.compile(r"(?<!encoder-)(?<!expert-)(tensor-model-parallel|pipeline-model-parallel|data-parallel|"
                    r"(?<!hierarchical )context-parallel)[- ]size: ?(\d{1,9})")  # fmt: skip
_WORLD = re.compile(r"using world size: ?(\d{1,9})")
_VOCABULARY = re.compile(r"padded vocab \(size: \d+\) with \d+ dummy tokens \(new size: (\d{1,12})\)")

CONFIGURATION = frozenset((
    "num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads", "num_query_groups", "kv_channels",
    "seq_length", "micro_batch_size", "global_batch_size", "tensor_model_parallel_size",
    "pipeline_model_parallel_size", "virtual_pipeline_model_parallel_size", "context_parallel_size",
    "expert_model_parallel_size", "expert_tensor_parallel_size", "num_moe_experts", "num_experts",
    "moe_router_topk", "moe_ffn_hidden_size", "moe_shared_expert_intermediate_size", "moe_token_dispatcher_type",
    "multi_latent_attention", "q_lora_rank", "kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim",
    "mtp_num_layers", "gated_linear_unit", "swiglu", "sequence_parallel", "recompute_granularity", "world_size",
))  # fmt: skip
"""Keys of printed configurations that are taken; any other ``word: word`` line of a log is not a setting."""


@dataclass(slots=True)
class Arguments:
    """Collects arguments line by line."""

    dump: dict[str, Any] = field(default_factory=dict)
    startup: dict[str, Any] = field(default_factory=dict)
    configuration: dict[str, Any] = field(default_factory=dict)
    command: dict[str, Any] = field(default_factory=dict)
    _dump_lines_left: int = 0

    def feed(self, text: str) -> bool:
        """Take what a line states; true where it begins a dump."""
        if "arguments -" in text:
            self._dump_lines_left = 0 if _END in text else LONGEST_DUMP
            return _BEGIN.search(text) is not None
        if self._dump_lines_left:
            self._dump_lines_left -= 1
            if match := _DOTTED.search(text):
                self.dump[match[1]] = literal(match[3])
            return False
        self._startup(text)
        if "--" in text and any(word in text for word in _COMMAND):
            for name, value in _WORD.findall(text):
                self.command.setdefault(name.replace("-", "_"), literal(value))
        elif ":" in text and len(text) <= LONGEST_PAIR:
            pair = _PAIR.fullmatch(_PREFIX.sub("", text, count=1))
            if pair and pair[1] in CONFIGURATION:
                self.configuration.setdefault(pair[1], literal(pair[2].strip("\"'")))
        return False

    def _startup(self, text: str) -> None:
        if "parallel" in text and "using world size" in text:
            for name, value in _SIZES.findall(text):
                self.startup[f"{name.replace('-', '_')}_size"] = int(value)
            if world := _WORLD.search(text):
                self.startup["world_size"] = int(world[1])
        elif "padded vocab" in text and (vocabulary := _VOCABULARY.search(text)):
            self.startup["padded_vocab_size"] = int(vocabulary[1])

    def next_run(self) -> None:
        """Forget what the program printed before; start-up lines come before the dump, so they are this run's."""
        self.dump, self.configuration = {}, {}

    def merged(self) -> dict[str, Any]:
        """Every argument by its strongest source."""
        return {**self._launched(), **self.configuration, **self.dump, **self.startup}

    def _launched(self) -> Mapping[str, Any]:
        """The command's words, with the world that the launcher's words make."""
        per_node = self.command.get("nproc_per_node")
        nodes = self.command.get("nnodes")
        world = {"world_size": per_node * nodes} if isinstance(per_node, int) and isinstance(nodes, int) else {}
        return {**world, **self.command}


def literal(text: str) -> Any:
    """A Python scalar or list as printed; anything else (enums, paths) stays text."""
    text = text.strip()
    if not text[:1].isdigit() and text[:1] not in "-[(" and text not in ("True", "False", "None"):
        return {"true": True, "false": False, "null": None, "none": None}.get(text, text)
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return text
    if isinstance(value, (int, float)) and not abs(value) < LARGEST_NUMBER:
        return text
    return value
