"""The training program in a step whose ranges do not tell it: one kind of evidence a file, the strongest first.

Every public module of this folder is a *finder*: ``ORDER: int`` and ``find(evidence: Evidence) -> Finding``. Finders
run in ascending order; what one says is filled in only where stronger evidence, ranges above all, said nothing.
"""
