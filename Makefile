# tsduel: is the candidate faster or slower than the baseline, by how much, and how sure are we?
SHELL := bash
.SHELLFLAGS := -Eeuo pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Knobs. Each can be given on the command line: make tsbs CANDIDATE=v1.134.0 BLOCKS=10
EXPERIMENT ?=# the question, a file in experiments/ (default: experiments/local.yml)
BASELINE ?=# v1.132.0, git:REPO@REF, path:DIRECTORY or binary:FILE
CANDIDATE ?=# the same for the other side
VERSIONS ?=# several versions in one run, the first is what the others are compared with: VERSIONS="v1.128.0 v1.129.0 git:REPO@REF"
ROLE ?=# of an experiment with components: whose revision BASELINE, CANDIDATE, VERSIONS, or GOOD and BAD are, ROLE=vmagent
BLOCKS ?=# how many blocks are measured, each with all variants
AA ?=# 1: the baseline against itself, to see what this machine can tell apart
FAIL_ON ?=# regression: make ends with an error if a metric got worse
MODULE ?=# of Go benchmarks: the module's path, github.com/VictoriaMetrics/VictoriaMetrics
PACKAGE ?=# their package inside it, ./lib/storage
BENCH ?=# their pattern, as -bench takes it: '^BenchmarkSearch$/^Data$'
PROFILE ?=# cpu,heap,block of databases, cpu,mem of Go benchmarks: where the difference is, from one more block after the timed ones
SET ?=# any field of the experiment: SET="workload.scale=4000 queries.workers=4"
RUN ?=# go on with this run, or read it: a directory in results/, or latest
# The knobs of VictoriaMetrics' own benchmarks/Makefile.
TSBS_SCALE ?=# simulated hosts
TSBS_START ?=# begin of the data, 2025-06-10T00:00:00Z
TSBS_END ?=# end of the data
TSBS_STEP ?=# interval between two samples of a series, 80s
TSBS_QUERIES ?=# queries of each type
TSBS_WORKERS ?=# parallel clients of load and queries
RUNS ?=# for make compare-runs: two runs or more, RUNS="latest 20261120T140000Z-local"
METRIC ?=# for make trend, bisect and history: a metric of stats/comparison.csv; load_rate or duel_typical_ms/cpu-max-all-1; also cpu, time, load, load-cpu, memory; for bisect A:B, the ratio of two
GOOD ?=# for make bisect: a revision that is as it was before, v1.131.0 or git:REPO@REF
BAD ?=# for make bisect: a later one that is bad, or better
EXHIBIT ?=# for make museum: exhibits to run, or all
TYPE ?=# for make bisect and history: the query type, or the row of Go benchmarks; all of them unless given
THRESHOLD ?=# for make bisect and history: from how many percent on a revision is bad (default: the metric's own)
VIEW ?=# plain: plain lines instead of the screen that a terminal gets
# Where the blocks run.
TARGET ?=# local (this machine), ssh (another one, which is not changed but for missing packages) or gcp (a rented one)
SSH_HOST ?=# with TARGET=ssh, the machine: user@host or user@host:port; several with commas between them share the blocks
SPARE_HOSTS ?=# with TARGET=ssh, machines that take over the blocks of one that is lost; with TARGET=gcp, how many of each type
SSH_CONFIG ?=# with TARGET=ssh, an ssh_config file in place of your own
REMOTE_DIR ?=# with TARGET=ssh, our directory there (default: /var/tmp/tsduel-USER)
GCP_PROJECT ?=# with TARGET=gcp, the ID of the project that pays
HOSTS ?=# with TARGET=gcp, how many machines of each type share the blocks (default: 1)
SSH_FROM ?=# with TARGET=gcp, from where SSH is let in: your public address, or iap
YES ?=# 1: rent the machine without asking; make reap YES=1: delete
MAX_COST ?=# rent nothing that can cost more than this many USD
KEEP ?=# 1: keep the rented machine until its deadline, also when the run has failed
TF ?=# terraform or tofu (default: what is on PATH, else OpenTofu is built)
ON ?=# for make ssh, which machine of several: host2
# For those who work on this project.
FAST ?=# for make test, 1: in under a minute, what starts no server and makes no report
# What you have already: logs of VictoriaMetrics' own `make tsbs`.
BASELINE_LOG ?=# for make import: the log of the baseline's run; BASELINE= says what to call it
CANDIDATE_LOG ?=# the same for the candidate
TSBS_LOAD_RESULT_CSV_FILE ?=# for make tsbs-plot-load: the CSV of a load, or the whole log
TSBS_LOAD_RESULT_CSV_FILE_COMPARE ?=# a second one, drawn beside it
# Toolchain, modules, binaries, data and databases' files; all can be made again.
TSDUEL_CACHE ?=
CACHE_LIMIT ?=# GB that the cache may take; then goes what was not used for longest (default: 20; null: no limit)
DRY ?=# 1: make clean-cache and make uninstall only say what they would remove

# Values reach the recipes through the environment, so that neither make nor a shell expands anything in them.
KNOBS := EXPERIMENT EXHIBIT BASELINE CANDIDATE VERSIONS ROLE GOOD BAD TYPE THRESHOLD BLOCKS AA FAIL_ON MODULE PACKAGE BENCH PROFILE SET RUN RUNS METRIC VIEW TSDUEL_CACHE \
  TSBS_SCALE TSBS_START TSBS_END TSBS_STEP TSBS_QUERIES TSBS_WORKERS TARGET SSH_HOST SPARE_HOSTS ON SSH_CONFIG REMOTE_DIR \
  GCP_PROJECT HOSTS SSH_FROM YES MAX_COST KEEP TF CACHE_LIMIT DRY FAST BASELINE_LOG CANDIDATE_LOG TSBS_LOAD_RESULT_CSV_FILE TSBS_LOAD_RESULT_CSV_FILE_COMPARE
$(foreach knob,$(KNOBS),$(eval override $(knob) := $$(value $(knob))))
export $(KNOBS)
override TSDUEL_CACHE := $(or $(TSDUEL_CACHE),$(CURDIR)/.cache)
# These programs would write into the home directory.
export ANSIBLE_HOME := $(TSDUEL_CACHE)/ansible
export MPLCONFIGDIR := $(TSDUEL_CACHE)/matplotlib

# Without RUN= these targets make a new run; the other stages read the newest one.
ifneq ($(filter tsbs gobench history plan bisect import,$(MAKECMDGOALS)),)
NEW_RUN := $(shell date -u +%Y%m%dT%H%M%SZ)
ifneq ($(filter bisect,$(MAKECMDGOALS)),)
NEW_RUN := $(NEW_RUN)-bisect
else ifeq ($(filter import,$(MAKECMDGOALS)),)
NEW_RUN := $(NEW_RUN)-$(notdir $(basename $(or $(EXPERIMENT),$(filter gobench history,$(MAKECMDGOALS)),experiments/local.yml)))
endif
endif
# The kind of experiment: without a file, gobench is asked by knobs. For bisect and history KIND=gobench is given.
export KIND := $(filter tsbs gobench,$(MAKECMDGOALS))
# Without RUN= the doctor looks at the experiment.
override RUN := $(or $(RUN),$(NEW_RUN),$(if $(filter doctor,$(MAKECMDGOALS)),,latest))
PYTHON := .venv/bin/python
TSDUEL := $(PYTHON) -m tsduel
# A failure of `make tsbs`, `gobench` or `history` gives rented machines back; a single stage does not.
ELSE_GIVE_BACK := $(if $(filter tsbs gobench history,$(MAKECMDGOALS)),|| $(TSDUEL) give-back "$$RUN" $$?)

##@ Before anything
doctor: ## is all here, or with TARGET= there, that a run needs? It changes nothing
	@scripts/doctor full

look:
	@scripts/doctor fast

##@ Compare
tsbs: look plan provision build run give-back tidy compare $(if $(AA),keep) report ## compare two versions: all the stages below
gobench: look plan provision build run give-back tidy compare $(if $(AA),keep) report ## compare Go benchmarks of two revisions of a module, in the same way
bisect: .venv ## since when? GOOD= BAD= METRIC=cpu: the first bad (or better) version or commit, found by duels against GOOD
history: look plan provision build run give-back tidy compare report .venv ## METRIC= over VERSIONS="v1.128.0 v1.129.0 ...", all in one run, as a table and a picture
	@$(TSDUEL) $@ "$$RUN"

calibrate: look .venv ## what this machine can tell apart, and in what time: three quick runs: a version against itself, an old file of it against a fresh copy, and a slowness of ours
bisect calibrate clean-cache uninstall:
	@scripts/$@

##@ Stages (each reads what the one before wrote; RUN=latest unless given)
plan: ## resolve the experiment and draw the order of blocks
provision: ## say where the blocks run; with TARGET=gcp, rent the machine
build: ## Ansible: install what is missing, and build tsduel-host, TSBS and the variants
run: ## tsduel-host: every block that has not been run yet
give-back: ## TARGET=gcp: destroy, once all blocks are at home (KEEP=1: not)
tidy: ## raw files -> tidy/*.csv
compare: ## tidy/*.csv -> stats/comparison.{csv,json}, stats/*.bench.txt
keep: ## after AA=1: keep in results/aa what the run says of this kind of machine, for later plans and reports
report: ## stats -> report.md, report.html and plots/, and the verdict table on the terminal
plan provision tidy compare keep report: .venv
	$(TSDUEL) $@ "$$RUN"

build run: .venv
	$(TSDUEL) $@ "$$RUN" $(ELSE_GIVE_BACK)

##@ While the blocks run
follow: ## watch a run from another terminal, wherever it runs; Ctrl-C leaves it alone
status: ## what the run is doing, and how many blocks are finished
stop: ## end after the block that is running, wherever that is; twice: now; finished blocks are kept
fetch: ## from another machine: bring home what is finished by now
ssh: ## to another machine: log in where the blocks run

##@ Rented machines
destroy: ## TARGET=gcp: delete everything of this run, and see that nothing is left
reap: .venv ## list what is past its deadline in GCP_PROJECT; YES=1 deletes it
	@$(PYTHON) -m tsduel.places.gcp.reap

##@ Share
comment: ## a Markdown block for a pull request: the verdict, the figures folded, how to reproduce it
give-back follow status stop fetch ssh destroy comment: .venv
	@$(TSDUEL) $@ "$$RUN"

compare-runs: ## RUNS="a b c" side by side, with the reason where they cannot be put into one table
trend: ## METRIC= over all stored runs on the same machine with the same data, as a table and a picture

museum: ## regressions that people reported: list them, or run EXHIBIT=vm-gogc, several with spaces, or all

##@ Your own logs
import: ## two logs of VictoriaMetrics' `make tsbs` -> a table and a picture in results/imported: BASELINE_LOG= CANDIDATE_LOG=
tsbs-plot-load: .venv ## draw the load rate of one or two CSVs: TSBS_LOAD_RESULT_CSV_FILE= TSBS_LOAD_RESULT_CSV_FILE_COMPARE=
	@$(TSDUEL) plot-load

##@ Second opinion
benchstat: .venv ## benchstat's own table of a run: medians and Mann-Whitney, unpaired
	scripts/benchstat "results/$$RUN"

##@ Housekeeping
list: ## every run in results/, newest first: what it compares, how far it is, what came of it
compare-runs trend museum import list: .venv
	@$(TSDUEL) $@

clean-cache: ## say what the cache holds, part by part, and remove it; DRY=1 only says
uninstall: ## leave this machine as it was, but for results/; TARGET=ssh SSH_HOST=...: the other one; DRY=1 only says

##@ Project
test: .venv-dev ## everything that checks the project, up to real runs; FAST=1: what takes under a minute, between two edits
	scripts/test

bench: .venv-dev ## our own speed, side by side with the pipeline of VictoriaMetrics' Makefile
	$(PYTHON) -m bench

help: ## this text
	@scripts/help Makefile

.venv:
	@scripts/bootstrap requirements.lock

.venv-dev:
	@scripts/bootstrap requirements-dev.lock

.PHONY: doctor look bisect history calibrate tsbs gobench plan provision build run give-back tidy compare keep report follow status stop fetch ssh destroy reap comment compare-runs trend museum import \
  tsbs-plot-load benchstat list clean-cache uninstall test bench help .venv .venv-dev
