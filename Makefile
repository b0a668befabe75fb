# Shorthand for `python3 dev.py NAME`, which works without make. Arguments: make test ARGS="-k spaces"

PYTHON ?= python3

.PHONY: play test lint bench upstream test-k8s

play test lint bench upstream:
	@$(PYTHON) dev.py $@ $(ARGS)

# make test-k8s BINARIES=DIR
test-k8s:
	@$(PYTHON) dev.py kubernetes --binaries "$(BINARIES)" $(ARGS)
