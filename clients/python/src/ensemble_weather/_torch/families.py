"""Families of distributions: from outputs of a network to parameters, and from parameters to mean and standard deviation.

Sources: as docs/networks.md of the program, section Distributions; moments as Johnson, Kotz and Balakrishnan 1994,
Continuous univariate distributions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

# How a parameter depends on the unit and the origin of the variable.
Role = Literal["location", "scale", "log_location", "invariant"]
Moments = Callable[[Sequence[Tensor]], tuple[Tensor, Tensor]]

# Variables without values below 0, whose published distribution is the censored one.
NON_NEGATIVE = frozenset({"q", "r", "10si", "10fg", "tp", "cp", "tcw", "tcwv", "sund"})

_LOGISTIC_STD = math.pi / math.sqrt(3)
# Logistic approximation of the normal distribution function: Haley 1952.
_LOGISTIC_SCALE = 1.702
_SIGMA_FLOOR, _SIGMA_BEND = 0.01, 10.0
_MIN_PROBABILITY = 1e-6
_GAMMA_SHIFT = 0.35


@dataclass(frozen=True)
class Parts:
    """Outputs of a network from which a family computes its parameters.

    Shapes: [N V D Y X]; edges [V D bins+1], of histograms. Unit: the error scale.
    """

    shift: Tensor
    sigma: Tensor
    centre: Tensor  # mean of the members
    extra: Sequence[Tensor]
    edges: Tensor | None


@dataclass(frozen=True)
class Family:
    """A family of distributions.

    parameters  names, as in the published variables X_parameter_NAME
    roles       of the parameters
    link        parameters of a network, in units of the error scale, locations relative to the members' mean
    moments     mean and standard deviation from the parameters, in double precision: sums of powers cancel
    extra       names of the outputs besides shift and sigma
    initial     values that networks without maps add to these outputs
    average     parameters of the average of several networks; None: the mean of each
    """

    parameters: tuple[str, ...]
    roles: tuple[Role, ...]
    link: Callable[[Parts], list[Tensor]]
    moments: Moments
    extra: tuple[str, ...] = ()
    initial: tuple[float, ...] = ()
    average: Callable[[Sequence[Sequence[Tensor]]], list[Tensor]] | None = None


def soft_floor(x: Tensor) -> Tensor:
    """A positive value close to x where x is not small: 0.01 + softplus(10 x)/10."""
    return softplus(x * _SIGMA_BEND) / _SIGMA_BEND + _SIGMA_FLOOR


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)), exact for all x; PyTorch's is x itself from 20 on."""
    return torch.logaddexp(x, torch.zeros_like(x))


def _pdf(z: Tensor) -> Tensor:
    return torch.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def _from_raw(e: Tensor, e2: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation from the first two raw moments."""
    return e, torch.sqrt(torch.clamp(e2 - e * e, min=0))


def _normal(p: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    return p[0], p[1]


def _logistic(p: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    return p[0], p[1] * _LOGISTIC_STD


def _censored_normal(p: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Of max(X, 0), X normal: E = mu Φ + sigma φ, E² = (mu² + sigma²) Φ + mu sigma φ at mu/sigma."""
    mu, sigma = p
    u = mu / sigma
    below, density = torch.special.ndtr(u), _pdf(u)
    return _from_raw(mu * below + sigma * density, (mu * mu + sigma * sigma) * below + mu * sigma * density)


def _truncated_normal(p: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """With l = −mu/sigma and h = φ(l)/(1−Φ(l)): mean mu + sigma h, variance sigma²(1 − h(h − l))."""
    mu, sigma = p
    low = -mu / sigma
    h = math.sqrt(2 / math.pi) / torch.special.erfcx(low / math.sqrt(2))  # without underflow for l >> 0
    return sigma * (h - low), sigma * torch.sqrt(torch.clamp(1 - h * (h - low), min=0))


def _zero_normal(p: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    m, s = _truncated_normal(p[1:])
    return _from_raw((1 - p[0]) * m, (1 - p[0]) * (m * m + s * s))


def _negative_dilogarithm(u: Tensor) -> Tensor:
    """−Li₂(−eᵘ), by inversion for u > 0 and Landen's identity: NIST DLMF 25.12."""
    x = torch.exp(-u.abs())
    z = x / (1 + x)
    series = sum((z**n / (n * n) for n in range(60, 0, -1)), torch.zeros_like(u))
    below = series + torch.log1p(x) ** 2 / 2
    return torch.where(u > 0, math.pi**2 / 6 + u * u / 2 - below, below)


def _censored_logistic(p: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    mu, s = p
    return _from_raw(s * softplus(mu / s), 2 * s * s * _negative_dilogarithm(mu / s))


def _truncated_logistic(p: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Raw moments of the censored distribution over the probability above 0; far below 0 it is exponential."""
    mu, s = p
    above = torch.sigmoid(mu / s)
    mean, std = _from_raw(s * softplus(mu / s) / above, 2 * s * s * _negative_dilogarithm(mu / s) / above)
    far = mu / s < -30
    return torch.where(far, s, mean), torch.where(far, s, std)


def _log_normal(p: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    v = p[1] * p[1]
    mean = torch.exp(p[0] + v / 2)
    return mean, mean * torch.sqrt(torch.expm1(v))


def _student(p: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    return p[0], p[1] * torch.sqrt(p[2] / (p[2] - 2))


def _gamma(p: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Gamma shifted left and censored at 0, with S_k the gamma tail beyond shift/scale:

    E = θ k S_{k+1} − shift S_k,  E² = θ² k(k+1) S_{k+2} − 2 shift θ k S_{k+1} + shift² S_k.
    """
    k, theta, shift = p
    s0, s1, s2 = (torch.special.gammaincc(k + i, shift / theta) for i in range(3))
    e2 = theta**2 * k * (k + 1) * s2 - 2 * shift * theta * k * s1 + shift**2 * s0
    return _from_raw(theta * k * s1 - shift * s0, e2)


def _average_gamma(networks: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """Means of mean and standard deviation of the gamma distributions before the shift, and of the shifts."""
    n = len(networks)
    mean = sum((p[0] * p[1] / n for p in networks[1:]), networks[0][0] * networks[0][1] / n)
    std = sum((torch.sqrt(p[0]) * p[1] / n for p in networks[1:]), torch.sqrt(networks[0][0]) * networks[0][1] / n)
    shift = sum((p[2] / n for p in networks[1:]), networks[0][2] / n)
    ratio = mean / std
    return [ratio * ratio, std / ratio, shift]


def _bernstein_basis(degree: int, t: Tensor) -> list[Tensor]:
    """Bernstein polynomials of a degree at t."""
    return [math.comb(degree, i) * t**i * (1 - t) ** (degree - i) for i in range(degree + 1)]


def _bernstein_moments(p: Sequence[Tensor], t: Tensor) -> tuple[Tensor, Tensor]:
    """Of a quantile function that is a Bernstein polynomial, with its values below the level t as 0.

    The integral from t to 1 of the polynomial with coefficients c_0 … c_n is Σ c_j P(X ≤ j)/(n+1), X binomial with n+1 trials
    of probability t. The square of a polynomial is one of twice the degree.
    """
    d = len(p) - 1
    square = [torch.zeros_like(p[0]) for _ in range(2 * d + 1)]
    for i, j in itertools.product(range(d + 1), repeat=2):
        square[i + j] = square[i + j] + math.comb(d, i) * math.comb(d, j) / math.comb(2 * d, i + j) * p[i] * p[j]

    def integral(c: Sequence[Tensor]) -> Tensor:
        below = torch.stack(_bernstein_basis(len(c), t)).cumsum(0)[:-1]
        return (torch.stack(list(c)) * below).sum(0) / len(c)

    return _from_raw(integral(p), integral(square))


def _bernstein(p: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    return _bernstein_moments(p, torch.zeros_like(p[0]))


def _censored_bernstein(p: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Of max(X, 0): the level of the value 0 is found by bisection."""
    low, high = torch.zeros_like(p[0]), torch.ones_like(p[0])
    for _ in range(60):
        mid = (low + high) / 2
        negative = sum((a * b for a, b in zip(p, _bernstein_basis(len(p) - 1, mid), strict=True)), torch.zeros_like(mid)) < 0
        low, high = torch.where(negative, mid, low), torch.where(negative, high, mid)
    return _bernstein_moments(p, (low + high) / 2)


def _histogram(p: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Of a piecewise constant density: the edges, then the probabilities of the bins."""
    bins = len(p) // 2
    x = torch.stack(list(p))
    low, high, w = x[:bins], x[1 : bins + 1], x[bins + 1 :]
    w = w / w.sum(0)  # float32 probabilities add up to 1 with rounding, which squares of large values would show
    return _from_raw((w * (low + high) / 2).sum(0), (w * (low * low + low * high + high * high) / 3).sum(0))


def _average_histograms(networks: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """The histogram whose quantile function is the mean of those of several histograms with the same edges.

    Shape: edges [b+1] and probabilities [b] of each of n; the result has n(b−1)+1 bins. Its edges are ill-conditioned where
    bins have hardly any probability. Source: Schulz and Lerch 2022, doi:10.1175/MWR-D-21-0150.1.
    """
    bins = len(networks[0]) // 2
    edges = torch.stack(list(networks[0][: bins + 1])).double()
    shares = [torch.stack(list(p[bins + 1 :])).double() for p in networks]
    upper = [q[:-1].cumsum(0).clamp(max=1) for q in shares]
    zero = torch.zeros_like(edges[:1])
    levels = torch.cat([zero, *upper, zero + 1]).sort(0).values
    means = torch.zeros_like(levels)
    for q, up in zip(shares, upper, strict=True):
        at = (up[:, None] < levels[None]).sum(0)  # bin of each level
        at[-1] = bins - 1
        below = torch.cat([zero, up]).gather(0, at)
        share = q.gather(0, at)
        part = torch.where(share > 0, ((levels - below).clamp(min=0) / share).clamp(max=1), 0.0)
        part[-1] = 1
        means += (edges.gather(0, at) + part * (edges.gather(0, at + 1) - edges.gather(0, at))) / len(networks)
    return [x.to(networks[0][0].dtype) for x in (*means, *levels.diff(dim=0))]


def _two(std: float) -> Callable[[Parts], list[Tensor]]:
    """Location and scale of a family whose standard form has mean 0 and a standard deviation."""
    return lambda of: [of.shift, of.sigma / std]


def _log_normal_link(of: Parts) -> list[Tensor]:
    m = soft_floor(of.centre + of.shift)
    v = softplus(2 * torch.log(of.sigma / m))
    return [torch.log(m) - v / 2, torch.sqrt(v)]


def _zero_normal_link(of: Parts) -> list[Tensor]:
    return [torch.sigmoid(-_LOGISTIC_SCALE * (of.centre + of.shift) / of.sigma + of.extra[0]), of.shift, of.sigma]


def _gamma_link(of: Parts) -> list[Tensor]:
    left = softplus(of.extra[0])
    m = soft_floor(of.centre + of.shift + left)
    scale = of.sigma**2 / m
    return [m / scale, scale, left]


def normal_coefficients(degree: int) -> list[float]:
    """Coefficients of the Bernstein quantile function that approximates the standard normal distribution."""
    at = (torch.arange(degree + 1, dtype=torch.float64) + 0.5) / (degree + 1)
    z = torch.special.ndtri(at)
    _, std = _bernstein(list(z))
    return [float(x / std) for x in z]


def _bernstein_link(degree: int) -> Callable[[Parts], list[Tensor]]:
    """Ascending coefficients: each step is sigma times a softplus."""
    begin = normal_coefficients(degree)[0]

    def link(of: Parts) -> list[Tensor]:
        a = [of.shift + of.sigma * begin]
        for step in of.extra:
            a.append(a[-1] + of.sigma * softplus(step))
        return a

    return link


def _histogram_link(of: Parts) -> list[Tensor]:
    """Edges, and the softmax of the logarithms of logistic probabilities of the bins plus the outputs of the network."""
    assert of.edges is not None
    edges = [of.edges[..., i][None, :, :, None, None] for i in range(of.edges.shape[-1])]
    width = of.sigma / _LOGISTIC_STD
    below = [torch.sigmoid((e - of.shift) / width) for e in edges[1:-1]]
    inner = [below[0], *(b - a for a, b in zip(below, below[1:], strict=False)), 1 - below[-1]]
    logits = torch.stack([torch.log(p + _MIN_PROBABILITY) + x for p, x in zip(inner, of.extra, strict=True)])
    return [e.expand_as(of.shift) for e in edges] + list(F.softmax(logits, 0))


def _inverse_softplus(y: float) -> float:
    return math.log(math.expm1(y))


def _roles(role: Role, n: int) -> tuple[Role, ...]:
    return tuple(role for _ in range(n))


def _numbered(name: str, n: int, first: int) -> tuple[str, ...]:
    return tuple(f"{name}_{i + first:02d}" for i in range(n))


_MU_SIGMA: tuple[str, str] = ("mu", "sigma")
_BOTH: tuple[Role, Role] = ("location", "scale")


def family(name: str, degree: int = 0, bins: int = 0) -> Family:
    """The family with an ID of the program.

    Raises NotImplementedError for a family that this package does not know.
    """
    if name == "bernstein":
        z = normal_coefficients(degree)
        return Family(
            _numbered("a", degree + 1, 0),
            _roles("location", degree + 1),
            _bernstein_link(degree),
            _bernstein,
            _numbered("step", degree, 1),
            tuple(_inverse_softplus(b - a) for a, b in zip(z, z[1:], strict=False)),
        )
    if name == "histogram":
        return Family(
            _numbered("edge", bins + 1, 0) + _numbered("p", bins, 1),
            _roles("location", bins + 1) + _roles("invariant", bins),
            _histogram_link,
            _histogram,
            _numbered("bin", bins, 1),
            (0.0,) * bins,
            _average_histograms,
        )
    if name not in _FAMILIES:
        raise NotImplementedError(f"the family {name!r} is not known to this package, only {', '.join(_FAMILIES)}, bernstein and histogram")
    return _FAMILIES[name]


_FAMILIES = {
    "normal": Family(_MU_SIGMA, _BOTH, _two(1), _normal),
    "censored_normal": Family(_MU_SIGMA, _BOTH, _two(1), _censored_normal),
    "truncated_normal": Family(_MU_SIGMA, _BOTH, _two(1), _truncated_normal),
    "logistic": Family(_MU_SIGMA, _BOTH, _two(_LOGISTIC_STD), _logistic),
    "censored_logistic": Family(_MU_SIGMA, _BOTH, _two(_LOGISTIC_STD), _censored_logistic),
    "truncated_logistic": Family(_MU_SIGMA, _BOTH, _two(_LOGISTIC_STD), _truncated_logistic),
    "zero_normal": Family(("p", "mu", "sigma"), ("invariant", "location", "scale"), _zero_normal_link, _zero_normal, ("p",), (0.0,)),
    "log_normal": Family(_MU_SIGMA, ("log_location", "invariant"), _log_normal_link, _log_normal),
    "censored_shifted_gamma": Family(
        ("shape", "scale", "shift"),
        ("invariant", "scale", "scale"),
        _gamma_link,
        _gamma,
        ("gamma_shift",),
        (_inverse_softplus(_GAMMA_SHIFT),),
        _average_gamma,
    ),
    "student": Family(("mu", "sigma", "nu"), ("location", "scale", "invariant"), _two(1), _student),
}
# Families whose distribution of a variable without values below 0 is another one.
_CENSORED = {"normal": "censored_normal", "logistic": "censored_logistic"}


def moments_of(name: str, variable: str, of: Family) -> Moments:
    """Mean and standard deviation of a variable's published distribution."""
    if variable not in NON_NEGATIVE:
        return of.moments
    if name == "bernstein":
        return _censored_bernstein
    return _FAMILIES[_CENSORED[name]].moments if name in _CENSORED else of.moments
