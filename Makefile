# Two cores and Python 3.11 are assumed; everything else is installed into .venv from constraints.txt.
PYTHON ?= python3.11
VENV ?= .venv
DIR ?= examples/webshop
BIN := $(VENV)/bin
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

.PHONY: help install up test lint soak bench licences docs clean

help:  ## what there is to make
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

$(VENV)/installed: pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) is not on the PATH. Install Python 3.11 or newer, or name one: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

install: $(VENV)/installed  ## make .venv with the pinned dependencies

up: install  ## run the main job on the example (DIR=... for your own folder)
	$(BIN)/graphtide up $(DIR)

lint: install  ## ruff, mypy and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: install lint licences  ## everything a change must pass
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not soak"

soak: install  ## the long runs: kills, power loss, storms, histories
	$(BIN)/python -m pytest -m soak -o timeout=2400 --durations=15

bench: install  ## the figures, as ratios measured in one run; JSON in bench/out/
	$(BIN)/python -m bench

licences: install  ## fail on a dependency outside the allowed list
	$(BIN)/python -m tests.licences

docs: install  ## write the generated reference pages again
	$(BIN)/python -m graphtide.reference

clean:  ## remove what make made
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis bench/out
