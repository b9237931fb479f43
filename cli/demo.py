"""What make demo shows: a private answer about a street, from the camera's registration to the remaining budget.

Everything it does is SQL that is printed before it is run by psql; the same can be typed by hand.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

from privid.errors import PrividError
from privid.sandbox.capabilities import obstacle

from .layout import default_data
from .library import postgres_build
from .psql import environment_of
from .stack import Stack
from .terminal import CommandFailed, harmless_output, progress

__all__ = ["main"]

_EXAMPLES = Path(__file__).resolve().parent.parent / "examples"

_CAMERA = """\
CREATE SERVER IF NOT EXISTS street FOREIGN DATA WRAPPER privid
  OPTIONS (source 'street.mp4', starts '2026-03-01 08:00+00', rho '4s', k '1', epsilon '10');
GRANT USAGE ON FOREIGN SERVER street TO analyst;"""

_TABLE = """\
CREATE FOREIGN TABLE IF NOT EXISTS passers (chunk timestamptz, kind text DEFAULT '', speed float8 DEFAULT 0, failed boolean)
  SERVER street OPTIONS (executable 'count_people', begin '2026-03-01 08:00+00', "end" '2026-03-01 08:{end}+00',
                         chunk '5s', timeout '1s', max_rows '8');
GRANT USAGE ON SCHEMA analyst TO owner; GRANT SELECT ON passers TO owner;   -- for the look at the truth below"""

_QUERY = "SELECT minute(chunk), count(*) FROM passers WHERE kind = 'person' GROUP BY 1 ORDER BY 1;"

#: what the query takes for a second of video when no chunk has been run yet: a slot of a second for five of them, and its guard
_SECONDS = 1.1 / 5


@harmless_output()
def main(given: list[str] | None = None) -> int:
    """The whole show; again it is quick, because the video, the rows of the chunks and the released answer are kept."""
    parser = argparse.ArgumentParser(prog="demo", description="Show a private answer about a street.")
    parser.add_argument("--data", type=Path, default=default_data().with_name("demo"), help="directory of the demonstration's stack")
    parser.add_argument("--seconds", type=int, default=240, help="length of the scene, in multiples of 5")
    arguments = parser.parse_args(given)
    began = time.monotonic()
    try:
        stack = Stack(arguments.data)
        if (found := obstacle()) is not None:
            raise CommandFailed(f"programs cannot be run on this machine: {found.name}: {found.found}", found.remedy)
        _begin_anew(stack)
        stack.up()
        (stack.layout.state / "demo").write_text(_edition())
        truth = _scene(stack.layout.videos, arguments.seconds)
        _play(stack, truth, arguments.seconds)
    except (CommandFailed, PrividError) as failure:
        print(f"demo: error: {failure.message}", file=sys.stderr)
        if failure.hint:
            print(f"HINT:  {failure.hint}", file=sys.stderr)
        return 1
    _say(f"That took {time.monotonic() - began:.0f} s. The stack goes on running. Ask it more:")
    print(f"    {stack.psql_line()}")
    _say("and end it with:")
    print(f"    .venv/bin/privid down --data {shlex.quote(str(stack.layout.data))}")
    return 0


def _edition() -> str:
    """Changes when anything does that the demonstration is made of."""
    files = [Path(__file__), *sorted(_EXAMPLES.glob("*.py"))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest() + "\n"


def _begin_anew(stack: Stack) -> None:
    """A demonstration of another edition goes: it would answer from another scene, or with a budget that it has used up."""
    mark = stack.layout.state / "demo"
    if mark.exists() and mark.read_text() != _edition():
        stack.down()
        shutil.rmtree(stack.layout.data)


def _scene(videos: Path, seconds: int) -> Any:
    """Renders the street, once, and returns what a perfect observer of it knows."""
    video, known = videos / "street.mp4", videos / "street.json"
    if not (video.exists() and known.exists()):
        script = _EXAMPLES / "street.py"
        if not script.exists():
            raise CommandFailed("the examples are missing", "Run make demo in a checkout.")
        code, output = _wait("rendering a street scene", 12.0, [sys.executable, str(script), str(videos), "--seconds", str(seconds)])
        if code != 0:
            raise CommandFailed(f"could not render the street scene: {output.strip()}")
    return json.loads(known.read_text())


def _play(stack: Stack, truth: Any, seconds: int) -> None:
    minutes = [count["person"] for count in truth["per_minute"]]
    _say(f"A camera films a street for {seconds} seconds. Nobody is visible for longer than {truth['rho_seconds']} s at a time, so "
         "the owner registers it with rho = 4 s and K = 1: whoever passes once is protected.")
    _psql(stack, "owner", _CAMERA)

    _say("An analyst uploads a program that looks at the pixels of one chunk of video and counts who comes in, and makes a table of it: "
         "a row for each passer-by. The program is a stranger's, so it runs in a sandbox that sees 5 seconds at a time and nothing else.")
    _shell(stack, f"privid upload {_EXAMPLES.name}/count_people.py")
    _psql(stack, "analyst", _TABLE.format(end=f"{seconds // 60:02d}:{seconds % 60:02d}"))

    _say("What would it cost to ask how many people came by in each minute? EXPLAIN runs nothing and charges nothing.")
    _psql(stack, "analyst", f"SET privid.epsilon = 4;\nEXPLAIN {_QUERY}", plain=True)

    _say("The answer. The program runs once per chunk, in slots of fixed length, so that not even the time it takes tells anything.")
    _psql(stack, "analyst", f"SET privid.epsilon = 4;\n{_QUERY}", seconds=_SECONDS * seconds)

    _say("How good is it? Only the camera's owner may look at what the program really said:")
    _psql(stack, "owner", f"SET privid.raw = on;\n{_QUERY.replace('FROM passers', 'FROM analyst.passers')}")
    _say(f"The people in the minutes of the scene, as it was drawn: {', '.join(map(str, minutes))}. Some minutes are little to hide in; "
         "over a day the same noise would hardly be seen.")

    _say("The analyst sees no rows:")
    _psql(stack, "analyst", "SELECT * FROM passers;", refused=True)

    _say("Each answer has used some of the camera's budget (10 at first). When it is used up, no more answers come.")
    _psql(stack, "analyst", "SELECT camera, min(begins) AS from, max(ends) AS to, min(remaining) AS remaining\n"
                            "  FROM privid.budget GROUP BY camera;")


def _say(text: str) -> None:
    print("\n" + textwrap.fill(text, 110) + "\n", flush=True)


def _shell(stack: Stack, line: str) -> None:
    """A line of the command line, shown as it is typed and run in the checkout."""
    print(f"$ {line}", flush=True)
    _, *arguments = shlex.split(line)
    done = subprocess.run([sys.executable, "-m", "privid.cli.main", *arguments, "--data", str(stack.layout.data)], cwd=_EXAMPLES.parent,
                          check=False)
    if done.returncode != 0:
        raise CommandFailed(f"{line} failed")
    print(flush=True)


def _psql(stack: Stack, role: str, text: str, refused: bool = False, plain: bool = False, seconds: float = 0.0) -> None:
    """Statements as psql runs them: shown, then their output, notices and errors included."""
    prompt = f"{role}=> "
    print(prompt + text.replace("\n", "\n" + " " * len(prompt)), flush=True)
    command = [str(postgres_build().bindir / "psql"), "-X", "-q", "-P", "pager=off", "-P", "footer=off", "-v", "ON_ERROR_STOP=1",
               "-U", role, "-f", "-"]
    code, output = _wait("running the program over the video", seconds, [*command, "-At"] if plain else command, text + "\n",
                         environment_of(stack))
    if output:
        print(re.sub(r"^psql:<stdin>:\d+: ", "", output, flags=re.MULTILINE).rstrip("\n"), flush=True)
    if (code != 0) != refused:
        raise CommandFailed("the statement was not refused" if refused else "the statement failed",
                            f'See "{stack.layout.log / "postgresql.log"}" and "{stack.layout.log / "engine.log"}".')


def _wait(label: str, seconds: float, command: list[str], text: str = "", environment: dict[str, str] | None = None) -> tuple[int, str]:
    """Exit code and output of a command; meanwhile, on a terminal, a bar grows by the time that it is known to take."""
    with (subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           env=environment) as process,
          progress(max(seconds, 1.0)) as bar):
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(text)
        process.stdin.close()
        began = time.monotonic()
        while seconds and process.poll() is None:
            if time.monotonic() - began > 0.5:  # on a second run there is nothing to wait for
                bar.reach(min(time.monotonic() - began, 0.99 * seconds), label)
            time.sleep(0.05)
        output = process.stdout.read()
    return process.returncode, output


if __name__ == "__main__":
    sys.exit(main())
