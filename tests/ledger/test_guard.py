"""A test that is interrupted, or killed, leaves no PostgreSQL behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from privid.cli.processes import wait_until
from tests.ledger.postgres import ROOT

#: what a test does that has a server, and then never ends
ENDLESS = """
import signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # who started the tests may ignore it
from tests.ledger.postgres import temporary_server
with temporary_server() as server:
    print(server.directory, (server.data / "postmaster.pid").read_text().split()[0], flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_a_server_ends_and_its_directory_goes_with_the_test_that_started_it(how: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT) as test:
        assert test.stdout is not None
        directory, pid = test.stdout.readline().split()
        assert Path(f"/proc/{pid}").exists()
        test.send_signal(how)
        test.wait(60)
    assert wait_until(lambda: not Path(f"/proc/{pid}").exists() and not Path(directory).exists(), 60)
