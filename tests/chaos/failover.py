"""Kills the active writer, or stops it for longer than its lease, under load, repeatedly; records which process takes over, and
when.

    python -m tests.chaos.failover --times 100 --lease-ms 1500 [--directory DIR] [--out FILE]

Half of the faults are SIGKILL, half SIGSTOP (the stopped writer is let go on once another leads, and has to end by itself).
After the last one INV is checked over everything. Writes a table and a picture of the times to a new active writer.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.assertions import histogram, say, summary, table
from tests.chaos.cluster import until
from tests.chaos.fleet import EXIT_LOST, Fleet
from tests.chaos.stored import RedisSource

PROGRESS_REQUESTS = 3  # acknowledged and learnt between two faults


@dataclass(frozen=True)
class Took:
    """One fault. to_leader_s: until another writer reported that it holds the lease; to_served_s: until the replica served
    events that were accepted after the fault.
    """

    fault: str
    to_leader_s: float
    to_served_s: float


def one_fault(fleet: Fleet, fault: str) -> Took:
    """Stop the active writer; measure; restore the service."""
    active = fleet.active()
    others = [member for member in fleet.writers if member is not active]
    for member in others:
        until(member.answers, 60, f"{member.name} stands by: {member.said()}")
    exits, replica = len(active.exits), fleet.replicas[0]
    if fault == "SIGKILL":
        active.kill()
    else:
        active.pause()
    began = time.monotonic()
    newest = RedisSource(fleet.server.url).top("m").seq + 1  # an event that only a new writer can learn
    until(lambda: any(member.metric("riata_lease_held") == 1 for member in others), 120, "another writer leads")
    to_leader_s = time.monotonic() - began
    until(lambda: replica.metric("riata_applied_seq", model="m") >= newest, 120, "the replica serves what came since")
    to_served_s = time.monotonic() - began
    if fault == "SIGSTOP":
        active.resume()
    until(lambda: len(active.exits) > exits, 60, f"{active.name} ends: {active.said()}")
    if fault == "SIGSTOP":
        assert active.exits[-1] == EXIT_LOST, (active.exits, active.said())
    return Took(fault, to_leader_s, to_served_s)


def failovers(directory: Path, times: int, lease_ms: int, seed: int) -> tuple[list[Took], dict[str, int]]:
    """Run all faults; returns the times, and counts for the table. Raises `AssertionError` if INV does not hold."""
    rng = random.Random(seed)
    with Fleet(directory, lease_ttl_ms=lease_ms, store_timeout_ms=max(250, lease_ms // 3)) as fleet:
        fleet.begin(webs=1, writers=2, replicas=1)
        faults = ["SIGKILL", "SIGSTOP"] * (times // 2) + ["SIGKILL"] * (times % 2)
        rng.shuffle(faults)
        took: list[Took] = []
        with fleet.load("--rows", "5", "--clients", "2", "--pause-ms", "10", "--predict-ms", "20") as load:
            for number, fault in enumerate(faults):
                fleet.goes_on(load, PROGRESS_REQUESTS)
                time.sleep(rng.uniform(0.0, 0.3))  # the moment within the life of a lease is what is random here
                took.append(one_fault(fleet, fault))
                say(f"{number + 1}/{times} {fault}: {took[-1].to_leader_s:.2f} s, served {took[-1].to_served_s:.2f} s")
            fleet.learnt()
        return took, counts(fleet)


def counts(fleet: Fleet) -> dict[str, int]:
    """End everything, check INV, and count."""
    replica_urls = {member.url for member in [*fleet.replicas, *fleet.webs]}
    tally = fleet.tally()
    history = fleet.cluster.history()
    served = [one for one in history.predicted if one.process.split()[0] in replica_urls]
    failed = sum(1 for one in history.failed if one["url"] in replica_urls)
    return {**tally, "predictions of web and replica": len(served), "of them failed": failed}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--lease-ms", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--out", type=Path, help="the times as JSON")
    options = parser.parse_args()
    directory = options.directory or Path(tempfile.mkdtemp(prefix="failover-"))
    began = time.monotonic()
    took, found = failovers(directory, options.times, options.lease_ms, options.seed)
    say(f"\nlease {options.lease_ms} ms, {len(took)} faults in {time.monotonic() - began:.0f} s\n")
    say("| until | fault | times | least | median | 90 % | most |\n| --- | --- | --- | --- | --- | --- | --- |")
    for kind in ("SIGKILL", "SIGSTOP"):
        some = [one for one in took if one.fault == kind]
        if some:
            say(f"| another writer leads, s | {kind} | {len(some)} | {summary([one.to_leader_s for one in some])} |")
            served = summary([one.to_served_s for one in some])
            say(f"| the replica serves events accepted since, s | {kind} | {len(some)} | {served} |")
    say(table(found))
    if options.out:
        options.out.write_text(json.dumps([vars(one) for one in took]))
    if options.picture:
        times = {kind: [one.to_leader_s for one in took if one.fault == kind] for kind in ("SIGKILL", "SIGSTOP")}
        histogram(times, "seconds until another writer leads", options.picture, {"lease": options.lease_ms / 1000})
    if options.directory is None:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
