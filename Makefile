# tsduel: is the candidate faster or slower than the baseline, by how much, and how sure are we?
# A target is one line that calls the command `tsduel`; its commands and knobs are in tsduel/cli/.
SHELL := bash
# -p: no function, start file or option of the user's shell reaches a recipe. Nor does what shapes Python.
.SHELLFLAGS := -p -Eeuo pipefail -c
unexport BASH_ENV ENV CDPATH SHELLOPTS BASHOPTS GLOBIGNORE POSIXLY_CORRECT LANGUAGE
unexport $(filter-out PYTHON,$(filter BASH_FUNC_% PYTHON%,$(.VARIABLES)))
export LC_ALL := C.UTF-8
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help

MAKEFLAGS += --no-print-directory

# Words of the command line reach the recipes through the environment: neither make nor a shell expands their values.
GIVEN := $(strip $(foreach name,$(.VARIABLES),$(if $(filter command line,$(origin $(name))),$(name))))
$(foreach name,$(GIVEN),$(eval override $(name) := $$(value $(name))))
export $(GIVEN)
export TSDUEL_GIVEN := $(GIVEN)
export TSDUEL_GOALS := $(MAKECMDGOALS)
TSDUEL := .venv/bin/python -m tsduel

COMMANDS := tsbs gate gobench bisect worst history calibrate museum queries-check plan provision build run give-back tidy compare keep report follow status stop \
  fetch ssh destroy reap gcp-report comment compare-runs trend import tsbs-plot-load benchstat list

OTHERS := help doctor look test test-all test-k8s proof yardstick bench clean-cache uninstall known .venv .venv-dev
# `make tsbs v1.134.0` would measure something else first.
export TSDUEL_STRAY := $(filter-out $(COMMANDS) $(OTHERS),$(MAKECMDGOALS))

help: known
	@"$$(scripts/bootstrap --python)" -B -m tsduel.cli.commands

# On a fresh clone the machine is looked at before .venv is made.
doctor: known
	@scripts/doctor full

look: known
	@scripts/doctor fast

tsbs gate gobench: export TSDUEL_LOOKED := 1
tsbs gate gobench: look .venv
	@# all stages in this order: plan provision build run give-back tidy compare (keep, after AA=1) report
	@$(TSDUEL) $@

$(filter-out tsbs gate gobench,$(COMMANDS)): .venv
	@$(TSDUEL) $@

clean-cache uninstall: known
	@scripts/$@

# What one person runs between two commits, and the rest.
test: .venv-dev
	@unset MAKEFLAGS MFLAGS MAKELEVEL TSDUEL_GIVEN; scripts/test

test-all: .venv-dev
	@unset MAKEFLAGS MFLAGS MAKELEVEL TSDUEL_GIVEN; scripts/test all

# Real nodes that run pods, for which Kubernetes is built once, in some ten minutes.
test-k8s: .venv-dev
	@unset MAKEFLAGS MFLAGS MAKELEVEL TSDUEL_GIVEN; TSDUEL_TEST_K8S=1 .venv/bin/python -m pytest -q -m "cluster or not cluster" tests/k8s

proof: .venv-dev
	@unset MAKEFLAGS MFLAGS MAKELEVEL TSDUEL_GIVEN; .venv/bin/python -m bench.proof

yardstick: .venv-dev
	@unset MAKEFLAGS MFLAGS MAKELEVEL TSDUEL_GIVEN; .venv/bin/python -m bench.yardstick

bench: .venv-dev
	@unset MAKEFLAGS MFLAGS MAKELEVEL TSDUEL_GIVEN; .venv/bin/python -m bench

.venv: known
	@scripts/bootstrap requirements.lock

.venv-dev: known
	@scripts/bootstrap requirements-dev.lock

# A mistyped knob is refused before anything else, also where there is no .venv yet.
known:
ifneq ($(GIVEN)$(TSDUEL_STRAY),)
	@"$$(scripts/bootstrap --python)" -B -m tsduel.cli.knobs
endif

# What is no target, with the nearest one.
.DEFAULT:
	@"$$(scripts/bootstrap --python)" -B -m tsduel.cli.commands '$(subst ','\'',$@)'

.PHONY: $(OTHERS) $(COMMANDS)
