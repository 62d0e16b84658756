"""Networks of `ensemble model export` as PyTorch modules."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._torch.model import ExportedModel


def load_export(path: str | os.PathLike[str]) -> ExportedModel:
    """Load the folder that `ensemble model export` wrote: a torch.nn.Module that gives the forecast of the program.

        model = load_export("exported")
        forecast = model.predict(xarray.open_dataset("members.nc"))    # mean, spread, parameters, SI
        outputs = model(model.inputs.build(fields, init))              # the same as tensors, with gradients

    The module computes in float32 what `ensemble predict` does. Averages over networks, local maps, the baseline that
    the network corrects, recalibration and censoring at 0 are part of it.

    Raises ImportError without PyTorch, ValueError for another format, NotImplementedError for a network whose forecast
    this package does not compute.
    """
    try:
        from ._torch.model import ExportedModel
    except ModuleNotFoundError as e:
        if e.name != "torch":
            raise
        raise ImportError("load_export needs PyTorch: pip install 'ensemble-weather[torch]'") from e
    return ExportedModel.load(path)
