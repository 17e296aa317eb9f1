"""What a sandbox uses now, as E2B's ``get_metrics()`` has it. None is collected: each answer has one value."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from typing import Any

from ._http import Refused, shown_time
from ._records import Record
from ._sandboxes import Sandboxes

_TIME = 30.0  # seconds
_SLACK = 10.0  # seconds by which a client's clock may differ
_SCRIPT = """
import json, os, time
def used():
    ticks = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = open(f"/proc/{name}/stat").read().rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12])
            except OSError:
                pass
    return ticks / os.sysconf("SC_CLK_TCK"), time.monotonic()
(before, then), _ = used(), time.sleep(0.2)
after, now = used()
disk = os.statvfs("/session" if os.path.isdir("/session") else ".")
print(json.dumps({"cpu": max(after - before, 0) / (now - then), "cpus": len(os.sched_getaffinity(0)),
                  "size": disk.f_blocks * disk.f_frsize, "used": (disk.f_blocks - disk.f_bfree) * disk.f_frsize}))
"""


def is_now(asked: Mapping[str, str]) -> bool:
    """Whether the present is in the time asked for, ``start`` to ``end`` in Unix seconds. Raises Refused."""
    try:
        start, end = float(asked.get("start", 0)), float(asked.get("end", "inf"))
    except ValueError:
        raise Refused(400, "start and end must be Unix seconds") from None
    return start - _SLACK <= time.time() <= end + _SLACK


async def now(sandboxes: Sandboxes, record: Record) -> dict[str, Any]:
    """What its container uses. Raises Refused."""
    base = await sandboxes.base(record)
    rows = await sandboxes.gateway.client._rows(base.name)
    memory = next((row.memory for row in rows if row.session == base.name), 0)
    done = await base.exec(["python3", "-c", _SCRIPT], timeout=_TIME)
    if not done.ok:
        raise Refused(500, f"the sandbox could not be asked what it uses: {done.stderr.strip()[-200:]}")
    said = json.loads(done.stdout)
    when = time.time()
    return {
        "timestamp": shown_time(when), "timestampUnix": int(when), "cpuUsedPct": round(100 * said["cpu"], 2),
        "cpuCount": math.ceil(base.options.get("cpus") or said["cpus"]), "memUsed": memory, "memCache": 0,
        "memTotal": int(base.options.get("memory") or memory), "diskUsed": said["used"], "diskTotal": said["size"],
    }  # fmt: skip
