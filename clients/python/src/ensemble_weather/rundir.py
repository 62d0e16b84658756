"""Run directories of `ensemble train` and `demo`.

Format: docs/formats/run.md of the program.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from safetensors import safe_open

from .scores import ScoreTable, read_dates, read_scores

PathLike = str | os.PathLike[str]


def open_run(path: PathLike) -> Run:
    """Open the run directory of a finished training.

    Raises FileNotFoundError if the training has not finished.
    """
    folder = Path(path)
    if not (folder / "manifest.json").is_file():
        raise FileNotFoundError(
            f"no finished run in {folder}: it has no manifest.json, which `ensemble train --run-dir {folder} --resume auto` writes last"
        )
    return Run(folder)


@dataclass(frozen=True)
class Run:
    """A finished run directory. Files are read when they are asked for."""

    path: Path

    @functools.cached_property
    def manifest(self) -> dict[str, Any]:
        """manifest.json: version, checksums, inputs, outputs, numbers of initialisations."""
        return _json(self.path / "manifest.json")

    @functools.cached_property
    def environment(self) -> dict[str, Any]:
        """environment.json: machine, versions, seed."""
        return _json(self.path / "environment.json")

    @functools.cached_property
    def model(self) -> dict[str, Any]:
        """model/model.json: network, task, scales, calibration."""
        return _json(self.path / "model" / "model.json")

    def config(self) -> str:
        """The text of config.effective.yaml: every key with its value."""
        return (self.path / "config.effective.yaml").read_text(encoding="utf-8")

    def scores(self, table: ScoreTable = "scores") -> pd.DataFrame:
        """Scores of the test initialisations, as read_scores."""
        return read_scores(self.path, table)

    def dates(self, region: str | None = "all") -> pd.DataFrame:
        """CRPS of each test initialisation and target, as read_dates."""
        return read_dates(self.path, region)

    def events(self, kind: str | None = None) -> pd.DataFrame:
        """Lines of events.jsonl, of one kind such as "step" or "epoch", or all.

        Steps that a resumed run repeated are left out where they were first made, and so is an incomplete last line.
        NaN and infinities are numbers.
        """
        kept: list[dict[str, Any]] = []
        with open(self.path / "events.jsonl", encoding="utf-8") as f:
            for line in f:
                if not line.endswith("\n"):
                    break
                event = {k: _numbers.get(v, v) if isinstance(v, str) else v for k, v in json.loads(line).items()}
                if event["kind"] == "resumed":
                    kept = [e for e in kept if e.get("step", 0) <= event["step"]]
                kept.append(event)
        table = pd.DataFrame([e for e in kept if kind is None or e["kind"] == kind]).dropna(axis="columns", how="all")
        if "t" in table:
            table["t"] = pd.to_datetime(table["t"], utc=True)
        return table

    def maps(self) -> pd.DataFrame:
        """The maps of the report: variable, level, lead and kind of each, for `map`."""
        table = pd.json_normalize(self._example["fields"]).reindex(columns=["kind", "variable", "level", "lead", "reference", "threshold"])
        table["lead"] = pd.to_timedelta(table["lead"].fillna(self._example["lead"]))
        return table

    def map(
        self,
        kind: str,
        *,
        variable: str | None = None,
        level: str | None = None,
        lead: str | pd.Timedelta | None = None,
        reference: str | None = None,
    ) -> xr.DataArray:
        """One map of the report, in SI units; members along `realization`.

        kind is one of docs/formats/run.md: "crps_difference" is the CRPS of the network minus that of a reference,
        mean over all test dates, and "p_value" its significance; "mean", "spread", "analysis", "member" and others are
        of one test initialisation. What is not given is that of the first map of this kind: a reference is then the raw
        members in use.

        Raises KeyError if there is no such map.
        """
        table = self.maps()
        table = table[table["kind"] == kind]
        given = {"variable": variable, "level": level, "lead": None if lead is None else pd.Timedelta(lead), "reference": reference}
        for column, want in given.items():
            if want is None and len(table):
                want = table[column].iloc[0]
            if not pd.isna(want):
                table = table[table[column] == want]
        if table.empty:
            asked = ", ".join(f"{k} {v}" for k, v in given.items() if v is not None)
            raise KeyError(f"no map {kind!r} of {asked or 'any variable'} in the report of {self.path}: Run.maps() lists them")
        first = table.iloc[0]
        with safe_open(self._example_file, framework="numpy") as f:
            fields = [f.get_tensor(f"field.{i:03d}") for i in table.index]
        dims, coords = self._coordinates(fields[0].shape)
        attrs = {k: first[k] for k in ("kind", "variable", "level", "reference", "threshold") if not pd.isna(first[k])}
        coords = {**coords, "forecast_period": first["lead"].to_timedelta64()}
        if kind == "member":
            return xr.DataArray(np.stack(fields), dims=("realization", *dims), coords=coords, name=first["variable"], attrs=attrs)
        return xr.DataArray(fields[0], dims=dims, coords=coords, name=f"{first['variable']}_{kind}", attrs=attrs)

    @property
    def _example_file(self) -> Path:
        return self.path / "report" / "example.safetensors"

    @functools.cached_property
    def _example(self) -> dict[str, Any]:
        with safe_open(self._example_file, framework="numpy") as f:
            example: dict[str, Any] = json.loads(f.metadata()["example"])
        return example

    def _coordinates(self, shape: tuple[int, ...]) -> tuple[tuple[str, str], dict[str, Any]]:
        """Dimensions and coordinates of a map, on the grid or every n-th of its rows and columns."""
        grid: Mapping[str, Any] = self._example["grid"]
        step = 1 if shape == (grid["ny"], grid["nx"]) else int(self._example["coarse_step"])
        lat, lon = np.asarray(grid["lat"]), np.asarray(grid["lon"])
        if grid["kind"] in ("regular_ll", "regular_gg"):
            return ("latitude", "longitude"), {"latitude": lat[::step], "longitude": lon[::step]}
        both = [x.reshape(grid["ny"], grid["nx"])[::step, ::step] for x in (lat, lon)]
        axes = {k: np.asarray(grid[k])[::step] for k in ("y", "x") if k in grid}
        return ("y", "x"), {**axes, "latitude": (("y", "x"), both[0]), "longitude": (("y", "x"), both[1])}


_numbers = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def _json(path: Path) -> dict[str, Any]:
    with open(path, encoding="utf-8") as f:
        content: dict[str, Any] = json.load(f)
    return content
