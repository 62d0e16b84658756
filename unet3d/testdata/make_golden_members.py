#!/usr/bin/env python3
"""Golden files for the networks of members, computed by PyTorch on the CPU in float64.

    python make_golden_members.py    writes poet_small.safetensors, poet_axial.safetensors,
                                     member_transformer.safetensors, member_attention_pool.safetensors

Needs torch and safetensors; tested with torch 2.15.  Each file holds the weights, the input as
`golden.input` with the members of a sample one behind the other, PyTorch's output as `golden.output`,
and the gradient of mean(output^2) with respect to each weight as `golden.grad.NAME`.
"""
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file

HERE = os.path.dirname(os.path.abspath(__file__))


def around(x, pad):
    """Padding of a globe: longitudes around, zeros beyond the poles."""
    return F.pad(F.pad(x, (pad, pad, 0, 0), mode="circular"), (0, 0, pad, pad))


class GlobalConv(nn.Conv2d):
    def forward(self, x):
        return super().forward(around(x, self.kernel_size[0] // 2))


class Attention(nn.Module):
    """norm: 'cell', 'channel' or 'none'; weights: 'global', 'axial' or 'point'."""

    def __init__(self, members, channels, heads, width, stride, grid, norm, weights):
        super().__init__()
        self.members, self.heads, self.weights, self.kind = members, heads, weights, norm
        if norm != "none":
            self.norm = nn.Module()
            shape = (1, channels, 1, *grid) if norm == "cell" else (1, channels, 1, 1, 1)
            self.norm.weight, self.norm.bias = nn.Parameter(torch.ones(shape)), nn.Parameter(torch.zeros(shape))
        self.value = nn.Conv2d(channels, width, 1, bias=False)
        self.key = nn.Conv2d(channels, width, stride, stride=stride, bias=False)
        self.query = nn.Conv2d(channels, width, stride, stride=stride, bias=False)
        self.out = nn.Conv2d(width, channels, 1)

    def forward(self, z):
        n = z
        if self.kind != "none":
            n = F.layer_norm(z, z.shape[1:])
            n = n * self.norm.weight[:, :, 0] + self.norm.bias[:, :, 0]
        split = lambda x: x.reshape(-1, self.members, self.heads, x.shape[1] // self.heads, *x.shape[2:])
        v, k, q = split(self.value(n)), split(F.relu(self.key(n))), split(F.relu(self.query(n)))
        d = v - v.mean(1, keepdim=True)
        per, h, w = k.shape[3:]
        if self.weights == "global":
            g = torch.einsum("nihcyx,njhcyx->nhij", k, q) / (per * h * w) ** 0.5
            parts = [torch.einsum("nhij,nihcyx->njhcyx", g.softmax(2), d)]
        elif self.weights == "point":
            g = torch.einsum("nihcyx,njhcyx->nhijyx", k, q) / per ** 0.5
            parts = [torch.einsum("nhijyx,nihcyx->njhcyx", g.softmax(2), d)]
        else:
            rows = torch.einsum("nihcyx,njhcyx->nhijy", k, q) / (per * w) ** 0.5
            columns = torch.einsum("nihcyx,njhcyx->nhijx", k, q) / (per * h) ** 0.5
            parts = [torch.einsum("nhijy,nihcyx->njhcyx", rows.softmax(2), d),
                     torch.einsum("nhijx,nihcyx->njhcyx", columns.softmax(2), d)]
        join = lambda o: self.out((v + o).reshape(z.shape[0], -1, *z.shape[2:])) + z
        return F.relu(sum(join(o) for o in parts))


class PoET(nn.Module):
    def __init__(self, members, cin, widths, heads, attended, grid, norm="cell", weights="global", stride=3):
        super().__init__()
        self.stages = len(widths)
        self.first = self.stages - attended
        for s, w in enumerate(widths):
            setattr(self, f"enc{s}a", GlobalConv(cin if s == 0 else widths[s - 1], w, 5))
            setattr(self, f"enc{s}b", GlobalConv(w, w, 5))
            if s >= self.first:
                size = (grid[0] >> s, grid[1] >> s)
                setattr(self, f"attn{s}", Attention(members, w, heads, heads, stride, size, norm, weights))
            wide = w if s == self.stages - 1 else 2 * w
            setattr(self, f"dec{s}", GlobalConv(wide, w, 3))
            if s > 0:
                setattr(self, f"up{s}", nn.ConvTranspose2d(w, widths[s - 1], 2, stride=2))
        self.out = nn.Conv2d(widths[0], 1, 1)

    def forward(self, x):
        skips = []
        for s in range(self.stages):
            if s > 0:
                x = F.max_pool2d(x, 2)
            x = F.relu(getattr(self, f"enc{s}b")(F.relu(getattr(self, f"enc{s}a")(x))))
            skips.append(x)
        for s in range(self.first, self.stages):
            skips[s] = getattr(self, f"attn{s}")(skips[s])
        h = skips[-1]
        for s in range(self.stages - 1, 0, -1):
            h = F.relu(getattr(self, f"dec{s}")(h))
            up = getattr(self, f"up{s}")
            h = torch.cat((F.relu(up(h, output_size=skips[s - 1].shape[2:])), skips[s - 1]), 1)
        return self.out(F.relu(self.dec0(h)))


class MemberTransformer(nn.Module):
    def __init__(self, members, cin, width, heads, values, layers, weights, norm="channel"):
        super().__init__()
        self.layers = layers
        for i in range(layers):
            setattr(self, f"conv{i}", GlobalConv(cin if i == 0 else width, width, 5))
        self.attn0 = Attention(members, width, heads, values, 1, (), norm, weights)
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        for i in range(self.layers):
            x = F.relu(getattr(self, f"conv{i}")(x))
        return self.out(self.attn0(x))


class Pool(nn.Module):
    """Two layers for each member, then attention of one learned query over members at each point."""

    def __init__(self, members, cin, width, heads):
        super().__init__()
        self.members, self.heads = members, heads
        self.members_conv0 = nn.Conv3d(cin, width, 3, padding=1)
        self.members_conv1 = nn.Conv3d(width, width, 3, padding=1)
        self.members_query = nn.Parameter(torch.zeros(1, width, 1, 1, 1))
        self.members_key = nn.Conv3d(width, width, 1)
        self.members_value = nn.Conv3d(width, width, 1)
        self.members_out = nn.Conv3d(width, width, 1)

    def forward(self, x):
        x = F.relu(self.members_conv1(F.relu(self.members_conv0(x))))
        width = x.shape[1]
        rows = lambda t: t.reshape(-1, self.members, width, t.shape[2:].numel())
        k, v = rows(self.members_key(x)), rows(self.members_value(x))
        points = lambda t: t.permute(0, 3, 1, 2).reshape(-1, self.members, width)
        q = self.members_query.reshape(1, 1, width).expand(points(k).shape[0], 1, width)
        split = lambda t: t.reshape(t.shape[0], t.shape[1], self.heads, -1).transpose(1, 2)
        o = F.scaled_dot_product_attention(split(q), split(points(k)), split(points(v)))
        o = o.transpose(1, 2).reshape(-1, v.shape[3], width).permute(0, 2, 1).reshape(-1, width, *x.shape[2:])
        return self.members_out(o)


def write(name, net, x):
    g = torch.Generator().manual_seed(2303)
    net, x = net.double(), x.double()
    with torch.no_grad():
        for key, p in net.named_parameters():
            if p.dim() > 1 and ".norm." not in key and "query" not in key.split(".")[0]:
                p.copy_(torch.randn(p.shape, generator=g) * (2.0 / p[0].numel()) ** 0.5)
            elif key.endswith("norm.weight"):
                p.copy_(0.5 + torch.rand(p.shape, generator=g))
            else:
                p.copy_(0.3 * torch.randn(p.shape, generator=g))
            p.copy_(p.float().double())
        x = x.float().double()
    y = net(x)
    y.square().mean().backward()
    tensors = {k: v.detach().float().contiguous() for k, v in net.state_dict().items()}
    tensors |= {"golden.grad." + k: p.grad.float().contiguous() for k, p in net.named_parameters()}
    tensors["golden.input"], tensors["golden.output"] = x.float().contiguous(), y.detach().float().contiguous()
    path = os.path.join(HERE, name + ".safetensors")
    save_file(tensors, path)
    print(f"{name}: {sum(p.numel() for p in net.parameters())} parameters, {os.path.getsize(path)} bytes, "
          f"output {tuple(y.shape)} mean |y| {y.abs().mean():.6f}")


def check_counts():
    """Published parameter counts."""
    count = lambda n: sum(p.numel() for p in n.parameters())
    small = (8, 16, 32, 64)
    assert count(PoET(10, 7, small, 8, 3, (361, 720))) == 3923665
    assert count(PoET(10, 21, small, 8, 3, (361, 720))) == 3926465
    assert count(PoET(10, 7, (16, 32, 64, 128), 8, 4, (361, 720))) == 16717361
    assert count(PoET(11, 5, (16, 32, 64), 8, 3, (181, 360))) == 3929297


if __name__ == "__main__":
    torch.set_num_threads(1)
    check_counts()
    rng = torch.Generator().manual_seed(1124)
    draw = lambda *s: torch.randn(s, generator=rng)
    write("poet_small", PoET(3, 2, (4, 6), 2, 2, (13, 18)), draw(6, 2, 13, 18))
    write("poet_axial", PoET(4, 2, (3, 4), 2, 1, (8, 10), norm="channel", weights="axial", stride=1), draw(4, 2, 8, 10))
    write("member_transformer", MemberTransformer(3, 2, 4, 2, 6, 2, "point"), draw(6, 2, 6, 9))
    write("member_attention_pool", Pool(3, 2, 8, 4), draw(6, 2, 2, 5, 6))
