"""An executable: one row with the mean brightness of the chunk, from 0 (black) to 255 (white).

    CREATE FOREIGN TABLE light (chunk timestamptz, brightness float8 DEFAULT 0)
      SERVER … OPTIONS (executable 'brightness', chunk '5s', stride '0s', timeout '1s', max_rows '1', …);
"""

from collections.abc import Iterator
from typing import Any


def process(chunk: Any) -> Iterator[dict[str, float]]:
    """One pixel of nine is plenty."""
    yield {"brightness": float(chunk.frames[:, ::3, ::3].mean())}
