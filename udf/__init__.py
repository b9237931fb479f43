"""What answers are made with: the grid of `range`, exact noise, and its error."""

from .grid import grid_step, snap
from .interval import error95
from .noise import answer, notice, perturb

__all__ = ["answer", "error95", "grid_step", "notice", "perturb", "snap"]
