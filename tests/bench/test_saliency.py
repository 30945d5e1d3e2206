from salvit.bench import saliency


def test_maps_cost_little_on_top_of_their_backbone(monkeypatch):
    monkeypatch.setattr(saliency, "REPEATS", 5)
    figures = saliency.run()
    assert set(figures) >= {"learned_over_backbone", "attentiveness_over_backbone"}
    assert figures["learned_over_backbone"] < 1.5  # generous: a shared machine; `salvit bench saliency` has the figure
    assert figures["attentiveness_over_backbone"] < 1.5


def test_medians_are_of_calls_taken_in_turns():
    order = []
    saliency._medians({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 2)
    assert order == ["a", "b"] * 4
