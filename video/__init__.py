"""Video: sources under the video root, exact frames by presentation time, chunk grids, masks and regions."""

from .chunking import make_grid
from .cutout import Cutout, cutout, is_whole
from .decoder import Decoder, Overspent
from .probe import open_footage
from .shapes import mask_pixels, region_pixels, share_pixels
from .spares import Spares

__all__ = ["Cutout", "Decoder", "Overspent", "Spares", "cutout", "is_whole", "make_grid", "mask_pixels", "open_footage", "region_pixels",
           "share_pixels"]
