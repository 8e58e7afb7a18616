# The front door. Every target is one line over build.py or pytest; `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Settings, given as `make image BASE=sim` or in the environment. Empty means images.toml's default.
BASE ?=
PLATFORM ?=
SOURCE ?=
TORCH ?=
INSTALLER ?=
MIRROR ?=
APT ?=
USE_MIRRORS ?=
CARDS ?= 8
export BASE PLATFORM SOURCE TORCH INSTALLER MIRROR APT USE_MIRRORS CARDS

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BUILD := $(BIN)/python build.py
# Bytecode is kept whatever the shell says: without it each of some hundred Python starts compiles everything again.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest
REPORTS := reports

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "; printf "usage: make TARGET [BASE=auto|cann|sim] [PLATFORM=linux/arm64] [SOURCE=auto|git|pypi|DIR] [MIRROR=cn]\n\n"} \
	  /^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- the two commands -------------------------------------------------------------------------------------------------

.PHONY: image
image: venv ## build the images for this machine (installs a Docker engine where there is none)
	@$(BUILD) image

.PHONY: test
test: lint test-unit test-native test-image test-smoke ## lint, unit tests, image tests, smoke tests with the four training steps

# --- tests ------------------------------------------------------------------------------------------------------------

.PHONY: lint
lint: venv ## formatting, types, Dockerfiles, shell, drift of derived files
	@$(BIN)/ruff format --check --quiet . || { echo "fix: make format"; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/hadolint images/*/Dockerfile bench/*/Dockerfile
	@git ls-files -z --cached --others --exclude-standard | xargs -0 awk 'FNR == 1 && /^#!.*[ \/](ba|da)?sh/ {print FILENAME}' | xargs -r $(BIN)/shellcheck
	@$(BUILD) drift
	@echo "lint: clean"

.PHONY: format
format: venv ## let ruff format the Python code
	@$(BIN)/ruff format --quiet . && $(BIN)/ruff check --fix --quiet .

.PHONY: test-unit
test-unit: venv ## unit tests: seconds, no Docker
	@$(PYTEST) tests/unit -q -m "not programs" --numprocesses=auto --dist=worksteal --junitxml=$(REPORTS)/unit.xml

.PHONY: test-native
test-native: venv ## what starts programs of this machine (compiler, git, uv, Docker Compose, processes that hang); no engine
	@$(PYTEST) tests/native tests/unit -q -m programs --numprocesses=auto --dist=worksteal --junitxml=$(REPORTS)/native.xml

.PHONY: test-image
test-image: unfixed test-native ## tests inside the built images, and on simulated cards
	@$(PYTEST) tests/images -q -m "not smoke" --numprocesses=auto --require-images --junitxml=$(REPORTS)/image.xml

# The same image without the NPU fixes: seconds, all but one small layer is shared. Tests show each fault on it.
.PHONY: unfixed
unfixed: venv
	@echo "building the image without fixes, to test against"
	@NO_FIXES=1 $(BUILD) image >/dev/null

.PHONY: test-smoke
test-smoke: venv ## the four training steps inside the built image
	@$(PYTEST) tests/images -q -m smoke --require-images --junitxml=$(REPORTS)/smoke.xml

.PHONY: test-e2e
test-e2e: venv ## whole chains: docker compose up on simulated cards, and its drills (an hour with BASE=cann on Ubuntu; INSTALLER=upstream for real where GitHub answers: half an hour more)
	@$(PYTEST) tests/e2e -q -m e2e --junitxml=$(REPORTS)/e2e.xml

.PHONY: reproduce
reproduce: venv ## build twice from nothing, in two folders: the same digests, or the first file that differs (AGAINST=earlier build)
	@$(BUILD) reproduce

.PHONY: bench
bench: venv ## what building and recap cost, as ratios in one run (REPEAT=3, ONLY=build|start|overhead|seed)
	@$(BUILD) bench

# --- carry: to hosts that build nothing -------------------------------------------------------------------------------

.PHONY: pull
pull: venv ## pull the release for this host's chip and architecture (TAG=... REGISTRY=host/namespace CHIP=910b)
	@$(BUILD) pull

.PHONY: bundle
bundle: venv ## write an air-gapped bundle of the image (SINCE=earlier-bundle OUTPUT=folder-or-.tar IMAGE=...)
	@$(BUILD) bundle

.PHONY: load
load: venv ## verify a bundle and load its image (BUNDLE=... EARLIER=... for one made with SINCE=)
	@$(BUILD) load

# --- pieces -----------------------------------------------------------------------------------------------------------

.PHONY: plan
plan: venv ## print what would be built and write the bake file; no Docker, no network
	@$(BUILD) plan

.PHONY: lock
lock: venv ## resolve the Python sets again (UPGRADE=1 takes the newest versions)
	@$(BUILD) lock $(if $(UPGRADE),--upgrade)

.PHONY: lock-apt
lock-apt: venv ## record the newest system packages, for every base and architecture (one of them emulated: ten minutes each)
	@$(BUILD) lock-apt

.PHONY: engine
engine: venv ## install and start a Docker engine if none answers
	@$(BUILD) engine

.PHONY: engine-stop
engine-stop: venv ## stop the engine that `make engine` started, and no other
	@$(BUILD) engine-stop

.PHONY: sim-host
sim-host: venv ## make this machine a simulated Ascend host (CARDS=8); refuses on a real one
	@$(BUILD) sim-host

.PHONY: sim-host-clean
sim-host-clean: venv ## remove exactly what sim-host made
	@$(BUILD) sim-host-clean

.PHONY: doctor
doctor: venv ## look this host over for what usually goes wrong (ARGS=--json, or other options of doctor --help)
	@$(BUILD) plan >/dev/null && servers=$$($(BIN)/python -m imagekit.servers | sed 's/^/--mirror=/') && \
	  RLINF_NPU_FACTS=build/facts/facts.json $(BIN)/doctor --where host $$servers $(ARGS)

.PHONY: compose
compose: venv ## write compose.override.yaml: cards, driver, image; after a change of .env (make image does it too)
	@$(BUILD) compose

# --- publishing -------------------------------------------------------------------------------------------------------

.PHONY: push
push: venv ## push what was built as candidates (REGISTRY=host/namespace IMAGES="rlinf-npu ..."); prints digests
	@$(BUILD) push $(IMAGES)

.PHONY: index
index: venv ## build both architectures, push the candidates and the index of them (REGISTRY=host/namespace)
	@$(BUILD) index $(IMAGES)

.PHONY: gate
gate: venv ## test IMAGE=host/repository@sha256:... and attach the evidence to it (SUITE=full|quick)
	@$(BUILD) gate

.PHONY: promote
promote: venv ## give the gated IMAGE=...@sha256:... its release tags
	@$(BUILD) promote

.PHONY: ci-local
ci-local: venv ## the pipeline on this machine, against a registry on loopback (FROM=push begins later)
	@$(BUILD) ci-local

.PHONY: clean
clean: ## remove what was built into this folder (images stay)
	rm -rf build compose.override.yaml $(REPORTS) .mypy_cache .ruff_cache .pytest_cache

# --- the host's own Python environment --------------------------------------------------------------------------------

.PHONY: venv
venv: $(VENV)/.complete

# pip_settings: the package index of MIRROR= and the host's CA; asked first, so that a wrong name changes nothing.
# Debian ships venv without pip unless python3-venv is installed.
$(VENV)/.complete: requirements/host.txt runtime/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: $(PYTHON) is older than 3.11"; echo "  fix: make PYTHON=python3.11 ..."; exit 2; }
	@$(PYTHON) -m imagekit.pip_settings true >/dev/null
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then echo "installing python3-venv"; apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null; \
	  else echo "error: this Python has no venv module"; echo "  fix: install python3-venv"; exit 1; fi; }
	@echo "preparing $(VENV)"
	@rm -rf $(VENV) && $(PYTHON) -m venv $(VENV)
	@settings=$$($(BIN)/python -m imagekit.pip_settings $(BIN)/pip) && eval "$$settings" && \
	  $(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/host.txt
	@$(BIN)/pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --editable runtime
	@touch $@
