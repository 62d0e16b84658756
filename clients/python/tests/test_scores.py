"""Scores, run directories and records, from a training of the program."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import INITS, ROOT, Data

import ensemble_weather as ew


def test_run(run_dir: Path, tmp_path: Path) -> None:
    run = ew.open_run(run_dir)
    assert run.manifest["schema"] == "ensemble.run/1" and run.model["schema"].startswith("ensemble.model/")
    assert "epochs: 2" in run.config() and run.environment
    steps = run.events("step")
    assert list(steps["step"]) == list(range(1, run.manifest["details"]["steps"] + 1)) and np.isfinite(steps["loss"]).all()
    assert list(run.events("epoch")["epoch"]) == [1, 2]
    with pytest.raises(FileNotFoundError, match="resume"):
        ew.open_run(tmp_path)


def test_resumed_events(tmp_path: Path) -> None:
    """Steps that were repeated count once; an unfinished last line is left out."""
    lines = [{"kind": "step", "step": s, "loss": 1.0} for s in (1, 2, 3)] + [
        {"kind": "resumed", "step": 2},
        {"kind": "step", "step": 3, "loss": "nan"},
    ]
    (tmp_path / "manifest.json").write_text("{}")
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines) + '{"kind": "st')
    steps = ew.open_run(tmp_path).events("step")
    assert list(steps["step"]) == [1, 2, 3] and np.isnan(steps["loss"].iloc[2])


def test_maps(run_dir: Path) -> None:
    run = ew.open_run(run_dir)
    maps = run.maps()
    assert {"crps_difference", "p_value", "mean", "analysis", "member"} <= set(maps["kind"])
    mean = run.map("mean", variable="t", level="500hPa", lead="48h")
    assert mean.sizes == {"latitude": 9, "longitude": 18} and 200 < float(mean.mean()) < 330
    assert run.map("member").sizes["realization"] == 3
    against = set(maps[maps["kind"] == "crps_difference"]["reference"])
    assert len(against) > 1 and {run.map("crps_difference", reference=r).reference for r in against} == against
    assert run.map("crps_difference").reference == "raw3"
    p = run.map("p_value", level="850hPa")
    assert 0 <= float(p.min()) and float(p.max()) <= 1
    with pytest.raises(KeyError, match="Run.maps"):
        run.map("mean", variable="u")


def test_scores(run_dir: Path, predict: Callable[..., Path], program: Path, data: Data, tmp_path: Path) -> None:
    """JSON, CSV and Parquet give the same tables."""
    pytest.importorskip("pyarrow")
    out = tmp_path / "scores"
    ew.run(
        "verify",
        program=program,
        progress=False,
        forecast=sorted(predict(run_dir, 34, 35, 36, 37, 38).glob("2*")),
        members=data.folder / "upper.nc",
        analysis=data.folder / "upper_an.nc",
        out=out,
        fields=tmp_path / "fields.nc",
    )
    scores = ew.read_scores(out)
    crps = scores[scores["id"].str.startswith("crps")]
    assert len(crps) and (crps["value"] > 0).all() and set(scores["lead"]) == {"48h"}
    for name in ("scores.parquet", "scores.csv"):
        pd.testing.assert_frame_equal(ew.read_scores(out / name), scores, check_dtype=False)
    diagrams = ew.read_scores(out, "diagrams")
    want = ew.read_scores(out / "diagrams.parquet")
    assert len(diagrams) == len(want)
    pd.testing.assert_series_equal(diagrams["value"].astype(float), want["value"], check_names=False)
    pd.testing.assert_series_equal(diagrams["ci_low"].astype(float), want["ci_low"], check_names=False)
    with pytest.raises(KeyError, match="comparisons"):
        ew.read_scores(out, "nothing")  # type: ignore[arg-type]
    fields = ew.open_score_fields(tmp_path / "fields.nc")
    assert fields.t_crps.sizes["latitude"] == 9 and fields.forecast_period.values.ravel()[0] == np.timedelta64(48, "h")


def test_intervals_of_diagrams(tmp_path: Path) -> None:
    """Only the column that has an interval gets it."""
    diagram = {"id": "reliability", "n": 9, "columns": ["forecast", "observed"], "rows": [[0.1, 0.2], [0.6, None]]}
    diagram |= {"interval_column": "observed", "low": [0.05, None], "high": [0.3, None]}
    (tmp_path / "scores.json").write_text(json.dumps({"diagrams": [diagram]}))
    table = ew.read_scores(tmp_path, "diagrams")
    assert list(table.columns) == ["id", "n", "row", "column", "value", "ci_low", "ci_high"]
    want = [[0.1, np.nan, np.nan], [0.2, 0.05, 0.3], [0.6, np.nan, np.nan], [np.nan, np.nan, np.nan]]
    np.testing.assert_array_equal(table[["value", "ci_low", "ci_high"]].astype(float), want)
    assert list(table["row"]) == [0, 0, 1, 1] and list(table["column"]) == ["forecast", "observed"] * 2


def test_scores_of_run(run_dir: Path) -> None:
    pytest.importorskip("pyarrow")
    run = ew.open_run(run_dir)
    pd.testing.assert_frame_equal(run.scores(), ew.read_scores(run_dir / "scores.parquet"), check_dtype=False)
    dates = run.dates()
    assert set(dates["region"]) == {"all"} and run.dates("tropics").empty
    assert dates["init"].dt.tz is not None and set(dates["init"].dt.tz_localize(None)) <= set(INITS)


def test_record() -> None:
    record = ROOT / "experiments" / "small" / "record.json"
    scores, checks = ew.read_record(record), ew.read_record(record, "checks")
    assert {"variant", "seed", "id", "value"} <= set(scores.columns) and len(scores)
    assert checks["pass"].dtype == bool and len(ew.read_record(record, "runs"))
