import resource
import sys

import pytest

from salvit.memory import keep_freed_memory


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a setting of glibc")
def test_large_blocks_are_used_again_instead_of_mapped_anew():
    import torch

    assert keep_freed_memory()

    def faults():
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    for _ in range(3):
        torch.ones(8_000_000)
    before = faults()
    for _ in range(10):
        torch.ones(8_000_000)  # 32 MB, 8,000 pages each
    assert faults() - before < 8_000
