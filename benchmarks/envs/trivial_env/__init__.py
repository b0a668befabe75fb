"""An environment that does nothing, with an observation of Atari's usual size; for benchmarks."""
