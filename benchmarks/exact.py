"""All marginals by exact inference, side by side with other libraries, in one run.

    python benchmarks/exact.py [--quick] [--seconds 60] [--gigabytes 12] [--threads 1] [names ...]

Two questions per model and library:

- warm: the model is in memory; a new inference on it, its planning included, best of repeats.
  Every library gets the same double-precision tables through its own API (no file is read, so
  no reader's rounding counts). For credo also "again": one more question about the same model,
  whose plan is kept.
- fresh: a new process imports the library, reads the file with the library's own reader and
  answers once. credo runs this twice and the second counts, so its kernels are on disk.

CPU seconds are the primary number: they suffer least from other work on the machine.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import common

NETWORKS = (
    "asia", "alarm", "hailfinder", "pigs", "andes", "water", "mildew",
    "barley", "diabetes", "link", "munin", "munin1",
)  # fmt: skip
GRIDS = (10, 12, 14, 16, 20)
TREE = 1_000_000
QUICK = ("asia", "alarm", "pigs", "grid10", "grid12")
PEERS = ("pyagrum-ss", "pyagrum-lazy", "pgmpy")
ONE_QUERY_PER_NODE = (
    "asia",
    "sprinkler",
    "student",
    "alarm",
    "hailfinder",
    "pigs",
    "andes",
    "water",
    "grid10",
)

# CPU seconds of libDAI's junction tree (C++) on another occasion, on a machine of the same kind.
QUOTED = {
    "asia": 0.0002, "alarm": 0.0006, "hailfinder": 0.0018, "pigs": 0.096, "water": 0.17,
    "diabetes": 0.42, "andes": 0.040, "link": 2.6, "grid10": 0.006,
}  # fmt: skip
REFUSED = ("munin1",)  # libDAI: more than 8 GB


# ---------------------------------------------------------------------------------------------
# In the child: one library, one file
# ---------------------------------------------------------------------------------------------


def work(task: dict[str, Any]) -> dict[str, Any]:
    if task["stage"] == "fresh":
        start, cpu = common.memory_mb(), time.process_time()
        wall = time.perf_counter()
        FRESH[task["library"]](task["file"], task["limits"]["threads"])
        return {
            "cpu": time.process_time() - cpu,
            "wall": time.perf_counter() - wall,
            "mb": common.memory_mb("VmHWM") - start,
        }
    return WARM[task["library"]](task)


def fresh_credo(file: str, threads: int) -> None:
    import credo

    assert credo.infer(credo.load(file)).marginals is not None


def fresh_pyagrum(file: str, threads: int) -> None:
    import pyagrum as gum

    gum.setNumberOfThreads(threads)
    if file.endswith(".bif"):
        model = gum.loadBN(file)
        posteriors(gum.ShaferShenoyInference, model)
    else:
        model = gum.loadMRF(file)
        posteriors(gum.ShaferShenoyMRFInference, model)


def fresh_pgmpy(file: str, threads: int) -> None:
    from pgmpy.readwrite import BIFReader, UAIReader

    model = (BIFReader(file) if file.endswith(".bif") else UAIReader(file)).get_model()
    queries(model, list(model.nodes()))


FRESH = {"credo": fresh_credo, "pyagrum-ss": fresh_pyagrum, "pgmpy": fresh_pgmpy}


def warm_credo(task: dict[str, Any]) -> dict[str, Any]:
    import credo

    graph = credo.load(task["file"]).to_factor_graph()

    def copy() -> Any:  # a graph that remembers no plan
        return credo.FactorGraph.from_flat(graph.variables, graph.scope_start, graph.scope, graph.log_tables)

    def answer(model: Any) -> Any:
        return credo.infer(model, "junction-tree")

    answer(copy())  # loads the kernels
    new, _ = common.measure(answer, copy)
    answer(graph)  # makes the plan that "again" keeps
    again, result = common.measure(lambda: answer(graph))
    keep(task, [result.marginals[name] for name in graph.variables.names])
    return {**new, "again": again}


def warm_pyagrum(task: dict[str, Any]) -> dict[str, Any]:
    import pyagrum as gum

    import credo

    gum.setNumberOfThreads(task["limits"]["threads"])
    model = credo.load(task["file"])
    if isinstance(model, credo.BayesNet):
        peer = pyagrum_network(gum, model)
        method = gum.LazyPropagation if task["library"] == "pyagrum-lazy" else gum.ShaferShenoyInference
    else:
        peer, method = pyagrum_field(gum, model.to_factor_graph()), gum.ShaferShenoyMRFInference
    best, found = common.measure(lambda: posteriors(method, peer))
    keep(task, [tensor.toarray() for tensor in found])
    return best


def pyagrum_network(gum: Any, model: Any) -> Any:
    peer, sizes = gum.BayesNet(), model.variables.sizes.tolist()
    for i, size in enumerate(sizes):
        peer.add(gum.LabelizedVariable(f"x{i}", "", [f"s{k}" for k in range(size)]))
    position = {name: i for i, name in enumerate(model.variables.names)}
    for name, i in position.items():
        for parent in reversed(model.parents[name]):  # the first axis varies fastest there
            peer.addArc(position[parent], i)
        peer.cpt(i).fillWith(model.tables[name].ravel().tolist())
    return peer


def pyagrum_field(gum: Any, graph: Any) -> Any:
    import numpy as np

    peer = gum.MarkovRandomField()
    for i, size in enumerate(graph.variables.sizes.tolist()):
        peer.add(gum.LabelizedVariable(f"x{i}", "", [f"s{k}" for k in range(size)]))
    for a in range(graph.n_factors):
        scope = graph.scope_of(a).tolist()
        peer.addFactor(scope[::-1]).fillWith(np.exp(graph.log_table(a)).ravel().tolist())
    return peer


def posteriors(method: Any, model: Any) -> list[Any]:
    engine = method(model)
    engine.makeInference()
    return [engine.posterior(i) for i in range(model.size())]


def warm_pgmpy(task: dict[str, Any]) -> dict[str, Any]:
    import numpy as np
    from pgmpy.factors.discrete import DiscreteFactor, TabularCPD
    from pgmpy.models import DiscreteBayesianNetwork, DiscreteMarkovNetwork

    import credo

    model = credo.load(task["file"])
    sizes = dict(zip(model.variables.names, model.variables.sizes.tolist(), strict=True))
    names = list(sizes)
    if isinstance(model, credo.BayesNet):
        peer = DiscreteBayesianNetwork(model.edges)
        peer.add_nodes_from(names)
        for name in names:
            parents, table = model.parents[name], model.tables[name]
            columns = table.reshape(-1, sizes[name]).T
            peer.add_cpds(TabularCPD(name, sizes[name], columns, parents, [sizes[p] for p in parents]))
    else:
        graph = model.to_factor_graph()
        scopes = [[names[i] for i in graph.scope_of(a)] for a in range(graph.n_factors)]
        peer = DiscreteMarkovNetwork([s for s in scopes if len(s) == 2])
        for a, scope in enumerate(scopes):
            peer.add_factors(DiscreteFactor(scope, [sizes[s] for s in scope], np.exp(graph.log_table(a))))
    best, found = common.measure(lambda: queries(peer, names))
    keep(task, [factor.values / factor.values.sum() for factor in found])  # of Markov networks: unnormalised
    return best


def queries(model: Any, names: list[str]) -> list[Any]:
    from pgmpy.inference import VariableElimination

    engine = VariableElimination(model)
    return [engine.query([name], show_progress=False) for name in names]


WARM = {
    "credo": warm_credo,
    "pyagrum-ss": warm_pyagrum,
    "pyagrum-lazy": warm_pyagrum,
    "pgmpy": warm_pgmpy,
}


def keep(task: dict[str, Any], marginals: list[Any]) -> None:
    """All marginals, one after another, for the comparison in the parent."""
    import numpy as np

    np.save(task["file"] + f".{task['library']}.npy", np.concatenate(marginals))


# ---------------------------------------------------------------------------------------------
# In the parent: cases, tables
# ---------------------------------------------------------------------------------------------


def cases(folder: Path, chosen: list[str]) -> dict[str, Path]:
    """Name -> file, in the order of the table; every file is made now."""
    import credo
    from credo import datasets

    files: dict[str, Path] = {}

    def write(name: str, ending: str, make: Any) -> None:
        if not chosen or name in chosen:
            files[name] = folder / f"{name}.{ending}"
            credo.save(make(), files[name])

    packed = {name: common.BIF_FOLDER / f"{name}.bif.gz" for name in NETWORKS}
    if any(path.exists() for path in packed.values()):
        for name, path in packed.items():
            if path.exists() and (not chosen or name in chosen):
                files[name] = common.unpack(path, folder)
    else:
        for make in (datasets.asia, datasets.sprinkler, datasets.student):
            write(make.__name__, "bif", make)
    couplings = datasets.uniform_couplings(width=0.5, field_width=0.5)
    for n in GRIDS:
        write(f"grid{n}", "uai", lambda n=n: datasets.ising_grid(n, **couplings, seed=0))
    write(f"tree{TREE}", "uai", lambda: datasets.random_tree(TREE, seed=0))
    return files


def run_case(name: str, file: Path, limits: common.Limits) -> dict[str, Any]:
    """Everything about one model; progress goes to stderr."""
    import numpy as np

    record: dict[str, Any] = {"model": name, "fresh": {}, "warm": {}, "difference": {}}

    def ask(stage: str, library: str) -> None:
        task = {"stage": stage, "library": library, "file": str(file)}
        answer = common.in_subprocess(__file__, task, limits)
        record[stage][library] = answer
        shown = answer.get("none") or f"{common.number(answer['cpu'])} CPU s"
        print(f"  {name}: {stage} {library}: {shown}", file=sys.stderr, flush=True)

    ask("warm", "credo")
    ask("fresh", "credo")
    ask("fresh", "credo")
    for library in PEERS:
        if library == "pgmpy" and name not in ONE_QUERY_PER_NODE:
            continue
        if library == "pyagrum-lazy" and file.suffix != ".bif":
            continue  # for Bayesian networks only
        ask("warm", library)
        if library in FRESH:
            ask("fresh", library)
    ours = Path(f"{file}.credo.npy")
    for library in PEERS:
        theirs = Path(f"{file}.{library}.npy")
        if ours.exists() and theirs.exists():
            record["difference"][library] = float(np.abs(np.load(ours) - np.load(theirs)).max())
    return record


def first_ever(file: Path, limits: common.Limits) -> dict[str, Any]:
    """The fresh process with an empty compile cache; compiling may take longer than a case."""
    limits = dataclasses.replace(limits, seconds=max(limits.seconds, 300.0))
    with tempfile.TemporaryDirectory() as empty:
        task = {"stage": "fresh", "library": "credo", "file": str(file)}
        return common.in_subprocess(__file__, task, limits, NUMBA_CACHE_DIR=empty)


def quoted(name: str) -> dict[str, Any] | None:
    if name in REFUSED:
        return {"none": "libDAI refused: more than 8 GB"}
    return {"cpu": QUOTED[name]} if name in QUOTED else None


def warm_table(records: list[dict[str, Any]]) -> str:
    from credo.core.display import align

    header = ["model", "credo", "wall", "again"]
    for peer in ("pyAgrum SS", "pyAgrum Lazy", "pgmpy VE"):
        header += [peer, "ratio"]
    header.append("libDAI (quoted)")  # no ratio: not measured in this run
    rows = []
    for record in records:
        warm, base = record["warm"], record["warm"]["credo"]
        row = [record["model"], common.seconds(base), common.seconds(base, "wall")]
        row.append(common.seconds(base.get("again")))
        for answer in map(warm.get, PEERS):
            row += [common.seconds(answer), common.ratio(answer, base)]
        rows.append([*row, common.seconds(quoted(record["model"]))])
    return align(header, rows, [False, *[True] * (len(header) - 1)])


def fresh_table(records: list[dict[str, Any]]) -> str:
    from credo.core.display import align

    header = ["model"]
    for library in ("credo", "pyAgrum SS", "pgmpy VE"):
        header += [library, "wall", "MB"]
    rows = []
    for record in records:
        row = [record["model"]]
        for library in FRESH:
            answer = record["fresh"].get(library)
            row += [common.seconds(answer), common.seconds(answer, "wall"), common.seconds(answer, "mb")]
        rows.append(row)
    return align(header, rows, [False, *[True] * (len(header) - 1)])


def failures(records: list[dict[str, Any]]) -> list[str]:
    return [
        f"{record['model']}, {library}, {stage}: {answer['none']}"
        for record in records
        for stage in ("warm", "fresh")
        for library, answer in record[stage].items()
        if "none" in answer
    ]


def report(records: list[dict[str, Any]]) -> None:
    print("\nWarm: CPU seconds for all marginals, planning included; ratios are to credo")
    print(warm_table(records))
    print("\nFresh process: import, read the file, answer once; CPU seconds, wall seconds, peak memory")
    print(fresh_table(records))
    for library in PEERS:
        worst = [(r["difference"][library], r["model"]) for r in records if library in r["difference"]]
        if worst:
            value, name = max(worst)
            print(f"Largest difference of a marginal, credo and {library}: {value:.1e} ({name})")
    for line in failures(records):
        print(f"none: {line}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="models to run; all by default")
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU seconds per process")
    parser.add_argument("--gigabytes", type=float, default=12.0, help="limit per process")
    parser.add_argument("--threads", type=int, default=1, help="threads per library")
    options = parser.parse_args()
    limits = common.Limits(options.seconds, options.gigabytes, options.threads)
    chosen = [*options.names, *(QUICK if options.quick else ())]
    about = common.machine()
    print(f"{about['cpus']} CPUs, load {about['load']:.1f}, {about['versions']}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        files = cases(Path(folder), chosen)
        records = []
        for k, (name, file) in enumerate(files.items()):
            print(f"[{k + 1}/{len(files)}] {name}", file=sys.stderr, flush=True)
            records.append({**run_case(name, file, limits), "machine": about})
            common.write_lines(common.OUT / "exact.jsonl", records)
        report(records)
        if files:
            answer = first_ever(next(iter(files.values())), limits)
            shown = (
                answer.get("none") or f"{common.seconds(answer)} CPU s, {common.seconds(answer, 'wall')} s"
            )
            print(f"\nThe very first call, nothing compiled yet ({next(iter(files))}): {shown}")
            records[0]["first_ever"] = answer
            common.write_lines(common.OUT / "exact.jsonl", records)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        common.child(work)
    main()
