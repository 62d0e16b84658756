#!/usr/bin/env python3
"""Time of a PyTorch program to the same quality, on the same data.

    python3 benchmarks/quality.py --run runs/experiments/gcm/base/seed-1 --data DIR --target 0.525 --seeds 1,2,3,4,5
    python3 benchmarks/quality.py --run runs/experiments/gcm/base/seed-1 --data DIR --check

The network is that of a finished training of one kind: `model: {kind: unet3d, head: distribution,
family: normal, location: true, season: true}`, `features: [spread, first, offset]`, `standardise: global`, no reference.
Its run directory has the configuration and the scales and centres fitted to the training inits, which the peer therefore
need not fit. The peer does everything else: it reads GRIB with ecCodes and NetCDF
with netCDF4, all into memory, builds batches with NumPy, and trains with AdamW, clipping, warm-up and cosine as configured.

--check puts the weights of the finished training into the peer's network and prints its loss on the validation inits, and
that of events.jsonl: if they agree, networks, data and losses are the same.

Forms: d3, 3-D convolutions as published; fold, depth folded into channels of 2-D convolutions, which is PyTorch's fastest.
One JSON line a seed: seconds from the beginning of reading to the first validation loss at or below the target, processor
time, epochs, steps. Needs torch numpy safetensors eccodes netCDF4 pyyaml. On a machine that is not empty threads must wait without spinning:
OMP_WAIT_POLICY=passive is set unless the environment sets it.
"""
import argparse
import datetime
import glob
import json
import math
import os
import time

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import torch
import yaml
from safetensors.numpy import load_file
from torch import nn
from torch.nn import functional as F

ENCODER, DECODER = (2, 2, 3, 4, 5, 7), (4, 4, 6, 7, 10)  # widths in units of the base


def hours(text):
    return int(text.removesuffix("h"))


def level(text):
    return int(text.removesuffix("hPa"))


class Setting:
    """Contents of the run directory."""

    def __init__(self, run):
        with open(os.path.join(run, "config.effective.yaml")) as f:
            self.config = yaml.safe_load(f)
        with open(os.path.join(run, "model", "model.json")) as f:
            m = json.load(f)
        net, self.task = m["network"], m["task"]
        self.network = net
        features = self.features = self.task["features"]
        want = {"kind": "unet3d", "head": "distribution", "loss": "crps", "precision": "f32"}
        if any(net[k] != v for k, v in want.items()) or features["aggregates"] != ["spread", "first", "offset"] or m["standardise"] != "global" or not (features["location"] and features["season"]):
            raise SystemExit(f"{run}: this peer trains another kind of network only, see --help")
        self.arrays = load_file(os.path.join(run, "model", "arrays.safetensors"))
        self.weights = os.path.join(run, "model", "weights-00.safetensors")
        axes = features["axes"]
        self.variables, self.levels, self.leads = axes["variables"], [level(x) for x in axes["levels"]], [hours(x) for x in axes["leads"]]
        self.targets = [self.variables.index(t["variable"]) for t in self.task["targets"]]
        (lead,) = {t["lead"] for t in self.task["targets"]}
        self.target_lead = self.leads.index(hours(lead))
        self.lat, self.lon = np.array(m["grid"]["lat"]), np.array(m["grid"]["lon"])

    def per_target(self, key):
        """Numbers by variable and level, to multiply with [N V D H W]."""
        x = np.array(self.task[key], np.float32)
        return x.reshape(len(self.targets), len(self.levels), *x.shape[1:])


class Data:
    """All inits of some parts of the split in memory: forecasts [init lead member variable level lat lon], observed [init target
    level lat lon]."""

    def __init__(self, s, folder, parts):
        import eccodes
        import netCDF4

        self.periods = {p: [np.datetime64(str(s.config["data"]["split"][p][k])) for k in ("from", "to")] for p in parts}
        wanted = lambda date: any(a <= date <= b for a, b in self.periods.values())
        shape = (len(s.leads), s.task["members_full"], len(s.variables), len(s.levels), len(s.lat), len(s.lon))
        fields = {}
        for path in sorted(sum((glob.glob(os.path.join(folder, os.path.basename(p))) for p in s.config["data"]["forecasts"]), [])):
            with open(path, "rb") as f:
                while (h := eccodes.codes_grib_new_from_file(f)) is not None:
                    get = lambda k: eccodes.codes_get(h, k)
                    date, name, lead, lev = str(get("dataDate")), get("shortName"), get("step"), get("level")
                    start = np.datetime64(f"{date[:4]}-{date[4:6]}-{date[6:]}T{get('dataTime') // 100:02d}", "h")
                    if wanted(start.astype("datetime64[D]")) and name in s.variables and lead in s.leads and lev in s.levels:
                        into = fields.setdefault(start, np.full(shape, np.nan, np.float32))
                        into[s.leads.index(lead), get("number"), s.variables.index(name), s.levels.index(lev)] = eccodes.codes_get_values(h).reshape(shape[-2:])
                    eccodes.codes_release(h)
        self.starts = sorted(fields)
        self.forecasts = np.stack([fields[t] for t in self.starts])
        observed = {}
        for path in sorted(sum((glob.glob(os.path.join(folder, os.path.basename(p))) for p in s.config["data"]["analyses"]), [])):
            with netCDF4.Dataset(path) as d:
                times = netCDF4.num2date(d["time"][:], d["time"].units, only_use_cftime_datetimes=False, only_use_python_datetimes=True)
                heights = list(np.asarray(d["level" if "level" in d.variables else "pressure"][:]).astype(int))
                order = [heights.index(l) for l in s.levels]
                values = np.stack([np.ma.filled(d[s.variables[v]][:].astype(np.float32), np.nan)[:, order] for v in s.targets], 1)
                observed.update({np.datetime64(t, "h"): x for t, x in zip(times, values)})
        lead = np.timedelta64(s.leads[s.target_lead], "h")
        self.observed = np.stack([observed[t + lead] for t in self.starts])
        assert np.isfinite(self.forecasts).all() and np.isfinite(self.observed).all()
        self.s = s
        self.prepare()

    def prepare(self):
        s = self.s
        n, at = len(s.leads) * len(s.variables) * len(s.levels), lambda key: np.array([s.arrays[f"{key}.{i:03d}"][0] for i in range(n)], np.float32)
        fields = (len(s.leads), 1, len(s.variables), len(s.levels), 1, 1)
        self.mean, self.scale = at("feature_mean").reshape(fields)[:, 0], at("feature_scale").reshape(fields)[:, 0]
        self.spreads = np.array(s.features["spreads"], np.float32).reshape(fields)[:, 0]
        grid = (len(s.targets), len(s.levels), len(s.lat), len(s.lon))
        maps = lambda key: np.stack([s.arrays[f"{key}.{i:03d}"] for i in range(grid[0] * grid[1])]).reshape(grid)
        self.centre, self.width = maps("anomaly_centre"), maps("anomaly_width")
        lat, lon = np.radians(s.lat)[:, None], np.radians(s.lon)[None]
        place = np.broadcast_arrays(np.sin(lat), np.cos(lat) * np.sin(lon), np.cos(lat) * np.cos(lon))
        self.place = np.broadcast_to(np.stack(place)[:, None], (3, *grid[1:])).astype(np.float32)
        self.error = s.per_target("error_scale")[..., None, None]
        self.weight = (np.cos(lat)[None, None] * s.per_target("target_weights")[..., None, None] * np.ones(grid)).astype(np.float32)

    def of(self, part):
        """The samples of a part."""
        begin, end = self.periods[part]
        return [i for i, t in enumerate(self.starts) if begin <= t.astype("datetime64[D]") <= end]

    def season(self, i):
        t = self.starts[i].astype(datetime.datetime)
        year = datetime.datetime(t.year, 1, 1)
        phase = 2 * math.pi * ((t - year).total_seconds() / 86400) / 365.25
        return np.array([math.sin(phase), math.cos(phase)], np.float32)

    def batch(self, samples, members):
        """The tensors of samples, each from its members; the first is the control."""
        s, out = self.s, []
        for i, used in zip(samples, members):
            x = self.forecasts[i]
            mean, std, first = x[:, used].mean(1), x[:, used].std(1, ddof=s.features["spread_ddof"]), x[:, used[0]]
            channels = np.stack([std / self.spreads, (first - self.mean) / self.scale, (mean - first) / self.spreads], 1)
            channels = channels.reshape(-1, *channels.shape[3:])
            season = self.season(i)
            fixed = np.concatenate([self.place, np.broadcast_to(season[:, None, None, None], (2, *self.place.shape[1:]))])
            mu, sd = mean[s.target_lead, s.targets], std[s.target_lead, s.targets]
            full = x[s.target_lead].std(0, ddof=s.features["spread_ddof"])[s.targets]
            out.append((np.concatenate([channels, fixed]), season[:, None, None, None], sd / self.error, (mu - self.centre) / self.width,
                        (self.observed[i] - mu) / self.error, full / self.error))
        return [torch.from_numpy(np.ascontiguousarray(np.stack(x), np.float32)) for x in zip(*out)]


class Network(nn.Module):
    """The 3-D U-Net and the maps around it."""

    def __init__(self, s, channels, form):
        super().__init__()
        self.s, self.form, net = s, form, s.network
        self.stages, base, v = net["stages"], net["base"], len(s.targets)
        self.drop, self.around = net["dropout"], net["periodic"]
        enc, dec = [base * k for k in ENCODER], [base * k for k in DECODER]
        layers, before = {}, channels
        for i in range(self.stages + 1):
            layers[f"enc_conv{i}"], before = (before, enc[i]), enc[i]
        for k in range(self.stages, 0, -1):
            last = enc[0] if k == 1 else dec[k - 1]
            layers[f"dec_conv{k}a"] = (before + (channels if k == 1 else enc[k - 1]), dec[k - 1])
            layers[f"dec_conv{k}b"], before = (dec[k - 1], last), last
        layers["dec_conv0"] = (before, 3 * v)
        for name, (i, o) in layers.items():
            conv = nn.Conv3d(i, o, 3)
            nn.init.normal_(conv.weight, std=0 if name == "dec_conv0" else math.sqrt(2 / (27 * i)))
            nn.init.zeros_(conv.bias)
            setattr(self, name, conv)
        shape, inverse = (1, v, len(s.levels), len(s.lat), len(s.lon)), lambda y: math.log(math.expm1(y))
        starts = {"spread": 0, "shift": 0, "shift_sin": 0, "shift_cos": 0, "shift_anomaly": 0, "sigma_floor": inverse(0.35), "sigma_slope": inverse(0.85)}
        self.maps = nn.ParameterDict({k: nn.Parameter(torch.full(shape, float(x))) for k, x in starts.items()})
        error, scale = s.per_target("error_scale"), s.per_target("spread_scale")
        affine = s.per_target("spread_affine")
        tensor = lambda x: torch.from_numpy(np.ascontiguousarray(x[None, :, :, None, None]))
        self.unit, self.offset, self.slope = tensor(scale / error), tensor(affine[..., 0] / error), tensor(affine[..., 1])

    def pad(self, x):
        """One column around the globe; rows and levels have zeros, which the convolutions add."""
        return F.pad(x, (1, 1, 0, 0) + (0, 0) * (x.dim() - 4), mode="circular") if self.around else F.pad(x, (1, 1))

    def conv(self, name, x):
        m = getattr(self, name)
        if self.form == "d3":
            return F.conv3d(self.pad(x), m.weight, m.bias, padding=(1, 1, 0))
        d = len(self.s.levels)
        w = m.weight
        rows = [torch.cat([w[:, :, i - o + 1] if abs(i - o) < 2 else torch.zeros_like(w[:, :, 0]) for i in range(d)], 1) for o in range(d)]
        band = torch.cat(rows, 0).contiguous(memory_format=torch.channels_last)
        return F.conv2d(self.pad(x), band, m.bias.repeat(d), padding=(1, 0))

    def up(self, x):
        mode = "trilinear" if self.form == "d3" else "bilinear"
        scale = (1, 2, 2) if self.form == "d3" else 2
        if not self.around:
            return F.interpolate(x, scale_factor=scale, mode=mode)
        return F.interpolate(self.pad(x), scale_factor=scale, mode=mode)[..., 2:-2]

    def join(self, x, skip):
        if self.form == "d3":
            return torch.cat((x, skip), 1)
        d = len(self.s.levels)
        return torch.cat([p for pair in zip(x.chunk(d, 1), skip.chunk(d, 1)) for p in pair], 1)

    def body(self, x):
        n, c, d, h, w = x.shape
        if self.form != "d3":
            x = x.transpose(1, 2).reshape(n, d * c, h, w).contiguous(memory_format=torch.channels_last)
        layer = lambda name, x: F.relu(self.conv(name, x), inplace=True)
        pool = (lambda x: F.max_pool3d(x, (1, 2, 2))) if self.form == "d3" else (lambda x: F.max_pool2d(x, 2))
        skips, x = [x], layer("enc_conv0", x)
        for k in range(1, self.stages + 1):
            x = pool(layer(f"enc_conv{k}", x))
            skips.append(x)
        x = F.dropout(x, self.drop, self.training)
        for k in range(self.stages, 0, -1):
            x = self.join(self.up(x), skips[k - 1])
            x = layer(f"dec_conv{k}b", layer(f"dec_conv{k}a", x))
        x = self.conv("dec_conv0", x)
        return x if self.form == "d3" else x.reshape(n, d, -1, h, w).transpose(1, 2)

    def forward(self, features, season, spread, anomaly):
        u1, u2, u3 = self.body(features).chunk(3, 1)
        m = self.maps
        estimate = F.relu(self.offset + self.slope * spread + self.unit * (u3 + m["spread"]))
        shift = u1 + m["shift"] + m["shift_sin"] * season[:, 0:1] + m["shift_cos"] * season[:, 1:2] + m["shift_anomaly"] * anomaly
        sigma = (F.softplus(m["sigma_floor"]) + F.softplus(m["sigma_slope"]) * spread) * torch.exp(u2)
        return shift, sigma, estimate

    def loss(self, batch, weight, spread_weight):
        features, season, spread, anomaly, residual, full = batch
        shift, sigma, estimate = self(features, season, spread, anomaly)
        z = (residual - shift) / sigma
        crps = sigma * (z * torch.erf(z / math.sqrt(2)) + math.sqrt(2 / math.pi) * torch.exp(-z * z / 2) - 1 / math.sqrt(math.pi))
        off = ((estimate - full) / self.unit) ** 2
        return ((crps + spread_weight * off) * weight).sum() / (weight.sum() * len(features))


def validate(net, batches, weight, spread_weight):
    net.eval()
    with torch.no_grad():
        losses = [float(net.loss(b, weight, spread_weight)) for b in batches]
    net.train()
    return sum(losses) / len(losses)


def train(s, args, seed):
    """One training to the target."""
    began, processor = time.perf_counter(), time.process_time()
    torch.manual_seed(seed)
    chance = np.random.default_rng(seed)
    data = Data(s, args.data, ["train", "validation"])
    starts = np.array(data.of("train"))
    read, read_processor = time.perf_counter() - began, time.process_time() - processor
    c = s.config["train"]
    weight = torch.from_numpy(data.weight)
    validation = [data.batch([i], [s.task["members"]]) for i in data.of("validation")]
    net = Network(s, validation[0][0].shape[1], args.form)
    decayed = [p for n, p in net.named_parameters() if n.endswith(".weight")]
    others = [p for n, p in net.named_parameters() if not n.endswith(".weight")]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": c["weight_decay"]}, {"params": others, "weight_decay": 0}], lr=c["learning_rate"])
    per_epoch = math.ceil(len(starts) / c["batch_size"])
    total, step, spread_weight = per_epoch * c["epochs"], 0, c["loss"]["spread"]
    every, used = s.task["members_full"], len(s.task["members"])
    answer = {"program": f"PyTorch {torch.__version__}", "form": args.form, "seed": seed, "threads": args.threads, "target": args.target, "reached": False}
    steps = steps_processor = 0.0
    for epoch in range(1, c["epochs"] + 1):
        order, t, u = chance.permutation(starts), time.perf_counter(), time.process_time()
        for at in range(0, len(order), c["batch_size"]):
            samples = order[at:at + c["batch_size"]]
            members = [[0, *np.sort(1 + chance.permutation(every - 1)[:used - 1])] for _ in samples]
            rate = 1 if step < c["warmup"] else (1 + math.cos(math.pi * (step - c["warmup"]) / (total - c["warmup"]))) / 2
            for g in optimizer.param_groups:
                g["lr"] = c["learning_rate"] * rate * min(1, (step + 1) / c["warmup"])
            optimizer.zero_grad(set_to_none=True)
            net.loss(data.batch(samples, members), weight, spread_weight).backward()
            nn.utils.clip_grad_norm_(net.parameters(), c["clip"])
            optimizer.step()
            step += 1
        steps, steps_processor = steps + time.perf_counter() - t, steps_processor + time.process_time() - u
        loss = validate(net, validation, weight, spread_weight)
        if args.verbose:
            print(epoch, round(loss, 4), flush=True)
        if loss <= args.target:
            answer["reached"] = True
            break
    answer |= {"seconds": round(time.perf_counter() - began, 3), "read_seconds": round(read, 3), "step_ms": round(1000 * steps / step, 2),
               "processor_seconds": round(time.process_time() - processor, 3), "processor_read_seconds": round(read_processor, 3), "processor_step_ms": round(1000 * steps_processor / step, 2),
               "epochs": epoch, "steps": step, "loss": round(loss, 5)}
    return answer


def check(s, args):
    """The loss of the finished training's weights in this network."""
    held = Data(s, args.data, ["validation"])
    batches = [held.batch([i], [s.task["members"]]) for i in held.of("validation")]
    with open(os.path.join(args.run, "events.jsonl")) as f:
        events = [json.loads(line) for line in f]
    want = min(e["validation_loss"] for e in events if "validation_loss" in e and e.get("network", 0) == 0)
    for form in ("d3", "fold"):
        net = Network(s, batches[0][0].shape[1], form)
        state = net.state_dict()
        net.load_state_dict({k: torch.from_numpy(v).reshape(state[k].shape) for k, v in load_file(s.weights).items()})
        print(json.dumps({"form": form, "loss": validate(net, batches, torch.from_numpy(held.weight), s.config["train"]["loss"]["spread"]), "of_the_run": want}))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--run", required=True, help="run directory of a finished training")
    p.add_argument("--data", required=True, help="folder of its data")
    p.add_argument("--target", type=float, help="loss on the validation starts")
    p.add_argument("--seeds", default="1")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--form", choices=("d3", "fold"), default="fold")
    p.add_argument("--check", action="store_true")
    p.add_argument("--verbose", action="store_true")
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    s = Setting(args.run)
    if args.check:
        return check(s, args)
    if not args.target:
        p.error("give --target")
    for seed in args.seeds.split(","):
        print(json.dumps(train(s, args, int(seed))), flush=True)


if __name__ == "__main__":
    main()
