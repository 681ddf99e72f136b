"""Reading model files, side by side with other libraries, in one run.

    python benchmarks/readers.py [--quick] [--seconds 60] [--gigabytes 12]

UAI files of Ising grids are generated on the fly; BIF networks come from the folder of shared
data, or from `credo.datasets` where there is none. Every library reads the same plain file with
its own reader, in its own process, best of repeats. The yardstick is `numpy.fromstring` on
numbers: for UAI the file without its first word; for BIF, which it cannot read, the table
entries alone, written one after another.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import common

GRIDS = (10, 50, 100)
NETWORKS = ("asia", "alarm", "pigs", "andes", "link", "munin", "diabetes", "barley", "mildew")
QUICK = ("grid10", "grid50", "asia", "alarm", "pigs")
LIBRARIES = ("credo", "numpy", "pyagrum", "pgmpy", "pytoulbar2")


# ---------------------------------------------------------------------------------------------
# In the child: one library, one file
# ---------------------------------------------------------------------------------------------


def work(task: dict[str, Any]) -> dict[str, Any]:
    read, count = READERS[task["library"]](task["file"])
    best, value = common.measure(read)
    return {**best, "variables": count(value)}


def with_credo(file: str) -> tuple[Any, Any]:
    import credo

    return (lambda: credo.load(file)), (lambda model: len(model.variables))


def with_numpy(file: str) -> tuple[Any, Any]:
    import numpy as np

    numbers = file if file.endswith(".uai") else file + ".numbers"

    def read() -> Any:
        text = Path(numbers).read_text()
        return np.fromstring(text[text.index("\n") :], sep=" ")

    return read, (lambda values: int(values[0]))


def with_pyagrum(file: str) -> tuple[Any, Any]:
    import pyagrum as gum

    return (lambda: (gum.loadMRF if file.endswith(".uai") else gum.loadBN)(file)), (
        lambda model: model.size()
    )


def with_pgmpy(file: str) -> tuple[Any, Any]:
    from pgmpy.readwrite import BIFReader, UAIReader

    reader = UAIReader if file.endswith(".uai") else BIFReader
    return (lambda: reader(file).get_model()), (lambda model: len(model.nodes()))


def with_pytoulbar2(file: str) -> tuple[Any, Any]:
    from pytoulbar2 import CFN

    def read() -> Any:
        made = CFN()
        made.Read(file)
        return made

    return read, (lambda made: made.GetNbVars())


READERS = {
    "credo": with_credo,
    "numpy": with_numpy,
    "pyagrum": with_pyagrum,
    "pgmpy": with_pgmpy,
    "pytoulbar2": with_pytoulbar2,
}


# ---------------------------------------------------------------------------------------------
# In the parent: files, table
# ---------------------------------------------------------------------------------------------


def cases(folder: Path, chosen: list[str]) -> dict[str, Path]:
    """Name -> file; every file is made now, with its numbers alone beside a BIF file."""
    import credo
    from credo import datasets

    files: dict[str, Path] = {}
    couplings = datasets.uniform_couplings(width=0.5, field_width=0.5)
    for n in GRIDS:
        if not chosen or f"grid{n}" in chosen:
            files[f"grid{n}"] = folder / f"grid{n}.uai"
            credo.save(datasets.ising_grid(n, **couplings, seed=0), files[f"grid{n}"])
    packed = {name: common.BIF_FOLDER / f"{name}.bif.gz" for name in NETWORKS}
    networks = {name: common.unpack(path, folder) for name, path in packed.items() if path.exists()}
    if not networks:
        for make in (datasets.asia, datasets.sprinkler, datasets.student):
            networks[make.__name__] = folder / f"{make.__name__}.bif"
            credo.save(make(), networks[make.__name__])
    for name, path in networks.items():
        if chosen and name not in chosen:
            continue
        files[name] = path
        model = credo.load(path)
        entries = " ".join(map(repr, model.flat_tables.tolist()))
        Path(f"{path}.numbers").write_text(f"NUMBERS\n{len(model.variables)} {entries}\n")
    return files


def run_case(name: str, file: Path, limits: common.Limits) -> dict[str, Any]:
    """All readers on one file; progress goes to stderr."""
    record: dict[str, Any] = {"file": file.name, "kilobytes": file.stat().st_size / 1000, "read": {}}
    for library in LIBRARIES:
        if library == "pytoulbar2" and file.suffix != ".uai":
            continue
        task = {"library": library, "file": str(file)}
        answer = common.in_subprocess(__file__, task, limits)
        record["read"][library] = answer
        shown = answer.get("none") or f"{common.number(answer['cpu'])} CPU s"
        print(f"  {name}: {library}: {shown}", file=sys.stderr, flush=True)
    return record


def report(records: list[dict[str, Any]]) -> None:
    from credo.core.display import align

    header = ["file", "kB", "credo", "wall"]
    for library in LIBRARIES[1:]:
        header += [library, "ratio"]
    rows = []
    for record in records:
        base = record["read"]["credo"]
        row = [record["file"], common.number(record["kilobytes"])]
        row += [common.seconds(base), common.seconds(base, "wall")]
        for library in LIBRARIES[1:]:
            answer = record["read"].get(library)
            row += [common.seconds(answer), common.ratio(answer, base)]
        rows.append(row)
    print("\nReading a file: CPU seconds, best of repeats; ratios are to credo")
    print(align(header, rows, [False, *[True] * (len(header) - 1)]))
    for record in records:
        counts = {name: a["variables"] for name, a in record["read"].items() if "variables" in a}
        if len(set(counts.values())) > 1:
            print(f"{record['file']}: the readers disagree on the number of variables: {counts}")
        for library, answer in record["read"].items():
            if "none" in answer:
                print(f"none: {record['file']}, {library}: {answer['none']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="files to read; all by default")
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU seconds per process")
    parser.add_argument("--gigabytes", type=float, default=12.0, help="limit per process")
    options = parser.parse_args()
    limits = common.Limits(options.seconds, options.gigabytes)
    chosen = [*options.names, *(QUICK if options.quick else ())]
    about = common.machine()
    print(f"{about['cpus']} CPUs, load {about['load']:.1f}, {about['versions']}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        files = cases(Path(folder), chosen)
        records = []
        for k, (name, file) in enumerate(files.items()):
            print(f"[{k + 1}/{len(files)}] {name}", file=sys.stderr, flush=True)
            records.append({**run_case(name, file, limits), "machine": about})
            common.write_lines(common.OUT / "readers.jsonl", records)
    report(records)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        common.child(work)
    main()
