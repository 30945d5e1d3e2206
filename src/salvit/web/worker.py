"""One thread owns the detector: it answers what is asked at once, and does the open jobs in small steps between."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import Any, TypeVar

from salvit.projects import Project, Shot, Target, stamps_of
from salvit.web.engine import Engine, Unreadable

ENCODE_TOGETHER = 4
"""Pictures that are encoded in one step: so few that the next request never waits long."""
LOCATE_TOGETHER = 32
"""Pictures that are looked at in one step where their features are kept."""

_log = logging.getLogger(__name__)
T = TypeVar("T")


class Worker:
    """Runs jobs; tells what it does through ``publish(kind, data)``."""

    def __init__(self, project: Project, engine: Engine, publish: Callable[[str, Any], None]) -> None:
        self._project, self._engine, self._publish = project, engine, publish
        self._asked: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self._wake = threading.Event()
        self._is_over = False
        self._screen: int | None = None
        self._done: dict[int, int] = {}
        self._thread = threading.Thread(target=self._run, name="salvit-worker", daemon=True)

    def start(self) -> None:
        """Begin; a job that was not over when the last server ended goes on."""
        self._thread.start()

    def stop(self) -> None:
        """End after the present step."""
        self._is_over = True
        self._wake.set()
        self._thread.join(timeout=30)

    def wake(self) -> None:
        """There may be something to do."""
        self._wake.set()

    def look_at(self, image: int | None) -> None:
        """The picture on somebody's screen comes first."""
        self._screen = image

    def ask(self, function: Callable[[Engine], T]) -> T:
        """Have something done with the engine before any further job, and wait for it."""
        if self._is_over:
            raise ValueError("the server is being shut down; start it again")
        future: Future[T] = Future()
        self._asked.put((lambda: function(self._engine), future))
        self._wake.set()
        return future.result(timeout=600)

    def request(self, kind: str) -> int:
        """Open a job, or join the one of that kind that is open."""
        number = self._engine.work.add_job(kind)
        self._publish("job", self._engine.work.job(number))
        self._wake.set()
        return number

    def corrected(self) -> None:
        """Marks have changed: find again what depends on them, where points are wanted in all pictures."""
        if self._project.settings()["live"]:
            self.request("detect")

    def work_off(self) -> None:
        """Do everything that is open in the calling thread: for measurements, where no thread was started."""
        while self._answer() or self._step():
            pass

    # --- the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._is_over:
            self._wake.clear()
            if self._answer() or self._step():
                continue
            self._wake.wait()

    def _answer(self) -> bool:
        try:
            function, future = self._asked.get_nowait()
        except queue.Empty:
            return False
        try:
            future.set_result(function())
        except Exception as problem:  # it belongs to who asked
            future.set_exception(problem)
        return True

    def _step(self) -> bool:
        job = self._engine.work.open_job()
        if job is None:
            return False
        try:
            match job["kind"]:
                case "detect":
                    self._detect(job["id"])
                case "transductive":
                    self._transduce(job["id"])
                case other:
                    raise ValueError(f"this salvit knows no job {other!r}")
        except Unreadable as problem:
            self._engine.work.refuse(problem.target.image, problem.reason)
            self._publish("pictures", self._project.pictures([problem.target.image]))
        except Exception as problem:
            _log.exception("job %s failed", job["id"])
            self._end(job["id"], "failed", str(problem))
        return True

    def _detect(self, number: int) -> None:
        """One step: the next few objects whose points are not those of the present marks."""
        work = self._engine.work
        model = self._engine.prepare()
        shots = work.shots()
        stamps = stamps_of(shots, model)
        stale = work.stale(stamps, 1_000_000, self._screen)
        if not stale:
            self._end(number, "done", "" if shots else "no point is marked yet; mark at least one")
            return
        done = self._done.get(number, 0)
        work.update_job(number, "running", done=done, total=done + len(stale))
        targets = self._choose(stale)
        self._find(targets, shots, stamps)
        self._done[number] = done + len(targets)
        self._publish("pictures", self._project.pictures(sorted({target.image for target in targets})))
        self._publish("job", {**work.job(number), "done": done + len(targets)})

    def _choose(self, stale: Sequence[Target]) -> list[Target]:
        """The first few that want the same keypoints; what is on the screen alone, where it must be encoded."""
        first = stale[0]
        same = [target for target in stale if target.keypoints == first.keypoints][: 4 * LOCATE_TOGETHER]
        if not self._engine.has(first):
            if first.image == self._screen:
                return [target for target in same if target.image == first.image][:ENCODE_TOGETHER]
            return [target for target in same if not self._engine.has(target)][:ENCODE_TOGETHER]
        return list(islice((target for target in same if self._engine.has(target)), LOCATE_TOGETHER))

    def _find(self, targets: Sequence[Target], shots: Sequence[Shot], stamps: dict[int, str]) -> None:
        wanted = targets[0].keypoints
        pack = self._engine.learn_for(wanted, shots, stamps)
        found = [row for row in self._engine.locate(pack, targets) if row.keypoint in wanted]
        self._engine.work.keep(found, stamps, {target.object: target.revision for target in targets})

    def _transduce(self, number: int) -> None:
        """One step: encode a few pictures that are not yet; when all are, refine and find everything."""
        work = self._engine.work
        model = self._engine.prepare()
        shots, targets = work.shots(), work.targets()
        missing = [target for target in targets if not self._engine.has(target)]
        done = len(targets) - len(missing)
        work.update_job(number, "running", done=done, total=len(targets))
        self._publish("job", work.job(number))
        if missing:
            self._engine.encode(missing[:ENCODE_TOGETHER])
            return
        if shots:
            stamps = stamps_of(shots, model)
            pack = self._engine.refine(self._engine.learn(shots, sorted(stamps), stamps), targets)
            for start in range(0, len(targets), LOCATE_TOGETHER):
                part = targets[start : start + LOCATE_TOGETHER]
                revisions = {target.object: target.revision for target in part}
                work.keep(self._engine.locate(pack, part), stamps, revisions)
                self._publish("pictures", self._project.pictures(sorted({target.image for target in part})))
        self._done[number] = len(targets)
        self._end(number, "done", "" if shots else "no point is marked yet; mark at least one")

    def _end(self, number: int, state: str, message: str) -> None:
        done = self._done.pop(number, 0)
        self._engine.work.update_job(number, state, done=done, total=done, message=message)
        self._publish("job", self._engine.work.job(number))
