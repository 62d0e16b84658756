#!/usr/bin/env python3
"""The networks of `ensemble bench device` in PyTorch on a GPU: the peer of benchmarks/gpu.sh.

    gpu_pytorch.py info
    gpu_pytorch.py peak
    gpu_pytorch.py train   --case unet3d-2 --base 32 --field 2x352x704 --batch 2 --forms d3_cl_graph,fold_cl_graph
    gpu_pytorch.py fit     --case unet3d-11 --base 32 --field 11x361x720 --forms d3_cl_graph
    gpu_pytorch.py predict --case predict-2 --base 32 --field 2x361x720 --batch 1
    gpu_pytorch.py check   forms against the published one, in float64

One JSON line for every form on standard output; one that fails gives its line with
"error". Each form has its own process, killed at the end of its share of --budget.

A form is words joined by _:
  d3 | fold | stack   3-D as published; depth folded into channels; depth in the batch,
                      three neighbouring levels in the channels (pytorch.py has all three)
  cl                  channels_last_3d (the others are channels_last as they are)
  compile             torch.compile, mode max-autotune-no-cudagraphs
  reduce              torch.compile, mode reduce-overhead: its own CUDA graphs
  graph               the whole step, with Adam, captured as one CUDA graph

A step is zero_grad, forward, mean absolute error, backward, Adam (fused, capturable), its
input on the device already. Precision bf16 is autocast in training and bfloat16 weights in
predictions; tf32 and f32 are float32 with and without tensor cores. Steps of a training
are queued and timed by events; a prediction goes from pinned memory of the host to pinned
memory of the host and is waited for. Fields whose sides do not divide by 32 are padded.

device_bytes is torch.cuda.max_memory_allocated, reserved_bytes max_memory_reserved.
--tiny and --device cpu are for tests of the script without a GPU, without graph capture.
"""
import argparse
import gc
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import pytorch as peers  # noqa: E402  the networks

NO_DEVICE = 69
RATE = 1e-4
LEAST = 5
DEFAULT_FORMS = "d3_cl,d3_cl_graph,fold_cl_graph,d3_cl_compile_graph,fold_cl_compile_graph,fold_cl_reduce"
KINDS = {"d3", "fold", "stack"}
WORDS = {"cl", "compile", "reduce", "graph"}


def sides(field):
    d, h, w = (int(n) for n in field.split("x"))
    return d, h, w


class Case:
    """One network in one form, ready to take steps on the device."""

    def __init__(self, c, form, train):
        import torch
        from torch.nn import functional as F
        self.torch, self.c, self.train = torch, c, train
        self.words = form.split("_")
        self.cuda = c["device"] == "cuda"
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = c["precision"] != "f32"
        peers.CHANNELS = c["channels"]
        net = peers.build("unet3d", c["base"], form).to(c["device"])
        d, h, w = sides(c["field"])
        south, east = -h % 32, -w % 32
        self.x = torch.randn(c["batch"], c["channels"], d, h, w, device=c["device"])
        self.y = torch.rand(c["batch"], 1, d, h, w, device=c["device"])
        if "cl" in self.words and self.words[0] == "d3":
            net = net.to(memory_format=torch.channels_last_3d)
            self.x = self.x.to(memory_format=torch.channels_last_3d)
        self.half = c["precision"] == "bf16"
        if self.half and not train:
            net = net.to(torch.bfloat16)

        def call(x):
            if self.half:
                x = x.to(torch.bfloat16)  # once: a concatenation of both types would be float32
            if south or east:
                x = F.pad(x, (0, east, 0, south))
            return net(x)[..., :h, :w].float()
        self.net, self.call = net, call
        mode = {"compile": "max-autotune-no-cudagraphs", "reduce": "reduce-overhead"}
        for word in self.words:
            if word in mode:
                self.call = torch.compile(call, mode=mode[word])
        self.wait = torch.cuda.synchronize if self.cuda else lambda: None
        if train:
            # Without a GPU the fused form has no capturable variant.
            self.opt = torch.optim.Adam(net.parameters(), lr=RATE, fused=True, capturable=self.cuda)
        else:
            net.eval()

    def loss(self):
        with self.torch.autocast(self.c["device"], dtype=self.torch.bfloat16, enabled=self.half):
            p = self.call(self.x)
        return (p - self.y).abs().mean()

    def step(self):
        if "reduce" in self.words:
            self.torch.compiler.cudagraph_mark_step_begin()
        self.opt.zero_grad(set_to_none=True)
        loss = self.loss()
        loss.backward()
        self.opt.step()
        self.last = loss.detach()

    def forward(self):
        if "reduce" in self.words:
            self.torch.compiler.cudagraph_mark_step_begin()
        with self.torch.inference_mode():
            self.out = self.call(self.x)

    def capture(self, f):
        """f as one graph, after runs that initialise libraries."""
        if not self.cuda or "graph" not in self.words:
            return f
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            f()
        torch.cuda.current_stream().wait_stream(side)
        if self.train:
            self.opt.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            f()
        return graph.replay

    def peak(self):
        if not self.cuda:
            return {}
        t = self.torch.cuda
        free, total = t.mem_get_info()
        return {"device_bytes": t.max_memory_allocated(), "reserved_bytes": t.max_memory_reserved(), "device_used_bytes": total - free}

    def warm(self, f):
        """Runs f twice for compilation and choices, then once for the memory measurement."""
        for _ in range(2):
            f()
        self.wait()
        if self.cuda:
            self.torch.cuda.reset_peak_memory_stats()
        f()
        g = self.capture(f)
        for _ in range(2):
            g()
        self.wait()
        return g

    def queued(self, f, seconds):
        """Times in ms of steps that are queued without synchronisation."""
        torch = self.torch
        if not self.cuda:
            return timed(f, seconds)
        start = time.perf_counter()
        f()
        self.wait()
        n = max(LEAST, min(200, int(seconds / (time.perf_counter() - start))))
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(n + 1)]
        marks[0].record()
        for m in marks[1:]:
            f()
            m.record()
        self.wait()
        return [a.elapsed_time(b) for a, b in zip(marks, marks[1:])]


def timed(f, seconds):
    """Times of f in ms, each waited for by f itself."""
    times, end = [], time.perf_counter() + seconds
    while len(times) < LEAST or time.perf_counter() < end:
        t = time.perf_counter()
        f()
        times.append(1e3 * (time.perf_counter() - t))
    return times


def summary(t):
    return {"median": statistics.median(t), "min": min(t), "max": max(t), "n": len(t)}


def train(c, form):
    k = Case(c, form, True)
    f = k.warm(k.step)
    first = float(k.last)
    out = {"train_ms": summary(k.queued(f, c["seconds"])), "parameters": sum(p.numel() for p in k.net.parameters())}
    return dict(out, **finite(warm_loss=first, loss=float(k.last)), **k.peak())


def finite(**numbers):
    """Numbers for JSON, which has no NaN; a form with values that are not finite does not count."""
    if all(math.isfinite(x) for x in numbers.values()):
        return numbers
    return {"error": "not finite: " + ", ".join(k for k, x in numbers.items() if not math.isfinite(x))}


def predict(c, form):
    k = Case(c, form, False)
    f = k.warm(k.forward)
    torch = k.torch
    here = torch.randn(k.x.shape)
    back = torch.empty(k.out.shape)
    if k.cuda:
        here, back = here.pin_memory(), back.pin_memory()
    if k.x.dim() == 5 and k.x.is_contiguous(memory_format=torch.channels_last_3d):
        # The transfer is a plain copy; the change of layout is done on the device.
        landing = torch.empty(k.x.shape, device=k.x.device)
    else:
        landing = k.x

    def once():
        landing.copy_(here, non_blocking=True)
        if landing is not k.x:
            k.x.copy_(landing)
        f()
        back.copy_(k.out, non_blocking=True)
        k.wait()
    once()
    out = {"predict_ms": summary(timed(once, c["seconds"]))}
    return dict(out, **finite(mean_abs_output=float(back.abs().mean())), **k.peak())


def fit(c, form):
    """The largest batch that fits, and its step. The search neither captures nor tries
    algorithms of convolutions; the final measurement does, with fewer samples if it
    needs more memory."""
    import torch

    def attempt(f, batch):
        """The result of f, or None if memory does not suffice."""
        try:
            return f(batch)
        except RuntimeError as e:  # a capture that runs out of memory has another message
            if not isinstance(e, torch.OutOfMemoryError) and "memory" not in str(e) and "captur" not in str(e):
                raise
            return None
        finally:
            gc.collect()
            if c["device"] == "cuda":
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()

    def bytes_of(batch):
        k = Case(dict(c, batch=batch), form.replace("_graph", ""), True)
        torch.backends.cudnn.benchmark = False
        k.step()
        k.step()
        k.wait()
        return k.peak().get("device_bytes", 0)

    one, two = attempt(bytes_of, 1), attempt(bytes_of, 2)
    if one is None:
        raise RuntimeError("not even one sample fits")
    most = 1 if two is None else 2
    if two is not None and c["device"] == "cuda":
        total = torch.cuda.mem_get_info()[1]
        most = max(2, int((total - one) / max(two - one, 1)) + 1)
        while most > 2 and attempt(bytes_of, most) is None:
            most -= max(1, most // 16)
        while attempt(bytes_of, most + 1) is not None:
            most += 1
    while True:
        out = attempt(lambda batch: train(dict(c, batch=batch), form), most)
        if out is not None or most == 1:
            break
        most -= 1
    if out is None:
        raise RuntimeError("not even one sample fits when its step is measured")
    return dict(out, batch=most, largest_batch=most)


def peak(c, _):
    """Rates of matrix products and of copies."""
    import torch
    side, floats = (256, 1 << 16) if c["tiny"] else (8192, 1 << 28)
    dev = c["device"]

    def best(f, n=20):
        f()
        if dev == "cuda":
            torch.cuda.synchronize()
        times = []
        for _ in range(n):
            if dev == "cuda":
                a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                a.record()
                f()
                b.record()
                torch.cuda.synchronize()
                times.append(a.elapsed_time(b) / 1e3)
            else:
                t = time.perf_counter()
                f()
                times.append(time.perf_counter() - t)
        return min(times)
    out = {"side": side}
    for name, dtype, tf32 in (("bf16", torch.bfloat16, True), ("tf32", torch.float32, True), ("f32", torch.float32, False)):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        a, b = (torch.randn(side, side, device=dev).to(dtype) for _ in range(2))
        r = torch.empty(side, side, device=dev, dtype=dtype)
        out[name + "_gflops"] = 2 * side**3 / best(lambda: torch.mm(a, b, out=r)) / 1e9
    x, y = torch.empty(floats, device=dev), torch.empty(floats, device=dev)
    out["copy_gb_s"] = 8 * floats / best(lambda: y.copy_(x)) / 1e9
    if dev == "cuda":
        here = torch.empty(floats // 4).pin_memory()
        out["from_host_gb_s"] = floats / best(lambda: x[:floats // 4].copy_(here, non_blocking=True), 5) / 1e9
        out["to_host_gb_s"] = floats / best(lambda: here.copy_(x[:floats // 4], non_blocking=True), 5) / 1e9
    return out


def info(c, _):
    import torch
    out = {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(), "python": sys.version.split()[0]}
    try:
        import triton
        out["triton"] = triton.__version__
    except ImportError:
        out["triton"] = None
    if c["device"] == "cuda":
        p = torch.cuda.get_device_properties(0)  # raises where there is none
        out.update(device=p.name, compute=f"{p.major}.{p.minor}", total_bytes=p.total_memory, processors=p.multi_processor_count)
    return out


COMMANDS = {"info": info, "peak": peak, "train": train, "predict": predict, "fit": fit}


def limit_of(form, left, remaining):
    """Seconds for a form: those that compile share the remaining time."""
    if "compile" in form or "reduce" in form:
        return remaining / left
    return max(remaining / left, remaining - 10 * (left - 1))


class Children:
    """Runs processes one by one, and ends the running one with this one."""

    def __init__(self):
        self.now = None
        for s in (signal.SIGTERM, signal.SIGINT):
            signal.signal(s, self.stop)

    def stop(self, number, _):
        self.kill()
        sys.exit(128 + number)

    def kill(self):
        if self.now is not None:
            try:
                os.killpg(self.now.pid, signal.SIGKILL)  # compilers too
            except ProcessLookupError:
                pass

    def run(self, request, limit):
        env = dict(os.environ)
        if request["command"] == "fit":
            env.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
        p = self.now = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--one", json.dumps(request)], env=env,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            out, err = p.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            self.kill()
            p.communicate()
            return {"error": f"took longer than its {limit:.0f} s"}
        finally:
            self.kill()
            self.now = None
        if p.returncode:
            lines = err.strip().splitlines()
            return {"error": lines[-1][:400] if lines else f"exit {p.returncode}"}
        return json.loads(out.strip().splitlines()[-1])


def main():
    if sys.argv[1:2] == ["--one"]:
        r = json.loads(sys.argv[2])
        print(json.dumps(COMMANDS[r["command"]](r, r["form"])), flush=True)
        return 0
    ap = argparse.ArgumentParser(description="The networks of `ensemble bench device` in PyTorch on a GPU.")
    ap.add_argument("command", choices=[*COMMANDS, "check"])
    ap.add_argument("--case", default="")
    ap.add_argument("--base", type=int, default=32)
    ap.add_argument("--channels", type=int, default=42)
    ap.add_argument("--field", default="2x352x704", help="levels, rows and columns")
    ap.add_argument("--batch", type=int, default=2)
    ap.add_argument("--precision", default="bf16", choices=["bf16", "tf32", "f32"])
    ap.add_argument("--forms", default=DEFAULT_FORMS)
    ap.add_argument("--seconds", type=float, default=2, help="of measured steps")
    ap.add_argument("--budget", type=float, default=300, help="seconds for all forms")
    ap.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    ap.add_argument("--tiny", action="store_true", help="small sizes on the processor, to try the script")
    a = ap.parse_args()
    begun = time.monotonic()
    if a.tiny:
        a.device, a.base, a.channels, a.seconds = "cpu", 1, 3, 0.05
        if a.field == ap.get_default("field"):
            a.field = "2x32x32"
    try:
        depth, _, _ = sides(a.field)
    except ValueError:
        ap.error(f"--field {a.field}: give levels, rows and columns, 2x352x704")
    forms = a.forms.split(",") if a.command in ("train", "predict", "fit") else [""]
    for form in forms:
        words = form.split("_")
        if form and (words[0] not in KINDS or set(words[1:]) - WORDS):
            ap.error(f"form {form}: one of {sorted(KINDS)}, then any of {sorted(WORDS)}")
    if a.command == "check":
        return peers.check()
    lost = None
    try:
        import torch
        if a.device == "cuda" and not torch.cuda.is_available():
            lost = f"PyTorch {torch.__version__} finds no GPU"
    except ImportError as e:
        lost = f"no PyTorch: {e}"
    if lost:
        print(f"gpu_pytorch.py: {lost}\n  fix: pip install torch, on a machine with a GPU", file=sys.stderr)
        return NO_DEVICE
    children, failed = Children(), 0
    for i, form in enumerate(forms):
        c = {"case": a.case or a.command, "peer": "pytorch", "form": form, "precision": a.precision, "base": a.base, "batch": a.batch, "channels": a.channels,
             "field": a.field}
        request = dict(c, command=a.command, device=a.device, seconds=a.seconds, tiny=a.tiny)
        remaining = a.budget - 3 - (time.monotonic() - begun)
        if remaining < 5:
            c["error"] = "no time was left"
        else:
            c.update(children.run(request, limit_of(form, len(forms) - i, remaining)))
        failed += "error" in c
        print(json.dumps(c), flush=True)
    return 1 if failed == len(forms) else 0


if __name__ == "__main__":
    sys.exit(main())
