import subprocess
import sys

import pytest

CODE = """
import resource, sys, torch
from salvit.memory import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
def blocks(rounds):
    for millions in (10, 3, 14, 5, 9) * rounds:
        torch.ones(millions * 1_000_000)
blocks(2)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
blocks(6)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a setting of glibc")
def test_large_blocks_are_used_again_instead_of_mapped_anew():
    def faults(how):
        done = subprocess.run([sys.executable, "-c", CODE, how], capture_output=True, text=True, check=True)
        return int(done.stdout)

    assert faults("keep") < 0.5 * faults("leave")
