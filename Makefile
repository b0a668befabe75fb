# Shorthand for `python3 dev.py NAME`, which works without make. Arguments: make test ARGS="-k spaces"

PYTHON ?= python3

.PHONY: play test lint bench docs upstream test-swarm test-k8s

play test lint bench docs upstream:
	@$(PYTHON) dev.py $@ $(ARGS)

test-swarm:
	@$(PYTHON) dev.py swarm $(ARGS)

# make test-k8s BINARIES=DIR
test-k8s:
	@$(PYTHON) dev.py kubernetes --binaries "$(BINARIES)" $(ARGS)
