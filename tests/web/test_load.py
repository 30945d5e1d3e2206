"""Twenty clients at once for a minute."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import httpx
import pytest

CLIENTS, SECONDS = 20, 60.0


def memory_mb(process):
    fields = Path(f"/proc/{process.pid}/status").read_text().split("VmRSS:")[1]
    return int(fields.split()[0]) / 1024


@pytest.mark.slow
def test_twenty_clients_for_a_minute_make_no_error_and_memory_stays_bounded(start_server, folder):
    if not Path("/proc/self/status").exists():
        pytest.skip("memory is read from /proc, which is not here")
    server = start_server(folder)
    problems, counts = [], []
    begin = time.monotonic()

    def use(number):
        count = 0
        with httpx.Client(base_url=server.address, timeout=60) as client, client.stream("GET", "/api/events") as events:
            lines = events.iter_lines()
            next(lines)
            name = client.post("/api/keypoints", json={"name": f"point {number}"}).json()["id"]
            while time.monotonic() - begin < SECONDS:
                image = 1 + (number + count) % 5
                answers = [client.get("/api/project"), client.get(f"/api/pictures/{image}"),
                           client.get(f"/api/pictures/{image}/thumbnail"), client.get("/api/pictures")]  # fmt: skip
                thing = answers[1].json()["objects"][0]
                seen = {point["keypoint"]: point["revision"] for point in thing["points"]}
                change = {"object": thing["id"], "keypoint": name, "kind": "placed", "x": 5 + count % 200, "y": 9,
                          "revision": seen.get(name, 0)}  # fmt: skip
                answers.append(client.put("/api/marks", json={"changes": [change]}))
                if number == 0 and count % 5 == 0:
                    answers.append(client.post("/api/jobs", json={}))
                problems.extend(answer.text for answer in answers if not answer.is_success)
                count += 1
        counts.append(count)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    samples = []
    while any(thread.is_alive() for thread in threads):
        time.sleep(1)
        samples.append(memory_mb(server.process))
    for thread in threads:
        thread.join()
    assert not problems, problems[:3]
    assert len(counts) == CLIENTS and min(counts) >= 1
    half = len(samples) // 2
    growth = max(samples[half:]) - max(samples[:half])
    print(f"{sum(counts)} rounds of 5 calls; memory {samples[0]:.0f} to {samples[-1]:.0f} MB, late growth {growth:.0f}")
    assert growth < 100 and max(samples) < 2000, samples
