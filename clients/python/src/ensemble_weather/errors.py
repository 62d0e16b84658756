"""The error of a command of the program."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any


class EnsembleError(RuntimeError):
    """A command of the program failed.

    exit_code  process exit code, as `ensemble help exit-codes` lists them: 64 usage, 65 bad data, 66 input is
               missing or not complete yet, 75 interrupted and saved; negative: the signal that ended the process
    what       what failed
    at         file, section or key; "" if there is none
    why        cause; "" if it is not known
    fix        next step; "" if there is none
    more       further errors that the command found
    command    the command line
    """

    def __init__(
        self,
        exit_code: int,
        what: str,
        *,
        at: str = "",
        why: str = "",
        fix: str = "",
        more: Sequence[EnsembleError] = (),
        command: Sequence[str] = (),
    ) -> None:
        self.exit_code = exit_code
        self.what, self.at, self.why, self.fix = what, at, why, fix
        self.more, self.command = tuple(more), tuple(command)
        super().__init__(str(self))

    @classmethod
    def from_json(cls, exit_code: int, fault: Mapping[str, Any], command: Sequence[str] = ()) -> EnsembleError:
        """The error of a JSON answer, with its code in place of exit_code if it has one of its own."""
        own = int(str(fault.get("code", ""))[1:] or exit_code)
        parts = {name: str(fault.get(name, "")) for name in ("at", "why", "fix")}
        more = [cls.from_json(own, m) for m in fault.get("more", ())]
        return cls(own, str(fault["what"]), more=more, command=command, **parts)

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle, which worker processes use."""
        parts: dict[str, Any] = {"at": self.at, "why": self.why, "fix": self.fix, "more": self.more, "command": self.command}
        return functools.partial(EnsembleError, **parts), (self.exit_code, self.what)

    def __str__(self) -> str:
        """The message as the program prints it."""
        lines = [f"error[E{self.exit_code:03d}]: {self.what}"]
        lines += [f"  {name}: {text}" for name, text in (("at", self.at), ("why", self.why), ("fix", self.fix)) if text]
        return "\n".join(lines + [str(m) for m in self.more])
