"""Networks from features to output channels, under the names of their weights.

Layers have the shapes of the weights, so networks with removed channels need no description of their own. Fields are
[N C D Y X]. Filters of two dimensions are shared by all levels. Latitudes are padded with zeros; so are longitudes, unless
they are periodic.

Sources: Grönquist et al. 2021, doi:10.1098/rsta.2020.0092; Ashkboos et al. 2022, arXiv:2206.14786; LeCun et al. 1998,
doi:10.1109/5.726791; Rasp and Lerch 2018, doi:10.1175/MWR-D-18-0187.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LocallyConnected(nn.Module):
    """A convolution over 1 x k x k points whose weights differ between grid points, with one scale a channel and level.

    Shapes: weight [out in·k² D Y X], bias [1 out D Y X], scale [1 out D 1 1].
    """

    def __init__(self, weight: Tensor, bias: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.weight, self.bias, self.scale = nn.Parameter(weight), nn.Parameter(bias), nn.Parameter(scale)

    def forward(self, x: Tensor, periodic: bool) -> Tensor:
        n, c, d, h, w = x.shape
        taps = self.weight.shape[1] // c
        k = round(taps**0.5)
        p = k // 2
        rows = _wrapped(x, p, periodic).permute(0, 2, 1, 3, 4).flatten(0, 1)
        near = F.unfold(rows, k, padding=(p, 0)).reshape(n, d, c * taps, h, w).permute(0, 2, 1, 3, 4)
        return self.scale * (self.bias + (self.weight * near[:, None]).sum(2))


class Body(nn.Module):
    """A network of a kind, from the tensors of its file."""

    def __init__(self, kind: str, tensors: Mapping[str, Tensor], description: Mapping[str, Any]) -> None:
        super().__init__()
        if kind not in _FORWARD:
            raise NotImplementedError(f"networks of the kind {kind!r} are not known to this package, only {', '.join(_FORWARD)}")
        self.kind, self.description = kind, dict(description)
        layers: dict[str, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            layer, _, parameter = name.rpartition(".")
            layers.setdefault(layer, {})[parameter] = tensor
        for name, parameters in layers.items():
            self._add(name, _layer(parameters))

    def _add(self, name: str, layer: nn.Module) -> None:
        """Add a layer under a name with points, as PyTorch names modules in modules."""
        parent: nn.Module = self
        *path, last = name.split(".")
        for part in path:
            if not hasattr(parent, part):
                parent.add_module(part, nn.Module())
            parent = parent.get_submodule(part)
        parent.add_module(last, layer)

    def forward(self, x: Tensor, anomaly: Tensor | None = None) -> Tensor:
        periodic = bool(self.description["periodic"])
        if self.kind == "bias":
            assert anomaly is not None
            return _correction(self, x, anomaly, periodic)
        return _FORWARD[self.kind](self, x, periodic)

    def has(self, name: str) -> bool:
        return any(n == name for n, _ in self.named_modules())


def _layer(parameters: Mapping[str, Tensor]) -> nn.Module:
    """The layer that has parameters of these names and shapes, with their values."""
    weight = parameters["weight"]
    if "scale" in parameters:
        return LocallyConnected(weight, parameters["bias"], parameters["scale"])
    out, *into = weight.shape
    layer: nn.Module
    if "running_mean" in parameters:
        layer = nn.BatchNorm3d(out)
    elif weight.ndim == 2:
        layer = nn.Linear(into[0], out)
    elif weight.ndim == 4:
        layer = nn.Conv2d(into[0], out, (into[1], into[2]))
    else:
        layer = nn.Conv3d(into[0], out, (into[1], into[2], into[3]))
    layer.load_state_dict(dict(parameters), strict="running_mean" not in parameters)  # num_batches_tracked is not in the files
    return layer.eval()


def _wrapped(x: Tensor, columns: int, periodic: bool) -> Tensor:
    """Columns added on both sides: of the other end, or zeros."""
    if columns == 0:
        return x
    if periodic:
        return torch.cat((x[..., -columns:], x, x[..., :columns]), -1)
    return F.pad(x, (columns, columns))


def _conv(net: nn.Module, name: str, x: Tensor, periodic: bool) -> Tensor:
    """A convolution on the same grid. Linear layers are convolutions of one point."""
    layer = net.get_submodule(name)
    weight: Tensor = layer.get_parameter("weight")
    while weight.ndim < 5:
        weight = weight.unsqueeze(2)
    d, h, w = weight.shape[2:]
    return F.conv3d(_wrapped(x, w // 2, periodic), weight, layer.get_parameter("bias"), padding=(d // 2, h // 2, 0))


def _norm_relu(net: nn.Module, name: str, x: Tensor) -> Tensor:
    normed: Tensor = net.get_submodule(name)(x)
    return F.relu(normed)


def _doubled(x: Tensor, periodic: bool) -> Tensor:
    """Bilinear upsampling by 2 along latitude and longitude."""
    if not periodic:
        return F.interpolate(x, scale_factor=(1, 2, 2), mode="trilinear", align_corners=False)
    return F.interpolate(_wrapped(x, 1, True), scale_factor=(1, 2, 2), mode="trilinear", align_corners=False)[..., 2:-2]


def _halved(x: Tensor) -> Tensor:
    return F.max_pool3d(x, (1, 2, 2))


def _padded(x: Tensor, poolings: int, periodic: bool, build: Callable[[Tensor, bool], Tensor]) -> Tensor:
    """Apply a network on a grid of any size, padded to a multiple of 2^poolings.

    Rows of zeros are added in the south. Around the globe columns of the other end are added on both sides, at least
    2^poolings of them if the grid has as many; else columns of zeros in the east.
    """
    side = 1 << poolings
    rows, columns = x.shape[3:]
    south, west, east = -rows % side, 0, -columns % side
    if south:
        x = F.pad(x, (0, 0, 0, south))
    if east and periodic and east <= columns:
        if east + side <= columns:
            east += side
        west, east = east // 2, east - east // 2
        x = torch.cat((x[..., columns - west :], x, x[..., :east]), -1)
    elif east:
        x, periodic = F.pad(x, (0, east)), False
    return build(x, periodic)[..., :rows, west : west + columns]


def _unet3d(net: Body, x: Tensor, periodic: bool) -> Tensor:
    """3-D U-Net: layers of 3x3x3, poolings of 1x2x2. Skips carry the pooled fields of the stage above."""
    stages = max(k for k in range(1, 6) if net.has(f"enc_conv{k}"))

    def layer(name: str, h: Tensor, wrap: bool) -> Tensor:
        return F.relu(_conv(net, name, h, wrap))

    def build(h: Tensor, wrap: bool) -> Tensor:
        skips = [h]
        h = layer("enc_conv0", h, wrap)
        for k in range(1, stages + 1):
            h = _halved(layer(f"enc_conv{k}", h, wrap))
            skips.append(h)
        for k in range(stages, 0, -1):
            h = torch.cat((_doubled(h, wrap), skips[k - 1]), 1)
            h = layer(f"dec_conv{k}b", layer(f"dec_conv{k}a", h, wrap), wrap)
        return _conv(net, "dec_conv0", h, wrap)

    return _padded(x, stages, periodic, build)


def _resnet2d(net: Body, x: Tensor, periodic: bool) -> Tensor:
    """resnet2d_simple of the published code, for one level."""
    at = int(net.description["reinject"])
    own = x[:, at : at + 1]
    h = x
    for name in ("convBR0", "convBR1"):
        h = _norm_relu(net, f"{name}.bnr", _conv(net, f"{name}.conv", h, periodic))
    h = torch.cat((own, h), 1)
    for k in range(1, 7):
        name, parts = f"inc{k}", [_conv(net, f"inc{k}.conv{size}", h, periodic) for size in (3, 5, 7, 1)]
        h = torch.cat((_norm_relu(net, f"{name}.bnr", torch.cat(parts[:3], 1)), parts[3]), 1)
    return _conv(net, "conv4", torch.cat((own, h), 1), periodic)


def _drn(net: Body, x: Tensor, periodic: bool) -> Tensor:
    """One hidden layer over the channels of each point."""
    return _conv(net, "out", F.relu(_conv(net, "hidden", x, periodic)), periodic)


def _lenet(net: Body, x: Tensor, periodic: bool) -> Tensor:
    """LeNet-5 without subsampling, of the 13x13 points around each point."""
    for name in ("conv1", "conv2", "conv3", "hidden"):
        x = F.relu(_conv(net, name, x, periodic))
    return _conv(net, "out", x, periodic)


def _unet2d(net: Body, x: Tensor, periodic: bool) -> Tensor:
    """2-D U-Net of ENS-10: two poolings, blocks of two layers with batch normalisation."""

    def build(h: Tensor, wrap: bool) -> Tensor:
        def block(name: str, h: Tensor) -> Tensor:
            for k in (0, 1):
                h = _norm_relu(net, f"{name}_{k}.bnr", _conv(net, f"{name}_{k}.conv", h, wrap))
            return h

        e0 = block("enc_l0", h)
        e1 = block("enc_l1", _halved(e0))
        h = block("dec_l2", block("enc_l2", _halved(e1)))
        h = block("dec_l1", torch.cat((e1, _doubled(h, wrap)), 1))
        return _conv(net, "dec_l0_2.0", block("dec_l0", torch.cat((e0, _doubled(h, wrap)), 1)), wrap)

    return _padded(x, 2, periodic, build)


def _bias_unet(net: Body, x: Tensor, periodic: bool) -> Tensor:
    """U-Net of the bias stage: two layers a stage; skips come first where they are joined."""
    stages = max(k for k in range(4) if net.has(f"enc{k}a"))

    def build(h: Tensor, wrap: bool) -> Tensor:
        def layer(name: str, h: Tensor) -> Tensor:
            return _norm_relu(net, f"{name}.bnr", _conv(net, f"{name}.conv", h, wrap))

        for name in ("enc0a", "enc0b", "enc0c", "enc0d"):
            if net.has(name):
                h = layer(name, h)
        skips = []
        for k in range(1, stages + 1):
            skips.append(h)
            h = layer(f"enc{k}b", layer(f"enc{k}a", _halved(h)))
        for k in range(stages - 1, -1, -1):
            h = torch.cat((skips[k], _conv(net, f"up{k}", _doubled(h, wrap), wrap)), 1)
            h = layer(f"dec{k}b", layer(f"dec{k}a", h))
        return _conv(net, "out", h, wrap)

    return _padded(x, stages, periodic, build)


def _correction(net: Body, features: Tensor, anomaly: Tensor, periodic: bool) -> Tensor:
    """Stage B: shift = u + local(u + anomaly), with u the output of the U-Net. The local layer is optional."""
    u = _bias_unet(net, features, periodic)
    if not net.has("local"):
        return u
    local: Tensor = net.get_submodule("local")(u + anomaly, periodic)
    return u + local


_FORWARD: dict[str, Callable[[Body, Tensor, bool], Tensor]] = {
    "unet3d": _unet3d,
    "resnet2d_simple": _resnet2d,
    "drn": _drn,
    "lenet": _lenet,
    "unet2d": _unet2d,
    "bias": _bias_unet,
}
