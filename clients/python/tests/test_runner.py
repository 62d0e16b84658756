"""Running the program: answers, errors, progress, interruption."""

from __future__ import annotations

import io
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Data

import ensemble_weather as ew
from ensemble_weather.runner import _Bar


def test_answer(program: Path) -> None:
    answer = ew.run("version", program=program)
    assert answer["status"] == "ok" and answer["command"] == "version"


def test_error(program: Path, tmp_path: Path) -> None:
    with pytest.raises(ew.EnsembleError) as caught:
        ew.run("predict", program=program, run_dir=tmp_path / "none", input=tmp_path / "none.nc", out=tmp_path / "out")
    e = caught.value
    assert e.exit_code == 66 and e.what and e.fix and "none" in e.at
    assert str(e).startswith(f"error[E066]: {e.what}\n  at: {e.at}") and f"\n  fix: {e.fix}" in str(e)
    again = pickle.loads(pickle.dumps(e))
    assert str(again) == str(e) and again.exit_code == 66 and again.command == e.command
    assert e.command[0] == str(program) and e.command[1] == "predict"


def test_several_errors(program: Path, tmp_path: Path) -> None:
    config = tmp_path / "train.yaml"
    config.write_text("version: 1\ntrain: {epochs: -1}\nmodel: {kind: nothing}\n")
    with pytest.raises(ew.EnsembleError) as caught:
        ew.run("config", "check", program=program, config=config)
    assert caught.value.exit_code == 64 and len(caught.value.more) >= 1 and all(m.what for m in caught.value.more)


def test_unknown_flag(program: Path) -> None:
    with pytest.raises(ew.EnsembleError) as caught:
        ew.run("version", program=program, no_such_flag=True)
    assert caught.value.exit_code == 64 and "no-such-flag" in str(caught.value)


def test_no_program() -> None:
    with pytest.raises(FileNotFoundError, match="PATH"):
        ew.run("version", program="no-such-program")


def test_killed(tmp_path: Path) -> None:
    """A program that ends without an answer has its signal and its last lines in the error."""
    script = tmp_path / "crash"
    script.write_text("#!/bin/sh\necho broken >&2\nkill -9 $$\n")
    script.chmod(0o755)
    with pytest.raises(ew.EnsembleError) as caught:
        ew.run("train", program=script)
    assert caught.value.exit_code == -signal.SIGKILL and "SIGKILL" in caught.value.why
    script.write_text("#!/bin/sh\necho broken >&2\nexit 2\n")
    with pytest.raises(ew.EnsembleError) as caught:
        ew.run("train", program=script)
    assert caught.value.exit_code == 2 and caught.value.why == "broken"


def test_progress(program: Path, data: Data, train: Callable[..., Path], tmp_path: Path) -> None:
    train("before")  # the configuration exists
    seen: list[ew.Progress] = []
    ew.run(
        "train",
        program=program,
        progress=seen.append,
        config=data.folder / "train.yaml",
        run_dir=tmp_path / "run",
        set={"train.epochs": 120},
    )
    steps = [p for p in seen if p.task == "train"]
    assert steps and steps[-1].total > 0 and all(a.done <= b.done for a, b in zip(steps, steps[1:], strict=False))
    assert "loss" in steps[-1].note


def test_interrupt(program: Path, data: Data, train: Callable[..., Path], tmp_path: Path) -> None:
    """An interrupted training saves its state, and the same command continues."""
    train("before")
    flags = {"config": data.folder / "train.yaml", "run_dir": tmp_path / "run", "set": {"train.epochs": 2000}}
    stopped = threading.Event()

    def stop(p: ew.Progress) -> None:
        if p.task == "train" and not stopped.is_set():
            stopped.set()
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)

    with pytest.raises(KeyboardInterrupt) as caught:
        ew.run("train", program=program, progress=stop, **flags)
    assert any("same command continues" in note for note in caught.value.__notes__)
    assert (tmp_path / "run" / "checkpoints" / "LATEST").is_file() and not (tmp_path / "run" / "manifest.json").exists()


def test_bar() -> None:
    out = io.StringIO()
    bar = _Bar(out)
    bar(ew.Progress("train", 30, 120, 12.0, 2.5, 36.0, "loss 0.31", False))
    bar(ew.Progress("train", 120, 120, 48.0, 2.5, 0.0, "loss 0.30", True))
    bar.end()
    assert (
        out.getvalue()
        == "\rtrain [####............] 30/120 loss 0.31, 36 s left\rtrain [################] 120/120 loss 0.30, 48 s" + " " * 4 + "\n"
    )
