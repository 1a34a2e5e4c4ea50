"""Write experiments/own/dump.influx.gz again, from a seed: `.venv/bin/python -m tests.owndump`.

A disk's fill level, free inodes and mode every minute for two hours, of three hosts with three paths each. Tags have
escaped spaces, commas, equals signs and backslashes.
"""

import gzip
import random
from collections.abc import Iterator
from pathlib import Path

PATH = Path(__file__).parent.parent / "experiments/own/dump.influx.gz"
START, STEPS, HOSTS = 1749513600, 120, 3
PATHS = (r"/var/lib/my\ data", r"C:\\Program\ Files", r"/srv/a\,b")
SAMPLES = STEPS * HOSTS * len(PATHS) * 3


def lines() -> Iterator[str]:
    """Yield the lines."""
    draw = random.Random(26)  # noqa: S311
    disks = [(host, path, [draw.randrange(300, 900), draw.randrange(5000)]) for host in range(HOSTS) for path in PATHS]
    for step in range(STEPS):
        for host, path, state in disks:
            state[0] = min(999, max(1, state[0] + draw.choice((-1, 0, 0, 1, 1))))
            state[1] += draw.choice((0, 0, 0, 10))
            tags = rf"disk,host=db\ {host:02}\,rack\={host % 4},path={path},fstype=ext4"
            fields = f'used_percent={state[0] / 10},inodes_free={state[1]}i,mode="rw mount"'
            yield f"{tags} {fields} {START + step * 60}000000000\n"


if __name__ == "__main__":
    PATH.write_bytes(gzip.compress("".join(lines()).encode(), mtime=0))
