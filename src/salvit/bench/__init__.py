"""Benchmarks behind ``salvit bench``: each file has ``run() -> dict[str, float]``, figures by name.

``a_over_b`` is the time of a over the time of b: medians, interleaved in one run, so that a busy machine slows both.
"""
