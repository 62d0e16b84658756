#!/usr/bin/env python3
"""Golden files for the published networks, computed by PyTorch on the CPU.

    python make_golden.py          writes unet3d_base2.safetensors, resnet2d_simple_div8.safetensors
                                   and bias_unet_base2.safetensors
    python make_golden.py baselines  writes drn_8, lenet_small and unet2d_base2.safetensors, of the network
                                   baselines, with gradients

Needs torch, numpy and safetensors; tested with torch 2.15.  The files hold the
weights under the published names, the input as `golden.input` and PyTorch's
output as `golden.output`; a reader that loads the file as a model has to set
those two names aside.

unet3d_base2        3-D U-Net, base width 2 (published 32), 3 input channels, 1
                    output channel, input [1,3,2,32,64] (the smallest height that five
                    poolings allow; height and width differ so that a swap shows).
resnet2d_simple_div8  the published ResNet with every width divided by 8:
                    42 -> 8 -> 12, cat 13 -> 16 -> 20 -> 28 -> 28 -> 20 -> 16, cat 17 -> 1;
                    42 input channels as published, channel 28 re-injected; evaluation mode with
                    running statistics, scales and shifts that are not trivial;
                    input [2,42,12,20].
drn_8, lenet_small, unet2d_base2  the network baselines of ENS-10 in small.  `golden.output` is that of
                        evaluation mode; `golden.gradient.NAME` are the gradients of the mean square of the
                        output in training mode, where batch norm has the statistics of the batch.
"""
import os
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file

HERE = os.path.dirname(os.path.abspath(__file__))


class UNet3D(nn.Module):
    """Layers and names of the published 3-D U-Net; skips carry the pooled tensors.

    With fewer than five stages the deep layers are left out and the rest keep their names.
    """

    def __init__(self, cin, base, cout=1, stages=5):
        super().__init__()
        self.stages = stages
        enc = [w * base for w in (2, 2, 3, 4, 5, 7)]
        dec = [w * base for w in (4, 4, 6, 7, 10)]

        def layer(name, ci, co):
            setattr(self, name, nn.Conv3d(ci, co, 3, padding=1))

        layer("enc_conv0", cin, enc[0])
        for k in range(1, stages + 1):
            layer(f"enc_conv{k}", enc[k - 1], enc[k])
        up = enc[stages]
        for k in range(stages, 0, -1):
            last = dec[k - 1] if k > 1 else enc[0]
            layer(f"dec_conv{k}a", up + (enc[k - 1] if k > 1 else cin), dec[k - 1])
            layer(f"dec_conv{k}b", dec[k - 1], last)
            up = last
        layer("dec_conv0", up, cout)

    def forward(self, inp):
        x = F.relu(self.enc_conv0(inp))
        skips = [inp]
        for k in range(1, self.stages + 1):
            x = F.max_pool3d(F.relu(getattr(self, f"enc_conv{k}")(x)), (1, 2, 2))
            skips.append(x)
        for k in range(self.stages, 0, -1):
            x = F.interpolate(x, scale_factor=(1, 2, 2), mode="trilinear", align_corners=False)
            x = torch.cat((x, skips[k - 1]), 1)
            x = F.relu(getattr(self, f"dec_conv{k}a")(x))
            x = F.relu(getattr(self, f"dec_conv{k}b")(x))
        return self.dec_conv0(x)


class ConvBatchRelu(nn.Module):
    def __init__(self, ci, co):
        super().__init__()
        self.conv = nn.Conv2d(ci, co, 3, padding=1)
        self.bnr = nn.BatchNorm2d(co)

    def forward(self, x):
        return F.relu(self.bnr(self.conv(x)))


class Incep(nn.Module):
    """cat(relu(bn(cat(conv3, conv5, conv7))), conv1), each o/4 wide."""

    def __init__(self, ci, co):
        super().__init__()
        for k in (1, 3, 5, 7):
            setattr(self, f"conv{k}", nn.Conv2d(ci, co // 4, k, padding=k // 2))
        self.bnr = nn.BatchNorm2d(co // 4 * 3)

    def forward(self, x):
        wide = torch.cat((self.conv3(x), self.conv5(x), self.conv7(x)), 1)
        return torch.cat((F.relu(self.bnr(wide)), self.conv1(x)), 1)


class ResNet2DSimple(nn.Module):
    """widths (64, 96, 128, 160, 224) are published; `reinject` is the forecast's own spread."""

    def __init__(self, cin=42, widths=(64, 96, 128, 160, 224), reinject=28):
        super().__init__()
        self.reinject = reinject
        w = widths
        self.convBR0 = ConvBatchRelu(cin, w[0])
        self.convBR1 = ConvBatchRelu(w[0], w[1])
        self.inc1 = Incep(w[1] + 1, w[2])
        self.inc2 = Incep(w[2], w[3])
        self.inc3 = Incep(w[3], w[4])
        self.inc4 = Incep(w[4], w[4])
        self.inc5 = Incep(w[4], w[3])
        self.inc6 = Incep(w[3], w[2])
        self.conv4 = nn.Conv2d(w[2] + 1, 1, 1)

    def forward(self, inp):
        own = inp[:, self.reinject:self.reinject + 1]
        x = self.convBR1(self.convBR0(inp))
        x = self.inc1(torch.cat((own, x), 1))
        for k in (2, 3, 4, 5, 6):
            x = getattr(self, f"inc{k}")(x)
        return self.conv4(torch.cat((own, x), 1))


def around(x):
    """One more column on both sides of a globe."""
    return torch.cat((x[..., -1:], x, x[..., :1]), -1)


class GlobalConv(nn.Conv3d):
    """1x3x3 convolution: zeros beyond the poles, longitudes around."""

    def __init__(self, ci, co):
        super().__init__(ci, co, (1, 3, 3), padding=(0, 1, 0))

    def forward(self, x):
        return super().forward(around(x))


class GlobalCBR(nn.Module):
    def __init__(self, ci, co):
        super().__init__()
        self.conv = GlobalConv(ci, co)
        self.bnr = nn.BatchNorm3d(co)

    def forward(self, x):
        return F.relu(self.bnr(self.conv(x)))


class Local(nn.Module):
    """Every point has a 1x3x3 filter and a bias of its own; one scale a level."""

    def __init__(self, cin, depth, height, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, 9 * cin, depth, height, width))
        self.bias = nn.Parameter(torch.zeros(1, 1, depth, height, width))
        self.scale = nn.Parameter(torch.ones(1, 1, depth, 1, 1))

    def forward(self, x):
        n, c, d, h, w = x.shape
        # unfold gives the nine neighbours of a point for each channel, in rows.
        fields = around(x).permute(0, 2, 1, 3, 4).reshape(n * d, c, h, w + 2)
        near = F.unfold(fields, 3, padding=(1, 0)).reshape(n, d, 9 * c, h, w).permute(0, 2, 1, 3, 4)
        return self.scale * (self.bias + (self.weight * near).sum(1, keepdim=True))


class BiasUNet(nn.Module):
    """Two poolings; skips carry the encoder's fields, which come first where they are joined."""

    def __init__(self, cin, cout, base, depth, height, width):
        super().__init__()
        b = base
        for name, ci, co in (("enc0a", cin, b), ("enc0b", b, 2 * b), ("enc1a", 2 * b, 2 * b), ("enc1b", 2 * b, 4 * b),
                             ("enc2a", 4 * b, 4 * b), ("enc2b", 4 * b, 8 * b), ("dec1a", 12 * b, 4 * b), ("dec1b", 4 * b, 4 * b),
                             ("dec0a", 6 * b, 2 * b), ("dec0b", 2 * b, 2 * b)):
            setattr(self, name, GlobalCBR(ci, co))
        self.up1, self.up0 = GlobalConv(8 * b, 8 * b), GlobalConv(4 * b, 4 * b)
        self.out = nn.Conv3d(2 * b, cout, 1)
        self.local = Local(cout, depth, height, width)

    def doubled(self, x):
        # With a column more on both sides the ends are interpolated around the globe.
        y = F.interpolate(around(x), scale_factor=(1, 2, 2), mode="trilinear", align_corners=False)
        return y[..., 2:-2]

    def forward(self, x):
        e0 = self.enc0b(self.enc0a(x))
        e1 = self.enc1b(self.enc1a(F.max_pool3d(e0, (1, 2, 2))))
        h = self.enc2b(self.enc2a(F.max_pool3d(e1, (1, 2, 2))))
        h = self.dec1b(self.dec1a(torch.cat((e1, self.up1(self.doubled(h))), 1)))
        h = self.dec0b(self.dec0a(torch.cat((e0, self.up0(self.doubled(h))), 1)))
        return self.local(self.out(h))


class DRN(nn.Module):
    """One hidden layer over the channels of each point."""

    def __init__(self, cin, hidden, cout):
        super().__init__()
        self.hidden, self.out = nn.Linear(cin, hidden), nn.Linear(hidden, cout)

    def forward(self, x):
        return self.out(F.relu(self.hidden(x.movedim(1, -1)))).movedim(-1, 1)


class LeNet(nn.Module):
    """LeNet-5 without subsampling, of the 13x13 points around each point: one patch after the other."""

    def __init__(self, cin, widths, cout):
        super().__init__()
        a, b, c, d = widths
        self.conv1, self.conv2, self.conv3 = nn.Conv2d(cin, a, 5), nn.Conv2d(a, b, 5), nn.Conv2d(b, c, 5)
        self.hidden, self.out = nn.Linear(c, d), nn.Linear(d, cout)

    def patch(self, x, j, i):
        # What lies beyond the field has no value in any layer: zeros, behind each of them.
        for conv, reach in ((self.conv1, 4), (self.conv2, 2), (self.conv3, 0)):
            h, w = x.shape[2:]
            size = 2 * reach + 1
            full = F.pad(x, (reach + 2,) * 4) if conv is self.conv1 else x
            if conv is self.conv1:
                full = full[:, :, j:j + size + 4, i:i + size + 4]
            x = F.relu(conv(full))
            rows = torch.arange(j - reach, j + reach + 1)
            columns = torch.arange(i - reach, i + reach + 1)
            inside = ((rows >= 0) & (rows < self.rows))[:, None] & ((columns >= 0) & (columns < self.columns))[None]
            x = x * inside
        return self.out(F.relu(self.hidden(x[:, :, 0, 0])))

    def forward(self, x):
        self.rows, self.columns = x.shape[2:]
        points = [self.patch(x, j, i) for j in range(self.rows) for i in range(self.columns)]
        return torch.stack(points, -1).reshape(len(x), -1, self.rows, self.columns)


class UNet2D(nn.Module):
    """The U-Net of spcl/ens10 on sides that divide by 4."""

    def __init__(self, cin, cout, base=32):
        super().__init__()
        w = base
        for name, ci, co in (("enc_l0", cin, (w, w)), ("enc_l1", w, (2 * w, 2 * w)), ("enc_l2", 2 * w, (4 * w, 4 * w)),
                             ("dec_l2", 4 * w, (4 * w, 2 * w)), ("dec_l1", 4 * w, (2 * w, w)), ("dec_l0", 2 * w, (w, w))):
            for k, width in enumerate(co):
                setattr(self, f"{name}_{k}", ConvBatchRelu(ci, width))
                ci = width
        self.dec_l0_2 = nn.Sequential(nn.Conv2d(w, cout, 3, padding=1))

    def block(self, name, x):
        return getattr(self, name + "_1")(getattr(self, name + "_0")(x))

    def forward(self, x):
        up = lambda h: F.interpolate(h, scale_factor=2, mode="bilinear", align_corners=False)
        e0 = self.block("enc_l0", x)
        e1 = self.block("enc_l1", F.max_pool2d(e0, 2))
        h = self.block("dec_l2", self.block("enc_l2", F.max_pool2d(e1, 2)))
        h = self.block("dec_l1", torch.cat((e1, up(h)), 1))
        return self.dec_l0_2(self.block("dec_l0", torch.cat((e0, up(h)), 1)))


def write(name, net, x, gradients=False):
    # He-normal weights keep the signal of order one through all layers, so
    # that a relative tolerance on the output tests every one of them.
    g = torch.Generator().manual_seed(20190)
    with torch.no_grad():
        for key, p in net.named_parameters():
            if p.dim() > 1:
                fan = p[0].numel()
                p.copy_(torch.randn(p.shape, generator=g) * (2.0 / fan) ** 0.5)
            elif ".bnr." in key and key.endswith("weight"):
                p.copy_(0.5 + torch.rand(p.shape, generator=g))
            else:
                p.copy_(0.1 * torch.randn(p.shape, generator=g))
        for key, buf in net.named_buffers():
            if key.endswith("running_mean"):
                buf.copy_(0.3 * torch.randn(buf.shape, generator=g))
            elif key.endswith("running_var"):
                buf.copy_(0.5 + 1.5 * torch.rand(buf.shape, generator=g))
        net.eval()
        y = net(x)
        y64 = net.double()(x.double())
        net.float()
    tensors = {k: v.clone().contiguous() for k, v in net.state_dict().items()
               if not k.endswith("num_batches_tracked")}
    tensors["golden.input"], tensors["golden.output"] = x, y.contiguous()
    if gradients:
        net.train()
        net(x).square().mean().backward()
        for key, p in net.named_parameters():
            tensors["golden.gradient." + key] = p.grad.contiguous()
    path = os.path.join(HERE, name + ".safetensors")
    save_file(tensors, path)
    count = sum(p.numel() for p in net.parameters())
    print(f"{name}: {count} parameters, {os.path.getsize(path)} bytes, output {tuple(y.shape)} "
          f"mean |y| {y.abs().mean():.6f}, float32 against float64 "
          f"{(y - y64).abs().max() / y64.abs().max():.2e}")


def check_oracles():
    """Published parameter counts, and the forward oracle of sines at base 4."""
    count = lambda n: sum(p.numel() for p in n.parameters())
    assert count(UNet3D(42, 32)) == 17142689, count(UNet3D(42, 32))
    assert count(ResNet2DSimple()) == 3762530, count(ResNet2DSimple())
    assert count(UNet2D(14, 2)) == 633698, count(UNet2D(14, 2))
    assert count(UNet2D(22, 2)) == 636002, count(UNet2D(22, 2))
    assert count(DRN(17, 128, 2)) == 2562, count(DRN(17, 128, 2))
    assert count(DRN(25, 128, 2)) == 3586, count(DRN(25, 128, 2))
    net = UNet3D(3, 4).double()
    with torch.no_grad():
        for gi, (_, p) in enumerate(net.named_parameters()):
            n = torch.arange(p.numel(), dtype=torch.float64)
            v = torch.sin(.37 * n + .11 * gi) * np.sqrt(2 / (27 * p.shape[1])) if p.dim() > 1 else .01 * torch.cos(n + gi)
            p.copy_(v.reshape(p.shape))
        y = net(torch.sin(.05 * torch.arange(3 * 2 * 32 * 32, dtype=torch.float64)).reshape(1, 3, 2, 32, 32))
    got = (y.sum().item(), y[0, 0, 1, 16, 7].item())
    assert np.allclose(got, (-4.0467384162, -0.0051662204), rtol=1e-7), got


if __name__ == "__main__":
    torch.set_num_threads(1)
    check_oracles()
    if sys.argv[1:] == ["baselines"]:
        rng = torch.Generator().manual_seed(2022)
        write("drn_8", DRN(5, 8, 3), torch.randn((2, 5, 3, 4), generator=rng), True)
        write("lenet_small", LeNet(3, (2, 3, 5, 4), 2), torch.randn((2, 3, 14, 15), generator=rng), True)
        write("unet2d_base2", UNet2D(5, 3, 2), torch.randn((2, 5, 8, 12), generator=rng), True)
        sys.exit()
    rng = torch.Generator().manual_seed(1911)
    write("unet3d_base2", UNet3D(3, 2), torch.randn((1, 3, 2, 32, 64), generator=rng))
    bias = torch.randn((2, 5, 1, 8, 12), generator=torch.Generator().manual_seed(2005))
    write("bias_unet_base2", BiasUNet(5, 3, 2, 1, 8, 12), bias)
    write("resnet2d_simple_div8", ResNet2DSimple(widths=(8, 12, 16, 20, 28)),
          torch.randn((2, 42, 12, 20), generator=rng))
