# Both main commands work on a fresh Debian machine as root: make lab, make test.
PY := .venv/bin/python
WORKERS ?= 2
OS ?= debian_13

.PHONY: help setup lab lab-kernel clean-lab test test-kernel test-slow lint generate
help: ## Show this help
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

setup: .venv/lockstep-setup ## Make .venv from the pinned dependencies
.venv/lockstep-setup: requirements.lock pyproject.toml scripts/setup.sh
	@sh scripts/setup.sh

lab: setup ## Boot the lab, deploy it, check it, run a job; the lab stays up (WORKERS=2 OS=debian_13)
	@WORKERS=$(WORKERS) OS=$(OS) sh scripts/lab.sh

lab-kernel: setup ## The same on machines with kernels of their own, with reboots and RDMA (slow: emulated)
	@WORKERS=$(WORKERS) sh scripts/lab_kernel.sh

clean-lab: setup ## Remove every lab: machines, mounts, networks, caches
	@$(PY) -m lab purge

generate: setup ## Write all generated documents, data and golden files
	@$(PY) -m scripts.generate

lint: setup ## ruff and mypy --strict
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy

test: lint ## Everything CI needs: lint, unit tests, a lab of its own (root)
	@sh scripts/test.sh

test-kernel: setup ## Huge pages, CPU sets, reboots, RDMA on kernels of their own (root, half an hour)
	@sh scripts/test.sh --kernel

test-slow: setup ## Drifts one by one, upgrades, containers, DKMS, Debian 12, killed deploys (root, 45 min)
	@sh scripts/test.sh --slow
