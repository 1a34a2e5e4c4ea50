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

# What fails has said why. With -q and `+` make ends with 1 then, and adds no line of its own. `make -n` only shows.
ifeq ($(findstring n,$(filter-out -%,$(firstword $(MAKEFLAGS)))),)
MAKEFLAGS += -q
DO := +@
OR := $() || exit 1
endif
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

help: known
	$(DO)"$$(scripts/bootstrap --python)" -B -m tsduel.cli.commands$(OR)

# On a fresh clone the machine is looked at before .venv is made.
doctor: known
	$(DO)scripts/doctor full$(OR)

look: known
	$(DO)scripts/doctor fast$(OR)

tsbs gate gobench: export TSDUEL_LOOKED := 1
tsbs gate gobench: look .venv
	$(DO)# all stages in this order: plan provision build run give-back tidy compare (keep, after AA=1) report
	$(DO)$(TSDUEL) $@$(OR)

$(filter-out tsbs gate gobench,$(COMMANDS)): .venv
	$(DO)$(TSDUEL) $@$(OR)

clean-cache uninstall: known
	$(DO)scripts/$@$(OR)

# What one person runs between two commits, and the rest.
test: .venv-dev
	$(DO)unset MAKEFLAGS MFLAGS MAKELEVEL TSDUEL_GIVEN; scripts/test$(OR)

test-all: .venv-dev
	$(DO)unset MAKEFLAGS MFLAGS MAKELEVEL TSDUEL_GIVEN; scripts/test all$(OR)

# Real nodes that run pods, for which Kubernetes is built once, in some ten minutes.
test-k8s: .venv-dev
	$(DO)unset MAKEFLAGS MFLAGS MAKELEVEL TSDUEL_GIVEN; TSDUEL_TEST_K8S=1 .venv/bin/python -m pytest -q -m "cluster or not cluster" tests/k8s$(OR)

proof: .venv-dev
	$(DO)unset MAKEFLAGS MFLAGS MAKELEVEL TSDUEL_GIVEN; .venv/bin/python -m bench.proof$(OR)

yardstick: .venv-dev
	$(DO)unset MAKEFLAGS MFLAGS MAKELEVEL TSDUEL_GIVEN; .venv/bin/python -m bench.yardstick$(OR)

bench: .venv-dev
	$(DO)unset MAKEFLAGS MFLAGS MAKELEVEL TSDUEL_GIVEN; .venv/bin/python -m bench$(OR)

.venv: known
	$(DO)scripts/bootstrap requirements.lock$(OR)

.venv-dev: known
	$(DO)scripts/bootstrap requirements-dev.lock$(OR)

# A mistyped knob is refused before anything else, also where there is no .venv yet.
known:
ifneq ($(GIVEN),)
	$(DO)"$$(scripts/bootstrap --python)" -B -m tsduel.cli.knobs$(OR)
endif

# What is no target, with the nearest one.
.DEFAULT:
	$(DO)"$$(scripts/bootstrap --python)" -B -m tsduel.cli.commands '$(subst ','\'',$@)'$(OR)

.PHONY: help doctor look test test-all test-k8s proof yardstick bench .venv .venv-dev known clean-cache uninstall $(COMMANDS)
