"""What the program `ensemble` writes, in Python: products, members, scores, run directories and exported networks."""

from .errors import EnsembleError
from .export import load_export
from .products import open_members, open_products, read_stations
from .rundir import Run, open_run
from .runner import Progress, run
from .scores import open_score_fields, read_dates, read_record, read_scores

__all__ = [
    "EnsembleError",
    "Progress",
    "Run",
    "load_export",
    "open_members",
    "open_products",
    "open_run",
    "open_score_fields",
    "read_dates",
    "read_record",
    "read_scores",
    "read_stations",
    "run",
]
