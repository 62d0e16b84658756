#!/usr/bin/env python3
"""Training steps and predictions of the same networks in PyTorch on CPUs.

    python3 benchmarks/pytorch.py --model unet3d --base 8,32 --crop 64,128 --threads 1,0
    python3 benchmarks/pytorch.py --model unet3d --forms d3,fold --base 8 --crop 128
    python3 benchmarks/pytorch.py --check

One JSON line for every case and form on standard output, with the keys of `ensemble
bench --json`. A step is zero_grad, forward, mean absolute error, backward, Adam.
Training, prediction and the gradient's distance from float64 each have separate
processes, so that peak memory is measured separately.

Forms of unet3d (depth D):
  d3           3-D convolutions, as published
  d3_cl        the same, channels_last_3d
  d3_bf16, d3_bf16_cl    under bfloat16 autocast
  d3_compile   torch.compile (inductor)
  fold         depth folded into channels: one 2-D convolution over D*cin -> D*cout
               whose filter has the taps of depth in a band of blocks; channels last
  fold_bf16, fold_compile
  stack        for D > 2: depth joins the batch, three neighbouring levels the channels
  stack_compile
Forms of resnet2d_simple: f32 (as published), cl (channels_last), bf16, bf16_cl,
compile, compile_cl.
A form that ends in +keep runs with a malloc that keeps freed memory (glibc's
MALLOC_ variables), which spares the page faults of every step.

Threads wait without spinning (OMP_WAIT_POLICY=passive) unless the environment sets it: on a shared machine spinning is several times slower.
"""
import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import time

CHANNELS = 42
REINJECT = 28  # input channel that resnet2d_simple reads a second time
RATE = 1e-4
DRAWS = 5  # of the inputs for which gradients are compared
WARMUP, LEAST = 2, 5
SLOW, LEAST_SLOW = 4, 3  # seconds of a step, and measured steps of slower ones, after one

PUBLISHED = {"unet3d": ["d3", "d3_cl"], "resnet2d_simple": ["f32", "cl"]}
FORMS = {
    "unet3d": ["d3", "d3_cl", "d3_bf16_cl", "d3_compile", "fold", "fold+keep", "fold_bf16", "fold_bf16+keep", "fold_compile", "fold_compile+keep"],
    "resnet2d_simple": ["f32", "cl", "cl+keep", "bf16", "bf16_cl", "compile", "compile_cl", "compile_cl+keep"],
}
DEEP = ["d3", "d3_cl", "d3_bf16_cl", "d3_bf16_cl+keep", "d3_compile", "fold", "stack", "stack+keep", "stack_compile", "stack_compile+keep"]
RUNTIMES = ("openvino", "onnxruntime")  # first words of the forms of runtimes.py
# glibc: no block is mapped on its own, and the heap never shrinks.
KEEP = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_TOP_PAD_": str(64 << 20)}


def unet_layers(base):
    """Input and output channels of every convolution, by name."""
    enc = [base * k for k in (2, 2, 3, 4, 5, 7)]
    dec = [base * k for k in (4, 4, 6, 7, 10)]
    layers = {}
    before = CHANNELS
    for i, width in enumerate(enc):
        layers[f"enc_conv{i}"] = (before, width)
        before = width
    for s in (5, 4, 3, 2, 1):
        skip = CHANNELS if s == 1 else enc[s - 1]
        last = enc[0] if s == 1 else dec[s - 1]
        layers[f"dec_conv{s}a"] = (before + skip, dec[s - 1])
        layers[f"dec_conv{s}b"] = (dec[s - 1], last)
        before = last
    layers["dec_conv0"] = (before, 1)
    return layers


def build(model, base, form):
    import torch
    from torch import nn
    from torch.nn import functional as F

    class UNet(nn.Module):
        """The 3-D U-Net in its published form: [N C D H W] throughout."""

        def __init__(self):
            super().__init__()
            for name, (i, o) in unet_layers(base).items():
                conv = nn.Conv3d(i, o, 3, padding=1)
                nn.init.normal_(conv.weight, std=math.sqrt(2 / (27 * i)))
                nn.init.zeros_(conv.bias)
                setattr(self, name, conv)

        def enter(self, x):
            return x

        def leave(self, y, shape):
            return y

        def conv(self, name, x):
            return getattr(self, name)(x)

        def pool(self, x):
            return F.max_pool3d(x, (1, 2, 2))

        def up(self, x, skip):
            return torch.cat((F.interpolate(x, scale_factor=(1, 2, 2), mode="trilinear"), skip), 1)

        def layer(self, name, x):
            return F.relu(self.conv(name, x), inplace=True)

        def forward(self, x):
            shape = x.shape
            x = self.enter(x)
            skips = [x]
            x = self.layer("enc_conv0", x)
            for s in range(1, 6):
                x = self.pool(self.layer(f"enc_conv{s}", x))
                skips.append(x)
            for s in range(5, 0, -1):
                x = self.up(x, skips[s - 1])
                x = self.layer(f"dec_conv{s}b", self.layer(f"dec_conv{s}a", x))
            return self.leave(self.conv("dec_conv0", x), shape)

    class Folded(UNet):
        """Depth in the channels: [N D*C H W], level by level."""

        def enter(self, x):
            n, c, d, h, w = x.shape
            self.d = d
            return x.transpose(1, 2).reshape(n, d * c, h, w).contiguous(memory_format=torch.channels_last)

        def leave(self, y, shape):
            n, _, d, h, w = shape
            return y.reshape(n, d, 1, h, w).transpose(1, 2)

        def conv(self, name, x):
            m = getattr(self, name)
            w, zero = m.weight, None
            if self.d > 2:
                zero = torch.zeros_like(w[:, :, 0])
            rows = [torch.cat([w[:, :, i - o + 1] if abs(i - o) < 2 else zero for i in range(self.d)], 1) for o in range(self.d)]
            band = torch.cat(rows, 0).contiguous(memory_format=torch.channels_last)
            return F.conv2d(x, band, m.bias.repeat(self.d), padding=1)

        def pool(self, x):
            return F.max_pool2d(x, 2)

        def up(self, x, skip):
            x = F.interpolate(x, scale_factor=2, mode="bilinear")
            return torch.cat([p for pair in zip(x.chunk(self.d, 1), skip.chunk(self.d, 1)) for p in pair], 1)

    class Stacked(UNet):
        """Depth in the batch: [N*D C H W]; a convolution reads three levels."""

        def enter(self, x):
            n, c, d, h, w = x.shape
            self.d = d
            return x.transpose(1, 2).reshape(n * d, c, h, w).contiguous(memory_format=torch.channels_last)

        def leave(self, y, shape):
            n, _, d, h, w = shape
            return y.reshape(n, d, 1, h, w).transpose(1, 2)

        def conv(self, name, x):
            m = getattr(self, name)
            nd, c, h, w = x.shape
            levels = x.reshape(nd // self.d, self.d, c, h, w)
            levels = F.pad(levels, (0, 0, 0, 0, 0, 0, 1, 1))
            near = torch.cat([levels[:, k:k + self.d] for k in range(3)], 2).reshape(nd, 3 * c, h, w)
            taps = m.weight.transpose(1, 2).reshape(m.out_channels, 3 * c, 3, 3)
            return F.conv2d(near.contiguous(memory_format=torch.channels_last), taps.contiguous(memory_format=torch.channels_last), m.bias, padding=1)

        def pool(self, x):
            return F.max_pool2d(x, 2)

        def up(self, x, skip):
            return torch.cat((F.interpolate(x, scale_factor=2, mode="bilinear"), skip), 1)

    class Inception(nn.Module):
        """cat(ReLU(BN(cat(3x3, 5x5, 7x7))), 1x1), each branch a quarter of the width."""

        def __init__(self, i, o):
            super().__init__()
            for k in (1, 3, 5, 7):
                setattr(self, f"conv{k}", nn.Conv2d(i, o // 4, k, padding=k // 2))
            self.bnr = nn.BatchNorm2d(3 * o // 4)

        def forward(self, x):
            wide = torch.cat((self.conv3(x), self.conv5(x), self.conv7(x)), 1)
            return torch.cat((F.relu(self.bnr(wide)), self.conv1(x)), 1)

    class ResNet(nn.Module):
        """resnet2d_simple, at base 32 as published: [N C H W]."""

        def __init__(self):
            super().__init__()
            w = [base * k for k in (2, 3, 4, 5, 7)]
            self.convBR0, self.bn0 = nn.Conv2d(CHANNELS, w[0], 3, padding=1), nn.BatchNorm2d(w[0])
            self.convBR1, self.bn1 = nn.Conv2d(w[0], w[1], 3, padding=1), nn.BatchNorm2d(w[1])
            before, blocks = w[1] + 1, []
            for width in (w[2], w[3], w[4], w[4], w[3], w[2]):
                blocks.append(Inception(before, width))
                before = width
            self.blocks = nn.Sequential(*blocks)
            self.conv4 = nn.Conv2d(before + 1, 1, 1)

        def forward(self, x):
            own = x[:, REINJECT:REINJECT + 1]
            h = F.relu(self.bn0(self.convBR0(x)))
            h = F.relu(self.bn1(self.convBR1(h)))
            h = self.blocks(torch.cat((own, h), 1))
            return self.conv4(torch.cat((own, h), 1))

    torch.manual_seed(1)
    if model == "resnet2d_simple":
        return ResNet()
    kind = form.split("_")[0]
    return {"d3": UNet, "fold": Folded, "stack": Stacked}[kind]()


class Case:
    """One network in one form, ready to take steps."""

    def __init__(self, c, form, dtype=None, draw=0):
        import torch
        plain = form.removesuffix("+keep")
        words = plain.split("_")
        torch.set_num_threads(c["threads"])
        self.torch, self.net = torch, build(c["model"], c["base"], plain)
        r = torch.Generator().manual_seed(2 + draw)
        h, w = sides(c["crop"])
        shape = (c["batch"], CHANNELS, c["depth"], h, w)
        if c["model"] == "resnet2d_simple":
            shape = (c["batch"], CHANNELS, h, w)
        self.x = torch.randn(shape, generator=r)
        self.y = torch.rand((shape[0], 1) + shape[2:], generator=r)
        if "cl" in words:
            layout = torch.channels_last if len(shape) == 4 else torch.channels_last_3d
            self.net, self.x = self.net.to(memory_format=layout), self.x.to(memory_format=layout)
        if dtype is not None:
            self.net, self.x, self.y = self.net.to(dtype), self.x.to(dtype), self.y.to(dtype)
        self.amp = "bf16" in words
        self.call = torch.compile(self.net) if "compile" in words else self.net

    def loss(self):
        with self.torch.autocast("cpu", dtype=self.torch.bfloat16, enabled=self.amp):
            p = self.call(self.x)
        if self.amp:
            p = p.float()
        return (p - self.y).abs().mean()

    def trainer(self):
        opt = self.torch.optim.Adam(self.net.parameters(), lr=RATE)

        def step():
            opt.zero_grad(set_to_none=True)
            self.loss().backward()
            opt.step()
        return step

    def predictor(self):
        self.net.eval()

        def step():
            with self.torch.no_grad(), self.torch.autocast("cpu", dtype=self.torch.bfloat16, enabled=self.amp):
                self.call(self.x)
        return step

    def gradient(self):
        self.loss().backward()
        return [p.grad.double() for p in self.net.parameters()]


def distance(x, y):
    """|x - y| / |y| over all tensors of two lists together."""
    diff = sum(float((a - b).square().sum()) for a, b in zip(x, y))
    return math.sqrt(diff / sum(float(b.square().sum()) for b in y))


def sides(crop):
    h, _, w = str(crop).partition("x")
    return int(h), int(w or h)


def square(crop):
    """A number for a square field, HxW for others, as `ensemble bench --json` has it."""
    h, w = sides(crop)
    return h if h == w else crop


def case_flags(ap):
    """The flags that cases reads, beside --model."""
    ap.add_argument("--base", default="32", help="a list")
    ap.add_argument("--crop", default="128", help="a list such as 64,352x704")
    ap.add_argument("--batch", default="1", help="a list")
    ap.add_argument("--threads", default="0", help="a list; 0 takes all")
    ap.add_argument("--depth", type=int, default=0)


def cases(a):
    """All combinations of the lists of the flags."""
    for base, crop, batch, threads in itertools.product(*(x.split(",") for x in (a.base, a.crop, a.batch, a.threads))):
        yield {"model": a.model, "base": int(base), "crop": square(crop), "batch": int(batch), "depth": a.depth or (1 if a.model == "resnet2d_simple" else 2),
               "threads": int(threads) or len(os.sched_getaffinity(0))}


def measure(step, steps, seconds, clock=time.perf_counter):
    """Times of a step in ms, and how many came before the first of them.

    The last step of the warm-up shows whether the step is slow (the first also
    compiles), and is the first measured one then: the rule of `ensemble bench`.
    """
    for _ in range(WARMUP):
        start = clock()
        step()
    times, warmup, least, took = [], WARMUP, LEAST, clock() - start
    if took > SLOW:
        times, warmup, least = [1e3 * took], WARMUP - 1, LEAST_SLOW
    else:
        start = clock()
    end = start + seconds
    while len(times) < steps or not steps and (len(times) < least or clock() < end):
        t = clock()
        step()
        times.append(1e3 * (clock() - t))
    return times, warmup


def peak_mib():
    """Peak resident memory of this process. getrusage begins with its parent's."""
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmHWM:")) / 1024


def run_phase(r):
    """Measurements of one process: r is {"case", "form", "phase", "steps", "seconds"}."""
    c, form, phase = r["case"], r["form"], r["phase"]
    if phase == "gradient":
        import torch
        # The median over draws of the input: a value on the other side of a ReLU
        # moves a single gradient by more than rounding does.
        e = statistics.median(
            distance(Case(c, form, draw=n).gradient(), Case(c, PUBLISHED[c["model"]][0], torch.float64, n).gradient())
            for n in range(DRAWS))
        return {"relative_gradient_error": e if math.isfinite(e) else None, "gradient_case": c}
    net = Case(c, form)
    name = "train" if phase == "train" else "predict"
    t, warmup = measure(net.trainer() if phase == "train" else net.predictor(), r["steps"], r["seconds"])
    out = {f"{name}_ms_median": statistics.median(t), f"{name}_ms_min": min(t), f"{name}_ms_max": max(t)}
    if phase == "train":
        out.update(peak_mib=peak_mib(), steps=len(t), warmup=warmup, parameters=sum(p.numel() for p in net.net.parameters()))
    else:
        out.update(predict_peak_mib=peak_mib(), predict_steps=len(t))
    return out


def answer(p):
    """What a process that has ended printed last, or its error."""
    if p.returncode:
        lines = p.stderr.strip().splitlines()
        return {"error": lines[-1][:300] if lines else f"exit {p.returncode}"}
    return json.loads(p.stdout.strip().splitlines()[-1])


def process(request):
    env = dict(os.environ)
    env.setdefault("OMP_WAIT_POLICY", "passive")
    env["OMP_NUM_THREADS"] = str(request["case"]["threads"])
    if request["form"].endswith("+keep"):
        env.update(KEEP)
    p = subprocess.run([sys.executable, os.path.abspath(__file__), "--one", json.dumps(request)], env=env, capture_output=True, text=True)
    return answer(p)


def check():
    """The forms give the same outputs and gradients as the published one."""
    import torch
    worst = 0.0
    for model, depth in (("unet3d", 2), ("unet3d", 5), ("resnet2d_simple", 1)):
        c = {"model": model, "base": 4, "crop": 32, "batch": 2, "depth": depth, "threads": 1}
        first = Case(c, PUBLISHED[model][0], torch.float64)
        want, grads = [first.call(first.x).detach()], first.gradient()
        for form in {"unet3d": ("d3_cl", "fold", "stack"), "resnet2d_simple": ("cl",)}[model]:
            other = Case(c, form, torch.float64)
            worst = max(worst, distance([other.call(other.x).detach()], want), distance(other.gradient(), grads))
    print(json.dumps({"check": "forms against the published one in float64", "largest_relative_difference": worst}))
    return 0 if worst < 1e-9 else 1


def main():
    ap = argparse.ArgumentParser(description="Training steps and predictions of the same networks in PyTorch on CPUs.")
    ap.add_argument("--model", default="unet3d", choices=sorted(FORMS))
    ap.add_argument("--forms", default="all", help="all, published, or a list")
    case_flags(ap)
    ap.add_argument("--steps", type=int, default=0, help="0: at least 5, or 3 of more than 4 s, and as many as --seconds allows")
    ap.add_argument("--seconds", type=float, default=3.0)
    ap.add_argument("--gradient", default="same", help="case of the gradient's distance from float64: same, off, or BASE,CROP,BATCH,DEPTH")
    ap.add_argument("--check", action="store_true", help="show that the forms are the same network")
    ap.add_argument("--one", help=argparse.SUPPRESS)
    a = ap.parse_args()
    try:
        import torch
    except ImportError as e:
        print(f"pytorch.py: PyTorch is not installed for {sys.executable} ({e}); install it with: pip install torch numpy", file=sys.stderr)
        sys.exit(69)
    if a.check:
        sys.exit(check())
    if a.one:
        print(json.dumps(run_phase(json.loads(a.one))))
        return
    for c in cases(a):
        named = [f for f in a.forms.split(",") if f.split("_")[0] not in RUNTIMES]
        for form in {"all": DEEP if c["depth"] > 2 else FORMS[a.model], "published": PUBLISHED[a.model]}.get(a.forms, named):
            out = dict(c, form=form, channels=CHANNELS, torch=torch.__version__,
                       wait_policy=os.environ.get("OMP_WAIT_POLICY", "passive"), preload=os.environ.get("LD_PRELOAD", ""))
            for phase in ("train", "predict"):
                out.update(process({"case": c, "form": form, "phase": phase, "steps": a.steps, "seconds": a.seconds}))
            if a.gradient != "off":
                g = dict(c)
                if a.gradient != "same":
                    b, crop, n, d = a.gradient.split(",")
                    g.update(base=int(b), crop=square(crop), batch=int(n), depth=int(d))
                out.update(process({"case": g, "form": form, "phase": "gradient", "steps": 0, "seconds": 0}))
            print(json.dumps(out), flush=True)


if __name__ == "__main__":
    main()
