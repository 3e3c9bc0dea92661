# Both main commands work on a fresh Debian machine as root: make lab, make test.
PY := .venv/bin/python
WORKERS ?= 2
OS ?= debian_13
DESCRIPTION ?=
KUBERNETES ?= 1.34

.PHONY: help setup lab lab-kernel lab-kubernetes clean-lab generate lint coverage
.PHONY: test test-unit test-integration test-kernel test-slow test-all
help: ## Show this help
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 18

setup: .venv/lockstep-setup ## Make .venv from the pinned dependencies
.venv/lockstep-setup: requirements.lock pyproject.toml scripts/setup.sh
	@sh scripts/setup.sh

lab: setup ## Boot the lab, deploy it, check it, run a job; the lab stays up (WORKERS=2 OS=debian_13 DESCRIPTION=)
	@WORKERS=$(WORKERS) OS=$(OS) DESCRIPTION=$(DESCRIPTION) sh scripts/lab.sh

lab-kernel: setup ## The same on machines with kernels of their own, with reboots and RDMA (slow: emulated)
	@WORKERS=$(WORKERS) sh scripts/lab_kernel.sh

lab-kubernetes: setup ## The lab with Kubernetes: names, GPU pods, a second deploy, a power cycle (WORKERS=2 KUBERNETES=1.34)
	@WORKERS=$(WORKERS) KUBERNETES=$(KUBERNETES) sh scripts/lab_kubernetes.sh

clean-lab: setup ## Remove every lab: machines, mounts, networks, caches
	@$(PY) -m lab purge

generate: setup ## Write all generated documents, data and golden files
	@$(PY) -m scripts.generate

lint: setup ## ruff and mypy --strict
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy

test: setup ## Lint, unit tests, and a lab of its own, at the same time (root, 15 min)
	@$(PY) -m scripts.testing test

test-unit: setup ## The unit tests, on all processors; no root, no machines (4 min)
	@$(PY) -m scripts.testing unit

test-integration: setup ## Whole runs of pyinfra over ssh, with faults; nested runs; no root, needs sshd (8 min)
	@$(PY) -m scripts.testing integration

test-kernel: setup ## Huge pages, CPU sets, reboots, RDMA on kernels of their own (root, half an hour)
	@$(PY) -m scripts.testing kernel

test-slow: setup ## Drifts and 356 changes one by one, upgrades, containers, DKMS, Debian 12 (root, 45 min)
	@$(PY) -m scripts.testing slow

test-all: setup ## Everything of test, test-slow and test-kernel (root, 90 min)
	@$(PY) -m scripts.testing all

coverage: setup ## Which lines the unit tests run; fails below the floor in pyproject.toml (8 min)
	@$(PY) -m scripts.testing coverage
	@.venv/bin/coverage report --skip-covered
