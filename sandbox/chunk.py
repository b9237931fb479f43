"""What the engine puts into a chunk's directory, besides the frames, for a program to read."""

from __future__ import annotations

import json
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

__all__ = ["CHUNK_FILE", "FRAMES_FILE", "write_chunk_json"]

CHUNK_FILE = "chunk.json"
FRAMES_FILE = "frames.npy"


def write_chunk_json(directory: Path, *, start: datetime, fps: Fraction, camera: str, region: str, width: int, height: int,
                     frames: int, metadata: dict[str, Any] | None = None) -> Path:
    """Write chunk.json; fps_exact keeps the rate that a float cannot, such as 30000/1001."""
    facts = {"start": start.isoformat(), "fps": float(fps), "fps_exact": f"{fps.numerator}/{fps.denominator}", "camera": camera,
             "region": region, "width": width, "height": height, "frames": frames, "metadata": metadata or {}}
    path = directory / CHUNK_FILE
    path.write_text(json.dumps(facts, ensure_ascii=True) + "\n")
    path.chmod(0o644)
    return path
