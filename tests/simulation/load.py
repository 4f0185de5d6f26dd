"""How long the simulations of policies and of limits run, and with which seeds."""

from __future__ import annotations

import os

MINUTES = float(os.environ.get("HEADRACE_TEST_SIMULATED_MINUTES", "6"))
# So many steps for each minute, whatever the speed of the machine.
STEPS_PER_MINUTE = 600
RUNS_COUNT = 6
SEED = os.environ.get("HEADRACE_TEST_SIMULATION_SEED", "")
SEEDS = [int(SEED)] if SEED else range(RUNS_COUNT)
