"""The baselines that a network may correct (`model.reference`), from reference.safetensors of an export.

Formulas: docs/verification.md of the program; all of them give mean and standard deviation of a normal distribution.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from safetensors import safe_open

Array = npt.NDArray[np.float64]
Fields = npt.NDArray[np.float32]

# At points where the reference is missing the shift is 0 and sigma is _MISSING; it is at least _SMALLEST. Units of the error scale.
_MISSING, _SMALLEST = 1.0, 0.01


class Reference:
    """A baseline with one fit for each target."""

    def __init__(self, method: str, texts: Sequence[Mapping[str, Any]], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        if method not in _METHODS:
            raise NotImplementedError(f"the network corrects the baseline {method!r}, which this package does not compute")
        self.method, self._texts, self._arrays = method, texts, arrays

    @classmethod
    def load(cls, path: Path) -> Reference:
        """Read the file of an export."""
        with safe_open(path, framework="numpy") as f:
            metadata = f.metadata()
            arrays = {name: f.get_tensor(name) for name in f.keys()}
        texts = [json.loads(metadata[k]) for k in sorted(metadata) if k.startswith("target.")]
        method = next(k for k in texts[0] if k not in ("affine_spread", "fitted_to"))
        return cls(method, texts, arrays)

    def units(self, mean: Fields, spread: Fields, valid: Sequence[pd.Timestamp], scale: Fields) -> tuple[Fields, Fields]:
        """Shift of its mean from that of the members, and its standard deviation, in units of the error scale.

        Shape: mean, spread and the result [target level Y X]; valid [target]; scale, 1/error scale, [target level 1 1].
        """
        shift, sigma = np.empty_like(mean), np.empty_like(mean)
        levels = mean.shape[1]
        for t, level in np.ndindex(*mean.shape[:2]):
            i = t * levels + level
            m, s = mean[t, level].ravel().astype(np.float64), spread[t, level].ravel().astype(np.float64)
            mu, sd = _METHODS[self.method](self._texts[i][self.method], functools.partial(self._array, i), m, s, _cycle(valid[t]))
            shift[t, level] = (mu.astype(np.float32).reshape(mean.shape[2:]) - mean[t, level]) * scale[t, level]
            sigma[t, level] = sd.astype(np.float32).reshape(mean.shape[2:]) * scale[t, level]
        missing = ~(np.isfinite(shift) & np.isfinite(sigma))
        return np.where(missing, np.float32(0), shift), np.maximum(np.where(missing, np.float32(_MISSING), sigma), np.float32(_SMALLEST))

    def _array(self, target: int, name: str) -> npt.NDArray[Any]:
        return self._arrays[f"{name}.{target:03d}"]


def _cycle(valid: pd.Timestamp) -> Array:
    """1, sin t, cos t, sin 2t, cos 2t for the phase t of the year."""
    begin = pd.Timestamp(valid.year, 1, 1, tz=valid.tz)
    t = 2 * np.pi * ((valid - begin) / pd.Timedelta(days=1)) / 365.25
    return np.array([1, np.sin(t), np.cos(t), np.sin(2 * t), np.cos(2 * t)])


def _softplus(x: Array) -> Array:
    return np.logaddexp(0, x)


Fit = Callable[[Mapping[str, Any], Callable[[str], npt.NDArray[Any]], Array, Array, Array], tuple[Array, Array]]


def _emos(fit: Mapping[str, Any], _: Callable[[str], npt.NDArray[Any]], mean: Array, spread: Array, cycle: Array) -> tuple[Array, Array]:
    return fit["alpha"] + fit["beta"] * mean, np.sqrt(fit["gamma"] ** 2 + fit["delta"] ** 2 * spread**2)


def _emos_grid(
    fit: Mapping[str, Any], array: Callable[[str], npt.NDArray[Any]], mean: Array, spread: Array, cycle: Array
) -> tuple[Array, Array]:
    theta, scale = array("emos_theta").reshape(-1, 6).T, fit["scale"]
    shift = theta[:3].T @ cycle[:3] + theta[3] * (mean - array("emos_mean")) / scale
    return mean + scale * shift, scale * (_softplus(theta[4]) + _softplus(theta[5]) * spread / scale)


def _emos_point(
    fit: Mapping[str, Any], array: Callable[[str], npt.NDArray[Any]], mean: Array, spread: Array, cycle: Array
) -> tuple[Array, Array]:
    return _regression(fit, array("emos_point_location"), array("emos_point_scale"), mean, spread, cycle)


def _regression(
    fit: Mapping[str, Any], location: npt.NDArray[Any], scale: npt.NDArray[Any], mean: Array, spread: Array, cycle: Array
) -> tuple[Array, Array]:
    """Location a + b m with harmonics of the year, and a link between scale and spread."""
    terms = 2 * int(fit["harmonics"])
    a, c = location.reshape(-1, 2 + terms).T, scale.reshape(-1, 2).T
    mu = a[0] + a[1] * mean + a[2:].T @ cycle[1 : 1 + terms]
    links = {
        "linear": lambda: c[0] + c[1] * spread,
        "quadratic": lambda: np.sqrt(c[0] + c[1] * spread**2),
        "log": lambda: np.exp(c[0] + c[1] * np.log(spread)),
    }
    return mu, links[fit["link"]]()


def _climatology(
    _: Mapping[str, Any], array: Callable[[str], npt.NDArray[Any]], mean: Array, spread: Array, cycle: Array
) -> tuple[Array, Array]:
    return array("climatology_cycle").reshape(-1, 5) @ cycle, array("climatology_sigma")


def _samos(
    fit: Mapping[str, Any], array: Callable[[str], npt.NDArray[Any]], mean: Array, spread: Array, cycle: Array
) -> tuple[Array, Array]:
    centre, width = array("samos_mean_cycle").reshape(-1, 5) @ cycle, array("samos_mean_sigma")
    with np.errstate(divide="ignore", invalid="ignore"):
        m, s = np.where(width == 0, np.nan, (mean - centre) / width), np.where(width == 0, np.nan, spread / width)
    mu, sigma = _regression(
        fit["regression"], array("samos_location"), array("samos_scale"), m, np.maximum(s, fit["min_spread_ratio"]), cycle
    )
    return array("samos_obs_cycle").reshape(-1, 5) @ cycle + array("samos_obs_sigma") * mu, sigma * array("samos_obs_sigma")


_METHODS: dict[str, Fit] = {"emos": _emos, "emos_grid": _emos_grid, "emos_point": _emos_point, "climatology": _climatology, "samos": _samos}
