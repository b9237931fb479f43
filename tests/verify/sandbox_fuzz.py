"""500 mutations of a video file: each is read or refused in words; none ends this process or takes more than its time."""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter
from pathlib import Path

from privid.errors import VideoUnreadable
from privid.video import Decoder, open_footage
from tests.conftest import write_video

MUTATIONS, PATIENCE = 500, 30.0


def mutate(content: bytes, chance: random.Random) -> bytes:
    """Bytes changed, pieces cut out, doubled, swapped, or the end missing."""
    data = bytearray(content)
    match chance.randrange(5):
        case 0:
            for _ in range(chance.choice([1, 5, 50])):
                data[chance.randrange(len(data))] = chance.randrange(256)
        case 1:
            del data[chance.randrange(len(data)):]
        case 2:
            start = chance.randrange(len(data))
            del data[start:start + chance.randrange(1, 400)]
        case 3:
            start = chance.randrange(len(data))
            data[start:start] = data[start:start + chance.randrange(1, 400)]
        case _:
            at = chance.randrange(len(data) - 4)
            data[at:at + 4] = chance.choice([b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"moov", b"mdat"])
    return bytes(data)


def main() -> None:
    chance, outcomes = random.Random(13), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="privid-fuzz-") as place:
        directory = Path(place)
        directory.chmod(0o755)
        content = write_video(directory / "good.mp4", list(range(30))).read_bytes()
        for number in range(MUTATIONS):
            file = directory / "bad.mp4"
            file.write_bytes(mutate(content, chance))
            begun = time.monotonic()
            try:
                footage = open_footage(directory, "bad.mp4", None, directory / f"known-{number}")
                with Decoder(directory, footage) as decoder:
                    decoder.read(0, min(footage.frames, 30), directory)
                outcomes["read"] += 1
            except VideoUnreadable as error:
                outcomes[error.message.replace('"bad.mp4"', "").split(" of ")[0][:40]] += 1
            assert time.monotonic() - begun < PATIENCE, number
    for outcome, count in outcomes.most_common():
        print(f"{count:4} {outcome}")
    assert sum(outcomes.values()) == MUTATIONS


if __name__ == "__main__":
    main()
