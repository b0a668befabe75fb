"""Does an environment keep the rules? The checks behind ``openenv-gym validate``.

A rule (`rules`) has a name, a level and what to do where it is broken; `static` reads files,
`runtime` plays a little, `behaviour` compares trajectories and sessions. ``pytest -p
openenv_gym.conformance.plugin --openenv-env NAME`` runs the same rules as tests.
"""

from openenv_gym.conformance.catalogue import RULES, rules_of, run_rules
from openenv_gym.conformance.rules import Level, Rule
from openenv_gym.conformance.subject import Subject


__all__ = ["RULES", "Level", "Rule", "Subject", "rules_of", "run_rules"]
