"""What an explicit range says: its name read as (phase, role, micro-batch, chunk, layer).

A name is words, an optional ``(F)``, ``(B)`` or ``(W)``, and ``key=value`` pairs, in any decoration that training
frameworks draw around them: ``attn(F)``, ``forward microbatch=3 chunk=0``, ``## backward ##``, ``forward-compute``,
``nn.Module: SelfAttention_3``, ``Optimizer.step#Adam.step``. A new naming is one new line in a table below.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from replay.program.types import Phase, Role

MISSING = -1

PHASES: dict[str, Phase] = {
    "forward": Phase.FORWARD,
    "fwd": Phase.FORWARD,
    "forward_compute": Phase.FORWARD,
    "forward_step": Phase.FORWARD,
    "f": Phase.FORWARD,
    "backward": Phase.BACKWARD,
    "bwd": Phase.BACKWARD,
    "backward_compute": Phase.BACKWARD,
    "backward_step": Phase.BACKWARD,
    "backward_input": Phase.BACKWARD,
    "dgrad": Phase.BACKWARD,
    "b": Phase.BACKWARD,
    "backward_weight": Phase.WEIGHT,
    "wgrad": Phase.WEIGHT,
    "w": Phase.WEIGHT,
    "optimizer": Phase.OPTIMIZER,
    "optimizer_step": Phase.OPTIMIZER,
    "grad_norm": Phase.OPTIMIZER,
    "clip_grad_norm": Phase.OPTIMIZER,
    "optimizer_clip_main_grad": Phase.OPTIMIZER,
    "all_grads_sync": Phase.SYNC,
    "grads_sync": Phase.SYNC,
    "grad_sync": Phase.SYNC,
    "grads_all_reduce": Phase.SYNC,
    "grads_reduce_scatter": Phase.SYNC,
    "params_all_gather": Phase.SYNC,
    "layernorm_grads_all_reduce": Phase.SYNC,
    "embedding_grads_all_reduce": Phase.SYNC,
    "finalize_model_grads": Phase.SYNC,
}
"""Names of whole phases (normalised: lower case, words joined by ``_``)."""

ROLES: dict[str, Role] = {
    "embedding": Role.EMBEDDING,
    "word_embeddings": Role.EMBEDDING,
    "attn": Role.ATTENTION,
    "attention": Role.ATTENTION,
    "self_attn": Role.ATTENTION,
    "self_attention": Role.ATTENTION,
    "mlp": Role.MLP,
    "ffn": Role.MLP,
    "feed_forward": Role.MLP,
    "router": Role.ROUTER,
    "gate": Role.ROUTER,
    "dispatch": Role.DISPATCH,
    "token_dispatch": Role.DISPATCH,
    "experts": Role.EXPERTS,
    "grouped_mlp": Role.EXPERTS,
    "shared_expert": Role.SHARED_EXPERT,
    "shared_experts": Role.SHARED_EXPERT,
    "combine": Role.COMBINE,
    "token_combine": Role.COMBINE,
    "norm": Role.NORM,
    "layernorm": Role.NORM,
    "layer_norm": Role.NORM,
    "rmsnorm": Role.NORM,
    "input_layernorm": Role.NORM,
    "pre_mlp_layernorm": Role.NORM,
    "final_layernorm": Role.NORM,
    "head": Role.HEAD,
    "lm_head": Role.HEAD,
    "output_layer": Role.HEAD,
    "loss": Role.HEAD,
    "p2p": Role.P2P,
    "forward_send": Role.P2P,
    "forward_recv": Role.P2P,
    "backward_send": Role.P2P,
    "backward_recv": Role.P2P,
    "send_forward": Role.P2P,
    "recv_forward": Role.P2P,
    "send_backward": Role.P2P,
    "recv_backward": Role.P2P,
}
"""Names of modules and of pipeline transfers (normalised)."""

MODULE_SUFFIXES: tuple[tuple[str, Role], ...] = (
    ("rotaryembedding", Role.NONE),
    ("embedding", Role.EMBEDDING),
    ("embeddings", Role.EMBEDDING),
    ("attention", Role.ATTENTION),
    ("attn", Role.ATTENTION),
    ("router", Role.ROUTER),
    ("gate", Role.ROUTER),
    ("sharedexpert", Role.SHARED_EXPERT),
    ("sharedexperts", Role.SHARED_EXPERT),
    ("experts", Role.EXPERTS),
    ("expert", Role.EXPERTS),
    ("groupedmlp", Role.EXPERTS),
    ("sequentialmlp", Role.EXPERTS),
    ("sharedexpertmlp", Role.SHARED_EXPERT),
    ("mlp", Role.MLP),
    ("feedforward", Role.MLP),
    ("ffn", Role.MLP),
    ("layerff", Role.MLP),  # T5
    ("actdense", Role.MLP),
    ("intermediate", Role.MLP),  # BERT and its relatives: attention is followed by SelfOutput, Intermediate, Output
    ("selfoutput", Role.ATTENTION),
    ("output", Role.MLP),
    ("norm", Role.NORM),
    ("lmhead", Role.HEAD),
    ("pooler", Role.HEAD),
    ("loss", Role.HEAD),
)
"""How the class names of modules end, whatever model they are of (``Qwen2Attention``); the first that fits counts."""

KEYS: dict[str, str] = {
    "microbatch": "microbatch",
    "micro_batch": "microbatch",
    "microbatch_id": "microbatch",
    "mb": "microbatch",
    "chunk": "chunk",
    "model_chunk": "chunk",
    "model_chunk_id": "chunk",
    "vp_stage": "chunk",
    "layer": "layer",
    "layer_id": "layer",
    "layer_number": "layer",
}
"""Keys of ``key=value`` pairs, and the field each one states."""

_PAIR = re.compile(r"\b([A-Za-z_]+)\s*[=:]\s*(\d+)\b")
_PHASE_SUFFIX = re.compile(r"\(\s*([A-Za-z]+)\s*\)\s*$")
_LAYER_PATH = re.compile(r"(?:^|[.\s])layers?[._\s]+(\d+)(?=$|[.\s_/])", re.IGNORECASE)
_MODULE = re.compile(r"^nn\.Module:\s*")
_INSTANCE_NUMBER = re.compile(r"_\d+$")
_OPTIMIZER = re.compile(r"^Optimizer\.(step|zero_grad)#")
_NOT_WORD = re.compile(r"[^A-Za-z0-9]+")


@dataclass(frozen=True, slots=True)
class RangeMeaning:
    """What one range states; what it does not say is ``NONE`` or -1."""

    phase: Phase = Phase.NONE
    role: Role = Role.NONE
    microbatch: int = MISSING
    chunk: int = MISSING
    layer: int = MISSING

    def inside(self, outer: RangeMeaning) -> RangeMeaning:
        """This meaning nested in ``outer``: what it does not say itself it takes from there."""
        return RangeMeaning(
            self.phase or outer.phase,
            self.role or outer.role,
            outer.microbatch if self.microbatch == MISSING else self.microbatch,
            outer.chunk if self.chunk == MISSING else self.chunk,
            outer.layer if self.layer == MISSING else self.layer,
        )


NOTHING = RangeMeaning()


@lru_cache(maxsize=65536)
def read_range(name: str) -> RangeMeaning:
    """Meaning of a range's name; :data:`NOTHING` when no table knows any of it."""
    if _OPTIMIZER.match(name):
        return RangeMeaning(Phase.OPTIMIZER, Role.OPTIMIZER)
    stated = {KEYS[key.lower()]: int(value) for key, value in _PAIR.findall(name) if key.lower() in KEYS}
    rest = _PAIR.sub(" ", name)
    if path := _LAYER_PATH.search(rest):
        stated.setdefault("layer", int(path.group(1)))
        rest = rest[path.end() :] or rest[: path.start()]
    phase = Phase.NONE
    if suffix := _PHASE_SUFFIX.search(rest):
        phase = PHASES.get(suffix.group(1).lower(), Phase.NONE)
        rest = rest[: suffix.start()]
    if module := _MODULE.match(rest):
        rest = _INSTANCE_NUMBER.sub("", rest[module.end() :])
        phase, role = Phase.NONE, _by_suffix(rest.lower())
    else:
        phase, role = _words(rest, phase)
    return RangeMeaning(phase, role, **stated)


def _words(text: str, phase: Phase) -> tuple[Phase, Role]:
    """Phase and role that a name states: as a whole, by the last part of a dotted path, or as phase and role words."""
    words = [word for word in _NOT_WORD.split(text.lower()) if word]
    whole = "_".join(words)
    leaf = _NOT_WORD.sub("_", text.lower().rpartition(".")[2].strip())
    if whole in PHASES and len(whole) > 1:
        found = PHASES[whole]
        return phase or found, Role.OPTIMIZER if found is Phase.OPTIMIZER else _sync_role(found)
    for module in (whole, leaf):
        if module in ROLES:
            return phase or _transfer_phase(module), ROLES[module]
    if len(words) > 1 and words[0] in PHASES and "_".join(words[1:]) in ROLES:
        return phase or PHASES[words[0]], ROLES["_".join(words[1:])]
    if len(words) > 1 and words[-1] in PHASES and "_".join(words[:-1]) in ROLES:
        return phase or PHASES[words[-1]], ROLES["_".join(words[:-1])]
    return phase, Role.NONE


def _by_suffix(module: str) -> Role:
    return next((role for suffix, role in MODULE_SUFFIXES if module.endswith(suffix)), Role.NONE)


def _sync_role(phase: Phase) -> Role:
    return Role.GRAD_SYNC if phase is Phase.SYNC else Role.NONE


def _transfer_phase(name: str) -> Phase:
    """Phase in the name of a pipeline transfer (``forward_send``), NONE for a module."""
    return next((PHASES[word] for word in name.split("_") if word in ("forward", "backward")), Phase.NONE)
