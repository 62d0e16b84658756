#!/usr/bin/env python3
"""`ensemble bench`, pytorch.py and runtimes.py alternately on the same cases: their times, memory and
errors as Markdown, with ratios.

    benchmarks/compare.py --python V/bin/python --base 8,32 --crop 64,128 --threads 1,0

Runs alternate (ours, theirs, ours, ...), so that other load affects both; figures are medians
over the rounds. The first round tries every form of PyTorch, OpenVINO and ONNX Runtime, the
later ones those that can still be the fastest, and the published ones. A run during which other
programs, or other tenants of the host, used more than --others of the processors is repeated. So
is one on several threads before or after which as many programs at once do not have --cores of the rate of
one, or a message between two of them takes longer than --message: hosts let two processors of a virtual machine share a core
at times, or run on cores without a common cache, and nothing in the machine shows it. A form whose gradient or
prediction is further than 5 % from float64 is not counted as best, nor one whose products have
fewer bits than ours.

Without PyTorch it prints a message and exits with 0.
"""
import argparse
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import time

PUBLISHED = ("d3", "d3_cl", "f32", "cl")  # forms in which the networks were published
WORST = 0.05  # distance from float64, of gradients or predictions, up to which a form counts: that of bfloat16 is about 1 %
COARSE = {"float32": ("bf16", "int8"), "bf16_products": ("int8",), "bf16": ("int8",)}  # words of forms with fewer bits, by our precision
TRIES = 4  # runs of a program while others use the processors
PATIENCE = 300  # seconds to wait for cores
SETTLED = 3  # probes of them in a row: it takes a host seconds of load on all processors to give each a core
# PROBE prints the rate of matrix products in the first cache on one thread, for a third of a second from a given time on.
PROBE = """
import sys, time
import numpy
a = numpy.ones((64, 64), numpy.float32)
while time.time() < float(sys.argv[1]):
    pass
n, start = 0, time.monotonic()
while time.monotonic() < start + 0.3:
    for _ in range(100):
        a @ a
    n += 100
print(n / (time.monotonic() - start))
"""
# MESSAGE prints the median time in ns that two processes take to pass a number in memory to the other and back, with what Python adds.
MESSAGE = """
import mmap, os, statistics, time
box, times = memoryview(mmap.mmap(-1, 4096)).cast("q"), []
if os.fork() == 0:
    for i in range(1, 5001):
        while box[0] != i:
            pass
        box[64] = i
    os._exit(0)
for i in range(1, 5001):
    start = time.perf_counter_ns()
    box[0] = i
    while box[64] != i:
        pass
    times.append(time.perf_counter_ns() - start)
print(statistics.median(times))
"""
BEHIND = 1.3  # slowdown relative to the fastest up to which a form is measured again
# OMP_WAIT_POLICY is that of the peers: threads of OpenMP that spin take the processors from the threads of this program.
OURS = {k: v for k, v in os.environ.items() if k != "OMP_WAIT_POLICY"}

# title, and the keys of time, memory, rate and share of the peak
PHASES = (("Training step", "train_ms_median", "peak_mib", "gflops", "peak_fraction"),
          ("Prediction", "predict_ms_median", "predict_peak_mib", "predict_gflops", "predict_peak_fraction"))


def log(*words):
    print("compare:", *words, file=sys.stderr, flush=True)


def processors():
    """Seconds in which processors were busy since the machine started, also with other virtual machines, and those of our own ended programs."""
    with open("/proc/stat") as f:
        user, nice, system, _, _, irq, softirq, steal = map(int, f.readline().split()[1:9])
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK"), own.ru_utime + own.ru_stime


def run(command, env):
    """The standard output of a program, and the share of the processors that others used in its time."""
    start, busy, own = time.monotonic(), *processors()
    p = subprocess.run(command, capture_output=True, text=True, env=env)
    if p.returncode:
        sys.exit(f"compare: {' '.join(command)}: exit {p.returncode}\n{p.stderr}{p.stdout}")
    busy_, own_ = processors()
    return p.stdout, min(1, max(0, (busy_ - busy - (own_ - own)) / (time.monotonic() - start) / os.cpu_count()))


class Cores:
    """What threads have: the rate of as many programs at once, relative to that of one (1 if each has a core of its own), and the ns of a message between two."""

    def __init__(self, a, threads):
        self.share, self.message = (share(a, threads), float(subprocess.check_output([a.python, "-c", MESSAGE], text=True))) if threads > 1 else (1, 0)
        self.good = self.share >= a.cores and not 0 < a.message < self.message

    def __str__(self):
        return f"programs at once have {self.share:.2f} of the rate of one, a message takes {self.message:.0f} ns"


def share(a, threads):
    """The rate of as many programs at once as threads, relative to that of one."""
    def rate(count):
        start = time.time() + 0.5
        env = os.environ | {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        programs = [subprocess.Popen([a.python, "-c", PROBE, str(start)], stdout=subprocess.PIPE, text=True, env=env) for _ in range(count)]
        return statistics.mean(float(p.communicate()[0]) for p in programs)
    return rate(threads) / rate(1)


def wait_for_cores(a, threads):
    """Waits until the cores have been good for some time, or PATIENCE ends; the last ones."""
    end, good = time.monotonic() + PATIENCE, 0
    while good < SETTLED and time.monotonic() < end:
        cores = Cores(a, threads)
        good = good + 1 if cores.good else 0
        if not good:
            log(f"before a run {threads} {cores}")
    return cores


def output(a, threads, *command, env=None):
    """The standard output of the quietest of the runs of a program: the first one in which others left the processors and cores alone, or the best of a few."""
    best = None
    for _ in range(TRIES):
        before = wait_for_cores(a, threads)
        text, others = run(command, env)
        after = Cores(a, threads)
        tried = (others > a.others) + (not before.good) + (not after.good), others, text, [before, after]
        best = min(best or tried, tried, key=lambda t: t[:2])
        if tried[0] == 0:
            break
        log(f"other programs used {100 * others:.0f} % of the processors; after the run {threads} {after}")
    a.loads.append(best[1])
    a.placed += best[3]
    return best[2]


def three(x):
    return f"{x:.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}"


def median(runs, key):
    return statistics.median(r.get(key) or 0 for r in runs)


def series(runs, key):
    """The median, with the smallest and largest if there are several; nothing if it was not measured."""
    all_ = [r.get(key) or 0 for r in runs]
    if not any(all_):
        return ""
    text = three(statistics.median(all_))
    return text if len(all_) == 1 else f"{text} [{three(min(all_))}–{three(max(all_))}]"


def error(run):
    """The distance of the gradient from float64, of runtimes that of the prediction."""
    for key in ("relative_gradient_error", "relative_output_error"):
        if run.get(key) is not None:
            return f"{run[key]:.1e}"
    return "not finite" if run.get("gradient_case") or "relative_output_error" in run else "not measured"


class Duel:
    """One case, measured by both sides alternately."""

    def __init__(self, case):
        self.case, self.ours, self.theirs = case, [], {}  # theirs by form, in order

    def sound(self, form):
        """Whether a form ran and its gradient or prediction is correct."""
        runs = self.theirs[form]
        if any(r.get("error") for r in runs):
            return False
        e = runs[0].get("relative_gradient_error", runs[0].get("relative_output_error"))
        return error(runs[0]) != "not finite" if e is None else e <= WORST

    def best(self, ms, forms=None):
        """The fastest sound form with a time, None if there is none."""
        ok = [f for f in self.theirs if (forms is None or f in forms) and self.sound(f) and self.theirs[f][0].get(ms) and not self.coarse(f)]
        return min(ok, key=lambda f: median(self.theirs[f], ms), default=None)

    def coarse(self, form):
        """Whether products of a form have fewer bits than ours."""
        return any(w in COARSE.get(self.precision, ()) for w in form.replace("+", "_").split("_"))

    def contenders(self):
        """The forms for the next round: published, or near the best."""
        def near(form, ms):
            best = self.best(ms)
            return self.theirs[form][0].get(ms) and best and median(self.theirs[form], ms) <= BEHIND * median(self.theirs[best], ms)
        return [f for f in self.theirs if self.sound(f) and (f in PUBLISHED or not self.coarse(f) and any(near(f, p[1]) for p in PHASES))]

    def measure(self, a):
        forms, self.precision = a.forms, a.precision
        threads = int(self.case[self.case.index("--threads") + 1]) or os.cpu_count()
        for n in range(a.rounds):
            common = [*self.case, "--steps", str(a.steps), "--seconds", f"{a.seconds:g}"]
            off = [] if n == 0 else ["--gradient", "off"]
            answer = json.loads(output(a, threads, a.ensemble, "bench", "--json", "--progress", "none", "--precision", a.precision, *common, *off, env=OURS))
            if len(answer["results"]) != 1:
                sys.exit(f"compare: {a.ensemble} gave {len(answer['results'])} results")
            ours, self.machine = answer["results"][0], answer["machine"]
            self.ours.append(ours)
            if n == 0 and ours.get("gradient_case"):
                off = ["--gradient", ",".join(str(ours["gradient_case"][k]) for k in ("base", "crop", "batch", "depth"))]
            for script in a.scripts.split(","):
                for line in output(a, threads, a.python, script, *common, *off, "--forms", forms).splitlines():
                    r = json.loads(line)
                    self.theirs.setdefault(r["form"], []).append(r)
                    if r.get("error"):
                        log(f"the peers' form {r['form']} does not run: {r['error']}")
            forms = ",".join(self.contenders())
            if not forms:
                sys.exit("compare: no form of the peers ran")
            log(f"round {n + 1} of {a.rounds}: ours {ours['train_ms_median']:.1f} and {ours['predict_ms_median']:.1f} ms")

    def title(self):
        c = self.ours[0]
        return f"{c['model']} base {c['base']}, {c['crop']}, batch {c['batch']}, depth {c['depth']} | {c['threads']}"

    def row(self, _, ms, peak, rate, share):
        ours = median(self.ours, ms)
        cells = [self.title(), series(self.ours, ms), f"{median(self.ours, rate):.0f} ({median(self.ours, share):.2f})", "", ""]
        form = self.best(ms, PUBLISHED)
        if form:
            cells[3:] = [f"{series(self.theirs[form], ms)} ({form})", f"{median(self.theirs[form], ms) / ours:.2f}"]
        mib, form = median(self.ours, peak), self.best(ms)
        if form:
            runs = self.theirs[form]
            cells += [form, series(runs, ms), f"{median(runs, ms) / ours:.2f}", f"{mib:.0f}", f"{median(runs, peak):.0f}", f"{mib / median(runs, peak):.2f}", error(self.ours[0]), error(runs[0])]
        else:
            cells += ["none", "", "", f"{mib:.0f}", "", "", error(self.ours[0]), ""]
        return "| " + " | ".join(cells) + " |"

    def forms(self):
        for form, runs in self.theirs.items():
            if runs[0].get("error"):
                yield f"| {self.title()} | {form} | does not run: {runs[0]['error'].replace('|', '/')} |  |  |  | {len(runs)} |"
                continue
            note = "" if self.sound(form) else " (wrong)"
            yield f"| {self.title()} | {form} | {series(runs, PHASES[0][1])} | {series(runs, PHASES[1][1])} | {median(runs, 'peak_mib') or median(runs, 'predict_peak_mib'):.0f} | {error(runs[0])}{note} | {len(runs)} |"


def markdown(duels, a):
    """One table for each phase, and one of all forms."""
    m, first = duels[0].machine, [runs[0] for runs in duels[0].theirs.values()]
    peer = next((r for r in first if r.get("torch")), {})
    runtimes = "".join(f", {v}" for v in dict.fromkeys(r["runtime"] for r in first if r.get("runtime")))
    preload = f", LD_PRELOAD={peer['preload']}" if peer.get("preload") else ""
    slowest = max(c.message for c in a.placed)
    message = f"; a message between two took {slowest:.0f} ns at most" if slowest else ""
    lines = [f"{m['cpu']}, {m['cores']} cores; {m['go']}, oneDNN {m['onednn']}; PyTorch {peer.get('torch')}{runtimes}, OMP_WAIT_POLICY={peer.get('wait_policy')}{preload}. "
             f"Ours in {a.precision}. Medians of {a.rounds} alternate rounds, with the smallest and largest of them. Others used {100 * statistics.median(a.loads):.1f} % of the processors, at most {100 * max(a.loads):.1f} %. As many programs as threads had at least {min(c.share for c in a.placed):.2f} of the rate of one{message}."]
    for p in PHASES:
        lines += ["", f"## {p[0]}", "", "| network | threads | ours ms | GFLOP/s (of peak) | published ms | ratio | best peer | ms | ratio | ours MiB | best MiB | ratio | error ours | best |",
                  "|---|--:|--:|--:|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|", *(d.row(*p) for d in duels)]
    lines += ["", "Ratios above 1 in time: we are faster. Ratios below 1 in memory: we need less. Memory is the peak of the process that did only this. "
              "Errors are the distance of the gradient from float64, of OpenVINO and ONNX Runtime that of the prediction.",
              "", "## All forms of the peers, ms", "", "| network | threads | form | training step | prediction | peak MiB | error | rounds |", "|---|--:|---|--:|--:|--:|--:|--:|"]
    for d in duels:
        lines += d.forms()
    return "\n".join(lines) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ensemble", default="bin/ensemble", help="the program")
    p.add_argument("--python", default=os.environ.get("PYTHON", sys.executable), help="a Python that has PyTorch")
    p.add_argument("--scripts", default=",".join(os.path.join(os.path.dirname(os.path.abspath(__file__)), f) for f in ("pytorch.py", "runtimes.py")), help="the peers, a list")
    p.add_argument("--model", default="unet3d", help="unet3d or resnet2d_simple")
    for flag, value in (("base", "8,32"), ("crop", "64,128"), ("batch", "1"), ("threads", "1,0")):
        p.add_argument("--" + flag, default=value, help="a list, as in ensemble bench")
    p.add_argument("--depth", type=int, default=0, help="levels; 0 means 2, or 1 for resnet2d_simple")
    p.add_argument("--precision", default="float32", help="of ours, as in ensemble bench; PyTorch's is a matter of its form")
    p.add_argument("--forms", default="all", help="of the peers: all, published, or a list")
    p.add_argument("--rounds", type=int, default=3, help="turns of each")
    p.add_argument("--steps", type=int, default=0, help="measured steps of a turn; 0 means as --seconds allows")
    p.add_argument("--seconds", type=float, default=3, help="time for the steps of a turn")
    p.add_argument("--others", type=float, default=0.05, help=f"share of the processors that others may use during a run; beyond it the run is repeated, up to {TRIES - 1} times")
    p.add_argument("--cores", type=float, default=0.93, help="least rate of as many programs at once as threads, relative to one, before and after a run; below it the run is repeated, as for --others")
    p.add_argument("--message", type=float, default=0, help="longest time in ns of a message between two programs and back, likewise; 0: any. Cores with a common cache need about 250, those of two chiplets of an EPYC 600")
    p.add_argument("--out", help="also write the tables to this file, after every case")
    a = p.parse_args()
    if a.rounds < 1:
        p.error(f"--rounds {a.rounds}: at least one is needed")
    try:
        tried = subprocess.run([a.python, "-c", "import torch"], capture_output=True, text=True)
        why = tried.stderr.strip().split("\n")[-1] if tried.returncode else None
    except OSError as e:
        why = str(e)
    if why is not None:
        log(f"skipped: {a.python} has no PyTorch: {why}\n  fix: install it (pip install torch numpy) and name that Python with --python or PYTHON")
        return
    duels, a.loads, a.placed = [], [], []
    for base, crop, batch, threads in itertools.product(*(x.split(",") for x in (a.base, a.crop, a.batch, a.threads))):
        d = Duel(["--model", a.model, "--base", base, "--crop", crop, "--batch", batch, "--threads", threads, "--depth", str(a.depth)])
        log(*d.case)
        d.measure(a)
        duels.append(d)
        if a.out:
            with open(a.out, "w") as f:
                f.write(markdown(duels, a))
    print(markdown(duels, a), end="")


main()
