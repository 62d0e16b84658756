#!/usr/bin/env python3
"""Training steps of the same network on ranks of torch.distributed, on CPUs.

    python3 benchmarks/torch_ddp.py --base 8 --crop 256
    python3 benchmarks/torch_ddp.py --base 8 --crop 256 --forms fold+keep --ranks 2 --seconds 10

For every form of pytorch.py two JSON lines: data-parallel training (gloo, over the
loopback interface) on --ranks processes of one thread, which share the batch evenly,
and one process with as many threads on the whole batch. Keys are those of `ensemble
bench --parallel --json`; times are of the slowest rank, memory is listed by rank. The
losses of the first LOSSES steps show that both train equally: the second line has
"max_rel_loss_error", the largest relative difference between them.

A step is zero_grad, forward, mean absolute error, backward with the mean of the
gradients over the ranks, Adam.
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time

import pytorch as peer

LOSSES = 3  # steps before the measured ones whose losses are compared


def steps_of(step, steps, seconds, agree):
    """Warms a step up and times it; agree gives the number of steps of rank 0 to all ranks."""
    for _ in range(peer.WARMUP):
        start = time.perf_counter()
        step()
    took = time.perf_counter() - start
    least = peer.LEAST_SLOW if took > peer.SLOW else peer.LEAST
    times = []
    for _ in range(agree(steps or max(least, int(seconds / took)))):
        start = time.perf_counter()
        step()
        times.append(1e3 * (time.perf_counter() - start))
    return times


def run_rank(r):
    """One process: trains on its share of the batch and prints its times."""
    import torch
    import torch.distributed as dist
    case = peer.Case(r["case"], r["form"])  # of the whole batch, so that ranks draw the same
    rank, ranks = r["rank"], r["ranks"]
    share = r["case"]["batch"] // ranks
    case.x, case.y = (v[rank * share:(rank + 1) * share].clone() for v in (case.x, case.y))
    if ranks > 1:
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{r['port']}", rank=rank, world_size=ranks)
        case.call = torch.nn.parallel.DistributedDataParallel(case.call)
    optimizer = torch.optim.Adam(case.net.parameters(), lr=peer.RATE)
    losses = []

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = case.loss()
        loss.backward()
        optimizer.step()
        if len(losses) < LOSSES:
            mean = loss.detach().clone()
            if ranks > 1:
                dist.all_reduce(mean)
            losses.append(float(mean) / ranks)

    def agree(n):
        if ranks == 1:
            return n
        t = torch.tensor([n])
        dist.broadcast(t, 0)
        return int(t)

    for _ in range(LOSSES):
        step()
    times = steps_of(step, r["steps"], r["seconds"], agree)
    out = {"train_ms_median": statistics.median(times), "train_ms_min": min(times), "train_ms_max": max(times),
           "peak_mib": peer.peak_mib(), "steps": len(times), "warmup": LOSSES + peer.WARMUP, "losses": losses}
    if ranks > 1:
        dist.destroy_process_group()
    print(json.dumps(out))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def job(case, form, ranks, steps, seconds):
    """Starts all ranks and returns their measurements."""
    env = dict(os.environ, OMP_NUM_THREADS=str(case["threads"]), GLOO_SOCKET_IFNAME="lo")
    env.setdefault("OMP_WAIT_POLICY", "passive")
    if form.endswith("+keep"):
        env.update(peer.KEEP)
    request = {"case": case, "form": form, "ranks": ranks, "steps": steps, "seconds": seconds, "port": free_port()}
    started = [subprocess.Popen([sys.executable, os.path.abspath(__file__), "--one", json.dumps(dict(request, rank=rank))],
                                env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in range(ranks)]
    answers = [p.communicate() for p in started]
    for p, (_, errors) in zip(started, answers):
        if p.returncode:
            lines = errors.strip().splitlines()
            return {"error": lines[-1][:300] if lines else f"exit {p.returncode}"}
    by_rank = [json.loads(out.strip().splitlines()[-1]) for out, _ in answers]
    slowest = max(by_rank, key=lambda r: r["train_ms_median"])
    out = {key: slowest[key] for key in ("train_ms_median", "train_ms_min", "train_ms_max", "steps", "warmup", "losses")}
    out["samples_per_s"] = 1e3 * case["batch"] / slowest["train_ms_median"]
    out["peak_mib"] = [r["peak_mib"] for r in by_rank]
    return out


def main():
    ap = argparse.ArgumentParser(description="Training steps of the 3-D U-Net on ranks of torch.distributed.")
    ap.add_argument("--forms", default="d3,d3_cl,fold,fold+keep", help="a list of the forms of pytorch.py")
    ap.add_argument("--base", type=int, default=8)
    ap.add_argument("--crop", default="256", help="a side, or 352x704")
    ap.add_argument("--depth", type=int, default=2)
    ap.add_argument("--ranks", type=int, default=2, help="processes of one thread")
    ap.add_argument("--batch", type=int, default=0, help="samples of a step; 0: one for each rank")
    ap.add_argument("--steps", type=int, default=0, help="0: at least 5, or 3 of more than 4 s, and as many as --seconds allows")
    ap.add_argument("--seconds", type=float, default=3.0)
    ap.add_argument("--one", help=argparse.SUPPRESS)
    a = ap.parse_args()
    try:
        import torch
    except ImportError as e:
        print(f"torch_ddp.py: PyTorch is not installed for {sys.executable} ({e}); install it with: pip install torch numpy", file=sys.stderr)
        sys.exit(69)
    if a.one:
        run_rank(json.loads(a.one))
        return
    batch = a.batch or a.ranks
    if a.ranks < 2 or batch % a.ranks:
        ap.error(f"a batch of {batch} samples does not part over {a.ranks} ranks")
    failed = False
    for form in a.forms.split(","):
        case = {"model": "unet3d", "base": a.base, "crop": a.crop, "batch": batch, "depth": a.depth}
        losses = None
        for ranks, threads in ((a.ranks, 1), (1, a.ranks)):
            c = dict(case, threads=threads)
            out = dict(c, form=form, ranks=ranks, transport="gloo" if ranks > 1 else "none", torch=torch.__version__, **job(c, form, ranks, a.steps, a.seconds))
            failed = failed or "error" in out
            if losses and "losses" in out:
                out["max_rel_loss_error"] = max(abs(x - y) / abs(y) for x, y in zip(losses, out["losses"]))
            losses = out.get("losses")
            print(json.dumps(out), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
