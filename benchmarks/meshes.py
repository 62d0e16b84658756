#!/usr/bin/env python3
"""Compare predicted and measured training steps of meshes on 1, 2, 4 and 8 ranks of this machine.

    benchmarks/meshes.py bin/ensemble --base 8 --crop 256x512 --batch 4

Each rank has one thread, and is not bound to a processor: bound, a rank on a processor that others slow down keeps all
waiting. The machine must be idle. Prints one line a mesh, the largest error, and Spearman's rank correlation. Meshes are
measured --rounds times in turn; ratio is the median over the rounds, each with its own measured rates.
--ranks 1,2 measures meshes of one and two ranks only. Meshes with more ranks along data than the batch has samples
are left out.
"""
import argparse
import json
import statistics
import subprocess
import sys

MESHES = {1: [""], 2: ["data:2", "lat:2", "lon:2"], 4: ["data:4", "data:2 lon:2", "lat:4", "lat:2 lon:2"],
          8: ["data:8", "data:4 lat:2", "data:2 lat:2 lon:2", "lat:4 lon:2"]}


def data_ranks(mesh):
    return next((int(way.split(":")[1]) for way in mesh.split() if way.startswith("data:")), 1)


def step(program, ranks, mesh, batch, case):
    command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), program, "bench", "--parallel", "--predict", "--threads", "1", "--json", "--batch", str(batch), *case]
    if mesh:
        command += ["--mesh", mesh]
    answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    print(f"{ranks} ranks, {mesh or 'none'}: {answer['train_ms_median']:.1f} ms, ratio {answer['predicted']['ratio']:.2f}", file=sys.stderr, flush=True)
    return answer["train_ms_median"], answer["predicted"]


def ranked(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0] * len(values)
    for i, k in enumerate(order):
        ranks[k] = i
    return ranks


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ranks", default="1,2,4,8")
    parser.add_argument("--batch", type=int, default=4)
    options, case = parser.parse_known_args()
    results = {}
    for _ in range(options.rounds):
        for ranks in map(int, options.ranks.split(",")):
            for mesh in MESHES[ranks]:
                if data_ranks(mesh) <= options.batch:
                    results.setdefault((ranks, mesh), []).append(step(options.program, ranks, mesh, options.batch, case))
    measured, predicted, ratios = [], [], []
    print("ranks  mesh          measured ms  predicted ms  ratio  GFLOP/s  GB/s  link us  link GB/s  waits ms  convolutions")
    for (ranks, mesh), runs in results.items():
        ms = statistics.median(m for m, _ in runs)
        p = {key: statistics.median(p[key] for _, p in runs) for key in runs[0][1]}
        measured.append(ms)
        predicted.append(p["step_ms"])
        ratios.append(p["ratio"])
        print(f"{ranks:5}  {mesh or 'none':12}  {ms:11.1f}  {p['step_ms']:12.1f}  {p['ratio']:5.2f}  {p['gflops']:7.1f}  {p['gb_s']:4.1f}"
              f"  {p['latency_us']:7.1f}  {p['link_gb_s']:9.1f}  {p['wait_ms']:8.1f}  {p['convolutions']:7.2f}")
    n = len(measured)
    apart = sum((a - b) ** 2 for a, b in zip(ranked(measured), ranked(predicted)))
    print(f"largest error {max(abs(r - 1) for r in ratios):.1%}, rank correlation {1 - 6 * apart / (n * (n * n - 1)):.3f}")


if __name__ == "__main__":
    main()
