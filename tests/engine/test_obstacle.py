"""An engine that cannot make a sandbox says so when it starts, and charges for nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.engine.client import EngineProcess, Refused
from tests.engine.conftest import House

#: a mount namespace in which bubblewrap does nothing, as where it may not make namespaces
WITHOUT_SANDBOX = ("unshare", "--mount", "--propagation", "slave", "--", "sh", "-c",
                   'mount --bind /bin/false "$(command -v bwrap)" && exec "$@"', "sh")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_without_a_sandbox_releases_are_refused_before_they_are_charged(house: House, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for path in (tmp_path, *tmp_path.parents[:2]):
        path.chmod(0o755)
    engine = EngineProcess(data, house.engine.videos, house.engine.conninfo)
    request = house.request(house.table(house.video([0] * 40), server={"rho": "1s"}), query="without a sandbox")
    try:
        engine.start(*WITHOUT_SANDBOX)
        (told,) = engine.events("sandbox cannot be made")
        assert told["what"] == "bubblewrap" and told["remedy"]
        with engine.connect() as client:
            assert client.ask("X", request)[0] == "x"
            with pytest.raises(Refused) as refused:
                client.ask("R", request)
        assert refused.value.sqlstate == "PV010" and "privid doctor" in refused.value.body["hint"]
        assert house.database.rows("SELECT 1 FROM privid.release_log WHERE query = 'without a sandbox'") == []
    finally:
        engine.stop()
