"""The processes that are measured; `benchmarks.harness` starts and asks them."""
