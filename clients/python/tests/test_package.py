"""The package itself: its wheel, and what happens without PyTorch."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT

FOLDER = ROOT / "clients" / "python"


def test_without_torch() -> None:
    """PyTorch is imported only by load_export, whose error names the extra."""
    code = "import sys; sys.modules['torch'] = None; import ensemble_weather as ew; ew.load_export('nowhere')"
    failed = subprocess.run([sys.executable, "-c", code], cwd=FOLDER, env={"PYTHONPATH": "src"}, capture_output=True, text=True)
    assert failed.returncode == 1 and "ImportError: load_export needs PyTorch: pip install 'ensemble-weather[torch]'" in failed.stderr


def test_wheel(tmp_path: Path) -> None:
    """The wheel is pure Python, typed, and has the licence of the repository."""
    pytest.importorskip("hatchling")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)], cwd=FOLDER, check=True, capture_output=True
    )
    (wheel,) = tmp_path.glob("ensemble_weather-*-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as z:
        names = z.namelist()
        (licence,) = [n for n in names if n.endswith("/licenses/LICENSE")]
        assert z.read(licence) == (ROOT / "LICENSE").read_bytes()
    sources = {str(p.relative_to(FOLDER / "src")) for p in (FOLDER / "src").rglob("*") if p.suffix == ".py" or p.name == "py.typed"}
    assert sources == {n for n in names if ".dist-info/" not in n}
