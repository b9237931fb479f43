"""The sensitivity calculus: from an analysed statement to what an event can change, and the noise that hides it.

Forward: reader (JSON to nodes), algebra (nodes to operators), rules (operators to certificates and bounds), analysis (the plan),
explanation (EXPLAIN). A new operator is a rule file, its proof beside it, and its fixture in the tests.
"""

from .alike import alike
from .analysis import analyse
from .exact import exact
from .explanation import explain
from .functions import FUNCTIONS
from .reader import parse_select
from .rules.regions import views
from .show import name_range

__all__ = ["FUNCTIONS", "alike", "analyse", "exact", "explain", "name_range", "parse_select", "views"]
