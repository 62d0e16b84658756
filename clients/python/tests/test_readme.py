"""The examples of README.md and docs/python.md, as they stand."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, Data

import ensemble_weather as ew

README = ROOT / "clients" / "python" / "README.md"
PAGE = ROOT / "docs" / "python.md"


def examples(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def here(run_dir: Path, data: Data, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the examples name, with the program on PATH."""
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "demo").symlink_to(run_dir)
    for f in data.folder.iterdir():
        (tmp_path / f.name).symlink_to(f) if f.is_file() else None
    (tmp_path / "forecasts.nc").symlink_to(data.folder / "upper.nc")
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_skill_map(here: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    (example,) = examples(README)
    lines = [line for line in example.splitlines() if line.strip()]
    assert len(lines) <= 12, f"{len(lines)} lines, promised are 12"
    exec(compile(example, str(README), "exec"), {})
    picture = (here / "skill.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) > 5000


def test_reading(here: Path, run_dir: Path, predict: Callable[..., Path]) -> None:
    (here / "products").symlink_to(predict(run_dir, 36, set={"products": "[mean,members]"}))
    names: dict[str, object] = {}
    exec(compile(examples(PAGE)[0], str(PAGE), "exec"), names)
    assert set(names["forecast"].data_vars) >= {"t_mean", "t"} and len(names["scores"])  # type: ignore[attr-defined, arg-type]


def test_network(here: Path, run_dir: Path, program: Path) -> None:
    pytest.importorskip("torch", reason="skipped: no PyTorch (pip install torch)")
    ew.run("model", "export", program=program, progress=False, run_dir=run_dir, out=here / "exported")
    names: dict[str, object] = {}
    exec(compile(examples(PAGE)[1], str(PAGE), "exec"), names)
    assert {"t_mean", "t_spread", "t_ensemble_spread", "t_parameter_mu"} <= set(names["forecast"].data_vars)  # type: ignore[attr-defined]


def test_running(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    exec(compile(examples(PAGE)[2], str(PAGE), "exec"), names)
    assert names["answer"]["status"] == "ok"  # type: ignore[index]
    assert "fc1.grib2" in capsys.readouterr().out
