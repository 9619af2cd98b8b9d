"""Collective algorithms, one per file: what crosses a link, and how long it takes.

Every member offers ``KINDS`` (the collectives it carries out), ``steps(ranks)`` (how many messages follow one another),
``sent_nbytes(nbytes, ranks)`` (what one rank sends in all of them) and ``time_ns(nbytes, ranks, link)``, with
``nbytes`` the larger of a rank's two buffers, vectorised over arrays. Functions are pure; a link is latency and
bandwidth by protocol. Discovered by :func:`replay.core.plugins.members`.
"""
