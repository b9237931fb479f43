"""Video: sources under the video root, exact frames by presentation time, chunk grids."""

from .chunking import make_grid
from .decoder import Decoder
from .probe import open_footage

__all__ = ["Decoder", "make_grid", "open_footage"]
