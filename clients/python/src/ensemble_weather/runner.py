"""Running the program, with its progress as a bar and its errors as exceptions."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any

from .errors import EnsembleError

_logger = logging.getLogger("ensemble_weather")
_LEVELS = {"DEBUG": logging.DEBUG, "INFO": logging.INFO, "WARN": logging.WARNING, "ERROR": logging.ERROR}


@dataclass(frozen=True)
class Progress:
    """Progress of a task, such as "train".

    done, total    in units of the task; total 0: not known
    seconds        since it began
    rate           done a second; 0: not known
    seconds_left   estimate; 0: not known
    note           such as "loss 0.312"
    final          the task has ended
    """

    task: str
    done: int
    total: int
    seconds: float
    rate: float
    seconds_left: float
    note: str
    final: bool


def run(
    *command: str,
    program: str | os.PathLike[str] = "ensemble",
    progress: bool | Callable[[Progress], None] = True,
    cwd: str | os.PathLike[str] | None = None,
    **flags: Any,
) -> dict[str, Any]:
    """Run a command of the program and return its JSON answer.

        run("predict", run_dir="runs/a", input=["fc1.grib2", "fc2.grib2"], out="products")
        run("train", config="train.yaml", run_dir="runs/a", set={"train.epochs": 4})

    command are the words of the command and its arguments. Flags are keywords: run_dir is --run-dir. A list repeats a
    flag, a mapping repeats it as KEY=VALUE, True gives it without a value; None leaves it out. program is the path of
    the executable, or its name on PATH.

    progress True shows a bar on standard error, on terminals and in notebooks; a callable gets each report. Other log
    messages go to the logger "ensemble_weather". A KeyboardInterrupt stops the program, which saves its state first.

    Raises EnsembleError with the program's exit code, FileNotFoundError if there is no such program.
    """
    path = shutil.which(os.fspath(program))
    if path is None:
        raise FileNotFoundError(f"no program {str(program)!r} on PATH: add its folder to PATH, or give program=PATH")
    line = [path, *command, *_flags(flags), "--json", "--log-format=json", "--log-interval=300ms"]
    show = progress if callable(progress) else _Bar(sys.stderr) if progress and _shows(sys.stderr) else None
    process = subprocess.Popen(
        line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd, encoding="utf-8", errors="replace"
    )
    assert process.stdout is not None and process.stderr is not None
    answer: list[str] = []
    reader = threading.Thread(target=lambda out: answer.append(out.read()), args=(process.stdout,))
    reader.start()
    try:
        other = _read_log(process.stderr, show)
        process.wait()
    except BaseException as e:
        process.send_signal(signal.SIGINT if isinstance(e, KeyboardInterrupt) else signal.SIGTERM)
        _read_log(process.stderr, None)
        if process.wait() == _SAVED and hasattr(e, "add_note"):
            e.add_note("ensemble saved its state: the same command continues")
        raise
    finally:
        reader.join()
        if isinstance(show, _Bar):
            show.end()
    return _result(process.returncode, answer[0], other, line)


_SAVED = 75  # exit code of a command that was interrupted and saved


def _flags(flags: Mapping[str, Any]) -> list[str]:
    """Keywords as flags."""
    out: list[str] = []
    for name, value in flags.items():
        flag = "--" + name.rstrip("_").replace("_", "-")
        if isinstance(value, Mapping):
            out += [f"{flag}={k}={_text(v)}" for k, v in value.items()]
        elif isinstance(value, (list, tuple)):
            out += [f"{flag}={_text(v)}" for v in value]
        elif value is True:
            out.append(flag)
        elif value is not None:
            out.append(f"{flag}={_text(value)}")
    return out


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _read_log(log: IO[str], show: Callable[[Progress], None] | None) -> list[str]:
    """Read log records to their end. Lines that are not records, such as those of a crash, are returned."""
    other: list[str] = []
    for line in log:
        try:
            record = json.loads(line)
        except ValueError:
            other.append(line.rstrip("\n"))
            continue
        if record.get("kind") == "progress":
            if show is not None:
                show(
                    Progress(
                        record["task"],
                        record["done"],
                        record.get("total", 0),
                        record["seconds"],
                        record.get("rate_per_s", 0.0),
                        record.get("seconds_left", 0.0),
                        record.get("note", ""),
                        record.get("final", False),
                    )
                )
        elif record.get("level") != "ERROR":  # errors are in the answer
            _logger.log(_LEVELS.get(record.get("level", ""), logging.INFO), "%s", record.get("msg", ""))
    return other


def _result(code: int, answer: str, other: list[str], line: list[str]) -> dict[str, Any]:
    """The answer of a command, or its error."""
    try:
        result: dict[str, Any] = json.loads(answer)
    except ValueError:
        result = {}
    if code == 0 and result:
        return result
    if "error" in result:
        raise EnsembleError.from_json(code, result["error"], line)
    why = f"signal {signal.Signals(-code).name}" if code < 0 else "; ".join(other[-5:])
    raise EnsembleError(code, "the program gave no answer", why=why, fix="run the command in a shell", command=line)


def _shows(stream: IO[str]) -> bool:
    """Whether a bar is shown: on a terminal and in a notebook."""
    return stream.isatty() or "ipykernel" in sys.modules


class _Bar:
    """A line that is updated, and kept when its task ends."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream, self.shown = stream, 0

    def __call__(self, p: Progress) -> None:
        text = p.task
        if p.total:
            full = min(16, 16 * p.done // p.total)
            text += f" [{'#' * full}{'.' * (16 - full)}] {p.done}/{p.total}"
        elif p.done:
            text += f" {p.done}"
        text += f" {p.note}" * bool(p.note) + (
            f", {_duration(p.seconds_left)} left" if p.seconds_left and not p.final else f", {_duration(p.seconds)}"
        )
        self._draw(text[: shutil.get_terminal_size().columns - 1])
        if p.final:
            self.stream.write("\n")
            self.shown = 0
        self.stream.flush()

    def _draw(self, text: str) -> None:
        self.stream.write("\r" + text + " " * max(0, self.shown - len(text)))
        self.shown = len(text)

    def end(self) -> None:
        """Remove a line whose task has not ended."""
        if self.shown:
            self.stream.write("\r" + " " * self.shown + "\r")
            self.stream.flush()


def _duration(seconds: float) -> str:
    """45 s, 3:07 or 1:02:45."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, s = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{s:02d}" if minutes >= 60 else f"{minutes}:{s:02d}"
