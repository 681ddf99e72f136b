"""What every benchmark shares: one subprocess per case, limits, best-of-repeats clocks, records.

A case runs in its own process, so that a crash, a full memory or an endless loop of one library
costs one cell of the table. The child prints one JSON line; the parent adds the reason where
there is none.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BIF_FOLDER = ROOT.parent / "shared" / "data" / "bif"
OUT = ROOT / "out" / "benchmarks"
PACKAGES = ("credo", "numpy", "numba", "pyAgrum", "pgmpy", "pytoulbar2")

_MARK = "RESULT "  # libraries print on their own; the answer is the line that starts with this
_REPEATS = 20
_BUDGET = 6.0  # seconds of wall time for the repeats of one measurement
_TOO_SLOW_TO_REPEAT = 15.0  # CPU seconds
_PATIENCE = 5  # other work on the machine must not look like slowness of a library


@dataclass(frozen=True)
class Limits:
    """What one subprocess may use."""

    seconds: float = 60.0  # CPU time of the whole process; wall time may be _PATIENCE times as long
    gigabytes: float = 12.0  # address space
    threads: int = 1


def in_subprocess(script: str, task: dict[str, Any], limits: Limits, **environment: str) -> dict[str, Any]:
    """Run `script` as a child with this task; its answer, or {"none": reason}."""
    command = [sys.executable, script, "--child", json.dumps({**task, "limits": vars(limits)})]
    threads = {"OMP_NUM_THREADS": str(limits.threads), "OPENBLAS_NUM_THREADS": str(limits.threads)}
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env={**os.environ, **threads, **environment},
    )
    output, complaints, reason = _watch(process, limits)
    if reason:
        return {"none": reason}
    for line in reversed(output.splitlines()):
        if line.startswith(_MARK):
            return json.loads(line[len(_MARK) :])
    if "bad_alloc" in complaints or process.returncode == -signal.SIGKILL:
        return {"none": f"out of memory (limit {limits.gigabytes:g} GB)"}
    said = (complaints.strip().splitlines() or ["nothing on stderr"])[-1]
    return {"none": f"exit {process.returncode}: {said[:120]}"}


def _watch(process: subprocess.Popen[str], limits: Limits) -> tuple[str, str, str]:
    """Output and errors of the child, and why it was stopped, if it was.

    The parent counts the child's CPU time: under RLIMIT_CPU the child's own clock would advance
    in ticks of milliseconds only, and short measurements would read zero.
    """
    latest = time.perf_counter() + _PATIENCE * limits.seconds
    while True:
        try:
            return (*process.communicate(timeout=0.2), "")
        except subprocess.TimeoutExpired:
            if _cpu_seconds(process.pid) > limits.seconds:
                reason = f"no answer in {limits.seconds:g} CPU s"
            elif time.perf_counter() > latest:
                reason = f"no answer in {_PATIENCE * limits.seconds:g} s of wall time"
            else:
                continue
            process.kill()
            return (*process.communicate(), reason)


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has just ended
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def child(work: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Run `work` on the task given on the command line, under the limits, and print its answer."""
    task = json.loads(sys.argv[2])
    allowed = int(task["limits"]["gigabytes"] * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed))
    try:
        answer = work(task)
    except Exception as error:  # whatever a library raises is the reason to show
        answer = {"none": _reason(error, task["limits"]["gigabytes"])}
    print("\n" + _MARK + json.dumps(answer), flush=True)
    os._exit(0)  # some libraries complain at length while the interpreter shuts down


def _reason(error: Exception, gigabytes: float) -> str:
    if isinstance(error, MemoryError) or "bad_alloc" in str(error):
        return f"out of memory (limit {gigabytes:g} GB)"
    return " ".join(f"{type(error).__name__}: {error}".split())[:160]


def measure(call: Callable[[], Any], fresh: Callable[[], Any] | None = None) -> tuple[dict[str, Any], Any]:
    """Best CPU and wall seconds of `call` over repeats, and its last value.

    With `fresh`, each repeat gets a new argument from it, made outside the clock.
    """
    cpu: list[float] = []
    wall: list[float] = []
    started = time.perf_counter()
    while not cpu or (len(cpu) < _REPEATS and _goes_on(time.perf_counter() - started, cpu)):
        arguments = () if fresh is None else (fresh(),)
        c, w = time.process_time(), time.perf_counter()
        value = call(*arguments)
        cpu.append(time.process_time() - c)
        wall.append(time.perf_counter() - w)
    return {"cpu": min(cpu), "wall": min(wall), "repeats": len(cpu)}, value


def _goes_on(spent: float, cpu: list[float]) -> bool:
    # The first call may load compiled code, so a second one is made unless it would take long.
    return spent < _BUDGET or (len(cpu) == 1 and cpu[0] < _TOO_SLOW_TO_REPEAT)


def memory_mb(what: str = "VmRSS") -> float:
    """Resident memory of this process now ("VmRSS") or at its peak ("VmHWM").

    Not ru_maxrss: a child inherits that from the process that started it.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(what + ":"):
            return int(line.split()[1]) / 1024
    raise OSError(f"/proc/self/status: expected a line {what}, got none; this needs Linux")


def machine() -> dict[str, Any]:
    """Versions and size of the machine, for the record."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return {
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": versions,
    }


def write_lines(path: Path, records: Iterable[dict[str, Any]]) -> None:
    """One JSON object per line, replacing the file."""
    from credo.core.files import replacing  # late: the peers that are measured run without credo

    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, text=True) as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


def unpack(source: Path, folder: Path) -> Path:
    """A plain copy of a gzipped file, because most readers know no gzip."""
    target = folder / source.name.removesuffix(".gz")
    target.write_bytes(gzip.decompress(source.read_bytes()))
    return target


def seconds(answer: dict[str, Any] | None, key: str = "cpu") -> str:
    """A time with three digits, "none" for a failure, "" for what was not tried."""
    if answer is None:
        return ""
    return "none" if "none" in answer else number(answer[key])


def number(value: float) -> str:
    """Three significant digits without an exponent."""
    if value >= 100:
        return f"{value:.0f}"
    digits = max(0, 2 - int(f"{value:e}".split("e")[1])) if value else 0
    return f"{value:.{digits}f}"


def ratio(answer: dict[str, Any] | None, base: dict[str, Any] | None, key: str = "cpu") -> str:
    """How many times longer than `base`: "5.3x", or "" where one of them is missing."""
    if not answer or not base or key not in answer or key not in base:
        return ""
    times = answer[key] / base[key]
    return f"{times:.0f}x" if times >= 10 else f"{times:.1f}x" if times >= 0.1 else f"{times:.2f}x"


def side_by_side(
    script: str,
    description: str,
    cases: Sequence[str],
    libraries: Sequence[str],
    shown: Callable[[dict[str, Any]], str],
    seconds: float,
) -> None:
    """Every library on every case, each in a process of its own; a line and a record for each."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="only the first case")
    parser.add_argument("--seconds", type=float, default=seconds, help="CPU seconds per process")
    options = parser.parse_args()
    about = machine()
    print(f"{about['cpus']} CPUs, load {about['load']:.1f}, {about['versions']}", file=sys.stderr)
    records = []
    for case in cases[: 1 if options.quick else None]:
        for library in libraries:
            task = {"case": case, "library": library}
            answer = in_subprocess(script, task, Limits(options.seconds))
            records.append({**task, **answer, "machine": about})
            print(f"{case:8} {library:18} {answer.get('none') or shown(answer)}", flush=True)
            write_lines(OUT / f"{Path(script).stem.strip('_')}.jsonl", records)
