"""Scores of `ensemble verify`, `train` and `demo`, and records of experiments, as tables.

Formats: docs/formats/scores.md and docs/formats/record.md of the program.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import xarray as xr

PathLike = str | os.PathLike[str]

ScoreTable = Literal["scores", "comparisons", "coupling", "skill_components", "ideal_scores", "rank_histograms", "calibration", "diagrams"]
RecordTable = Literal["scores", "runs", "checks", "time_to_quality"]

# Columns of scores.csv that are texts, where an empty cell is an empty text.
_TEXTS = ["id", "system", "variable", "level", "lead", "unit", "divisor", "weights", "formula", "region", "season"]
_TEXTS += ["no_interval", "pair_divisor"]


def read_scores(path: PathLike, table: ScoreTable = "scores") -> pd.DataFrame:
    """Read a table of scores: one row for each object of that array of scores.json, one column for each key.

    path is a folder with scores.json, such as a run directory, or a file: scores.json, or a table as Parquet or CSV,
    whatever `table` is. Missing values are NaN. Diagrams are long, with the columns row, column, value, ci_low and
    ci_high, as in diagrams.parquet; columns and rows of other lists hold lists.

    Raises FileNotFoundError, and KeyError for a table that the file does not have.
    """
    file = Path(path)
    if file.is_dir():
        file = file / "scores.json"
    if file.suffix == ".parquet":
        return pd.read_parquet(file)
    if file.suffix == ".csv":
        numbers = pd.read_csv(file, nrows=0).columns.difference(_TEXTS)
        return pd.read_csv(file, keep_default_na=False, na_values={c: [""] for c in numbers})
    with open(file, encoding="utf-8") as f:
        arrays = json.load(f)
    if table not in arrays:
        raise KeyError(f"{file} has no table {table!r}, only {', '.join(k for k, v in arrays.items() if isinstance(v, list))}")
    rows: list[dict[str, Any]] = arrays[table]
    if table == "diagrams":
        rows = [long for d in rows for long in _long(d)]
    return _missing_as_nan(pd.json_normalize(rows))


def _missing_as_nan(table: pd.DataFrame) -> pd.DataFrame:
    """Columns without any value as numbers that are NaN, as columns with some are."""
    empty = [c for c in table.columns if table[c].isna().all()]
    return table.astype({c: "float64" for c in empty})


def _long(diagram: dict[str, Any]) -> list[dict[str, Any]]:
    """The numbers of a diagram, each with the keys that are not lists, and its interval in the column that has one."""
    head = {k: v for k, v in diagram.items() if not isinstance(v, list) and k != "interval_column"}
    low, high = diagram.get("low") or [], diagram.get("high") or []
    out = []
    for i, numbers in enumerate(diagram["rows"]):
        for column, value in zip(diagram["columns"], numbers, strict=True):
            within = column == diagram.get("interval_column")
            out.append(
                {
                    **head,
                    "row": i,
                    "column": column,
                    "value": value,
                    "ci_low": low[i] if within and low else None,
                    "ci_high": high[i] if within and high else None,
                }
            )
    return out


def read_dates(path: PathLike, region: str | None = "all") -> pd.DataFrame:
    """Read dates.parquet, the CRPS of each initialisation, target and system; path is the file or its folder.

    Rows are of the whole area, or of the named region; with None of all of them.
    """
    file = Path(path)
    table = pd.read_parquet(file / "dates.parquet" if file.is_dir() else file)
    if region is not None:
        table = table[table["region"] == region].reset_index(drop=True)
    table["init"] = pd.to_datetime(table["init"], utc=True)
    return table


def open_score_fields(path: PathLike) -> xr.Dataset:
    """Open scores at each point, as `ensemble verify --fields FILE` writes them, with leads as timedelta64."""
    ds = xr.open_dataset(path, engine="netcdf4", decode_timedelta=False)
    hours = ds["forecast_period"]
    attrs = {k: v for k, v in hours.attrs.items() if k != "units"}
    return ds.assign_coords(
        forecast_period=(hours.dims, pd.to_timedelta(hours.values.ravel(), unit="h").values.reshape(hours.shape), attrs)
    )


def read_record(path: PathLike, table: RecordTable = "scores") -> pd.DataFrame:
    """Read a table of record.json: checks, runs, time_to_quality, or the scores of all runs with variant and seed."""
    with open(path, encoding="utf-8") as f:
        record = json.load(f)
    if table == "scores":
        return pd.DataFrame([{"variant": r["variant"], "seed": r["seed"], **s} for r in record.get("runs", ()) for s in r["scores"]])
    return pd.json_normalize(record.get(table, []))
