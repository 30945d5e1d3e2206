"""The table of figures in the card of a released model, from ``results/*.json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from salvit.tables.paper import rounded

MARKER = "card"
FLOOR = "match:lite0"
"""What stands beside a model: nearest features of the network that both released models read."""
_HEAD = (
    "| unseen | shots | PCK@0.05 | PCK@0.1 | PCK@0.2 | harmonic@0.1 | `match` | 1, 2, 3 σ hold | ellipse | presence |\n"
    "|---|---|---|---|---|---|---|---|---|---|\n"
)
_FOOT = (
    "\nPCK as novel / base keypoints of the protocol, in percent; their harmonic mean at 0.1 with a 95 % interval; "
    "`match` on Lite0 on the same frozen list; share of points inside their ellipses (a Gaussian: 39.3, 86.5, "
    "98.9); mean area of the 1 σ ellipse in square pixels; AUROC of presence on keypoints that cannot be seen.\n"
)


def card_table(results: Mapping[str, Mapping[str, Any]], name: str) -> str:
    """A row for each report of a released model, with ``match`` on the same list beside it.

    Args:
        results: By file name (:func:`salvit.results.read_results`).
        name: ``lite`` or ``dino``.
    """
    plain = [result for result in results.values() if _is_plain(result)]
    floors = {result["list_hash"]: result for result in plain if result["model"] == FLOOR}
    rows = sorted((r for r in plain if r["model"] == name), key=lambda r: (r["data"], r["problem"], r["shots"]))
    if not rows:
        raise ValueError(f"there is no result of {name}; make some with `salvit evaluate --model {name} --result FILE`")
    return _HEAD + "".join(_row(result, floors.get(result["list_hash"])) for result in rows) + _FOOT


def _is_plain(result: Mapping[str, Any]) -> bool:
    """As released: not transductive, not mirrored, nothing hidden, one look; and no other kind of file."""
    protocol = result.get("protocol", {})
    changed = {"occluder", "ways", "decoding", "zoom"} & set(protocol)
    return "list_hash" in result and not protocol.get("transductive") and not changed


def _row(result: Mapping[str, Any], floor: Mapping[str, Any] | None) -> str:
    pck = result["pck"]
    shares = [" / ".join(rounded(pck[kind][at]) for kind in ("novel", "base")) for at in ("0.05", "0.1", "0.2")]
    calibration = result["calibration"]
    presence = calibration.get("presence_auroc")
    cells = [
        f"{result['data']}, {result['problem']}" if result["problem"] != "all" else result["data"],
        str(result["shots"]),
        *shares,
        f"{rounded(result['harmonic'])} ± {rounded(result['ci95'])}",
        "not run" if floor is None else rounded(floor["harmonic"]),
        ", ".join(rounded(value) for value in result["coverage"]),
        f"{calibration['mean_ellipse_area']:.0f}",
        "–" if presence is None else f"{presence:.2f}",
    ]
    return f"| {' | '.join(cells)} |\n"
