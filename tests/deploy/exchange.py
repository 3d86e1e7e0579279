"""A class on three copies behind nginx, with the shipped configuration, while copies are killed and exchanged.

60 students at one address, with experiments of their own. They edit all at the same moment, which is harder than a
class is, again and again: with all copies there, straight after one was killed, after it came back, and after each was
ended and before it was started again. Who lost a copy comes back first; that counts with the edit. Every number of
every answer is compared with the engine run offline, so that a lost experiment is a wrong one. Copies, proxy and
students share the machine.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.bench.figure import Figure
from tests.deploy import copies
from tests.deploy.people import People
from tests.load import scene

MANY = 60


def measure(many: int = MANY) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        with copies.behind_nginx(Path(folder)) as running, People(running.url, many) as people:
            people.open()
            people.edit()
            calm = _edits(people, 2)
            running.kill(running.ports[0])
            after = _edits(people, 1)
            running.start(running.ports[0])
            _edits(people, 1)
            exchanged: list[float] = []
            for port in running.ports:
                running.stop(port)
                exchanged += _edits(people, 1)
                running.start(port)
            calm += _edits(people, 1)
            wrong = people.wrong()
        spread = ", ".join(map(str, running.used().values()))
    edits, moved = sum(people.edits()), people.moved()
    errors = [line for log in running.logs for line in log.splitlines() if line.startswith("Traceback")]
    return [
        scene.p95(f"{many} students behind nginx on three copies, edit all at once, p95", 5, calm, ""),
        scene.p95("the same, straight after a copy was killed, coming back included, p95", 10, after, ""),
        scene.p95("the same, while all copies are exchanged one by one, p95", 10, exchanged, ""),
        scene.count("wrong answers or lost experiments", wrong, f"{edits} edits, {moved} moves to another copy"),
        scene.count("errors of the copies", errors, f"sessions of each copy: {spread}"),
    ]


def _edits(people: People, rounds: int) -> list[float]:
    """The seconds of some rounds of edits by everyone."""
    before = len(people.seconds)
    for _ in range(rounds):
        people.edit()
    return people.seconds[before:]


if __name__ == "__main__":
    for figure in measure(*map(int, sys.argv[1:2])):
        print(f"{figure.what}: {figure.value}{figure.unit}, at most {figure.target}; {figure.behind}")
