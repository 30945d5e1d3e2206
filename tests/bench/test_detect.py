import torch

from salvit.bench import detect


def test_it_measures_detection_against_the_backbone_and_puts_the_threads_back(monkeypatch):
    monkeypatch.setattr(detect, "_IMAGES", 8)
    monkeypatch.setattr(detect, "_DRAWN", 2)
    monkeypatch.setattr(detect, "_ROUNDS", 1)
    threads = torch.get_num_threads()
    figures = detect.run()
    assert set(figures) == {
        *("detect_over_backbone", "flip_over_detect", "match_over_backbone", "detect_ms_per_image"),
        *("backbone_ms_per_image", "resident_mb", "memory_growth_mb"),
        *("cold_start_over_torch", "cold_start_s", "import_torch_s"),
    }
    assert figures["cold_start_over_torch"] > 1 and 0.2 < figures["detect_over_backbone"] < 20
    assert torch.get_num_threads() == threads
