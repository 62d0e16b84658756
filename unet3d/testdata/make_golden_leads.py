#!/usr/bin/env python3
"""Golden files for the networks of leads, computed by PyTorch on the CPU in float64.

    python make_golden_leads.py [NAME …]    writes recurrent_lstm.safetensors, recurrent_gru.safetensors,
                                            time_depth.safetensors, time_factorised.safetensors,
                                            axial.safetensors

Needs torch and safetensors; tested with torch 2.15.  Each file holds the weights, the input as
`golden.input` with the leads of a sample one behind the other, PyTorch's output as `golden.output`,
and the gradient of mean(output^2) with respect to each weight as `golden.grad.NAME`.
"""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
ENCODER, DECODER = (2, 2, 3, 4, 5, 7), (4, 4, 6, 7, 10)


class Conv(nn.Module):
    """A convolution that keeps the grid: longitudes go around, other axes end in zeros."""

    def __init__(self, cin, cout, size=(3, 3, 3), bias=True):
        super().__init__()
        self.size = size
        self.weight = nn.Parameter(torch.zeros(cout, cin, *size))
        if bias:
            self.bias = nn.Parameter(torch.zeros(cout))

    def forward(self, x):
        d, h, w = (k // 2 for k in self.size)
        if w:
            x = torch.cat((x[..., -w:], x, x[..., :w]), -1)
        return F.conv3d(F.pad(x, (0, 0, h, h, d, d)), self.weight, getattr(self, "bias", None))


def double(x):
    """Twice as many rows and columns, half-pixel centres, longitudes around."""
    x = torch.cat((x[..., -1:], x, x[..., :1]), -1)
    n, c, d, h, w = x.shape
    y = F.interpolate(x.reshape(n, c * d, h, w), scale_factor=2, mode="bilinear", align_corners=False)
    return y.reshape(n, c, d, 2 * h, 2 * w)[..., 2:-2]


class UNet(nn.Module):
    """The 3-D U-Net in parts; film tells the encoder's layers, over is a layer that follows each but the last."""

    def __init__(self, cin, base, stages, out=1, conditions=0, code=3, over=False):
        super().__init__()
        self.stages, self.conditions, self.over = stages, conditions, over
        self.leads = 0
        e = [base * w for w in ENCODER]
        widths = {"enc_conv0": (cin, e[0])} | {f"enc_conv{s}": (e[s - 1], e[s]) for s in range(1, stages + 1)}
        up = e[stages]
        for s in range(stages, 0, -1):
            skip, wide = e[s - 1] if s > 1 else cin, base * DECODER[s - 1]
            last = e[0] if s == 1 else wide
            widths[f"dec_conv{s}a"], widths[f"dec_conv{s}b"] = (up + skip, wide), (wide, last)
            up = last
        for name, (i, o) in widths.items():
            layer = Conv(i, o)
            if conditions and name.startswith("enc"):
                layer.film = Conv(code, 2 * o, (1, 1, 1))
            if over:
                layer.time = Conv(o, o, (3, 1, 1))
            setattr(self, name, layer)
        self.dec_conv0 = Conv(up, out)
        if conditions:
            self.condition = Conv(conditions, code, (1, 1, 1))

    def code(self, x):
        if not self.conditions:
            return None
        return F.relu(self.condition(x[:, -self.conditions:].mean((2, 3, 4), keepdim=True)))

    def layer(self, name, x, code):
        of = getattr(self, name)
        y = of(x)
        if code is not None and name.startswith("enc"):
            scale, shift = of.film(code).chunk(2, 1)
            y = y * (1 + scale) + shift
        y = F.relu(y)
        if self.over:
            y = F.relu(rows(of.time(depth(y, self.leads)), y.shape[2]))
        return y

    def encode(self, s, h, code):
        if s == 1:
            h = self.layer("enc_conv0", h, code)
        return F.max_pool3d(self.layer(f"enc_conv{s}", h, code), (1, 2, 2))

    def decode(self, skips, code):
        h = skips[-1]
        for s in range(self.stages, 0, -1):
            h = torch.cat((double(h), skips[s - 1]), 1)
            h = self.layer(f"dec_conv{s}b", self.layer(f"dec_conv{s}a", h, code), code)
        return self.dec_conv0(h)

    def forward(self, x):
        code, skips = self.code(x), [x]
        for s in range(1, self.stages + 1):
            skips.append(self.encode(s, skips[-1], code))
        return self.decode(skips, code)


def depth(x, leads):
    """[N·T C D H W] as [N·D C T H W]."""
    n, c, d, h, w = x.shape
    return x.reshape(-1, leads, c, d, h, w).permute(0, 3, 2, 1, 4, 5).reshape(-1, c, leads, h, w)


def rows(x, levels):
    return depth(x, levels)


class Cell(nn.Module):
    def __init__(self, kind, cin, hidden):
        super().__init__()
        self.kind, self.hidden = kind, hidden
        gates = 4 if kind == "lstm" else 3
        self.input, self.state = Conv(cin, gates * hidden), Conv(hidden, gates * hidden, bias=False)

    def forward(self, x, h, c):
        x, u = self.input(x), self.state(h)
        if self.kind == "lstm":
            i, f, o, g = (x + u).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            return o.sigmoid() * c.tanh(), c
        (r, z, n), (ur, uz, un) = x.chunk(3, 1), u.chunk(3, 1)
        r, z = (r + ur).sigmoid(), (z + uz).sigmoid()
        n = (n + r * un).tanh()
        return (1 - z) * n + z * h, c


class Recurrent(nn.Module):
    def __init__(self, kind, leads, cin, base, stages, hidden, recurrent=1, both=False, truncate=0, conditions=0):
        super().__init__()
        self.leads, self.first, self.both, self.truncate = leads, stages - recurrent + 1, both, truncate
        self.net, self.hidden = UNet(cin, base, stages, conditions=conditions), hidden
        for s in range(self.first, stages + 1):
            width = base * ENCODER[s]
            cell = Cell(kind, width, hidden)
            if both:
                cell.back = Cell(kind, width, hidden)
            cell.out = Conv(hidden * (1 + both), width, (1, 1, 1))
            setattr(self, f"cell{s}", cell)

    def run(self, cell, xs):
        h = c = xs[0].new_zeros(xs[0].shape[0], self.hidden, *xs[0].shape[2:])
        out = []
        for t, x in enumerate(xs):
            if self.truncate and t % self.truncate == 0:
                h, c = h.detach(), c.detach()
            h, c = cell(x, h, c)
            out.append(h)
        return out

    def forward(self, x):
        xs = list(x.reshape(-1, self.leads, *x.shape[1:]).unbind(1))
        codes, skips = [self.net.code(x) for x in xs], [[x] for x in xs]
        for s in range(1, self.net.stages + 1):
            hs = [self.net.encode(s, skip[-1], code) for skip, code in zip(skips, codes)]
            if s >= self.first:
                cell = getattr(self, f"cell{s}")
                heard = self.run(cell, hs)
                if self.both:
                    heard = [torch.cat(p, 1) for p in zip(heard, self.run(cell.back, hs[::-1])[::-1])]
                hs = [h + cell.out(m) for h, m in zip(hs, heard)]
            for skip, h in zip(skips, hs):
                skip.append(h)
        ys = [self.net.decode(skip, code) for skip, code in zip(skips, codes)]
        return torch.stack(ys, 1).flatten(0, 1)


class Depth(nn.Module):
    def __init__(self, leads, *of, **options):
        super().__init__()
        self.leads, self.net = leads, UNet(*of, **options)

    def forward(self, x):
        return rows(self.net(depth(x, self.leads)), x.shape[2])


class Factorised(nn.Module):
    def __init__(self, leads, *of, **options):
        super().__init__()
        self.net = UNet(*of, over=True, **options)
        self.net.leads = leads

    def forward(self, x):
        return self.net(x)


class Norm(nn.Module):
    """Channels of each point."""

    def __init__(self, width):
        super().__init__()
        self.weight, self.bias = (nn.Parameter(torch.zeros(1, width, 1, 1, 1)) for _ in range(2))

    def forward(self, x):
        d = x - x.mean(1, keepdim=True)
        return d / (d.square().mean(1, keepdim=True) + 1e-5).sqrt() * self.weight + self.bias


class Along(nn.Module):
    """Attention along one axis of [N T C D H W], within windows given by their indices."""

    def __init__(self, width, heads, reach, axis, windows):
        super().__init__()
        self.heads, self.reach, self.axis, self.windows = heads, reach, axis, windows
        self.norm, self.qkv, self.out = Norm(width), Conv(width, 3 * width, (1, 1, 1)), Conv(width, width, (1, 1, 1))
        self.offsets = nn.Parameter(torch.zeros(heads, 2 * reach + 1))

    def forward(self, h, leads):
        x = self.qkv(self.norm(h)).unflatten(0, (-1, leads))
        at = self.axis - (self.axis > 2)  # without the channels, which go last
        x = x.movedim(2, -1).movedim(at, -2)  # [… point channel]
        q, k, v = (p.unflatten(-1, (self.heads, -1)).transpose(-2, -3) for p in x.chunk(3, -1))
        o = torch.zeros_like(v)
        for w in self.windows:
            i = torch.arange(len(w))
            bias = self.offsets[:, (i[None] - i[:, None]).clamp(-self.reach, self.reach) + self.reach]
            s = q[..., w, :] @ k[..., w, :].transpose(-1, -2) / q.shape[-1] ** 0.5 + bias
            o = o.index_copy(-2, torch.tensor(w), s.softmax(-1) @ v[..., w, :])
        o = o.transpose(-2, -3).flatten(-2).movedim(-2, at).movedim(-1, 2)
        return h + self.out(o.flatten(0, 1))


def windows(n, size, shifted, periodic):
    """As equal as can be, every second time shifted by half of one."""
    if size >= n:
        return [list(range(n))]
    parts = -(-n // size)
    half = n // parts // 2 if shifted else 0
    starts = [i * n // parts + half for i in range(parts)]
    if half and not periodic:
        starts = [0] + starts
    ends = starts[1:] + [starts[0] + n]
    return [[i % n for i in range(lo, hi)] for lo, hi in zip(starts, ends)]


class Axial(nn.Module):
    def __init__(self, leads, cin, levels, grid, width, heads, blocks, size, conditions, code=3):
        super().__init__()
        self.leads, self.conditions, fine = leads, conditions, width // 2
        self.stem, self.join, self.last = Conv(cin, fine), Conv(2 * fine, fine), Conv(fine, 1, (1, 1, 1))
        self.embed, self.up = nn.Conv3d(fine, width, (1, 2, 2), (1, 2, 2)), nn.ConvTranspose3d(width, fine, (1, 2, 2), (1, 2, 2))
        self.condition, self.blocks = Conv(conditions, code, (1, 1, 1)), blocks
        for i in range(blocks):
            block = nn.Module()
            block.lead = Along(width, heads, 7, 1, windows(leads, leads, False, False))
            if levels > 1:
                block.level = Along(width, heads, 7, 3, windows(levels, levels, False, False))
            block.lat = Along(width, heads, size - 1, 4, windows(grid[0] // 2, size, i % 2 == 1, False))
            block.lon = Along(width, heads, size - 1, 5, windows(grid[1] // 2, size, i % 2 == 1, True))
            block.mlp = nn.Module()
            block.mlp.norm, block.mlp.film = Norm(width), Conv(code, 2 * width, (1, 1, 1))
            block.mlp.out = Conv(2 * width, width, (1, 1, 1))
            setattr(block.mlp, "in", Conv(width, 2 * width, (1, 1, 1)))
            setattr(self, f"block{i}", block)

    def forward(self, x):
        code = F.relu(self.condition(x[:, -self.conditions:].mean((2, 3, 4), keepdim=True)))
        s = F.relu(self.stem(x))
        h = self.embed(s)
        for i in range(self.blocks):
            block = getattr(self, f"block{i}")
            for name in ("lead", "level", "lat", "lon"):
                if hasattr(block, name):
                    h = getattr(block, name)(h, self.leads)
            scale, shift = block.mlp.film(code).chunk(2, 1)
            m = block.mlp.norm(h) * (1 + scale) + shift
            h = h + block.mlp.out(F.relu(getattr(block.mlp, "in")(m)))
        return self.last(F.relu(self.join(torch.cat((self.up(h), s), 1))))


def write(name, net, x):
    if sys.argv[1:] and name not in sys.argv[1:]:
        return
    g = torch.Generator().manual_seed(1911)
    net, x = net.double(), x.double()
    with torch.no_grad():
        for key, p in net.named_parameters():
            p.copy_(torch.randn(p.shape, generator=g) * ((2.0 / p[0].numel()) ** 0.5 if p.dim() > 1 else 0.3))
            p.copy_(p.float().double())
        x = x.float().double()
    y = net(x)
    y.square().mean().backward()
    short = lambda k: k.removeprefix("net.")
    tensors = {short(k): v.detach().float().contiguous() for k, v in net.state_dict().items()}
    tensors |= {"golden.grad." + short(k): p.grad.float().contiguous() for k, p in net.named_parameters()}
    tensors["golden.input"], tensors["golden.output"] = x.float().contiguous(), y.detach().float().contiguous()
    path = os.path.join(HERE, name + ".safetensors")
    save_file(tensors, path)
    print(f"{name}: {sum(p.numel() for p in net.parameters())} parameters, {os.path.getsize(path)} bytes, "
          f"output {tuple(y.shape)} mean |y| {y.abs().mean():.6f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    rng = torch.Generator().manual_seed(711)
    draw = lambda *s: torch.randn(s, generator=rng)
    write("recurrent_lstm", Recurrent("lstm", 3, 3, 1, 2, 2, both=True, truncate=2, conditions=1), draw(3, 3, 2, 8, 12))
    write("recurrent_gru", Recurrent("gru", 3, 2, 1, 2, 2, recurrent=2), draw(6, 2, 1, 8, 12))
    write("time_depth", Depth(4, 2, 1, 1), draw(4, 2, 2, 6, 8))
    factorised = draw(3, 4, 2, 8, 12)
    write("axial", Axial(3, 3, 2, (10, 14), 4, 2, 2, 3, 1), draw(3, 3, 2, 10, 14))
    write("time_factorised", Factorised(3, 4, 1, 2, conditions=2), factorised)
