"""Budget, releases and executables, kept in PostgreSQL over the engine's own connections."""

from .ledger import Ledger
from .pool import Connection, Pool
from .records import Claim, ReleaseRecord, StoredAnswer
from .steps import Use

__all__ = ["Claim", "Connection", "Ledger", "Pool", "ReleaseRecord", "StoredAnswer", "Use"]
